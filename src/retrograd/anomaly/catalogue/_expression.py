"""Recognising what an operation computes from its operands and where they came from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from retrograd.anomaly.operation_names import TRANSPARENT, canonical
from retrograd.anomaly.surroundings import Operand, Operation

_REVERSED = {"rsub": "sub", "rdiv": "div", "rpow": "pow"}
_SECOND = {"pow": "exponent"}
_DEPTH = 8

DIVISIONS = ("div", "remainder", "fmod", "floor_divide")
LOGS = ("log", "log2", "log10")
EXPONENTIALS = ("exp", "exp2", "expm1", "sinh", "cosh")
_CUT = frozenset(
    ("detach", "eq", "ne", "lt", "le", "gt", "ge", "sign", "round", "floor", "ceil", "heaviside", "one_hot")
)


def normal(operation: Operation, depth: int = 0) -> Operation:
    """The operation and its producers, under canonical names and with the operands of reversed operators swapped."""
    op = canonical(operation.op)
    args = tuple(_normal_operand(operand, depth) for operand in operation.args)
    if op in _REVERSED and len(args) >= 2:
        op = _REVERSED[op]
        second = _SECOND.get(op, "other")
        args = (replace(args[1], name="input"), replace(args[0], name=second), *args[2:])
    return replace(operation, op=op, args=args)


def _normal_operand(operand: Operand, depth: int) -> Operand:
    producer = None
    if operand.producer is not None and depth < _DEPTH:
        producer = normal(operand.producer, depth + 1)
    return replace(operand, name="input" if operand.name == "self" else operand.name, producer=producer)


def named(operation: Operation, *names: str) -> Operand | None:
    """The operand of one of these names."""
    return next((operand for name in names for operand in operation.args if operand.name == name), None)


def first(operation: Operation | None) -> Operand:
    """The first operand; one of which nothing is known, if there is none."""
    return operation.args[0] if operation is not None and operation.args else Operand(name="input")


def second(operation: Operation | None) -> Operand | None:
    """The second operand of a binary operation."""
    return operation.args[1] if operation is not None and len(operation.args) > 1 else None


def maker(operand: Operand | None, *ops: str) -> Operation | None:
    """The operation that made an operand, if it is one of these; operations that merely pass on values are skipped."""
    producer = operand.producer if operand is not None else None
    while producer is not None and producer.op not in ops:
        if producer.op not in TRANSPARENT:
            return None
        producer = first(producer).producer
    return producer


def made_from(operand: Operand | None, *ops: str, depth: int = 4) -> Operation | None:
    """The nearest operation of these kinds that an operand was computed from."""
    return nearest(operand, lambda made: made.op in ops, depth)


def nearest(operand: Operand | None, is_meant: Callable[[Operation], bool], depth: int) -> Operation | None:
    """The nearest operation for which ``is_meant`` holds, of those that an operand was computed from."""
    producer = operand.producer if operand is not None else None
    if producer is None or depth == 0:
        return None
    if is_meant(producer):
        return producer
    return next((found for inner in producer.args if (found := nearest(inner, is_meant, depth - 1))), None)


def ancestors(operation: Operation, depth: int) -> Iterator[Operation]:
    """An operation and those that its operands come from, nearest first."""
    yield operation
    for operand in operation.args if depth else ():
        if operand.producer is not None:
            yield from ancestors(operand.producer, depth - 1)


def has_gradient(operand: Operand) -> bool:
    """Whether a gradient flows to an operand or to what it was computed from, as far as is known."""
    made = operand.producer
    if operand.requires_grad or made is None or made.op in _CUT or "float" not in (operand.dtype or "float"):
        return operand.requires_grad
    return any(has_gradient(each) for each in made.args)


def number(value: Any) -> float | None:
    """A real number as a float, or None."""
    if isinstance(value, (bool, str, bytes, complex)) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def is_number(operand: Operand) -> bool:
    """Whether it is a Python number, which PyTorch keeps as a tensor of the widest type."""
    return operand.constant or (operand.shape == () and operand.dtype in ("torch.int64", "torch.float64"))


def value(operand: Operand | None) -> float | None:
    """The real value at the element, if known."""
    return None if operand is None else number(operand.value)


def size_of(operand: Operand) -> float | None:
    """The largest absolute value that went in, as far as is known."""
    given = (operand.value, operand.min, operand.max)
    known = (math.hypot(each.real, each.imag) if isinstance(each, complex) else number(each) for each in given)
    return max((abs(each) for each in known if each is not None), default=None)


def same(a: Operand | None, b: Operand | None) -> bool:
    """Whether two operands are one tensor, as far as is known: by identity, by name, by how they were made."""
    if a is None or b is None:
        return False
    a, b = source(a), source(b)
    if a.key is not None and b.key is not None:
        return a.key == b.key
    if a.text is not None and a.text == b.text:
        return True
    if a.leaf_name is not None and b.leaf_name is not None:
        return a.leaf_name == b.leaf_name
    return _alike(a.producer, b.producer)


def _alike(a: Operation | None, b: Operation | None) -> bool:
    """Whether two operations compute the same from the same, judging by the operands that both know."""
    if a is None or b is None or a.op != b.op or (a.place, a.code_line) != (b.place, b.code_line):
        return False
    return all(same(x, y) for x, y in zip(a.args, b.args, strict=False) if not x.constant and not y.constant)


def source(operand: Operand) -> Operand:
    """The tensor behind casts and views."""
    while (
        operand.producer is not None
        and operand.producer.op in TRANSPARENT
        and operand.producer.op not in ("getitem", "select")
    ):
        operand = first(operand.producer)
    return operand


def squared(operand: Operand | None) -> Operand | None:
    """What an operand is the square of."""
    producer = maker(operand, "pow", "square", "mul")
    if producer is None:
        return None
    by_itself = same(first(producer), second(producer)) if producer.op == "mul" else value(second(producer)) == 2
    return first(producer) if producer.op == "square" or by_itself else None


def is_flat(operand: Operand | None, depth: int = _DEPTH) -> bool:
    """Whether an operand is a square, a multiple of one or a sum of such: where it is 0, so is its derivative."""
    if squared(operand) is not None:
        return True
    made = maker(operand, "add", "mul", "div", "sum", "mean")
    if made is None or not depth:
        return False
    terms = [is_flat(each, depth - 1) for each in made.args[: 2 if made.op in ("add", "mul") else 1]]
    return any(terms) if made.op == "mul" else bool(terms) and all(terms)


def one_minus(operand: Operand | None) -> Operand | None:
    """What was subtracted from one to give an operand."""
    producer = maker(operand, "sub", "add")
    if producer is None or second(producer) is None:
        return None
    if producer.op == "sub":
        one = first(producer)  # a number, and no sigmoid that is 1 at this element only
        return second(producer) if value(one) == 1 and one.producer is None else None
    for one, other in (producer.args[:2], producer.args[1::-1]):
        if value(one) == 1 and one.producer is None and (negated := maker(other, "neg")):
            return first(negated)
    return None


def addends(operand: Operand | None) -> tuple[Operand, Operand] | None:
    """The two operands of the addition that made an operand."""
    producer = maker(operand, "add")
    return producer.args[:2] if producer is not None and len(producer.args) > 1 else None  # type: ignore[return-value]


def plus_one(operand: Operand | None) -> Operand | None:
    """The other summand if an operand was computed as one plus something."""
    pair = addends(operand)
    if pair is None:
        return None
    for one, other in (pair, pair[::-1]):
        if value(one) == 1 and one.producer is None:
            return other
    return None


def denominator(operation: Operation) -> Operand | None:
    """What an operation divides by."""
    if operation.op in DIVISIONS:
        return second(operation)
    if operation.op == "reciprocal":
        return first(operation)
    if operation.op == "pow" and (exponent := value(second(operation))) is not None and exponent < 0:
        return first(operation)
    return None


def is_masked(operand: Operand) -> bool:
    """Whether an operand is -inf at the element, or a mask is known to have written that there."""
    if value(operand) is not None:
        return value(operand) == -math.inf
    made = maker(operand, "masked_fill", "where")
    condition = None if made is None else named(made, "condition", "mask")
    if made is None or condition is None or not isinstance(condition.value, bool):
        return False
    position = 2 if made.op == "masked_fill" or not condition.value else 1
    if made.op == "masked_fill" and not condition.value:
        return False
    written = made.args[position] if position < len(made.args) else None
    return value(written) == -math.inf


def unscaled(operand: Operand | None, *, by_data: bool = False) -> Operand | None:
    """An operand without plain factors and casts: ``var`` for ``2 * var``.

    Factors that came in as tensors without a gradient are left out, too, if ``by_data``.
    """
    while (producer := maker(operand, "mul", "div", "neg")) is not None:
        tensors = [inner for inner in producer.args[:2] if not is_number(inner)]
        if by_data and len(tensors) == 2:
            tensors = [inner for inner in tensors if inner.requires_grad or inner.producer is not None]
        if len(tensors) != 1 or (producer.op == "div" and tensors[0] is not producer.args[0]):
            break
        operand = tensors[0]
    return operand


def root(operation: Operation | None) -> Operand | None:
    """What an operation takes a square root of (or another root, or its reciprocal)."""
    if operation is None or operation.op not in ("sqrt", "rsqrt", "pow"):
        return None
    is_root = operation.op != "pow" or 0 < abs(value(second(operation)) or 0.0) < 1
    return first(operation) if is_root else None


def summed_square(operand: Operand | None) -> tuple[Operation, Operand] | None:
    """The sum that made an operand, and what was squared in it: ``sum(x ** 2)``, ``x @ x``."""
    total = maker(operand, "sum", "dot", "matmul")
    if total is None:
        return None
    if total.op != "sum":
        return (total, first(total)) if same(first(total), second(total)) else None
    inner = squared(first(total))
    return None if inner is None else (total, inner)


def euclidean(operand: Operand | None) -> Operand | None:
    """The vector of which an operand is the Euclidean norm, by :func:`norm` or written out."""
    if norm := maker(operand, "norm"):
        return first(norm)
    found = summed_square(root(maker(operand, "sqrt", "pow")))
    return None if found is None else found[1]


def least_size(operand: Operand) -> float:
    """The smallest absolute value that went in, as far as is known; 0 if it is not."""
    low, high = (number(operand.value if each is None else each) for each in (operand.min, operand.max))
    return 0.0 if low is None or high is None or low <= 0 <= high else min(abs(low), abs(high))


def least(operand: Operand) -> float | None:
    """The smallest value that went in, as far as is known; of a mask, 0."""
    if "bool" in (operand.dtype or ""):
        return 0.0
    return number(operand.value if operand.min is None else operand.min)


def shown(number: Any) -> str:
    """A number in readable form."""
    if isinstance(number, float) and math.isfinite(number):
        text = f"{number:.6g}"
        return text if float(text) == number or abs(number - 1) > 1e-5 else repr(number)
    return str(number)
