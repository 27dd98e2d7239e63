"""An array that a variable or a graph still holds is never taken for a temporary, whose memory could be used again.

NumPy writes the result of an operator over an operand of 256 KiB or more to which only the expression refers, which
it tells by the count of references. Since Python 3.14 a variable may be passed without being counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg

SIZE = 1 << 16  # 512 KiB of float64


def polynomial(x: Any, y: Any) -> list[Any]:
    a = x * y
    b = a + x
    c = b * a - b
    d = (c + b) * c / (a * a + 1)
    return [a, b, c, d, -d + c]


def waves(x: Any, y: Any) -> list[Any]:
    a = x.sin()
    b = a.exp() * y
    c = (b + a) * b - a.cos()
    d = c.tanh() * c + b.sigmoid() * a
    return [a, b, c, d, (d - c) ** 2]


def one_operand_twice(x: Any, y: Any) -> list[Any]:
    a = x + y
    b = a + a
    c = b * b * b
    return [a, b, c, c - b + c]


def averages(x: Any, y: Any) -> list[Any]:
    a = x.reshape(256, 256) @ y.reshape(256, 256)
    b = a - a.mean(1, keepdim=True)
    c = b / (b * b).mean(1, keepdim=True).sqrt()
    return [a, b, c, c.softmax(-1) * b, c + a.T]


programs = pytest.mark.parametrize("program", [polynomial, waves, one_operand_twice, averages])


def run(lib: Any, program: Callable[[Any, Any], list[Any]], second: bool) -> list[list[np.ndarray]]:
    """All values and gradients, each as an array without a copy, and as a copy made when it was new."""
    numbers = np.random.default_rng(0).normal(size=(2, SIZE))
    x, y = (lib.tensor(row, requires_grad=True) for row in numbers)
    new: list[Any] = [x, y]
    copies: list[Any] = [numbers[0].copy(), numbers[1].copy()]

    def keep(value: Any) -> None:
        new.append(value.detach())
        copies.append(value.detach().clone().numpy())

    results = program(x, y)
    for result in results:
        keep(result)
        result.register_hook(keep)
    loss = sum(result.sum() for result in results) / len(results)
    if second:
        gradients = lib.autograd.grad(loss, [x, y], create_graph=True)
        gradients += lib.autograd.grad((gradients[0] * gradients[1]).sum(), [x, y])
    else:
        loss.backward(retain_graph=True)
        loss.backward()  # the gradients are added up
        gradients = (x.grad, y.grad)
    for each in gradients:
        keep(each)
    return [[np.asarray(each.detach()) for each in new], copies]


@programs
@pytest.mark.parametrize("second", [False, True])
def test_no_value_changes_after_it_was_made(program: Any, second: bool) -> None:
    now, then = run(rg, program, second)
    for value, copy in zip(now, then, strict=True):
        np.testing.assert_array_equal(value, copy)


@programs
@pytest.mark.parametrize("second", [False, True])
def test_values_and_gradients_of_large_arrays_are_those_of_torch(program: Any, second: bool) -> None:
    ours, _ = run(rg, program, second)
    _, theirs = run(torch, program, second)  # torch may itself add to a gradient that a hook has detached
    for value, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("program", [polynomial, one_operand_twice])
def test_arrays_in_variables_are_no_temporaries_to_numpy(program: Any) -> None:
    """Rules and other plain functions have their operands in variables of the engine."""
    x, y = np.random.default_rng(1).normal(size=(2, SIZE))
    small = program(x[:9], y[:9])  # too small for NumPy to write over
    for value, expected in zip(program(x, y), small, strict=True):
        np.testing.assert_allclose(value[:9], expected, rtol=1e-13)
