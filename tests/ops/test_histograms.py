"""histogramdd beyond the rows of the table, and NumPy's histograms: results, edges and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.parity import check_both_refuse, check_message, parity


@parity
def test_histogramdd_of_points_on_edges(m: Any) -> Any:
    points = m.tensor([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0], [1.0, 0.5], [1.5, 0.0]])
    result = m.histogramdd(points, [2, 2], range=[0.0, 1.0, 0.0, 1.0])
    edges = [m.tensor([0.0, 0.5, 0.5, 1.0]), m.tensor([0.5, 1.0])]
    return [
        result.hist,
        result.bin_edges,
        m.histogramdd(points, edges)[0],
        m.histogramdd(points, (3, 1), density=True)[0],
        m.histogramdd(points * 0 + 7, 2),
    ]


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "a vector": lambda m, x: m.histogramdd(x[:, 0], [2]),
    "integers": lambda m, x: m.histogramdd(x.long(), [2, 2]),
    "too few bins": lambda m, x: m.histogramdd(x, [2]),
    "no bins": lambda m, x: m.histogramdd(x, [0, 2]),
    "half a range": lambda m, x: m.histogramdd(x, [2, 2], range=[0.0, 1.0]),
    "a range from above": lambda m, x: m.histogramdd(x, [2, 2], range=[1.0, 0.0, 0.0, 1.0]),
    "infinite points": lambda m, x: m.histogramdd(x / 0, [2, 2]),
    "too few weights": lambda m, x: m.histogramdd(x, [2, 2], weight=m.ones(2)),
    "weights in double": lambda m, x: m.histogramdd(x, [2, 2], weight=m.ones(3).double()),
    "edges in double": lambda m, x: m.histogramdd(x, [m.ones(2).double()] * 2),
    "one edge": lambda m, x: m.histogramdd(x, [m.ones(1)] * 2),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_histogramdd_refuses_wrong_arguments(mistake: str) -> None:
    check_both_refuse(lambda m: WRONG[mistake](m, m.arange(1.0, 7.0).reshape(3, 2)))


def test_errors_of_histogramdd_say_what_was_wrong() -> None:
    x = rg.ones(3, 2)
    check_message(lambda: rg.histogramdd(x, [2]), ["1 and 2"])
    check_message(lambda: rg.histogramdd(x, [rg.tensor([1.0, 0.0])] * 2), ["dimension 0", "increase"])


def test_vmap_of_histogramdd() -> None:
    """torch has no vmap rule for it."""
    x = rg.linspace(0, 1, 24).reshape(2, 6, 2) ** 2
    hist, edges = rg.vmap(lambda x: tuple(rg.histogramdd(x, [2, 3])))(x)
    for k in range(2):
        expected = rg.histogramdd(x[k], [2, 3])
        assert hist[k].tolist() == expected.hist.tolist()
        assert [each[k].tolist() for each in edges] == [each.tolist() for each in expected.bin_edges]


# --- NumPy's histograms of tensors of weights -------------------------------------------------------------------------

_random = np.random.default_rng(0)
POINTS = _random.normal(size=(20, 3)).round(1)  # some of them on edges
WEIGHTS = _random.random(20)

BINS: dict[str, dict[str, Any]] = {
    "default": {},
    "numbers": {"bins": 4},
    "range": {"bins": 4, "range": [(-1.0, 1.0)]},
    "density": {"bins": 3, "range": [(-1.0, 1.5)], "density": True},
    "edges": {"bins": [np.array([-1.0, -0.2, 0.0, 0.0, 1.2])]},
}


def numpys_histogram(ndim: int, weights: Any, bins: Any = 10, range: Any = None, **more: Any) -> Any:
    """NumPy's histogram of the points' first coordinates, with the same bins along each of them."""
    bins = bins * ndim if isinstance(bins, list) else bins
    range = range and range * ndim
    if ndim == 1:
        return np.histogram(
            POINTS[:, 0], bins[0] if isinstance(bins, list) else bins, range and range[0], weights=weights, **more
        )[0]
    if ndim == 2:
        return np.histogram2d(POINTS[:, 0], POINTS[:, 1], bins, range, weights=weights, **more)[0]
    return np.histogramdd(POINTS, bins, range, weights=weights, **more)[0]


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("kind", BINS)
def test_numpys_histograms_are_differentiable_by_the_weights(kind: str, ndim: int) -> None:
    def of(weights: Any) -> Any:
        return numpys_histogram(ndim, weights, **BINS[kind])

    weights = rg.tensor(WEIGHTS, requires_grad=True)
    np.testing.assert_allclose(of(weights).detach().numpy(), of(WEIGHTS), rtol=1e-12)
    assert rg.autograd.gradcheck(of, weights, check_forward_ad=True, check_batched_grad=True)
    assert rg.autograd.gradgradcheck(of, weights)


def test_numpys_histograms_return_the_edges() -> None:
    x = rg.tensor(WEIGHTS, requires_grad=True)
    a, b = POINTS[:, 0], POINTS[:, 1]
    np.testing.assert_array_equal(np.histogram(a, 3, weights=x)[1].numpy(), np.histogram(a, 3)[1])
    for ours, theirs in zip(np.histogram2d(a, b, weights=x)[1:], np.histogram2d(a, b)[1:], strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)
    for ours, theirs in zip(np.histogramdd((a, b), weights=x)[1], np.histogramdd((a, b))[1], strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)


def test_vmap_of_numpys_weighted_histogram() -> None:
    points, weights = np.stack([POINTS[:, 0], POINTS[:, 1] * 2]), np.stack([WEIGHTS, WEIGHTS**2])

    def of(points: Any, weights: Any) -> Any:
        return np.histogram(points, 4, weights=weights)[0]

    expected = [np.histogram(p, 4, weights=w)[0] for p, w in zip(points, weights, strict=True)]
    np.testing.assert_allclose(rg.vmap(of)(points, weights).numpy(), expected)
    slopes = rg.func.grad(lambda w: (rg.vmap(of)(rg.from_numpy(points), w) ** 2).sum())(weights)
    each = [rg.func.grad(lambda w, p=p: (of(p, w) ** 2).sum())(w) for p, w in zip(points, weights, strict=True)]
    np.testing.assert_allclose(slopes.numpy(), [g.numpy() for g in each])


def test_numpys_weighted_histogram_refuses() -> None:
    x = rg.tensor(WEIGHTS, requires_grad=True)
    with pytest.raises(ValueError, match=r"one weight for each point.*\[3\].*\[20\]"):
        np.histogram(POINTS[:, 0], weights=x[:3])
    with pytest.raises(TypeError, match="histogram has no derivative rule"):
        np.histogram(x, weights=WEIGHTS)
    with pytest.raises(TypeError, match="not supported for weighted data"):
        np.histogram(POINTS[:, 0], "auto", weights=x)
