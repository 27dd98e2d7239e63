"""Reductions beyond the table: what they save, their precision, NumPy's keywords."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def leaf(values: Any = X) -> rg.Tensor:
    return rg.from_numpy(np.array(values)).requires_grad_()


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_linear_reductions_save_nothing(name: str) -> None:
    x = leaf()
    y = getattr(rg, name)(x * 1, 0)
    y.sum().backward(retain_graph=True)
    first = x.grad.tolist()
    y.sum().backward()
    assert x.grad.numpy().tolist() == (2 * np.array(first)).tolist()


@pytest.mark.parametrize("dim", [None, 0, (0, 1)])
def test_gradient_of_a_sum_is_an_expanded_view(dim: Any) -> None:
    """It is expanded without a copy and cannot be written to, as in torch."""
    seen = []
    x = leaf()
    y = x * 1
    y.register_hook(seen.append)
    rg.sum(y, dim).sum().backward()
    (grad,) = seen
    assert 0 in grad.detach().numpy().strides
    with pytest.raises(RuntimeError, match="single memory location"):
        grad.add_(1)


@pytest.mark.parametrize("shape", [(300_000, 3), (1_000, 300), (3, 300_000)])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_sums_are_precise(shape: tuple[int, ...], dim: int | None) -> None:
    values = np.random.default_rng(0).random(shape, np.float32)
    exact = values.astype(np.float64).sum(dim)
    np.testing.assert_allclose(rg.sum(rg.from_numpy(values), dim).numpy(), exact, rtol=1e-5 if dim == 0 else 1e-6)


def test_cumsums_are_precise() -> None:
    values = np.full(1_000_000, 0.1, np.float32)
    exact = np.cumsum(values.astype(np.float64))
    np.testing.assert_allclose(rg.cumsum(rg.from_numpy(values), 0).numpy(), exact, rtol=1e-6)


def test_float16_reductions_do_not_overflow_internally() -> None:
    values = rg.from_numpy(np.full(70_000, 2, np.float16))
    assert values.mean().item() == 2
    assert values.var().item() == 0
    assert (values * 0.01).norm().item() == pytest.approx(0.02 * 70_000**0.5, rel=2e-3)


def test_third_derivatives_of_products_with_zeros() -> None:
    """The derivative of x0 x1 x2 by all three factors is 1, wherever the zeros are."""
    x = leaf(np.array([0.0, 2.0, 0.0]))
    for function in (rg.prod, lambda x: rg.cumprod(x, 0)[-1]):
        (first,) = rg.autograd.grad(function(x), x, create_graph=True)
        (second,) = rg.autograd.grad(first[0], x, create_graph=True)
        (third,) = rg.autograd.grad(second[1], x)
        assert third.tolist() == [0.0, 0.0, 1.0]


@pytest.mark.filterwarnings("ignore:Casting complex:UserWarning")
@parity
def test_prod_with_a_real_dtype_of_complex_numbers_and_sum_of_infinity(lib: Any) -> Any:
    """The converted numbers are multiplied, also in the derivative."""
    found = []
    for values in ([[1 + 2j, 3 - 1j], [-2j, 4 + 1j]], [[1 + 2j, 2j], [3 - 1j, 2 + 1j]]):
        for options in ({}, {"dim": 0}):
            x = lib.tensor(values, requires_grad=True)
            y = lib.prod(x, dtype=lib.float64, **options)
            (first,) = lib.autograd.grad(y.square().sum(), x, create_graph=True)
            found.append([y, first, lib.autograd.grad(first.real.sum(), x)])
    for value in (-math.inf, math.inf, math.nan):
        x = lib.tensor(value, requires_grad=True)
        found.append(lib.autograd.grad(lib.logcumsumexp(x, 0), x))
    return found


@pytest.mark.filterwarnings("ignore:Casting complex:UserWarning")
def test_cumprod_with_a_real_dtype_of_complex_numbers() -> None:
    """torch multiplies the complex numbers in the derivative instead."""
    for values in ([1 + 2j, 3 - 1j, -2j], [1 + 2j, 2j, 3 - 1j]):
        x = rg.tensor(values, requires_grad=True)
        grads = [
            rg.autograd.grad(y.square().sum(), x, create_graph=True)[0]
            for y in (rg.cumprod(x, 0, dtype=rg.float64), rg.cumprod(x.real.double(), 0))
        ]
        assert grads[0].tolist() == grads[1].tolist()
        assert len({tuple(rg.autograd.grad(g.real.sum(), x)[0].tolist()) for g in grads}) == 1


KEYWORDS = [
    *(
        (name, {})
        for name in ["sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "all", "any", "var", "std"]
    ),
    *((name, {}) for name in ["median", "nanmedian", "mode", "logsumexp", "nansum", "nanmean", "aminmax"]),
    ("norm", {"p": 2}),
    ("quantile", {"q": 0.5}),
    ("kthvalue", {"k": 1}),
]


@pytest.mark.parametrize(("name", "more"), KEYWORDS)
def test_numpy_keywords_of_reductions(name: str, more: dict[str, Any]) -> None:
    """``axis`` and ``keepdims`` are understood as ``dim`` and ``keepdim``."""
    x = rg.from_numpy(X)
    got, expected = getattr(x, name)(axis=1, keepdims=True, **more), getattr(x, name)(dim=1, keepdim=True, **more)
    for a, b in zip(*([item] if isinstance(item, rg.Tensor) else item for item in (got, expected)), strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "logcumsumexp", "diff", "sort", "argsort"])
def test_axis_keyword_along_a_dimension(name: str) -> None:
    x = rg.from_numpy(X)
    got, expected = getattr(x, name)(axis=0), getattr(x, name)(dim=0)
    assert str(got) == str(expected)


def test_reductions_return_named_tuples() -> None:
    x = rg.from_numpy(X)
    assert repr(x.max(0)).startswith("retrograd.return_types.max(\nvalues=")
    assert x.sort(0)._fields == x.topk(1)._fields == x.median(0)._fields == ("values", "indices")
    assert rg.aminmax(x).min.item() == 0
    assert rg.histogram(x, 3)._fields == ("hist", "bin_edges")


@pytest.mark.parametrize("dim", [(), []])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", ["all", "any"])
def test_any_and_all_over_no_dimensions_are_elementwise(name: str, keepdim: bool, dim: Any) -> None:
    """Unlike sums, for which no dimensions means all."""
    got, expected = (getattr(lib, name)(lib.from_numpy(X.copy()), dim, keepdim) for lib in (rg, torch))
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool", "float16", "float64"])
def test_nansum_drops_nan_before_it_converts(dtype: str) -> None:
    got, expected = (
        lib.nansum(lib.tensor([[1.5, np.nan], [np.nan, 2.75]]), 0, dtype=getattr(lib, dtype)) for lib in (rg, torch)
    )
    assert got.tolist() == expected.tolist()
    assert got.dtype is getattr(rg, dtype)


@pytest.mark.parametrize("library", [rg, torch])
def test_nanmean_with_an_integer_dtype_is_refused(library: Any) -> None:
    with pytest.raises(RuntimeError, match="floating"):
        library.nanmean(library.tensor([1.0, np.nan]), dtype=library.int64)


@pytest.mark.parametrize("p", [1, 2, 3, 0.5, np.inf, -np.inf, 0])
@pytest.mark.parametrize("dim", [None, 1, (0, 1)])
def test_norm_of_one_number_is_its_absolute_value(p: float, dim: Any) -> None:
    """Its square would overflow or vanish."""
    values = [1e30] if dim is None else [[1e30]] if dim != 1 else [[1e30], [1e-30], [-1e-30], [0.0]]
    got, expected = (lib.linalg.vector_norm(lib.tensor(values), p, dim) for lib in (rg, torch))
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "function",
    [
        lambda lib, x: lib.abs(x),
        lambda lib, x: lib.linalg.vector_norm(x, 1),
        lambda lib, x: lib.linalg.vector_norm(x, np.inf),
        lambda lib, x: lib.nn.functional.l1_loss(x, lib.zeros(4)),
    ],
)
def test_absolute_values_have_zero_slope_at_nan(function: Any) -> None:
    """As in torch, where the sign of NaN is 0; the second derivative is 0, too."""
    found = []
    for lib in (rg, torch):
        x = lib.tensor([np.nan, 1.0, -2.0, 0.0], requires_grad=True)
        (slope,) = lib.autograd.grad(function(lib, x).sum(), x, create_graph=True)
        (curvature,) = lib.autograd.grad(slope.sum(), x)
        found.append([slope.tolist(), (curvature + 0).tolist()])
    assert found[0] == found[1]


@pytest.mark.parametrize("shape", [(2, 0), (0, 2), (0,), (0, 0)])
@pytest.mark.parametrize("p", [0, 1, 2, 3, -1, -2, np.inf, -np.inf])
@pytest.mark.parametrize("dim", [None, 0, -1])
def test_norms_of_empty_tensors(shape: tuple[int, ...], p: float, dim: int | None) -> None:
    @parity
    def compare(lib: Any) -> Any:
        x = lib.zeros(shape)
        return [attempt(lambda: lib.norm(x, p, dim)), attempt(lambda: lib.linalg.vector_norm(x, p, dim))]

    compare()


@pytest.mark.parametrize("shape", [(40, 30, 7), (3, 2, 40, 2, 10), (40, 1, 40), (2, 2100, 3), (0, 500, 4), (9, 99, 49)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions_over_a_middle_dimension_with_narrow_blocks(shape: tuple[int, ...], keepdim: bool) -> None:
    """Blocks of a dimension in the middle are reduced side by side."""
    dim = len(shape) // 2
    x = np.random.default_rng(0).normal(1, 0.1, shape).astype(np.float32)
    for name in ("sum", "prod", "amax", "any"):
        ours = getattr(rg, name)(rg.from_numpy(x), dim, keepdim)
        theirs = getattr(torch, name)(torch.from_numpy(x), dim, keepdim)
        assert ours.stride() == theirs.stride()
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=3e-5)


def test_histogram_edges_must_increase() -> None:
    bins = rg.tensor([1.0, 3.0, 2.5, 4.0])
    with pytest.raises(RuntimeError, match=r"must increase, but edge 1 is 3 and edge 2 is 2\.5; sort them"):
        rg.histogram(rg.ones(3), bins)
    assert rg.histogram(rg.ones(3), bins.sort().values).hist.tolist() == [3, 0, 0]


@pytest.mark.parametrize(
    ("shape", "dim"),
    [((20000, 200), 0), ((3, 20000, 50), 1), ((40, 500, 150), (0, 1)), ((20000, 4, 8, 4), (0, 2, 3)), ((20000, 3), 0)],
    ids=str,
)
@pytest.mark.parametrize("turned", [False, True])
def test_long_sums_in_single_precision_are_precise(shape: tuple[int, ...], dim: Any, turned: bool) -> None:
    """Added row by row, a mean of tens of thousands of equal numbers is wrong in the fourth digit."""
    x = rg.full(shape, 0.1)
    if turned:
        x = x.T
        dim = tuple(-1 - k for k in ((dim,) if isinstance(dim, int) else dim))
    for mean in (x.mean(dim), x.mean(dim, keepdim=True), (x + 0j).mean(dim).real):
        assert (mean - 0.1).abs().max() < 1e-6
    if isinstance(dim, int):
        assert (rg.stack([x, x], -1)[..., 1].mean(dim) - 0.1).abs().max() < 1e-6
    assert (x.var(dim) < 1e-12).all()
    bias = rg.zeros(x.mean(dim, keepdim=True).shape, requires_grad=True)
    (bias + x).backward(x)
    assert (bias.grad - x.double().sum(dim, keepdim=True)).abs().max() < 1e-5 * x.numel() / bias.numel()


LAYOUTS: dict[str, Any] = {
    "channels last": lambda x: x.reshape(-1, 100, 100, 4).permute(0, 3, 1, 2),
    "samples last": lambda x: x.reshape(4, 100, 100, -1).permute(3, 0, 1, 2),
    "every other one": lambda x: x.reshape(-1, 4, 100, 100)[:, ::2],
    "every other place": lambda x: x.reshape(-1, 4, 100, 100)[..., ::2],
    "without a border": lambda x: x.reshape(-1, 100, 100, 4).permute(0, 3, 1, 2)[:, :, 1:, 1:],
    "expanded": lambda x: x[:100].reshape(1, 1, 1, 100).expand(40, 4, 100, 100),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_over_any_dimensions_of_any_layout_are_precise(layout: str) -> None:
    x = LAYOUTS[layout](rg.full((1_600_000,), 0.1))
    for dim in ((0, 2, 3), (1, 2), (0, 1, 3), (0, 3)):
        for mean in (x.mean(dim), x.mean(dim, keepdim=True).squeeze(dim)):
            assert mean.shape == tuple(n for k, n in enumerate(x.shape) if k not in dim)
            assert (mean - 0.1).abs().max() < 1e-6
    mean, var = rg.zeros(x.shape[1]), rg.ones(x.shape[1])
    weight, bias = rg.ones(x.shape[1], requires_grad=True), rg.zeros(x.shape[1], requires_grad=True)
    rg.nn.functional.batch_norm(x, mean, var, weight, bias, training=True, momentum=1.0).backward(x)
    assert (mean - 0.1).abs().max() < 1e-6 and var.max() < 1e-12
    assert (bias.grad / (x.numel() / x.shape[1]) - 0.1).abs().max() < 1e-6


@pytest.mark.parametrize("name", ["BatchNorm1d", "GroupNorm", "Conv1d"])
def test_gradients_of_biases_are_precise_for_many_samples(name: str) -> None:
    layers = {"BatchNorm1d": (4,), "GroupNorm": (2, 4), "Conv1d": (4, 4, 1)}
    layer = getattr(rg.nn, name)(*layers[name])
    x = rg.full((200_000, 4, *((1,) if name == "Conv1d" else ())), 0.1)
    y = layer(x)
    y.backward(rg.full_like(y, 0.1))
    assert (layer.bias.grad / 20_000 - 1).abs().max() < 1e-5


def test_gradients_of_recurrent_biases_are_precise_for_many_samples() -> None:
    single = rg.nn.LSTM(2, 2)
    double = copy.deepcopy(single).double()
    for layer in (single, double):
        x = rg.full((1, 40_000, 2), 0.1, dtype=layer.bias_ih_l0.dtype)
        layer(x)[0].sum().backward()
    rg.testing.assert_close(single.bias_ih_l0.grad.double(), double.bias_ih_l0.grad, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.parametrize("name", ["var", "std"])
def test_std_of_numbers_far_from_0(name: str, dim: int | None) -> None:
    """The mean cannot be represented as exactly as the deviations require."""
    x = np.random.default_rng(0).normal(-3e5, 1.0, (50, 20)).astype(np.float32)
    spread = getattr(rg.tensor(x), name)(dim)
    np.testing.assert_allclose(spread.numpy(), getattr(np, name)(x.astype(float), axis=dim, ddof=1), rtol=1e-6)
    assert getattr(rg.full((50, 20), 0.1), name)(dim).abs().max() < 1e-8


def test_renorm_passes_gradients_of_slices_it_leaves_alone() -> None:
    """Including a slice whose norm is NaN, which is not above the maximum."""

    def gradient(library: Any) -> Any:
        x = library.tensor([[3.0, 4.0, np.nan], [3.0, 4.0, 0.0], [0.3, 0.4, 0.0]], requires_grad=True)
        (x.renorm(2, 0, 1.0) * library.arange(9.0).reshape(3, 3)).sum().backward()
        return x.grad

    np.testing.assert_allclose(gradient(rg).numpy(), gradient(torch).numpy(), rtol=1e-5, atol=1e-7)


def test_trapezoid_of_large_and_infinite_ends() -> None:
    inf = float("inf")
    assert rg.trapezoid(rg.tensor([1.0, 2.0, inf])).item() == inf
    assert rg.trapezoid(rg.tensor([-inf, 2.0, 1.0]), dx=0.5).item() == -inf
    assert rg.trapezoid(rg.tensor([1.0, inf]), rg.tensor([1.0, 4.0])).item() == inf
    assert rg.trapezoid(rg.tensor([3e38, 1.0, -3e38])).item() == 1
