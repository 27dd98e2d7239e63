"""Pooling over windows that slide: maxima, means and p-norms."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.op import linear, op
from retrograd.core.reductions import reduce
from retrograd.core.registry import composite
from retrograd.core.state import local
from retrograd.core.tensor import Tensor
from retrograd.ops._box import Spans, is_whole, spread_windows, sums
from retrograd.ops._checks import check_kind, check_number, check_tensor
from retrograd.ops._fused import samples_in_front
from retrograd.ops._positions import along
from retrograd.ops._tuples import per_dimension
from retrograd.ops._windows import Windows, count_windows, each_element
from retrograd.ops.activations import relu
from retrograd.ops.arithmetic import sign
from retrograd.ops.selecting import scatter_zeros

if TYPE_CHECKING:
    from retrograd.core.annotations import Truth

IntOrInts = int | Sequence[int]
Axes = tuple[Windows, ...]

# --- where the windows are ----------------------------------------------------------------------------------------


def _check_pooled(name: str, input: Any, n: int) -> None:
    """Raise unless ``input`` has ``n`` dimensions to pool over, none of them empty, and one or two in front."""
    check_tensor(name, input)
    if input.ndim not in (n + 1, n + 2) or 0 in input.shape[-n - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size for input, "
            f"but got: {list(input.shape)}"
        )


def _windows(
    name: str, input: Any, n: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Axes:
    _check_pooled(name, input, n)
    kernels = per_dimension(name, "kernel_size", kernel_size, n)
    strides = (
        kernels
        if stride is None or (isinstance(stride, (list, tuple)) and not stride)
        else per_dimension(name, "stride", stride, n)
    )
    paddings = per_dimension(name, "padding", padding, n)
    dilations = per_dimension(name, "dilation", dilation, n)
    return _layout(name, tuple(input.shape[-n - 1 :]), kernels, strides, dilations, paddings, ceil_mode)


@functools.lru_cache(maxsize=256)
def _layout(
    name: str,
    shape: tuple[int, ...],
    kernels: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    paddings: tuple[int, ...],
    ceil_mode: bool,
) -> Axes:
    """The windows over all dimensions of ``shape`` but the first, the channels."""
    channels, *sizes = shape
    for parameter, values in (("kernel_size", kernels), ("stride", strides), ("dilation", dilations)):
        if min(values) <= 0:
            raise RuntimeError(f"{name}(): {parameter} should be greater than zero, but got {list(values)}")
    for pad, kernel, d in zip(paddings, kernels, dilations, strict=True):
        if pad < 0 or pad > (d * (kernel - 1) + 1) // 2:
            raise RuntimeError(
                f"{name}(): pad should be at least zero and at most half of effective kernel size, but got pad={pad}, "
                f"kernel_size={kernel} and dilation={d}"
            )
    counts = tuple(
        _count(size, kernel, step, d, pad, ceil_mode)
        for size, kernel, step, d, pad in zip(sizes, kernels, strides, dilations, paddings, strict=True)
    )
    if min(counts) < 1:
        given, computed = ("x".join(map(str, (channels, *values))) for values in (sizes, counts))
        raise RuntimeError(
            f"{name}(): Given input size: ({given}). Calculated output size: ({computed}). Output size is too small; "
            f"kernel_size={list(kernels)}"
        )
    return tuple(map(Windows, sizes, kernels, strides, dilations, paddings, counts))


def _count(size: int, kernel: int, stride: int, dilation: int, padding: int, ceil_mode: bool) -> int:
    if not ceil_mode:
        return count_windows(size, kernel, stride, dilation, padding)
    count = -((dilation * (kernel - 1) + 1 - size - 2 * padding) // stride) + 1
    # a window must not begin beyond the input
    return count - 1 if (count - 1) * stride >= size + padding else count


# --- maxima -------------------------------------------------------------------------------------------------------


def to_places(g: Any, input_shape: tuple[int, ...], indices: Any, n: int) -> Any:
    """The gradient of maxima at their positions; ``indices`` are flat ones in the last ``n`` dimensions."""
    lead = input_shape[:-n]
    flat, maxima = (*lead, math.prod(input_shape[-n:])), (*lead, math.prod(indices.shape[-n:]))
    placed = scatter_zeros(g.reshape(maxima), flat, len(lead), indices.reshape(maxima))
    return placed.reshape(input_shape)


def _max_over_windows(input: Any, axes: Axes) -> tuple[Any, Any]:
    """The maxima, and their flat places in the last dimensions: the last NaN, or the first of those that are equal."""
    rows = _few_rows(input, axes, _FEW)
    if rows is not None:
        values, places = max_of_rows(rows, axes)
        shape = _pooled_shape(input, axes)
        return values.reshape(shape), places.reshape(shape)
    values = _maxima(input, axes)
    # the first element that is equal: how many come before it, counted without a branch
    elements_of_window = math.prod(axis.kernel for axis in axes)
    position: Any = np.zeros(values.shape, np.min_scalar_type(elements_of_window), like=input)
    missing: Any = np.ones(values.shape, bool, like=input)
    for windows, elements in each_element(axes):
        missing[(..., *windows)] &= input[(..., *elements)] != values[(..., *windows)]
        position += missing
    if _holds_nan(values):  # NaN equals nothing
        for k, (windows, elements) in enumerate(each_element(axes)):
            np.copyto(position[(..., *windows)], k, where=np.isnan(input[(..., *elements)]))
    return values, _places_of(position, axes)


def _maxima(input: Any, axes: Axes) -> Any:
    """The maxima over windows, one dimension after the other; NaN where there is one."""
    rows = _few_rows(input, axes, _VERY_FEW)
    if rows is not None:
        return np.maximum.reduce(_picked(rows, axes)[0], -1).reshape(_pooled_shape(input, axes))
    lowest = -np.inf if input.dtype.kind == "f" else np.iinfo(input.dtype).min
    for dim, axis in enumerate(axes, start=input.ndim - len(axes)):
        if axis.dilation == 1 and is_whole(axis):
            input = reduce(np.maximum, input, dim, keepdims=True)
            continue
        shape = *input.shape[:dim], axis.number, *input.shape[dim + 1 :]
        values: Any = np.full_like(input, lowest, shape=shape, order="C")
        for k in range(axis.kernel):
            windows, places = axis.reached(k)
            best = values[along(dim, windows)]
            np.maximum(best, input[along(dim, places)], out=best)
        input = values
    return input


def _holds_nan(values: Any) -> bool:
    return values.dtype.kind == "f" and values.size > 0 and bool(np.isnan(np.maximum.reduce(values, axis=None)))


# Up to this many elements of windows it is faster to pick out all of them (measured): there are fewer calls. The second
# number is for maxima without their places.
_FEW, _VERY_FEW = 1 << 15, 1 << 12


def _pooled_shape(input: Any, axes: Axes) -> tuple[int, ...]:
    return (*input.shape[: -len(axes)], *(axis.number for axis in axes))


def _few_rows(input: Any, axes: Axes, limit: int) -> Any:
    """Images as rows; None if their windows have more elements than ``limit``, or if one has none."""
    number = math.prod(_pooled_shape(input, axes)) * math.prod(axis.kernel for axis in axes)
    if type(input) is not np.ndarray or not 0 < number <= limit or any(map(_misses, axes)):
        return None  # of no images, however large, nothing is picked
    return input.reshape(-1, math.prod(axis.size for axis in axes))


def _picked(rows: Any, axes: tuple[Windows | Spans, ...]) -> tuple[Any, Any]:
    """The elements of all windows of images, one image per row, and the places in it."""
    elements = np.asarray(_elements(axes), like=rows)
    is_row = elements.shape[1] == rows.shape[1] and all(map(is_whole, axes))  # all elements, one after the other
    return rows[:, None] if is_row else rows.take(elements, 1), elements


def max_of_rows(rows: Any, axes: tuple[Windows | Spans, ...]) -> tuple[Any, Any]:
    """The maxima over the windows of images, one image per row, and their places in it."""
    picked, elements = _picked(rows, axes)
    windows, length = elements.shape
    elements, starts = elements.reshape(-1), np.arange(0, windows * length, length, like=rows)
    places = elements.take(picked.argmax(-1) + starts)
    values = rows.reshape(-1).take(places + np.arange(0, rows.size, rows.shape[1], like=rows)[:, None])
    if _holds_nan(values):  # the last one counts; argmax gives the first
        last = length - 1 - np.isnan(picked[..., ::-1]).argmax(-1)
        places = np.where(np.isnan(values), elements.take(last + starts), places)
    return values, places


@functools.lru_cache(maxsize=16)  # together they are several times as long as an image
def _elements(axes: tuple[Windows | Spans, ...]) -> Any:
    """The flat places of the elements of every window, some of them several times."""
    places: Any = np.zeros((1, 1), np.intp)
    for axis in axes:
        along = axis.places()
        shape = len(places) * len(along), places.shape[1] * along.shape[1]
        places = (places[:, None, :, None] * axis.size + along[:, None]).reshape(shape)
    return places


def _places_of(position: Any, axes: Axes) -> Any:
    """Flat places in the input, from positions within windows; -1 for windows that lie entirely in the padding."""
    starts, steps = _starts_and_steps(axes)
    if not any(map(_misses, axes)):
        return np.asarray(steps, like=position)[position] + starts
    nothing = position == len(steps)
    return np.where(nothing, -1, np.asarray(steps, like=position)[np.where(nothing, 0, position)] + starts)


@functools.lru_cache(maxsize=64)
def _misses(axis: Windows) -> bool:
    """Whether some window has no element of the dimension: dilation may step over all of it."""
    if axis.dilation <= axis.size:  # padding is at most half of a window, so that none lies on one side
        return False
    reached = {i for k in range(axis.kernel) for i in range(*axis.reached(k)[0].indices(axis.number))}
    return len(reached) < axis.number


def _to_maxima(g: Any, input_shape: tuple[int, ...], axes: Axes, indices: Any) -> Any:
    """The gradient of maxima over windows; the gradient for a window without elements is dropped."""
    if any(map(_misses, axes)):
        g, indices = np.where(indices < 0, 0, g), np.maximum(indices, 0)
    return to_places(g, input_shape, indices, len(axes))


@functools.lru_cache(maxsize=16)  # they are as long as an image
def _starts_and_steps(axes: Axes) -> tuple[Any, Any]:
    """The flat places of the windows' first elements, and the offsets of the others from them."""
    starts: Any = 0
    steps: Any = 0
    for axis in axes:
        starts = np.add.outer(starts * axis.size, np.arange(axis.number) * axis.stride - axis.before)
        steps = np.add.outer(steps * axis.size, np.arange(axis.kernel) * axis.dilation)
    return starts, steps.reshape(-1)


