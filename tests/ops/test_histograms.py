"""histogramdd beyond the rows of the table: results, edges and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
