"""Convolution, pooling and interpolation: refusals, edge cases, mathematical properties, work in blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as rg
from retrograd.core import blocks
from retrograd.ops import _convolve
from tests.parity import attempt, message, parity

F = rg.nn.functional

IMAGES = "x = lib.ones(1, 3, 5, 5); w = lib.ones(4, 3, 3, 3); i = lib.ones(1, 3, 5, 5, dtype=lib.int64)"

# Calls that torch refuses.
REFUSED = """
conv2d(x[:, :2], w)
conv2d(x[0, 0], w)
conv2d(x, w[:, :, 0])
conv2d(x[:, :, :2, :2], w)
conv2d(x[:, :, :0], w, padding=2)
conv2d(x, w, stride=0)
conv2d(x, w, stride=1.5)
conv2d(x, w, stride=(1, 2, 3))
conv2d(x, w, padding=-1)
conv2d(x, w, padding="full")
conv2d(x, w, padding="same", stride=2)
conv2d(x, w, dilation=0)
conv2d(x, w, groups=0)
conv2d(x, w, groups=3)
conv2d(x, w, groups=8)
conv2d(x, w, lib.ones(3))
conv2d(x, w, lib.ones(4, 1))
conv2d(x.double(), w)
conv2d(x, w, lib.ones(4).double())
conv2d(x > 0, w > 0)
conv2d(x, 3)
conv2d([[1.0]], w)
conv_transpose2d(x, w)
conv_transpose2d(x, w[:3], output_padding=1)
conv_transpose2d(x, w[:3], output_padding=-1)
conv_transpose2d(x, w[:3], padding=9)
conv_transpose2d(x, w[:3], groups=2)
conv_transpose2d(x, w[:3], lib.ones(4))
max_pool2d(x, 6)
max_pool2d(x, 2, padding=2)
max_pool2d(x, 0)
max_pool2d(x, 2, stride=0)
max_pool2d(x, (2, 2, 2))
max_pool2d(x, 2, dilation=0)
max_pool2d(x[0, 0], 2)
max_pool2d(x[:, :0], 2)
max_pool2d(x > 0, 2)
max_pool1d(x, 2)
avg_pool2d(x, 9)
avg_pool2d(x, 2, padding=2)
avg_pool2d(x, 2, divisor_override=0)
avg_pool2d(x + 1j, 2)
adaptive_avg_pool2d(x, (2, 2, 2))
adaptive_avg_pool2d(x, -1)
adaptive_avg_pool2d(x[0, 0], 2)
adaptive_avg_pool2d(i, 2)
adaptive_avg_pool2d(x[:, :, :0], 2)
adaptive_max_pool2d(x, -1)
adaptive_max_pool2d(i, 2)
max_unpool2d(x, 200 * i, 2)
max_unpool2d(x, i.int(), 2)
max_unpool2d(x, i[0], 2)
max_unpool2d(x, i, 2, output_size=(3, 3))
max_unpool2d(x, i, 2, output_size=(3, 3, 3))
max_unpool2d(x, i, 1, stride=5, padding=(0, 11))
max_unpool2d(x[..., :1, :1], i[..., :1, :1], 1, stride=5, output_size=(1, -1))
unfold(x, 9)
unfold(x, 0)
unfold(x, 2, stride=0)
unfold(x, 2, padding=-1)
unfold(x, (2, 2, 2))
unfold(i, 2)
fold(lib.ones(1, 12, 15), (5, 5), 2)
fold(lib.ones(1, 13, 16), (5, 5), 2)
fold(lib.ones(1, 1, 13, 16), (5, 5), 2)
pixel_shuffle(lib.ones(1, 7, 2, 2), 2)
pixel_shuffle(lib.ones(7, 2), 2)
pixel_shuffle(lib.ones(8, 2, 2), 0)
pixel_unshuffle(lib.ones(8, 3, 2), 2)
channel_shuffle(lib.ones(1, 8, 3), 3)
channel_shuffle(lib.ones(8, 3), 2)
channel_shuffle(lib.ones(1, 8, 3), 0)
interpolate(x)
interpolate(x, 8, 2)
interpolate(x, (1, 2, 3))
interpolate(x, scale_factor=(1, 2, 3))
interpolate(x, 8, mode="linear")
interpolate(x[0], 8, mode="bilinear")
interpolate(x, 8, mode="quintic")
interpolate(x, 8, align_corners=True)
interpolate(x, 0)
interpolate(x, scale_factor=0.1)
interpolate(x, scale_factor=float("nan"))
interpolate(x, scale_factor=float("inf"), mode="bilinear")
interpolate(x[0, 0], 8)
interpolate(i, 8)
interpolate(i, 8, mode="bilinear")
interpolate(i[0].byte(), 8, mode="linear")
interpolate(x[:, :0], 8)
interpolate(x, 8, antialias=True)
interpolate(x, 8, recompute_scale_factor=True)
interpolate(x, 8, mode="lanczos")
""".strip().splitlines()


def evaluate(library: Any, call: str) -> Any:
    names: dict[str, Any] = {"lib": library}
    exec(IMAGES, names)
    return eval(f"lib.nn.functional.{call}", names)


@pytest.mark.parametrize("call", REFUSED)
def test_wrong_calls_are_refused_as_in_torch(call: str) -> None:
    expected = attempt(lambda: evaluate(torch, call))
    assert isinstance(expected, str), "torch does not refuse this"
    assert attempt(lambda: evaluate(rg, call)) == expected


@pytest.mark.parametrize(
    ("call", "numbers"),
    [
        ("conv2d(x[:, :2], w)", ["groups=1", "[4, 3, 3, 3]", "[1, 2, 5, 5]", "3 channels", "2 channels"]),
        ("conv2d(x[:, :, :2, :2], w)", ["(2 x 2)", "(3 x 3)"]),
        ("conv2d(x, w, lib.ones(3))", ["[4, 3, 3, 3]", "4 elements", "[3]"]),
        ("conv_transpose2d(x, w)", ["transposed=1", "[4, 3, 3, 3]", "4 channels", "3 channels"]),
        ("max_pool2d(x, 6)", ["(3x5x5)", "(3x0x0)"]),
        ("max_pool2d(x, 2, padding=2)", ["pad=2", "kernel_size=2", "dilation=1"]),
        ("max_unpool2d(x, 200 * i, 2)", ["200", "10x10"]),
    ],
)
def test_errors_name_the_same_numbers_as_torch(call: str, numbers: list[str]) -> None:
    for library in (torch, rg):
        text = message(lambda: evaluate(library, call))  # noqa: B023
        assert [number for number in numbers if number not in text] == []


def test_error_of_a_convolution_names_the_layer() -> None:
    text = message(lambda: rg.nn.Conv2d(3, 4, 3)(rg.ones(1, 2, 5, 5)))
    assert "Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1))" in text
    assert "[1, 2, 5, 5]" in text


@parity
def test_nodes_of_convolution_and_pooling_have_torchs_names(lib: Any) -> Any:
    f = lib.nn.functional
    x, w = lib.ones(1, 2, 4, 4, requires_grad=True), lib.ones(2, 2, 2, 2, requires_grad=True)
    results = [
        f.conv2d(x, w),
        f.conv_transpose2d(x, w),
        f.max_pool2d(x, 2),
        f.max_pool3d(x, 2),
        f.avg_pool2d(x, 2),
        f.adaptive_avg_pool2d(x, 3),
        f.adaptive_max_pool2d(x, 2),
    ]
    return [result.grad_fn.name() for result in results]


@parity
def test_convolution_computes_only_required_gradients(lib: Any) -> Any:
    x, w = lib.ones(1, 2, 4, 4), lib.ones(3, 2, 2, 2, requires_grad=True)
    bias = lib.ones(3, requires_grad=True)
    lib.nn.functional.conv2d(x, w, bias).sum().backward()
    return x.grad, w.grad, bias.grad


@parity
def test_pooling_of_ties_infinities_and_nan(lib: Any) -> Any:
    inf, nan = math.inf, math.nan
    found = []
    for values in ([1.0, 1.0, 1.0, 1.0], [-inf] * 4, [1.0, nan, 2.0, inf], [nan, 3.0, nan, 1.0]):
        x = lib.tensor(values).reshape(1, 2, 2).requires_grad_()
        for options in ({"kernel_size": 2}, {"kernel_size": 2, "stride": 1, "padding": 1}):
            largest, indices = lib.nn.functional.max_pool2d(x, **options, return_indices=True)
            (grad,) = lib.autograd.grad(largest.nan_to_num(0, 0, 0).sum() + largest.sum(), x)
            found.append([largest.isnan(), largest.nan_to_num(7.0, 8.0, -8.0), indices, grad])
    return found


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
@pytest.mark.parametrize(
    ("n", "options"),
    [
        (1, {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 2}),
        (2, {"kernel_size": (2, 3), "stride": (2, 1), "padding": (1, 0), "ceil_mode": True}),
        (3, {"kernel_size": 2, "dilation": (2, 1, 2), "stride": 1, "padding": 1}),
    ],
)
def test_max_pooling_of_few_and_of_many_windows(n: int, options: dict[str, Any], dtype: str) -> None:
    """With few windows, their elements are gathered at once; with many, they are visited one after another."""
    for images in (2, 40000 >> 2 * n):
        values = np.random.default_rng(n).integers(-9, 9, (images, 2, *(9, 8, 7)[:n]))  # many are equal
        found = []
        for library in (rg, torch):
            x = library.tensor(values, dtype=getattr(library, dtype))
            found.append(getattr(library.nn.functional, f"max_pool{n}d")(x, **options, return_indices=True))
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), strict=True)


@parity
def test_max_pooling_of_several_nan(lib: Any) -> Any:
    """The last NaN in a window is the maximum and gets the gradient, even if the window covers everything."""
    found = []
    for n in (1, 2, 3):
        x = lib.arange(2.0 * 5**n).reshape(2, *(5,) * n)
        x = x.where(x % 3 > 0, math.nan).requires_grad_()
        for name, options in (
            ("adaptive_max_pool", {"output_size": 2}),
            ("adaptive_max_pool", {"output_size": 7}),
            ("max_pool", {"kernel_size": 3, "padding": 1}),
            ("max_pool", {"kernel_size": 9, "padding": 2}),
            ("max_pool", {"kernel_size": 7, "padding": 0, "stride": 6, "ceil_mode": True}),
        ):
            largest, indices = getattr(lib.nn.functional, f"{name}{n}d")(x, **options, return_indices=True)
            (grad,) = lib.autograd.grad(largest.sum(), x)
            found.append([largest.isnan(), indices, grad])
    return found


def test_max_pooling_of_nan_in_many_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with few windows, whose elements are gathered."""
    monkeypatch.setattr("retrograd.ops.pool._FEW", 0)
    test_max_pooling_of_several_nan()


