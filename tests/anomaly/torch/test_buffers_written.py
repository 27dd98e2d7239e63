"""Buffers and parameters that a module of the program's own has written itself: the line, in an earlier step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import retrograd as rg
from retrograd.anomaly import NaNEvent
from retrograd.anomaly.from_step import first_step_of
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


class Schedule(nn.Module):
    """Weights losses by a number that is wrong at the first of the times, and has been since it was made."""

    ratio: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        kept = torch.tensor([1.0, 0.5, 0.25])
        self.register_buffer("ratio", (kept / (1 - kept)) / (kept / (1 - kept)))  # the construction

    def forward(self, time: int) -> Tensor:
        return (self.scale * self.ratio[time]).sum()


class OverwrittenSchedule(Schedule):
    def reset(self) -> None:
        self.ratio.zero_()


def bad_at_third_step(model: nn.Module) -> NaNEvent:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with rg.anomaly.watch(model, policy="skip_step") as w:
        w.rerun_loaders = True
        for time in torch.utils.data.DataLoader([2, 1, 0], batch_size=None):  # type: ignore[arg-type]
            optimizer.zero_grad()
            model(time).backward()
            optimizer.step()
    return w.events[0]


def test_a_buffer_that_nothing_has_written_to_has_been_bad_since_it_was_made() -> None:
    event = bad_at_third_step(Schedule())
    lineno = line_of("# the construction", Schedule.__init__)
    assert f"most likely since it was made in line {lineno}, `self.register_buffer(" in (event.cause or "")
    assert "go back to a checkpoint" not in (event.cause or "")
    assert first_step_of(event) == 1


def test_a_buffer_may_have_been_written_to_since() -> None:
    assert "since it was made" not in (bad_at_third_step(OverwrittenSchedule()).cause or "")
    loaded = Schedule()
    loaded.load_state_dict(loaded.state_dict())
    assert "since it was made" not in (bad_at_third_step(loaded).cause or "")


class Replaced(nn.Module):
    """Makes a new parameter of another module's in every step; one of its rows has never been chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.book = nn.Embedding(3, 2)
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("total", torch.zeros(3, 2))

    def forward(self, x: Tensor, nearest: Tensor) -> Tensor:
        self.count = self.count + torch.bincount(nearest.clamp(max=1), minlength=3)
        self.total = self.total.index_add(0, nearest.clamp(max=1), x)
        self.book.weight = nn.Parameter(self.total / self.count.unsqueeze(1))  # the replacement
        return (self.first(x) - self.book(nearest)).pow(2).mean()


def test_a_parameter_that_the_program_replaces() -> None:
    torch.manual_seed(0)
    model = Replaced()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with rg.anomaly.watch(model, policy="skip_step") as w:
        for step in range(2):
            optimizer.zero_grad()
            model(torch.randn(4, 2), torch.tensor([0, 1, 1, 0 if step == 0 else 2])).backward()
            optimizer.step()
    event = w.events[0]
    lineno = line_of("# the replacement", Replaced.forward)
    assert (event.kind, event.remedy_lineno) == ("leaf", lineno)
    assert f"Line {lineno}, `self.book.weight = nn.Parameter(" in (event.cause or "")
    assert "replaces it" in (event.cause or "")
    assert (event.remedy or "").startswith("self.book.weight = nn.Parameter(self.total / torch.where(")
