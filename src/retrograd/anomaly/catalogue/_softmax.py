"""Exponentials over a sum of exponentials: softmax, its logarithm and the like as users write them out."""

from __future__ import annotations

from dataclasses import dataclass

from retrograd.anomaly.catalogue._code import Site, atom, is_name
from retrograd.anomaly.catalogue._expression import first, maker, same, second
from retrograd.anomaly.catalogue._reductions import dims
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
        written = self._written(scene, site)
        if site is None or written is None or not self.is_softmax:
            return None
        exp, exponent, total = written
        where = ", ".join(each for each in dims(total, first(self.below)).split(", ") if not each.startswith("keepdim"))
        if "(" in where:
            return None
        new = scene.spelling(site).tensor_call(function, exponent, where)
        return site.written.line.text(site.written.arguments[0], {exp.node: new})

    def logarithm(self, scene: Scene, site: Site | None) -> str | None:
        """The logarithm of the quotient, as written: ``a - logsumexp(b)``, or the ``log_softmax`` that it is."""
        written = self._written(scene, site)
        if site is None or written is None:
            return None
        if (log_softmax := self.picked(scene, site, "log_softmax")) is not None:
            return log_softmax
        exp, exponent, total = written
        below = scene.site(self.below, total)
        summand = _exponent(below) if below is not None else None
        if summand is None:
            return None
        above = site.written.line.text(site.written.arguments[0], {exp.node: atom(exponent)})
        return f"{above} - {scene.spelling(site).tensor_call('logsumexp', summand, dims(total, first(self.below)))}"

    def _written(self, scene: Scene, site: Site | None) -> tuple[Site, str, Site] | None:
        """The exponential in the numerator and its argument, and the sum; None unless the line has both."""
        if site is None or len(site.written.arguments) != 2:
            return None
        line, numerator = site.written.line, site.written.arguments[0]
        within = [each for each in line.operations if each.op == "exp" and line.inside(each.node, numerator)]
        exp = scene.site(self.above, site)
        if len(within) == 1:
            exp = Site(line, within[0].node, within[0], site.place, site.made)
        total = scene.site(self.total, site)
        if exp is None or total is None or not line.inside(exp.node, numerator):
            return None
        exponent = _exponent(exp)
        return None if exponent is None else (exp, exponent, total)


def _exponent(exp: Site) -> str | None:
    """What an exponential is taken of; None where that would be computed a second time, in another line."""
    exponent = exp.text(0, "input")
    return exponent if exponent is not None and (exp.node is exp.written.node or is_name(exponent)) else None


def largest(text: str, where: str, spelling: Spelling) -> str:
    """The largest value, in a shape that can be subtracted."""
    if not where:
        return spelling.call("max", text)
    if "keepdim" not in where:
        where += ", keepdims=True" if spelling.numpy else ", keepdim=True"
    return spelling.call("max" if spelling.numpy else "amax", text, where)
