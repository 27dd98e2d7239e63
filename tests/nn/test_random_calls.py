"""Calls of layers and functions for which random testing once found a difference from torch."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, message, parity


def gradients(lib: Any, output: Any, *leaves: Any) -> list[Any]:
    """Return the gradients of a weighted sum of the output, and the gradients of the sum of their squares."""
    weights = lib.arange(1.0, output.numel() + 1, dtype=output.dtype).reshape(output.shape)
    first = lib.autograd.grad((output * weights + output * output).sum(), leaves, create_graph=True, allow_unused=True)
    total = sum((g * g).sum() for g in first if g is not None)
    return [*first, *lib.autograd.grad(total, leaves, allow_unused=True)]


def attempts(*calls: Any) -> list[Any]:
    return [attempt(call) for call in calls]


def warned(lib: Any, call: Any) -> list[str]:
    """Return the classes of a call's warnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call(lib)
    return [w.category.__name__ for w in said if w.category is not RuntimeWarning]


# --- empty operands ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transposed", ["", "Transpose"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_convolution_of_an_empty_batch(transposed: str, n: int) -> None:
    @parity
    def compare(lib: Any) -> Any:
        layer = getattr(lib.nn, f"Conv{transposed}{n}d")(2, 4, 2, groups=2)
        x = lib.ones(0, 2, *[3] * n, requires_grad=True)
        layer(x).sum().backward()
        return [x.grad, layer.weight.grad, layer.bias.grad]

    compare()


@parity
def test_embedding_with_rows_of_no_elements(lib: Any) -> Any:
    layer = lib.nn.Embedding(6, 0, padding_idx=2)
    layer(lib.tensor([[1, 2], [3, 3]])).sum().backward()
    return layer.weight.grad


@parity
def test_instance_norm_of_an_empty_batch(lib: Any) -> Any:
    x = lib.ones(0, 4, 3, dtype=lib.float64, requires_grad=True)
    return gradients(lib, lib.nn.functional.instance_norm(x), x)


@parity
def test_local_response_norm_without_channels(lib: Any) -> Any:
    return [lib.nn.functional.local_response_norm(lib.ones(2, 0, 3, dtype=lib.int64), 2)]


@parity
def test_convolution_kernels_of_no_elements(lib: Any) -> Any:
    functional, x = lib.nn.functional, lib.ones(1, 2, 5)
    return attempts(
        lambda: functional.conv1d(x, lib.ones(2, 2, 0)),
        lambda: functional.conv_transpose1d(x, lib.ones(2, 2, 0)),
        lambda: lib.nn.Conv1d(2, 2, 0)(x),
    )


# --- losses -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_class_losses_with_all_targets_ignored(name: str, weighted: bool) -> None:
    @parity
    def compare(lib: Any) -> Any:
        report = []
        for shape in ((2, 3), (3,), (2, 3, 2)):
            x = lib.linspace(0, 1, int(np.prod(shape))).reshape(shape).requires_grad_()
            target = lib.ones([size for k, size in enumerate(shape) if k != min(1, len(shape) - 1)], dtype=lib.int64)
            weight = lib.tensor([1.0, 2.0, 3.0]) if weighted else None
            loss = getattr(lib.nn.functional, name)(x, target, weight, ignore_index=1)
            report += [repr(loss.item()), *lib.autograd.grad(loss, x)]
        return report

    compare()


def test_second_derivative_with_all_targets_ignored() -> None:
    x = rg.tensor([[0.5, 1.0]], requires_grad=True)
    loss = rg.nn.functional.cross_entropy(x, rg.tensor([0]), ignore_index=0)
    (grad,) = rg.autograd.grad(loss, x, create_graph=True)
    assert grad.tolist() == [[0, 0]]
    assert rg.autograd.grad(grad.sum(), x)[0].tolist() == [[0, 0]]


@parity
def test_options_that_do_not_fit_the_targets(lib: Any) -> Any:
    functional, x = lib.nn.functional, lib.ones(2, 3)
    probabilities, numbers = x / 3, lib.tensor([1, 2])
    return attempts(
        lambda: functional.cross_entropy(x, probabilities, ignore_index=1),
        lambda: functional.cross_entropy(x, probabilities, ignore_index=-1),
        lambda: functional.cross_entropy(x[:, :1], probabilities[:, :1], weight=lib.ones(2)),
        lambda: functional.cross_entropy(x, probabilities, weight=lib.ones(4)),
        lambda: functional.cross_entropy(x[0], numbers),
        lambda: functional.nll_loss(x[0], lib.tensor([1, 2, 0, 1])),
        lambda: functional.cross_entropy(lib.ones(3, 3, 4), lib.ones(2, 4, dtype=lib.int64)),
        lambda: functional.cross_entropy(lib.ones(2, 3, 4), lib.ones(2, 5, dtype=lib.int64)),
        lambda: functional.cross_entropy(x, lib.ones(5)),
        lambda: functional.multilabel_margin_loss(lib.ones(2, 0), lib.ones(2, 0, dtype=lib.int64)),
        lambda: functional.multi_margin_loss(lib.ones(2, 0), lib.ones(2, dtype=lib.int64)),
    )


