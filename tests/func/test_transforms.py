"""The transforms of func, alone and composed, compared with torch's on the same programs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch  # noqa: F401 (torch.func is imported with it)

import retrograd as rg
from retrograd.tree import flatten
from tests.parity import attempt, check_both_refuse, message, parity

RNG = np.random.default_rng(0)
A = RNG.normal(size=(5, 3))
W = RNG.normal(size=(4, 3))
V = RNG.normal(size=3)


def layer(lib: Any, w: Any, x: Any) -> Any:
    return lib.tanh(w @ x)


# --- one transform ----------------------------------------------------------------------------------------------------


@parity
def test_grad_in_several_and_nested_arguments(lib: Any) -> Any:
    def f(x: Any, tree: Any) -> Any:
        return (x * tree["a"] * tree["b"][0]).sum() + (tree["b"][1] ** 2).sum()

    tree = {"a": lib.tensor(V), "b": [lib.tensor(V) * 2, lib.tensor(A)]}
    x = lib.tensor(V)
    return [lib.func.grad(f, argnums=argnums)(x, tree) for argnums in (0, 1, -1, (0, 1), (1, 0), (-1, 0))]


def test_transforms_take_numpy_scalars() -> None:
    """NumPy turns zero-dimensional arrays into scalars: ``np.array(0.3) * 2`` and ``v[0]`` are scalars."""
    x, v = np.float64(0.3), np.float32(2.0)
    slope = rg.func.grad(np.sin)(x)
    assert slope.dtype is rg.float64
    assert slope.item() == pytest.approx(np.cos(0.3))
    assert rg.func.grad(np.sin)(v).dtype is rg.float32
    assert rg.func.grad(lambda tree: tree["a"] * tree["b"][0])({"a": x, "b": (x,)})["a"].item() == x
    for jacobian in (rg.func.jacrev, rg.func.jacfwd):
        a, b = jacobian(lambda a, b: a * np.arange(3.0) + b, argnums=(0, 1))(x, np.float64(1.0))
        assert (a.tolist(), b.tolist()) == ([0, 1, 2], [1, 1, 1])
    assert rg.func.hessian(np.sin)(x).item() == pytest.approx(-np.sin(0.3))
    assert rg.func.jvp(np.sin, (x,), (np.float64(2.0),))[1].item() == pytest.approx(2 * np.cos(0.3))
    assert rg.func.vjp(np.sin, x)[1](np.float64(2.0))[0].item() == pytest.approx(2 * np.cos(0.3))
    assert rg.func.linearize(np.sin, x)[1](np.float64(2.0)).item() == pytest.approx(2 * np.cos(0.3))
    with pytest.raises(RuntimeError, match="floating point"):
        rg.func.grad(lambda n: n * 1.0)(rg.tensor(2))
    for number in (1.0, 2, np.int64(2), None):
        with pytest.raises(ValueError, match=r"must be Tensor.*np\.array\(1\.0\)"):
            rg.func.grad(lambda n: n * 1.0)(number)
    with pytest.raises(TypeError, match="supported types"):
        rg.func.grad(lambda n: n * 1.0)(np.longdouble(2) if np.dtype(np.longdouble).itemsize > 8 else np.array("a"))


@parity
def test_grad_and_value_with_aux(lib: Any) -> Any:
    def f(x: Any) -> Any:
        return (x**2).sum(), {"twice": x * 2}

    x = lib.tensor(V)
    return [lib.func.grad(f, has_aux=True)(x), lib.func.grad_and_value(f, has_aux=True)(x)]


def test_value_and_grad_swaps_the_results_of_grad_and_value() -> None:
    value, gradient = rg.func.value_and_grad(lambda x: (x**2).sum())(rg.tensor(V))
    assert float(value) == pytest.approx(float((V**2).sum()))
    np.testing.assert_allclose(gradient.numpy(), 2 * V)


@parity
def test_unused_argument_has_a_zero_gradient(lib: Any) -> Any:
    return lib.func.grad(lambda x, y: (x * x).sum(), argnums=(0, 1))(lib.tensor(V), lib.tensor(A))


@parity
def test_vjp(lib: Any) -> Any:
    output, vjp_fn = lib.func.vjp(lambda x, y: {"p": lib.sin(x) * y, "q": (y.sum(),)}, lib.tensor(V), lib.tensor(V) * 2)
    cotangents = {"p": lib.tensor(V), "q": (lib.tensor(2.0, dtype=lib.float64),)}
    return [output, vjp_fn(cotangents), vjp_fn(cotangents)]


@parity
def test_vjp_with_aux(lib: Any) -> Any:
    output, vjp_fn, aux = lib.func.vjp(lambda x: (lib.sin(x), x * 3), lib.tensor(V), has_aux=True)
    return [output, vjp_fn(lib.tensor(V)), aux]


@parity
def test_jvp(lib: Any) -> Any:
    x, y, v = lib.tensor(V), lib.tensor(V) * 2, lib.tensor(V) * 3
    return [
        lib.func.jvp(lambda x, y: (x * y, {"s": y.sum()}), (x, y), (v, v)),
        lib.func.jvp(lambda d: d["x"] ** 2, ({"x": x},), ({"x": v},)),
        lib.func.jvp(lambda x: (x * x, x * 2), (x,), (v,), has_aux=True),
        lib.func.jvp(lambda x: lib.tensor(A), (x,), (v,)),
    ]


def test_linearize_runs_the_function_once() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return rg.sin(x) * x

    output, jvp_fn = rg.func.linearize(f, rg.tensor(V))
    for scale in (1.0, 2.0):
        _, expected = rg.func.jvp(lambda x: rg.sin(x) * x, (rg.tensor(V),), (rg.tensor(V * scale),))
        np.testing.assert_allclose(jvp_fn(rg.tensor(V * scale)).numpy(), expected.numpy())
    np.testing.assert_allclose(output.numpy(), np.sin(V) * V)
    assert len(calls) == 1


@pytest.mark.parametrize("transform", ["jacrev", "jacfwd"])
def test_jacobians_nest_outputs_outside_arguments(transform: str) -> None:
    @parity
    def program(lib: Any) -> Any:
        jac = getattr(lib.func, transform)

        def f(a: Any, d: Any) -> Any:
            return {"u": a * d["z"], "w": (a.sum(), d["z"][:2])}

        args = lib.tensor(V), {"z": lib.tensor(V)}
        return [
            jac(f, argnums=(0, 1))(*args),
            jac(f, argnums=1)(*args),
            jac(lambda x: layer(lib, lib.tensor(W), x))(lib.tensor(V)),
            jac(lambda x: (x**2, x * 3), has_aux=True)(lib.tensor(V)),
            jac(lambda x: x.sum())(lib.tensor(A)),
        ]

    program()


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("transform", [rg.func.jacrev, rg.func.jacfwd])
def test_chunk_size_does_not_change_a_jacobian(transform: Any, size: int) -> None:
    def f(x: Any) -> Any:
        return layer(rg, rg.tensor(W), x)

    whole, chunked = transform(f)(rg.tensor(V)), transform(f, chunk_size=size)(rg.tensor(V))
    np.testing.assert_allclose(chunked.numpy(), whole.numpy())


@parity
def test_jacrev_with_chunk_size_1_needs_no_vmap(lib: Any) -> Any:
    """The backward may then use operations that ``vmap`` does not support."""

    class Counted(lib.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * (1 + len(g.nonzero()))

    def f(x: Any, y: Any) -> Any:
        return Counted.apply(x) * y, {"sum": x.sum()}

    both = lib.func.jacrev(f, argnums=(0, 1), chunk_size=1)(lib.tensor(A[:2]), lib.tensor(V))
    return [both, attempt(lambda: lib.func.jacrev(f, chunk_size=2)(lib.tensor(A[:2]), lib.tensor(V)))]


@parity
def test_jvp_that_returns_its_tangent(lib: Any) -> Any:
    """For a Function that returns its input or a view of it. In a dual level both libraries demand a view."""

    def function(forward: Any, jvp: Any) -> Any:
        class Same(lib.autograd.Function):
            @staticmethod
            def forward(x: Any) -> Any:
                return forward(x)

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g

            @staticmethod
            def jvp(ctx: Any, t: Any) -> Any:
                return jvp(t)

        return Same.apply

    x, t = lib.tensor(V), lib.tensor(V) * 2
    found = []
    for forward in (lambda x: x, lambda x: x.view_as(x)):
        for jvp in (lambda t: t, lambda t: t.clone(), lambda t: t.view_as(t)):
            f = function(forward, jvp)
            found.append(lib.func.jvp(lambda x, f=f: f(x) * x, (x,), (t,)))
            found.append(lib.func.jvp(lib.func.grad(lambda x, f=f: (f(x) ** 3).sum()), (x,), (t,)))
            with lib.autograd.forward_ad.dual_level():
                dual = lib.autograd.forward_ad.make_dual(x, t)
                found.append(attempt(lambda f=f, dual=dual: lib.autograd.forward_ad.unpack_dual(f(dual)).tangent))
    return found


@parity
def test_second_derivatives_of_cumsum_of_a_scalar(lib: Any) -> Any:
    x = lib.tensor([0.5, 2.0], dtype=lib.float64)
    return lib.func.jacrev(lib.func.jacrev(lambda x: (x[0] * x[1]).cumsum(0) ** 2))(x)


@parity
def test_hessian(lib: Any) -> Any:
    def f(a: Any, b: Any) -> Any:
        return (a**2 * b).sum() + (a.sum() * b).sum()

    return lib.func.hessian(f, argnums=(0, 1))(lib.tensor(V), lib.tensor(V) * 2)


# --- composition ------------------------------------------------------------------------------------------------------


def squares_but_the_first(x: Any) -> Any:
    y = x * 1
    y[1:].mul_(x[1:])
    return y


def hermitian(lib: Any) -> Any:
    matrix = lib.tensor([[0.0, 1.0, 2.0], [0.0, 0.0, 1.5], [0.0, 0.0, 0.0]], dtype=lib.float64) * (1 + 0.5j)
    return matrix + matrix.conj().mT


COMPOSED = {
    "grad of grad": lambda lib, f: f.grad(lambda x: f.grad(lambda y: (y**3).sum())(x).sum())(lib.tensor(V)),
    "an inner variable is not the outer one": lambda lib, f: f.grad(
        lambda x: x * f.grad(lambda y: x * y * y)(lib.tensor(2.0))
    )(lib.tensor(3.0)),
    "the same value as both": lambda lib, f: f.grad(lambda x: x * f.grad(lambda y: x + y)(x))(lib.tensor(3.0)),
    "vmap of grad": lambda lib, f: f.vmap(f.grad(lambda w, x: layer(lib, w, x).sum()), in_dims=(None, 0))(
        lib.tensor(W), lib.tensor(A)
    ),
    "grad of vmap": lambda lib, f: f.grad(lambda w: f.vmap(lambda x: layer(lib, w, x).sum())(lib.tensor(A)).sum())(
        lib.tensor(W)
    ),
    "grad of vmap of grad": lambda lib, f: f.grad(
        lambda w: (f.vmap(f.grad(lambda x: layer(lib, w, x).sum()))(lib.tensor(A)) ** 2).sum()
    )(lib.tensor(W)),
    "vmap of grad of grad": lambda lib, f: f.vmap(
        f.grad(lambda x: (f.grad(lambda w: layer(lib, w, x).sum())(lib.tensor(W)) ** 2).sum())
    )(lib.tensor(A)),
    "vmap of vmap": lambda lib, f: f.vmap(lambda u: f.vmap(lambda v: (u * v).sum())(lib.tensor(W)))(lib.tensor(A)),
    "jacrev of jacrev": lambda lib, f: f.jacrev(f.jacrev(lambda x: layer(lib, lib.tensor(W), x).sum()))(lib.tensor(V)),
    "jacfwd of jacfwd": lambda lib, f: f.jacfwd(f.jacfwd(lambda x: layer(lib, lib.tensor(W), x).sum()))(lib.tensor(V)),
    "jacrev of jacfwd": lambda lib, f: f.jacrev(f.jacfwd(lambda x: layer(lib, lib.tensor(W), x).sum()))(lib.tensor(V)),
    "vmap of hessian": lambda lib, f: f.vmap(f.hessian(lambda x: layer(lib, lib.tensor(W), x).sum()))(lib.tensor(A)),
    "hessian of vmap": lambda lib, f: f.hessian(lambda x: f.vmap(lambda w: (w * x).sum().sin())(lib.tensor(W)).sum())(
        lib.tensor(V)
    ),
    "vmap of jacrev of vmap": lambda lib, f: f.vmap(
        f.jacrev(lambda x: f.vmap(lambda w: (w * x).sum().sin())(lib.tensor(W)))
    )(lib.tensor(A)),
    "jacfwd of vmap": lambda lib, f: f.jacfwd(lambda x: f.vmap(lambda w: (w * x).sum().sin())(lib.tensor(W)))(
        lib.tensor(V)
    ),
    "grad of hessian of vmap": lambda lib, f: f.grad(
        lambda x: f.hessian(
            lambda y: f.vmap(lambda u, v: u * v.sin(), in_dims=(0, None))(lib.stack([y, y * y]), y).sum()
        )(x).sum()
    )(lib.tensor(V)),
    "vmap of jacrev of writing to a part": lambda lib, f: f.vmap(f.jacrev(squares_but_the_first))(lib.tensor(A)),
    "vmap of jacrev of jacrev of writing to a part": lambda lib, f: f.vmap(f.jacrev(f.jacrev(squares_but_the_first)))(
        lib.tensor(A)
    ),
    "grad of vmap of jacrev of writing to a part": lambda lib, f: f.grad(
        lambda x: f.vmap(f.jacrev(squares_but_the_first))(x).sin().sum()
    )(lib.tensor(A)),
    "grad of jvp": lambda lib, f: f.grad(lambda x: f.jvp(lambda a: lib.sin(a * x), (x,), (x * x,))[1].sum())(
        lib.tensor(V)
    ),
    "jvp of grad": lambda lib, f: f.jvp(f.grad(lambda x: lib.sin(x).sum()), (lib.tensor(V),), (lib.tensor(V),)),
    "jvp of jvp": lambda lib, f: f.jvp(
        lambda x: f.jvp(lambda y: lib.tanh(y) * x, (x,), (lib.tensor(V),))[1], (lib.tensor(V),), (lib.tensor(V),)
    ),
    "vmap of jvp": lambda lib, f: f.vmap(lambda t: f.jvp(lib.sin, (lib.tensor(V),), (t,)))(lib.tensor(A)),
    "vmap of vjp": lambda lib, f: f.vmap(f.vjp(lambda x: layer(lib, lib.tensor(W), x), lib.tensor(V))[1])(
        lib.eye(4, dtype=lib.float64)
    ),
    "grad of hessian": lambda lib, f: f.grad(lambda x: f.hessian(lambda y: (y**4).sum() * x.sum())(x).sum())(
        lib.tensor(V)
    ),
    "hessian of what eigenvectors of complex matrices hold": lambda lib, f: f.hessian(
        lambda x: (lib.linalg.eigh(lib.diag(x) + hermitian(lib))[1].abs() ** 4).sum()
    )(lib.tensor(V)),
    "three gradients": lambda lib, f: f.grad(f.grad(f.grad(lambda x: lib.sin(x) * x**3)))(lib.tensor(0.7)),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_composed_transforms(name: str) -> None:
    parity(lambda lib: COMPOSED[name](lib, lib.func))()


# --- which results have a history -------------------------------------------------------------------------------------


@parity
def test_results_require_grad_only_if_an_outer_tensor_does(lib: Any) -> Any:
    plain, wanted = lib.tensor(V), lib.tensor(V, requires_grad=True)
    cube = lib.func.grad(lambda x: (x**3).sum())
    captured = lib.func.grad(lambda x: (x * wanted**2).sum())
    output, vjp_fn = lib.func.vjp(lib.sin, plain)
    outputs = [cube(plain), cube(wanted), captured(plain), output, vjp_fn(plain)[0], vjp_fn(wanted)[0]]
    return [x.requires_grad for x in outputs]


@parity
def test_gradients_flow_to_arguments_and_captured_tensors(lib: Any) -> Any:
    x, w = lib.tensor(V, requires_grad=True), lib.tensor(V * 2, requires_grad=True)
    gradient = lib.func.grad(lambda x: (x**3 * w**2).sum())(x)
    gradient.sum().backward()
    return [x.grad, w.grad]


@parity
def test_transforms_under_no_grad_and_no_grad_inside_transforms(lib: Any) -> Any:
    x = lib.tensor(V, requires_grad=True)

    def half_hidden(x: Any) -> Any:
        with lib.no_grad():
            shift = (x**2).sum()
        return (x**2).sum() - shift

    with lib.no_grad():
        outer = lib.func.grad(lambda x: (x**3).sum())(x)
        output, vjp_fn = lib.func.vjp(lib.sin, x)
        (product,) = vjp_fn(x)
    return [
        outer,
        outer.requires_grad,
        output.requires_grad,
        product,
        product.requires_grad,
        lib.func.grad(half_hidden)(x),
    ]


@parity
def test_vjp_made_under_no_grad_keeps_the_outer_history(lib: Any) -> Any:
    x = lib.tensor(V, requires_grad=True)
    with lib.no_grad():
        output, vjp_fn = lib.func.vjp(lambda x: x**3, x)
    (product,) = vjp_fn(lib.ones(3))
    return [output.requires_grad, product.requires_grad, lib.autograd.grad(product.sum(), x)]


TRANSFORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "grad": lambda func, f, x: func.grad(lambda x: f(x).sum())(x),
    "grad of grad": lambda func, f, x: func.grad(lambda x: func.grad(lambda x: f(x).sum())(x).sum())(x),
    "vjp": lambda func, f, x: func.vjp(f, x)[1](x),
    "jvp": lambda func, f, x: func.jvp(f, (x,), (x,)),
    "linearize": lambda func, f, x: func.linearize(f, x)[1](x),
    "jacrev": lambda func, f, x: func.jacrev(f)(x),
    "jacfwd": lambda func, f, x: func.jacfwd(f)(x),
    "hessian": lambda func, f, x: func.hessian(f)(x),
    "vmap of grad": lambda func, f, x: func.vmap(func.grad(f))(x),
}


@pytest.mark.parametrize("name", [name for name in TRANSFORMS if name != "linearize"])  # torch's linearize warns
def test_transforms_inside_inference_mode(name: str) -> None:
    def program(lib: Any) -> Any:
        before = lib.tensor(V)
        with lib.inference_mode():
            made = lib.tensor(V)
            f = lambda x: (x**3 * 2).sin() * lib.ones(()) * 3  # noqa: E731
            results = [TRANSFORMS[name](lib.func, f, x) for x in (before, made)]
        return [*results, TRANSFORMS[name](lib.func, lambda x: (x**3 * 2).sin(), made)]

    parity(program)()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_capture_inference_tensors_in_inference_mode(name: str) -> None:
    captured = rg.tensor(2.0)
    expected = TRANSFORMS[name](rg.func, lambda x: x**2 * captured, rg.tensor(V))
    with rg.inference_mode():
        captured = rg.tensor(2.0)
        assert captured.is_inference()
        found = TRANSFORMS[name](rg.func, lambda x: x**2 * captured, rg.tensor(V))
        assert rg.is_inference_mode_enabled()
        assert rg.ones(1).is_inference()
    leaves, again = flatten(expected)[0], flatten(found)[0]
    assert [leaf.tolist() for leaf in again] == [leaf.tolist() for leaf in leaves]


def test_saving_an_inference_tensor_for_an_outer_gradient_is_refused() -> None:
    with rg.inference_mode():
        captured = rg.tensor(2.0)
    x = rg.tensor(V, requires_grad=True)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        rg.func.grad(lambda x: (x * captured).sum())(x)


def test_finished_transforms_leave_no_history() -> None:
    second = rg.func.grad(rg.func.grad(rg.sin))(rg.tensor(1.0))
    _, vjp_fn = rg.func.vjp(rg.sin, rg.tensor(V))
    by_cotangent = rg.func.grad(lambda c: (vjp_fn(c)[0] ** 2).sum())(rg.tensor(V))
    _, jvp_fn = rg.func.linearize(rg.sin, rg.tensor(V))
    by_tangent = rg.func.grad(lambda t: (jvp_fn(t) ** 2).sum())(rg.tensor(V))
    results = [second, by_cotangent, by_tangent, rg.func.hessian(lambda x: (x**3).sum())(rg.tensor(V))]
    assert [result.requires_grad for result in results] == [False] * 4
    np.testing.assert_allclose(by_cotangent.numpy(), 2 * np.cos(V) ** 2 * V)
    np.testing.assert_allclose(by_tangent.numpy(), 2 * np.cos(V) ** 2 * V)


def test_grad_transform_leaves_the_grad_attribute_alone() -> None:
    x = rg.tensor(V, requires_grad=True)
    rg.func.grad(lambda x: (x**2).sum())(x)
    assert x.grad is None


def test_transforms_take_arrays() -> None:
    gradient = rg.func.grad(lambda x: (x**2).sum())(V)
    assert isinstance(gradient, rg.Tensor)
    np.testing.assert_allclose(gradient.numpy(), 2 * V)
    assert rg.func.jacfwd(lambda x: x**2)(V).shape == (3, 3)
    assert rg.vmap(lambda x: x.sum())(A).shape == (5,)


def test_transforms_use_the_rules_of_custom_functions() -> None:
    class Cube(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 7 * x  # deliberately wrong, to show that it is used

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            (x,) = ctx.saved_for_forward
            return t * 5 * x

    x = rg.tensor(V)
    np.testing.assert_allclose(rg.func.grad(lambda x: Cube.apply(x).sum())(x).numpy(), 7 * V)
    np.testing.assert_allclose(rg.func.jvp(Cube.apply, (x,), (rg.ones_like(x),))[1].numpy(), 5 * V)
    np.testing.assert_allclose(rg.vmap(rg.func.grad(lambda x: Cube.apply(x).sum()))(rg.tensor(A)).numpy(), 7 * A)


@parity
def test_integer_outputs_have_no_tangents(lib: Any) -> Any:
    x = lib.tensor(V)
    output, jvp_fn = lib.func.linearize(lambda x: {"largest": x.argmax(), "twice": x * 2}, x)
    return [
        output["twice"],
        jvp_fn(x),
        lib.func.jvp(lambda x: x.argmax(), (x,), (x,)),
        lib.func.jacfwd(lambda x: x.argmax())(x),
        lib.func.grad(lambda x: x.argmax())(x),
    ]


# --- memory -----------------------------------------------------------------------------------------------------------

TRANSFORMED: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: lambda x: rg.func.grad(f)(x),
    "grad and value": lambda f: lambda x: rg.func.grad_and_value(f)(x)[0],
    "nested arguments": lambda f: lambda x: rg.func.grad(lambda tree: f(tree["x"][0]))({"x": [x]})["x"][0],
    "vjp": lambda f: lambda x: rg.func.vjp(f, x)[1](rg.ones((), dtype=rg.float64))[0],
    "jvp": lambda f: lambda x: rg.func.jvp(rg.func.grad(f), (x,), (x,))[1],
    "hessian": rg.func.hessian,
    "vmap": lambda f: lambda x: rg.vmap(rg.func.grad(f))(x[None]),
    "linearize": lambda f: lambda x: rg.func.linearize(rg.func.grad(f), x)[1](x),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_results_of_transforms_are_freed_without_the_collector(name: str) -> None:
    """Otherwise a loop over large arguments would hold dozens of gradients: the collector counts objects, not bytes."""
    seen = []

    def f(x: Any) -> Any:
        y = x**4
        seen.append(weakref.ref(y))
        return y.sum() + np.sum(np.block([[x], [x]])) + np.sum(rg.cat([x, np.ones(2)]))

    gc.collect()
    gc.disable()
    try:
        result = TRANSFORMED[name](f)(rg.tensor(V))
        seen.append(weakref.ref(result))
        del result
        assert [ref() for ref in seen] == [None] * len(seen)
    finally:
        gc.enable()


# --- errors -----------------------------------------------------------------------------------------------------------


def complex_(lib: Any) -> Any:
    return lib.tensor(V * (1 + 2j))


WRONG = {
    "no scalar": lambda lib: lib.func.grad(lambda x: x)(lib.tensor(V)),
    "no tensor": lambda lib: lib.func.grad(lambda x: 3.0)(lib.tensor(V)),
    "a tuple": lambda lib: lib.func.grad(lambda x: (x.sum(), 1))(lib.tensor(V)),
    "integers": lambda lib: lib.func.grad(lambda x: x.sum())(lib.arange(3)),
    "argnums too large": lambda lib: lib.func.grad(lambda x: x.sum(), argnums=2)(lib.tensor(V)),
    "argnums twice": lambda lib: lib.func.grad(lambda x, y: x.sum(), argnums=(0, 0))(lib.tensor(V), lib.tensor(V)),
    "argnums of strings": lambda lib: lib.func.grad(lambda x: x.sum(), argnums=("0",))(lib.tensor(V)),
    "a number as cotangent": lambda lib: lib.func.vjp(lambda x: x.sum(), lib.tensor(V))[1](1.0),
    "argnums empty": lambda lib: lib.func.grad(lambda x: x.sum(), argnums=())(lib.tensor(V)),
    "aux missing": lambda lib: lib.func.grad(lambda x: x.sum(), has_aux=True)(lib.tensor(V)),
    "a number among the arguments": lambda lib: lib.func.grad(lambda d: d["a"].sum())({"a": lib.tensor(V), "b": 2.0}),
    "cotangents nested differently": lambda lib: lib.func.vjp(lambda x: (x, x), lib.tensor(V))[1](lib.tensor(V)),
    "cotangents of another shape": lambda lib: lib.func.vjp(lambda x: x, lib.tensor(V))[1](lib.tensor(W)),
    "vjp of a number": lambda lib: lib.func.vjp(lambda x: 3.0, lib.tensor(V)),
    "vjp of nothing": lambda lib: lib.func.vjp(lambda x: (), lib.tensor(V)),
    "primals no tuple": lambda lib: lib.func.jvp(lambda x: x, lib.tensor(V), lib.tensor(V)),
    "primals empty": lambda lib: lib.func.jvp(lambda x: x, (), ()),
    "tangents of another length": lambda lib: lib.func.jvp(
        lambda x: x, (lib.tensor(V),), (lib.tensor(V), lib.tensor(V))
    ),
    "tangents of another shape": lambda lib: lib.func.jvp(lambda x: x, (lib.tensor(V),), (lib.tensor(W),)),
    "jacrev of integers": lambda lib: lib.func.jacrev(lambda x: x * 2)(lib.arange(3)),
    "jacfwd of integers": lambda lib: lib.func.jacfwd(lambda x: x * 2)(lib.arange(3)),
    "jacrev of a number": lambda lib: lib.func.jacrev(lambda x: 3.0)(lib.tensor(V)),
    "no chunks": lambda lib: lib.func.jacrev(lambda x: x, chunk_size=0)(lib.tensor(V)),
    "vjp of integers": lambda lib: lib.func.vjp(lambda x: (x, x.argmax()), lib.tensor(V)),
    "jacrev by something complex": lambda lib: lib.func.jacrev(lambda x, z: (x * z).real)(lib.tensor(V), complex_(lib)),
    "jacfwd by something complex": lambda lib: lib.func.jacfwd(lambda x, z: (x * z).real)(lib.tensor(V), complex_(lib)),
    "hessian by something complex": lambda lib: lib.func.hessian(lambda z: z.abs().sum())(complex_(lib)),
    "jacrev of something complex": lambda lib: lib.func.jacrev(lambda x: x * 1j)(lib.tensor(V)),
    "jacfwd of something complex": lambda lib: lib.func.jacfwd(lambda x: x * 1j)(lib.tensor(V)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_uses_of_transforms_are_refused_as_in_torch(name: str) -> None:
    check_both_refuse(WRONG[name])


def test_tangents_may_be_arrays_of_integers() -> None:
    """Unit vectors are written so, and SciPy probes Hessian products with them."""
    x, unit = np.array(V), np.eye(len(V), dtype=np.int8)[1]

    def cube(x: Any) -> Any:
        return np.sum(x**3)

    slope = rg.func.jvp(cube, (x,), (unit,))[1]
    assert slope.dtype is rg.float64
    np.testing.assert_allclose(slope.item(), 3 * x[1] ** 2)
    np.testing.assert_allclose(rg.func.linearize(cube, x)[1](unit).item(), 3 * x[1] ** 2)
    with pytest.raises(ValueError, match=r"Expected tangent to be floating point.*\.to\("):
        rg.func.jvp(cube, (x,), (rg.from_numpy(unit),))
    with pytest.raises(ValueError, match=r"Expected primal to be floating point.*\.astype\(float\)"):
        rg.func.jvp(cube, (unit,), (unit,))


@pytest.mark.parametrize("transform", [rg.func.grad, rg.func.jacrev, rg.func.jacfwd])
def test_error_about_an_output_that_is_no_tensor_mentions_math_functions(transform: Any) -> None:
    assert "math.sin" in message(lambda: transform(lambda x: 3.0)(rg.tensor(V)))
    assert "math.sin" in message(lambda: transform(lambda x: np.sum(np.ones(3)))(rg.tensor(V)))
    assert "math.sin" not in message(lambda: transform(lambda x: None)(rg.tensor(V)))


def test_errors_of_transforms_say_what_was_wrong() -> None:
    assert "got tensor with 1 dims, of shape [3]. Reduce it first" in message(lambda: WRONG["no scalar"](rg))
    assert message(lambda: rg.func.grad(lambda x: x[:1])(rg.tensor(V))).endswith("return that, value.sum().")
    for name in ("grad", "value_and_grad", "grad_and_value"):  # the message names what the program calls
        assert message(lambda name=name: getattr(rg.func, name)(lambda x: 3.0)(rg.tensor(V))).startswith(
            f"{name}(f)(*args)"
        )
    assert "argnum=2, but only 1" in message(lambda: WRONG["argnums too large"](rg))
    assert "must be int, got: '0'" in message(lambda: WRONG["argnums of strings"](rg))
    assert "[4, 3]" in message(lambda: WRONG["cotangents of another shape"](rg))
    assert "dtype retrograd.int64" in message(lambda: WRONG["integers"](rg))
    assert "has_aux=True" in message(lambda: WRONG["vjp of integers"](rg))
    assert "received complex tensor at flattened input idx: 1" in message(
        lambda: WRONG["jacrev by something complex"](rg)
    )


def test_complex_tangent_of_a_real_argument_is_refused() -> None:
    """torch computes with it; here the imaginary part would be lost."""
    x = rg.tensor(V)
    with pytest.raises(ValueError, match="Expected tangent to be real"):
        rg.func.jvp(rg.sin, (x,), (complex_(rg),))


@pytest.mark.parametrize("argnums", [-1, -2, (-1,), (-1, 0), (1, -2)])
@pytest.mark.parametrize("name", ["jacrev", "jacfwd", "hessian"])
def test_negative_argnums_count_from_the_last_argument(name: str, argnums: int | tuple[int, ...]) -> None:
    def f(a: Any, b: Any) -> Any:
        return (a * b**2).sum() if name == "hessian" else a * b**2

    count = (lambda nr: nr % 2) if isinstance(argnums, int) else (lambda nrs: tuple(nr % 2 for nr in nrs))
    transform, points = getattr(rg.func, name), (rg.tensor(V), rg.tensor(V) + 1)
    found, expected = transform(f, argnums)(*points), transform(f, count(argnums))(*points)
    assert len(flatten(found)[0]) == len(flatten(expected)[0])
    for one, other in zip(flatten(found)[0], flatten(expected)[0], strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_requires_grad_called_on_an_argument_has_no_effect() -> None:
    def f(x: Any) -> Any:
        return (x.requires_grad_() ** 2).sum()

    x = rg.tensor(V)
    result = rg.func.grad(f)(x)
    np.testing.assert_array_equal(result.numpy(), 2 * np.asarray(V))
    assert not result.requires_grad and not x.requires_grad


def test_linearize_takes_tangents_of_another_precision() -> None:
    x = rg.tensor(V, dtype=rg.float64)
    single = rg.ones(len(V), dtype=rg.float32)
    pushed = rg.func.linearize(rg.sin, x)[1](single)
    assert pushed.dtype == rg.func.jvp(rg.sin, (x,), (single,))[1].dtype
    np.testing.assert_allclose(pushed.numpy(), np.cos(V))
