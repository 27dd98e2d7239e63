"""Indexing: ``x[index]`` and ``x[index] = value``, in torch's reading of an index.

An index is read in two steps. Integers, slices, None and ... make a view; tensors, lists and masks then pick elements
of that view. (NumPy counts integers among the latter, which moves dimensions: compare ``x[0, :, [1, 2]]``.)
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from retrograd.batching import BatchedArray, as_array
from retrograd.core.errors import kind_name, no_tensor
from retrograd.core.layout import dense_copy, dense_like
from retrograd.core.op import kernel, linear, view
from retrograd.core.registry import add_method
from retrograd.core.sites import warn_user
from retrograd.core.state import local
from retrograd.core.tensor import Tensor, bump, wrap
from retrograd.ops._positions import ALL, add_picked, along
from retrograd.ops._rules import normalize_dim
from retrograd.ops.copying import cast, fill_value, number_to_fill, write

if TYPE_CHECKING:
    from retrograd.core.annotations import Index, Operand


# The dtypes of indices that pick elements.
_PICKING = frozenset(map(np.dtype, ("int64", "int32", "bool")))

# Other integers: of arrays, and of tensors that are one number.
_SMALL = frozenset(map(np.dtype, ("int8", "int16", "uint16", "uint32", "uint64")))

_NUMBERS = frozenset((bool, int, float, complex))

# --- views --------------------------------------------------------------------------------------------------------


@kernel(public=False, method=False, grad=lambda g, index: g[index])
def place(grad, shape: tuple[int, ...], index: tuple[Any, ...]):
    """Zeros of ``shape`` with ``grad`` at a basic index: the adjoint of taking a view."""
    result = np.zeros_like(grad, shape=shape)
    result[index] = grad
    return result


@view(input=lambda g, input_shape, dim, index: place(g, input_shape, along(dim % len(input_shape), index)))
def select(input, dim: int, index: int):
    """Return the view at position ``index`` of dimension ``dim``."""
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = normalize_dim(dim, input.ndim)
    size = input.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}"
        )
    return input[along(dim, index)]


@view(public=False, method=False, name="slice", input=lambda g, input_shape, index: place(g, input_shape, index))
def slice_(input, index: tuple[Any, ...]):
    """The view at a basic index."""
    return input[index]


@view(
    public=False, method=False, name="select", input=lambda g, input_shape, index: place(g, input_shape, (index, ...))
)
def _element(input, index: int):
    return input[index, ...]


# --- elements -----------------------------------------------------------------------------------------------------


@kernel(public=False, method=False, grad=lambda g, indices: index_(g, indices))
def add_at(grad, shape: tuple[int, ...], indices: Sequence[Any]):
    """Zeros of ``shape`` with ``grad`` added at the indices, also repeated ones: the adjoint of picking elements."""
    result = np.zeros_like(grad, shape=shape, order="C")
    whole = len(indices) == 1 and not isinstance(indices[0], slice)
    if whole and indices[0].dtype.kind == "b":  # a mask repeats nothing
        result[indices[0]] = grad
    else:
        add_picked(result, indices, grad)
    return result


@kernel(name="index", public=False, method=False, input=lambda g, input_shape, indices: add_at(g, input_shape, indices))
def index_(input, indices: Sequence[Any]):
    """The elements at indices; each is an array of integers, a mask, or the slice of everything."""
    dim = _only_dimension(indices)
    plain = type(input) is np.ndarray
    # for an empty array, NumPy's take would not say which index is out of bounds
    if dim is not None and input.shape[dim] and (input.flags.c_contiguous if plain else not dim):
        return input.take(indices[dim], dim)
    result = input[tuple(indices)]
    return _laid_out(input, indices, result) if plain else result


def _only_dimension(indices: Sequence[Any]) -> int | None:
    """The only dimension along which integers pick elements; None if the indices do more."""
    dim = len(indices) - 1
    if dim < 0 or _is_slice(indices[dim]) or indices[dim].dtype.kind == "b" or not all(map(_is_slice, indices[:dim])):
        return None
    return dim


def _is_slice(index: Any) -> bool:
    return type(index) is slice


def _laid_out(input: Any, indices: Sequence[Any], result: Any) -> Any:
    """The elements at indices, in the order in memory that their dimensions have in ``input``.

    NumPy puts the dimensions of the indices in front in memory, wherever they stand in the shape.
    """
    picked = [dim for dim, picks in enumerate(_dimensions(indices)) if picks]
    if not picked or (input.flags.c_contiguous and result.flags.c_contiguous):
        return result
    kept = [step for dim, step in enumerate(input.strides) if dim not in picked]
    first = picked[0] if picked[-1] - picked[0] < len(picked) else 0
    steps = (*kept[:first], *(0,) * (result.ndim - len(kept)), *kept[first:])
    copy = dense_like(as_strided(input, result.shape, steps, writeable=False))
    if copy.strides == result.strides:
        return result
    copy[...] = result
    return copy


def _dimensions(indices: Sequence[Any]) -> list[bool]:
    """For each dimension that indices use up, whether elements are picked along it."""
    return [not _is_slice(index) for index in indices for _ in range(_consumed(index))]


def _with_slices(indices: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(ALL if index is None else index for index in indices)


def _check_indices(indices: Sequence[Any]) -> None:
    for index in indices:
        if not isinstance(index, slice) and getattr(index, "dtype", None) not in _PICKING:
            raise IndexError(f"index_put: indices must be tensors of dtype long, int or bool, or None, not {index!r}")


def _values_for(input: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> Any:
    """The values, which must have the dtype of ``input``; one for a mask is converted, as ``masked_fill`` does."""
    if not hasattr(values, "dtype"):
        raise no_tensor("index_put", "argument 'values'", values)
    if values.dtype == input.dtype:
        return values
    picking = [index for index in indices if not isinstance(index, slice)]
    if accumulate or values.size != 1 or len(picking) != 1 or picking[0].dtype.kind != "b":
        raise RuntimeError(
            "index_put: Index put requires the source and destination dtypes match, got "
            f"{input.dtype} for the destination and {values.dtype} for the source; convert it with .to(x.dtype)"
        )
    return cast(number_to_fill("masked_fill", values.reshape(()), input.dtype), input.dtype)


def _leading_ones(shape: tuple[int, ...]) -> int:
    return next((k for k, length in enumerate(shape) if length != 1), len(shape))


def _picked_as(g: Any, indices: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """The gradient of values of ``shape``, which may have more dimensions, of length 1, than what they were put at."""
    picked = index_(g, indices)
    return picked.reshape((1,) * (len(shape) - picked.ndim) + picked.shape)


def _put(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> None:
    indices = _with_slices(indices)
    _check_indices(indices)
    values = _values_for(input, indices, values, accumulate)
    given = values.shape
    values = values.reshape(given[_leading_ones(given) :])  # which NumPy takes for a mask no more than torch does
    try:
        if accumulate:
            values = np.broadcast_to(values, input[indices].shape)
            add_picked(input, indices, values)
        else:
            input[indices] = values
    except (ValueError, TypeError):
        raise RuntimeError(
            f"index_put: shape mismatch: value tensor of shape {list(given)} cannot be broadcast to indexing "
            f"result of shape {list(input[indices].shape)}"
        ) from None


@linear(
    inplace=_put,
    input=lambda g, indices, accumulate: g if accumulate else blank_at(g, _with_slices(indices)),
    values=lambda g, indices, values_shape: _picked_as(g, _with_slices(indices), values_shape),
)
def index_put(input, indices: Sequence[Any], values, accumulate: bool = False):
    """Return ``input`` with ``values`` at the indices, or added to the values there.

    Parameters
    ----------
    indices
        A tuple of integer tensors or masks, as in ``input[indices]``.
    """
    result = dense_copy(input)
    _put(result, indices, values, accumulate)
    return result


@kernel(public=False, method=False, grad=lambda g, indices: blank_at(g, indices))
def blank_at(grad, indices: Sequence[Any]):
    """``grad`` with zeros at the indices."""
    result = np.copy(grad)
    result[tuple(indices)] = 0
    return result


# --- reading an index ---------------------------------------------------------------------------------------------


def _several(index: Any) -> bool:
    """Whether an index is several: a tuple or, as in old NumPy, a short list with a sequence, slice or None in it."""
    if isinstance(index, tuple):
        return True
    if not isinstance(index, list) or len(index) >= 32:
        return False
    several = any(
        item is None or item is ... or isinstance(item, (Tensor, np.ndarray, list, tuple, slice, range))
        for item in index
    )
    if several:
        warn_user(
            "Using a non-tuple sequence for multidimensional indexing is deprecated; "
            "use x[tuple(seq)] instead of x[seq]"
        )
    return several


def _as_picking(item: Any) -> Any:
    """A tensor, array or sequence as an index that picks elements: integers or a mask."""
    if not hasattr(item, "dtype"):
        item = np.asarray(item) if len(item) else np.zeros(0, np.int64)
    data = item._data if isinstance(item, Tensor) else item
    if data.dtype in _PICKING:
        return item
    if data.dtype in _SMALL and (data is item or not data.ndim):
        return data.astype(np.int64)  # numbers are numbers: arrays are read as lists are, tensors must have a dtype
    if data.dtype == np.uint8:
        warn_user("indexing with dtype retrograd.uint8 is now deprecated, please use a dtype retrograd.bool instead.")
        return data != 0
    raise IndexError(f"tensors used as indices must be long, int, byte or bool tensors, not {data.dtype}")


def _varies(item: Any) -> bool:
    """Whether it is an integer that differs between the samples of a ``vmap``: it picks as an array does."""
    data = item._data if isinstance(item, Tensor) else item
    return type(data) is BatchedArray and data.dtype.kind in "iu"


def _read_item(item: Any) -> Any:
    """One item of an index as None, ..., a bool, an int, a slice with positive step, or an array or tensor."""
    if item is None or item is ... or type(item) in (int, bool):
        return item
    if isinstance(item, slice):
        if item.step is not None and item.step <= 0:
            raise ValueError(
                "slice step cannot be zero" if item.step == 0 else "step must be greater than zero; use flip to reverse"
            )
        return item
    if isinstance(item, (Tensor, np.ndarray, list, tuple, range)) or hasattr(item, "__cuda_array_interface__"):
        item = _as_picking(item)
        return item if item.ndim or _varies(item) else item.item()
    if isinstance(item, np.bool):
        return bool(item)
    if isinstance(item, str):
        raise TypeError(f"an index cannot be the str {item!r}")
    if getattr(item, "ndim", 0) and hasattr(item, "__array__"):  # a column of a table, another library's tensor
        return _read_item(np.asarray(item))  # also one of a single element, which could be an int
    try:
        return operator.index(item)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            f"(got {type(item).__name__})"
        ) from None


def _consumed(item: Any) -> int:
    """How many dimensions an item uses up."""
    if item is None or item is ... or isinstance(item, bool):
        return 0
    return item.ndim if hasattr(item, "dtype") and item.dtype.kind == "b" else 1


def parse(index: Any, shape: tuple[int, ...]) -> tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]:
    """Read an index as the view to take first and the elements to pick of it; None where a step is not needed."""
    items = [_read_item(item) for item in index] if _several(index) else [_read_item(index)]
    consumed = sum(map(_consumed, items))
    if consumed > len(shape):
        raise IndexError(_too_many(len(shape), consumed))
    basic: list[Any] = []
    picked: list[Any] = []  # one for each dimension of the view
    dim = 0
    for item in items:
        if item is ...:
            missing = len(shape) - consumed
            consumed = len(shape)  # a second one stands for nothing
            basic += [ALL] * missing
            picked += [ALL] * missing
            dim += missing
        elif item is None or isinstance(item, slice):
            basic.append(item)
            picked.append(ALL)
            dim += item is not None
        elif isinstance(item, bool):
            basic.append(None)
            picked.append(np.array([item]))
        elif isinstance(item, int):
            if not -shape[dim] <= item < shape[dim]:
                raise IndexError(f"index {item} is out of bounds for dimension {dim} with size {shape[dim]}")
            basic.append(item)
            dim += 1
        else:
            width = _consumed(item)
            if item.dtype.kind == "b":
                _check_mask(item.shape, shape, dim)
            basic += [ALL] * width
            picked.append(item)
            dim += width
    taken = None if all(item == ALL for item in basic) else (*basic, ...)
    while picked and isinstance(picked[-1], slice):
        picked.pop()
    return taken, tuple(picked) or None


def _too_many(ndim: int, consumed: int) -> str:
    if not ndim:
        return "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number"
    return f"too many indices for tensor of dimension {ndim}: the index has {consumed}"


def _check_mask(mask: tuple[int, ...], shape: tuple[int, ...], dim: int) -> None:
    for k, size in enumerate(mask):
        if size != shape[dim + k]:
            raise IndexError(
                f"The shape of the mask {list(mask)} at index {k} does not match the shape of the indexed tensor "
                f"{list(shape)} at index {dim + k}"
            )


# --- x[index] -----------------------------------------------------------------------------------------------------


def _plainly_basic(index: Any) -> tuple[Any, ...] | None:
    """The index as NumPy takes it, if it is a slice, or a tuple of integers, slices, None and ..., as most are."""
    if type(index) is not tuple:
        index = (index,)
    dots = False
    for item in index:
        kind = type(item)
        if kind is slice:
            if item.step is not None and (type(item.step) is not int or item.step <= 0):
                return None
        elif item is ...:
            if dots:
                return None
            dots = True
        elif kind is not int and item is not None:
            return None
    return index if dots else (*index, ...)


def getitem(self: Tensor, index: Index) -> Tensor:
    """Return what ``index`` picks: a view for integers, slices, None and ..., a copy for tensors, lists and masks."""
    shape = self._data.shape
    if type(index) is int and shape and -shape[0] <= index < shape[0]:
        return _element(self, index)
    if type(index) is Tensor and shape and index._data.ndim and index._data.dtype == np.int64:
        return index_(self, (index,))
    plain = _plainly_basic(index)
    if plain is not None:
        try:
            return slice_(self, plain)
        except IndexError:  # raised anew below, where no variable keeps the error, which would keep the operands alive
            pass
        parse(index, shape)  # raises it in torch's words
        return slice_(self, plain)  # raises, if that has not
    basic, picked = parse(index, shape)
    if picked is None:
        return slice_(self, basic or (...,))
    return index_(self if basic is None else slice_(self, basic), picked)


def setitem(self: Tensor, index: Index, value: Operand) -> None:
    """Write ``value``, broadcast and converted, to what ``index`` picks. Gradients flow to it and to what stays."""
    if not isinstance(value, (Tensor, np.ndarray, np.generic, bool, int, float, complex)):
        raise TypeError(f"can't assign a {kind_name(value)} to a tensor of dtype {self.dtype}; make it a tensor first")
    if type(value) in _NUMBERS:
        _check_number(value, self._data.dtype)
    if index is False:
        return  # it picks nothing
    basic, picked = ((None, ...), None) if index is True else parse(index, self._data.shape)
    untied = self._meta is None and self._edge is None and local.before_write is None and local.tangents is None
    if untied and local.observer is None and _is_plain(value) and self._data.flags.writeable:
        _set_plain(self, basic, picked, value._data if isinstance(value, Tensor) else _as_written(self._data, value))
        return
    target = self if basic is None else slice_(self, basic)
    if not isinstance(value, Tensor):
        value = wrap(_as_written(self._data, value))
    if picked is None:
        target.copy_(_without_leading_ones(value, target.ndim))
    else:
        target.index_put_(picked, value)


def _delitem(self: Tensor, index: Any) -> None:
    raise TypeError("Tensor does not support deleting items; keep the others with x[mask], or join slices with cat")


def _check_number(value: Any, dtype: np.dtype) -> None:
    """Raise if a number cannot be stored in ``dtype``."""
    if type(value) is not complex and -128 <= value <= 127:
        return
    if dtype != np.float16 or type(value) is complex:  # torch makes infinities there
        fill_value("__setitem__", value, dtype)


def _as_written(data: Any, value: Any) -> Any:
    """A number or an array to be written to ``data``, in its dtype."""
    return cast(as_array(value), data.dtype)


def _without_leading_ones(value: Any, ndim: int) -> Any:
    extra = np.ndim(value) - ndim
    return value.reshape(value.shape[extra:]) if extra > 0 and set(value.shape[:extra]) == {1} else value


def _is_plain(value: Any) -> bool:
    """Whether nothing has to be recorded about writing ``value`` to a tensor without history."""
    return not isinstance(value, Tensor) or not (local.grad_enabled and value.requires_grad)


def _set_plain(self: Tensor, basic: Any, picked: Any, value: Any) -> None:
    """The same on the arrays alone."""
    data = self._data if basic is None else self._data[basic]
    if picked is None:
        write(data, _without_leading_ones(value, data.ndim))
    else:
        indices = [item._data if isinstance(item, Tensor) else item for item in picked]
        _put(data, indices, value)
    bump(self)


add_method("__getitem__", getitem)
add_method("__setitem__", setitem)
add_method("__delitem__", _delitem)
