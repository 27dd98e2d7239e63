"""Exponentials over a sum of exponentials: softmax and the like as users write them out."""

from __future__ import annotations

from dataclasses import dataclass

from retrograd.anomaly.catalogue._code import Site, is_name
from retrograd.anomaly.catalogue._expression import first, maker, same, second
from retrograd.anomaly.catalogue._reductions import dims, without_keepdim
from retrograd.anomaly.catalogue._scene import Scene
from retrograd.anomaly.catalogue._spelling import Spelling
from retrograd.anomaly.surroundings import Operation


@dataclass(frozen=True)
class Quotient:
    """``exp(a) / exp(b).sum()``, where either exponential may have been made elsewhere, and one may be picked from."""

    quotient: Operation
    above: Operation
    total: Operation
    below: Operation

    @staticmethod
    def of(quotient: Operation | None) -> Quotient | None:
        """A quotient of this form; None if it is another."""
        if quotient is None:
            return None
        above, total = maker(first(quotient), "exp"), maker(second(quotient), "sum")
        below = maker(first(total), "exp") if total is not None else None
        if above is None or total is None or below is None:
            return None
        return Quotient(quotient, above, total, below)

    @property
    def is_softmax(self) -> bool:
        """Whether the exponentials are the same above and below."""
        return same(first(self.above), first(self.below))

    def picked(self, scene: Scene, site: Site | None, function: str) -> str | None:
        """The numerator as it is written, with a function of ``a`` along the dimension of the sum for ``exp(a)``.

        What is picked from the exponentials is picked from its result. None where the line does not have it all, or
        the sum is over more than one dimension.
        """
        if site is None or len(site.written.arguments) != 2 or not self.is_softmax:
            return None
        line, numerator = site.written.line, site.written.arguments[0]
        within = [each for each in line.operations if each.op == "exp" and line.inside(each.node, numerator)]
        exp = scene.site(self.above, site)
        if len(within) == 1:
            exp = Site(line, within[0].node, within[0], site.place, site.made)
        total = scene.site(self.total, site)
        if exp is None or total is None or not line.inside(exp.node, numerator):
            return None
        exponent = exp.text(0, "input")
        if exponent is None or not (exp.node is exp.written.node or is_name(exponent)):
            return None  # it would be computed a second time, in another line
        where = without_keepdim(dims(total, first(self.below)))
        if "(" in where:
            return None
        return line.text(numerator, {exp.node: scene.spelling(site).tensor_call(function, exponent, where)})


def largest(text: str, where: str, spelling: Spelling) -> str:
    """The largest value, in a shape that can be subtracted."""
    if not where:
        return spelling.call("max", text)
    if "keepdim" not in where:
        where += ", keepdims=True" if spelling.numpy else ", keepdim=True"
    return spelling.call("max" if spelling.numpy else "amax", text, where)
