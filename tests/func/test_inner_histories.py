"""Transforms inside forward mode: which values and tangents they return require grad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import retrograd as rg
from retrograd.tree import flatten
from tests.parity import parity

X, V = [0.5, -1.0, 2.0], [1.0, 0.25, -2.0]


def cube(x: Any) -> Any:
    return x**3


# functions, to be differentiated in forward mode, that use a transform
INNER: dict[str, Callable[[Any, Any], Any]] = {
    "grad_and_value": lambda lib, x: lib.func.grad_and_value(lambda x: cube(x).sum())(x),
    "grad, aux": lambda lib, x: lib.func.grad(lambda x: (cube(x).sum(), x.exp()), has_aux=True)(x),
    "vjp": lambda lib, x: lib.func.vjp(cube, x)[0],
    "vjp, aux": lambda lib, x: lib.func.vjp(lambda x: (cube(x), x.exp()), x, has_aux=True)[2],
    "vjp, product": lambda lib, x: lib.func.vjp(cube, x)[1](x),
    "jacrev, aux": lambda lib, x: lib.func.jacrev(lambda x: (cube(x), x.exp()), has_aux=True)(x),
    "vjp of vjp": lambda lib, x: lib.func.vjp(lambda x: lib.func.vjp(cube, x)[1](x)[0], x)[0],
}
OURS = {**INNER, "linearize": lambda lib, x: lib.func.linearize(cube, x)[0]}


def requires(tree: Any) -> Any:
    return tree.requires_grad if hasattr(tree, "requires_grad") else [requires(part) for part in tree]


@pytest.mark.parametrize("name", INNER)
def test_values_and_tangents_require_grad_only_if_an_outer_tensor_does(name: str) -> None:
    @parity
    def program(lib: Any) -> Any:
        found = []
        for x_requires, v_requires in [(False, False), (True, False), (False, True)]:
            x, v = lib.tensor(X, requires_grad=x_requires), lib.tensor(V, requires_grad=v_requires)
            out = lib.func.jvp(lambda x: INNER[name](lib, x), (x,), (v,))
            found.append((out, requires(out)))
        return found

    program()


@pytest.mark.parametrize("name", OURS)
def test_nested_forward_mode_leaves_no_history(name: str) -> None:
    x, v = rg.tensor(X), rg.tensor(V)

    def inner(x: Any) -> Any:
        return OURS[name](rg, x)

    def twice(x: Any) -> Any:
        return rg.func.jvp(inner, (x,), (v,))

    for out in (twice(x), rg.func.jvp(twice, (x,), (v,)), rg.func.jacfwd(inner)(x)):
        assert not any(flatten(requires(out))[0])


DIRECTED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "grad": lambda lib, x, v: lib.func.jvp(lib.func.grad(lambda x: cube(x).sum()), (x,), (v,))[1],
    "vjp": lambda lib, x, v: lib.func.jvp(lambda x: lib.func.vjp(cube, x)[1](x)[0], (x,), (v,))[1],
    "jacrev": lambda lib, x, v: lib.func.jvp(lib.func.jacrev(cube), (x,), (v,))[1],
    "grad twice": lambda lib, x, v: lib.func.jvp(
        lambda x: lib.func.grad(lambda x: lib.func.grad(lambda x: cube(x).sum())(x).sum())(x), (x,), (v,)
    )[1],
    "two directions": lambda lib, x, v: lib.func.jvp(
        lambda x: lib.func.jvp(lib.func.grad(lambda x: (x**4).sum()), (x,), (v,))[1], (x,), (v,)
    )[1],
}


@pytest.mark.parametrize("name", DIRECTED)
def test_tangent_of_a_gradient_is_differentiable_in_its_direction(name: str) -> None:
    # the gradient itself is not differentiated further
    @parity
    def program(lib: Any) -> Any:
        x, v, batch = lib.tensor(X), lib.tensor(V), lib.tensor([V, X])

        def loss(v: Any) -> Any:
            return (DIRECTED[name](lib, x, v) ** 2).sum()

        wanted = lib.tensor(V, requires_grad=True)
        return [
            lib.func.grad(loss)(v),
            lib.func.jacrev(lambda v: DIRECTED[name](lib, x, v))(v),
            lib.func.vmap(lib.func.grad(loss))(batch),
            lib.autograd.grad(loss(wanted), wanted),
        ]

    program()


def test_tangent_is_differentiable_in_the_tensors_behind_its_direction() -> None:
    v = rg.tensor(V, requires_grad=True)
    x = rg.tensor(X)
    _, tangent = rg.func.jvp(lambda x: rg.func.vjp(cube, x)[0], (x,), (v * 2,))
    (found,) = rg.autograd.grad(tangent.sum(), v)
    rg.testing.assert_close(found, 6 * x**2)
