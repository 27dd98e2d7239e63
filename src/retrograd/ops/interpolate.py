"""Images in another size.

Along each dimension every element of the result is a sum of a few elements of the input, its taps, with weights.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from retrograd.core.op import kernel
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.ops._checks import check_kind, check_number, check_tensor
from retrograd.ops._fused import samples_in_front
from retrograd.ops._positions import along
from retrograd.ops.adaptive_pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

if TYPE_CHECKING:
    from retrograd.core.annotations import Truth

_cached = functools.lru_cache(maxsize=256)  # programs resample to the same sizes again and again

# --- taps ---------------------------------------------------------------------------------------------------------


class Runs(NamedTuple):
    """The runs of equal numbers in an ascending sequence."""

    firsts: Any  # where they begin
    longest: int  # how many there are in the longest
    longer: tuple[Any, ...]  # which of them have more than one, more than two, ...; None for all


@dataclass(frozen=True, eq=False)
class Tap:
    """For each element of the result the place of an element of the input, in ascending order, and its weight."""

    places: Any
    weights: Any  # None, where all are 1

    @functools.cached_property
    def runs(self) -> Runs:
        """The elements of the result that have the same place."""
        firsts = np.flatnonzero(np.diff(self.places, prepend=-1))
        lengths = np.diff(firsts, append=len(self.places))
        longest = int(lengths.max(initial=0))
        if longest > len(firsts):
            return Runs(firsts, longest, ())
        longer = (np.flatnonzero(lengths > k) for k in range(1, longest))
        return Runs(firsts, longest, tuple(None if len(some) == len(firsts) else some for some in longer))

    @functools.cached_property
    def targets(self) -> Any:
        """The places of the runs; a slice, which takes less time, if they are evenly spaced."""
        places = self.places[self.runs.firsts]
        step = int(places[1] - places[0]) if len(places) > 1 else 1
        even = len(places) > 0 and (np.diff(places) == step).all()
        return slice(int(places[0]), int(places[-1]) + 1, step) if even else places


class Taps(NamedTuple):
    """How one dimension is resampled."""

    size: int  # of the input
    taps: tuple[Tap, ...]


def _shaped(weights: Any, dim: int, like: Any) -> Any:
    return weights.astype(like.dtype).reshape((-1, *(1,) * (like.ndim - 1 - dim)))


def _resample_along(input: Any, dim: int, taps: Taps) -> Any:
    total: Any = None
    for tap in taps.taps:
        part = input.take(tap.places, axis=dim)
        if tap.weights is not None:
            part *= _shaped(tap.weights, dim, input)
        total = part if total is None else np.add(total, part, out=total)
    return total


def _collect_along(grad: Any, dim: int, taps: Taps) -> Any:
    adjoint = _adjoint(taps.size, taps.taps)
    if adjoint is not None:
        return _resample_along(grad, dim, Taps(grad.shape[dim], adjoint))
    result = np.zeros_like(grad, shape=(*grad.shape[:dim], taps.size, *grad.shape[dim + 1 :]), order="C")
    for tap in taps.taps:
        part = grad if tap.weights is None else grad * _shaped(tap.weights, dim, grad)
        sums = _sum_runs(part, dim, tap.runs)
        if tap is taps.taps[0]:
            result[along(dim, tap.targets)] = sums
        else:
            result[along(dim, tap.targets)] += sums
    return result


@_cached
def _adjoint(size: int, taps: tuple[Tap, ...]) -> tuple[Tap, ...] | None:
    """The taps of the adjoint: which elements of the result's gradient each element of the input collects.

    None where an element has none, or some have so many that it takes less time to collect them from the result.
    """
    count = len(taps[0].places)
    weights = np.concatenate([np.ones(count) if tap.weights is None else tap.weights for tap in taps])
    pairs = np.concatenate([tap.places * count + np.arange(count) for tap in taps])[weights != 0]
    pairs, which = np.unique(pairs, return_inverse=True)
    weights = np.bincount(which, weights[weights != 0])
    places, results = np.divmod(pairs, count)
    numbers = np.bincount(places, minlength=size)
    if not 0 < numbers.min() <= numbers.max() <= 2 * len(taps):
        return None
    k = np.arange(numbers.max())[:, None]
    at = np.cumsum(numbers) - numbers + np.minimum(k, numbers - 1)
    # an element that has fewer has its last one several times: halves of it, because 0 times infinity would be NaN
    halvings = np.maximum(k - numbers + 2, 0)
    halvings[-1] -= 1
    each = zip(results[at], weights[at] * 0.5**halvings, strict=True)
    return tuple(Tap(where, None if (weigh == 1).all() else weigh) for where, weigh in each)


def _sum_runs(array: Any, dim: int, runs: Runs) -> Any:
    """The sums over runs along ``dim``."""
    firsts = runs.firsts
    if runs.longest > len(firsts):
        return np.add.reduceat(array, firsts, axis=dim)
    sums = array.take(firsts, axis=dim)
    for k, longer in enumerate(runs.longer, start=1):  # many times as fast as reduceat, where runs are short
        if longer is None:
            sums += array.take(firsts + k, axis=dim)
        else:
            sums[along(dim, longer)] += array.take(firsts[longer] + k, axis=dim)
    return sums


def _in_all_dimensions(step: Callable[..., Any], array: Any, dims: tuple[Taps, ...]) -> Any:
    wide = array.astype(np.float32) if array.dtype == np.float16 else array
    for dim, taps in enumerate(dims, start=array.ndim - len(dims)):
        wide = step(wide, dim, taps)
    return wide.astype(array.dtype, copy=False)


@kernel(public=False, method=False, input=lambda g, dims: collect(g, dims), factors=("input",))
@samples_in_front
def resample(input, dims: tuple[Taps, ...]):
    """The weighted sums of taps along each of the last dimensions."""
    return _in_all_dimensions(_resample_along, input, dims)


@kernel(public=False, method=False, grad=lambda g, dims: resample(g, dims), factors=("grad",))
@samples_in_front
def collect(grad, dims: tuple[Taps, ...]):
    """The adjoint of :func:`resample`."""
    return _in_all_dimensions(_collect_along, grad, dims)


@kernel(public=False, method=False)
@samples_in_front
def resample_bytes(input, dims: tuple[Taps, ...]):
    """The weighted sums of bytes, rounded to bytes after each dimension, the last one first."""
    for dim in range(input.ndim - 1, input.ndim - 1 - len(dims), -1):
        sums = _resample_along(input.astype(np.float32), dim, dims[dim - input.ndim])
        input = np.clip(np.floor(sums + np.float32(0.5)), 0, 255).astype(np.uint8)
    return input


# --- where the taps are -------------------------------------------------------------------------------------------


def _step(size: int, count: int, align_corners: bool, scale: float | None) -> float:
    """The distance in the input between two neighbours of the result."""
    if align_corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1 / scale if scale is not None and scale > 0 else size / count


def _sources(size: int, count: int, align_corners: bool, scale: float | None, dtype: Any) -> Any:
    """Where in the input the elements of the result lie, in the precision of torch's computation."""
    step, i = dtype(_step(size, count, align_corners, scale)), np.arange(count).astype(dtype)
    return step * i if align_corners else step * (i + dtype(0.5)) - dtype(0.5)


