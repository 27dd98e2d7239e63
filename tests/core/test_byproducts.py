"""Byproducts: what the function of an operation returns for its rules only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.op import op

SEEN: list[Any] = []


def _gradient(g: Any, input: Any, exponential: Any) -> Any:
    SEEN.append(exponential)
    return g * (np.exp(input) if exponential is None else exponential)


@op(public=False, method=False, byproducts=("exponential",), input=_gradient)
def exp_with_byproduct(input):
    exponential = np.exp(input)
    return exponential.copy(), exponential


def _both(g: Any, input: Any, other: Any, product: Any) -> Any:
    return g * 2 * other * (input * other if product is None else product)


@op(
    public=False,
    method=False,
    byproducts=("product",),
    input=_both,
    other=lambda g, input, other, product: _both(g, other, input, product),
)
def squared_product(input, other):
    product = input * other
    return product * product, product


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


def test_rules_get_byproducts_as_arrays() -> None:
    x = rg.tensor([0.0, 1.0], requires_grad=True)
    y = exp_with_byproduct(x)
    assert isinstance(y, rg.Tensor)
    y.sum().backward()
    assert type(SEEN[0]) is np.ndarray
    np.testing.assert_allclose(x.grad.numpy(), np.exp([0.0, 1.0]), rtol=1e-6)


def test_byproducts_are_none_with_create_graph() -> None:
    x = rg.tensor([0.0, 1.0], requires_grad=True)
    (first,) = rg.autograd.grad(exp_with_byproduct(x).sum(), x, create_graph=True)
    (second,) = rg.autograd.grad(first.sum(), x)
    assert SEEN == [None]
    np.testing.assert_allclose(second.numpy(), np.exp([0.0, 1.0]), rtol=1e-6)


def test_byproducts_of_an_operation_with_two_operands() -> None:
    x, y = (rg.tensor(values, requires_grad=True) for values in ([1.0, 2.0], [3.0, 4.0]))
    squared_product(x, y).sum().backward()
    assert x.grad.tolist() == [18.0, 64.0]
    assert y.grad.tolist() == [6.0, 32.0]
    assert rg.autograd.gradgradcheck(squared_product, (x.detach().double().requires_grad_(), y.double().detach()))


def test_forward_mode_works_without_byproducts() -> None:
    with rg.autograd.forward_ad.dual_level():
        x = rg.autograd.forward_ad.make_dual(rg.tensor([0.0, 1.0]), rg.ones(2))
        tangent = rg.autograd.forward_ad.unpack_dual(exp_with_byproduct(x)).tangent
    np.testing.assert_allclose(tangent.numpy(), np.exp([0.0, 1.0]), rtol=1e-6)


def test_saved_tensor_hooks_pack_byproducts() -> None:
    x = rg.tensor([0.0, 1.0], requires_grad=True)
    packed: list[rg.Tensor] = []

    def pack(tensor: rg.Tensor) -> int:
        packed.append(tensor)
        return len(packed) - 1

    with rg.autograd.graph.saved_tensors_hooks(pack, lambda place: packed[place] * 2):
        y = exp_with_byproduct(x)
    assert len(packed) == 2
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([0.0, 1.0]), rtol=1e-6)


def test_byproducts_are_dropped_under_no_grad() -> None:
    with rg.no_grad():
        y = exp_with_byproduct(rg.tensor([0.0], requires_grad=True))
    assert y.grad_fn is None


def test_rule_with_an_unknown_byproduct_is_refused() -> None:
    with pytest.raises(TypeError, match="names 'exponent'"):
        op(public=False, method=False, byproducts=("exponential",), input=lambda g, exponent: g)(
            exp_with_byproduct.op.function
        )
