"""Names of layers and weights are those that the program has given, whatever is put around its modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

import retrograd as rg


class Log(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.log(x * 0 - 1)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 3), Log())

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)  # type: ignore[no-any-return]


class HasModule(nn.Module):
    """A program's own member may be called as that of a wrapper is."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Sequential(nn.Linear(3, 3), Log())

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x)  # type: ignore[no-any-return]


def compiled(module: nn.Module) -> nn.Module:
    return torch.compile(module, backend="eager")  # type: ignore[return-value]


def compiled_within() -> nn.Module:
    net = Net()
    net.encoder = compiled(net.encoder)
    return net


def checkpointed_within() -> nn.Module:
    net = Net()
    net.encoder = checkpoint_wrapper(net.encoder)
    return net


@pytest.fixture(autouse=True)
def _forget_what_is_compiled() -> Iterator[None]:
    yield
    torch._dynamo.reset()


WRAPPED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "plain": (Net, "encoder"),
    "called module": (HasModule, "module"),
    "parallel": (lambda: nn.DataParallel(Net()), "encoder"),
    "parallel called module": (lambda: nn.DataParallel(HasModule()), "module"),
    "compiled": (lambda: compiled(Net()), "encoder"),
    "parallel compiled": (lambda: nn.DataParallel(compiled(Net())), "encoder"),
    "compiled within": (compiled_within, "encoder"),
    "checkpointed within": (checkpointed_within, "encoder"),
}


@pytest.mark.parametrize("kind", WRAPPED)
def test_layers_and_weights_have_the_programs_names(kind: str) -> None:
    make, encoder = WRAPPED[kind]
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with rg.anomaly.watch(model, optimizer, policy="record") as w:
        for x in w.steps([torch.ones(2, 3)]):
            model(x).sum().backward()
    assert w.event is not None
    assert (w.event.op, w.event.layer_name, w.event.module_type) == ("log", f"{encoder}.1", "Log")
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    with rg.anomaly.watch(model, optimizer, policy="record") as w:
        for x in w.steps([torch.ones(2, 3)]):
            model(x).sum().backward()
    assert w.event is not None
    assert (w.event.kind, w.event.layer_name) == ("leaf", f"{encoder}.0")
    assert list(w.event.operands) == [f"{encoder}.0.weight"]


@pytest.mark.parametrize("kind", WRAPPED)
def test_the_detector_uses_the_programs_names(kind: str) -> None:
    make, encoder = WRAPPED[kind]
    model = make()
    with rg.anomaly.NaNDetector(model, verbose=False) as detector, torch.no_grad():
        model(torch.ones(2, 3))
    assert detector.event is not None
    assert (detector.event.op, detector.event.layer_name) == ("log", f"{encoder}.1")
