"""A program as users write them, of which mypy must not complain: pyproject.toml names it beside the package."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import retrograd as rg
from retrograd import Tensor, nn
from retrograd.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split


class Words(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return rg.ones(3), index % 2


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class NoDataset:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> float:
        return float(index)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(3, 4)
        self.out = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.out(self.hidden(x) * scale)


def train() -> float:
    training, _ = random_split(Words(), [3, 1])
    loader = DataLoader(training, batch_size=2, shuffle=True)
    model, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = rg.optim.Adam(model.parameters(), lr=1e-3)
    total = 0.0
    with rg.anomaly.watch(model, optimizer, policy="skip_step") as watch:
        for x, y in watch.steps(loader):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * x.size(0)
    if watch.event is not None:
        print(watch.event.op, watch.event.operands)
    for x, y in loader:
        print(x.mean(), y)
    return total


def other_loaders() -> None:
    for batch in DataLoader([1, 2, 3]):
        print(batch + 1)
    for (features,) in DataLoader(TensorDataset(rg.ones(2))):
        print(features)
    for batch in DataLoader(Stream()):
        print(batch)
    for batch in DataLoader(NoDataset()):
        print(batch)


def gradients() -> np.ndarray:
    x = rg.tensor([0.5, 1.0, 2.0], requires_grad=True)
    y = (np.sin(x) * rg.exp(x)).sum() + (-(x[1:] ** 2)).mean()
    y.backward()
    (first,) = rg.autograd.grad((x**3).sum(), x, create_graph=True)
    values, indices = first.max(dim=0)
    if x.grad is not None:
        x.grad.zero_()
    handle = x.register_hook(lambda g: g * 2)
    handle.remove()
    rg.save({"values": values.detach(), "indices": indices}, "values.npz")
    return x.detach().numpy()


@rg.no_grad()
def evaluate(model: nn.Module, x: Tensor, y: Tensor) -> float:
    return float(nn.functional.cross_entropy(model(x), y)) + float(rg.einsum("ij,ij", x, x))


@rg.anomaly.watch()
def smallest(x: Tensor, y: Tensor) -> float:
    return float(nn.functional.mse_loss(x, y).min())
