"""Healthy training for 2,000 steps: no event, and the same weights, bit for bit, as without the watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import retrograd as rg
from tests.anomaly.torch.training import state

STEPS = 2000  # half of them as a plain loop, half under ``steps``


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


def images(model: nn.Module) -> Tensor:
    return F.cross_entropy(model(torch.randn(4, 1, 6, 6)), torch.randint(3, (4,)))


def images_in_bfloat16(model: nn.Module) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return images(model)


def sequences(model: nn.Module) -> Tensor:
    x = torch.randn(2, 6, 8)
    return F.mse_loss(model(x)[:, :5], x[:, :5])


def recurrence(model: nn.Module) -> Tensor:
    return (model(torch.randn(2, 5, 4)) ** 2).mean()


def train(make: Callable[[], nn.Module], loss_of: Callable[[nn.Module], Tensor], watched: bool) -> dict[str, Tensor]:
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss_of(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    if not watched:
        for _ in range(STEPS):
            step()
        return state(model)
    with rg.anomaly.watch(model, optimizer) as w:
        for _ in range(STEPS // 2):
            step()
        for _ in w.steps(range(STEPS // 2)):
            step()
    assert not w.events
    assert w.step == STEPS
    return state(model)


@pytest.fixture
def one_thread() -> Any:
    """Use one thread, because small models are slower with two."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("make", "loss_of"),
    [(Residual, images), (Attention, sequences), (Recurrent, recurrence), (Residual, images_in_bfloat16)],
    ids=["ResNet", "transformer", "LSTM", "bfloat16"],
)
def test_training_is_the_same_with_the_watch(make: Any, loss_of: Any) -> None:
    without = train(make, loss_of, watched=False)
    assert all(bool(each.isfinite().all()) for each in without.values()), "the program is not healthy"
    torch.testing.assert_close(train(make, loss_of, watched=True), without, rtol=0, atol=0)
