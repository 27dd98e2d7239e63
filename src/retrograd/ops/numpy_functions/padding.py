"""``np.pad`` on Tensors, in all of its modes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.core.registry import implements
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops import rearranging
from retrograd.ops._positions import along
from retrograd.ops.selecting import index_select

# the modes, and the option that each has beside the widths
_OPTIONS = {
    **dict.fromkeys(("maximum", "minimum", "mean", "median"), "stat_length"),
    **dict.fromkeys(("reflect", "symmetric"), "reflect_type"),
    **dict.fromkeys(("edge", "wrap", "empty"), ""),
    "constant": "constant_values",
    "linear_ramp": "end_values",
}
_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": np.max,
    "minimum": np.min,
    "mean": np.mean,
    "median": np.median,
}


@implements(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tensor:
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(dim, pad_width.get(dim - array.ndim, 0)) for dim in range(array.ndim)]
        pad_width = [width if np.ndim(width) else (width, width) for width in pad_width]
    widths = _by_side(pad_width, array.ndim)
    if callable(mode):
        raise TypeError("numpy.pad: padding functions are not supported for Tensors; concatenate the values instead")
    if mode not in _OPTIONS:
        raise ValueError(f"mode '{mode}' is not supported")
    foreign = set(kwargs) - {_OPTIONS[mode]}
    if foreign:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {foreign}")
    option = next(iter(kwargs.values()), None)
    if mode in ("constant", "empty"):
        return _pad_constant(array, widths, 0 if option is None else option)
    if mode in ("reflect", "symmetric") and option not in (None, "even", "odd"):
        raise ValueError(f"numpy.pad: reflect_type must be 'even' or 'odd', but got {option!r}")
    options = _by_side(option, array.ndim) if mode in _STATISTICS or mode == "linear_ramp" else None
    for dim, pair in enumerate(widths):
        if not any(pair):
            continue
        if not array.shape[dim]:
            raise ValueError(f"can't extend empty axis {dim} using modes other than 'constant' or 'empty'")
        if mode in _STATISTICS:
            array = _pad_statistic(array, dim, pair, _STATISTICS[mode], options[dim])  # type: ignore[index]
        elif mode == "linear_ramp":
            array = _pad_ramp(array, dim, pair, [0 if end is None else end for end in options[dim]])  # type: ignore[index]
        elif option == "odd" and array.shape[dim] > 1:
            array = _pad_odd(array, dim, pair, skip=int(mode == "reflect"))
        else:
            array = index_select(array, dim, wrap(np.pad(np.arange(array.shape[dim]), pair, mode)))
    return array


def _by_side(values: Any, ndim: int) -> list[list[Any]]:
    """What is given for all sides, for before and after, or for each side of each dimension."""
    if not _holds_tensor(values):
        return np.broadcast_to(np.asarray(values), (ndim, 2)).tolist()
    return [list(sides) for sides in np.broadcast_to(_stacked(values), (ndim, 2))]


def _holds_tensor(values: Any) -> bool:
    return isinstance(values, Tensor) or (isinstance(values, (list, tuple)) and any(map(_holds_tensor, values)))


def _stacked(values: Any) -> Any:
    """Nested sequences of numbers and tensors as one tensor."""
    return np.stack([_stacked(each) for each in values]) if isinstance(values, (list, tuple)) else values


def _pad_constant(array: Any, widths: list[list[int]], constant_values: Any = 0) -> Tensor:
    if not _holds_tensor(constant_values) and np.ndim(constant_values) == 0:
        return rearranging.constant_pad_nd(array, list(itertools.chain(*widths[::-1])), constant_values)
    values = _by_side(constant_values, array.ndim)
    for dim, (pair, sides) in enumerate(zip(widths, values, strict=True)):
        later = [0, 0] * (array.ndim - 1 - dim)
        for side in (0, 1):
            if isinstance(sides[side], Tensor):
                shape = (*array.shape[:dim], pair[side], *array.shape[dim + 1 :])
                border = np.broadcast_to(sides[side].to(array.dtype), shape)
                array = np.concatenate([border, array] if side == 0 else [array, border], axis=dim)
                continue
            array = rearranging.constant_pad_nd(array, [*later, *np.eye(2, dtype=int)[side] * pair[side]], sides[side])
    return array


def _pad_statistic(
    array: Any, dim: int, pair: list[int], statistic: Callable[..., Any], lengths: list[int | None]
) -> Any:
    """With a statistic of so many elements from each end, or of all."""
    size = array.shape[dim]
    first, last = (size if length is None else min(length, size) for length in lengths)
    if not (first and last) and statistic in (np.max, np.min):
        raise ValueError("stat_length of 0 yields no value for padding")

    def side(chosen: slice, width: int) -> Any:
        value = statistic(array[along(dim, chosen)], axis=dim, keepdims=True)
        value = np.rint(value) if array.dtype.kind in "iu" else value
        return np.repeat(value.astype(array.dtype.numpy), width, axis=dim)

    before, after = side(slice(first), pair[0]), side(slice(size - last, None), pair[1])
    return np.concatenate([before, array, after], axis=dim)


def _pad_ramp(array: Any, dim: int, pair: list[int], ends: list[Any]) -> Any:
    """With evenly spaced values from a number to the element at the border."""

    def ramp(width: int, end: Any, edge: Any, steps: Any) -> Any:
        values = end + (edge - end) * (steps / max(width, 1)).reshape((-1,) + (1,) * (array.ndim - 1 - dim))
        return (np.floor(values) if array.dtype.kind in "iu" else values).astype(array.dtype.numpy)

    (before, after), (first, last) = pair, ends
    left = ramp(before, first, array[along(dim, slice(1))], np.arange(before))
    right = ramp(after, last, array[along(dim, slice(-1, None))], np.arange(after)[::-1])
    return np.concatenate([left, array, right], axis=dim)


def _pad_odd(array: Any, dim: int, pair: list[int], skip: int) -> Any:
    """With what is reflected at the point of the border, ``skip`` if the border itself is not repeated."""
    before, after = pair
    while before or after:
        longest = array.shape[dim] - skip
        width = min(before, longest)
        if width:
            reflected = np.flip(array[along(dim, slice(skip, skip + width))], dim)
            array = np.concatenate([2 * array[along(dim, slice(1))] - reflected, array], axis=dim)
            before -= width
        width = min(after, longest)
        if width:
            end = array.shape[dim] - skip
            reflected = np.flip(array[along(dim, slice(end - width, end))], dim)
            array = np.concatenate([array, 2 * array[along(dim, slice(-1, None))] - reflected], axis=dim)
            after -= width
    return array
