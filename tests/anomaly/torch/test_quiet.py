"""Healthy training, with all the infinities that are meant: no event, and the same weights as without the watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import retrograd as rg
from tests.anomaly.torch.training import state

STEPS = 40


class Residual(nn.Module):
    """A small residual network on images."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 1, 1))
            for _ in range(2)
        )
        self.last = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for block in self.blocks:
            h = h + block(h)
        return self.last(h.mean((2, 3)))


class Attention(nn.Module):
    """A transformer with causal and padding masks."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.last = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        padding = torch.zeros(x.shape[:2]).masked_fill(torch.arange(x.shape[1]) >= 5, float("-inf"))
        return self.last(self.encoder(x, mask=causal, src_key_padding_mask=padding))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 8, batch_first=True)
        self.last = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.lstm(x)[0][:, -1])


def images() -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    return Residual(), lambda model: F.cross_entropy(model(torch.randn(4, 1, 6, 6)), torch.randint(3, (4,)))


def sequences() -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    return Attention(), lambda model: F.mse_loss(model(x := torch.randn(2, 6, 8))[:, :5], x[:, :5])


def recurrence() -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    return Recurrent(), lambda model: (model(torch.randn(2, 5, 4)) ** 2).mean()


def half_precision() -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    def loss(model: nn.Module) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return F.cross_entropy(model(torch.randn(4, 1, 6, 6)), torch.randint(3, (4,)))

    return Residual(), loss


def train(make: Callable[[], Any], watching: str) -> dict[str, Tensor]:
    torch.manual_seed(0)
    model, loss_of = make()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    w = rg.anomaly.watch(model, optimizer)

    def step() -> None:
        optimizer.zero_grad()
        loss_of(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    if watching == "nothing":
        for _ in range(STEPS):
            step()
    else:
        with w:
            for _ in w.steps(range(STEPS)) if watching == "steps" else range(STEPS):
                step()
        assert not w.events
        assert w.step == STEPS
    return state(model)


@pytest.mark.parametrize("make", [images, sequences, recurrence, half_precision])
def test_training_is_the_same_with_the_watch(make: Any) -> None:
    without = train(make, "nothing")
    for watching in ("watch", "steps"):
        torch.testing.assert_close(train(make, watching), without, rtol=0, atol=0)


INF = float("inf")
LEGAL: dict[str, Callable[[Tensor], Tensor]] = {
    "masked softmax": lambda x: x.masked_fill(torch.tensor([False, True, False]), -INF).softmax(0).square().sum(),
    "masked log softmax": lambda x: x.masked_fill(torch.tensor([False, True, False]), -INF).log_softmax(0)[0],
    "double where": lambda x: torch.where(x > 5, torch.log(torch.where(x > 5, x - 5, 1.0)), 0.0).sum(),
    "logsumexp with -inf": lambda x: torch.cat([x, torch.tensor([-INF])]).logsumexp(0),
    "initial minimum": lambda x: torch.minimum(torch.tensor(INF), x).sum(),
    "a clamped infinity": lambda x: (torch.tensor([INF, 1.0, 1.0]).clamp(max=3.0) * x).sum(),
    "nan_to_num of a constant": lambda x: (x * torch.tensor([INF, 1.0, 1.0]).nan_to_num(0.0, 0.0, 0.0)).sum(),
    "an unused branch": lambda x: [torch.log(x * 0), x.sum()][1],
    "detached statistics": lambda x: x.sum() + 0 * (x.detach() / 0).isnan().sum(),
    "norm at zero": lambda x: (x - x).norm() + x.sum(),
    "entropy": lambda x: -torch.xlogy(x.clamp(min=1e-6), x.clamp(min=1e-6)).sum(),
    "boolean choice of scores": lambda x: torch.where(torch.tensor([True, False, True]), x, -INF)[::2].sum(),
    "top of masked scores": lambda x: x.masked_fill(x < 2, -INF).max(),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.reshape(1, 3, 1)] * 3, is_causal=True).sum(),
}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", LEGAL)
def test_infinities_that_are_meant(name: str, again: bool) -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with rg.anomaly.watch() as w:
        for _ in w.steps([0]) if again else [0]:
            LEGAL[name](x).backward()
    assert x.grad is not None and bool(x.grad.isfinite().all()), "the program is not healthy"


def test_memory_is_bounded() -> None:
    """Nothing is kept from step to step: the sites of one step, the model's calls of one step."""
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    with rg.anomaly.watch(model, optimizer, budget=1.0) as w:
        (monitor,) = w._adapters
        sizes = []
        for _ in range(200):
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
            sizes.append(len(monitor._sites._noted) + len(monitor._calls._calls))  # type: ignore[attr-defined]
    assert max(sizes) == sizes[0]


def test_evaluation_without_gradients_is_not_kept() -> None:
    model = nn.Linear(3, 1)
    with rg.anomaly.watch(model) as w, torch.no_grad():
        model(torch.ones(2, 3))
        assert not w._adapters[0]._calls._calls  # type: ignore[attr-defined]
