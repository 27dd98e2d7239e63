"""Fast paths for large arrays or for certain arguments."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.anomaly import AnomalyError
from retrograd.core import reductions
from retrograd.ops import special
from retrograd.ops._erf import erf_by_blocks
from retrograd.ops._zeta import zeta_of_order
from retrograd.ops.cumulative import _LONG
from tests.ops.harness import assert_same

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-30, 3.9, -3.95, 1e30], np.float32)


def test_error_function_in_float32() -> None:
    x = np.concatenate([np.linspace(-5, 5, 3 * special._LARGE).astype(np.float32), SPECIAL])
    exact = torch.erf(torch.from_numpy(x.astype(np.float64))).numpy()
    ours = rg.erf(rg.from_numpy(x)).numpy()
    np.testing.assert_array_max_ulp(ours, exact.astype(np.float32), maxulp=1)
    assert np.array_equal(np.signbit(ours), np.signbit(exact))
    strided = rg.erf(rg.from_numpy(np.stack([x, x], 1))[:, 0]).numpy()
    np.testing.assert_array_equal(strided, erf_by_blocks(x))


def test_error_function_in_float64() -> None:
    x = np.concatenate([np.linspace(-7, 7, 3 * special._LARGE), np.logspace(-300, 0, 500), SPECIAL])
    exact = np.array([math.erf(each) for each in x])
    ours = rg.erf(rg.from_numpy(x)).numpy()
    np.testing.assert_array_max_ulp(ours, exact, maxulp=4)
    assert np.array_equal(np.signbit(ours), np.signbit(exact))


@pytest.mark.parametrize("exponent", [-7, -3, -2.0, -1, 0, 0.5, 1, 2, 3, 3.0, 4, 5, 8.0, 2.5, 1e10, float("inf")])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_powers_of_negative_numbers(exponent: float, dtype: str) -> None:
    x = np.array([-3.0, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 2.0, np.inf, -np.inf, np.nan, 1e-20, -1e20], dtype)
    ours, theirs = rg.from_numpy(x).requires_grad_(), torch.from_numpy(x.copy()).requires_grad_()
    assert_same(ours**exponent, theirs**exponent, what=f"x ** {exponent}")
    (ours**exponent).sum().backward()
    (theirs**exponent).sum().backward()
    assert_same(ours.grad, theirs.grad, what=f"gradient of x ** {exponent}")


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int32"])
@pytest.mark.parametrize(("shape", "dim"), [((5, _LONG + 3), 0), ((3, 4, _LONG), 1), ((2, 3, 32, 32), 1)])
def test_cumulative_operations_on_long_slices(name: str, dtype: str, shape: tuple[int, ...], dim: int) -> None:
    x = (np.random.default_rng(0).normal(size=shape) * 3).astype(dtype)
    before = x.copy()
    ours, theirs = getattr(rg, name)(rg.from_numpy(x), dim), getattr(torch, name)(torch.from_numpy(x), dim)
    assert_same(ours, theirs, 10)
    np.testing.assert_array_equal(x, before)
    transposed = getattr(rg, name)(rg.from_numpy(np.moveaxis(x, dim, -1)), -1)
    assert_same(transposed, theirs.movedim(dim, -1), 10)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int32"])
@pytest.mark.parametrize("shape", [(300, 5), (1100, 17), (530, 128), (2, 3, 4000), (1, 1 << 18)])
def test_running_results_of_rows_of_all_lengths(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).uniform(0.5, 1.4, size=shape)
    x = ((x * 3) if dtype == "int32" else x).astype(dtype)
    ours, theirs = (getattr(library, name)(library.from_numpy(x), -1) for library in (rg, torch))
    assert_same(ours, theirs, 10)


@pytest.mark.parametrize("length", [100, 2000])
@pytest.mark.parametrize(
    ("name", "start", "then"),
    [
        ("cumprod", 1e-300, [1e200, 1e200]),
        ("cumprod", 0.0, [1e200, 1e200]),
        ("cumprod", 1e300, [1e-200, 1e-200]),
        ("cumprod", 1e300, [1e10, 1e-20]),
        ("cumsum", -1e308, [1e308, 1e308]),
        ("cumsum", np.inf, [1e308, 1e308]),
    ],
)
def test_running_results_of_long_rows_overflow_as_those_of_short_ones(
    name: str, start: float, then: list[float], length: int
) -> None:
    x = np.full((500, length), float(name == "cumprod"))
    x[:, 0], x[:, 8:10] = start, then
    with rg.anomaly.watch(policy="record") as w:
        ours = getattr(rg, name)(rg.tensor(x, requires_grad=True), 1)
    assert_same(ours.detach(), getattr(torch, name)(torch.from_numpy(x), 1))
    assert not w.events


def test_unique_of_large_arrays() -> None:
    for x in (np.array([3, 1, 3, 2, 1]), np.array([np.nan, 1.0, np.nan, 1.0]), np.empty(0), np.array(5.0)):
        assert_same(rg.unique(rg.from_numpy(x)), torch.unique(torch.from_numpy(x)))


NUMBERS = np.array(
    [-np.inf, -3e38, -2.5, -1.0, -1e-30, -0.0, 0.0, 1e-30, 0.5, 1.0, 3.0, 3e38, np.inf, np.nan], np.float32
)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "function",
    [
        lambda m, x, y: m.logaddexp(x, y),
        lambda m, x, y: m.logaddexp2(x, y),
        lambda m, x, y: m.remainder(x, 2.5),
        lambda m, x, y: m.remainder(x, -2.5),
        lambda m, x, y: m.lerp(x, y, y),
        lambda m, x, y: m.nn.functional.prelu(x, y[0]),
        lambda m, x, y: m.nn.functional.prelu(x, m.as_tensor([0.25, -0.5] * 7).to(x.dtype)),
        lambda m, x, y: m.nn.functional.prelu(x, m.as_tensor([0.0, 3.0] * 7).to(x.dtype)),
        lambda m, x, y: m.nn.functional.leaky_relu(x, 0.25),
        lambda m, x, y: m.nn.functional.leaky_relu(x, -0.25),
        lambda m, x, y: m.nn.functional.leaky_relu(x, 0.0),
        lambda m, x, y: m.nn.functional.leaky_relu(x, 2.0),
        lambda m, x, y: m.nn.functional.threshold(x, 0.5, 7.0),
        lambda m, x, y: m.nn.functional.threshold(x, 0.5, 0.0),
        lambda m, x, y: m.angle(x),
        lambda m, x, y: m.nan_to_num(x),
        lambda m, x, y: m.nansum(m.clamp(x, -10, 10), 0),
        lambda m, x, y: m.nanmean(m.clamp(x, -10, 10), 0),
    ],
)
def test_large_arrays_with_all_kinds_of_numbers(function: Any, dtype: str) -> None:
    with np.errstate(over="ignore"):
        numbers = NUMBERS.astype(dtype)
    x, y = (np.tile(part.reshape(-1), 60).reshape(-1, 14) for part in np.meshgrid(numbers, numbers))
    ours = [rg.from_numpy(part.copy()).requires_grad_() for part in (x, y)]
    theirs = [torch.from_numpy(part.copy()).requires_grad_() for part in (x, y)]
    results = function(rg, *ours), function(torch, *theirs)
    assert_same(*results, what="result")
    for result in results:
        result.sum().backward()
    for name, mine, other in zip(("x", "y"), ours, theirs, strict=True):
        assert (mine.grad is None) == (other.grad is None)
        if mine.grad is not None:
            assert_same(mine.grad, other.grad, what=f"gradient of {name}")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((5000,), None), ((5000,), 0), ((3, 1, 2055), -1), ((2, 16401), 1), ((60, 70), None), ((4, 1024), 1)],
)
def test_prod_of_long_rows(shape: tuple[int, ...], dim: int | None, dtype: str) -> None:
    x = np.random.default_rng(0).normal(1, 0.02, shape) if dtype.startswith("f") else np.ones(shape)
    x[..., [1, 17, -1]] = 3
    ours, theirs = rg.from_numpy(x.astype(dtype)), torch.from_numpy(x.astype(dtype))
    for keepdim in (False, True) if dim is not None else (False,):
        arguments = {} if dim is None else {"dim": dim, "keepdim": keepdim}
        assert_same(rg.prod(ours, **arguments), torch.prod(theirs, **arguments), 10)
    if dtype == "float32":
        arguments = {} if dim is None else {"dim": dim}
        assert_same(
            rg.prod(ours, dtype=rg.float64, **arguments), torch.prod(theirs, dtype=torch.float64, **arguments), 10
        )


@pytest.mark.parametrize(
    "values", [[1e30, 1e-30], [1e-30, 1e30], [1e30, 1e30], [1e-30, 1e-30], [1.0, 0.0], [np.inf, 1.0]]
)
def test_prod_of_long_rows_overflows_as_that_of_short_ones(values: list[float]) -> None:
    x = np.tile(np.float32(values), 2048)
    with rg.anomaly.watch(policy="record") as w:
        product = rg.tensor(x, requires_grad=True).prod()
    with np.errstate(all="ignore"):
        assert product.item() == np.multiply.reduce(x)
    assert not w.events
    assert rg.prod(rg.zeros(0, 2048), 1).shape == (0,)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("value", "length"), [(0.9, 20000), (-0.9, 20001), (0.6, 1 << 20), (1e-4, 20000), (0, 20000)])
def test_prod_of_long_rows_that_underflows(dtype: str, value: float, length: int) -> None:
    x = np.full((2, length), value, dtype)
    x[:, 5] = 1
    ours, theirs = rg.from_numpy(x), torch.from_numpy(x)
    for dim in (None, 1):
        arguments = {} if dim is None else {"dim": dim}
        product = rg.prod(ours, **arguments)
        assert_same(product, torch.prod(theirs, **arguments))
        assert_same(rg.signbit(product), torch.signbit(torch.prod(theirs, **arguments)))
    x[0, 7] = 2  # an element beyond 1 in one row, or NaN
    assert (rg.from_numpy(x).prod(1).abs() <= 1e-40).all()
    x[0, 7] = np.nan
    assert rg.from_numpy(x).prod(1).isnan().tolist() == [True, False]


def test_hardshrink_keeps_values_outside_the_bounds() -> None:
    x = np.append(NUMBERS, np.float32(-0.5))
    theirs = torch.nn.functional.hardshrink(torch.from_numpy(x), 0.5)
    assert_same(rg.nn.functional.hardshrink(rg.from_numpy(x), 0.5), theirs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_where_copies_bit_patterns(dtype: str) -> None:
    x, y = (np.tile(part.reshape(-1), 200) for part in np.meshgrid(*[NUMBERS.astype(dtype)] * 2))
    condition = np.random.default_rng(0).random(x.shape) < 0.5
    result = rg.where(*map(rg.from_numpy, (condition, x, y))).numpy()
    np.testing.assert_array_equal(result.view(np.uint8), np.where(condition, x, y).view(np.uint8))


def test_logaddexp_of_large_float32_arrays_is_exact() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 5000)).astype(np.float32) * 30
    exact = np.logaddexp(x.astype(np.float64), y.astype(np.float64))
    np.testing.assert_allclose(rg.logaddexp(rg.from_numpy(x), rg.from_numpy(y)).numpy(), exact, rtol=3e-7, atol=3e-7)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_logaddexp_of_large_float64_arrays_agrees_with_numpy(name: str) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 5000)) * 30
    expected = getattr(np, name)(x, y)
    found = getattr(rg, name)(rg.from_numpy(x), rg.from_numpy(y)).numpy()
    np.testing.assert_allclose(found, expected, rtol=4e-16, atol=4e-16)


def test_multilabel_margin_loss_needs_memory_only_for_actual_targets() -> None:
    target = np.full((64, 2000), -1)
    target[:, :3] = np.random.default_rng(0).integers(0, 2000, (64, 3))
    x, classes = rg.randn(64, 2000, requires_grad=True), rg.from_numpy(target)
    tracemalloc.start()
    try:
        rg.nn.functional.multilabel_margin_loss(x, classes).backward()
        assert tracemalloc.get_traced_memory()[1] < 50e6  # all pairs of classes would have 256e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_remainders_of_large_arrays_agree_with_numpy(dtype: str) -> None:
    with np.errstate(over="ignore"):
        x, y = (np.tile(part.reshape(-1), 60) for part in np.meshgrid(*[NUMBERS.astype(dtype)] * 2))
    with np.errstate(invalid="ignore"):
        expected = np.remainder(x, y)
    np.testing.assert_array_equal(rg.remainder(rg.from_numpy(x), rg.from_numpy(y)).numpy(), expected)


ARGUMENTS = np.concatenate(
    [np.logspace(-30, 18, 6000), np.linspace(-5, 25, 6001), [0.0, -0.0, np.inf, -np.inf, np.nan, -3.0, -1e3 - 0.5]]
)


@pytest.mark.parametrize("order", range(2, 11))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_zeta_of_large_arrays(order: int, dtype: str) -> None:
    special_functions = pytest.importorskip("scipy.special")
    x = ARGUMENTS.astype(dtype)
    with np.errstate(all="ignore"):
        expected = special_functions.zeta(order, x.astype(np.float64)).astype(dtype)
        result = zeta_of_order(order, x.reshape(-1, 1)[:, 0])
    np.testing.assert_allclose(result, expected, rtol=1e-14 if dtype == "float64" else 1e-7)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_derivatives_of_digamma_of_large_arrays(n: int) -> None:
    pytest.importorskip("scipy")
    x = ARGUMENTS[np.abs(ARGUMENTS - 12.5) < 12]
    ours, theirs = rg.from_numpy(x).requires_grad_(), torch.from_numpy(x).requires_grad_()
    assert_same(rg.polygamma(n, ours), torch.polygamma(n, theirs), 10)
    (first,) = rg.autograd.grad(rg.digamma(ours).sum(), ours, create_graph=True)
    assert_same(first, torch.polygamma(1, theirs), 10)
    (second,) = rg.autograd.grad(first.sum(), ours)
    assert_same(second, torch.polygamma(2, theirs.detach()), 10)


@pytest.mark.parametrize("length", [16, 17, 49, reductions.LONGEST, reductions.LONGEST + 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_over_the_last_dimensions(length: int, dtype: str) -> None:
    x = np.random.default_rng(0).normal(size=(70, 2, length)).astype(dtype)
    x[1, 0, 3], x[2, 1, 4], x[3, 1, 5:7] = np.inf, np.nan, (np.inf, -np.inf)
    ours, theirs = rg.from_numpy(x), torch.from_numpy(x)
    for dim in (-1, 2, (1, 2), (2, 1), (0, 1, 2), (0, 2)):
        for keepdim in (False, True):
            assert_same(ours.sum(dim, keepdim), theirs.sum(dim, keepdim), 10, what=f"over {dim}")
    assert_same(ours.amax((1, 2)), theirs.amax((1, 2)))


@pytest.mark.parametrize("length", [16, 17, 64, reductions.LONG, reductions.LONG + 1])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "bool"])
def test_extremes_of_the_last_dimensions(length: int, dtype: str) -> None:
    x = (np.random.default_rng(0).normal(size=(70, 2, length)) * 5).astype(dtype)
    if x.dtype.kind == "f":
        x[1, 0, 3], x[2, 1, 4], x[3, 1, 5:7], x[4] = np.inf, np.nan, (np.inf, -np.inf), -np.inf
    ours, theirs = rg.from_numpy(x), torch.from_numpy(x)
    for name in ("amax", "amin", "all", "any"):
        for dim in (-1, (1, 2), (0, 1, 2)):
            for keepdim in (False, True):
                one, other = (getattr(each, name)(dim, keepdim) for each in (ours, theirs))
                assert_same(one, other, what=f"{name} over {dim}")
    assert_same(ours.sum(-1, dtype=rg.int64), theirs.sum(-1, dtype=torch.int64))
    if x.dtype.kind == "f":
        assert_same(ours.softmax(-1), theirs.softmax(-1), 10)


def test_overflow_of_products_of_rows_is_heard_once() -> None:
    with rg.anomaly.watch(policy="record") as w:
        rg.full((200, 20), 1e30, requires_grad=True).prod(1).mean().backward()
    assert [event.op for event in w.events] == ["prod"]


def test_row_sums_are_precise_and_report_overflow() -> None:
    x = np.random.default_rng(0).uniform(1, 2, size=(4, reductions.LONGEST)).astype(np.float32)
    np.testing.assert_allclose(rg.from_numpy(x).sum(1).numpy(), x.astype(np.float64).sum(1), rtol=3e-7)
    with rg.anomaly.watch(), pytest.raises(AnomalyError, match="Inf born in sum at"):
        rg.full((40, 100), 3e38, requires_grad=True).sum(1).mean().backward()


@pytest.mark.parametrize("size", [reductions._WHOLE - 1, reductions._WHOLE, 200_001])
def test_sums_of_all_are_precise_and_their_anomalies_are_heard(size: int) -> None:
    x = np.random.default_rng(0).uniform(1, 2, size=size).astype(np.float32)
    assert rg.from_numpy(x).sum().item() == pytest.approx(x.sum(dtype=np.float64), rel=3e-7)
    for value, name in ((np.inf, "inf"), (np.nan, "nan")):
        x[size // 2] = value
        assert str(rg.from_numpy(x).sum().item()) == name
        assert rg.from_numpy(x[None]).sum(keepdim=True, dim=None).shape == (1, 1)
    with rg.anomaly.watch(), pytest.raises(AnomalyError, match="Inf born in sum at"):
        rg.full((size,), 3e38, requires_grad=True).sum().backward()


@pytest.mark.parametrize("length", [100, reductions.LONGEST + 1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_gradients_of_softmax_over_short_and_long_rows(name: str, length: int) -> None:
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(50, length)), rng.normal(size=(50, length))
    found = []
    for library in (rg, torch):
        leaf = library.from_numpy(x).requires_grad_()
        result = getattr(library, name)(leaf, -1)
        found += [library.autograd.grad(result, leaf, library.from_numpy(g), retain_graph=True)[0]]
        found += [library.autograd.grad(result.sum(), leaf)[0]]
    for ours, theirs in zip(found[:2], found[2:], strict=True):
        assert_same(ours, theirs, 10)