# --- normalisation ----------------------------------------------------------------------------------------------------


@parity
def test_normalisation_with_only_one_running_statistic(lib: Any) -> Any:
    functional, x, ones = lib.nn.functional, lib.arange(24.0).reshape(2, 4, 3), lib.ones(4)
    return attempts(
        lambda: functional.batch_norm(x, ones, None, training=True),
        lambda: functional.batch_norm(x, None, ones, training=True),
        lambda: functional.instance_norm(x, ones, None),
        lambda: functional.batch_norm(x, None, None, training=True, eps=0.0),
        lambda: functional.batch_norm(x, ones, ones, training=False, eps=0.0),
        lambda: functional.instance_norm(x, eps=0.0),
    )


@pytest.mark.parametrize("options", [{}, {"affine": True}, {"track_running_stats": True}])
def test_instance_norm_with_another_number_of_channels(options: dict[str, bool]) -> None:
    def call(lib: Any) -> Any:
        return attempt(lambda: lib.nn.InstanceNorm1d(3, **options)(lib.arange(24.0).reshape(2, 4, 3)).shape)

    parity(lambda lib: [call(lib)])()
    assert warned(rg, call) == warned(torch, call)


# --- pooling and padding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [np.inf, -np.inf])
def test_lp_pooling_with_infinite_order(order: float) -> None:
    @parity
    def compare(lib: Any) -> Any:
        report = []
        for n in (1, 2, 3):
            x = lib.arange(-7.0, 4**n - 7).reshape(1, 1, *[4] * n).requires_grad_()
            result = getattr(lib.nn.functional, f"lp_pool{n}d")(x, order, 2, 1)
            report += [result, *lib.autograd.grad(result.sum(), x)]
        return report

    compare()


@parity
def test_negative_padding_that_removes_everything(lib: Any) -> Any:
    pad, x = lib.nn.functional.pad, lib.arange(3.0).reshape(1, 3)
    return [
        attempt(functools.partial(pad, x, widths, mode=mode))
        for mode in ("constant", "reflect", "replicate")
        for widths in ((-3, 2), (-2, 1), (-3, 0), (0, -3), (-4, 5), (-1, 1))
        if not (mode == "reflect" and widths in ((-3, 2), (-2, 1)))  # there torch reads out of bounds
    ]


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("pad", [(0, 0, 0, 0), (0, 0, -1, -1), (-1, 0, 0, 0)])
def test_pad_never_returns_a_view(pad: tuple[int, ...], mode: str) -> None:
    x = rg.ones(1, 3, 4, 4)
    rg.nn.functional.pad(x, pad, mode).fill_(4.0)
    assert rg.equal(x, rg.ones(1, 3, 4, 4))


def test_error_about_circular_padding_names_the_widths() -> None:
    text = message(lambda: rg.nn.functional.pad(rg.ones(1, 3), (2, -3), mode="circular"))
    assert "circular" in text and "(2, -3)" in text


@parity
def test_padding_that_leaves_nothing_in_one_dimension(lib: Any) -> Any:
    pad, x = lib.nn.functional.pad, lib.arange(6.0).reshape(1, 2, 3)
    return [
        attempt(functools.partial(pad, x, widths, mode=mode))
        for mode in ("reflect", "replicate", "circular")
        for widths in ((-2, -1, 0, 0), (-2, -1, 1, 0), (-2, -1, -1, -1), (-3, 0), (0, 0, -2, 0))
    ]


@parity
def test_padding_more_dimensions_than_there_are(lib: Any) -> Any:
    pad, x = lib.nn.functional.pad, lib.ones(3)
    return attempts(
        lambda: pad(x, (1, 1, 1, 1), mode="reflect"),
        lambda: pad(x, (1, 1), mode="reflect"),
        lambda: lib.nn.ReplicationPad1d(1)(x),
    )


# --- images -----------------------------------------------------------------------------------------------------------


@parity
def test_interpolate_checks_its_options_in_torchs_order(lib: Any) -> Any:
    call = lib.nn.functional.interpolate
    flat, line, image = lib.ones(2, 3), lib.ones(1, 2, 3), lib.ones(1, 2, 3, 4)
    return attempts(
        lambda: call(flat, size=(4,), mode="nearest-exact"),
        lambda: call(flat),
        lambda: call(line, scale_factor=0.3, mode="bicubic", antialias=True),
        lambda: call(image, mode="trilinear"),
        lambda: call(image, scale_factor=[0.5] * 3, mode="trilinear"),
        lambda: call(image, size=3, scale_factor=2, mode="linear"),
        lambda: call(image, size=3, mode="linear", recompute_scale_factor=True),
        lambda: call(image.to(lib.complex64), scale_factor=0.1),
        lambda: call(image, size=3.0),
        lambda: call(image, size=(3.0, 2)),
        lambda: call(image, size=3.0, mode="bilinear"),
        lambda: lib.nn.Upsample(size=(2.0, 2))(image),
    )