def _max_pool_operation(n: int) -> Callable[..., Any]:
    @op(
        name=f"max_pool{n}d",
        node_name=f"MaxPool{n}DWithIndicesBackward0",
        public=False,
        method=False,
        outputs=("values", "indices"),
        differentiable_outputs=(0,),
        input=lambda g, input_shape, axes, indices: _to_maxima(g[0], input_shape, axes, indices),
    )
    @samples_in_front
    def max_pool_with_indices(input, axes: Axes):
        """The largest element of every window, and its flat position in the dimensions pooled over."""
        check_kind(f"max_pool{n}d", "iuf", input)
        return _max_over_windows(input, axes)

    return max_pool_with_indices


_MAX_POOL_WITH_INDICES = {n: _max_pool_operation(n) for n in (1, 2, 3)}


@samples_in_front
def _places_of_maxima(input: Any, axes: Axes) -> Any:
    return _max_over_windows(input, axes)[1]


def _maxima_input(g, input, axes):
    places = _places_of_maxima(input._data if isinstance(input, Tensor) else input, axes)
    return _to_maxima(g, input.shape, axes, places)


def _maxima_operation(n: int) -> Callable[..., Any]:
    @op(
        name=f"max_pool{n}d",
        node_name=f"MaxPool{n}DWithIndicesBackward0",
        public=False,
        method=False,
        input=_maxima_input,
    )
    @samples_in_front
    def max_pool(input, axes: Axes):
        """The largest element of every window."""
        check_kind(f"max_pool{n}d", "iuf", input)
        return _maxima(input, axes)

    return max_pool


