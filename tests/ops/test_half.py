"""float16 is computed in float32 and rounded once, as in torch; numbers that do not fit are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.ops.harness import assert_same
from tests.parity import parity

VALUES = np.array([0.0, -0.0, 1.0, -2.0, 0.3, 60000.0, np.inf, np.nan], np.float16)
# from 0, which gives NaN times infinity, to numbers that overflow
WEIGHTS = np.array([0.0, -0.0, 1e-3, 1.0, 2.0, 0.0, 1.0, 1.0], np.float16)

# Operations in which torch's kernels for the CPU keep a Python number in float32.
WITH_A_NUMBER: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mul": lambda m, x, number: x * number,
    "rmul": lambda m, x, number: number * x,
    "mul_": lambda m, x, number: x.clone().mul_(number),
    "imul": lambda m, x, number: (x * 1).__imul__(number),
    "div": lambda m, x, number: x / number,
    "div_": lambda m, x, number: x.clone().div_(number),
    "mul by a 0-d tensor": lambda m, x, number: x * m.tensor(float(number), dtype=m.float64),
    "lerp": lambda m, x, number: m.lerp(x, m.ones_like(x), number),
    "leaky_relu": lambda m, x, number: m.nn.functional.leaky_relu(x, number),
    "elu": lambda m, x, number: m.nn.functional.elu(x, number),
    "celu": lambda m, x, number: m.nn.functional.celu(x, number),
}


def outcome(library: Any, function: Callable[[Any, Any, Any], Any], number: float) -> tuple[Any, Any]:
    x = (torch.tensor if library is torch else rg.tensor)(VALUES, requires_grad=True)
    y = function(library, x, number)
    y.backward((torch.tensor if library is torch else rg.tensor)(WEIGHTS))
    return y, x.grad


@pytest.mark.parametrize("number", [1e5, -1e5, 100000, 0.1, 1e-9])
@pytest.mark.parametrize("name", WITH_A_NUMBER)
def test_scalar_arguments_beyond_float16(name: str, number: float) -> None:
    for ours, theirs in zip(
        outcome(rg, WITH_A_NUMBER[name], number), outcome(torch, WITH_A_NUMBER[name], number), strict=True
    ):
        assert_same(ours, theirs, what=name)


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradient_of_a_loss_scale_beyond_float16(create_graph: bool) -> None:
    """In loss scaling, the scale does not fit into float16, but the gradients do."""
    for scale in (2.0**17, 131072):
        x = rg.tensor([0.5, 0.0], dtype=rg.float16, requires_grad=True)
        (g,) = rg.autograd.grad(x * scale, x, rg.tensor([1e-3, 0.0], dtype=rg.float16), create_graph=create_graph)
        assert g.dtype is rg.float16
        np.testing.assert_allclose(g.detach().numpy(), [131.0, 0.0], rtol=2e-3)


@pytest.mark.parametrize("name", ["sigmoid", "silu", "softplus", "tanh", "mish", "logsigmoid", "expm1"])
def test_composite_float16_functions_are_rounded_once(name: str) -> None:
    x = np.linspace(-15, 15, 301).astype(np.float16)
    ours = getattr(rg.nn.functional, name, None) or getattr(rg, name)
    theirs = getattr(torch.nn.functional, name, None) or getattr(torch, name)
    np.testing.assert_array_max_ulp(ours(rg.tensor(x)).numpy(), theirs(torch.tensor(x)).numpy(), maxulp=1)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu", "mish", "hardswish", "softplus", "logsigmoid", "selu"])
def test_derivatives_of_composite_float16_functions_are_rounded_once(name: str) -> None:
    """Backward, with and without a graph, and forward mode give rounded float32 results."""
    x = np.concatenate([np.linspace(-15, 15, 301), [-60000, -1000, -300, 300, 1000, 60000]])

    def f(x: rg.Tensor) -> rg.Tensor:
        function = getattr(rg.nn.functional, name.removesuffix("_tanh"))
        return function(x, approximate="tanh") if name.endswith("tanh") else function(x)

    def slopes(dtype: type) -> list[np.ndarray]:
        half = x.astype(np.float16).astype(dtype)
        leaf, ones = rg.tensor(half, requires_grad=True), rg.ones_like(rg.tensor(half))
        (plain,) = rg.autograd.grad(f(leaf).sum(), leaf)
        (recorded,) = rg.autograd.grad(f(leaf).sum(), leaf, create_graph=True)
        _, tangent = rg.func.jvp(f, (leaf.detach(),), (ones,))
        return [plain.numpy(), recorded.detach().numpy(), tangent.numpy()]

    for ours, exact in zip(slopes(np.float16), slopes(np.float32), strict=True):
        assert ours.dtype == np.float16
        np.testing.assert_array_max_ulp(ours, exact.astype(np.float16), maxulp=1)


@pytest.mark.parametrize(
    "total",
    [
        lambda lib, x, index: lib.zeros(1, dtype=x.dtype).scatter_add(0, index, x),
        lambda lib, x, index: lib.zeros(1, dtype=x.dtype).index_add(0, index, x),
        lambda lib, x, index: lib.zeros(1, dtype=x.dtype).put(index, x, accumulate=True),
        lambda lib, x, index: lib.nn.functional.embedding_bag(
            lib.arange(len(x))[None], x[:, None], mode="sum", padding_idx=None
        )[0],
        lambda lib, x, index: lib.func.grad(lambda w: (w[index] * x).sum())(lib.ones(1, dtype=x.dtype)),
        lambda lib, x, index: lib.func.grad(lambda w: (w.gather(0, index) * x).sum())(lib.ones(1, dtype=x.dtype)),
    ],
)
@pytest.mark.parametrize("values", [[1.0] * 4097, [40000.0, 40000.0, -40000.0]])
def test_float16_sums_at_indices_are_rounded_once(total: Callable[[Any, Any, Any], Any], values: list[float]) -> None:
    """In float16, 2048 + 1 is 2048 and 40000 + 40000 is infinite."""
    x = rg.tensor(values, dtype=rg.float16)
    result = total(rg, x, rg.zeros(len(values), dtype=rg.int64))
    assert result.dtype is rg.float16
    assert result.tolist() == [np.float16(sum(values))]


@parity
def test_renorm_with_norms_beyond_float16(m: Any) -> list[Any]:
    x = m.tensor([[30000.0] * 9, [1.0] * 9], dtype=m.float16, requires_grad=True)
    large = m.tensor([[1e30] * 9, [1.0] * 9], requires_grad=True)
    results = [m.renorm(x, 2, 0, 5.0), m.renorm(large, 1, 0, 5.0)]
    gradients = m.autograd.grad([result[0, :5].sum() for result in results], [x, large])
    return [*results, *[gradient > 0 for gradient in gradients]]


@parity
def test_addcmul_scales_before_it_multiplies(m: Any) -> list[Any]:
    x, zero = m.tensor([1e20, 1e20]), m.zeros(2)
    return [m.addcmul(zero, x, x, value=1e-10), m.addcdiv(zero, x, m.tensor([1e-20, 1e20]), value=1e-10)]


@parity
def test_float16_comparisons_and_dtype_dependent_operations(m: Any) -> list[Any]:
    h = m.tensor([float("inf"), 0.1, 65504.0, 0.0, 1.0], dtype=m.float16)
    other = m.tensor([0.0, 1.0, float("inf"), 1.0, 2.0], dtype=m.float16)
    return [h == 1e5, h == 0.1, h < 1e5, m.nan_to_num(h), m.nextafter(h, other), m.remainder(h[1:], 0.1), h[1:] ** 2.5]


FILLS: dict[str, Callable[[Any, Any, float], Any]] = {
    "fill_": lambda m, x, value: x.fill_(value),
    "masked_fill": lambda m, x, value: x.masked_fill(x > 0, value),
    "masked_fill_": lambda m, x, value: x.masked_fill_(x > 0, value),
    "index_fill": lambda m, x, value: x.index_fill(0, m.tensor([0]), value),
    "scatter": lambda m, x, value: x.scatter(0, m.tensor([0]), value),
}


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("float16", -1e9), ("float32", 1e300), ("uint8", 300), ("uint8", -257), ("int8", -129), ("int64", float("nan"))],
)
@pytest.mark.parametrize("name", [*FILLS, "pad"])
def test_fill_values_beyond_float16_are_refused(name: str, dtype: str, value: float) -> None:
    """In half precision a mask of -1e9 would be -inf, and the softmax of a masked row NaN; torch refuses it, too."""
    fill = FILLS.get(name, lambda m, x, value: m.nn.functional.pad(x, (1, 0), value=value))
    with pytest.raises(RuntimeError, match="without overflow"):
        fill(torch, torch.ones(2, dtype=getattr(torch, dtype)), value)
    with pytest.raises(RuntimeError, match=f"{name.rstrip('_')}_?: value .* cannot be converted to type {dtype}"):
        fill(rg, rg.ones(2, dtype=getattr(rg, dtype)), value)


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize(
    ("dtype", "value"), [("float16", float("-inf")), ("uint8", -1), ("int32", 2.7), ("bool", 3), ("float16", 65504.0)]
)
def test_fill_values_within_float16_are_accepted(name: str, dtype: str, value: float) -> None:
    expected = FILLS[name](torch, torch.ones(2, dtype=getattr(torch, dtype)), value)
    assert_same(FILLS[name](rg, rg.ones(2, dtype=getattr(rg, dtype)), value), expected)
