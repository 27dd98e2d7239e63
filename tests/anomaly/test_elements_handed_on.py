"""Of several bad elements the one is named that came through to the loss, whatever moved or joined them in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import retrograd as rg
from retrograd.anomaly import NaNEvent, watch
from tests.anomaly.both import libraries, only_event, runs

# Zeros, of which [2, 0] alone goes on.
PROBABILITIES = [[0.0, 0.5, 0.25], [0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.1, 0.2, 0.7]]
COLUMNS = [[1], [1], [0], [1]]
BEYOND_ONE = [[False], [False], [True], [True]]

Way = Callable[[Any, Any], Any]

WAYS: dict[str, Way] = {
    "a row": lambda t, x: x[2],
    "rows": lambda t, x: x[2:4],
    "narrow": lambda t, x: x.narrow(0, 1, 2),
    "select": lambda t, x: x.select(0, 2),
    "indices": lambda t, x: x[t.tensor([3, 2])],
    "indices of a condition": lambda t, x: x[t.where(t.tensor([0, 1, 1, 0]) > 0)[0]],
    "a mask": lambda t, x: x[t.tensor([False, True, True, True])],
    "masked_select": lambda t, x: x.masked_select(t.tensor(BEYOND_ONE)),
    "index_select": lambda t, x: x.index_select(0, t.tensor([3, 2])),
    "take": lambda t, x: x.take(t.tensor([6, 7])),
    "gather": lambda t, x: x.gather(1, t.tensor(COLUMNS)),
    "take_along_dim": lambda t, x: t.take_along_dim(x, t.tensor(COLUMNS), 1),
    "embedding": lambda t, x: t.nn.functional.embedding(t.tensor([3, 2]), x),
    "a loop": lambda t, x: t.stack([x[i] for i in (1, 2)]),
    "split": lambda t, x: x.split(2)[1],
    "chunk": lambda t, x: x.chunk(2)[1],
    "unbind": lambda t, x: x.unbind(0)[2],
    "cat": lambda t, x: t.cat([x[1:2], x[2:3]]),
    "cat and a slice": lambda t, x: t.cat([x[0:1], x[2:3]])[1:],
    "stack and a slice": lambda t, x: t.stack([x[0], x[2]])[1],
    "a transposed row": lambda t, x: x.t()[:, 2],
    "T": lambda t, x: x.T[:, 2],
    "flattened": lambda t, x: x.reshape(-1)[6:9],
    "permuted": lambda t, x: x.reshape(2, 2, 3).permute(2, 0, 1)[:, 1],
    "contiguous": lambda t, x: x.t().contiguous()[:, 2],
    "padded": lambda t, x: t.nn.functional.pad(x[1:], (1, 1)),
    "flip": lambda t, x: x.flip(0)[1],
    "roll": lambda t, x: x.roll(1, 0)[3],
    "repeat": lambda t, x: x.repeat(2, 1)[6],
    "repeat_interleave": lambda t, x: x.repeat_interleave(2, 0)[4],
    "expanded": lambda t, x: x[2].expand(3, 3),
    "unfold": lambda t, x: x.unfold(0, 2, 1)[1],
    "diagonal": lambda t, x: x[2:].diagonal(),
    "masked_fill": lambda t, x: x.masked_fill(~t.tensor(BEYOND_ONE), 0.0),
    "of another dtype": lambda t, x: x.double()[2],
    "a product with zero": lambda t, x: (x * t.tensor([[1.0], [1.0], [0.0], [1.0]]))[2],
    "neighbours": lambda t, x: (x[1:] + x[:-1])[2:],
    "sums of rows": lambda t, x: x.sum(1)[2:],
    "means of rows": lambda t, x: x.mean(1)[2:],
    "running sums": lambda t, x: x.cumsum(1)[2],
    "smallest of rows": lambda t, x: x.amin(1)[2:],
    "smallest, with indices": lambda t, x: x.min(1).values[2:],
    "log_softmax": lambda t, x: (-x).log_softmax(1)[2],
    "scores of targets": lambda t, x: t.nn.functional.nll_loss(x, t.tensor([1, 2, 0, 1])),
    "scores of targets that count": lambda t, x: (
        t.nn.functional.nll_loss(x, t.tensor([0, 2, 0, 1]), ignore_index=0)
        + t.nn.functional.nll_loss(x, t.tensor([-100, 2, 0, 1]), reduction="sum")
    ),
    "cross entropy of targets that count": lambda t, x: t.nn.functional.cross_entropy(-x, t.tensor([-100, 2, 0, 1])),
    "sorted": lambda t, x: x.sort(1).values[2],
    "a matrix product": lambda t, x: (x @ t.tensor([[0.0, 1.0]] * 3))[2],
    "a linear layer": lambda t, x: t.nn.functional.linear(x, t.ones(2, 3))[2],
    "einsum": lambda t, x: t.einsum("ij->ji", x)[:, 2],
}

# With PyTorch, results that autograd does not keep are unknown here without a second run, and writes are not followed.
WAYS_OF_OWN_TENSORS: dict[str, Way] = {
    "where": lambda t, x: t.where(t.tensor(BEYOND_ONE), x, t.tensor(0.0)),
    "topk": lambda t, x: x.topk(2, 1, largest=False).values[2:],
    "written": lambda t, x: written(t, x),
    "scattered": lambda t, x: t.zeros(4, 3).scatter(0, t.tensor([[1] * 3, [0] * 3, [2] * 3, [3] * 3]), x)[2],
    "index_add": lambda t, x: t.zeros(3, 3).index_add(0, t.tensor([0, 1, 2, 0]), x)[2],
}


def written(t: Any, x: Any) -> Any:
    """The same numbers, written to a tensor that was there."""
    zeros = t.zeros(4, 3)
    zeros[:] = x
    return zeros[2]


def event_of(step: Callable[[], Any], steps: bool) -> NaNEvent:
    """What the watch says of a step that returns its loss."""
    with watch(policy="record") as w:
        for _ in w.steps([0]) if steps else [0]:
            step().backward()
    return only_event(w)


def module(library: str) -> Any:
    return rg if library == "retrograd" else torch


def check_the_one_that_came_through(way: Way, library: str, steps: bool) -> None:
    t = module(library)
    probabilities = t.tensor(PROBABILITIES, requires_grad=True)
    event = event_of(lambda: way(t, (probabilities * 1).log()).sum(), steps)
    assert (event.op, event.index, event.operands) == ("log", (2, 0), {"input": 0.0})


@libraries
@runs
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_one_that_came_through(way: Way, library: str, steps: bool) -> None:
    check_the_one_that_came_through(way, library, steps)


@runs
@pytest.mark.parametrize("way", WAYS_OF_OWN_TENSORS.values(), ids=WAYS_OF_OWN_TENSORS)
def test_the_one_that_came_through_for_own_tensors(way: Way, steps: bool) -> None:
    check_the_one_that_came_through(way, "retrograd", steps)


NAN, INFINITY = float("nan"), float("inf")


@libraries
def test_data_that_came_in(library: str) -> None:
    t = module(library)
    weight = t.ones(3, requires_grad=True)
    batch = t.tensor([[1.0, NAN, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, NAN]])
    event = event_of(lambda: (weight * batch[t.tensor([1, 2])]).sum(), True)
    assert (event.kind, event.index) == ("leaf", (2, 2))


@libraries
@runs
def test_a_parameter(library: str, steps: bool) -> None:
    t = module(library)
    weight = t.tensor([[NAN, 1.0], [1.0, INFINITY]], requires_grad=True)
    event = event_of(lambda: (weight * 1)[1].sum(), steps)
    assert (event.kind, event.index) == ("leaf", (1, 1))


@libraries
def test_what_was_computed_without_a_gradient(library: str) -> None:
    t = module(library)
    weight = t.ones(2, requires_grad=True)
    event = event_of(lambda: (weight * t.log(t.tensor([0.0, 1.0, 0.0]))[1:]).sum(), True)
    assert (event.op, event.index) == ("log", (2,))


@libraries
@runs
@pytest.mark.parametrize("first", ["birth", "data"])
def test_what_came_through_besides_another_one_that_did_not(first: str, library: str, steps: bool) -> None:
    t = module(library)
    p, q = t.tensor([0.0, 0.5], requires_grad=True), t.tensor([0.0, 1.0], requires_grad=True)
    nan = t.tensor([NAN, 1.0])

    def step() -> Any:
        other = (p * 1).log() if first == "birth" else nan * p
        return t.cat([other, (q * 1).rsqrt()])[2:].sum()

    event = event_of(step, steps)
    assert (event.op, event.index, event.also) == ("rsqrt", (0,), ())
