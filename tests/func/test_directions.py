"""Nested tangents differentiated with respect to their directions, compared with reverse mode alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import retrograd as rg
from retrograd.nn import functional as F

X = rg.tensor([0.3, -0.7, 1.2], dtype=rg.float64)
V = rg.tensor([1.0, 0.5, -2.0], dtype=rg.float64)
W = rg.tensor([0.4, 1.0, 0.25], dtype=rg.float64)
EYE = rg.eye(3, dtype=rg.float64)

# the tangents of most of these come from transposing a rule in a nested backward
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "prod": lambda x: x * x.prod(),
    "cumprod": lambda x: x.cumprod(0),
    "inv": lambda x: rg.linalg.inv(x.outer(W) + 2 * EYE)[0],
    "solve": lambda x: rg.linalg.solve(x.outer(x) + EYE, W * x),
    "slogdet": lambda x: rg.linalg.slogdet(x.outer(x) + EYE)[1] * x,
    "cholesky": lambda x: rg.linalg.cholesky(x.outer(x) + EYE)[2],
    "layer_norm": lambda x: F.layer_norm(x, (3,), W),
    "log_softmax": lambda x: x.log_softmax(0),
    "cross_entropy": lambda x: F.cross_entropy(x[None], rg.tensor([1])) * x,
    "attention": lambda x: F.scaled_dot_product_attention(x[None, :, None], x[None, :, None] ** 2, x[None, :, None])[0],
    "conv1d": lambda x: F.conv1d((x**2)[None, None], (W * x)[None, None], padding=1)[0, 0],
    "std": lambda x: x.std() * x,
    "norm": lambda x: x.norm() * x,
    "index_put": lambda x: x.index_put((rg.tensor([0, 2]),), x[:2] ** 3, accumulate=True),
    "matmul and sin": lambda x: (x.outer(x) @ x.outer(W)).sin()[1],
}
jvp, jacfwd, jacrev, vmap = rg.func.jvp, rg.func.jacfwd, rg.func.jacrev, rg.func.vmap
NESTED: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "jvp of jvp": lambda f, v: jvp(lambda x: jvp(f, (x,), (v,))[1], (X,), (v,))[1],
    "jvp of jacfwd": lambda f, v: jvp(lambda x: jacfwd(f)(x) @ v, (X,), (v,))[1],
    "jacfwd of jacfwd": lambda f, v: jacfwd(jacfwd(f))(X) @ v @ v,
    "jacfwd of jvp": lambda f, v: jacfwd(lambda x: jvp(f, (x,), (v,))[1])(X) @ v,
    "jvp of jacrev": lambda f, v: jvp(lambda x: jacrev(f)(x) @ v, (X,), (v,))[1],
    "jvp of linearize": lambda f, v: jvp(lambda x: rg.func.linearize(f, x)[1](v), (X,), (v,))[1],
    "vmap of jvp of jvp": lambda f, v: (
        vmap(lambda b: jvp(lambda x: jvp(f, (x,), (b,))[1], (X,), (v,))[1])(EYE).movedim(0, -1) @ v
    ),
}


def square(tensor: Any) -> Any:
    return (tensor**2).sum()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nested_tangents_are_differentiable_in_their_direction(name: str) -> None:
    function = FUNCTIONS[name]

    def by_reverse_mode(v: Any) -> Any:
        return square(jacrev(jacrev(function))(X) @ v @ v)

    gradient, hessian = rg.func.grad(by_reverse_mode)(V), jacrev(jacrev(by_reverse_mode))(V)
    for nested in NESTED.values():
        found = rg.func.grad(lambda v, nested=nested: square(nested(function, v)))(V)
        rg.testing.assert_close(found, gradient)
    second = jacrev(jacrev(lambda v: square(NESTED["jvp of jvp"](function, v))))(V)
    rg.testing.assert_close(second, hessian)


@pytest.mark.parametrize("name", NESTED)
def test_nested_tangents_leave_no_history(name: str) -> None:
    for function in FUNCTIONS.values():
        assert not NESTED[name](function, V).requires_grad