@parity
def test_max_pooling_windows_inside_the_padding(lib: Any) -> Any:
    """Dilation may step over the whole input."""
    f = lib.nn.functional
    one, row = lib.tensor([[[1.0]]]), lib.tensor([[[1.0, 2.0]]])
    return [
        f.max_pool1d(one, 2, padding=1, dilation=2),
        f.max_pool1d(row, 2, stride=1, padding=1, dilation=3),
        f.max_pool2d(row, 2, stride=1, padding=1, dilation=2),
        f.max_pool2d(row.long(), (2, 1), padding=(1, 0), dilation=2),
        f.max_pool3d(one[None], 2, padding=1, dilation=2),
    ]


def test_max_pooling_window_inside_the_padding_has_no_index_and_no_gradient() -> None:
    # there torch's index is outside the image, and its backward writes out of bounds
    x = rg.tensor([[[1.0, 2.0, 3.0]]], requires_grad=True)
    largest, indices = F.max_pool2d(x, (2, 1), stride=1, padding=(1, 0), dilation=(2, 1), return_indices=True)
    assert (indices == -1).all()
    (grad,) = rg.autograd.grad(largest.sum(), x)
    assert rg.equal(grad, rg.zeros_like(x))
    x = rg.tensor([[1.0, 2.0]], requires_grad=True)
    largest, indices = F.max_pool1d(x, 2, stride=2, padding=1, dilation=3, ceil_mode=True, return_indices=True)
    (grad,) = rg.autograd.grad(largest, x, rg.ones_like(largest))
    reached = [index for index in indices[0].tolist() if index >= 0]
    assert grad.tolist() == [[float(reached.count(0)), float(reached.count(1))]]