@pytest.mark.parametrize("size", [(1, 1, 1, 3), (1, 1, 2, 3), (1, 1, 2, 1, 3)])
@pytest.mark.parametrize("align_corners", [True, False])
def test_affine_grid_of_size_one_warns_as_torch_does(size: tuple[int, ...], align_corners: bool) -> None:
    def call(lib: Any) -> Any:
        n = len(size) - 2
        theta = lib.arange(float(n * (n + 1))).reshape(1, n, n + 1)
        return lib.nn.functional.affine_grid(theta, size, align_corners=align_corners)

    assert warned(rg, call) == warned(torch, call)


# --- attention, recurrent layers --------------------------------------------------------------------------------------


@parity
def test_is_causal_without_a_mask(lib: Any) -> Any:
    nn, x = lib.nn, lib.ones(3, 4)
    encoder, decoder = nn.TransformerEncoderLayer(4, 2, 6), nn.TransformerDecoderLayer(4, 2, 6)
    return attempts(
        lambda: encoder(x, is_causal=True),
        lambda: decoder(x, x, tgt_is_causal=True),
        lambda: decoder(x, x, memory_is_causal=True),
        lambda: nn.TransformerEncoder(encoder, 1, enable_nested_tensor=False)(x, is_causal=True),
        lambda: nn.TransformerDecoder(decoder, 1)(x, x, tgt_is_causal=True),
    )


def test_lstm_cell_without_its_cell_state_is_refused() -> None:
    for lib in (torch, rg):
        with pytest.raises(TypeError):
            lib.nn.LSTMCell(3, 4)(lib.ones(2, 3), lib.ones(2, 4))
    assert "(h, c)" in message(lambda: rg.nn.LSTMCell(3, 4)(rg.ones(2, 3), rg.ones(2, 4)))


def test_error_about_the_number_of_lengths() -> None:
    text = message(lambda: rg.nn.utils.rnn.unpad_sequence(rg.ones(4, 2, 3), rg.tensor([2])))
    assert "1" in text and "2" in text and "lengths" in text


@parity
def test_padding_idx_of_bags_beyond_the_table(lib: Any) -> Any:
    indices, table = lib.tensor([[1, 2]]), lib.ones(6, 3)
    return attempts(lambda: lib.nn.functional.embedding_bag(indices, table, padding_idx=6))


# --- classes of errors, numbers, warnings -----------------------------------------------------------------------------


@parity
def test_errors_of_layers_have_torchs_class(lib: Any) -> Any:
    nn, image = lib.nn, lib.ones(1, 2, 4, 4, dtype=lib.complex64)
    return attempts(
        lambda: nn.MaxPool2d(2)(image),
        lambda: nn.AdaptiveAvgPool2d(2)(image),
        lambda: nn.ReflectionPad2d(1)(lib.ones(1, 1, 1, 2, 3)),
        lambda: nn.Conv1d(2, 2, 2, padding_mode="reflect")(lib.ones(2, 1, 2, 4)),
    )


@parity
def test_total_norm_of_several_dtypes(lib: Any) -> Any:
    half, single, double = (lib.ones(2, dtype=dtype) for dtype in (lib.float16, lib.float32, lib.float64))
    norm = lib.nn.utils.get_total_norm
    return [norm([half, single]), norm([single, double]), norm([double, single]), norm([half, half])]


@parity
def test_orthogonal_init_of_float16(lib: Any) -> Any:
    return attempts(lambda: lib.nn.init.orthogonal_(lib.ones(3, 2, dtype=lib.float16)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("of_weight", ["float16", "float32", "float64"])
def test_rms_norm_with_a_weight_of_another_dtype(dtype: str, of_weight: str) -> None:
    def normalise(lib: Any) -> Any:
        x = lib.linspace(-1, 2, 6).reshape(2, 3).to(getattr(lib, dtype)).requires_grad_()
        weight = lib.tensor([0.5, 2.0, -1.5], dtype=getattr(lib, of_weight), requires_grad=True)
        result = lib.nn.functional.rms_norm(x, (3,), weight, eps=0.1)
        return [result, *lib.autograd.grad((result * result).sum(), (x, weight))]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about its fused kernel
        expected, got = normalise(torch), normalise(rg)
    tolerance = 2e-2 if "float16" in (dtype, of_weight) else 1e-5
    for ours, theirs in zip(got, expected, strict=True):
        assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), tolerance, tolerance)
