"""Distances computed column by column, in blocks of pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops import _distances

ORDERS = [1.0, 1.5, 2.0, 3.0, math.inf]


def special_rows(*shape: int) -> Any:
    """Return small whole numbers, so that columns tie and points coincide; some rows have nonfinite numbers."""
    x = np.random.default_rng(0).integers(-2, 3, shape).astype(np.float64)
    x[..., -1, 0], x[..., -2, 1] = np.nan, np.inf
    return x


@pytest.mark.parametrize("block", [1, 7, 30, 1 << 15])
@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("shapes", [((9, 3), (5, 3)), ((4, 1, 6, 2), (3, 5, 2)), ((7, 4), (2, 3, 4)), ((0, 3), (4, 3))])
def test_cdist_in_blocks_of_pairs(p: float, block: int, shapes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_distances, "_BLOCK", block)
    operands = [special_rows(*shape) if 0 not in shape else np.zeros(shape) for shape in shapes]
    results = []
    for function in (
        lambda a, b: rg.cdist(a, b, p, compute_mode="donot_use_mm_for_euclid_dist"),
        lambda a, b: rg.linalg.vector_norm(a[..., :, None, :] - b[..., None, :, :], p, -1),
    ):
        a, b = (rg.tensor(x, requires_grad=True) for x in operands)
        result = function(a, b)
        result.backward(rg.arange(result.numel(), dtype=rg.float64).reshape(result.shape) % 5 + 1)
        results.append([x.detach().numpy() for x in (result, a.grad, b.grad)])
    for ours, composed in zip(*results, strict=True):
        np.testing.assert_allclose(ours, composed, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block", [1, 7, 30, 1 << 15])
@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("count", [2, 3, 11])
def test_pdist_in_blocks_of_pairs(p: float, block: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_distances, "_BLOCK", block)
    first, second = np.triu_indices(count, 1)
    results = []
    for function in (
        lambda x: rg.nn.functional.pdist(x, p),
        lambda x: rg.linalg.vector_norm(x[first] - x[second], p, -1),
    ):
        x = rg.tensor(special_rows(count, 3), requires_grad=True)
        result = function(x)
        result.backward(rg.arange(result.numel(), dtype=rg.float64) % 5 + 1)
        results.append([each.detach().numpy() for each in (result, x.grad)])
    for ours, composed in zip(*results, strict=True):
        np.testing.assert_allclose(ours, composed, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("p", ORDERS)
def test_distances_with_batched_gradients_and_points(p: float) -> None:
    rng = np.random.default_rng(0)
    x = rg.tensor(rng.normal(size=(5, 3)), requires_grad=True)
    y = rg.tensor(rng.normal(size=(4, 3)), requires_grad=True)
    for result, operands in ((rg.cdist(x, y, p), (x, y)), (rg.nn.functional.pdist(x, p), (x,))):
        g = rg.tensor(rng.normal(size=(6, *result.shape)))
        together = rg.autograd.grad(result, operands, g, is_grads_batched=True, retain_graph=True)
        for k in range(6):
            alone = rg.autograd.grad(result, operands, g[k], retain_graph=True)
            for batch, one in zip(together, alone, strict=True):
                np.testing.assert_allclose(batch[k].numpy(), one.numpy(), rtol=1e-12)
    points = rg.tensor(rng.normal(size=(2, 5, 3)))
    gradient = rg.func.grad(lambda points: rg.nn.functional.pdist(points, p).sum())
    for batch, one in zip(rg.vmap(gradient)(points), map(gradient, points), strict=True):
        np.testing.assert_allclose(batch.numpy(), one.numpy(), rtol=1e-12)