@parity
def test_infinity_in_an_image_does_not_spread_nan(lib: Any) -> Any:
    """Elsewhere the results are not NaN, because the infinity is not multiplied by zeros."""
    f = lib.nn.functional
    x = lib.zeros(1, 1, 6, 6)
    x[0, 0, 1, 1] = math.inf
    results = [
        f.avg_pool2d(x, 2),
        f.adaptive_avg_pool2d(x, 4),
        f.interpolate(x, 9, mode="nearest"),
        f.interpolate(x, 9, mode="bilinear", align_corners=False),
        f.conv2d(x, lib.ones(1, 1, 3, 3)),
        f.unfold(x, 2),
    ]
    return [[result.isnan(), result.isinf()] for result in results]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("size", [(13, 17), (48, 62), (24, 40)], ids=str)
def test_interpolation_of_uint8_images(mode: str, antialias: bool, size: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (2, 3, 24, 31)).astype(np.uint8)
    theirs, ours = (
        library.nn.functional.interpolate(library.tensor(image), size, mode=mode, antialias=antialias)
        for library in (torch, rg)
    )
    assert ours.dtype == rg.uint8
    difference = np.abs(ours.numpy().astype(int) - theirs.numpy())  # torch's weights are integers
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.03


SIZES = st.integers(1, 3)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_random_convolutions_agree_with_torch(data: st.DataObject) -> None:
    """Results and gradients, for all parameters combined, in blocks of many sizes."""
    n, groups = data.draw(SIZES), data.draw(SIZES)
    draw = lambda low, high: data.draw(st.tuples(*[st.integers(low, high)] * n))  # noqa: E731
    kernel, stride, dilation, padding, more = draw(1, 3), draw(1, 3), draw(1, 2), draw(0, 2), draw(0, 9)
    sizes = [d * (k - 1) + 1 + extra for d, k, extra in zip(dilation, kernel, more, strict=True)]
    inner, outer = data.draw(SIZES), data.draw(SIZES)
    rng = np.random.default_rng(0)
    shapes = [(data.draw(SIZES), inner * groups, *sizes), (outer * groups, inner, *kernel), (outer * groups,)]
    arrays = [rng.normal(size=shape) for shape in shapes]
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_convolve, "_BLOCK_BYTES", data.draw(st.sampled_from([1, 3000, 1 << 20])))
        patch.setattr(_convolve, "_FEWEST_COLUMNS", data.draw(st.sampled_from([1, 20, 256])))
        patch.setattr(_convolve, "_FEWEST_PRODUCTS", data.draw(st.sampled_from([1, 1 << 23])))
        patch.setattr(
            _convolve, "_WRITING", data.draw(st.sampled_from([0, 24, 10_000]))
        )  # never or always by shifted products
        threads = data.draw(SIZES)
        patch.setattr(blocks, "get_num_threads", lambda: threads)
        for library in (torch, rg):
            leaves = [library.tensor(array).requires_grad_() for array in arrays]
            convolve = getattr(library.nn.functional, f"conv{n}d")
            result = convolve(*leaves, stride, padding, dilation, groups)
            result.sin().sum().backward()
            found.append([result.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("images", [0, 2])
def test_convolution_without_channels_equals_one_of_zeros(images: int, groups: int, stride: int) -> None:
    bias = torch.arange(6.0, requires_grad=True)
    expected = torch.nn.functional.conv2d(
        torch.zeros(images, groups, 5, 4), torch.ones(6, 1, 3, 2), bias, stride, groups=groups
    )
    expected.sum().backward()
    leaves = rg.ones(images, 0, 5, 4), rg.ones(6, 0, 3, 2), rg.arange(6.0)
    for leaf in leaves:
        leaf.requires_grad_()
    result = F.conv2d(*leaves, stride, groups=groups)
    np.testing.assert_array_equal(result.detach().numpy(), expected.detach().numpy())
    grads = rg.autograd.grad(result.sum(), leaves)
    assert [grad.shape for grad in grads] == [leaf.shape for leaf in leaves]
    assert bias.grad is not None
    np.testing.assert_array_equal(grads[2].numpy(), bias.grad.numpy())


@pytest.mark.parametrize("n", [1, 2, 3])
def test_transposed_convolution_is_the_adjoint(n: int) -> None:
    """<conv(x), y> = <x, conv_transpose(y)>."""
    rng = np.random.default_rng(n)
    x, w = rg.tensor(rng.normal(size=(2, 4, *(7,) * n))), rg.tensor(rng.normal(size=(6, 2, *(3,) * n)))
    options = {"stride": 2, "padding": 1, "groups": 2}
    y = rg.tensor(rng.normal(size=(2, 6, *(4,) * n)))
    forward = getattr(F, f"conv{n}d")(x, w, **options)
    back = getattr(F, f"conv_transpose{n}d")(y, w, **options)
    assert (forward * y).sum().item() == pytest.approx((x * back).sum().item(), rel=1e-12)


def test_fold_undoes_unfold_up_to_overlaps() -> None:
    x = rg.randn(2, 3, 6, 5)
    overlaps = F.fold(F.unfold(rg.ones_like(x), 3, padding=1), (6, 5), 3, padding=1)
    again = F.fold(F.unfold(x, 3, padding=1), (6, 5), 3, padding=1)
    assert rg.allclose(again / overlaps, x, atol=1e-6)


def test_convolution_equals_unfold_and_a_product() -> None:
    x, w = rg.randn(2, 3, 6, 5, dtype=rg.float64), rg.randn(4, 3, 3, 2, dtype=rg.float64)
    columns = F.unfold(x, (3, 2), stride=(1, 2))
    assert rg.allclose(F.conv2d(x, w, stride=(1, 2)).flatten(2), w.flatten(1) @ columns)


def test_max_unpool_restores_the_positions_of_maxima() -> None:
    x = rg.randn(2, 3, 6, 6)
    largest, indices = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(largest, indices, 2)
    assert rg.equal(back, x.where(back != 0, 0.0))
    assert rg.equal(F.max_pool2d(x, 2), largest)


def test_pixel_and_channel_shuffle_can_be_undone() -> None:
    x = rg.randn(2, 8, 3, 4)
    assert rg.equal(F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2), x)
    assert rg.equal(F.channel_shuffle(F.channel_shuffle(x, 2), 4), x)


def test_interpolation_in_float32_rounds_coordinates_as_torch_does() -> None:
    rng = np.random.default_rng(1)
    for size in (3, 6, 10, 17):
        x = rng.normal(size=(1, 2, 7, 11)).astype(np.float32)
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
            for scale in (0.37, 1.3, 2.9):
                expected = torch.nn.functional.interpolate(torch.tensor(x), scale_factor=scale, mode=mode)
                np.testing.assert_allclose(
                    F.interpolate(rg.tensor(x), scale_factor=scale, mode=mode).numpy(), expected.numpy(), atol=1e-5
                )
            expected = torch.nn.functional.interpolate(torch.tensor(x), size, mode=mode)
            np.testing.assert_allclose(F.interpolate(rg.tensor(x), size, mode=mode).numpy(), expected, atol=1e-5)


def overflows_in_pooling() -> Any:
    return F.avg_pool2d(rg.full((1, 4, 4), 3e38, requires_grad=True), 2)


def overflows_in_front_of_pooling() -> Any:
    image, weight = rg.full((2, 3, 8, 8), 3e38), rg.full((4, 3, 3, 3), 10.0, requires_grad=True)
    return F.max_pool2d(F.conv2d(image, weight), 2)


def overflows_in_the_last_image() -> Any:
    images = rg.full((32, 16, 64, 64), 1.0)
    images[-1] = 3e38
    return F.conv2d(images, rg.full((4, 16, 3, 3), 10.0, requires_grad=True))


@pytest.mark.parametrize(
    ("compute", "name"),
    [
        (overflows_in_the_last_image, "convolution"),
        (overflows_in_pooling, "avg_pool2d"),
        (overflows_in_front_of_pooling, "convolution"),
    ],
)
def test_birth_in_convolution_or_pooling_is_attributed_correctly(compute: Any, name: str) -> None:
    with pytest.raises(rg.anomaly.AnomalyError, match=f"Inf born in {name} at"), rg.anomaly.watch():
        compute().sum().backward()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("shape", "out", "groups"),
    [((5, 6, 3, 4), 8, 2), ((3, 4, 50), 6, 1), ((2, 6, 1, 1), 40, 1), ((4, 64, 32, 33), 64, 1), ((0, 3, 2, 2), 4, 1)],
)
def test_convolution_with_1x1_kernels(shape: tuple[int, ...], out: int, groups: int, threads: int) -> None:
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=shape), rng.normal(size=(shape[0], out, *shape[2:]))
    weight, bias = rng.normal(size=(out, shape[1] // groups, *(1,) * (len(shape) - 2))), rng.normal(size=out)
    before = rg.get_num_threads()
    rg.set_num_threads(threads)
    try:
        found = []
        for library in (rg, torch):
            leaves = [library.tensor(each, requires_grad=True) for each in (x, weight, bias)]
            convolve = getattr(library.nn.functional, f"conv{len(shape) - 2}d")
            for input in (leaves[0], leaves[0].transpose(0, -1).contiguous().transpose(0, -1)):
                result = convolve(input, *leaves[1:], groups=groups)
                found.append([result, *library.autograd.grad(result, leaves, library.tensor(g))])
    finally:
        rg.set_num_threads(before)
    for ours, theirs in zip(found[:2], found[2:], strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-9)