# for a tensor without history: the maxima alone take a quarter to a half of the time (measured)
_MAX_POOL = {n: _maxima_operation(n) for n in (1, 2, 3)}


def _max_pool(
    n: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: Truth,
) -> Any:
    axes = _windows(f"max_pool{n}d", input, n, kernel_size, stride, padding, dilation, ceil_mode)
    if not return_indices and not (local.grad_enabled and input.requires_grad):
        return _MAX_POOL[n](input, axes)
    values, indices = _MAX_POOL_WITH_INDICES[n](input, axes)
    return (values, indices) if return_indices else values


@composite(method=False, reported=False)
def max_pool1d(
    input,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    ceil_mode: bool = False,
    return_indices: Truth = False,
):
    """Return the maxima over windows of ``(N, C, L)`` or ``(C, L)``; see :func:`max_pool2d`."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite(method=False, reported=False)
def max_pool2d(
    input,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    ceil_mode: bool = False,
    return_indices: Truth = False,
):
    """Return the maxima over windows of ``(N, C, H, W)`` or ``(C, H, W)``.

    Parameters
    ----------
    kernel_size, stride, padding, dilation
        One number, or one for each dimension; the stride is the kernel size by default. Padding is never the maximum.
    ceil_mode
        Whether windows may reach over the end.
    return_indices
        Return where the maxima are, too, as positions in the flattened image; the first one of those that are equal,
        -1 for a window that lies in the padding altogether.

    Raises
    ------
    RuntimeError
        If there is no window, or padding is more than half of one.

    Examples
    --------
    >>> rg.nn.functional.max_pool2d(rg.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite(method=False, reported=False)
def max_pool3d(
    input,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    ceil_mode: bool = False,
    return_indices: Truth = False,
):
    """Return the maxima over windows of ``(N, C, D, H, W)`` or ``(C, D, H, W)``; see :func:`max_pool2d`."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


# --- means --------------------------------------------------------------------------------------------------------


def mean_of_sums(input: Any, axes: Any, divisor: Any) -> Any:
    """The sums over windows, divided: in single precision for half, rounded towards zero for integers."""
    if input.dtype == np.float16:
        return (sums(input.astype(np.float32), axes) / divisor).astype(np.float16)
    total = sums(input, axes)
    if input.dtype.kind in "iu":
        return np.trunc(total / divisor).astype(input.dtype)
    return np.divide(total, divisor, out=total, dtype=total.dtype, casting="same_kind")


def mean_operation(name: str, n: int) -> Callable[..., Any]:
    """The operation that gives the means over windows along the last ``n`` dimensions."""
    node = "".join(part.capitalize() for part in name.split("_"))

    @linear(
        name=f"{name}{n}d",
        node_name=f"{node}{n}DBackward0",
        public=False,
        method=False,
        input=lambda g, axes, divisor: spread_windows(g / divisor, axes),
    )
    @samples_in_front
    def mean_over_windows(input, axes: Any, divisor: Any):
        """The sum over every window, divided by ``divisor``."""
        return mean_of_sums(input, axes, divisor)

    return mean_over_windows


_AVG_POOL = {n: mean_operation("avg_pool", n) for n in (1, 2, 3)}


def outer_product(lengths: Sequence[Sequence[int]]) -> Any:
    """The sizes of windows from their lengths along each dimension; one number, if all are equal."""
    first = [values[0] if len(values) else 1 for values in lengths]
    if all(len(set(values)) < 2 for values in lengths):
        return math.prod(first)
    return functools.reduce(np.multiply, np.ix_(*map(np.asarray, lengths)))


def _lengths(axis: Windows, count_include_pad: bool) -> list[int]:
    """How many elements of each window count."""
    starts = [i * axis.stride - axis.before for i in range(axis.number)]
    low, high = (-axis.before, axis.size + axis.before) if count_include_pad else (0, axis.size)
    return [min(start + axis.kernel, high) - max(start, low) for start in starts]


@functools.lru_cache(maxsize=16)  # they may be as many as the windows
def _elements_that_count(axes: Axes, count_include_pad: bool) -> Any:
    return outer_product([_lengths(axis, count_include_pad) for axis in axes])


def _avg_pool(
    n: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Tensor:
    name = f"avg_pool{n}d"
    axes = _windows(name, input, n, kernel_size, stride, padding, 1, ceil_mode)
    check_kind(name, "iuf", input)
    divisor_override = check_number(name, "divisor_override", divisor_override)
    if divisor_override == 0:
        raise RuntimeError(f"{name}(): divisor must be not zero")
    divisor = divisor_override
    if divisor is None:
        divisor = _elements_that_count(axes, count_include_pad)
    return _AVG_POOL[n](input, axes, divisor)


@composite(method=False, reported=False)
def avg_pool1d(
    input,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the means over windows of ``(N, C, L)`` or ``(C, L)``; see :func:`avg_pool2d`."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


@composite(method=False, reported=False)
def avg_pool2d(
    input,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the means over windows of ``(N, C, H, W)`` or ``(C, H, W)``.

    Parameters
    ----------
    kernel_size, stride, padding
        One number, or one for each dimension; the stride is the kernel size by default.
    ceil_mode
        Whether windows may reach over the end.
    count_include_pad
        Whether the padding counts, as zeros.
    divisor_override
        The divisor to use instead of the number of elements that count.

    Raises
    ------
    RuntimeError
        If there is no window, or padding is more than half of one.

    Examples
    --------
    >>> rg.nn.functional.avg_pool2d(rg.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@composite(method=False, reported=False)
def avg_pool3d(
    input,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the means over windows of ``(N, C, D, H, W)`` or ``(C, D, H, W)``; see :func:`avg_pool2d`."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


# --- p-norms ------------------------------------------------------------------------------------------------------


def _lp_pool(n: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    if math.isinf(norm_type):
        sizes, way = abs(input), math.copysign(1, norm_type)
        return _max_pool(n, sizes * way, kernel_size, stride, 0, 1, ceil_mode, False) * way
    elements = math.prod(per_dimension(f"lp_pool{n}d", "kernel_size", kernel_size, n))
    mean = _avg_pool(n, input**norm_type, kernel_size, stride, 0, ceil_mode, True)
    # the sign as in torch: a negative sum, which only odd powers give, has the norm 0
    return (sign(mean) * relu(abs(mean)) * elements) ** (1 / norm_type)


@composite(method=False)
def lp_pool1d(
    input, norm_type: float, kernel_size: IntOrInts, stride: IntOrInts | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the ``norm_type``-norms over windows of ``(N, C, L)`` or ``(C, L)``; see :func:`lp_pool2d`."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


@composite(method=False)
def lp_pool2d(
    input, norm_type: float, kernel_size: IntOrInts, stride: IntOrInts | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return ``sum(x ** norm_type) ** (1 / norm_type)`` over windows of ``(N, C, H, W)`` or ``(C, H, W)``.

    As in torch, the absolute value is not taken first, and where windows reach over the end (``ceil_mode``) the sum is
    the mean times the size of a whole window. The gradient where all elements are 0 is that of the formula, not finite.
    For ``inf`` it is the largest absolute value, for ``-inf`` the smallest.
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


@composite(method=False)
def lp_pool3d(
    input, norm_type: float, kernel_size: IntOrInts, stride: IntOrInts | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the ``norm_type``-norms over windows of ``(N, C, D, H, W)`` or ``(C, D, H, W)``; see :func:`lp_pool2d`."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
