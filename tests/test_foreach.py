"""The ``_foreach_`` functions on lists of tensors, compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity

# Not documented.
LEFT_OUT = {"_foreach_mm", "_foreach_powsum"}

BINARY = {"add", "clamp_max", "clamp_min", "div", "maximum", "minimum", "mul", "pow", "sub"}


def arguments(m: Any, operation: str) -> list[tuple[Any, ...]]:
    """Return the arguments besides the list."""
    others = [m.tensor([0.5, 2.0]), m.tensor([[1.5]]), m.tensor(0.25)]
    if operation in BINARY:
        return [(others,), (2.0,), ([1.0, 2.0, 3.0],)]
    if operation in ("addcdiv", "addcmul"):
        return [(others, others), (others, others, 0.5), (others, others, [1.0, 2.0, 3.0])]
    if operation == "lerp":
        return [(others, 0.5), (others, others), (others, [0.1, 0.2, 0.3])]
    if operation == "norm":
        return [(), (1,), (float("inf"),)]
    return [(others,)] if operation == "copy" else [()]


@pytest.mark.parametrize("name", sorted({name for name in dir(torch) if name.startswith("_foreach_")} - LEFT_OUT))
def test_every_foreach_function_of_torch(name: str) -> None:
    def called(m: Any) -> list[Any]:
        results = []
        for args in arguments(m, name.removeprefix("_foreach_").removesuffix("_")):
            tensors = [m.tensor([0.5, 0.75]), m.tensor([[0.125]]), m.tensor(0.625)]
            made = getattr(m, name)(tensors, *args)
            assert type(made) is (list if name.endswith("_") else tuple)
            assert all(x is y for x, y in zip(made, tensors, strict=True)) == name.endswith("_")
            results += [*made, *tensors]
        return results

    for ours, theirs in zip(called(rg), called(torch), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@parity
def test_foreach_options_and_lists_of_different_lengths(m: Any) -> Any:
    tensors = [m.ones(2), m.ones(1)]
    return [
        attempt(lambda: m._foreach_add(tensors, [1.0])),
        attempt(lambda: m._foreach_add(tensors, [m.ones(2)])),
        m._foreach_add(tensors, tensors, alpha=2)[1],
        m._foreach_addcdiv(tensors, tensors, tensors, value=3)[0],
        m._foreach_norm(tensors, ord=1)[0],
        hasattr(m, "_foreach_nothing"),
    ]


@parity
def test_foreach_functions_are_differentiable(m: Any) -> Any:
    x, y = m.tensor([1.0, 2.0], requires_grad=True), m.tensor(3.0, requires_grad=True)
    first, second = m._foreach_mul([x, y], [y, x.sum()])
    (first.sum() + second).backward()
    return [x.grad, y.grad, attempt(lambda: m._foreach_zero_([x]))]
