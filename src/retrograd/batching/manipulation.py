"""Rules for functions that arrange, join, pick and write elements, and for products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from retrograd.batching import products
from retrograd.batching.array import BatchedArray, expanded, full_sizes, levels_of, unbatched, with_levels
from retrograd.batching.per_sample import change_samples, depends_on_data
from retrograd.batching.rules import RULES, rule
from retrograd.batching.ufuncs import aligned, check_target, from_the_end
from retrograd.conjugate_views import UnresolvedArray

# NumPy's stubs do not know about batched arrays.
numpy: Any = np

# --- shape ------------------------------------------------------------------------------------------------------------

RULES[np.shape] = lambda a: a.shape
RULES[np.ndim] = lambda a: a.ndim
RULES[np.size] = lambda a, axis=None: a.size if axis is None else a.shape[axis]
RULES[np.reshape] = lambda a, /, shape, order="C", *, copy=None: a.reshape(shape, order=order)
RULES[np.ravel] = lambda a, order="C": a.ravel(order)
RULES[np.copy] = lambda a, order="K", subok=False: a.copy(order)
RULES[np.astype] = lambda x, dtype, /, *, copy=True, device=None: x.astype(dtype, copy=copy)
RULES[np.real] = lambda val: val.real
RULES[np.imag] = lambda val: val.imag
RULES[np.iscomplexobj] = lambda x: x.dtype.kind == "c"
RULES[np.isrealobj] = lambda x: x.dtype.kind != "c"


@rule(np.transpose, np.permute_dims)
def _transpose(a: BatchedArray, axes: Any = None) -> BatchedArray:
    ndim, k = a.ndim, len(a.levels)
    order = range(ndim)[::-1] if axes is None else normalize_axis_tuple(axes, ndim)
    if len(order) != ndim:
        raise ValueError("axes don't match array")
    return BatchedArray(a.array.transpose((*range(k), *(k + axis for axis in order))), a.levels)


@rule(np.swapaxes)
def _swapaxes(a: BatchedArray, axis1: int, axis2: int) -> BatchedArray:
    return BatchedArray(np.swapaxes(a.array, *_each_from_the_end((axis1, axis2), a.ndim)), a.levels)


@rule(np.moveaxis)
def _moveaxis(a: BatchedArray, source: Any, destination: Any) -> BatchedArray:
    places = (_each_from_the_end(axes, a.ndim) for axes in (source, destination))
    return BatchedArray(np.moveaxis(a.array, *places), a.levels)


@rule(np.matrix_transpose)
def _matrix_transpose(x: BatchedArray, /) -> BatchedArray:
    return x.mT


def _each_from_the_end(axes: Any, ndim: int) -> tuple[int, ...]:
    """Axes counted from the end; the same one may be there twice."""
    given: Any = (axes,) if isinstance(axes, (int, np.integer)) else axes
    return tuple([normalize_axis_index(axis, ndim) - ndim for axis in given])


@rule(np.expand_dims)
def _expand_dims(a: BatchedArray, axis: Any) -> BatchedArray:
    added = len(axis) if isinstance(axis, (tuple, list)) else 1
    return BatchedArray(np.expand_dims(a.array, from_the_end(axis, a.ndim + added)), a.levels)


@rule(np.squeeze)
def _squeeze(a: BatchedArray, axis: Any = None) -> BatchedArray:
    axes = tuple(k for k, n in enumerate(a.shape) if n == 1) if axis is None else axis
    return BatchedArray(np.squeeze(a.array, from_the_end(axes, a.ndim)), a.levels)


@rule(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> BatchedArray:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if array.ndim > len(shape):
        raise ValueError("input operand has more dimensions than allowed by the axis remapping")
    plain = with_levels(array, array.levels, len(shape))
    return BatchedArray(np.broadcast_to(plain, array.hidden + shape), array.levels)


@rule(np.broadcast_arrays)
def _broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    shape = np.broadcast_shapes(*(np.shape(arg) for arg in args))
    return tuple(np.broadcast_to(arg, shape) for arg in args)


@rule(np.atleast_1d)
def _atleast_1d(*arys: Any) -> Any:
    made = tuple(ary if np.ndim(ary) else np.reshape(ary, (1,)) for ary in arys)
    return made if len(made) > 1 else made[0]


@rule(np.atleast_2d)
def _atleast_2d(*arys: Any) -> Any:
    made = tuple(ary if np.ndim(ary) > 1 else np.reshape(ary, (1, -1)) for ary in arys)
    return made if len(made) > 1 else made[0]


# --- new arrays like a batched one: with room for every sample ----------------------------------------------------


def _new(a: Any, shape: Any) -> tuple[int, ...]:
    shape = a.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    return full_sizes(a.levels) + shape


def _making(function: Any) -> None:
    def answer(
        a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **_: Any
    ) -> BatchedArray:
        return BatchedArray(function(a.array, dtype=dtype, order=order, shape=_new(a, shape)), a.levels)

    RULES[function] = answer


_function: Any
for _function in (np.zeros_like, np.empty_like, np.ones_like):
    _making(_function)


@rule(np.full_like)
def _full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **_: Any
) -> Any:
    levels = levels_of((a, fill_value))
    whole = full_sizes(levels) + _new(a, shape)[len(a.levels) :]
    made = np.empty_like(a.array, dtype=dtype, order=order, shape=whole)
    made[...] = with_levels(fill_value, levels, made.ndim - len(levels))
    return BatchedArray(made, levels)


# --- elementwise ------------------------------------------------------------------------------------------------------


@rule(np.where)
def _where(condition: Any, *choices: Any) -> Any:
    if not choices:
        raise depends_on_data("where(condition)")
    arrays, levels = aligned((condition, *choices))
    return BatchedArray(np.where(*arrays), levels)


def _elementwise(function: Any, operands: int) -> None:
    """Register a function that treats its first parameters as a ufunc does."""

    def answer(*args: Any, **kwargs: Any) -> Any:
        if any(type(value) is BatchedArray for value in (*args[operands:], *kwargs.values())):
            return NotImplemented
        arrays, levels = aligned(args[:operands])
        return BatchedArray(function(*arrays, *args[operands:], **kwargs), levels)

    RULES[function] = answer


for _function in (np.nan_to_num, np.round, np.around, np.angle, np.sinc, np.i0, np.real_if_close, np.isposinf):
    _elementwise(_function, 1)
_elementwise(np.isneginf, 1)
_elementwise(np.isclose, 2)


@rule(np.clip)
def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **kwargs: Any) -> Any:
    a_min, a_max = kwargs.pop("min", a_min), kwargs.pop("max", a_max)
    given = [x for x in (a_min, a_max) if x is not None]
    if out is not None or kwargs or not given:
        return NotImplemented
    arrays, levels = aligned((a, *given))
    low = arrays[1] if a_min is not None else None
    return BatchedArray(np.clip(arrays[0], low, arrays[-1] if a_max is not None else None), levels)


def _describing(function: Any) -> None:
    """Register a function whose answer is the same for all samples, and for all of them together."""

    def answer(*args: Any, **kwargs: Any) -> Any:
        return function(*map(unbatched, args), **{key: unbatched(value) for key, value in kwargs.items()})

    RULES[function] = answer


for _function in (np.result_type, np.can_cast, np.min_scalar_type, np.shares_memory, np.may_share_memory):
    _describing(_function)


@rule(np.array_equal)
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    return NotImplemented if equal_nan or np.shape(a1) != np.shape(a2) else np.all(np.equal(a1, a2))


# --- joining and splitting --------------------------------------------------------------------------------------------


@rule(np.concatenate)
def _concatenate(arrays: Any, axis: int | None = 0, out: Any = None, **kwargs: Any) -> Any:
    if out is not None:
        return NotImplemented
    if axis is None:
        arrays, axis = [np.reshape(x, (-1,)) for x in arrays], 0
    levels = levels_of(arrays)
    (axis,) = from_the_end(axis, np.ndim(arrays[0]))
    if len({np.ndim(x) for x in arrays}) > 1:
        raise ValueError("all the input array dimensions except for the concatenation axis must match exactly")
    return BatchedArray(np.concatenate([expanded(x, levels) for x in arrays], axis, **kwargs), levels)


@rule(np.stack)
def _stack(arrays: Any, axis: int = 0, out: Any = None, **kwargs: Any) -> Any:
    if out is not None:
        return NotImplemented
    levels = levels_of(arrays)
    (axis,) = from_the_end(axis, np.ndim(arrays[0]) + 1)
    return BatchedArray(np.stack([expanded(x, levels) for x in arrays], axis, **kwargs), levels)


def _splitting(function: Any) -> None:
    def answer(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
        if type(indices_or_sections) is BatchedArray:
            raise depends_on_data(function.__name__)
        return [
            BatchedArray(part, ary.levels)
            for part in function(ary.array, indices_or_sections, normalize_axis_index(axis, ary.ndim) - ary.ndim)
        ]

    RULES[function] = answer


_splitting(np.split)
_splitting(np.array_split)


@rule(np.tile)
def _tile(A: Any, reps: Any) -> Any:
    reps = (reps,) if isinstance(reps, int) else tuple(reps)
    plain = with_levels(A, A.levels, len(reps))
    return BatchedArray(np.tile(plain, (1,) * len(A.levels) + (1,) * (A.ndim - len(reps)) + reps), A.levels)


@rule(np.repeat)
def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    if type(repeats) is BatchedArray:
        if 0 in repeats.hidden:
            raise depends_on_data("repeat")
        return NotImplemented  # sample by sample, as long as the repeats of every sample have the same sum
    if axis is None:
        a, axis = np.reshape(a, (-1,)), 0
    return BatchedArray(np.repeat(a.array, repeats, from_the_end(axis, a.ndim)[0]), a.levels)


@rule(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    if any(type(value) is BatchedArray for value in kwargs.values()) or isinstance(pad_width, dict):
        return NotImplemented
    widths = np.broadcast_to(pad_width, (array.ndim, 2)).tolist()
    plain = np.pad(array.array, [(0, 0)] * len(array.levels) + widths, mode, **kwargs)
    return BatchedArray(plain, array.levels)


@rule(np.flip)
def _flip(m: Any, axis: Any = None) -> Any:
    return BatchedArray(np.flip(m.array, from_the_end(axis, m.ndim)), m.levels)


@rule(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if type(shift) is BatchedArray:
        return NotImplemented
    if axis is None:
        return np.roll(np.reshape(a, (-1,)), shift, 0).reshape(a.shape)
    return BatchedArray(np.roll(a.array, shift, _each_from_the_end(axis, a.ndim)), a.levels)


@rule(np.rot90)
def _rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    return BatchedArray(numpy.rot90(m.array, k, _each_from_the_end(axes, m.ndim)), m.levels)


# --- diagonals --------------------------------------------------------------------------------------------------------


@rule(np.diagonal)
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    diagonal = np.diagonal(a.array, offset, *_each_from_the_end((axis1, axis2), a.ndim))
    if a.array.flags.writeable and isinstance(diagonal, (np.ndarray, UnresolvedArray)):
        diagonal.flags.writeable = True
    return BatchedArray(diagonal, a.levels)


@rule(np.trace)
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    return BatchedArray(numpy.trace(a.array, offset, *_each_from_the_end((axis1, axis2), a.ndim), dtype), a.levels)


def _triangle(function: Any) -> None:
    def answer(m: Any, k: int = 0) -> Any:
        return BatchedArray(function(m.array, k), m.levels) if m.ndim > 1 else NotImplemented

    RULES[function] = answer


_triangle(np.tril)
_triangle(np.triu)


# --- picking ----------------------------------------------------------------------------------------------------------


@rule(np.take)
def _take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    if out is not None or (mode != "raise" and type(indices) is BatchedArray):
        return NotImplemented
    if axis is None:
        a, axis = np.reshape(a, (-1,)), 0
    if type(indices) is BatchedArray:
        whole = a if type(a) is BatchedArray else BatchedArray(with_levels(a, indices.levels), indices.levels)
        return whole[(*(slice(None),) * normalize_axis_index(axis, np.ndim(a)), indices, ...)]
    return BatchedArray(numpy.take(a.array, indices, from_the_end(axis, a.ndim)[0], None, mode), a.levels)


@rule(np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    if axis is None:
        arr, axis = np.reshape(arr, (-1,)), 0
    levels = levels_of((arr, indices))
    (axis,) = from_the_end(axis, np.ndim(arr))
    return BatchedArray(np.take_along_axis(with_levels(arr, levels), with_levels(indices, levels), axis), levels)


# --- writing in place -------------------------------------------------------------------------------------------------


@rule(np.put_along_axis)
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    check_target(arr, (indices, values))
    if axis is None:
        return change_samples(np.put_along_axis, (arr, indices, values, None))
    where, what = (with_levels(x, arr.levels, arr.ndim) for x in (indices, values))
    where = np.broadcast_to(where, arr.hidden + where.shape[len(arr.levels) :])
    return np.put_along_axis(arr.array, where, what, from_the_end(axis, arr.ndim)[0])


@rule(np.copyto)
def _copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    check_target(dst, (src, where))
    (plain, source, mask), _ = aligned((dst, src, where))
    np.copyto(plain, source, casting, mask)


def _writing(function: Any) -> None:
    def answer(target: Any, *args: Any, **kwargs: Any) -> None:
        check_target(target, (*args, *kwargs.values()))
        change_samples(function, (target, *args), kwargs)

    RULES[function] = answer


for _function in (np.fill_diagonal, np.put, np.place, np.putmask):
    _writing(_function)


# --- products ---------------------------------------------------------------------------------------------------------

RULES.update(
    {
        np.dot: products.dot,
        np.einsum: products.einsum,
        np.inner: products.inner,
        np.kron: products.kron,
        np.outer: products.outer,
        np.tensordot: products.tensordot,
        np.vdot: products.vdot,
    }
)


@rule(np.cross)
def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    if axis is None or np.ndim(a) != np.ndim(b):
        return NotImplemented
    arrays, levels = aligned((a, b))
    (axis,) = from_the_end(axis, np.ndim(a))
    return BatchedArray(numpy.cross(*arrays, axis=axis), levels)


# --- what has no fixed shape ------------------------------------------------------------------------------------------


def _dynamic(function: Any) -> None:
    def answer(*args: Any, **kwargs: Any) -> Any:
        raise depends_on_data(function.__name__)

    RULES[function] = answer


for _function in (
    np.argwhere, np.compress, np.extract, np.flatnonzero, np.intersect1d, np.nonzero, np.setdiff1d,
    np.setxor1d, np.trim_zeros, np.union1d, np.unique, np.unique_all, np.unique_counts, np.unique_inverse,
    np.unique_values,
):  # fmt: skip
    _dynamic(_function)


@rule(np.bincount)
def _bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    if type(x) is BatchedArray:
        if 0 in x.hidden:
            raise depends_on_data("bincount")
        return NotImplemented  # every sample by itself, as long as there are as many counts in all of them
    # the places are the same for all, and so is the number of counts: every sample has as many of its own in a row
    count = max(minlength, int(x.max()) + 1 if x.size else 0)
    samples = math.prod(weights.hidden)
    places = x + np.arange(samples)[:, None] * count
    sums = numpy.bincount(places.reshape(-1), weights.array.reshape(-1), samples * count)
    sums = sums.reshape(*weights.hidden, count).astype(np.float64, copy=False)  # integers from NumPy if no samples
    return BatchedArray(sums, weights.levels)
