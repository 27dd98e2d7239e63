"""NumPy's functions that pick and place elements, on Tensors, with NumPy's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.batching import as_array
from retrograd.core.registry import implements, numpy_functions
from retrograd.core.tensor import Tensor, wrap
from retrograd.dtypes import from_numpy_dtype, from_numpys_name
from retrograd.ops import joining, selecting
from retrograd.ops._positions import ALL
from retrograd.ops._rules import normalize_dim
from retrograd.ops.indexing import index_
from retrograd.ops.numpy_functions.shape import as_tensor, as_tuple, refuse_out, tensors


def _raw(value: Any) -> Any:
    """The array of a Tensor; other values as NumPy reads them."""
    return value._data if isinstance(value, Tensor) else as_array(value)


def _within(places: Any, size: int, mode: str) -> Any:
    """Indices after NumPy's ``mode`` has dealt with those that lie outside."""
    if mode == "wrap":
        return places % size
    if mode == "clip":
        return np.clip(places, 0, size - 1)
    return places


# --- picking ------------------------------------------------------------------------------------------------------


@implements(np.take)
def _take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Tensor:
    refuse_out("take", out)
    a = as_tensor(a)
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = normalize_dim(axis, a.ndim)
    places = _within(_raw(indices), a.shape[axis], mode)
    selecting.check_bounds("take", places, axis, a.shape[axis], negative=True)
    return index_(a, (*(ALL,) * axis, places))


