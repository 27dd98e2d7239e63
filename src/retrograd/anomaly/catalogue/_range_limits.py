"""How large a number may be for the operations that follow it to stay in range."""

from __future__ import annotations

import math
from collections.abc import Sequence

from retrograd.anomaly.catalogue._expression import EXPONENTIALS, first, maker, named, second, size_of, value
from retrograd.anomaly.surroundings import Operand, Operation

_SQUARES = frozenset(("square", "mse_loss", "norm", "std", "var"))
_SUMS = frozenset(("sum", "mean", "cumsum", "linear", "matmul", "dot", "convolution", "einsum", *_SQUARES - {"square"}))
_BOUNDED = frozenset(
    ("log", "log10", "log1p", "log2", "log_softmax", "logsigmoid", "sigmoid", "softmax", "tanh", "layer_norm", "atan2")
)  # whose results are small, whatever they are given
_UNKNOWN = math.log(1e3)  # for a number of summands that is not known


def allowed(chain: Sequence[Operation], limit: float) -> float:
    """How large a number may be for what follows it.

    Parameters
    ----------
    chain
        The operation that makes the number, and those that it goes through.
    limit
        The natural logarithm of the largest number of the type.

    Returns
    -------
    float
        The natural logarithm of the largest result of the first operation whose way through the others stays in range,
        as far as it is known what they compute.
    """
    most = limit
    for operation, before in reversed(list(zip(chain[1:], chain, strict=False))):
        most = min(limit, _before(operation, before, most, limit))
    return most


def _before(operation: Operation, before: Operation, most: float, limit: float) -> float:
    """How large the operand of an operation may be if its result must not exceed ``most``."""
    if operation.op in _BOUNDED:
        return limit
    if operation.op in EXPONENTIALS:
        return math.log(max(most, 1.0))
    if operation.op in ("mul", "div"):
        return _before_product(operation, before, most)
    if operation.op == "pow":
        power = abs(value(second(operation)) or 2.0)
        return most / max(power, 1.0)
    if operation.op in ("add", "sub"):
        return most - math.log(2)
    if operation.op in _SUMS:
        most -= _number_of_summands(operation)
        weight = named(operation, "weight", "other", "mat2")
        size = size_of(weight) if weight is not None else None
        most -= math.log(size) if size is not None and 1.0 < size < math.inf else 0.0
    return most / 2 if operation.op in _SQUARES else most


def _before_product(operation: Operation, before: Operation, most: float) -> float:
    sides = operation.args[:2]
    others = [side for side in sides if not _is_grown(side, before)]
    if not others and operation.op == "mul":
        return most / 2
    divided = operation.op == "div" and len(sides) > 1 and others == [sides[1]]
    for other in others if operation.op == "mul" or divided else ():
        known = size_of(other) if value(other) is None else abs(value(other) or 0.0)
        if divided and (known is None or not math.isfinite(known)):
            continue
        if known is None or not math.isfinite(known):
            return most / 2  # as large as the other one
        logarithm = math.log(known) if known else 0.0
        most -= max(-logarithm if divided else logarithm, 0.0)
    return most


def _is_grown(operand: Operand, before: Operation) -> bool:
    """Whether an operand was made by an operation, or by another one of its kind."""
    return maker(operand, before.op) is not None


def _number_of_summands(operation: Operation) -> float:
    shape = first(operation).shape
    return _UNKNOWN if shape is None else math.log(max(math.prod(shape), 1))
