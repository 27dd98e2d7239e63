"""Gradients of vmapped gradients, for functions that gather, scatter and otherwise move elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.nn import functional as F

RNG = np.random.default_rng(0)
X, W, V = (rg.tensor(RNG.normal(size=shape)) for shape in ((3, 4), (4, 4), (4, 4)))
ROW = rg.tensor([[0, 1, 2, 0]])
CLASSES = rg.tensor([1, 0, 3])

# functions of a square matrix through a product, whose gradient may be in column-major order
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "scatter_add": lambda w: X.scatter_add(0, ROW, (X @ w)[:1]),
    "scatter": lambda w: X.scatter(0, ROW, (X @ w)[:1]),
    "scatter_reduce": lambda w: X.scatter_reduce(0, ROW, (X @ w)[:1], "prod"),
    "gather": lambda w: (X @ w).gather(0, ROW),
    "index_add": lambda w: X.index_add(0, rg.tensor([0, 0, 2]), X @ w),
    "index_put": lambda w: X.index_put((rg.tensor([0, 2]),), (X @ w)[:2], accumulate=True),
    "index_copy": lambda w: X.index_copy(0, rg.tensor([0, 2]), (X @ w)[:2]),
    "select_scatter": lambda w: X.select_scatter((X @ w)[0], 0, 1),
    "slice": lambda w: (X @ w)[1:, ::2],
    "take": lambda w: (X @ w).take(rg.tensor([1, 2, 2])),
    "embedding": lambda w: F.embedding(CLASSES, w) * X,
    "sort": lambda w: (X @ w).sort(1)[0],
    "max": lambda w: (X @ w).max(1)[0],
    "cummax": lambda w: (X @ w).cummax(1)[0],
    "nll_loss": lambda w: F.nll_loss((X @ w).log_softmax(1), CLASSES, reduction="none"),
    "multi_margin_loss": lambda w: F.multi_margin_loss(X @ w, CLASSES, p=2, margin=0.3),
    "max_pool1d": lambda w: F.max_pool1d((X @ w)[None], 2)[0],
    "unfold": lambda w: (X @ w).unfold(1, 2, 1),
    "conv1d": lambda w: F.conv1d((X @ w)[None], w[:3, :3].reshape(3, 3, 1))[0],
}


def gradient(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return rg.func.grad(lambda w: function(w).sin().sum())


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_of_vmapped_gradients(name: str, dim: int) -> None:
    """It equals the gradient through gradients computed one by one."""
    one = gradient(FUNCTIONS[name])

    def batched(w: Any) -> Any:
        return rg.vmap(one, in_dims=dim, out_dims=dim)(rg.stack([w, w * V], dim))

    def one_by_one(w: Any) -> Any:
        return rg.stack([one(w), one(w * V)], dim)

    expected = gradient(one_by_one)(W)
    assert expected.abs().max() > 0
    np.testing.assert_allclose(gradient(batched)(W).numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)
