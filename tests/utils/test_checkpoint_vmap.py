"""Checkpoints and vmap inside each other: the recomputation belongs to the samples of the first call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint as torch_checkpoint

import retrograd as rg
from retrograd.utils.checkpoint import checkpoint as rg_checkpoint

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4))
W = RNG.normal(size=4)


def one(x: Any, w: Any) -> Any:
    return ((x * w).sin() * x).sum()


def inner(lib: Any) -> Any:
    """Compute a function of one sample that itself calls vmap."""
    return lambda x, w: lib.vmap(lambda x, w: (x * w).sin() * x)(x, w).sum()


Checkpoint = Callable[[Any], Any]
PROGRAMS: dict[str, Callable[[Any, Checkpoint], Any]] = {
    "vmap": lambda lib, c: c(lib.vmap(one, in_dims=(0, None))),
    "vmap of vmap": lambda lib, c: c(lib.vmap(inner(lib), in_dims=(0, None))),
    "inside of vmap": lambda lib, c: lib.vmap(c(one), in_dims=(0, None)),
    "between two vmaps": lambda lib, c: lib.vmap(c(inner(lib)), in_dims=(0, None)),
    "nested": lambda lib, c: c(lib.vmap(c(one), in_dims=(0, None))),
    "vmap of grad": lambda lib, c: c(lib.vmap(lib.func.grad(one), in_dims=(0, None))),
    "jacrev": lambda lib, c: c(lambda x, w: lib.func.jacrev(lambda v: (v * w).sin())(x[0])),
    "jacrev of grad": lambda lib, c: c(lambda x, w: lib.func.jacrev(lib.func.grad(one))(x[0], w)),
}


def derivatives(lib: Any, name: str, checkpointed: Checkpoint) -> list[Any]:
    x, w = lib.tensor(X, requires_grad=True), lib.tensor(W, requires_grad=True)
    output = PROGRAMS[name](lib, checkpointed)(x, w)
    return [output.tolist(), *[each.numpy() for each in lib.autograd.grad((output**2).sum(), (x, w))]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_checkpoint_around_and_inside_vmap_does_not_change_gradients(name: str) -> None:
    """They equal torch's without a checkpoint; with one, torch refuses all but the first two."""
    expected = derivatives(torch, name, lambda function: function)
    found = derivatives(rg, name, lambda function: lambda *args: rg_checkpoint(function, *args, use_reentrant=False))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs)


@pytest.mark.parametrize("name", ["vmap", "vmap of vmap"])
def test_checkpoint_and_vmap_where_torch_supports_both(name: str) -> None:
    with_it = lambda function: lambda *args: torch_checkpoint(function, *args, use_reentrant=False)  # noqa: E731
    for mine, theirs in zip(
        derivatives(torch, name, with_it), derivatives(torch, name, lambda function: function), strict=True
    ):
        np.testing.assert_allclose(mine, theirs)


def test_gradient_of_a_checkpoint_inside_vmap() -> None:
    again = rg.vmap(rg.func.grad(lambda x: rg_checkpoint(one, x, rg.tensor(W), use_reentrant=False)))(rg.tensor(X))
    plain = torch.vmap(torch.func.grad(lambda x: one(x, torch.tensor(W))))(torch.tensor(X))
    np.testing.assert_allclose(again.numpy(), plain.numpy())


@pytest.mark.parametrize("randomness", ["same", "different"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: rg.nn.functional.dropout(x, 0.5).sin(),
        lambda x: x * x * rg.randn(*x.shape),
        lambda x: rg.nn.functional.scaled_dot_product_attention(x, x, x * x, dropout_p=0.5),
    ],
)
def test_recomputation_inside_vmap_draws_the_same_numbers_for_each_sample(
    function: Callable[[Any], Any], randomness: str
) -> None:
    """Even by a backward after the call of ``vmap``."""

    def result_and_gradient(function: Callable[[Any], Any]) -> list[Any]:
        rg.manual_seed(0)
        x = rg.tensor(np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32), requires_grad=True)
        result = rg.vmap(function, randomness=randomness)(x)
        return [result.detach(), *rg.autograd.grad(result.sum(), x)]

    again = result_and_gradient(lambda x: rg_checkpoint(function, x, use_reentrant=False))
    rg.testing.assert_close(again, result_and_gradient(function))
