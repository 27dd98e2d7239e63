"""Tensors whose numbers nobody can read, or only in a way of their own: the watch stops no program for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map

import retrograd as rg

NAN = float("nan")


class Wrapper(Tensor):
    """A tensor around another one, which it does not show."""

    inner: Tensor
    refused: tuple[str, ...] = ()

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapper:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # type: ignore[attr-defined]

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(name in str(func) for name in cls.refused):
            raise NotImplementedError(f"{func} of {cls.__name__}")
        bare = tree_map(lambda each: each.inner if isinstance(each, Wrapper) else each, (args, kwargs or {}))
        result = func(*bare[0], **bare[1])
        if func._schema.is_mutable:
            return args[0]
        return tree_map(lambda each: cls(each) if isinstance(each, Tensor) else each, result)


class Refusing(Wrapper):
    """One that does little besides training."""

    refused = ("norm", "isfinite", "isnan", "isinf", "eq", "ne.", "abs", "_local_scalar_dense", "clone")


class Function(Tensor):
    """One that goes along by ``__torch_function__``."""


def plain(params: list[Tensor], loss_of: Callable[[float], Tensor], bad: bool, update: str) -> None:
    optimizer = torch.optim.SGD(params, 0.01) if update == "optimizer" else None
    for step in range(4):
        for param in params:
            param.grad = None
        loss_of(NAN if bad and step == 2 else 1.0).backward()  # type: ignore[no-untyped-call]
        if optimizer is not None:
            optimizer.step()
        else:
            with torch.no_grad():
                for param in params:
                    assert param.grad is not None
                    param.sub_(0.01 * param.grad)


def meta(bad: bool, update: str) -> None:
    model = nn.Linear(3, 2, device="meta")
    plain(list(model.parameters()), lambda f: (model(torch.ones(4, 3, device="meta")) * f).sum(), bad, update)


def clipped_on_meta(bad: bool, update: str) -> None:
    model = nn.Linear(3, 2, device="meta")
    for _ in range(3):
        model(torch.ones(4, 3, device="meta")).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def fake(bad: bool, update: str) -> None:
    with FakeTensorMode():
        model = nn.Linear(3, 2)
        plain(list(model.parameters()), lambda f: (model(torch.ones(4, 3)) * f).sum(), bad, update)


def fake_within_a_loop_that_is_not(bad: bool, update: str) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, x = nn.Linear(3, 2), torch.ones(4, 3)
    plain(list(model.parameters()), lambda f: (model(x) * f).sum(), bad, update)


def wrapper(bad: bool, update: str) -> None:
    param = Wrapper(torch.ones(3)).requires_grad_()
    plain([param], lambda f: (param * 2 * f).sum(), bad, update)


def refusing(bad: bool, update: str) -> None:
    param = Refusing(torch.ones(3)).requires_grad_()
    plain([param], lambda f: (param * 2 * f).sum(), bad, update)


def subclass(bad: bool, update: str) -> None:
    param = torch.ones(3).as_subclass(Function).requires_grad_()
    plain([param], lambda f: (param * 2 * f).sum(), bad, update)


def expanded(bad: bool, update: str) -> None:
    param, other = torch.ones(3, requires_grad=True), torch.ones(1).expand(3).requires_grad_()
    plain([param], lambda f: (param * f).sum() + other.sum(), bad, update)


def eight_bits(bad: bool, update: str) -> None:
    param = torch.ones(3, requires_grad=True)
    plain([param], lambda f: (param * f).to(torch.float8_e4m3fn).float().sum(), bad, update)


UNREADABLE = [meta, clipped_on_meta, fake, fake_within_a_loop_that_is_not, refusing]
READABLE = [wrapper, subclass, expanded, eight_bits]
OPTIONS: list[dict[str, Any]] = [{}, {"policy": {"nan": "raise", "spike": "record"}}, {"lag": 1}, {"from_step": 2}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("update", ["by hand", "optimizer"])
@pytest.mark.parametrize("program", [*UNREADABLE, *READABLE], ids=lambda each: each.__name__)
def test_healthy_programs_have_no_event(program: Any, update: str, options: dict[str, Any]) -> None:
    program(False, update)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rg.anomaly.AnomalyWarning)
        with rg.anomaly.watch(**options) as w:
            program(False, update)
    assert not w.events


@pytest.mark.parametrize("program", UNREADABLE, ids=lambda each: each.__name__)
def test_numbers_that_cannot_be_read_give_no_event(program: Any) -> None:
    with rg.anomaly.watch() as w:
        for _ in w.steps([0]):
            program(True, "optimizer")
    assert not w.events


@pytest.mark.parametrize("update", ["by hand", "optimizer"])
@pytest.mark.parametrize("program", READABLE, ids=lambda each: each.__name__)
def test_numbers_that_can_be_read_in_another_way_are_watched(program: Any, update: str) -> None:
    for again in (False, True):
        with pytest.raises(rg.anomaly.AnomalyError), rg.anomaly.watch() as w:
            for _ in w.steps([0]) if again else [0]:
                program(True, update)
        assert w.events[0].step == 3


def test_an_error_of_the_program_is_not_replaced() -> None:
    """The variables that it leaves behind are tensors of a transform that has ended."""

    def inside(x: Tensor) -> Tensor:
        loss = (x**2).sum()
        assert loss is None, "the program's own"
        return loss

    with pytest.raises(AssertionError, match="the program's own"), rg.anomaly.watch():
        torch.func.vmap(lambda x: torch.func.grad(inside)(x))(torch.ones(2, 3))
