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
SWAPPED = [1, 0, 2, 3]
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
    "a product with a vector": lambda t, x: (x @ t.ones(3))[2:],
    "where": lambda t, x: t.where(t.tensor(BEYOND_ONE), x, t.tensor(0.0)),
    "topk": lambda t, x: x.topk(2, 1, largest=False).values[2:],
    "kthvalue": lambda t, x: x.kthvalue(1, 1).values[2:],
    "a convolution": lambda t, x: t.nn.functional.conv1d(x[:, None], t.ones(1, 1, 2))[2:],
    "pooled": lambda t, x: t.nn.functional.max_pool1d(-x[:, None], 3)[2:],
    "normalised": lambda t, x: t.nn.functional.layer_norm(x, (3,))[2:],
    "distances": lambda t, x: t.cdist(x, t.ones(1, 3))[2:],
    "scattered": lambda t, x: t.zeros(4, 3).scatter(0, t.tensor([[k] * 3 for k in SWAPPED]), x)[2],
    "scattered and added": lambda t, x: t.zeros(4, 3).scatter_add(0, t.tensor([[k] * 3 for k in SWAPPED]), x)[2],
    "index_add": lambda t, x: t.zeros(3, 3).index_add(0, t.tensor([0, 1, 2, 0]), x)[2],
    "index_copy": lambda t, x: t.zeros(4, 3).index_copy(0, t.tensor(SWAPPED), x)[2],
    "put at indices": lambda t, x: t.zeros(4, 3).index_put((t.tensor(SWAPPED),), x)[2],
    "added at indices": lambda t, x: t.zeros(4, 3).index_put((t.tensor(SWAPPED),), x, accumulate=True)[2],
    "masked_scatter": lambda t, x: t.zeros(4, 3).masked_scatter(t.ones(4, 3) > 0, x)[2],
    "written": lambda t, x: written(t, lambda z: z.__setitem__(slice(None), x)),
    "written to rows": lambda t, x: written(t, lambda z: z[:3].copy_(x[:3])),
    "written to a column": lambda t, x: written(t, lambda z: z[:, 0].copy_(x[:, 0])),
    "written to at indices": lambda t, x: written(t, lambda z: z.__setitem__(t.tensor(SWAPPED), x)),
    "added in place": lambda t, x: written(t, lambda z: z.add_(x)),
}


def written(t: Any, write: Callable[[Any], Any]) -> Any:
    """The row of a tensor that was written to."""
    zeros = t.zeros(4, 3)
    write(zeros)
    return zeros[2]


def event_of(step: Callable[[], Any], steps: bool) -> NaNEvent:
    """Return the event of a step that returns its loss."""
    with watch(policy="record") as w:
        for _ in w.steps([0]) if steps else [0]:
            step().backward()
    return only_event(w)


def module(library: str) -> Any:
    return rg if library == "retrograd" else torch


@libraries
@runs
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_birth_whose_element_reached_the_loss_is_named(way: Way, library: str, steps: bool) -> None:
    t = module(library)
    probabilities = t.tensor(PROBABILITIES, requires_grad=True)
    event = event_of(lambda: way(t, (probabilities * 1).log()).sum(), steps)
    assert (event.op, event.index, event.operands) == ("log", (2, 0), {"input": 0.0})


NAN, INFINITY = float("nan"), float("inf")


@libraries
def test_the_bad_element_of_the_data_that_reached_the_loss_is_named(library: str) -> None:
    t = module(library)
    weight = t.ones(3, requires_grad=True)
    batch = t.tensor([[1.0, NAN, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, NAN]])
    event = event_of(lambda: (weight * batch[t.tensor([1, 2])]).sum(), True)
    assert (event.kind, event.index) == ("leaf", (2, 2))


@libraries
@runs
def test_the_bad_element_of_a_parameter_that_reached_the_loss_is_named(library: str, steps: bool) -> None:
    t = module(library)
    weight = t.tensor([[NAN, 1.0], [1.0, INFINITY]], requires_grad=True)
    event = event_of(lambda: (weight * 1)[1].sum(), steps)
    assert (event.kind, event.index) == ("leaf", (1, 1))


@libraries
def test_a_birth_without_a_gradient_that_reached_the_loss_is_named(library: str) -> None:
    t = module(library)
    weight = t.ones(2, requires_grad=True)
    event = event_of(lambda: (weight * t.log(t.tensor([0.0, 1.0, 0.0]))[1:]).sum(), True)
    assert (event.op, event.index) == ("log", (2,))


@libraries
@runs
@pytest.mark.parametrize("first", ["birth", "data"])
def test_a_birth_that_did_not_reach_the_loss_is_not_named_beside_it(first: str, library: str, steps: bool) -> None:
    t = module(library)
    p, q = t.tensor([0.0, 0.5], requires_grad=True), t.tensor([0.0, 1.0], requires_grad=True)
    nan = t.tensor([NAN, 1.0])

    def step() -> Any:
        other = (p * 1).log() if first == "birth" else nan * p
        return t.cat([other, (q * 1).rsqrt()])[2:].sum()

    event = event_of(step, steps)
    assert (event.op, event.index, event.also) == ("rsqrt", (0,), ())


@libraries
@runs
@pytest.mark.parametrize("column, operation, index", [(0, "log", 3), (1, "rsqrt", 1)])
def test_of_births_written_to_one_tensor_the_one_that_reached_the_loss_is_named(
    column: int, operation: str, index: int, library: str, steps: bool
) -> None:
    t = module(library)
    p, q = t.tensor([0.5, 0.0, 0.25, 0.0], requires_grad=True), t.tensor([0.5, 0.0, 0.0, 1.0], requires_grad=True)

    def step() -> Any:
        both = t.zeros(4, 2)
        both[:, 0] = t.log(p * 1)
        both[:, 1] = t.rsqrt(q * 1)
        both[1, 0] = 1.0
        return both[:, column].sum()

    event = event_of(step, steps)
    assert (event.op, event.index, event.also) == (operation, (index,), ())


@libraries
@runs
def test_an_overwritten_birth_is_not_named(library: str, steps: bool) -> None:
    t = module(library)
    p, q = t.tensor([0.0, 0.5, 0.0], requires_grad=True), t.tensor([0.0, 1.0], requires_grad=True)

    def step() -> Any:
        logs = t.log(p * 1)
        logs[:1] = t.rsqrt(q[:1] * 1)
        return logs[1:].sum()

    event = event_of(step, steps)
    assert (event.op, event.index, event.also) == ("log", (2,), ())
