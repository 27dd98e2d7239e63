"""Angles on a sphere, computed by a function that has no derivative where two points coincide."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from retrograd.anomaly.catalogue._expression import first, maker, shown, value
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._source_line import Line, Written, atom
from retrograd.anomaly.catalogue._spelling import Spelling
from retrograd.anomaly.catalogue.domain import least_of_root

_ROUNDING = 0.05  # a cosine this close to 1 belongs to two points that coincide, or are opposite


class _Points(NamedTuple):
    """The latitudes of two points and the difference of their longitudes, as code."""

    one: str
    other: str
    longitude: str


@cause(None, "great-circle distance computed with the cosine")
def great_circle(scene: Scene) -> Finding | None:
    acos = scene.birth
    known = value(first(acos))
    if scene.op != "acos" or scene.complex or known is None or not 1 <= abs(known) <= 1 + _ROUNDING:
        return None
    clamp = maker(first(acos), "clamp")
    total = maker(first(acos) if clamp is None else first(clamp), "add")
    outer = scene.site(acos)
    points = None if total is None else _points(scene.site(total, outer).written)
    if points is None:
        return None
    step, error = ("1e-8 (10 cm on Earth)", "9 m") if scene.double else ("3e-4 (2 km on Earth)", "9 km")
    return Finding(
        f"The cosine of the angle between the two points is {scene.at(first(acos), 1.0)}: they coincide or lie "
        f"opposite each other. The derivative of acos is infinite there, and near it {scene.dtype} cosines are so "
        f"coarse that acos moves in steps of {step}; clamping the cosine below 1 would be an error of {error}. The "
        "haversine formula gives the same angle without either problem, and bounds that no real value reaches keep its "
        "derivative finite.",
        outer.replaced(_angle(scene.spelling(outer), points, least_of_root(scene))),
        None,
        acos.place,
    )


@cause(None, "angle of a complex number whose squared size underflows")
def angle_of_tiny(scene: Scene) -> Finding | None:
    known = first(scene.birth).value
    if scene.op != "angle" or not scene.backward or not isinstance(known, complex) or known == 0:
        return None
    least = _LEAST_SIZE[scene.double]
    if abs(known) >= float(least):
        return None
    site = scene.site(scene.birth)

    def beyond(text: str, spelling: Spelling) -> str:
        return spelling.where(f"{spelling.call('abs', text)} < {least}", "1.0", text)

    z = scene.called(first(scene.birth), "z")
    return Finding(
        f"The derivative of the angle divides by the square of the size, and that of {shown(known)} underflows. The "
        "angle of so small a number is noise: leave it out, by a number whose angle is 0 in its place.",
        scene.replaced(site, 0, beyond, "input"),
        f"y = {scene.spelling(site).call('angle', beyond(z, scene.spelling(site)))}",
    )


# A size whose square has an inverse in single and in double precision.
_LEAST_SIZE = ("1e-18", "1e-150")


def _angle(spelling: Spelling, points: _Points, low: str) -> str:
    one, other = points.one, points.other
    half = spelling.call("sin", f"({one} - {atom(other)}) / 2"), spelling.call("sin", f"{atom(points.longitude)} / 2")
    square = f"{half[0]} ** 2 + {spelling.call('cos', one)} * {spelling.call('cos', other)} * {half[1]} ** 2"
    sides = (spelling.clamp(f"(haversine := {square})", low), spelling.clamp("1 - haversine", low))
    return f"2 * {spelling.call('atan2', *(spelling.call('sqrt', each) for each in sides))}"


def _points(total: Written) -> _Points | None:
    """Of ``sin(a) * sin(b) + cos(a) * cos(b) * cos(c)``."""
    terms = [list(_factors(total.line, each)) for each in total.arguments if total.op == "add"]
    sines = next((each for each in terms if [op for op, _ in each] == ["sin"] * 2), None)
    cosines = next((each for each in terms if [op for op, _ in each] == ["cos"] * 3), None)
    if sines is None or cosines is None:
        return None
    (_, one), (_, other) = sines
    angles = [text for _, text in cosines]
    if one not in angles or other not in angles:
        return None
    angles.remove(one)
    if other not in angles:  # of a point and itself
        return None
    angles.remove(other)
    return _Points(one, other, angles[0])


def _factors(line: Line, node: ast.expr) -> Iterator[tuple[str, str]]:
    """The functions that a product is of, and what they are taken of."""
    written = line.operation_at(node)
    if written.op == "mul" and written.form == "operator":
        for each in written.arguments:
            yield from _factors(line, each)
    else:
        yield written.op, written.text(0, "input") or ""


CAUSES = (great_circle, angle_of_tiny)
