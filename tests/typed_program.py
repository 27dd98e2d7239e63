"""A typical user program that must pass mypy; pyproject.toml lists it next to the package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_type

import numpy as np

import retrograd as rg
from retrograd import Tensor, nn
from retrograd.autograd.function import FunctionCtx
from retrograd.utils.checkpoint import checkpoint
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


class Scaled(rg.autograd.Function):
    """A function with its own parameter names and an attribute on its ctx."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, factor: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        assert_type(2 * g * x, Tensor)
        return g * x * ctx.factor * 2, None

    @staticmethod
    def jvp(ctx: FunctionCtx, tangent: Tensor, _: None) -> Tensor:
        return tangent


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


def tensors(x: Tensor, array: np.ndarray) -> None:
    """Call methods, operators and functions with torch's and with NumPy's parameter names."""
    assert_type(x.exp().sum(dim=0, keepdim=True), Tensor)
    assert_type(x.sum(axis=0, keepdims=True), Tensor)
    assert_type(rg.exp(x) + 1, Tensor)
    assert_type(2 * -(x**2) @ x.T, Tensor)
    assert_type((x > 0) & ~(x == 1), Tensor)
    assert_type(x[0, ..., None, 1:], Tensor)
    assert_type(x[x > 0], Tensor)
    assert_type(x[[0, 1]], Tensor)
    assert_type(x.reshape(2, -1).view((-1,)).permute(0), Tensor)
    assert_type(x.to(rg.float64).to("cpu").to(device="cpu", dtype=np.float32), Tensor)
    assert_type(x.float().clamp(min=0).requires_grad_(), Tensor)
    assert_type(rg.mul(2.0, x), Tensor)
    assert_type(rg.dist(array, x), Tensor)
    assert_type(rg.add(x, array, alpha=2, out=rg.empty(0)), Tensor)
    assert_type(rg.cat([x, x], dim=1), Tensor)
    assert_type(rg.einsum("ij,kj->ik", x, x), Tensor)
    x -= 0.1 * x
    x[0] = 3.0
    x.zero_().add_(x, alpha=0.1).uniform_(-1, 1)
    for row in x:
        assert_type(row, Tensor)


def facts(x: Tensor) -> None:
    """Use attributes of tensors."""
    assert_type(x.shape, rg.Size)
    assert_type(x.shape[0], int)
    assert_type(x.shape[1:].numel(), int)
    assert_type(x.size(-1), int)
    assert_type(x.size(), rg.Size)
    assert_type(x.dtype, rg.dtype)
    assert_type(x.device, rg.device)
    assert_type(x.is_floating_point(), bool)
    assert_type(x.item(), float | int | bool)
    assert_type(x.grad, Tensor | None)
    assert_type(x.type(), str)


def several_results(x: Tensor) -> None:
    """Use named tuples, tuples, and results that depend on a flag."""
    assert_type(x.max(), Tensor)
    assert_type(x.max(dim=0), rg.return_types.max)
    assert_type(x.max(axis=0).values, Tensor)
    assert_type(rg.max(x, x + 1), Tensor)
    values, indices = x.topk(2)
    assert_type(indices, Tensor)
    assert_type(rg.linalg.svd(x).S, Tensor)
    assert_type(rg.split(values, [1, 1]), tuple[Tensor, ...])
    assert_type(rg.where(x > 0), tuple[Tensor, ...])
    assert_type(rg.where(x > 0, x, 0.0), Tensor)
    assert_type(x.nonzero(as_tuple=True), tuple[Tensor, ...])
    assert_type(x.unique(return_counts=True), tuple[Tensor, Tensor])
    assert_type(nn.functional.max_pool2d(x, 2), Tensor)
    assert_type(nn.functional.max_pool2d(x, 2, return_indices=True), tuple[Tensor, Tensor])
    assert_type(rg.autograd.grad(x.sum(), x), tuple[Tensor, ...])
    assert_type(rg.autograd.grad(x.sum(), {"x": x}), dict[str, Tensor])


def namespaces(x: Tensor, y: Tensor) -> None:
    assert_type(Net()(x, scale=2.0), Tensor)
    assert_type(nn.Linear(3, 2)(x).sum(), Tensor)
    assert_type(nn.functional.relu(x, inplace=True), Tensor)
    assert_type(nn.functional.cross_entropy(x, y, label_smoothing=0.1), Tensor)
    assert_type(nn.functional.softmax(x, dim=-1), Tensor)
    assert_type(rg.fft.rfft(x, norm="ortho"), Tensor)
    assert_type(rg.special.erf(x), Tensor)
    assert_type(rg.linalg.norm(x, ord=2, dim=(0, 1)), Tensor)
    assert_type(rg.exp_(x), Tensor)
    assert_type(rg.FloatTensor([1.0]).abs(), Tensor)


def distributions(x: Tensor) -> None:
    normal = rg.distributions.Normal(0.0, 1.0)
    assert_type(normal.rsample((3,)), Tensor)
    assert_type(normal.log_prob(x), Tensor)
    assert_type(rg.distributions.Categorical(x).entropy() + normal.mean, Tensor)
    assert_type(rg.distributions.kl_divergence(normal, normal), Tensor)


def of_functions(x: Tensor) -> None:
    """Call functions that return the result of a user's function."""

    def pair(x: Tensor) -> tuple[Tensor, int]:
        return x.sin(), 1

    assert_type(checkpoint(pair, x, use_reentrant=False), tuple[Tensor, int])
