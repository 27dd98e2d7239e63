"""A line search for the strong Wolfe conditions, by bracketing and cubic interpolation.

Algorithms 3.5 and 3.6 of Nocedal and Wright, "Numerical Optimization" (2006), with the safeguards of Mark Schmidt's
minFunc, which torch uses, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple


class Point(NamedTuple):
    """What is known at a step ``t`` along the direction: value, gradient, and slope, their product."""

    t: float
    value: float
    gradient: Any
    slope: float


def cubic_minimum(a: Point, b: Point, low: float, high: float) -> float:
    """Where the cubic through two points with their slopes has its minimum, clipped to bounds; equation 3.59."""
    if a.t > b.t:
        a, b = b, a
    if a.t == b.t:  # a learning rate of 0, or one that no number can halve
        return (low + high) / 2
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    curvature = b.slope - a.slope + 2 * d2
    t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / curvature) if curvature else math.inf
    return min(max(t, low), high)


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    t: float,
    direction_norm: float,
    max_iter: int,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
) -> tuple[Point, int]:
    """Find a step that lowers the value enough (``c1``) and flattens the slope enough (``c2``).

    Returns
    -------
    Point
        The best point found.
    int
        How often ``evaluate`` was called.
    """

    def too_high(point: Point) -> bool:
        return point.value > start.value + c1 * point.t * start.slope

    def flat(point: Point) -> bool:
        return abs(point.slope) <= -c2 * start.slope

    # go forward until a minimum lies between two points
    previous, new = start, evaluate(t)
    iterations = 0
    while iterations < max_iter:
        rises = too_high(new) or (iterations > 1 and new.value >= previous.value)
        if not rises and flat(new):
            return new, iterations + 1
        if rises or new.slope >= 0:
            bracket = [previous, new]
            break
        t = cubic_minimum(previous, new, new.t + 0.01 * (new.t - previous.t), new.t * 10)
        previous, new = new, evaluate(t)
        iterations += 1
    else:
        return (start if start.value <= new.value else new), iterations + 1

    # narrow it down
    low, high = (0, 1) if bracket[0].value <= bracket[1].value else (1, 0)
    made_little_progress = False
    while iterations < max_iter:
        left, right = sorted(point.t for point in bracket)
        if (right - left) * direction_norm < tolerance_change:
            break
        t = cubic_minimum(bracket[0], bracket[1], left, right)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) >= margin:
            made_little_progress = False
        elif made_little_progress or t >= right or t <= left:
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            made_little_progress = False
        else:
            made_little_progress = True
        new = evaluate(t)
        iterations += 1
        if too_high(new) or new.value >= bracket[low].value:
            bracket[high] = new
            low, high = (0, 1) if bracket[0].value <= bracket[1].value else (1, 0)
            continue
        done = flat(new)
        if not done and new.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = new
        if done:
            break
    return bracket[low], iterations + 1
