"""NumPy's functions that reshape, join and rearrange, on Tensors: differentiable, with NumPy's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.batching import as_array
from retrograd.core.errors import check_plain
from retrograd.core.registry import implements
from retrograd.core.tensor import Tensor, wrap
from retrograd.dtypes import as_dtype, from_numpy_dtype
from retrograd.ops import diagonals, joining, rearranging, shape
from retrograd.ops._rules import normalize_dim, normalize_dims
from retrograd.ops.indexing import index_
from retrograd.ops.selecting import index_select


def as_tuple(values: Any) -> tuple[int, ...]:
    """NumPy's int-or-sequence as a tuple."""
    return (int(values),) if isinstance(values, int | np.integer) else tuple(values)


def tensors(values: Any) -> list[Tensor]:
    """A sequence of arrays and Tensors, or a Tensor to take apart, as a list of Tensors."""
    return [as_tensor(value) for value in values]


def as_tensor(value: Any) -> Tensor:
    """A Tensor as it is, an array of numbers as a Tensor."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray):
        check_plain(value)
    array = as_array(value)
    from_numpy_dtype(array.dtype)  # raises for dates, text and objects
    return wrap(array)


def refuse_out(name: str, out: Any) -> None:
    """Raise for an ``out=`` that cannot be honoured."""
    if out is not None:
        raise TypeError(f"numpy.{name}: out= is not supported for Tensors; assign to a slice, x[...] = result, instead")


def _check_order(name: str, order: str) -> None:
    if order not in ("C", "A", "K"):
        raise TypeError(
            f"numpy.{name}: order={order!r} is not supported for Tensors; transpose before and after instead"
        )


def _reverse(a: Any) -> Tensor:
    return shape.permute(a, tuple(range(a.ndim))[::-1])


# --- shapes -------------------------------------------------------------------------------------------------------


@implements(np.shape)
def _shape(a: Any) -> tuple[int, ...]:
    return tuple(a.shape)


@implements(np.ndim)
def _ndim(a: Any) -> int:
    return a.ndim


@implements(np.size)
def _size(a: Any, axis: Any = None) -> int:
    return np.size(a._data, axis)


@implements(np.reshape)
def _reshape(
    a: Any,
    shape_: Any = None,
    order: str = "C",
    *,
    shape: Any = None,
    newshape: Any = None,  # its name in NumPy 2.0
    copy: bool | None = None,
) -> Tensor:
    wanted = as_tuple(next(given for given in (shape_, shape, newshape) if given is not None))
    if order == "F":
        return _reverse(_reverse(a).reshape(wanted[::-1]))
    _check_order("reshape", order)
    result = a.reshape(wanted)
    if copy is False and not result._is_view():
        raise ValueError("Unable to avoid creating a copy while reshaping.")
    return result.clone() if copy and result._is_view() else result


@implements(np.ravel)
def _ravel(a: Any, order: str = "C") -> Tensor:
    if order == "F":
        return shape.ravel(_reverse(a))
    _check_order("ravel", order)
    return shape.ravel(a)


@implements(np.resize)
def _resize(a: Any, new_shape: Any) -> Tensor:
    wanted = as_tuple(new_shape)
    positions = np.arange(int(np.prod(wanted))) % max(a.numel(), 1)
    return index_(a.reshape(-1), (positions,)).reshape(wanted)


@implements(np.transpose)
def _transpose(a: Any, axes: Any = None) -> Tensor:
    return _reverse(a) if axes is None else shape.permute(a, as_tuple(axes))


@implements(np.matrix_transpose)
def _matrix_transpose(x: Any, /) -> Tensor:
    return x.mT


@implements(np.swapaxes)
def _swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    return shape.swapaxes(a, axis1, axis2)


@implements(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    return shape.movedim(a, as_tuple(source), as_tuple(destination))


@implements(np.rollaxis)
def _rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    axis = normalize_dim(axis, a.ndim)
    start = start + a.ndim if start < 0 else start
    return shape.movedim(a, axis, start - 1 if axis < start else start)


@implements(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> Tensor:
    if axis is None:
        return shape.squeeze(a)
    axes = normalize_dims(as_tuple(axis), a.ndim)
    if any(a.shape[dim] != 1 for dim in axes):
        raise ValueError(f"cannot select an axis to squeeze out which has size not equal to one: {axes} of {a.shape}")
    return shape.squeeze(a, axes)


@implements(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Tensor:
    axes = as_tuple(axis)
    for dim in sorted(normalize_dims(axes, a.ndim + len(axes))):
        a = shape.unsqueeze(a, dim)
    return a


@implements(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tensor:
    return array.broadcast_to(as_tuple(shape))


@implements(np.broadcast_arrays)
def _broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    if all(arg is not None for arg in args):
        return shape.broadcast_tensors(*tensors(args))
    # as libraries call it that draw, with None for settings that are not given
    given = iter(shape.broadcast_tensors(*tensors(arg for arg in args if arg is not None)))
    results = [None if arg is None else next(given) for arg in args]
    common = next(result for result in results if result is not None).shape
    return tuple([np.full(common, None) if result is None else result for result in results])


@implements(np.atleast_1d)
def _atleast_1d(*arys: Any) -> Any:
    return shape.atleast_1d(*tensors(arys))


@implements(np.atleast_2d)
def _atleast_2d(*arys: Any) -> Any:
    return shape.atleast_2d(*tensors(arys))


@implements(np.atleast_3d)
def _atleast_3d(*arys: Any) -> Any:
    return shape.atleast_3d(*tensors(arys))


# --- joining ------------------------------------------------------------------------------------------------------


def _cast(result: Tensor, dtype: Any) -> Tensor:
    return result if dtype is None else result.to(dtype=as_dtype(dtype))


@implements(np.concatenate)
def _concatenate(
    arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Tensor:
    refuse_out("concatenate", out)
    parts = tensors(arrays)
    if axis is None:
        return _cast(joining.cat([part.reshape(-1) for part in parts]), dtype)
    return _cast(joining.cat(parts, axis), dtype)


@implements(np.stack)
def _stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    refuse_out("stack", out)
    return _cast(joining.stack(tensors(arrays), axis), dtype)


@implements(np.hstack)
def _hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    return _cast(joining.hstack(tensors(tup)), dtype)


@implements(np.vstack)
def _vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    return _cast(joining.vstack(tensors(tup)), dtype)


@implements(np.dstack)
def _dstack(tup: Any) -> Tensor:
    return joining.dstack(tensors(tup))


@implements(np.column_stack)
def _column_stack(tup: Any) -> Tensor:
    return joining.column_stack(tensors(tup))


def _depth(blocks: Any) -> int:
    return 1 + max(map(_depth, blocks), default=0) if isinstance(blocks, list) else 0


def _leaves(blocks: Any) -> list[Any]:
    return [leaf for item in blocks for leaf in _leaves(item)] if isinstance(blocks, list) else [blocks]


@implements(np.block)
def _block(arrays: Any) -> Tensor:
    depth = _depth(arrays)
    return _joined(arrays, depth, max(depth, *(np.ndim(leaf) for leaf in _leaves(arrays))))


def _joined(blocks: Any, depth: int, ndim: int) -> Tensor:
    """The blocks of ``depth`` nested lists, the innermost along the last dimension."""
    if isinstance(blocks, list):
        return joining.cat([_joined(item, depth - 1, ndim) for item in blocks], -depth)
    (leaf,) = tensors([blocks])
    return leaf.reshape((1,) * (ndim - leaf.ndim) + tuple(leaf.shape))


@implements(np.append)
def _append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    return _concatenate((arr, values), axis)


@implements(np.insert)
def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    arr, values = tensors((arr, values))
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    axis = normalize_dim(axis, arr.ndim)
    length = arr.shape[axis]
    where = obj._data if isinstance(obj, Tensor) else obj
    count = np.arange(length)[where].size if isinstance(where, slice) else np.size(where)
    if np.ndim(where) == 0 and not isinstance(where, slice):
        # one place for all of the values, whose first axis then is the one inserted along
        values = values.reshape((1,) * (arr.ndim - values.ndim) + tuple(values.shape)).movedim(0, axis)
        count = values.shape[axis]
    values = values.to(arr.dtype).expand(*arr.shape[:axis], count, *arr.shape[axis + 1 :])
    places = np.insert(np.arange(length), where, np.arange(length, length + count))
    return index_select(joining.cat([arr, values], axis), axis, wrap(places))


@implements(np.delete)
def _delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    kept = np.delete(np.arange(arr.size(axis)), obj._data if isinstance(obj, Tensor) else obj)
    return index_select(arr, axis, wrap(kept))


# --- taking apart -------------------------------------------------------------------------------------------------


@implements(np.array_split)
def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return list(joining.tensor_split(ary, indices_or_sections, axis))


@implements(np.split)
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    if isinstance(indices_or_sections, int) and ary.size(axis) % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return _array_split(ary, indices_or_sections, axis)


@implements(np.hsplit)
def _hsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return list(joining.hsplit(ary, indices_or_sections))


@implements(np.vsplit)
def _vsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return list(joining.vsplit(ary, indices_or_sections))


@implements(np.dsplit)
def _dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return list(joining.dsplit(ary, indices_or_sections))


if hasattr(np, "unstack"):

    @implements(np.unstack)
    def _unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
        return joining.unbind(x, axis)


# --- repeating, rolling, flipping ---------------------------------------------------------------------------------


@implements(np.tile)
def _tile(A: Any, reps: Any) -> Tensor:
    return rearranging.tile(A, as_tuple(reps))


@implements(np.repeat)
def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Tensor:
    if not isinstance(repeats, (int, Tensor)):
        repeats = wrap(np.asarray(repeats))
    return rearranging.repeat_interleave(a, repeats, axis)


@implements(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    if axis is None:
        return rearranging.roll(a, int(np.sum(shift)))
    if type(shift) is int and type(axis) is int:
        return rearranging.roll(a, shift, axis)
    shifts, axes = np.broadcast_arrays(as_tuple(shift), as_tuple(axis))
    return rearranging.roll(a, tuple(shifts.tolist()), tuple(axes.tolist()))


@implements(np.flip)
def _flip(m: Any, axis: Any = None) -> Tensor:
    return rearranging.flip(m, tuple(range(m.ndim)) if axis is None else as_tuple(axis))


@implements(np.fliplr)
def _fliplr(m: Any) -> Tensor:
    return rearranging.fliplr(m)


@implements(np.flipud)
def _flipud(m: Any) -> Tensor:
    return rearranging.flipud(m)


@implements(np.rot90)
def _rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    return rearranging.rot90(m, k, axes)


@implements(np.trim_zeros)
def _trim_zeros(filt: Any, trim: str = "fb", **axis: Any) -> Tensor:
    if filt.ndim != 1 or axis.get("axis") is not None:
        raise TypeError("numpy.trim_zeros: only vectors are supported for Tensors; slice along the axis instead")
    (places,) = filt._data.nonzero()
    if not places.size:
        return filt[:0]
    start = places[0] if "f" in trim.lower() else 0
    stop = places[-1] + 1 if "b" in trim.lower() else filt.shape[0]
    return filt[int(start) : int(stop)]


# --- diagonals ----------------------------------------------------------------------------------------------------


@implements(np.diag)
def _diag(v: Any, k: int = 0) -> Tensor:
    return diagonals.diag(v, k)


@implements(np.diagflat)
def _diagflat(v: Any, k: int = 0) -> Tensor:
    return diagonals.diagflat(v, k)


@implements(np.diagonal)
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return diagonals.diagonal(a, offset, axis1, axis2)


@implements(np.tril)
def _tril(m: Any, k: int = 0) -> Tensor:
    return diagonals.tril(m, k)


@implements(np.triu)
def _triu(m: Any, k: int = 0) -> Tensor:
    return diagonals.triu(m, k)
