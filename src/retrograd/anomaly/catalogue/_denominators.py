"""Which number stands in for a 0 that is divided by, so that the quotient is no larger than the others are."""

from __future__ import annotations

import math

from retrograd.anomaly.catalogue._expression import LOGS, first, is_number, number, second, value
from retrograd.anomaly.catalogue._scene import Scene


def largest_other(scene: Scene) -> float | None:
    """The size of the largest finite element of what was born."""
    stats = scene.event.output_stats or {}
    return max((abs(each) for name in ("min", "max") if (each := number(stats.get(name))) is not None), default=None)


def of_like_size(scene: Scene) -> str | None:
    """What to divide by for a quotient that is as large as the largest of the others, or up to ten times that.

    None if its logarithm is taken, which hardly depends on the size: there the quotient should exceed all others. None
    if something later is divided by it, or is finite for an infinity in another way: there it should be as large as
    possible. Without others, what makes it about 1, if the dividend was computed.
    """
    power = abs(value(second(scene.birth)) or 1.0) if scene.op == "pow" else 1.0
    above = value(first(scene.birth)) if scene.op == "div" else 1.0
    most = largest_other(scene) or 0.0
    if scene.event.size == 1 and scene.op == "div" and not is_number(first(scene.birth)):
        most = 0.1  # there is no other: a quotient of about 1
    if scene.op not in ("div", "pow", "reciprocal") or scene.event.is_backward or not above or scene.bounded_by:
        return None
    if not 0 < most < math.inf or (scene.later and scene.later[0] in LOGS):
        return None
    low = max(math.ceil((math.log10(abs(above) / most) - 1) / power), -3 if scene.half else -12)
    return f"1e{low}" if low else "1.0"
