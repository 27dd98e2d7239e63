"""The linear function that linearize returns gives what jvp gives, without running the function again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import retrograd as rg
from retrograd.tree import tree_map
from tests.parity import parity

X, V, U = [0.5, -1.0, 2.0], [1.0, 0.25, -2.0], [[0.0, 1.0, 1.0], [2.0, -1.0, 0.5]]


def centred(lib: Any, x: Any) -> Any:
    with lib.no_grad():
        largest = x.exp().sum().log()
    return (x - largest) ** 2


def without_gradients(lib: Any, x: Any) -> Any:
    lib.set_grad_enabled(False)
    y = x.sin() * x
    lib.set_grad_enabled(True)
    return y


def written(lib: Any, x: Any) -> Any:
    with lib.no_grad():
        y = lib.zeros_like(x)
        y[1:] = x[:-1] ** 2
        y[0].copy_(x[2])
        y.mul_(x)
    return y


def of_a_function(lib: Any, x: Any) -> Any:
    class Sine(lib.autograd.Function):  # type: ignore[misc]
        """Its backward contradicts its jvp, so that it shows which one is used."""

        @staticmethod
        def forward(x: Any) -> Any:
            return x.sin()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 100

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            (x,) = ctx.saved_tensors
            return tangent * x.cos()

    with lib.no_grad():
        shift = Sine.apply(x * 2)
    return Sine.apply(x) * x + shift


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "no_grad": centred,
    "set_grad_enabled": without_gradients,
    "writing in no_grad": written,
    "everything in no_grad": lambda lib, x: lib.no_grad()(lib.cumsum)(x**2, 0),
    "detach": lambda lib, x: x.detach() * x,
    "a Function": of_a_function,
    "a gradient": lambda lib, x: lib.func.grad(lambda x: (centred(lib, x) * x).sum())(x),
    "a gradient in no_grad": lambda lib, x: lib.no_grad()(lib.func.grad(lambda x: (x**4).sum()))(x),
    "a Jacobian": lambda lib, x: lib.func.jacrev(lambda x: centred(lib, x) * x)(x),
    "several outputs": lambda lib, x: {"a": x**2, "b": [lib.ones(2), centred(lib, x).sum()]},
    "a view": lambda lib, x: (x.view(3, 1).expand(3, 2), x[1:]),
    "products and solutions": lambda lib, x: lib.linalg.solve(lib.diag(x) + x.outer(x).exp(), x),
    "choices": lambda lib, x: lib.where(x > 0, x.sort()[0], x.max() * x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_linearize_gives_what_jvp_gives(name: str) -> None:
    @parity
    def program(lib: Any) -> Any:
        x, f = lib.tensor(X, dtype=lib.float64), lambda x: FUNCTIONS[name](lib, x)
        output, push = lib.func.linearize(f, x)
        if lib is rg:
            return [output, *(push(lib.tensor(v, dtype=lib.float64)) for v in (V, *U))]
        return [output, *(lib.func.jvp(f, (x,), (lib.tensor(v, dtype=lib.float64),))[1] for v in (V, *U))]

    program()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_linearized_function_under_vmap_jvp_and_grad(name: str) -> None:
    x, directions = rg.tensor(X, dtype=rg.float64), rg.tensor(U, dtype=rg.float64)
    _, push = rg.func.linearize(lambda x: FUNCTIONS[name](rg, x), x)
    whole = rg.vmap(push)(directions)
    rg.testing.assert_close(whole, rg.vmap(lambda v: rg.func.jvp(push, (v,), (v,))[1])(directions))
    for k, v in enumerate(directions):
        rg.testing.assert_close(tree_map(lambda each, k=k: each[k], whole), push(v))
    loss, gradient = rg.func.grad_and_value(lambda v: total(push(v)))(rg.tensor(V, dtype=rg.float64))[::-1]
    rg.testing.assert_close((gradient * rg.tensor(V, dtype=rg.float64)).sum(), loss)


def total(tree: Any) -> Any:
    if isinstance(tree, rg.Tensor):
        return tree.sum()
    return sum(total(part) for part in (tree.values() if isinstance(tree, dict) else tree))


def test_linearize_is_differentiable_in_the_primal() -> None:
    x, v = rg.tensor(X, dtype=rg.float64, requires_grad=True), rg.tensor(V, dtype=rg.float64)
    output, push = rg.func.linearize(lambda x: x**3, x)
    assert output.requires_grad
    (found,) = rg.autograd.grad(push(v).sum(), x)
    rg.testing.assert_close(found, 6 * x.detach() * v)
    inner = rg.func.grad(lambda x: rg.func.linearize(lambda x: x**3, x)[1](v).sum())(x.detach())
    rg.testing.assert_close(inner, found)


def test_linearize_of_a_function_that_writes_to_its_argument() -> None:
    def doubled(x: Any) -> Any:
        return x.mul_(2)

    x, y = rg.tensor(X, dtype=rg.float64), rg.tensor(X, dtype=rg.float64)
    output, push = rg.func.linearize(doubled, x)
    expected = rg.func.jvp(doubled, (y,), (rg.tensor(V, dtype=rg.float64),))
    rg.testing.assert_close((output, push(rg.tensor(V, dtype=rg.float64))), expected)
    rg.testing.assert_close(x, y)
