"""Inputs so large that operations take other paths: results and gradients, compared with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg

SHAPES = [(300, 70), (3, 9000), (20000,), (700, 41), (8, 3, 900)]
FILLINGS = ("numbers", "few values", "NaN", "infinities")

Function = Callable[[Any, Any], Any]


def filled(shape: tuple[int, ...], filling: str, dtype: str = "float32") -> Any:
    x = np.random.default_rng(0).normal(size=shape).astype(dtype) * 3
    if filling == "few values":
        return np.round(x)
    if filling == "NaN":
        x.reshape(-1)[x.size // 2 :: 5000] = np.nan
    if filling == "infinities":
        x.reshape(-1)[::4001], x.reshape(-1)[1::4003] = np.inf, -np.inf
    return x


def both(function: Function, x: Any, tolerance: float) -> None:
    """Check that results, and the gradient of a weighted sum of the first result, agree in both libraries."""
    found = []
    for m in (torch, rg):
        leaf = m.tensor(x, requires_grad=x.dtype.kind == "f")
        results = function(m, leaf)
        several = results if isinstance(results, tuple) else (results,)
        if several[0].requires_grad:
            weights = np.random.default_rng(1).normal(size=tuple(several[0].shape)).astype(x.dtype)
            several[0].backward(m.tensor(weights))
            several = (*several, leaf.grad)
        found.append([each.detach().numpy() for each in several])
    for theirs, ours in zip(*found, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("filling", FILLINGS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["cumsum", "cummax", "cummin", "softmax", "log_softmax"])
def test_large_reductions_along_the_last_dimension(name: str, shape: tuple[int, ...], filling: str) -> None:
    both(lambda m, x: getattr(m, name)(x, -1), filled(shape, filling), 1e-4 if name == "cumsum" else 1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_large_cumprod(shape: tuple[int, ...]) -> None:
    x = 1 + 0.01 * filled(shape, "numbers", "float64")
    both(lambda m, x: m.cumprod(x, -1), x, 1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_large_cumsum_of_integers(shape: tuple[int, ...]) -> None:
    both(lambda m, x: m.cumsum(x, -1), filled(shape, "few values").astype(np.int32), 0)


ACTIVATIONS: dict[str, Function] = {
    "relu": lambda m, x: m.relu(x),
    "gelu": lambda m, x: m.nn.functional.gelu(x),
    "silu": lambda m, x: m.nn.functional.silu(x),
    "sigmoid": lambda m, x: m.sigmoid(x),
    "hardtanh": lambda m, x: m.nn.functional.hardtanh(x, -0.5, 2.0),
    "hardswish": lambda m, x: m.nn.functional.hardswish(x),
    "hardsigmoid": lambda m, x: m.nn.functional.hardsigmoid(x),
    "leaky_relu": lambda m, x: m.nn.functional.leaky_relu(x, 0.2),
    "leaky_relu, steep": lambda m, x: m.nn.functional.leaky_relu(x, -3.0),
    "elu": lambda m, x: m.nn.functional.elu(x, 0.5),
    "selu": lambda m, x: m.nn.functional.selu(x),
    "celu": lambda m, x: m.nn.functional.celu(x, 2.0),
    "softplus": lambda m, x: m.nn.functional.softplus(x, 2.0, 3.0),
    "softshrink": lambda m, x: m.nn.functional.softshrink(x, 0.7),
    "logsigmoid": lambda m, x: m.nn.functional.logsigmoid(x),
    "smooth_l1": lambda m, x: m.nn.functional.smooth_l1_loss(x, x.detach().flip(0), beta=0.7, reduction="none"),
    "huber": lambda m, x: m.nn.functional.huber_loss(x, x.detach().flip(0), delta=0.7, reduction="none"),
}


@pytest.mark.parametrize("filling", ["numbers", "few values"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_large_elementwise_operations(name: str, filling: str) -> None:
    both(ACTIVATIONS[name], filled((50000,), filling), 2e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name not in ("smooth_l1", "huber")])
def test_nonfinite_elements_of_large_tensors_behave_as_in_small_ones(name: str) -> None:
    """Small tensors agree with torch, whose vector instructions treat leftover elements differently."""
    few = np.array([np.nan, np.inf, -np.inf], np.float32)
    found = []
    for x in (few, np.concatenate((few, np.zeros(50000, np.float32)))):
        leaf = rg.tensor(x, requires_grad=True)
        result = ACTIVATIONS[name](rg, leaf)
        result.backward(rg.ones_like(result))
        found.append([result.detach().numpy()[:3], leaf.grad.numpy()[:3]])
    for small, large in zip(*found, strict=True):
        np.testing.assert_array_equal(large, small)


def test_large_gelu_is_accurate_to_single_precision() -> None:
    x = np.linspace(-8, 8, 100001).astype(np.float32)
    exact = torch.nn.functional.gelu(torch.tensor(x, dtype=torch.float64)).numpy()
    error = np.abs(rg.nn.functional.gelu(rg.tensor(x)).numpy() - exact)
    assert error.max() < 8e-7  # torch's error is 1.1e-6
    assert error[np.abs(x) < 1].max() < 1.2e-7


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("filling", FILLINGS)
@pytest.mark.parametrize(("shape", "dim"), [((300, 200), 1), ((200, 300), 0), ((3, 500, 30), 1), ((50000,), 0)])
def test_large_topk(shape: tuple[int, ...], dim: int, filling: str, largest: bool) -> None:
    """Values agree with torch; the indices point to these values without repetition."""
    x = filled(shape, filling)
    expected = torch.topk(torch.tensor(x), 6, dim, largest).values.numpy()
    leaf = rg.tensor(x, requires_grad=True)
    values, indices = leaf.topk(6, dim, largest)
    np.testing.assert_array_equal(values.detach().numpy(), expected)
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), dim), expected)
    values.backward(rg.ones_like(values))
    assert leaf.grad.sum().item() == expected.size
    assert leaf.grad.max().item() == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("size", [100, 8191, 8192, (1 << 19) + 3])
def test_large_where_copies_bit_patterns(dtype: type, size: int) -> None:
    rng = np.random.default_rng(0)
    condition, a, b = rng.random(size) < 0.5, rng.normal(size=size).astype(dtype), rng.normal(size=size).astype(dtype)
    if dtype is not np.int32:
        a[::3], a[1::3], b[::4], b[1::4] = np.nan, -0.0, np.inf, -np.nan
    x, y = rg.tensor(a, requires_grad=dtype is not np.int32), rg.tensor(b)
    result = rg.where(rg.tensor(condition), x, y)
    assert result.numpy(force=True).tobytes() == np.where(condition, a, b).tobytes()
    if x.requires_grad:
        (grad,) = rg.autograd.grad(result, x, rg.full_like(y, np.inf))
        np.testing.assert_array_equal(grad.numpy(), np.where(condition, np.inf, 0))


@pytest.mark.parametrize("number", [0.0, -0.0, float("-inf"), float("nan")])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(300, 300), (800, 700)])
def test_large_where_and_masked_fill_with_a_number(shape: tuple[int, int], dtype: type, number: float) -> None:
    """Bit by bit, for masks of the whole shape and for others that are broadcast."""
    rng = np.random.default_rng(2)
    values = filled(shape, "infinities").astype(dtype)
    for mask in (rng.random(shape) < 0.5, rng.random(shape[1]) < 0.5, rng.random((shape[0], 1)) < 0.5):
        kept, filled_in = np.where(mask, values, dtype(number)), np.where(mask, dtype(number), values)
        m = rg.from_numpy(mask)
        for expected, kept_where, function in (
            (kept, mask, lambda x, m=m: rg.where(m, x, number)),
            (filled_in, ~mask, lambda x, m=m: rg.where(m, number, x)),
            (filled_in, ~mask, lambda x, m=m: x.masked_fill(m, number)),
        ):
            x = rg.tensor(values, requires_grad=True)
            result = function(x)
            assert result.detach().numpy().tobytes() == expected.tobytes()
            result.backward(rg.full_like(x, np.inf))  # also a gradient that is not finite stays where it belongs
            np.testing.assert_array_equal(x.grad.numpy(), np.where(np.broadcast_to(kept_where, shape), np.inf, 0))


def test_large_where_of_two_numbers() -> None:
    condition = np.random.default_rng(3).random(50000) < 0.5
    result = rg.where(rg.from_numpy(condition), 1.5, float("nan"))
    np.testing.assert_array_equal(result.numpy(), np.where(condition, np.float32(1.5), np.float32("nan")))


def test_large_where_of_transposed_operands() -> None:
    rng = np.random.default_rng(0)
    condition, a, b = rng.random((90, 100)) < 0.5, rng.random((100, 90), np.float32), rng.random((180, 100), np.float32)
    got = rg.where(rg.tensor(condition), rg.tensor(a).T, rg.tensor(b)[::2])
    np.testing.assert_array_equal(got.numpy(), np.where(condition, a.T, b[::2]))


@pytest.mark.parametrize("name", ["norm", "std"])
@pytest.mark.parametrize("length", [8192, 8193, 20000])
def test_large_sums_of_squares_of_rows(name: str, length: int) -> None:
    both(lambda m, x: getattr(m, name)(x, dim=1), filled((3, length), "numbers", "float64"), 1e-12)
