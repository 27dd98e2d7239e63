"""autograd.functional: values, structures, strict mode and errors, compared with torch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, message, parity

RNG = np.random.default_rng(0)
A = RNG.normal(size=(2, 3))
V = RNG.normal(size=3)

BOTH = (False, True)

# functions that return one tensor, several, or none that depends on the input
FUNCTIONS = {
    "one": lambda lib, x: lib.sin(x) * x.sum(),
    "two": lambda lib, x: (lib.sin(x), x.sum()),
    "constant": lambda lib, x: lib.tensor(V),
    "partly constant": lambda lib, x: (x * 2, lib.tensor(V)),
    "linear": lambda lib, x: x * 2,
}


def outcome(function: Any) -> Any:
    """Return a call's result and whether it has a history, or the class of its exception."""
    result = attempt(function)
    return result if isinstance(result, str) else [result, _histories(result)]


def _histories(result: Any) -> Any:
    return [_histories(part) for part in result] if isinstance(result, tuple) else result.requires_grad


@pytest.mark.parametrize(("create_graph", "strict", "vectorize"), [*itertools.product(BOTH, BOTH, BOTH)])
def test_jacobian(create_graph: bool, strict: bool, vectorize: bool) -> None:
    def program(lib: Any) -> Any:
        jacobian = lib.autograd.functional.jacobian
        x, y = lib.tensor(V, requires_grad=True), lib.tensor(A)
        options = {"create_graph": create_graph, "strict": strict, "vectorize": vectorize}

        def several(x: Any, y: Any) -> Any:
            return x * y.sum(), (x**2).sum() * y

        return [
            *(outcome(lambda f=f: jacobian(lambda x: f(lib, x), x, **options)) for f in FUNCTIONS.values()),
            outcome(lambda: jacobian(several, (x, y), **options)),
            outcome(lambda: jacobian(lambda x: x.sum(), (x,), **options)),
        ]

    parity(program)()


def test_jacobian_by_forward_mode() -> None:
    def program(lib: Any) -> Any:
        def jacobian(f: Any, x: Any, **options: Any) -> Any:
            return attempt(
                lambda: lib.autograd.functional.jacobian(f, x, vectorize=True, strategy="forward-mode", **options)
            )

        x, y = lib.tensor(V), lib.tensor(A)
        return [
            *(jacobian(lambda x, f=f: f(lib, x), x) for f in FUNCTIONS.values()),
            jacobian(lambda x, y: (x * y.sum(), y**2), (x, y)),
            jacobian(lambda x: x, x, create_graph=True),
            jacobian(lambda x: x, x, strict=True),
            attempt(lambda: lib.autograd.functional.jacobian(lambda x: x, x, strategy="forward-mode")),
        ]

    parity(program)()


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
@pytest.mark.parametrize(("create_graph", "strict", "vectorize"), [*itertools.product(BOTH, BOTH, BOTH)])
def test_hessian(create_graph: bool, strict: bool, vectorize: bool, strategy: str) -> None:
    def program(lib: Any) -> Any:
        options = {
            "create_graph": create_graph,
            "strict": strict,
            "vectorize": vectorize,
            "outer_jacobian_strategy": strategy,
        }
        hessian = lib.autograd.functional.hessian
        x, y = lib.tensor(V), lib.tensor(A)
        return [
            attempt(lambda: hessian(lambda x: (x**3).sum(), x, **options)),
            attempt(lambda: hessian(lambda x: (x**3).sum().reshape(1, 1), (x,), **options)),
            attempt(lambda: hessian(lambda x, y: (x**3).sum() * y.sum() ** 2, (x, y), **options)),
            attempt(lambda: hessian(lambda x: x.sum() * 2, x, **options)),
            attempt(lambda: hessian(lambda x: x * 2, x, **options)),
            attempt(lambda: hessian(lambda x: (x.sum(), x), x, **options)),
        ]

    parity(program)()


@pytest.mark.parametrize(("create_graph", "strict"), [*itertools.product(BOTH, BOTH)])
@pytest.mark.parametrize("name", ["vjp", "jvp"])
def test_products_with_the_jacobian(name: str, create_graph: bool, strict: bool) -> None:
    def program(lib: Any) -> Any:
        def product(f: Any, *args: Any) -> Any:
            return outcome(lambda: getattr(lib.autograd.functional, name)(f, *args, create_graph, strict))

        x, y = lib.tensor(V, requires_grad=True), lib.tensor(A)
        return [
            product(lambda x, y: (x * y.sum(), x.sum() * y), (x, y), (lib.tensor(V), lib.tensor(A))),
            product(lambda x: x**2, x, lib.tensor(V)),
            product(lambda x: x * 2, x, lib.tensor(V)),
            product(lambda x: lib.tensor(V), x, lib.tensor(V)),
            product(lambda x: x.sum() ** 2, x, None),
            product(lambda x: x.exp(), x[:1], None),
            product(lambda x: x.exp().sum(), x[:1], None),
            product(lambda x: x**2, x, lib.tensor(A)),
            product(lambda x: x**2, x, (lib.tensor(V), lib.tensor(V))),
        ]

    parity(program)()


