"""Exponentials over a sum of exponentials: softmax and similar functions as users write them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from retrograd.anomaly.catalogue._expression import addends, first, is_number, least, maker, same, second
from retrograd.anomaly.catalogue._reductions import dims, without_keepdim
from retrograd.anomaly.catalogue._scene import Scene
from retrograd.anomaly.catalogue._source_line import Site, is_name
from retrograd.anomaly.catalogue._spelling import Spelling
from retrograd.anomaly.surroundings import Operand, Operation

_DEPTH = 6
_REDUCTIONS = ("sum", "mean", "matmul", "dot")


@dataclass(frozen=True)
class Quotient:
    """``exp(a) / exp(b).sum()``, where either exponential may have been made elsewhere, and one may be picked from.

    ``reductions`` are what adds up the exponentials above.
    """

    quotient: Operation
    above: Operation
    total: Operation
    below: Operation
    reductions: tuple[Operation, ...] = ()

    @staticmethod
    def of(quotient: Operation | None) -> Quotient | None:
        """A quotient of this form; None if it is another."""
        if quotient is None:
            return None
        above, total = maker(first(quotient), "exp"), maker(second(quotient), "sum")
        below = maker(first(total), "exp")
        if above is None or total is None or below is None:
            return None
        return Quotient(quotient, above, total, below)

    @staticmethod
    def weighted(quotient: Operation | None) -> Quotient | None:
        """The same of exponentials times weights, those above perhaps added up, as for a mean.

        A number may have been added to the sum below.
        """
        if quotient is None:
            return None
        below = second(quotient)
        terms = (below,) if (pair := addends(below)) is None else tuple(each for each in pair if not is_number(each))
        total = maker(terms[0], "sum") if len(terms) == 1 else None
        exp = summand(total, _is_positive)
        way = _to_exponential(first(quotient))
        if total is None or exp is None or not way:
            return None
        above, *reductions = way
        return Quotient(quotient, above, total, exp, tuple(reductions))

    @property
    def is_softmax(self) -> bool:
        """Whether the exponentials are the same above and below."""
        return are_of_same(self.above, self.below)

    def cancels(self, scene: Scene, site: Site, where: str) -> bool:
        """Whether a factor for each sum of exponentials, along the dimensions ``where``, is in all that is above it."""
        if len(first(self.below).shape or (0, 0)) < 2 or not where:
            return True
        for each in self.reductions:
            summed = scene.site(each, site)
            if each.op in ("sum", "mean") and not (summed and _dim(dims(summed, None)) == _dim(where)):
                return False
            if each.op in ("matmul", "dot") and (_dim(where) != "-1" or not _to_exponential(first(each))):
                return False
        return True

    def picked(self, scene: Scene, site: Site, function: str) -> str | None:
        """The numerator as it is written, with a function of ``a`` along the dimension of the sum for ``exp(a)``.

        What is picked from the exponentials is picked from its result. None where the line does not have it all, or
        the sum is over more than one dimension.
        """
        if len(site.written.arguments) != 2 or not self.is_softmax:
            return None
        line, numerator = site.written.line, site.written.arguments[0]
        within = [each for each in line.operations if each.op == "exp" and line.inside(each.node, numerator)]
        exp = scene.site(self.above, site)
        if len(within) == 1:
            exp = Site(line, within[0].node, within[0], site.place, site.made)
        total = scene.site(self.total, site)
        if not (exp and total and line.inside(exp.node, numerator)):
            return None
        exponent = exp.text(0, "input")
        if exponent is None or not (exp.node is exp.written.node or is_name(exponent)):
            return None  # it would be computed twice, in different lines
        where = without_keepdim(dims(total, first(self.below)))
        if "(" in where:
            return None
        return line.text(numerator, {exp.node: scene.spelling(site).tensor_call(function, exponent, where)})


def _dim(where: str) -> str:
    """The dimension that the arguments of a reduction name."""
    return without_keepdim(where).partition("=")[2]


def are_of_same(one: Operation, other: Operation) -> bool:
    """Whether two functions have the same argument, which a line may compute twice with the same code."""
    a, b = first(one), first(other)
    return same(a, b) or (a.text is not None and a.text == b.text and one.place == other.place)


def summand(total: Operation | None, may_weigh: Callable[[Operand], bool]) -> Operation | None:
    """The exponential whose results a sum adds up, alone or times weights that are such."""
    if total is None:
        return None
    product = total if total.op in ("matmul", "dot") else maker(first(total), "mul")
    if product is None:
        return maker(first(total), "exp")
    pairs = zip(product.args[:2], product.args[1::-1], strict=False)
    return next((exp for each, weights in pairs if may_weigh(weights) and (exp := maker(each, "exp"))), None)


def _is_positive(weights: Operand) -> bool:
    return (least(weights) or 0.0) > 0


def _to_exponential(operand: Operand | None, depth: int = _DEPTH) -> list[Operation]:
    """The exponential that an operand is a multiple of, and what adds up its multiples; nothing if it is none."""
    made = maker(operand, "exp", "mul", "div", "neg", *_REDUCTIONS) if depth else None
    if made is None or made.op == "exp":
        return [] if made is None else [made]
    factors = made.args[: 2 if made.op in ("mul", "matmul", "dot") else 1]
    found = [way for each in factors if (way := _to_exponential(each, depth - 1))]
    if len(found) != 1:  # of two, it would be a power
        return []
    return [*found[0], made] if made.op in _REDUCTIONS else found[0]


def largest(text: str, where: str, spelling: Spelling) -> str:
    """The largest value, in a shape that can be subtracted."""
    if not where:
        return spelling.call("max", text)
    if "keepdim" not in where:
        where += ", keepdims=True" if spelling.numpy else ", keepdim=True"
    return spelling.call("max" if spelling.numpy else "amax", text, where)
