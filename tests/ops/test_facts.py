"""Queries of programs about the kind, layout and memory of tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity

KINDS = ("cpu", "meta", "mkldnn", "mps", "nested", "quantized", "sparse", "sparse_csr", "vulkan", "xla", "xpu")


@parity
def test_queries_about_the_kind_of_a_tensor(m: Any) -> list[bool]:
    return [getattr(m.ones(2), f"is_{kind}") for kind in KINDS]


@parity
def test_further_queries_about_tensors(m: Any) -> list[Any]:
    x = m.ones(2, 3)
    return [
        x.get_device(),
        m.get_device(x),
        x.is_same_size(x.t()),
        m.is_same_size(x, x * 2),
        x.is_set_to(x.view(2, 3)),
        x.is_set_to(x.clone()),
        x.is_set_to(x.t()),
        x[0].is_set_to(x[1]),
        x.dim_order(),
        x.t().dim_order(),
        m.ones(2, 3, 4).permute(2, 0, 1).dim_order(),
        x.is_pinned(),
    ]


@parity
def test_dim_order_and_its_ambiguity_check(m: Any) -> list[Any]:
    made = (m.ones(2, 3), m.ones(1, 3), m.ones(2, 1, 3), m.ones(2, 3).t(), m.ones(2, 1).expand(2, 3), m.ones(()))
    checks = (True, False, [m.contiguous_format], [], "neither")
    return [
        attempt(lambda: x.dim_order(ambiguity_check=check))  # noqa: B023
        for x in (*made, m.ones(1), m.ones(0, 3), m.ones(1, 1))
        for check in checks
    ]


@parity
def test_grad_dtype(m: Any) -> list[Any]:
    x = m.ones(2, requires_grad=True)
    x.grad_dtype = m.float32
    return [
        str(x.grad_dtype).split(".")[1],
        attempt(lambda: (x * 2).grad_dtype),
        attempt(lambda: setattr(x * 2, "grad_dtype", m.float64)),
    ]


def test_grad_dtype_refuses_other_dtypes() -> None:
    x = rg.ones(2, requires_grad=True)
    with pytest.raises(NotImplementedError, match="gradients have the dtype of their tensor"):
        x.grad_dtype = rg.float64


@parity
def test_map_and_apply_with_python_functions(m: Any) -> list[Any]:
    x = m.arange(6.0).reshape(2, 3)
    report = [
        x.apply_(lambda value: value * 2 + 1),
        x.t().map_(m.tensor([1.0, 2.0]), lambda a, b: a - b),
        x,
        m.tensor([1, 2]).apply_(lambda value: value + 10),
    ]
    leaf = m.ones(2, requires_grad=True)
    return [
        *report,
        attempt(lambda: leaf.apply_(abs)),
        attempt(lambda: m.ones(2).map_(leaf, max)),
        attempt(lambda: m.ones(3).map_(m.ones(2, 3), max)),
        attempt(lambda: m.ones(2, 3).map_(m.ones(3, 2), max)),
    ]


def test_map_and_apply_count_as_writes() -> None:
    x = rg.ones(2)
    x.apply_(abs).map_(x, max)
    assert x._version == 2


def test_tensors_are_dense_and_not_pinned() -> None:
    x = rg.ones(2)
    assert x.to_dense() is x
    assert x.pin_memory() is x
    assert not x.is_pinned()


def test_gradients_of_factored_systems() -> None:
    """torch has no derivative of linalg.ldl_solve."""
    for hermitian, dtype in ((False, rg.float64), (False, rg.complex128), (True, rg.complex128)):
        a = rg.randn(3, 3, dtype=dtype, generator=rg.Generator().manual_seed(1))
        factors = rg.linalg.ldl_factor(a + (a.mH if hermitian else a.mT), hermitian=hermitian)
        b = rg.ones(3, 2, dtype=dtype, requires_grad=True)
        assert rg.autograd.gradcheck(lambda b: rg.linalg.ldl_solve(*factors, b, hermitian=hermitian), b)  # noqa: B023
        assert rg.autograd.gradgradcheck(lambda b: rg.linalg.ldl_solve(*factors, b, hermitian=hermitian), b)  # noqa: B023
    with pytest.raises(NotImplementedError, match="ldl_factor"):
        rg.linalg.ldl_factor(rg.eye(2, requires_grad=True))[0].sum().backward()


@pytest.mark.parametrize("pivots", [[0, 0], [1, 3], [-3, -3], [1, -2], [1, -(2**31)]])
def test_ldl_solve_refuses_wrong_pivots(pivots: list[int]) -> None:
    """LAPACK does not check them and would write out of bounds."""
    factors = rg.eye(2)
    wrong = rg.tensor(pivots, dtype=rg.int32)
    with pytest.raises(RuntimeError, match="the pivots must be those that ldl_factor returned"):
        rg.linalg.ldl_solve(factors, wrong, factors)


def test_singular_systems_raise_or_are_reported_in_info() -> None:
    singular = rg.zeros(2, 2)
    for function in (rg.linalg.ldl_factor, lambda a: rg.linalg.solve_ex(a, rg.ones(2), check_errors=True)):
        with pytest.raises(rg.linalg.LinAlgError):
            function(singular)
    result, info = rg.linalg.solve_ex(rg.stack([singular, rg.eye(2)]), rg.ones(2, 2))
    theirs = torch.linalg.solve_ex(torch.stack([torch.zeros(2, 2), torch.eye(2)]), torch.ones(2, 2))
    assert info.tolist() == theirs.info.tolist()
    assert not result[0].isfinite().any()
    assert result[1].tolist() == theirs.result[1].tolist()