@implements(np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Tensor:
    return selecting.take_along_dim(as_tensor(arr), as_tensor(indices), axis)


@implements(np.compress)
def _compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Tensor:
    (places,) = _raw(condition).nonzero()
    return _take(a, places, axis, out)


@implements(np.extract)
def _extract(condition: Any, arr: Any) -> Tensor:
    (places,) = _raw(condition).reshape(-1).nonzero()
    return _take(arr, places)


@implements(np.choose)
def _choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Tensor:
    refuse_out("choose", out)
    chosen = _within(_raw(a), len(choices), mode)
    if chosen.size and not 0 <= chosen.min() <= chosen.max() < len(choices):
        raise ValueError(f"numpy.choose: invalid entry in choice array; there are {len(choices)} choices")
    shape = np.broadcast_shapes(chosen.shape, *(np.shape(choice) for choice in choices))
    stacked = joining.stack([choice.expand(shape) for choice in tensors(choices)])
    return selecting.gather(stacked, 0, wrap(np.broadcast_to(chosen, shape)[None]))[0]


@implements(np.select)
def _select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    if len(condlist) != len(choicelist):
        raise ValueError("numpy.select: list of cases must be same length as list of conditions")
    result: Any = as_tensor(default)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = np.where(as_tensor(condition), as_tensor(choice), result)
    return result


@implements(np.nonzero)
def _nonzero(a: Any) -> tuple[Tensor, ...]:
    return tuple(wrap(places) for places in a._data.nonzero())


@implements(np.flatnonzero)
def _flatnonzero(a: Any) -> Tensor:
    return wrap(np.flatnonzero(a._data))


@implements(np.argwhere)
def _argwhere(a: Any) -> Tensor:
    return selecting.argwhere(a)


# --- placing, in place --------------------------------------------------------------------------------------------


@implements(np.copyto)
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    if isinstance(dst, np.ndarray):
        np.copyto(dst, _numbers("copyto", src), casting, where=_raw(where))  # type: ignore[arg-type]
        return
    src = as_tensor(src)
    if not np.can_cast(src._data.dtype, dst._data.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(f"numpy.copyto: cannot cast from {src.dtype} to {dst.dtype} according to the rule '{casting}'")
    dst.copy_(src if where is True else np.where(as_tensor(where), src, dst))


def _numbers(name: str, value: Any) -> Any:
    """What is to be written into an ndarray, if it has no derivative to lose."""
    if isinstance(value, Tensor) and value.loses_derivative():
        raise TypeError(
            f"numpy.{name}: a Tensor cannot be written into an ndarray, which carries no gradient; write into a "
            "tensor, numpy.zeros_like(x, shape=...), or detach it"
        )
    return np.asarray(value)


@implements(np.put_along_axis)
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    if isinstance(arr, np.ndarray):
        np.put_along_axis(arr, _raw(indices), _numbers("put_along_axis", values), axis)
        return
    if axis is None:
        _put_flat("put_along_axis", arr, indices, values)
        return
    axis = normalize_dim(axis, arr.ndim)
    size = arr.shape[axis]
    places = _raw(indices)
    selecting.check_bounds("put_along_axis", places, axis, size, negative=True)
    shape = (*arr.shape[:axis], places.shape[axis], *arr.shape[axis + 1 :])
    places = np.broadcast_to(places % max(size, 1), shape)
    arr.scatter_(axis, wrap(places), as_tensor(values).to(arr.dtype).expand(shape))


@implements(np.put)
def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    _put_flat("put", a, ind, v, mode)


def _put_flat(name: str, a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """What ``np.put`` does, for the function that was called."""
    if isinstance(a, np.ndarray):
        np.put(a, _raw(ind), _numbers(name, v), mode)  # type: ignore[arg-type]
        return
    places = _within(_raw(ind), a.numel(), mode).reshape(-1)
    values = as_tensor(v).reshape(-1)
    if places.size:
        a.put_(wrap(places), _take(values, np.arange(places.size), mode="wrap").to(a.dtype))


@implements(np.place)
def _place(arr: Any, mask: Any, vals: Any) -> None:
    (places,) = _raw(mask).reshape(-1).nonzero()
    if places.size and not np.size(vals):
        raise ValueError("numpy.place: cannot insert from an empty array")
    _put_flat("place", arr, places, vals)


@implements(np.putmask)
def _putmask(a: Any, mask: Any, values: Any) -> None:
    (places,) = _raw(mask).reshape(-1).nonzero()
    _put_flat("putmask", a, places, _take(as_tensor(values), places, mode="wrap"))


def _add_at(a: Tensor, indices: Any, b: Any) -> None:
    """``np.add.at``: where an element is chosen several times, everything is added to it."""
    index = tuple(map(_raw_index, indices)) if isinstance(indices, tuple) else _raw_index(indices)
    places = np.arange(a.numel()).reshape(a.shape)[index]
    a.put_(wrap(np.asarray(places)), np.broadcast_to(as_tensor(b).to(a.dtype), places.shape), accumulate=True)


def _raw_index(index: Any) -> Any:
    return index._data if isinstance(index, Tensor) else index


numpy_functions[np.add, "at"] = _add_at
numpy_functions[np.subtract, "at"] = lambda a, indices, b: _add_at(a, indices, -as_tensor(b))


@implements(np.fill_diagonal)
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    places = np.arange(a.numel()).reshape(a.shape)
    marked = np.zeros(a.shape, bool)
    np.fill_diagonal(marked, True, wrap)
    _put_flat("fill_diagonal", a, places[marked], val)


# --- indices ------------------------------------------------------------------------------------------------------


@implements(np.ix_)
def _ix(*args: Any) -> tuple[Tensor, ...]:
    return tuple(map(wrap, np.ix_(*map(_raw, args))))


@implements(np.unravel_index)
def _unravel_index(indices: Any, shape: Any, order: Any = "C") -> tuple[Tensor, ...]:
    return tuple(wrap(np.asarray(places)) for places in np.unravel_index(_raw(indices), as_tuple(shape), order))


@implements(np.ravel_multi_index)
def _ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> Tensor:
    return wrap(np.asarray(np.ravel_multi_index(tuple(map(_raw, multi_index)), as_tuple(dims), mode, order)))


@implements(np.tril_indices_from)
def _tril_indices_from(arr: Any, k: int = 0) -> tuple[Tensor, ...]:
    return tuple(map(wrap, np.tril_indices_from(arr._data, k)))


@implements(np.triu_indices_from)
def _triu_indices_from(arr: Any, k: int = 0) -> tuple[Tensor, ...]:
    return tuple(map(wrap, np.triu_indices_from(arr._data, k)))


@implements(np.diag_indices_from)
def _diag_indices_from(arr: Any) -> tuple[Tensor, ...]:
    return tuple(map(wrap, np.diag_indices_from(arr._data)))


# --- tensors like others ------------------------------------------------------------------------------------------


def _like(function: Any, a: Any, *value: Any, dtype: Any, order: str, subok: bool, shape: Any) -> Tensor:
    wanted = from_numpy_dtype(a._data.dtype) if dtype is None else from_numpys_name(dtype)
    return wrap(function(a._data, *value, dtype=wanted.numpy, order=order, subok=subok, shape=shape))


@implements(np.zeros_like)
def _zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    return _like(np.zeros_like, a, dtype=dtype, order=order, subok=subok, shape=shape)


@implements(np.ones_like)
def _ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    return _like(np.ones_like, a, dtype=dtype, order=order, subok=subok, shape=shape)


@implements(np.empty_like)
def _empty_like(
    prototype: Any, /, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    return _like(np.empty_like, prototype, dtype=dtype, order=order, subok=subok, shape=shape)


@implements(np.full_like)
def _full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Tensor:
    if isinstance(fill_value, Tensor):
        result = _like(np.empty_like, a, dtype=dtype, order=order, subok=subok, shape=shape)
        return result.copy_(fill_value)
    return _like(np.full_like, a, fill_value, dtype=dtype, order=order, subok=subok, shape=shape)
