"""Fractional max pooling as ``torch.nn.functional`` calls it; the windows are drawn here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retrograd.core.tensor import Tensor
from retrograd.ops._checks import check_kind, check_tensor
from retrograd.ops._tuples import per_dimension
from retrograd.ops.fractional_pool import FRACTIONAL_MAX_POOL
from retrograd.random import rand

if TYPE_CHECKING:
    from retrograd.core.annotations import Truth

__all__ = ["fractional_max_pool2d", "fractional_max_pool3d"]

_SIDES = {2: ("height", "width"), 3: ("time", "height", "width")}


def _counts(name: str, sizes: tuple[int, ...], output_size: Any, output_ratio: Any) -> tuple[int, ...]:
    """How many windows there are along each dimension."""
    if output_size is not None:
        return per_dimension(name, "output_size", output_size, len(sizes))
    if output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    ratios = tuple(output_ratio) if isinstance(output_ratio, Sequence) else (output_ratio,) * len(sizes)
    if len(ratios) != len(sizes):
        raise ValueError(f"{name} requires output_ratio to be one number or {len(sizes)}, but got {list(ratios)}")
    return tuple(int(size * ratio) for size, ratio in zip(sizes, ratios, strict=True))


def _check_samples(name: str, samples: Tensor, input: Tensor, n: int) -> None:
    batch = input.shape[0] if input.ndim == n + 2 else 1
    expected = [batch, input.shape[-n - 1], n]
    if list(samples.shape) != expected:
        raise RuntimeError(f"{name}(): expect _random_samples of shape {expected}, got {list(samples.shape)}")
    if samples.dtype != input.dtype:
        raise RuntimeError(
            f"{name}(): expect _random_samples to have the same dtype as input, got {samples.dtype} and {input.dtype}"
        )


def _fractional_max_pool(
    n: int,
    input: Any,
    kernel_size: Any,
    output_size: Any,
    output_ratio: Any,
    return_indices: Truth,
    samples: Tensor | None,
) -> Any:
    name = f"fractional_max_pool{n}d"
    check_tensor(name, input)
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}")
    check_kind(name, "f", input)
    sizes = tuple(input.shape[-n:])
    kernels = per_dimension(name, "kernel_size", kernel_size, n)
    counts = _counts(name, sizes, output_size, output_ratio)
    for side, size, kernel, count in zip(_SIDES[n], sizes, kernels, counts, strict=True):
        if kernel < 1 or count < 0 or kernel + count - 1 > size:
            raise RuntimeError(
                f"{name}(): pool {side} {kernel} too large relative to input {side} {size}: with an output of {count}, "
                f"at most {size - count + 1} fits"
            )
    if samples is None:
        batch = input.shape[0] if input.ndim == n + 2 else 1
        samples = rand(batch, input.shape[-n - 1], n, dtype=input.dtype)
    else:
        _check_samples(name, samples, input, n)
    values, indices = FRACTIONAL_MAX_POOL[n](input, samples, kernels, counts)
    return (values, indices) if return_indices else values


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: Truth = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return the maxima over windows at random, roughly equal distances (Graham, 2014).

    Shapes: ``(N, C, H, W) -> (N, C, h, w)``, or without the batch.

    Parameters
    ----------
    kernel_size
        The size of the windows, which may overlap.
    output_size
        How many windows there are; one number, or one for each dimension. Give it or ``output_ratio``.
    output_ratio
        How many windows there are for every element; below 1.
    return_indices
        Return where the maxima are, too, as positions in the flattened image.
    _random_samples
        What the windows are drawn by, of shape ``(N, C, 2)``, from [0, 1).

    Raises
    ------
    ValueError
        If neither ``output_size`` nor ``output_ratio`` is given.
    RuntimeError
        If the windows do not fit.

    Examples
    --------
    >>> rg.nn.functional.fractional_max_pool2d(rg.randn(1, 3, 9, 9), 2, output_ratio=0.7).shape
    retrograd.Size([1, 3, 6, 6])
    """
    return _fractional_max_pool(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: Truth = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return the maxima over random windows of ``(N, C, D, H, W)``; see :func:`fractional_max_pool2d`."""
    return _fractional_max_pool(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
