"""Rows of pooling and interpolation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.ops.harness import FLOATS, Make, Row, Sample, call

functional = torch.nn.functional
HALF = ("float16", *FLOATS)

SHAPES = {1: (2, 3, 7), 2: (2, 2, 6, 7), 3: (1, 2, 4, 5, 4)}


def pools(n: int, *options: dict[str, Any], values: str = "normal") -> Callable[[Make], Iterator[Sample]]:
    """Return windows of all kinds over inputs of ``n`` dimensions of different lengths."""

    def samples(make: Make) -> Iterator[Sample]:
        make_values = getattr(make, values)
        shape = SHAPES[n]
        yield call(make_values(*shape), 2)
        yield call(make_values(*shape[1:]), 3, 1)
        yield call(make_values(*shape[::-1]).T, 3, 2)
        yield call(make_values(0, *shape[1:]), 2)
        for chosen in options:
            yield call(make_values(*shape), **chosen)

    return samples


MAX = (
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 2, "ceil_mode": True},
    {"kernel_size": 2, "stride": 1, "dilation": 2, "return_indices": True},
    {"kernel_size": 3, "stride": 3, "padding": 1, "dilation": 2, "ceil_mode": True, "return_indices": True},
    {"kernel_size": 4, "stride": 1, "return_indices": True},
)
AVG = (
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 4, "stride": 3, "padding": 2, "ceil_mode": True, "count_include_pad": False},
    {"kernel_size": 4},
)
OVERRIDE = ({"kernel_size": 3, "padding": 1, "divisor_override": 2}, {"kernel_size": 2, "divisor_override": -5})
LP = ({"norm_type": 3, "kernel_size": 2}, {"norm_type": 1.5, "kernel_size": 3, "stride": 2, "ceil_mode": True})


def lp_pools(n: int) -> Callable[[Make], Iterator[Sample]]:
    def samples(make: Make) -> Iterator[Sample]:
        yield call(make.positive(*SHAPES[n]), 2, 2)
        for chosen in LP:
            yield call(make.positive(*SHAPES[n][1:]), **chosen)

    return samples


def adaptive(n: int, values: str = "normal", **options: Any) -> Callable[[Make], Iterator[Sample]]:
    def samples(make: Make) -> Iterator[Sample]:
        make_values = getattr(make, values)
        shape = SHAPES[n]
        for size in (1, 2, 3, (4,) * n, (5, *(None,) * (n - 1)) if n > 1 else 5):
            yield call(make_values(*shape), size, **options)
        yield call(make_values(*shape[1:]), 2, **options)
        yield call(make_values(*shape[::-1]).T, 2, **options)
        yield call(make_values(0, *shape[1:]), 2, **options)
        yield call(make_values(*shape), 9 if n == 1 else (1,) * (n - 1) + (9,), **options)

    return samples


def unpools(n: int) -> Callable[[Make], Iterator[Sample]]:
    def samples(make: Make) -> Iterator[Sample]:
        shape = (2, 2, *(2,) * n)
        volume = 4**n
        indices = make.rng.permuted(make.rng.permutation(volume)[None].repeat(4, 0), axis=1)[:, : 2**n].reshape(shape)
        yield call(make.normal(*shape), indices, 2)
        yield call(make.normal(*shape[1:]), indices[0], 2, 2)
        yield call(make.normal(*shape), indices, 3, 2, 0, output_size=(5,) * n)
        yield call(make.normal(*shape), indices, 3, 3, 1, output_size=(2, 2, *(5,) * n))

    return samples


def row(name: str, samples: Callable[[Make], Iterator[Sample]], dtypes: tuple[str, ...] = FLOATS, **more: Any) -> Row:
    return Row(name, samples, getattr(functional, name), dtypes=dtypes, method=False, **more)


RESIZED = (
    {"size": 7},
    {"size": 2},
    {"scale_factor": 2},
    {"scale_factor": 1.7},
    {"scale_factor": 0.6},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
)


def resized(make: Make) -> Iterator[Sample]:
    images = {n: make.normal(*shape) for n, shape in {1: (2, 2, 5), 2: (1, 2, 4, 5), 3: (1, 1, 3, 4, 2)}.items()}
    for chosen in RESIZED:
        for n, image in images.items():
            for mode in ("nearest", "nearest-exact", "area"):
                yield call(image, mode=mode, **chosen)
            for aligned in (None, True):
                yield call(image, mode=("linear", "bilinear", "trilinear")[n - 1], align_corners=aligned, **chosen)
                if n == 2:
                    yield call(image, mode="bicubic", align_corners=aligned, **chosen)
        for mode in ("bilinear", "bicubic", "lanczos"):
            yield call(images[2], mode=mode, antialias=True, **chosen)
    yield call(images[2], (4, 5), mode="bilinear")
    yield call(images[2], 1, mode="bilinear", align_corners=True)
    yield call(images[2], scale_factor=(0.5, 2.0), mode="bicubic")
    yield call(images[2].transpose(0, 1, 3, 2), (3, 9), mode="bilinear")
    yield call(images[2][:0], 8)


def resized_bytes(make: Make) -> Iterator[Sample]:
    yield call(make.normal(1, 2, 4, 5), 7)
    yield call(make.normal(1, 2, 4, 5), 3, mode="nearest-exact")


ROWS = [
    row("max_pool1d", pools(1, *MAX, values="distinct"), HALF),
    row("max_pool2d", pools(2, *MAX, values="distinct"), (*HALF, "int64", "uint8")),
    row("max_pool3d", pools(3, *MAX, values="distinct"), (*HALF, "int64")),
    row("avg_pool1d", pools(1, *AVG), (*HALF, "int64")),
    row("avg_pool2d", pools(2, *AVG, *OVERRIDE), (*HALF, "int64")),
    row("avg_pool3d", pools(3, *AVG, *OVERRIDE), (*FLOATS, "int64")),
    row("lp_pool1d", lp_pools(1)),
    row("lp_pool2d", lp_pools(2)),
    row("lp_pool3d", lp_pools(3)),
    row("adaptive_avg_pool1d", adaptive(1), HALF),
    row("adaptive_avg_pool2d", adaptive(2), HALF),
    row("adaptive_avg_pool3d", adaptive(3), HALF),
    row("adaptive_max_pool1d", adaptive(1, "distinct", return_indices=True), HALF),
    row("adaptive_max_pool2d", adaptive(2, "distinct", return_indices=True), HALF),
    row("adaptive_max_pool3d", adaptive(3, "distinct", return_indices=True)),
    row("max_unpool1d", unpools(1)),
    row("max_unpool2d", unpools(2)),
    row("max_unpool3d", unpools(3)),
    row("interpolate", resized, tolerance=10),
    row("interpolate", resized_bytes, ("uint8",), gradients=False),
]
