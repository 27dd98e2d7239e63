"""torch with retrograd's random numbers, so that one script can be compared on both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import retrograd as rg


def to_torch(value: Any) -> Any:
    if isinstance(value, rg.Tensor):
        return torch.from_numpy(value.detach().numpy())
    return value


def to_retrograd(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return rg.from_numpy(value.detach().numpy())
    if isinstance(value, torch.dtype):
        return getattr(rg, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return rg.device(str(value))
    if isinstance(value, torch.Generator):
        return value.ours  # type: ignore[attr-defined]
    if isinstance(value, (list, tuple)):
        return type(value)(map(to_retrograd, value)) if type(value) in (list, tuple) else tuple(value)
    return value


class Generator(torch.Generator):
    """torch's generator with one of retrograd's inside."""

    def __init__(self, device: Any = "cpu") -> None:
        self.ours = rg.Generator()

    def manual_seed(self, seed: int) -> Generator:
        self.ours.manual_seed(seed)
        return self

    def get_state(self) -> torch.Tensor:
        return to_torch(self.ours.get_state())

    def set_state(self, new_state: torch.Tensor) -> Generator:
        self.ours.set_state(to_retrograd(new_state))
        return self


def _drawn(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes tensors, by retrograd."""

    def draw(*args: Any, requires_grad: bool = False, **kwargs: Any) -> Any:
        dtype = kwargs.get("dtype")
        if dtype is None and function in (rg.rand, rg.randn, rg.normal):
            rg.set_default_dtype(to_retrograd(torch.get_default_dtype()))
        try:
            made = function(*map(to_retrograd, args), **{name: to_retrograd(value) for name, value in kwargs.items()})
        finally:
            rg.set_default_dtype(rg.float32)
        return to_torch(made).requires_grad_(requires_grad)

    return draw


def _overwritten(name: str) -> Callable[..., Any]:
    """A method that overwrites its tensor, by retrograd."""

    def overwrite(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        ours = rg.from_numpy(self.detach().numpy(force=True))  # on the same memory
        getattr(ours, name)(*map(to_retrograd, args), **{key: to_retrograd(value) for key, value in kwargs.items()})
        return self

    return overwrite


def _dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    if not training or p == 0:
        return input
    return input * to_torch(rg.nn.functional.dropout(rg.ones(*input.shape, dtype=to_retrograd(input.dtype)), p))


def _truncated_normal(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    with torch.no_grad():
        return tensor.copy_(to_torch(rg.nn.init.trunc_normal_(to_retrograd(tensor.clone()), *args, **kwargs)))


def _random_order(self: Any) -> Any:
    generator = None if self.generator is None else self.generator.ours
    return iter(rg.utils.data.RandomSampler(self.data_source, self.replacement, self._num_samples, generator))


def share(patch: pytest.MonkeyPatch) -> None:
    """Make torch draw retrograd's numbers from here on."""
    for name in (
        "rand",
        "randn",
        "rand_like",
        "randn_like",
        "randint",
        "randperm",
        "normal",
        "bernoulli",
        "multinomial",
    ):
        patch.setattr(torch, name, _drawn(getattr(rg, name)))
    for name in ("uniform_", "normal_", "bernoulli_", "exponential_", "random_"):
        patch.setattr(torch.Tensor, name, _overwritten(name))
    patch.setattr(torch, "manual_seed", rg.manual_seed)
    patch.setattr(torch, "get_rng_state", lambda: to_torch(rg.get_rng_state()))
    patch.setattr(torch, "set_rng_state", lambda new_state: rg.set_rng_state(to_retrograd(new_state)))
    patch.setattr(torch, "Generator", Generator)
    patch.setattr("torch.utils.data.dataset.randperm", torch.randperm)
    patch.setattr("torch.utils.data.RandomSampler.__iter__", _random_order)
    patch.setattr("torch.nn.functional.dropout", _dropout)
    patch.setattr("torch.nn.init.trunc_normal_", _truncated_normal)
