"""Of several bad elements the one is named that came through to the loss, by indices and rearrangements as well."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import retrograd as rg

# Zeros, of which [2, 0] alone goes on.
PROBABILITIES = torch.tensor([[0.0, 0.5, 0.25], [0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.1, 0.2, 0.7]])
COLUMNS = torch.tensor([[1], [1], [0], [1]])

WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "a row": lambda x: x[2],
    "rows": lambda x: x[2:4],
    "indices": lambda x: x[torch.tensor([3, 2])],
    "indices of a condition": lambda x: x[torch.where(torch.tensor([0, 1, 1, 0]) > 0)[0]],
    "a mask": lambda x: x[torch.tensor([False, True, True, True])],
    "index_select": lambda x: x.index_select(0, torch.tensor([3, 2])),
    "gather": lambda x: x.gather(1, COLUMNS),
    "take_along_dim": lambda x: torch.take_along_dim(x, COLUMNS, 1),
    "embedding": lambda x: F.embedding(torch.tensor([3, 2]), x),
    "a loop": lambda x: torch.stack([x[i] for i in (1, 2)]),
    "split": lambda x: x.split(2)[1],
    "unbind": lambda x: x.unbind(0)[2],
    "cat": lambda x: torch.cat([x[1:2], x[2:3]]),
    "a transposed row": lambda x: x.t()[:, 2],
    "flattened": lambda x: x.reshape(-1)[6:9],
    "padded": lambda x: F.pad(x[1:], (1, 1)),
    "flip": lambda x: x.flip(0)[1],
    "roll": lambda x: x.roll(1, 0)[3],
    "expanded": lambda x: x[2].expand(3, 3),
    "sums of rows": lambda x: x.sum(1)[2:],
    "smallest of rows": lambda x: x.amin(1)[2:],
    "scores of targets": lambda x: F.nll_loss(x, torch.tensor([1, 2, 0, 1])),
    "scores of targets that count": lambda x: (
        F.nll_loss(x, torch.tensor([0, 2, 0, 1]), ignore_index=0)
        + F.nll_loss(x, torch.tensor([-100, 2, 0, 1]), reduction="sum")
    ),
}


@pytest.mark.parametrize("steps", [False, True], ids=["once", "steps"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_one_that_came_through(way: Callable[[Tensor], Tensor], steps: bool) -> None:
    probabilities = PROBABILITIES.clone().requires_grad_()
    with rg.anomaly.watch(policy="record") as w:
        for _ in w.steps([0]) if steps else [0]:
            way((probabilities * 1).log()).sum().backward()
    (event,) = w.events
    assert (event.op, event.index) == ("log", (2, 0))


def test_data_that_came_in() -> None:
    weight = torch.ones(3, requires_grad=True)
    batch = torch.tensor([[1.0, float("nan"), 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, float("nan")]])
    with rg.anomaly.watch(policy="record") as w:
        for _ in w.steps([0]):
            (weight * batch[torch.tensor([1, 2])]).sum().backward()
    (event,) = w.events
    assert (event.kind, event.index) == ("leaf", (2, 2))
