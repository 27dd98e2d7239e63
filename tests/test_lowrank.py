"""Randomized low-rank decompositions, and functions that older programs use, compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity


def low_rank(*shape: int, rank: int = 3, complex: bool = False) -> Any:
    make = np.random.default_rng(0)
    left = make.normal(size=(*shape[:-1], rank))
    right = make.normal(size=(*shape[:-2], rank, shape[-1]))
    return left @ right * (1 + 0.5j if complex else 1)


@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (2, 6, 6)])
@pytest.mark.parametrize("complex", [False, True])
def test_svd_lowrank_recovers_a_matrix_of_low_rank(shape: tuple[int, ...], complex: bool) -> None:
    array = low_rank(*shape, complex=complex)
    rg.manual_seed(0)
    left, values, right = rg.svd_lowrank(rg.tensor(array), q=4)
    assert (left * values.unsqueeze(-2) @ right.mH).numpy() == pytest.approx(array)
    assert values[..., :3].numpy() == pytest.approx(np.linalg.svd(array)[1][..., :3])
    assert [tuple(x.shape) for x in (left, values, right)] == [
        tuple(x.shape) for x in torch.svd_lowrank(torch.tensor(array), q=4)
    ]


def test_svd_lowrank_subtracts_a_matrix() -> None:
    array, other = low_rank(8, 5), np.ones((8, 5))
    rg.manual_seed(0)
    for matrix in (array, array.T):
        shift = other if matrix is array else other.T
        left, values, right = rg.svd_lowrank(rg.tensor(matrix), q=5, M=rg.tensor(shift))
        assert (left * values @ right.mH).numpy() == pytest.approx(matrix - shift)


def test_pca_lowrank() -> None:
    make = np.random.default_rng(1)
    data = make.normal(size=(40, 6)) * [10, 5, 2, 1e-3, 1e-3, 1e-3] + 3
    rg.manual_seed(0)
    _, values, right = rg.pca_lowrank(rg.tensor(data), q=4)
    variances, vectors = np.linalg.eigh(np.cov(data.T))
    assert (values**2 / 39)[:3].numpy() == pytest.approx(variances[::-1][:3], rel=1e-6)
    assert np.abs(np.sum(right[:, :3].numpy() * vectors[:, ::-1][:, :3], 0)) == pytest.approx(np.ones(3))
    plain = rg.pca_lowrank(rg.tensor(data), center=False)[1]
    assert plain.numpy() == pytest.approx(np.linalg.svd(data)[1])


def test_gradients_of_low_rank_singular_values() -> None:
    x = rg.tensor(low_rank(6, 4), requires_grad=True)
    rg.manual_seed(0)
    (found,) = rg.autograd.grad(rg.svd_lowrank(x, q=3)[1].sum(), x)
    (expected,) = rg.autograd.grad(rg.linalg.svdvals(x)[:3].sum(), x)
    assert found.numpy() == pytest.approx(expected.numpy(), abs=1e-8)


@parity
def test_low_rank_decompositions_refuse_invalid_arguments(m: Any) -> Any:
    a = m.ones(5, 4)
    return [
        attempt(lambda: m.pca_lowrank(a, q=7)),
        attempt(lambda: m.pca_lowrank(a, niter=-1)),
        attempt(lambda: m.svd_lowrank(m.ones(3))),
        attempt(lambda: m.svd_lowrank(m.ones(3, 4, dtype=m.int64))),
    ]


# --- functions of older programs --------------------------------------------------------------------------------------


@parity
def test_norm_except_dim(m: Any) -> Any:
    v = m.arange(24.0).reshape(2, 3, 4).requires_grad_()
    report = [m.norm_except_dim(v, 2, dim) for dim in (-2, -1, 0, 1, 2)]
    report += [m.norm_except_dim(v), m.norm_except_dim(v, 1, 1), m.norm_except_dim(m.tensor([3.0, -4.0]))]
    return report, m.autograd.grad(report[3].sum(), v)[0], attempt(lambda: m.norm_except_dim(v, 2, 3))


@parity
def test_detach_as_a_function(m: Any) -> Any:
    x = m.ones(2, requires_grad=True)
    return m.detach(x), m.detach(x).requires_grad
