"""The logarithm of a written expression, taken part by part: what names stand for in it, and what is above 0.

Rules for the single operations are in ``_log_rules``.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from retrograd.anomaly.catalogue._definitions import Definitions, Expression
from retrograd.anomaly.catalogue._expression import ancestors, first, least, maker, number, size_of
from retrograd.anomaly.catalogue._imports import imported, is_module
from retrograd.anomaly.catalogue._inlining import inlined
from retrograd.anomaly.catalogue._scene import Scene
from retrograd.anomaly.catalogue._source_line import NOTHING, Line, Site, Written, atom, is_name, number_written
from retrograd.anomaly.operation_names import TRANSPARENT
from retrograd.anomaly.parsing import names_in
from retrograd.anomaly.surroundings import Operand, Operation

DEPTH = 12
_MOVING = TRANSPARENT | {"gather", "take_along_dim", "movedim", "flip"}
_SHIFTS = ("T", "mT")
_LARGE = "1e4"  # whose sigmoid is 1 in any type
_POSITIVE = frozenset(("exp", "exp2", "sigmoid", "softmax", "softplus", "ndtr", "erfc", "i0", "cosh"))
_OF_TWO = ("add", "mul", "div")
_OF_ONE = ("sum", "mean", "sqrt", "reciprocal", *_MOVING)
"""Operations that give what is above 0 if their operands are."""


@dataclass(frozen=True)
class Logarithm:
    """The text of a logarithm, a number to add to it, and whether it differs from the plain logarithm of the whole.

    An empty text stands for 0. ``signed`` says that it is of a difference; both of two such factors may be negative.
    """

    text: str = ""
    offset: float = 0.0
    gained: bool = True
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


class Parts:
    """The parts of what a logarithm is taken of, in the line of ``site``.

    ``carried`` is a variable of which the logarithm is kept in its place, by the name ``log_`` and its own. With
    ``asking``, what other functions have made variables of counts as given as well, by names in ``asked``.
    """

    def __init__(
        self,
        scene: Scene,
        of: Operation,
        site: Site,
        rules: Mapping[str, Rule],
        carried: str | None = None,
        *,
        asking: bool = False,
    ) -> None:
        self._carried = carried
        self._asking = asking
        self.asked: dict[str, tuple[str, Operation]] = {}
        self.spelling, self.half, self.floor = scene.spelling(site), scene.half, scene.floor
        self._site, self._rules = site, rules
        self._known: dict[str, list[Operand]] = {}
        self._read_here: dict[str, list[Operand]] = {}  # by operations of the same function: names mean the same there
        behind = list(ancestors(of, DEPTH))
        self._definitions = Definitions(site, behind)
        for operation in behind:
            here, there = site.place, operation.place
            is_here = here is None or there is None or here.sees(there)
            for operand in map(partial(_as_written, operation), operation.args):
                for name in {operand.text, operand.leaf_name} - {None}:
                    self._known.setdefault(str(name), []).append(operand)
                    if is_here:
                        self._read_here.setdefault(str(name), []).append(operand)

    # --- what is known ------------------------------------------------------------------------------------------------

    def known(self, text: str) -> list[Operand]:
        """The operands that are written as ``text``."""
        return self._known.get(text, [])

    def shape(self, expression: Expression | str) -> tuple[int, ...] | None:
        text = expression if isinstance(expression, str) else expression.text
        return next((each.shape for each in self.known(text) if each.shape is not None), None)

    def note(self, text: str, operand: Operand) -> None:
        """Use what is known of an operand for an expression, too."""
        self._known.setdefault(text, []).append(operand)

    def is_zero(self, text: str) -> bool:
        """Whether an expression is known to be 0 at the element."""
        return 0 in [each.value for each in self.known(text)]

    def are_equal(self, one: str, other: str) -> bool:
        """Whether two expressions are known to be equal."""
        a, b = ([each.value for each in self.known(text)] for text in (one, other))
        return any(each is not None and each in b for each in a)

    def spelled_out(self, expression: Expression) -> Written:
        """The operation that an expression is, or that its name stands for."""
        if isinstance(expression.node, ast.Name):
            made = self._origin(expression)
            return NOTHING if made is None else self.spelled_out(made)
        return expression.written

    def argument_of(self, expression: Expression, *ops: str, depth: int = DEPTH) -> tuple[str, str] | None:
        """What one of these functions was called with, moved as its result is afterwards, and the function's name.

        Of ``sigmoid(x)[:, 1:]`` that is ``x[:, 1:]``.
        """
        node, written = expression.node, expression.written
        if isinstance(node, ast.Name):
            made = self._origin(expression)
            return None if made is None or not depth else self.argument_of(made, *ops, depth=depth - 1)
        if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in _SHIFTS):
            inner: ast.expr | None = node.value
        elif written.op in ops:
            x = written.text(0, "input")
            return None if x is None else (x, written.op)
        elif written.op == "cat":
            return self._argument_of_joined(expression, written) if "sigmoid" in ops and depth else None
        else:
            inner = written.argument(0) if written.op in _MOVING else None
        found = None if inner is None else self.argument_of(expression.at(inner), *ops, depth=depth)
        if found is None or inner is None:
            return None
        return expression.line.text(node, {inner: atom(found[0])}), found[1]

    def _argument_of_joined(self, expression: Expression, written: Written) -> tuple[str, str] | None:
        """The same of probabilities that are joined with zeros and ones, which are sigmoids of large numbers."""
        joined = written.argument(0, "tensors")
        items = list(joined.elts) if isinstance(joined, (ast.List, ast.Tuple)) else []
        edits: dict[ast.AST, str] = {}
        for item in items:
            each = expression.at(item)
            if (fill := self.all_alike(each)) is not None:
                edits[item] = f"{each.text} {'+' if fill else '-'} {_LARGE}"
            elif (found := self.argument_of(each, "sigmoid")) is not None:
                edits[item] = found[0]
        if not items or len(edits) < len(items):
            return None
        return expression.line.text(expression.node, edits), "sigmoid"

    def all_alike(self, expression: Expression) -> int | None:
        """0 for a function that creates zeros, 1 for one that creates ones, else None."""
        made = self.spelled_out(expression)
        return next((n for n, name in enumerate(("zeros", "ones")) if name in made.op), None)

    # --- one expression -----------------------------------------------------------------------------------------------

    def of(self, expression: Expression, depth: int = DEPTH) -> Logarithm | None:
        """The logarithm of an expression; of the whole, if its parts gain nothing."""
        found = self._of_number(expression) or (self._of_parts(expression, depth - 1) if depth else None)
        if found is not None and (found.gained or found.is_number):
            return found
        if not self.is_positive(expression, depth):
            return None
        text = expression.text
        known = self.known(text)
        has_gradient = any(each.requires_grad for each in known)  # infinite at 0; otherwise -inf does no harm
        if expression.reduced and has_gradient and any(0 in (each.value, each.min) for each in known):
            text = self.spelling.clamp(text, self.floor)
        return Logarithm(self.spelling.call("log", text), gained=False)

    def gained(self, expression: Expression, depth: int = DEPTH) -> Logarithm | None:
        """The same, if its parts gain by it and it is of what cannot be negative."""
        found = self.of(expression, depth)
        return found if found is not None and found.gained and not found.signed else None

    def _of_parts(self, expression: Expression, depth: int) -> Logarithm | None:
        node = expression.node
        if isinstance(node, ast.Name):
            if node.id == self._carried:
                return Logarithm(f"log_{node.id}")
            made = self._origin(expression)
            return (
                None
                if made is None
                else self.of(replace(made, summed=expression.summed, reduced=expression.reduced), depth)
            )
        if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in _SHIFTS):
            return self._moved(expression, node.value, depth)
        written = expression.written
        if not written:
            return None
        if written.op in _MOVING:
            return self._moved(expression, written.arguments[0], depth) if written.arguments else None
        rule = self._rules.get(written.op)
        return self._of_call(expression, written, depth) if rule is None else rule(self, expression, written, depth)

    def _of_call(self, expression: Expression, written: Written, depth: int) -> Logarithm | None:
        """The logarithm of what one of the program's own functions returns, as if it were written in the line."""
        found = inlined(written, expression.place)
        line = Line.parse(None if found is None else found[0])
        if found is None or line.value is None:
            return None
        for name, text in found[1].items():
            for operand in self.known(name) if name != text else ():
                self.note(text, operand)
        return self.of(replace(expression, node=line.value, line=line), depth)

    def _origin(self, expression: Expression) -> Expression | None:
        """What a name stands for, where that can be written in the line of the logarithm."""
        made = self._definitions.of(expression)
        return made if made is not None or not self._asking else self._asked_for(expression.text)

    def _asked_for(self, name: str) -> Expression | None:
        """A sigmoid or an exponential that another function has made, by what it was made of, under a new name."""
        for operand in self._read_here.get(name, []):
            made = maker(operand, "sigmoid", "exp")
            if made is None or made.place is None or self._site.place is None or self._site.place.sees(made.place):
                continue
            new = f"{name}_logits" if made.op == "sigmoid" else f"log_{name}"
            line = Line.parse(f"{new}.{made.op}()")
            if line.value is not None:
                self.asked[name] = (new, made)
                return Expression(line.value, line, self._site.place)
        return None

    def _moved(self, expression: Expression, inner: ast.expr, depth: int) -> Logarithm | None:
        """The logarithm of picked or reordered elements: the same done to their logarithms."""
        found = self.of(expression.at(inner), depth)
        if found is None or not found.gained or not found.text:
            return None
        return replace(found, text=expression.line.text(expression.node, {inner: atom(found.text)}))

    def _of_number(self, expression: Expression) -> Logarithm | None:
        """The logarithm of a Python number."""
        known = number_written(expression.node)
        if known is not None:
            return Logarithm(offset=math.log(known), gained=False, is_number=True) if 0 < known < math.inf else None
        names = [each for each in ast.walk(expression.node) if isinstance(each, ast.Name)]
        modules = {each.id for each in names if is_module(each.id) or each.id == "math"}
        numbers = {each.id for each in names} - modules
        if not names or not all(self._is_number(name) for name in numbers):
            return None
        if not modules <= {"math", *imported("math"), *imported("numpy")}:
            return None
        module = next(iter((*sorted(modules), *imported("math"), *imported("numpy"))), None)
        return None if module is None else Logarithm(f"{module}.log({expression.text})", gained=False, is_number=True)

    def _is_number(self, name: str) -> bool:
        known = self.known(name)
        return bool(known) and all(_may_be_number(each) and (number(each.value) or 0.0) > 0 for each in known)

    def is_positive(self, expression: Expression, depth: int) -> bool:
        """Whether an expression is above 0, by what it computes or by what is known of its numbers."""
        if (known := number_written(expression.node)) is not None:
            return known > 0
        known_ones = self.known(expression.text)
        lowest = [least(each) for each in known_ones]
        if any(size_of(each) == math.inf for each in known_ones):
            return False  # its logarithm would be, too
        if any(each is not None for each in lowest):
            may_be_zero = expression.summed and self._is_data(expression.node)
            return all(each is None or each > 0 or (may_be_zero and each == 0) for each in lowest)
        if depth <= 0:
            return False
        if isinstance(expression.node, ast.Name):
            made = self._definitions.made(expression.text)
            return len(made) == 1 and self.is_positive(made[0], depth - 1)
        written = expression.written
        if written.op in (*_OF_TWO, *_OF_ONE):
            operands = written.arguments[: 2 if written.op in _OF_TWO else 1]
            return all(self.is_positive(expression.at(each), depth - 1) for each in operands)
        return written.op in _POSITIVE

    def _is_data(self, node: ast.AST, depth: int = DEPTH) -> bool:
        """Whether no gradient goes to an expression, as far as is known of its names."""
        for name in names_in(node):
            made = self._definitions.made(name)
            if any(each.requires_grad or (each.producer is not None and not made) for each in self.known(name)):
                return False
            if not all(depth and self._is_data(each.node, depth - 1) for each in made):
                return False
        return True


Rule = Callable[[Parts, Expression, Written, int], Logarithm | None]


def _may_be_number(operand: Operand) -> bool:
    """Whether it is a Python number, or kept as one that torch has wrapped: ``math.log`` takes both."""
    is_wrapped = operand.shape == () and str(operand.dtype).endswith("float64") and operand.producer is None
    return operand.constant or (is_wrapped and not operand.requires_grad)


def _as_written(user: Operation, operand: Operand) -> Operand:
    """A vector with its own shape, of which a product makes a matrix by itself."""
    made = operand.producer
    if made is None or made.op != "unsqueeze" or made.place != user.place or not is_name(operand.text or ""):
        return operand
    return replace(operand, shape=first(made).shape)


def all_gained(found: Iterable[Logarithm | None]) -> list[Logarithm] | None:
    """Logarithms of tensors, if all are known, of what cannot be negative, and one at least has gained."""
    known = []
    for each in found:
        if each is None or each.signed or each.is_number:
            return None
        known.append(each)
    return known if any(each.gained for each in known) else None
