"""Whatever the program holds in its variables, a birth beside them is told as ever, and the program goes on."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import retrograd as rg
from retrograd.anomaly import Watch
from tests.anomaly.both import libraries, only_event


class Absent:
    """A proxy of something that is not there, as of a request while none is under way."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("there is no request")


class Silent:
    """An object of which every attribute raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class Pairs(list[Any]):
    """Data that is made when it is asked for, item by item."""

    def __getitem__(self, index: Any) -> Any:
        first, second = super().__getitem__(index)
        return first + second


class Computed(dict[str, Any]):
    """Entries that are computed when they are asked for."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(f"{key} cannot be computed yet")

    def __iter__(self) -> Any:
        raise RuntimeError("nobody knows all keys")


class LooksLikeAModule:
    """Has methods of modules, by another contract."""

    def named_modules(self, depth: int) -> Any:
        raise RuntimeError(depth)

    def named_parameters(self, depth: int) -> Any:
        raise RuntimeError(depth)


class Begun(rg.nn.Module):
    """A module that is not made yet."""

    def __init__(self) -> None:
        pass


def spoilt() -> torch.nn.Module:
    module = torch.nn.BatchNorm1d(2)
    with torch.no_grad():
        module.running_var[0] = float("nan")
    return module


class Refusing(torch.nn.Module):
    """A module that does not list its parameters yet."""

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("not yet")


class Holding(torch.nn.Module):
    """A module with buffers of kinds whose elements cannot be read like any tensor's."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("nothing", None)
        for number, make in enumerate(TENSORS):
            self.register_buffer(f"buffer{number}", make())


@pytest.fixture(autouse=True)
def _experimental() -> Iterator[None]:
    """Some of these kinds are called prototypes by torch, once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fake() -> Any:
    return FakeTensorMode().from_tensor(torch.ones(3))


def jagged() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)


TENSORS: list[Any] = [
    *(lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), jagged, fake),
    *(lambda: torch.eye(3).to_sparse(), lambda: torch.eye(3).to_sparse_csr(), lambda: torch.ones(3, device="meta")),
    *(lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), lambda: torch.empty(0)),
    *(lambda: torch._neg_view(torch.ones(3)), lambda: torch.ones(3).to(torch.float8_e4m3fn)),
    *(lambda: torch.ones(2, dtype=torch.complex64).conj(), lambda: torch.ones(2, dtype=torch.bool).expand(3, 2)),
]

KINDS: list[Any] = [
    *TENSORS,
    *(Holding, Refusing, lambda: torch.nn.Linear(2, 2, device="meta"), lambda: torch.nn.LazyLinear(2)),
    *(torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer),
    *(Absent, Silent, lambda: Pairs([(1, 2), (3, 4)]), lambda: Computed(one=1), LooksLikeAModule, Begun, spoilt),
    *(rg.nn.UninitializedParameter, rg.nn.UninitializedBuffer, lambda: rg.nn.LazyLinear(2), rg.nn.LazyBatchNorm1d),
    *(lambda: [Absent(), Silent()], lambda: {"one": Absent()}),
]


def loss_of(lib: Any, held: Any, x: Any) -> Any:
    return lib.log(x).sum()


def gradient_of(lib: Any, held: Any, x: Any) -> Any:
    return lib.where(x > 0, lib.sqrt(x), 0.0).sum()


@libraries
@pytest.mark.parametrize("harm", [loss_of, gradient_of])
@pytest.mark.parametrize("make", KINDS)
def test_a_birth_is_reported_beside_any_variable(library: str, harm: Any, make: Any) -> None:
    lib: Any = rg if library == "retrograd" else torch
    held = make()
    x = lib.tensor([1.0, 0.0], requires_grad=True)
    with Watch(policy="record") as watch:
        harm(lib, held, x).backward()
    event = only_event(watch)
    assert event.op.lower().startswith("log" if harm is loss_of else "sqrt")
    assert event.index == (1,)
    assert event.harmed == ("loss" if harm is loss_of else "the gradient of x")


@libraries
@pytest.mark.parametrize("make", KINDS)
def test_bad_data_is_named_beside_any_variable(library: str, make: Any) -> None:
    lib: Any = rg if library == "retrograd" else torch
    held = make()
    x, weights = lib.ones(2).requires_grad_(), lib.tensor([1.0, float("nan")])
    with Watch(policy="record") as watch:
        (x * weights).sum().backward()
    assert held is not None
    event = only_event(watch)
    assert (event.kind, event.index, event.operands.keys()) == ("leaf", (1,), {"weights"})


@libraries
@pytest.mark.parametrize("make", KINDS)
def test_training_and_evaluations_go_on_beside_any_variable(library: str, make: Any) -> None:
    lib: Any = rg if library == "retrograd" else torch
    net = lib.nn.Linear(2, 1)
    held = None if make is spoilt else make()  # its average would be the reason
    with Watch(policy="record") as watch:
        optimizer = lib.optim.Adam(net.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            net(lib.ones(3, 2)).square().mean().backward()
            optimizer.step()
        with lib.no_grad():
            outputs = net(lib.ones(3, 2)) * 0 - 1
            score = outputs.log().mean().item()
    assert math.isnan(score)
    assert watch.step == 3 and (held is not None or make is spoilt)
    assert only_event(watch).op == "log"


# --- layers that are not made completely before they are called -------------------------------------------------------


def lazy_model() -> Any:
    layers = {"used": rg.nn.Linear(2, 1), "later": rg.nn.LazyLinear(2), "norm": rg.nn.LazyBatchNorm1d()}
    return rg.nn.ModuleDict(layers)


def test_a_model_with_uninitialised_layers_is_watched() -> None:
    model = lazy_model()
    with Watch(model, policy="record") as watch:
        rg.log(model["used"](rg.zeros(1, 2)) * 0).sum().backward()
    assert only_event(watch).op == "log"


def test_a_lazy_model_is_run_again_after_its_first_step() -> None:
    model = rg.nn.Sequential(rg.nn.LazyLinear(2), rg.nn.LazyBatchNorm1d())
    optimizer = rg.optim.Adam(model.parameters(), lr=0.1)
    with Watch(model, optimizer, policy="skip_step") as watch:
        for batch in watch.steps([rg.randn(4, 3), rg.full((4, 3), float("nan")), rg.randn(4, 3)]):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
    assert only_event(watch).batch_idx == 1
    assert all(bool(each.isfinite().all()) for each in (*model.parameters(), *model.buffers()))


@pytest.mark.parametrize("eps", [0.0, 1e-8])
def test_an_update_with_uninitialised_layers_is_undone(eps: float) -> None:
    model = lazy_model()
    optimizer = rg.optim.Adam(model.parameters(), lr=0.1, eps=eps)
    before = model["used"].bias.item()
    with Watch(model, optimizer, policy="skip_step") as watch:
        model["used"](rg.ones(1, 2)).sum().backward()
        optimizer.step()
        assert model["used"].bias.item() != before
        assert not watch.triggered
        optimizer.zero_grad()
        (model["used"](rg.ones(1, 2)) * float("inf")).sum().backward()
        optimizer.step()
    assert only_event(watch).op == "mul"
    assert bool(model["used"].weight.isfinite().all())
