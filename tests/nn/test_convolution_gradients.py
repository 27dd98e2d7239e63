"""The gradients of convolutions as functions: ``nn.grad``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, message

OPTIONS: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1},
    {"dilation": 2, "groups": 2},
    {"padding": 2, "stride": 3},
]


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_they_are_what_backward_gives_and_differentiable(n: int, options: dict[str, Any]) -> None:
    groups = options.get("groups", 1)
    arrays = values(2, 4, *(7,) * n), values(6, 4 // groups, *(3,) * n)
    found = []
    for lib in (torch, rg):
        x, w = (lib.tensor(array).requires_grad_() for array in arrays)
        y = getattr(lib.nn.functional, f"conv{n}d")(x, w, **options)
        g = lib.tensor(values(*y.shape)).requires_grad_()
        of_input = getattr(lib.nn.grad, f"conv{n}d_input")(x.shape, w, g, **options)
        of_weight = getattr(lib.nn.grad, f"conv{n}d_weight")(x, list(w.shape), g, **options)
        for ours, expected in zip(
            (of_input, of_weight), lib.autograd.grad(y, (x, w), g, create_graph=True), strict=True
        ):
            np.testing.assert_allclose(ours.detach().numpy(), expected.detach().numpy(), rtol=1e-12, atol=1e-12)
        second = lib.autograd.grad((of_input.sin().sum() + of_weight.sin().sum()), (x, w, g))
        found.append([value.detach().numpy() for value in (of_input, of_weight, *second)])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


REFUSED = """
conv2d_input((1, 2, 9, 9), w, g)
conv2d_input((1, 4, 5, 5), w, g)
conv2d_input((2, 5, 5), w, g[0])
conv2d_input((1, 2, 5, 5), w, g, stride=2)
conv2d_input((1, 2, 5, 5), w, g, stride=0)
conv2d_input((1, 2, 5, 5), w.double(), g)
conv2d_weight(x[0], (3, 2, 3, 3), g[0])
conv2d_weight(x, (3, 2, 2, 2), g)
""".strip().splitlines()


def evaluate(lib: Any, call: str) -> Any:
    names = {"x": lib.ones(1, 2, 5, 5), "w": lib.ones(3, 2, 3, 3), "g": lib.ones(1, 3, 3, 3)}
    return eval(f"lib.nn.grad.{call}", {"lib": lib, **names})


@pytest.mark.parametrize("call", REFUSED)
def test_what_does_not_fit_is_refused(call: str) -> None:
    assert attempt(lambda: evaluate(rg, call)) == attempt(lambda: evaluate(torch, call)) == "raises RuntimeError"


def test_an_error_names_the_sizes() -> None:
    text = message(lambda: evaluate(rg, "conv2d_input((1, 2, 9, 9), w, g)"))
    assert "conv2d_input()" in text
    assert "[1, 3, 7, 7]" in text and "[1, 3, 3, 3]" in text
