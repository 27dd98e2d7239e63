"""How expressions behave near 0: the leading terms of their series, which give the limits of quotients 0 / 0."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from retrograd.anomaly.catalogue._definitions import Definitions, Expression
from retrograd.anomaly.catalogue._source_line import NOTHING, Line, Site, Written, atom, number_written
from retrograd.anomaly.parsing import names_in

# f(x) = x (1 + slope * x + ...) near 0
SLOPES = dict.fromkeys(("sin", "tan", "tanh", "asin", "atan", "sinh", "asinh"), 0.0) | {"expm1": 0.5, "log1p": -0.5}


@dataclass(frozen=True)
class Leading:
    """How an expression behaves where another one, ``x``, goes to 0: as ``factor * x ** order * (1 + slope * x)``.

    Both numbers may be multiples of other expressions, which are not 0 with ``x``: the time step of ``exp(dt * x)``.
    """

    x: str
    factor: float = 1.0
    order: int = 1
    slope: float = 0.0
    factors: tuple[str, ...] = ()
    slopes: tuple[str, ...] = ()

    def times(self, number: float, *more: str) -> Leading:
        return Leading(self.x, self.factor * number, self.order, self.slope, (*self.factors, *more), self.slopes)

    def within(self, outer: float, order: int = 1, slope: float = 0.0) -> Leading | None:
        """Of ``outer * f ** order * (1 + slope * f)`` of it, if it is a multiple of ``x``."""
        if self.order != 1 or self.slope:
            return None
        factor, factors = outer * self.factor**order, self.factors * order
        return Leading(self.x, factor, order, slope * self.factor, factors, self.factors if slope else ())


class Series:
    """Reads how the expressions of a line behave near 0, by ``x`` if that is given; other names by what they are."""

    def __init__(self, definitions: Definitions | None = None, x: str | None = None) -> None:
        self._definitions, self._x = definitions, x

    def of(self, expression: Expression) -> Leading:
        """How an expression behaves; any that is not known as one of another stands for itself."""
        return (None if expression.text == self._x else self._known(expression)) or Leading(expression.text)

    def _spelled_out(self, expression: Expression) -> Expression:
        """What a name stands for, if that is known and is not ``x``."""
        if self._definitions is None or self._x is None:
            return expression
        while isinstance(expression.node, ast.Name) and expression.text != self._x:
            definition = self._definitions.of(expression)
            if definition is None:
                break
            expression = definition
        return expression

    def _written(self, expression: Expression) -> tuple[Expression, Written]:
        found = self._spelled_out(expression)
        return found, found.written if found.written.arguments else NOTHING

    def _known(self, expression: Expression) -> Leading | None:
        place, written = self._written(expression)
        if not written:
            return None if place is expression else Leading(place.text)
        sides = written.arguments if written.form == "operator" else ()
        if written.op in SLOPES and len(written.parts()) == 1:
            return self.of(place.at(written.parts()[0])).within(1.0, 1, SLOPES[written.op])
        if written.op in ("add", "sub", "log") and (known := self._one_and(place, written)) is not None:
            return known
        if written.op == "neg":
            return self.of(place.at(written.arguments[0])).times(-1.0)
        power = number_written(written.argument(1, "exponent")) if written.op == "pow" else None
        if power in (2, 3):
            return self.of(place.at(written.arguments[0])).within(1.0, int(power or 1))
        if written.op == "div" and len(sides) == 2 and (below := number_written(sides[1])):
            return self.of(place.at(sides[0])).times(1 / below)
        return self._multiple(place, sides) if written.op == "mul" and len(sides) == 2 else None

    def _multiple(self, place: Expression, sides: tuple[ast.expr, ...]) -> Leading | None:
        """Of a number, or of an expression without ``x``, times one with it."""
        for one, other in (sides, sides[::-1]):
            if (number := number_written(one)) is not None:
                return self.of(place.at(other)).times(number)
            found = self.of(place.at(other)) if self._x is not None else None
            if found is not None and found.x == self._x and self.of(place.at(one)).x != self._x:
                is_plain = not any(isinstance(each, ast.Call) for each in ast.walk(one))  # and may be computed again
                is_apart = not names_in(one) & names_in(other)
                return found.times(1.0, place.at(one).text) if is_plain and is_apart else None
        return None

    def _one_and(self, place: Expression, written: Written) -> Leading | None:
        """Of ``exp(x) - 1``, ``1 - exp(x)``, ``1 - cos(x)`` and ``log(1 + x)``."""
        if written.op == "log":
            inner_place, inner = self._written(place.at(written.arguments[0]))
            terms = inner.arguments if inner.op == "add" else ()
            rest = [each for each in terms if number_written(each) != 1]
            return self.of(inner_place.at(rest[0])).within(1.0, 1, -0.5) if len(terms) == 2 and len(rest) == 1 else None
        if written.op != "sub" or len(written.arguments) != 2:
            return None
        numbers = [number_written(each) for each in written.arguments]
        if 1 not in numbers:
            return None
        argument, function = self._written(place.at(written.arguments[1 if numbers[0] == 1 else 0]))
        if function.op not in ("exp", "cos") or len(function.parts()) != 1:
            return None
        leading = self.of(argument.at(function.parts()[0]))
        if function.op == "cos":
            return leading.within(0.5 if numbers[0] == 1 else -0.5, 2)
        return leading.within(-1.0 if numbers[0] == 1 else 1.0, 1, 0.5)


def leading(line: Line, node: ast.AST) -> Leading:
    """How an expression of a line behaves near 0, by that line alone."""
    return Series().of(Expression(node, line, None))


def limit(site: Site, definitions: Definitions) -> str | None:
    """What a written quotient tends to, with its derivative there, as far as both sides are known."""
    above, below = site.written.argument(0, "input"), site.written.argument(1, "other")
    if above is None or below is None or site.node is not site.written.node or site.written.form != "operator":
        return None
    one, other = (Expression(each, site.line, site.place) for each in (above, below))
    bottom = leading(site.line, below)
    top = Series(definitions, bottom.x).of(one)
    if top.x != bottom.x:
        bottom = Series(definitions, top.x).of(other)
    if top.x != bottom.x or not bottom.factor or top.order < bottom.order or bottom.factors:
        return None
    first, slope = top.factor / bottom.factor, top.slope - bottom.slope
    x = atom(top.x)
    if top.order > bottom.order:
        return _multiple_of(first, *top.factors, x) if top.order == bottom.order + 1 else "0.0"
    if not slope:
        return _multiple_of(first, *top.factors)
    if top.slopes and bottom.slope:
        return None
    linear = _multiple_of(abs(first * slope), *top.factors, *top.slopes, x)
    return f"{_multiple_of(first, *top.factors)} {'-' if first * slope < 0 else '+'} {linear}"


def _multiple_of(number: float, *factors: str) -> str:
    """A number times some expressions."""
    powers = [
        atom(each) if factors.count(each) == 1 else f"{atom(each)} ** {factors.count(each)}"
        for each in dict.fromkeys(factors)
    ]
    sign, size = "-" if number < 0 else "", abs(number)
    return sign + " * ".join(powers if powers and size == 1 else [f"{size:.8g}", *powers])
