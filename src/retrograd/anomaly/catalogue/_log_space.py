"""The logarithm of a written expression, taken part by part, so that nothing of it underflows or overflows first.

Of ``exp(x)`` it is ``x``, of a product a sum, of a sum ``logaddexp`` or ``logsumexp``, of a sigmoid ``logsigmoid``.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from retrograd.anomaly.catalogue._alike import complements
from retrograd.anomaly.catalogue._code import Line, Site, Written, atom, number_written
from retrograd.anomaly.catalogue._expression import number, size_of
from retrograd.anomaly.catalogue._imports import imported, is_module
from retrograd.anomaly.catalogue._reductions import dims
from retrograd.anomaly.catalogue._scene import Scene
from retrograd.anomaly.catalogue._scopes import names_are_kept, names_read
from retrograd.anomaly.names import TRANSPARENT
from retrograd.anomaly.surroundings import Operand, Operation, Place

_DEPTH = 12
_MOVING = TRANSPARENT | {
    "gather",
    "index_select",
    "take_along_dim",
    "transpose",
    "movedim",
    "diagonal",
    "flatten",
    "flip",
}
_POSITIVE = frozenset(("exp", "exp2", "sigmoid", "softmax", "softplus", "ndtr", "erfc", "i0", "cosh"))
_LOG_2 = 0.6931471805599453
_ROOT_2 = "1.4142135623730951"
_SHIFTS = ("T", "mT")


@dataclass(frozen=True)
class Logarithm:
    """The text of a logarithm, a number to be added to it, and whether it has become another one than of the whole.

    An empty text stands for 0. ``signed`` says that it is of a difference, which two factors may be that are negative.
    """

    text: str = ""
    offset: float = 0.0
    gained: bool = False
    is_number: bool = False
    signed: bool = False

    @property
    def whole(self) -> str:
        """The text with the number."""
        if abs(self.offset) < 1e-15:
            return self.text or "0.0"
        if not self.text:
            return repr(self.offset)
        return f"{self.text} {'-' if self.offset < 0 else '+'} {abs(self.offset)!r}"


@dataclass(frozen=True)
class _Expression:
    """An expression and where its line stands; ``summed`` says whether it is added to others, so that it may be 0."""

    node: ast.AST
    line: Line
    place: Place | None
    summed: bool = False

    def at(self, node: ast.AST, *, summed: bool = False) -> _Expression:
        return replace(self, node=node, summed=self.summed or summed)

    @property
    def text(self) -> str:
        return self.line.text(self.node)


def in_log_space(scene: Scene, log: Operation) -> str | None:
    """The line of a logarithm with that of each part in its place; None where no part of it gains by that."""
    site = scene.site(log)
    node = site.written.argument(0, "input") if site is not None else None
    if site is None or node is None or log.op not in ("log", "log1p"):
        return None
    parts = _Parts(scene, log, site)
    expression = _Expression(node, site.line, site.place)
    found = parts.of_one_plus(expression) if log.op == "log1p" else parts.of(expression)
    if found is None or not found.gained:
        return None
    edits = {site.node: found.whole}
    for other, argument in complements(site.line, site.written) if site.node is site.written.node else ():
        beside = parts.of(expression.at(argument))
        if beside is not None and beside.gained:
            edits[other.node] = beside.whole
    return site.line.replaced(edits)


class _Parts:
    """The parts of what a logarithm is taken of."""

    def __init__(self, scene: Scene, log: Operation, site: Site) -> None:
        self._scene, self._site, self._spelling = scene, site, scene.spelling(site)
        self._known: dict[str, list[Operand]] = {}
        self._made: dict[str, list[_Expression]] = {}
        lines = set()
        for operation in _behind(log):
            for operand in operation.args:
                for name in {operand.text, operand.leaf_name} - {None}:
                    self._known.setdefault(str(name), []).append(operand)
            if (operation.code_line, operation.place) not in lines:
                lines.add((operation.code_line, operation.place))
                self._read(operation)

    def _read(self, operation: Operation) -> None:
        """Note what the line of an operation assigns."""
        line = Line.parse(operation.code_line)
        for name, node in line.assigned() if line is not None and operation.place != self._site.place else ():
            if line is not None:
                self._made.setdefault(name, []).append(_Expression(node, line, operation.place))

    # --- one expression -----------------------------------------------------------------------------------------------

    def of(self, expression: _Expression, depth: int = _DEPTH) -> Logarithm | None:
        """The logarithm of an expression; of the whole, if its parts gain nothing."""
        found = self._of_number(expression) or (self._of_parts(expression, depth - 1) if depth else None)
        if found is not None and (found.gained or found.is_number):
            return found
        if not self._is_positive(expression, depth):
            return None
        return Logarithm(self._spelling.call("log", expression.text))

    def _of_parts(self, expression: _Expression, depth: int) -> Logarithm | None:
        node = expression.node
        if isinstance(node, ast.Name):
            made = self._origin(expression)
            return None if made is None else self.of(replace(made, summed=expression.summed), depth)
        if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in _SHIFTS):
            return self._moved(expression, node.value, depth)
        written = expression.line.operation_at(node)
        if written is None:
            return None
        if written.op in _MOVING:
            return self._moved(expression, written.arguments[0], depth) if written.arguments else None
        if (rule := _RULES.get(written.op)) is not None:
            return rule(self, expression, written, depth)
        return None

    def _origin(self, expression: _Expression) -> _Expression | None:
        """What a name stands for, where that can be written in the line of the logarithm."""
        made = self._made.get(expression.text, [])
        if len(made) != 1 or expression.text in expression.line.parameters():
            return None
        names = names_read(made[0].node)
        kept = names_are_kept(names, made[0].place, self._site.place) and not names & made[0].line.written
        return made[0] if kept else None

    def _moved(self, expression: _Expression, inner: ast.expr, depth: int) -> Logarithm | None:
        """Of elements that are picked, or in another order: the same of their logarithms."""
        found = self.of(expression.at(inner), depth)
        if found is None or not found.gained or not found.text:
            return None
        return replace(found, text=expression.line.text(expression.node, {inner: atom(found.text)}))

    def _of_number(self, expression: _Expression) -> Logarithm | None:
        """Of a number of Python's."""
        known = number_written(expression.node)
        if known is not None:
            return Logarithm(offset=math.log(known), is_number=True) if 0 < known < math.inf else None
        names = [each for each in ast.walk(expression.node) if isinstance(each, ast.Name)]
        modules = {each.id for each in names if is_module(each.id) or each.id == "math"}
        numbers = {each.id for each in names} - modules
        if not names or not all(self._is_number(name) for name in numbers):
            return None
        if not modules <= {"math", *imported("math"), *imported("numpy")}:
            return None
        module = next(iter(sorted(modules)), next(iter((*imported("math"), *imported("numpy"))), None))
        return None if module is None else Logarithm(f"{module}.log({expression.text})", is_number=True)

    def _is_number(self, name: str) -> bool:
        known = self._known.get(name, [])
        return bool(known) and all(each.constant and (number(each.value) or 0.0) > 0 for each in known)

    def _is_positive(self, expression: _Expression, depth: int) -> bool:
        """Whether an expression is above 0, by what it computes or by what is known of its numbers."""
        if (known := number_written(expression.node)) is not None:
            return known > 0
        known_ones = self._known.get(expression.text, [])
        least = [number(each.value if each.min is None else each.min) for each in known_ones]
        if any(size_of(each) == math.inf for each in known_ones):
            return False  # its logarithm would be, too
        if any(each is not None for each in least):
            may_be_zero = expression.summed and self._is_data(expression.node)
            return all(each is None or each > 0 or (may_be_zero and each == 0) for each in least)
        if depth <= 0:
            return False
        if isinstance(expression.node, ast.Name):
            made = self._made.get(expression.text, [])
            return len(made) == 1 and self._is_positive(made[0], depth - 1)
        written = expression.line.operation_at(expression.node)
        if written is None:
            return False
        if written.op in ("add", "mul", "div", "sum", "mean", "sqrt", "reciprocal", *_MOVING):
            number_of = 2 if written.op in ("add", "mul", "div") else 1
            return all(self._is_positive(expression.at(each), depth - 1) for each in written.arguments[:number_of])
        return written.op in _POSITIVE

    def _is_data(self, node: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether no gradient goes to an expression, as far as is known of its names."""
        for name in (each.id for each in ast.walk(node) if isinstance(each, ast.Name)):
            made = self._made.get(name, [])
            if any(
                each.requires_grad or (each.producer is not None and not made) for each in self._known.get(name, [])
            ):
                return False
            if not all(depth and self._is_data(each.node, depth - 1) for each in made):
                return False
        return True

    # --- rules --------------------------------------------------------------------------------------------------------

    def _exp(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        exponent = written.text(0, "input")
        return None if exponent is None else Logarithm(_term(exponent), gained=True)

    def _sigmoid(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        x = written.text(0, "input")
        return None if x is None else Logarithm(self._spelling.functional("logsigmoid", x), gained=True)

    def _softmax(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        return Logarithm(written.renamed("log_softmax"), gained=True)

    def _softplus(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        """Far below 0 it is ``exp(x)``, and its logarithm ``x``."""
        x = written.text(0, "input")
        if x is None or len(written.parts()) > 1:
            return None
        low, spelling = "-10" if self._scene.half else "-40", self._spelling
        near = spelling.call("log", spelling.functional("softplus", replace(spelling, methods=False).clamp(x, low)))
        return Logarithm(spelling.where(f"{atom(x)} < {low}", x, near), gained=True)

    def _cosh(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        x = written.text(0, "input")
        return (
            None if x is None else Logarithm(self._spelling.call("logaddexp", x, f"-{atom(x)}"), -_LOG_2, gained=True)
        )

    def _sinh(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        x = written.text(0, "input")
        return None if x is None else self._minus(x, f"-2 * {atom(x)}", -_LOG_2, is_zero=self._is_zero(x))

    def _expm1(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        x = written.text(0, "input")
        return None if x is None else self._minus(x, f"-{atom(x)}", is_zero=self._is_zero(x))

    def _ndtr(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        x = written.text(0, "input")
        return None if x is None else Logarithm(self._log_ndtr(x), gained=True)

    def _erfc(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        x = written.text(0, "input")
        return None if x is None else Logarithm(self._log_ndtr(f"-{_ROOT_2} * {atom(x)}"), _LOG_2, gained=True)

    def _i0(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        x = written.text(0, "input")
        if x is None:
            return None
        scaled = self._spelling.call("log", self._spelling.tensor_call("special.i0e", x))
        return Logarithm(f"{scaled} + {self._spelling.call('abs', x)}", gained=True)

    def _log_ndtr(self, x: str) -> str:
        return self._spelling.tensor_call("special.log_ndtr", x)

    def _mul(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        return self._joined(*(self.of(expression.at(each), depth) for each in written.arguments[:2]), sign="+")

    def _div(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        return self._joined(*(self.of(expression.at(each), depth) for each in written.arguments[:2]), sign="-")

    def _joined(self, one: Logarithm | None, other: Logarithm | None = None, *, sign: str) -> Logarithm | None:
        if one is None or other is None or (one.signed and other.signed):
            return None
        gained, is_number = one.gained or other.gained, one.is_number and other.is_number
        offset = one.offset + other.offset if sign == "+" else one.offset - other.offset
        if not other.text:
            text = one.text
        elif sign == "-":
            text = f"{one.text} - {atom(other.text)}" if one.text else f"-{atom(other.text)}"
        else:
            text = f"{one.text} + {other.text}" if one.text else other.text
        return Logarithm(text, offset, gained, is_number, one.signed or other.signed)

    def _power(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        exponent = "0.5" if written.op == "sqrt" else "2" if written.op == "square" else written.text(1, "exponent")
        found = self.of(expression.at(written.arguments[0]), depth) if written.arguments else None
        if found is None or exponent is None or not found.gained or found.signed:
            return None
        return Logarithm(f"{atom(exponent)} * {atom(found.whole)}", gained=True)

    def _add(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        left, right = (expression.at(each, summed=True) for each in written.arguments[:2])
        for one, other in ((left, right), (right, left)):
            if number_written(one.node) == 1 and (found := self.of_one_plus(other, depth)) is not None:
                return found
        a, b = self.of(left, depth), self.of(right, depth)
        if a is None or b is None or (a.is_number and b.is_number) or a.signed or b.signed:
            return None
        if not a.is_number and not b.is_number:
            return Logarithm(self._spelling.call("logaddexp", a.whole, b.whole), gained=a.gained or b.gained)
        known, large = (a, b) if a.is_number else (b, a)
        shifted = self._joined(large, known, sign="-")
        if shifted is None or not large.gained:
            return None
        softplus = Logarithm(self._spelling.functional("softplus", shifted.whole), gained=True)
        return self._joined(softplus, known, sign="+")

    def _sub(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        left, right = (expression.at(each) for each in written.arguments[:2])
        if number_written(left.node) == 1:
            return self._of_one_minus(right, depth)
        one, other, less = self._spelled_out(left), self._spelled_out(right), number_written(right.node)
        a = None if one is None or one.op not in ("exp", "sigmoid") else one.text(0, "input")
        if one is None or a is None:
            return None
        if one.op == "exp" and less is not None:
            difference = f"-{atom(a)}" if less == 1 else f"{math.log(less)!r} - {atom(a)}" if less > 0 else None
            return None if difference is None else self._minus(a, difference, is_zero=less == 1 and self._is_zero(a))
        b = other.text(0, "input") if other is not None and other.op == one.op else None
        if b is None:
            return None
        if one.op == "exp":
            return self._minus(a, f"{_term(b)} - {atom(a)}", is_zero=self._are_equal(a, b))
        slope = self._of_negative_expm1(f"{_term(b)} - {atom(a)}", is_zero=self._are_equal(a, b))
        both = (self._spelling.functional("logsigmoid", each) for each in (a, f"-{atom(b)}"))
        return Logarithm(" + ".join((*both, slope)), gained=True)

    def _minus(self, a: str, difference: str, offset: float = 0.0, *, is_zero: bool) -> Logarithm:
        """Of ``exp(a) - exp(b)``, given the difference ``b - a``."""
        slope = self._of_negative_expm1(difference, is_zero=is_zero)
        return Logarithm(f"{_term(a)} + {slope}", offset, gained=True, signed=True)

    def of_one_plus(self, expression: _Expression, depth: int = _DEPTH) -> Logarithm | None:
        """Of one more than an expression; None if that is nothing special."""
        if isinstance(expression.node, ast.UnaryOp) and isinstance(expression.node.op, ast.USub):
            return self._of_one_minus(expression.at(expression.node.operand), depth)
        written = self._spelled_out(expression)
        x = written.text(0, "input") if written is not None else None
        if written is not None and x is not None and written.op == "exp":
            return Logarithm(self._spelling.functional("softplus", x), gained=True)
        if written is not None and x is not None and written.op == "tanh":
            return Logarithm(self._spelling.functional("logsigmoid", f"2 * {atom(x)}"), _LOG_2, gained=True)
        if written is not None and x is not None and written.op == "erf":
            return Logarithm(self._log_ndtr(f"{_ROOT_2} * {atom(x)}"), _LOG_2, gained=True)
        found = self.of(expression, depth - 1) if depth > 0 else None
        if found is None or not found.gained or found.signed:
            return None
        return Logarithm(self._spelling.functional("softplus", found.whole), gained=True)

    def _of_one_minus(self, expression: _Expression, depth: int) -> Logarithm | None:
        """Of one less an expression; None if that is nothing special."""
        written = self._spelled_out(expression)
        x = written.text(0, "input") if written is not None else None
        if written is None or x is None:
            return None
        if written.op == "exp":
            return Logarithm(self._of_negative_expm1(x, is_zero=self._is_zero(x)), gained=True, signed=True)
        if written.op == "sigmoid":
            return Logarithm(self._spelling.functional("logsigmoid", f"-{atom(x)}"), gained=True)
        if written.op == "tanh":
            return Logarithm(self._spelling.functional("logsigmoid", f"-2 * {atom(x)}"), _LOG_2, gained=True)
        if written.op == "ndtr":
            return Logarithm(self._log_ndtr(f"-{atom(x)}"), gained=True)
        return (
            Logarithm(self._log_ndtr(f"-{_ROOT_2} * {atom(x)}"), _LOG_2, gained=True) if written.op == "erf" else None
        )

    def _spelled_out(self, expression: _Expression) -> Written | None:
        """The operation that an expression is, or that its name stands for."""
        if isinstance(expression.node, ast.Name):
            made = self._origin(expression)
            return None if made is None else self._spelled_out(made)
        return expression.line.operation_at(expression.node)

    def _of_negative_expm1(self, x: str, *, is_zero: bool) -> str:
        """``log(1 - exp(x))``; where x is 0 it is infinite all the same."""
        difference = f"-{self._spelling.call('expm1', x)}"
        return self._spelling.call(
            "log", self._spelling.clamp(difference, self._scene.floor) if is_zero else difference
        )

    def _is_zero(self, text: str) -> bool:
        return 0 in [each.value for each in self._known.get(text, [])]

    def _are_equal(self, one: str, other: str) -> bool:
        a, b = ([each.value for each in self._known.get(text, [])] for text in (one, other))
        return any(each is not None and each in b for each in a)

    def _sum(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        if isinstance(getattr(written.node, "func", None), ast.Name):
            return self._sum_of_list(expression, written, depth) if written.arguments else None
        found = self._reduced(expression, written, depth)
        return None if found is None else Logarithm(self._spelling.tensor_call("logsumexp", *found), gained=True)

    def _mean(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        found = self._reduced(expression, written, depth)
        if found is None:
            return None
        total, where = found
        dim = re.match(r"dim=(-?\d+)", where)
        count = f"{atom(total)}.shape[{dim[1]}]" if dim is not None else f"{atom(total)}.numel()"
        module = next(iter((*imported("math"), *imported("numpy"))), None)
        if module is None or not (dim or written.argument(1, "dim", "axis") is None):
            zeros = self._spelling.tensor_call("zeros_like", total)
            log_count = self._spelling.tensor_call("logsumexp", zeros, where)
        else:
            log_count = f"{module}.log({count})"
        return Logarithm(f"{self._spelling.tensor_call('logsumexp', total, where)} - {log_count}", gained=True)

    def _cumsum(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        found = self._reduced(expression, written, depth)
        return None if found is None else Logarithm(self._spelling.tensor_call("logcumsumexp", *found), gained=True)

    def _reduced(self, expression: _Expression, written: Written, depth: int) -> tuple[str, str] | None:
        """The logarithm of what a reduction adds up, and the dimensions."""
        if not written.arguments or self._spelling.numpy:
            return None
        found = self.of(expression.at(written.arguments[0], summed=True), depth)
        if found is None or not found.gained or found.signed:
            return None
        shapes = [each.shape for each in self._known.get(expression.line.text(written.arguments[0]), [])]
        summed = next((Operand(name="input", shape=shape) for shape in shapes if shape is not None), None)
        where = dims(Site(expression.line, written.node, written, expression.place), summed)
        return (found.whole, where) if where else (f"{atom(found.whole)}.flatten()", "dim=0")

    def _prod(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        found = self.of(expression.at(written.arguments[0]), depth) if written.arguments else None
        if found is None or not found.gained or found.signed:
            return None
        site = Site(expression.line, written.node, written, expression.place)
        where = dims(site, None, numpy=self._spelling.numpy)
        total = "cumsum" if written.op == "cumprod" else "sum"
        return Logarithm(f"{atom(found.whole)}.{total}({where})", gained=True)

    def _matmul(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        """Of a matrix times a vector, or a vector times a matrix: a sum of products, each with its own logarithm."""
        sides = [expression.at(each, summed=True) for each in written.arguments[:2]]
        counts = [self._dimensions(each) for each in sides]
        found = [self.of(each, depth) for each in sides]
        logs = [each for each in found if each is not None and not each.is_number]
        if len(logs) < 2 or not any(each.gained for each in logs) or any(each.signed for each in logs):
            return None
        if self._spelling.numpy or None in counts:
            return None
        left, right = (each.whole for each in logs)
        if counts[1] == 1:
            where = "dim=-1"
        elif counts == [1, 2]:
            left, where = f"{atom(left)}.unsqueeze(-1)", "dim=0"
        else:
            return None
        return Logarithm(self._spelling.tensor_call("logsumexp", f"{left} + {right}", where), gained=True)

    def _dimensions(self, expression: _Expression) -> int | None:
        shapes = [each.shape for each in self._known.get(expression.text, []) if each.shape is not None]
        return len(shapes[0]) if shapes else None

    def _sum_of_list(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        """Of what Python's own ``sum`` adds up."""
        summed = self._list(expression.at(written.arguments[0]), depth) if len(written.arguments) == 1 else None
        if summed is None:
            return None
        stacked = self._spelling.tensor_call("stack", summed)
        return Logarithm(self._spelling.tensor_call("logsumexp", stacked, "dim=0"), gained=True)

    def _stack(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        tensors = self._list(expression.at(written.arguments[0]), depth) if written.arguments else None
        if tensors is None:
            return None
        return Logarithm(expression.line.text(expression.node, {written.arguments[0]: tensors}), gained=True)

    def _list(self, expression: _Expression, depth: int) -> str | None:
        """A list of the logarithms of what is in a list."""
        node = expression.node
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            found = self.of(expression.at(node.elt, summed=True), depth)
            if found is None or not found.gained or found.signed:
                return None
            return f"[{found.whole}{''.join(ast.unparse(each) for each in node.generators)}]"
        if not isinstance(node, (ast.List, ast.Tuple)):
            return None
        items = [self.of(expression.at(each, summed=True), depth) for each in node.elts]
        known = [each for each in items if each is not None and not each.is_number]
        if len(known) < len(items) or not any(each.gained for each in known) or any(each.signed for each in known):
            return None
        return f"[{', '.join(each.whole for each in known)}]"

    def _where(self, expression: _Expression, written: Written, depth: int) -> Logarithm | None:
        if written.form == "method" or len(written.arguments) != 3:
            return None
        branches = [self.of(expression.at(each), depth) for each in written.arguments[1:]]
        found = [each for each in branches if each is not None]
        if len(found) < 2 or not any(each.gained for each in found):
            return None
        condition = expression.line.text(written.arguments[0])
        signed = any(each.signed for each in found)
        return Logarithm(self._spelling.where(condition, found[0].whole, found[1].whole), gained=True, signed=signed)


_Rule = Callable[[_Parts, _Expression, Written, int], Logarithm | None]
_RULES: dict[str, _Rule] = {
    "exp": _Parts._exp,
    "sigmoid": _Parts._sigmoid,
    "softmax": _Parts._softmax,
    "softplus": _Parts._softplus,
    "cosh": _Parts._cosh,
    "sinh": _Parts._sinh,
    "expm1": _Parts._expm1,
    "ndtr": _Parts._ndtr,
    "erfc": _Parts._erfc,
    "i0": _Parts._i0,
    "mul": _Parts._mul,
    "div": _Parts._div,
    "sqrt": _Parts._power,
    "square": _Parts._power,
    "pow": _Parts._power,
    "add": _Parts._add,
    "sub": _Parts._sub,
    "sum": _Parts._sum,
    "mean": _Parts._mean,
    "cumsum": _Parts._cumsum,
    "prod": _Parts._prod,
    "cumprod": _Parts._prod,
    "matmul": _Parts._matmul,
    "dot": _Parts._matmul,
    "stack": _Parts._stack,
    "where": _Parts._where,
}


def _behind(operation: Operation, depth: int = _DEPTH) -> Iterator[Operation]:
    """An operation and those that its operands come from."""
    yield operation
    for operand in operation.args if depth else ():
        if operand.producer is not None:
            yield from _behind(operand.producer, depth - 1)


def _term(text: str) -> str:
    """An expression that can be a summand."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return f"({text})"
    arithmetic = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.MatMult, ast.FloorDiv, ast.Mod)
    is_term = isinstance(node, ast.BinOp) and isinstance(node.op, arithmetic)
    return text if is_term or isinstance(node, ast.UnaryOp) else atom(text)
