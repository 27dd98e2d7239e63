"""Buffers that a module of the program's own has written itself: the line that did so, in an earlier step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import retrograd as rg
from retrograd.anomaly import NaNEvent
from tests.anomaly.torch.training import line_of


class Codebook(nn.Module):
    """Averages what was assigned to each of its codes; one of them never is."""

    count: Tensor
    total: Tensor
    code: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("total", torch.zeros(3, 2))
        self.register_buffer("code", torch.ones(3, 2))

    def forward(self, x: Tensor, nearest: Tensor) -> Tensor:
        chosen = self.code[nearest]
        if self.training:
            self.update(x.detach(), nearest)
        return chosen

    def update(self, x: Tensor, nearest: Tensor) -> None:
        self.count[:2] += 1
        self.total.index_add_(0, nearest, x * (nearest < 2).unsqueeze(1))
        self.code.copy_(self.total / self.count.unsqueeze(1))  # the write


class Twice(Codebook):
    """Is written to in two places."""

    def reset(self) -> None:
        self.code.zero_()


class InParts(Codebook):
    """Writes to what the line does not show to be finite or not."""

    def update(self, x: Tensor, nearest: Tensor) -> None:
        self.code[2] = float("nan")  # the write in parts


def trained(kind: type[Codebook]) -> NaNEvent:
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(2, 2)
            self.book = kind()

        def forward(self, x: Tensor, nearest: Tensor) -> Any:
            return (self.first(x) - self.book(self.first(x), nearest)).pow(2).mean()

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with rg.anomaly.watch(model, policy="skip_step") as w:
        for step in range(2):
            optimizer.zero_grad()
            model(torch.randn(4, 2), torch.tensor([0, 1, 1, 0 if step == 0 else 2])).backward()
            optimizer.step()
    return w.events[0]


def test_the_birth_in_the_line_is_told_with_its_operands_and_a_remedy() -> None:
    event = trained(Codebook)
    lineno = line_of("# the write", Codebook.update)
    assert (event.kind, event.step, event.remedy_lineno) == ("leaf", 2, lineno)
    assert f"Line {lineno}, `self.code.copy_(self.total / self.count.unsqueeze(1))" in (event.cause or "")
    assert "div in it gives a number that is not finite for input=0, other=0" in (event.cause or "")
    assert (event.remedy or "").startswith("self.code.copy_(self.total / torch.where(self.count.unsqueeze(1) == 0, ")


def test_no_line_is_singled_out_of_several() -> None:
    assert "is the only one that writes to it" not in (trained(Twice).cause or "")


def test_a_line_whose_numbers_cannot_be_computed_is_only_named() -> None:
    event = trained(InParts)
    assert f"Line {line_of('# the write in parts', InParts.update)}" in (event.cause or "")
    assert "With the numbers that it reads now" not in (event.cause or "")
    assert event.remedy is None
