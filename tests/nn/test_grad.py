"""nn.grad: separate gradients of convolutions, and a custom function made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, message, parity


def operands(library: Any, n: int, groups: int = 1, dtype: str = "float64", size: int = 7) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    x, weight = rng.normal(size=(2, 2 * groups) + (size,) * n), rng.normal(size=(3 * groups, 2) + (3,) * n)
    if dtype.startswith("complex"):
        x, weight = x + 1j * x[::-1], weight - 1j * weight[::-1]
    return tuple(library.tensor(value, dtype=getattr(library, dtype), requires_grad=True) for value in (x, weight))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(
    "geometry",
    [{}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2}, {"stride": 2, "padding": 2, "dilation": 2}],
)
def test_nn_grad_gives_the_gradients_of_convolutions(n: int, dtype: str, geometry: dict[str, int]) -> None:
    x, weight = operands(rg, n, geometry.get("groups", 1), dtype)
    y = getattr(rg.nn.functional, f"conv{n}d")(x, weight, **geometry)
    g = rg.randn(y.shape, dtype=y.dtype)
    of_x, of_weight = rg.autograd.grad(y, (x, weight), g)
    found = getattr(rg.nn.grad, f"conv{n}d_input")(x.shape, weight.detach(), g, **geometry)
    assert rg.allclose(found, of_x)
    found = getattr(rg.nn.grad, f"conv{n}d_weight")(x.detach(), weight.shape, g, **geometry)
    assert rg.allclose(found, of_weight)


@parity
def test_nn_grad_is_differentiable(library: Any) -> Any:
    x, weight = operands(library, 2)
    g = (library.nn.functional.conv2d(x, weight, stride=(1, 2), padding=[1, 0]).detach() / 7).requires_grad_()
    geometry = {"stride": (1, 2), "padding": [1, 0]}
    of_x = library.nn.functional.grad.conv2d_input(list(x.shape), weight, g, **geometry)
    of_weight = library.nn.grad.conv2d_weight(x, weight.shape, g, **geometry)
    seconds = library.autograd.grad((of_x**2).sum(), (weight, g))
    return of_x, of_weight, seconds, library.autograd.grad((of_weight**2).sum(), (x, g))


@parity
def test_custom_convolution_with_sign_symmetric_feedback(library: Any) -> Any:
    """The gradient of the input is computed with the signs of the weights."""

    class SignedConvolution(library.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any) -> Any:
            ctx.save_for_backward(x, weight)
            return library.nn.functional.conv2d(x, weight, padding=1)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, weight = ctx.saved_tensors
            of_x = library.nn.grad.conv2d_input(x.shape, weight.sign(), g, padding=1)
            return of_x, library.nn.grad.conv2d_weight(x, weight.shape, g, padding=1)

    x, weight = operands(library, 2)
    SignedConvolution.apply(x, weight).square().sum().backward()
    return x.grad, weight.grad


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "shape of the gradient": lambda L, G: G.conv2d_input((1, 1, 5, 5), L.ones(1, 1, 3, 3), L.ones(1, 1, 4, 3)),
    "size of the weight": lambda L, G: G.conv2d_weight(L.ones(1, 1, 5, 5), (1, 1, 3), L.ones(1, 1, 3, 3)),
    "groups": lambda L, G: G.conv1d_input((1, 4, 5), L.ones(2, 4, 3), L.ones(1, 2, 3), groups=2),
    "stride": lambda L, G: G.conv1d_weight(L.ones(1, 1, 5), (1, 1, 3), L.ones(1, 1, 3), stride=0),
    "dtype": lambda L, G: G.conv1d_input((1, 1, 5), L.ones(1, 1, 3), L.ones(1, 1, 3, dtype=L.float64)),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_arguments_of_nn_grad_are_refused(mistake: str) -> None:
    call = WRONG[mistake]
    theirs, ours = (attempt(lambda lib=lib: call(lib, lib.nn.grad)) for lib in (torch, rg))
    assert isinstance(theirs, str)
    assert ours == theirs


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("shape of the gradient", ["conv2d_input()", "[1, 1, 3, 3]", "[1, 1, 4, 3]", "[1, 1, 5, 5]"]),
        ("size of the weight", ["conv2d_weight()", "4 numbers", "[1, 1, 3]"]),
        ("groups", ["[1, 4, 5]", "[2, 4, 3]", "2 groups"]),
        ("dtype", ["weight type (float32)", "grad_output type (float64)"]),
    ],
)
def test_errors_of_nn_grad_say_what_was_wrong(mistake: str, words: list[str]) -> None:
    said = message(lambda: WRONG[mistake](rg, rg.nn.grad))
    assert all(word in said for word in words), said


def test_nn_grad_takes_only_tensors() -> None:
    with pytest.raises(TypeError, match=r"conv1d_input\(\): argument 'weight' must be Tensor, not list"):
        rg.nn.grad.conv1d_input((1, 1, 3), [1.0], rg.ones(1, 1, 3))  # type: ignore[arg-type]
