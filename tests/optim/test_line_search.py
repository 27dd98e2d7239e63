"""The line search alone, on functions of one variable."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.optim.lbfgs import _strong_wolfe

from retrograd.optim._line_search import Point, cubic_minimum, strong_wolfe

Function = Callable[[float], tuple[float, float]]


def wave(seed: int) -> Function:
    """Return a function for value and slope of a parabola plus two waves, decreasing at 0."""
    rng = np.random.default_rng(seed)
    slope, curve, a, k, b, m = map(float, rng.normal(size=6))
    curve, k, m = abs(curve) + 0.05, 3 * k, 5 * m

    def at(t: float) -> tuple[float, float]:
        value = slope * t + curve * t * t / 2 + a * math.sin(k * t) + b * math.cos(m * t)
        return value, slope + curve * t + a * k * math.cos(k * t) - b * m * math.sin(m * t)

    return at if at(0)[1] < 0 else lambda t: (at(-t)[0], -at(-t)[1])


def search(function: Function, t: float, max_iter: int, **options: float) -> tuple[Point, int, list[float]]:
    """Return the point found, the count of evaluations, and the steps at which the function was evaluated."""
    steps: list[float] = []

    def at(t: float) -> Point:
        steps.append(float(t))
        value, slope = function(t)
        return Point(t, value, slope, slope)

    value, slope = function(0.0)
    found, evaluations = strong_wolfe(at, Point(0.0, value, slope, slope), t, 1.0, max_iter, **options)
    return found, evaluations, steps


CASES = [*enumerate(10**k for k in np.linspace(-1.5, 2, 60))]  # a seed and a first step


@pytest.mark.parametrize(("seed", "t"), CASES)
def test_line_search_satisfies_the_strong_wolfe_conditions(seed: int, t: float) -> None:
    function = wave(seed)
    found, evaluations, steps = search(function, t, 100)
    value, slope = function(0.0)
    assert found.value <= value + 1e-4 * found.t * slope
    assert abs(found.slope) <= 0.9 * abs(slope)
    assert (found.value, found.slope) == function(found.t)
    assert evaluations == len(steps)


@pytest.mark.parametrize("max_iter", [0, 1, 2, 3, 4, 6, 25])
@pytest.mark.parametrize(("seed", "t"), CASES)
def test_line_search_evaluates_the_same_points_as_torch(seed: int, t: float, max_iter: int) -> None:
    function = wave(seed)
    theirs: list[float] = []

    def at(x: object, t: float, direction: object) -> tuple[float, torch.Tensor]:
        theirs.append(float(t))
        value, slope = function(float(t))
        return value, torch.tensor([slope], dtype=torch.float64)

    value, slope = function(0.0)
    one, g = torch.ones(1, dtype=torch.float64), torch.tensor([slope], dtype=torch.float64)
    _, _, best, evaluations = _strong_wolfe(at, 0 * one, t, one, value, g, g.dot(one), max_ls=max_iter)
    found = search(function, t, max_iter)
    assert found[2] == pytest.approx(theirs, rel=1e-6)
    assert found[1] == evaluations
    assert found[0].t == pytest.approx(float(best), rel=1e-6)


def test_line_search_stops_at_a_narrow_bracket() -> None:
    """The slope is never small enough, so only the width of the bracket stops the search."""

    def edge(t: float) -> tuple[float, float]:
        return abs(t - 1), math.copysign(1.0, t - 1)

    found, evaluations, _ = search(edge, 3.0, 1000, tolerance_change=1e-3)
    assert abs(found.t - 1) < 1e-3
    assert evaluations < 40


def test_cubic_minimum() -> None:
    def cubic(t: float) -> Point:
        return Point(t, t**3 - 3 * t, None, 3 * t * t - 3)

    for a, b in ((-0.5, 2.0), (0.0, 1.5), (3.0, 0.25)):
        assert cubic_minimum(cubic(a), cubic(b), -10, 10) == pytest.approx(1)
        assert cubic_minimum(cubic(b), cubic(a), -10, 10) == pytest.approx(1)
    assert cubic_minimum(cubic(0.0), cubic(2.0), 1.5, 10) == 1.5
    assert cubic_minimum(cubic(0.5), cubic(0.5), 1, 2) == 1.5  # one point does not determine a cubic
