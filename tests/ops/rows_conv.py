"""Rows of convolutions, transposed convolutions, unfold and fold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.ops.harness import COMPLEX, FLOATS, Make, Row, Sample, call

functional = torch.nn.functional
NUMBERS = (*COMPLEX, "int64")
HALF = ("float16",)  # torch sums in half precision, too

Case = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]


def convolutions(*cases: Case) -> Callable[[Make], Iterator[Sample]]:
    """Return every case with a bias, and the first one also without and with operands in other layouts."""

    def samples(make: Make) -> Iterator[Sample]:
        for input, weight, options in cases:
            outputs = weight[1] * options.get("groups", 1) if options.get("transposed") else weight[0]
            plain = {key: value for key, value in options.items() if key != "transposed"}
            yield call(make.normal(*input), make.normal(*weight), make.normal(outputs), **plain)
        input, weight, options = cases[0]
        yield call(make.normal(*input), make.normal(*weight))
        yield call(make.normal(*input[::-1]).T, make.normal(*weight[::-1]).T)
        yield call(make.normal(*input)[..., ::-1], make.normal(*weight[:-1], 2 * weight[-1])[..., ::2])
        yield call(make.normal(0, *input[1:]), make.normal(*weight))

    return samples


def transposed(*cases: Case) -> Callable[[Make], Iterator[Sample]]:
    return convolutions(*((input, weight, {**options, "transposed": True}) for input, weight, options in cases))


CONV1D = convolutions(
    ((2, 3, 7), (4, 3, 3), {}),
    ((3, 7), (4, 3, 3), {"padding": 1}),
    ((1, 4, 9), (6, 2, 2), {"stride": 2, "dilation": 3, "groups": 2, "padding": (1,)}),
    ((2, 3, 9), (3, 1, 4), {"stride": 2, "dilation": 2, "groups": 3, "padding": 2}),
    ((1, 2, 6), (2, 2, 4), {"padding": "same"}),
    ((2, 2, 20), (2, 2, 3), {"padding": 1}),
)
CONV2D = convolutions(
    ((2, 3, 5, 6), (4, 3, 3, 2), {}),
    ((3, 5, 6), (2, 3, 3, 3), {"padding": "same"}),
    ((1, 2, 5, 6), (2, 2, 2, 3), {"padding": "same", "dilation": (3, 1)}),
    ((1, 2, 5, 6), (2, 2, 2, 3), {"padding": "valid", "stride": [2, 1]}),
    ((2, 4, 6, 5), (6, 2, 3, 2), {"stride": (2, 3), "padding": (2, 1), "dilation": (1, 2), "groups": 2}),
    ((2, 3, 4, 4), (3, 1, 3, 3), {"padding": 1, "groups": 3}),
    ((2, 3, 4, 4), (5, 3, 1, 1), {}),
    ((2, 3, 5, 4), (2, 3, 1, 1), {"stride": 2}),
    ((1, 4, 15, 3), (2, 4, 3, 3), {"padding": 1}),  # long enough to use shifted products
    ((1, 1, 3, 3), (1, 1, 3, 3), {"padding": 4}),
)
CONV3D = convolutions(
    ((1, 2, 3, 4, 3), (2, 2, 2, 3, 2), {}),
    ((2, 3, 4, 3), (2, 1, 2, 2, 2), {"stride": (1, 2, 1), "padding": (1, 0, 1), "groups": 2}),
)
CONV_TRANSPOSE1D = transposed(
    ((2, 3, 4), (3, 2, 3), {}),
    ((3, 4), (3, 2, 3), {"stride": 2}),
    ((1, 4, 4), (4, 3, 2), {"stride": 3, "padding": 1, "output_padding": 2, "groups": 2, "dilation": 2}),
    ((2, 3, 5), (3, 1, 4), {"padding": 3, "groups": 3}),
    ((1, 2, 4), (2, 2, 2), {"stride": 2, "dilation": 3, "output_padding": 2}),
)
CONV_TRANSPOSE2D = transposed(
    ((2, 3, 3, 4), (3, 2, 3, 2), {}),
    ((3, 3, 4), (3, 2, 2, 2), {"stride": 2}),
    ((1, 4, 3, 3), (4, 1, 3, 2), {"stride": (2, 1), "padding": 1, "output_padding": (1, 0), "groups": 2}),
    ((1, 3, 15, 3), (3, 4, 3, 3), {"padding": 1}),
)
CONV_TRANSPOSE3D = transposed(
    ((1, 2, 2, 3, 2), (2, 2, 2, 2, 2), {}),
    ((2, 2, 3, 2), (2, 1, 2, 2, 3), {"stride": 2, "padding": (1, 0, 1), "groups": 2}),
)


def unfolds(make: Make) -> Iterator[Sample]:
    yield call(make.normal(2, 3, 5, 4), 2)
    yield call(make.normal(3, 5, 4), (2, 3), dilation=(2, 1), padding=(1, 2), stride=(1, 2))
    yield call(make.normal(4, 5, 3).T, 3)
    yield call(make.normal(0, 3, 5, 4), 2)


def folds(make: Make) -> Iterator[Sample]:
    yield call(make.normal(2, 12, 12), (5, 4), 2)
    yield call(make.normal(4, 4), 4, 2, stride=2)
    yield call(make.normal(1, 4, 16), 4, 2, 2, 1)
    yield call(make.normal(12, 8), (4, 5), (3, 2), padding=(1, 0), stride=(2, 1))
    yield call(make.normal(0, 12, 12), (5, 4), 2)


def shuffles(make: Make) -> Iterator[Sample]:
    yield call(make.normal(2, 8, 2, 3), 2)
    yield call(make.normal(8, 2, 4), 2)
    yield call(make.normal(3, 4, 8, 2).T, 2)


def spatial_to_channels(make: Make) -> Iterator[Sample]:
    yield call(make.normal(2, 2, 4, 6), 2)
    yield call(make.normal(2, 3, 9), 3)
    yield call(make.normal(6, 4, 3, 2).T, 2)


def groups(make: Make) -> Iterator[Sample]:
    yield call(make.normal(2, 6, 3), 2)
    yield call(make.normal(2, 6, 2, 3), 3)


def row(name: str, samples: Callable[[Make], Iterator[Sample]], dtypes: tuple[str, ...], **more: Any) -> Row:
    return Row(name, samples, getattr(functional, name), dtypes=dtypes, method=False, **more)


ROWS = [
    row("conv1d", CONV1D, NUMBERS),
    row("conv1d", CONV1D, HALF, tolerance=10),
    row("conv2d", CONV2D, NUMBERS),
    row("conv2d", CONV2D, HALF, tolerance=10),
    row("conv3d", CONV3D, NUMBERS),
    row("conv3d", CONV3D, HALF, tolerance=10),
    row("conv_transpose1d", CONV_TRANSPOSE1D, NUMBERS),
    row("conv_transpose1d", CONV_TRANSPOSE1D, HALF, tolerance=10),
    row("conv_transpose2d", CONV_TRANSPOSE2D, NUMBERS),
    row("conv_transpose2d", CONV_TRANSPOSE2D, HALF, tolerance=10),
    row("conv_transpose3d", CONV_TRANSPOSE3D, NUMBERS),
    row("conv_transpose3d", CONV_TRANSPOSE3D, HALF, tolerance=10),
    Row("nn.functional.unfold", unfolds, dtypes=("float16", *COMPLEX), method=False),
    row("fold", folds, ("float16", *COMPLEX)),
    row("pixel_shuffle", shuffles, (*FLOATS, "int64")),
    row("pixel_unshuffle", spatial_to_channels, (*FLOATS, "int64")),
    row("channel_shuffle", groups, (*FLOATS, "int64")),
]