@_cached
def _nearest(size: int, count: int, scale: float | None, exact: bool) -> tuple[Tap, ...]:
    step = np.float32(_step(size, count, False, scale))
    shift = np.float32(0.5 if exact else 0)
    places = np.floor((np.arange(count, dtype=np.float32) + shift) * step).astype(np.intp)
    return (Tap(np.minimum(places, size - 1), None),)


@_cached
def _linear(size: int, count: int, align_corners: bool, scale: float | None, dtype: Any) -> tuple[Tap, ...]:
    source = np.maximum(_sources(size, count, align_corners, scale, dtype), 0)
    if size == count:
        return (Tap(np.arange(count), None),)
    low = np.minimum(source.astype(np.intp), size - 1)
    fraction = np.clip(source - low.astype(dtype), 0, 1)
    return Tap(low, 1 - fraction), Tap(np.minimum(low + 1, size - 1), fraction)


def _keys(x: Any, a: float) -> Any:
    """The kernel of cubic convolution (Keys, 1981)."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


@_cached
def _cubic(size: int, count: int, align_corners: bool, scale: float | None, dtype: Any) -> tuple[Tap, ...]:
    source = _sources(size, count, align_corners, scale, dtype)
    floor = np.floor(source)
    fraction, low = source - floor, floor.astype(np.intp)
    return tuple(Tap(np.clip(low + k, 0, size - 1), _keys(fraction - k, -0.75)) for k in (-1, 0, 1, 2))


# By mode, how far the filter reaches, and the filter.
_FILTERS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "bilinear": (1, lambda x: np.maximum(1 - np.abs(x), 0)),
    "bicubic": (2, lambda x: _keys(x, -0.5)),
    "lanczos": (3, lambda x: np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)),
}


@_cached
def _antialiased(mode: str, size: int, count: int, align_corners: bool, scale: float | None) -> tuple[Tap, ...]:
    """The filter, stretched to cover everything that contributes to one element."""
    reach, weigh = _FILTERS[mode]
    step = _step(size, count, align_corners, scale)
    width = max(step, 1.0)
    centres = step * (np.arange(count) + 0.5)
    starts = np.maximum((centres - reach * width + 0.5).astype(np.intp), 0)
    lengths = np.minimum((centres + reach * width + 0.5).astype(np.intp), size) - starts
    k = np.arange(lengths.max())[:, None]
    weights = np.where(k < lengths, weigh((k + starts - centres + 0.5) / width), 0)
    weights = weights / weights.sum(0)
    return tuple(Tap(np.minimum(starts + row, size - 1), weights[row]) for row in range(len(weights)))


# --- the function users call --------------------------------------------------------------------------------------

_SPATIAL = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2, "lanczos": 2}
_ANY_DIMENSIONS = ("nearest", "nearest-exact", "area")
_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
_AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


def _check_mode(input: Any, mode: str, align_corners: bool | None, antialias: bool) -> None:
    n = input.ndim - 2
    if antialias and (mode not in _FILTERS or n != 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as "
            f"input, got mode {mode} and {input.ndim}D"
        )
    known = mode in _ANY_DIMENSIONS or mode in _SPATIAL
    if n not in (1, 2, 3) or not known or (mode in ("bicubic", "lanczos") and n != 2):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: {_MODES} "
            f"(got {mode}); bicubic and lanczos need 4D input"
        )
    if n != _SPATIAL.get(mode, n):
        raise NotImplementedError(f"Got {input.ndim}D input, but {mode} mode needs {_SPATIAL[mode] + 2}D input")
    if mode == "lanczos" and (align_corners or not antialias):
        raise ValueError("Lanczos mode requires antialias=True and does not support align_corners=True")


def _check_values(input: Any, mode: str, counts: Sequence[int]) -> None:
    if mode != "area" and min(counts) <= 0:
        raise RuntimeError(
            "interpolate(): Input and output sizes should be greater than 0, but got input "
            f"{list(input.shape[2:])} and output {list(counts)}"
        )
    if 0 in input.shape[1:]:
        raise RuntimeError(
            f"interpolate(): Non-empty {input.ndim}D data tensor expected but got a tensor with sizes "
            f"{list(input.shape)}"
        )
    if mode != "area":
        takes_bytes = mode in _ANY_DIMENSIONS or _SPATIAL[mode] == 2
        check_kind(f"interpolate({mode})", "uf" if takes_bytes and input._data.dtype.itemsize == 1 else "f", input)


def _target(
    input: Any, size: Any, scale_factor: Any, mode: str, recompute: bool | None
) -> tuple[list[int], Sequence[float | None]]:
    """The size of the result, and the factors that positions are computed with, None where the sizes tell."""
    n = input.ndim - 2
    sizes = input.shape[2:]
    if (size is None) == (scale_factor is None):
        only = "only one of size or scale_factor" if size is not None else "either size or scale_factor"
        raise ValueError(f"{only} should be defined")
    given = scale_factor if size is None else size
    wanted = list(given) if isinstance(given, Sequence) else [given] * n
    wanted = [check_number("interpolate", "scale_factor", number) for number in wanted] if size is None else wanted
    if len(wanted) != n:
        what = "scale_factor of shape" if size is None else "output size of"
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {list(sizes)} and {what} {wanted}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            "one number for each of d1, d2, ..., dK"
        )
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        if not all(isinstance(item, SupportsIndex) for item in wanted):
            raise TypeError(f"interpolate(): expected size to be an int or one for each dimension, but got {size!r}")
        counts, scales = [operator.index(item) for item in wanted], [None] * n
    else:
        if not all(math.isfinite(factor) for factor in wanted):
            raise RuntimeError(f"interpolate(): scale_factor must be finite, but got {scale_factor!r}")
        counts = [math.floor(length * factor) for length, factor in zip(sizes, wanted, strict=True)]
        scales = [None] * n if recompute or mode == "area" else wanted
    return counts, scales


@composite(method=False)
def interpolate(
    input,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: Truth | None = None,
    antialias: bool = False,
) -> Tensor:
    """Return images in another size.

    Shapes: ``(N, C, d1, ..., dK) -> (N, C, e1, ..., eK)`` with 1 to 3 dimensions.

    Parameters
    ----------
    size
        The size of the result; one number, or one for each dimension. Give it or ``scale_factor``.
    scale_factor
        The factor by which the size grows; one number, or one for each dimension.
    mode
        ``"nearest"``, ``"nearest-exact"`` (which agrees with other libraries for images) or ``"area"`` (means) in any
        number of dimensions; ``"linear"`` in one, ``"bilinear"``, ``"bicubic"`` or ``"lanczos"`` in two,
        ``"trilinear"`` in three.
    align_corners
        Whether the centres of the corner elements, rather than their outer edges, stay where they are.
    recompute_scale_factor
        Whether positions come from the sizes, rounded as they are, rather than from ``scale_factor``.
    antialias
        Whether to blur what would be aliased when the result is smaller; for bilinear, bicubic and lanczos.

    Notes
    -----
    Images of uint8 stay so: in ``"bilinear"``, ``"bicubic"`` and ``"lanczos"`` their rows, and then their columns, are
    rounded. torch's weights are integers there, so that one pixel in some hundred differs by one.

    Raises
    ------
    NotImplementedError
        If ``mode`` is unknown or not for this number of dimensions.
    ValueError
        If options contradict each other.

    Examples
    --------
    >>> rg.nn.functional.interpolate(rg.tensor([[[1.0, 3.0]]]), scale_factor=2, mode="linear")
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    check_tensor("interpolate", input)
    if mode in _ANY_DIMENSIONS and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    counts, scales = _target(input, size, scale_factor, mode, recompute_scale_factor)
    _check_mode(input, mode, align_corners, antialias)
    _check_values(input, mode, counts)
    if mode == "area":
        return _AREA[len(counts)](input, counts)
    dtype = np.float64 if input._data.dtype == np.float64 else np.float32
    aligned = bool(align_corners)
    dims = []
    for length, count, scale in zip(input.shape[2:], counts, scales, strict=True):
        if mode in _ANY_DIMENSIONS:
            taps = _nearest(length, count, scale, mode == "nearest-exact")
        elif antialias:
            taps = _antialiased(mode, length, count, aligned, scale)
        else:
            taps = (_cubic if mode == "bicubic" else _linear)(length, count, aligned, scale, dtype)
        dims.append(Taps(length, taps))
    rounds = input._data.dtype == np.uint8 and mode not in _ANY_DIMENSIONS
    return (resample_bytes if rounds else resample)(input, tuple(dims))
