"""In-place writes inside transforms: to arguments, and to tensors whose tangents all samples share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.parity import message, parity

RNG = np.random.default_rng(3)
A = RNG.normal(size=(4, 2, 3))
M = A[0]

# --- to arguments -----------------------------------------------------------------------------------------------------

WRITES = {
    "the argument": lambda x: x.mul_(2),
    "a view of it": lambda x: x[0].mul_(2),
    "elements": lambda x: x.__setitem__(0, 1.0),
    "elements of a view": lambda x: x.t().__setitem__(0, 1.0),
}


@pytest.mark.parametrize("transform", ["grad", "vjp", "jacrev"])
@pytest.mark.parametrize("name", WRITES)
def test_writing_to_a_differentiated_argument_is_refused(name: str, transform: str) -> None:
    """Otherwise the gradient would be at the new value, and the caller's tensor would change."""

    def program(lib: Any) -> Any:
        x = lib.tensor(M)

        def f(x: Any) -> Any:
            WRITES[name](x)
            return x.sum()

        with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place"):
            lib.func.vjp(f, x) if transform == "vjp" else getattr(lib.func, transform)(f)(x)
        return x

    parity(program)()


@parity
def test_differentiated_argument_can_be_overwritten_under_no_grad(lib: Any) -> Any:
    x = lib.tensor(M)

    def f(x: Any) -> Any:
        with lib.no_grad():
            x.mul_(2)
        return (x**2).sum()

    return [lib.func.grad(f)(x), x]


@parity
def test_copies_and_other_arguments_can_be_overwritten(lib: Any) -> Any:
    def f(x: Any, y: Any) -> Any:
        y[0].mul_(x[0])
        return (x.clone().mul_(y) ** 2).sum()

    x, y = lib.tensor(M), lib.tensor(M + 1)
    return [lib.func.grad(f)(x, y.clone()), lib.vmap(lib.func.grad(f))(lib.tensor(A), lib.tensor(A))]


@parity
def test_jvp_of_a_function_that_writes_to_its_argument(lib: Any) -> Any:
    x = lib.tensor(M)
    return [lib.func.jvp(lambda x: x.mul_(3) ** 2, (x,), (lib.ones_like(x),)), x]


# --- tangents shared by all samples -----------------------------------------------------------------------------------


def to_view(lib: Any, x: Any, y: Any) -> Any:
    total = (x + y) * 1
    total[0].mul_(y[0])
    return total


def to_view_seen_before(lib: Any, x: Any, y: Any) -> Any:
    total = (x + y) * 1
    row = total[0]
    early = row.sin()
    total.mul_(y)
    return total + row + early


def to_new_tensor(lib: Any, x: Any, y: Any) -> Any:
    made = lib.zeros_like(y)
    made[0] = x[0]
    made[1] = x[1] * y[0]
    return made


FUNCTIONS = [to_view, to_view_seen_before, to_new_tensor]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_write_that_differs_by_sample_to_a_tensor_with_shared_tangents(function: Any) -> None:
    """The columns of a Jacobian are one batch; the samples of ``y`` are another, which the tangents lack."""

    def program(lib: Any) -> Any:
        x = lib.tensor(M)
        return lib.vmap(lambda y: lib.func.jacfwd(lambda x: function(lib, x, y))(x))(lib.tensor(A))

    parity(program)()


def test_write_to_a_tensor_with_shared_tangents_that_torch_refuses() -> None:
    """The tangent of the sum is that of ``x``, which all samples share."""

    def f(x: Any, y: Any) -> Any:
        total = x + y
        total.mul_(y)
        return total

    x, ys = rg.tensor(M), rg.tensor(A)
    got = rg.vmap(lambda y: rg.func.jacfwd(f)(x, y))(ys)
    expected = rg.stack([rg.func.jacrev(lambda x, y: (x + y) * y)(x, y) for y in ys])
    np.testing.assert_allclose(got.numpy(), expected.numpy())


@parity
def test_write_to_the_argument_in_nested_forward_mode(lib: Any) -> Any:
    def f(x: Any) -> Any:
        x **= 2
        return x.sum()

    return lib.func.jacfwd(lib.func.jacfwd(f))(lib.tensor(M))


def test_writes_to_parts_in_nested_forward_mode() -> None:
    def f(x: Any) -> Any:
        x = x * 1
        x **= 2
        x[0] *= x[1]
        return x.sum()

    def without_writes(x: Any) -> Any:
        return (x[0] ** 2 * x[1] ** 2 + x[1] ** 2).sum()

    x = rg.tensor(M)
    got, expected = rg.func.jacfwd(rg.func.jacfwd(f))(x), rg.func.jacrev(rg.func.jacrev(without_writes))(x)
    np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-12)


@parity
def test_vmap_of_assignment_by_an_index_tensor(lib: Any) -> Any:
    def f(x: Any) -> Any:
        negative = -x
        negative[lib.tensor([1])] = x[:1] * 2
        return negative

    return [lib.vmap(f)(lib.tensor(A)), lib.vmap(f)(lib.tensor(A[:1]))]


def test_error_about_writing_to_an_argument_suggests_clone() -> None:
    assert "clone()" in message(lambda: rg.func.grad(lambda x: x.mul_(2).sum())(rg.tensor(M)))