@pytest.mark.parametrize(("create_graph", "strict"), [*itertools.product(BOTH, BOTH)])
@pytest.mark.parametrize("name", ["vhp", "hvp"])
def test_products_with_the_hessian(name: str, create_graph: bool, strict: bool) -> None:
    def program(lib: Any) -> Any:
        def product(f: Any, *args: Any) -> Any:
            return outcome(lambda: getattr(lib.autograd.functional, name)(f, *args, create_graph, strict))

        x, y = lib.tensor(V, requires_grad=True), lib.tensor(A)
        return [
            product(lambda x, y: (x**3).sum() * y.sum(), (x, y), (lib.tensor(V), lib.tensor(A))),
            product(lambda x: (x**3).sum(), x, lib.tensor(V)),
            product(lambda x: (x * x).sum(), x, lib.tensor(V)),
            product(lambda x: x.sum(), x, lib.tensor(V)),
            product(lambda x: lib.tensor(2.0, dtype=lib.float64), x, lib.tensor(V)),
            product(lambda x, y: (x**3).sum(), (x, y), (lib.tensor(V), lib.tensor(A))),
            product(lambda x: (x**3).sum(), x[:1], None),
            product(lambda x: (x**3).sum(), x, None),
            product(lambda x: x**3, x, lib.tensor(V)),
            product(lambda x: ((x**3).sum(), x), x, lib.tensor(V)),
        ]

    parity(program)()


def test_jacobian_of_empty_outputs() -> None:
    """torch's loop over rows refuses outputs without elements."""
    for vectorize in BOTH:
        found = rg.autograd.functional.jacobian(lambda x: x[:0], rg.tensor(V), vectorize=vectorize)
        assert found.shape == (0, 3)


def test_jacobian_with_create_graph_is_differentiable() -> None:
    x = rg.tensor(V, requires_grad=True)
    for vectorize in BOTH:
        jacobian = rg.autograd.functional.jacobian(lambda x: x**3, x, create_graph=True, vectorize=vectorize)
        (gradient,) = rg.autograd.grad(jacobian.sum(), x)
        np.testing.assert_allclose(gradient.numpy(), 6 * V)


