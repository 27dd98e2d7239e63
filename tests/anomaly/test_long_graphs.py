"""The search for a birth takes no longer for each node of a graph, however many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import retrograd as rg
from retrograd.anomaly.adapters.program import syntax
from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph

STEPS = 400
FEW = 20  # searches of the whole graph, or of a function's text


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a graph is searched for a way, and a file for what stands in a function."""
    counted: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            counted[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    count(Graph, "way")
    count(syntax, "inside")
    return counted


def leaf() -> rg.Tensor:
    return rg.tensor([1.0, 1.0], requires_grad=True)


def hidden_from_the_loss() -> rg.Tensor:
    """NaN that a mask takes out of the loss, after many operations that have saved something."""
    x = leaf()
    h = x * 1.0
    for _ in range(STEPS):
        h = h * 1.001
    return rg.where(rg.tensor([False, False]), h * rg.log(x - 5), h).sum()


def many_layers() -> rg.Tensor:
    """NaN in data that comes after many layers, each with a weight of its own."""
    h = rg.ones(2, 2)
    for _ in range(STEPS):
        h = rg.tanh(h @ rg.ones(2, 2).requires_grad_())
    keep = rg.tensor([[True, False], [True, True]])
    return rg.where(keep, h * rg.tensor([[1.0, float("nan")], [1.0, 1.0]]), 0.0).sum()


def nothing_kept() -> rg.Tensor:
    """A NaN that no node has kept, before many operations that cannot be recomputed without it."""
    h, c = leaf() + rg.tensor([1.0, float("nan")]), rg.ones(2)
    for _ in range(STEPS):
        h = h + c
    return h.sum()


@pytest.mark.parametrize(
    ("loss", "op"), [(hidden_from_the_loss, "log"), (many_layers, "MatmulBackward0"), (nothing_kept, "unknown")]
)
def test_a_long_graph_is_searched_few_times(searches: Counter[str], loss: Callable[[], rg.Tensor], op: str) -> None:
    with rg.anomaly.watch(policy="record") as w:
        loss().backward()
    assert w.event is not None
    assert w.event.op == op
    assert searches["way"] < FEW
    assert searches["inside"] < FEW
