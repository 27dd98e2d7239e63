"""A line search for the strong Wolfe conditions, by bracketing and cubic interpolation.

Algorithms 3.5 and 3.6 of Nocedal and Wright, "Numerical Optimization" (2006), with the safeguards of Mark Schmidt's
minFunc, which torch uses, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple


class Point(NamedTuple):
    """The evaluation at a step ``t`` along the direction: value, gradient, and slope, their product."""

    t: float
    value: float
    gradient: Any
    slope: float


def cubic_minimum(a: Point, b: Point, low: float, high: float) -> float:
    """The minimizer of the cubic through two points with their slopes, clipped to bounds; equation 3.59."""
    if a.t > b.t:
        a, b = b, a
    if a.t == b.t:  # a learning rate of 0, or one too small to be halved
        return (low + high) / 2
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    curvature = b.slope - a.slope + 2 * d2
    t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / curvature) if curvature else math.inf
    return min(max(t, low), high)


class Conditions(NamedTuple):
    """The conditions on a step from ``start``; equations 3.7."""

    start: Point
    c1: float
    c2: float

    def is_too_high(self, point: Point) -> bool:
        """Whether the value has not fallen enough for so long a step."""
        return point.value > self.start.value + self.c1 * point.t * self.start.slope

    def is_flat(self, point: Point) -> bool:
        """Whether the slope is so small that the minimum along the direction is near."""
        return abs(point.slope) <= -self.c2 * self.start.slope


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
    conditions = Conditions(start, c1, c2)
    found, iterations = bracket_minimum(evaluate, conditions, t, max_iter)
    if len(found) == 1:
        return found[0], iterations + 1
    best, iterations = zoom(evaluate, conditions, found, iterations, max_iter, direction_norm, tolerance_change)
    return best, iterations + 1


def bracket_minimum(
    evaluate: Callable[[float], Point], conditions: Conditions, t: float, max_iter: int
) -> tuple[list[Point], int]:
    """Go forward until a minimum lies between two points; algorithm 3.5.

    Returns
    -------
    list of Point
        The two; or the one that is the result, because it fulfils the conditions or there may be no more steps.
    int
        How many steps were made beyond the first.
    """
    previous, new = conditions.start, evaluate(t)
    iterations = 0
    while iterations < max_iter:
        rises = conditions.is_too_high(new) or (iterations > 1 and new.value >= previous.value)
        if not rises and conditions.is_flat(new):
            return [new], iterations
        if rises or new.slope >= 0:
            return [previous, new], iterations
        t = cubic_minimum(previous, new, new.t + 0.01 * (new.t - previous.t), new.t * 10)
        previous, new = new, evaluate(t)
        iterations += 1
    return [conditions.start if conditions.start.value <= new.value else new], iterations


def zoom(
    evaluate: Callable[[float], Point],
    conditions: Conditions,
    bracket: list[Point],
    iterations: int,
    max_iter: int,
    direction_norm: float,
    tolerance_change: float,
) -> tuple[Point, int]:
    """Narrow a bracket down until its lower end fulfils the conditions; algorithm 3.6.

    Returns
    -------
    Point
        The lower end.
    int
        How many steps were made, the first ``iterations`` included.
    """
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
        if conditions.is_too_high(new) or new.value >= bracket[low].value:
            bracket[high] = new
            low, high = (0, 1) if bracket[0].value <= bracket[1].value else (1, 0)
            continue
        done = conditions.is_flat(new)
        if not done and new.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = new
        if done:
            break
    return bracket[low], iterations