# functions of ``x`` that return a scalar computed from a derivative of x cubed
INSIDE = {
    "jacobian": lambda f, x, **options: f.jacobian(lambda x: x**3, x, **options).sum(),
    "jacobian, all rows": lambda f, x, **options: f.jacobian(lambda x: x**3, x, vectorize=True, **options).sum(),
    "hessian": lambda f, x, **options: f.hessian(lambda x: (x**3).sum(), x, **options).sum(),
    "vjp": lambda f, x, **options: f.vjp(lambda x: x**3, x, x, **options)[1].sum(),
    "jvp": lambda f, x, **options: f.jvp(lambda x: x**3, x, x, **options)[1].sum(),
    "vhp": lambda f, x, **options: f.vhp(lambda x: (x**3).sum(), x, x, **options)[1].sum(),
    "hvp": lambda f, x, **options: f.hvp(lambda x: (x**3).sum(), x, x, **options)[1].sum(),
}
TRANSFORMS = {
    "grad": lambda lib, g, x: lib.func.grad(g)(x),
    "grad in vmap": lambda lib, g, x: lib.vmap(lib.func.grad(g))(x[None])[0],
    "vjp": lambda lib, g, x: lib.func.vjp(g, x)[1](lib.ones_like(x[0]))[0],
    "jacrev": lambda lib, g, x: lib.func.jacrev(g)(x),
    "jacfwd": lambda lib, g, x: lib.func.jacfwd(g)(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", INSIDE)
def test_derivatives_inside_a_transform_need_create_graph(name: str, transform: str) -> None:
    """With create_graph the outer derivative is right; without, it would be zero, and the call raises, as in torch."""

    def derivative(lib: Any, **options: Any) -> Any:
        inner = lambda x: INSIDE[name](lib.autograd.functional, x, **options)  # noqa: E731
        return TRANSFORMS[transform](lib, inner, lib.tensor(V))

    x = torch.tensor(V, requires_grad=True)
    (expected,) = torch.autograd.grad(INSIDE[name](torch.autograd.functional, x, create_graph=True), x)
    np.testing.assert_allclose(derivative(rg, create_graph=True).detach().numpy(), expected.numpy())
    with pytest.raises(RuntimeError):
        derivative(torch)
    with pytest.raises(RuntimeError, match=r"would compute a derivative of zero; pass create_graph=True"):
        derivative(rg)


def test_forward_mode_jacobian_inside_a_transform_is_refused() -> None:
    f = rg.autograd.functional
    columns = lambda x: f.jacobian(rg.sin, x, vectorize=True, strategy="forward-mode").sum()  # noqa: E731
    for transform in TRANSFORMS.values():
        with pytest.raises(RuntimeError, match=r"use retrograd\.func\.jacfwd"):
            transform(rg, columns, rg.tensor(V))


def test_jacobian_inside_a_custom_function_in_a_transform() -> None:
    """Nothing is recorded there, so create_graph is not needed."""

    class Cubes(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(rg.autograd.functional.jacobian(lambda x: x**3, x))
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g @ ctx.saved_tensors[0]

    gradient = rg.func.grad(lambda x: Cubes.apply(x).sum())(rg.tensor(V))
    np.testing.assert_allclose(gradient.numpy(), 3 * V**2)


@parity
def test_functional_refuses_what_is_not_a_tensor(lib: Any) -> Any:
    functional = lib.autograd.functional
    return [
        attempt(lambda: functional.jacobian(lambda x: x, [lib.tensor(V)])),
        attempt(lambda: functional.jacobian(lambda x: [x], lib.tensor(V))),
        attempt(lambda: functional.vjp(lambda x: x, (lib.tensor(V), 3))),
        attempt(lambda: functional.hessian(lambda x: 3.0, lib.tensor(V))),
        attempt(lambda: functional.jvp(lambda x: x, lib.tensor(V), 3)),
    ]


STRICT = {
    "an output without a history": lambda lib, f: f.jacobian(lambda x: lib.tensor(V), lib.tensor(V), strict=True),
    "independent of an input": lambda lib, f: f.jacobian(lambda x, y: x, (lib.tensor(V), lib.tensor(V)), strict=True),
    "a constant jacobian": lambda lib, f: f.jacobian(
        lambda x: x * 2, lib.tensor(V, requires_grad=True), create_graph=True, strict=True
    ),
    "a linear function": lambda lib, f: f.hessian(lambda x: x.sum(), lib.tensor(V), strict=True),
    "vjp": lambda lib, f: f.vjp(lambda x, y: x, (lib.tensor(V), lib.tensor(V)), lib.tensor(V), strict=True),
    "vhp": lambda lib, f: f.vhp(
        lambda x, y: (x**3).sum() + y.sum(), (lib.tensor(V),) * 2, (lib.tensor(V),) * 2, strict=True
    ),
    "hvp": lambda lib, f: f.hvp(lambda x: x.sum(), lib.tensor(V), lib.tensor(V), strict=True),
    "jvp": lambda lib, f: f.jvp(
        lambda x, y: (x * 2, y.detach()), (lib.tensor(V),) * 2, (lib.tensor(V),) * 2, strict=True
    ),
}


@pytest.mark.parametrize("name", STRICT)
def test_strict_mode_errors_are_worded_as_in_torch(name: str) -> None:
    ours, theirs = (message(lambda lib=lib: STRICT[name](lib, lib.autograd.functional)) for lib in (rg, torch))
    assert ours.rstrip() == theirs.rstrip()


@pytest.mark.parametrize("batched", [True, False])
def test_is_grads_batched(batched: bool) -> None:
    """All rows in one backward, with and without a graph afterwards."""

    def program(lib: Any) -> Any:
        x, w = lib.tensor(V, requires_grad=True), lib.tensor(A, requires_grad=True)
        out = lib.tanh(w @ x)
        rows = lib.autograd.grad(
            out, [x, w], lib.eye(2, dtype=lib.float64), is_grads_batched=True, create_graph=batched
        )
        report = [rows, [row.requires_grad for row in rows]]
        if batched:
            report.append(lib.autograd.grad(sum((row**2).sum() for row in rows), [x, w]))
        return [*report, attempt(lambda: lib.autograd.grad(out, x, lib.ones(3, 5), is_grads_batched=True))]

    parity(program)()


def test_is_grads_batched_with_several_outputs() -> None:
    def program(lib: Any) -> Any:
        x = lib.tensor(V, requires_grad=True)
        outputs = [lib.sin(x), x.sum()]
        vectors = [lib.tensor(A), lib.tensor(A[:, 0])]
        unused = lib.tensor(A, requires_grad=True)
        return [
            lib.autograd.grad(outputs, x, vectors, is_grads_batched=True, retain_graph=True),
            lib.autograd.grad(outputs, [x, unused], vectors, is_grads_batched=True, allow_unused=True),
            attempt(lambda: lib.autograd.grad(outputs, x, [vectors[0], vectors[1][:1]], is_grads_batched=True)),
        ]

    parity(program)()
