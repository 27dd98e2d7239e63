"""Forward over reverse and reverse over forward: against torch, each other, and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as rg
from retrograd.autograd import forward_ad
from retrograd.core.forward_mode import Level
from retrograd.core.op import op
from retrograd.core.state import local, set_dual_level
from tests.autograd.duals import module, tangent, vector
from tests.parity import parity

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "elementwise, results saved": lambda lib, x: (x.sin() * x.exp() / (x * x).tanh()).sum(),
    "general": lambda lib, x: x.cumprod(0).var() * x.amax(0),
    "matrices": lambda lib, x: (lib.outer(x, x).matmul(x) + lib.linalg.inv(lib.diag(x)).diag()).pow(2).sum(),
    "several results": lambda lib, x: (x.sort(0).values ** 3 * x.split([1, 2])[1].sum()).sum() + x.max(0).values,
    "sequences and views": lambda lib, x: lib.cat([x[1:] ** 2, x.flip(0)]).reshape(5, 1).expand(5, 2).prod(),
    "complex": lambda lib, x: lib.polar(x, x * x).cumsum(0).abs().log().sum(),
    "in place": lambda lib, x: (x * 1).sin_().mul_(x).index_add_(0, lib.tensor([1]), x[:1] ** 3).pow(3).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("create_graph", [False, True])
def test_tangents_of_gradients(name: str, create_graph: bool) -> None:
    """The tangent of a gradient is a Hessian-vector product."""

    @parity
    def program(lib: Any) -> Any:
        x = vector(lib, 0.3, 1.2, 0.7, requires_grad=True)
        with module(lib).dual_level():
            d = module(lib).make_dual(x, vector(lib, 1.0, -2.0, 0.5))
            (grad,) = lib.autograd.grad(FUNCTIONS[name](lib, d), x, create_graph=create_graph)
            moved = tangent(lib, grad)
            report = [grad, moved, grad.requires_grad, moved.requires_grad]
        if create_graph:
            report.append(lib.autograd.grad(moved.sum(), x))  # a third derivative
        return report

    program()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_tangents(name: str) -> None:
    @parity
    def program(lib: Any) -> Any:
        x, v = vector(lib, 0.3, 1.2, 0.7, requires_grad=True), vector(lib, 1.0, -2.0, 0.5, requires_grad=True)
        with module(lib).dual_level():
            moved = tangent(lib, FUNCTIONS[name](lib, module(lib).make_dual(x, v)))
        return moved, lib.autograd.grad(moved, [x, v])

    program()


@parity
def test_which_tangents_require_grad(lib: Any) -> Any:
    fw = module(lib)
    x, v = vector(lib, 0.3, 1.2, requires_grad=True), vector(lib, 1.0, -0.5, requires_grad=True)
    report = []
    for primal, direction in ((x, v), (x.detach(), v), (x, v.detach()), (x.detach(), v.detach())):
        with fw.dual_level():
            d = fw.make_dual(primal, direction)
            report += [tangent(lib, y).requires_grad for y in (d**2, d @ d, d.softmax(0), d.sum())]
            with lib.no_grad():
                report.append(tangent(lib, d**2).requires_grad)
    return report


def hvp_forward_over_reverse(function: Callable[[Any], Any], x: Any, v: Any) -> Any:
    x = x.detach().requires_grad_()
    with forward_ad.dual_level():
        return tangent(rg, rg.autograd.grad(function(forward_ad.make_dual(x, v)), x)[0])


def hvp_reverse_over_forward(function: Callable[[Any], Any], x: Any, v: Any) -> Any:
    x = x.detach().requires_grad_()
    with forward_ad.dual_level():
        moved = tangent(rg, function(forward_ad.make_dual(x, v)))
    return rg.autograd.grad(moved, x)[0]


values = st.lists(st.floats(0.2, 2.0), min_size=3, max_size=3)


@settings(max_examples=15, deadline=None)
@given(values, values)
def test_hessian_vector_products_of_both_modes_agree(at: list[float], direction: list[float]) -> None:
    """In both orders, and with central differences of the gradient."""
    x, v = vector(rg, *at), vector(rg, *direction)

    def function(x: Any) -> Any:
        # torch 2.13 gets the mixed-mode second derivatives of these wrong
        matrix = rg.outer(x, x) + rg.diag(x)
        return (x.softmax(0) * x.log()).sum() * x.norm() + rg.linalg.det(matrix) + x.logsumexp(0)

    def gradient(x: Any) -> Any:
        x = x.detach().requires_grad_()
        return rg.autograd.grad(function(x), x)[0]

    one, other = hvp_forward_over_reverse(function, x, v), hvp_reverse_over_forward(function, x, v)
    measured = (gradient(x + 1e-5 * v) - gradient(x - 1e-5 * v)) / 2e-5
    np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(one.numpy(), measured.numpy(), rtol=1e-5, atol=1e-5)


# --- gradients that carry tangents ------------------------------------------------------------------------------------


@parity
def test_tangent_of_the_incoming_gradient_is_propagated(lib: Any) -> Any:
    fw = module(lib)
    x = vector(lib, 0.3, 1.2, requires_grad=True)
    with fw.dual_level():
        given = fw.make_dual(vector(lib, 1.0, 2.0), vector(lib, 5.0, 6.0))
        report = []
        for y in (x * 3, x + 1, x.exp()):
            (grad,) = lib.autograd.grad(y, x, given)
            report += [grad, tangent(lib, grad)]
        return report


@parity
def test_hooks_and_retained_gradients_have_the_tangent(lib: Any) -> Any:
    fw = module(lib)
    x = vector(lib, 0.3, 1.2, requires_grad=True)
    seen: list[Any] = []
    with fw.dual_level():
        y = fw.make_dual(x, vector(lib, 1.0, 10.0)).exp()
        y.register_hook(lambda grad: seen.append((grad, tangent(lib, grad), grad.requires_grad)))
        y.retain_grad()
        lib.autograd.grad((y * y).sum(), x)
        return seen, y.grad, tangent(lib, y.grad)


@parity
def test_tensors_packed_by_hooks_keep_the_tangent(lib: Any) -> Any:
    fw = module(lib)
    x = vector(lib, 0.3, 1.2, requires_grad=True)
    with fw.dual_level():
        with lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
            d = fw.make_dual(x, vector(lib, 1.0, 10.0))
            y = (d.exp() * d).sum()
        (grad,) = lib.autograd.grad(y, x)
        return grad, tangent(lib, grad)


def test_tensor_saved_before_requires_grad_keeps_its_tangent() -> None:
    x = vector(rg, 2.0, requires_grad=True)
    with forward_ad.dual_level():
        factor = forward_ad.make_dual(vector(rg, 3.0), vector(rg, 1.0)) * 1
        y = x * factor
        factor.requires_grad_()
        (grad,) = rg.autograd.grad(y, x, create_graph=True)
        assert tangent(rg, grad).tolist() == [1]


def test_tangents_of_accumulated_gradients_add_up() -> None:
    x = vector(rg, 0.3, 1.2, requires_grad=True)
    with forward_ad.dual_level():
        for count in (1, 2):
            d = forward_ad.make_dual(x, vector(rg, 1.0, 10.0))
            (d**3).sum().backward()
            assert x.grad is not None
            np.testing.assert_allclose(tangent(rg, x.grad).numpy(), count * 6 * np.array([0.3, 12.0]))
            assert not x.grad.requires_grad
    np.testing.assert_allclose(x.grad.numpy(), 6 * np.array([0.3, 1.2]) ** 2)
    x.grad.zero_()
    (x**3).sum().backward()  # outside the level, as usual
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.array([0.3, 1.2]) ** 2)


# --- cost and nesting -------------------------------------------------------------------------------------------------


def test_forward_mode_does_not_walk_the_recorded_graph() -> None:
    """Transposing a rule involves only the operation itself, not the graph behind it."""
    x = vector(rg, 0.3, 1.2, 0.5, requires_grad=True)
    visits = 0
    with forward_ad.dual_level():
        d = forward_ad.make_dual(x, vector(rg, 1.0, 0.0, 0.0))
        for _ in range(30):
            d = d.softmax(0)
        node = d.grad_fn
        assert node is not None
        following = type(node).next

        class Counted(type(node)):  # type: ignore[misc]
            __slots__ = ()

            @property
            def next(self) -> Any:
                nonlocal visits
                visits += 1
                return following.__get__(self)

        node.__class__ = Counted
        e = d.softmax(0)
        assert tangent(rg, e).requires_grad
        visits = 0
        e.softmax(0)
    assert visits == 0


def test_nested_levels_give_second_derivatives() -> None:
    """The tangent of a tangent is the second derivative."""
    x = vector(rg, 0.3, 1.2)
    outer = Level()
    set_dual_level(outer)
    try:
        d = x.view_as(x)
        outer.set(d, rg.ones_like(x))
        inner = Level(outer)
        set_dual_level(inner)
        e = d.view_as(d)
        inner.set(e, rg.ones_like(x))
        result = (e.sin() * e).add_(e**3)[:]
        first = inner.tangent(result)
        set_dual_level(outer)
        second = outer.tangent(first)
        also_first = outer.tangent(result)
    finally:
        set_dual_level(None)
    assert local.tangents is None
    a = np.array([0.3, 1.2])
    assert first is not None
    assert second is not None
    assert also_first is not None
    np.testing.assert_allclose(first.numpy(), np.sin(a) + a * np.cos(a) + 3 * a**2)
    np.testing.assert_allclose(also_first.numpy(), first.numpy())
    np.testing.assert_allclose(second.numpy(), 2 * np.cos(a) - a * np.sin(a) + 6 * a)


def test_factors_without_rules_are_refused() -> None:
    with pytest.raises(TypeError, match="'other'"):

        @op(public=False, method=False, input=lambda g, other: g * other, factors=("input", "other"))
        def product(input, other):
            return input * other
