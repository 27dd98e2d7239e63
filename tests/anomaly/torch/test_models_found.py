"""Models that the watch was not given, in unmodified scripts: found among the variables of the program."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import retrograd as rg
from retrograd.anomaly.adapters.torch import attach_on_import
from tests.anomaly.torch.training import line_of, state


def script(policy: str = "skip_step") -> Any:
    """The watch as `retrograd run` starts it."""
    w = rg.anomaly.watch(policy=policy)
    attach_on_import(w)
    return w


class Deep(nn.Module):
    """A fault in the middle, far from the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)
        self.rest = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(10)))

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        size = (h * h).sum(-1, keepdim=True)
        h = torch.where(size > 0, h / torch.sqrt(size), h)  # the birth in the middle
        return self.rest(h)


def data(steps: int, bad: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(3, 4, generator=generator) * (step != bad) for step in range(steps)]


class Trainer:
    """Holds its model as an attribute."""

    def __init__(self) -> None:
        self.model = Deep()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def train(self, batches: list[Tensor]) -> None:
        for x in batches:
            self.optimizer.zero_grad()
            self.model(x).pow(2).mean().backward()
            self.optimizer.step()


def test_a_birth_in_the_middle_of_a_model_without_a_loader() -> None:
    trainer = Trainer()
    with script() as w:
        trainer.train(data(4, bad=2))
    event = w.event
    assert (event.op, event.step, event.module_type) == ("DivBackward0", 3, "Deep")
    assert event.lineno == line_of("# the birth in the middle", Deep)
    assert event.rerun is None
    assert not trainer.model._forward_hooks, "nothing stays behind"


def test_a_watch_in_a_program_is_told_its_models() -> None:
    with rg.anomaly.watch(policy="record") as w:
        Trainer().train(data(4, bad=2))
    assert w.event.op == "unknown"


def test_several_models_and_optimizers() -> None:
    """The fault lies in the model whose outputs go through another one."""
    front, back = Deep(), nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()) for _ in range(10)))
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (front, back)]
    with script() as w:
        for x in data(4, bad=2):
            for optimizer in optimizers:
                optimizer.zero_grad()
            back(front(x)).pow(2).mean().backward()
            for optimizer in optimizers:
                optimizer.step()
    assert (w.event.op, w.event.lineno) == ("DivBackward0", line_of("# the birth in the middle", Deep))


@pytest.mark.parametrize("policy", ["skip_step", "record"])
def test_buffers_are_put_back_in_a_second_run(policy: str) -> None:
    norm = nn.Sequential(nn.BatchNorm1d(4))

    def train(loader: Any) -> dict[str, Tensor]:
        with script(policy) as w:
            for x in loader:
                before.append(state(norm))
                out = norm(x)
                (out.sum() if len(before) != 2 else torch.log(out.sum() * 0)).backward()
            seen.extend(w.events)
        return state(norm)

    before: list[Any] = []
    seen: list[Any] = []
    train(DataLoader(torch.randn(12, 4), 4))
    assert [each.reproducible for each in seen] == [False] if len(before) == 3 else [True]
    assert len(before) == 4, "one batch comes twice"
    torch.testing.assert_close(before[2], before[1], rtol=0, atol=0)
    torch.testing.assert_close(before[3], before[1], rtol=0, atol=0)


def test_models_that_look_for_hooks_are_left_alone() -> None:
    layer = nn.TransformerEncoderLayer(4, 1, 8, batch_first=True)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    with script():
        layer(torch.randn(2, 3, 4)).sum().backward()
        optimizer.step()
        assert not layer._forward_hooks
