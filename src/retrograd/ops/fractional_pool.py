"""Maxima over windows of one size whose distances are random (Graham, 2014, "Fractional Max-Pooling")."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.core.op import op
from retrograd.ops._fused import sample_by_sample
from retrograd.ops.pool import to_places


def _starts(samples: Any, size: int, kernel: int, count: int) -> Any:
    """Where the ``count`` windows along a dimension start, for each of ``samples`` from [0, 1)."""
    starts = np.full((*samples.shape, count), size - kernel, np.int64)
    if count > 1:
        step = samples.dtype.type((size - kernel) / (count - 1))
        shifted = (np.arange(count - 1, dtype=samples.dtype) + samples[..., None]) * step
        starts[..., :-1] = shifted.astype(np.int64) - (samples[..., None] * step).astype(np.int64)
    return starts


def _largest(input: Any, samples: Any, kernels: tuple[int, ...], counts: tuple[int, ...]) -> tuple[Any, Any]:
    """The largest element of every window, and its flat position; every channel has its own windows."""
    n = len(kernels)
    sizes = input.shape[-n:]
    lead = input.shape[:-n]
    samples = samples.reshape((*lead, n))
    # torch takes the samples for images from the last dimension on, those for volumes from the first
    order = range(n)[::-1] if n == 2 else range(n)
    starts = [
        _starts(samples[..., position], size, kernel, count)
        for position, size, kernel, count in zip(order, sizes, kernels, counts, strict=True)
    ]
    flat = input.reshape((*lead, math.prod(sizes)))
    best = places = None
    for offsets in itertools.product(*map(range, kernels)):
        at: Any = 0
        for dim, (start, offset) in enumerate(zip(starts, offsets, strict=True)):
            along = (*lead, *(1,) * dim, counts[dim], *(1,) * (n - 1 - dim))
            at = at * sizes[dim] + (start + offset).reshape(along)
        values = np.take_along_axis(flat, at.reshape((*lead, math.prod(counts))), -1).reshape(at.shape)
        if best is None:
            best, places = values, at
        else:
            better = (values > best) | np.isnan(values)
            best, places = np.where(better, values, best), np.where(better, at, places)
    return best, places


def _operation(n: int) -> Callable[..., Any]:
    @op(
        name=f"fractional_max_pool{n}d",
        node_name=f"FractionalMaxPool{n}DBackward0",
        public=False,
        method=False,
        outputs=("values", "indices"),
        differentiable_outputs=(0,),
        input=lambda g, input_shape, kernels, indices: to_places(g[0], input_shape, indices, len(kernels)),
    )
    @sample_by_sample
    def fractional_max_pool(input, samples, kernels: tuple[int, ...], counts: tuple[int, ...]):
        """The largest element of every window, and its flat position in the dimensions pooled over."""
        return _largest(input, samples, kernels, counts)

    return fractional_max_pool


FRACTIONAL_MAX_POOL = {n: _operation(n) for n in (2, 3)}
