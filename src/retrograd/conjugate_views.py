"""The array whose memory holds the conjugates, or the negatives, of its numbers.

``conj()`` of a complex tensor is a view: it shares the tensor's memory, and what is written to one shows in the other.
NumPy has no such view. This type stands in its place behind NumPy's protocols: it stays what it is where only the
arrangement changes, is carried out ("resolved") where its numbers are wanted, and is undone where they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from retrograd.array_methods import ArrayBefore
from retrograd.batching.array import BatchedArray

# Functions of an array's arrangement, which give views where they can, or nothing but facts about it.
_ARRANGING = frozenset(
    (
        *(np.array_split, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.broadcast_arrays, np.broadcast_to),
        *(np.diagonal, np.dsplit, np.expand_dims, np.flip, np.fliplr, np.flipud, np.hsplit, np.moveaxis, np.ravel),
        *(np.reshape, np.rollaxis, np.rot90, np.split, np.squeeze, np.swapaxes, np.transpose, np.vsplit),
        *(np.lib.stride_tricks.sliding_window_view, np.may_share_memory, np.shares_memory, np.ndim, np.shape, np.size),
    )
)
# Functions that write to their first argument.
_WRITING = frozenset((np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask))


class UnresolvedArray(ArrayBefore):
    """An array whose memory holds the conjugates, or the negatives, of its numbers.

    Parameters
    ----------
    array
        What the memory holds.
    ufunc
        What is still to be done to it, ``np.conjugate`` or ``np.negative``: done twice, it is undone.
    """

    __slots__ = ("ufunc",)

    def __init__(self, array: np.ndarray, ufunc: np.ufunc) -> None:
        self.array = array
        self.ufunc = ufunc

    @property
    def torch_names(self) -> tuple[str, str]:
        """Torch's name for the pending state, and the tensor method that resolves it."""
        return ("conjugate", "resolve_conj") if self.ufunc is np.conjugate else ("negative", "resolve_neg")

    def resolved(self) -> np.ndarray:
        """The numbers, in memory of their own."""
        result: np.ndarray = np.asarray(self.ufunc(self.array))
        return result

    def _like(self, result: Any) -> Any:
        """The result of a function of the arrangement of :attr:`array`, as it would be for this array."""
        if type(result) in (list, tuple):
            return type(result)([self._like(item) for item in result])
        if not isinstance(result, (np.ndarray, np.generic)):  # a property such as the shape
            return result
        if type(result) is np.ndarray and (not result.size or np.may_share_memory(result, self.array)):
            return UnresolvedArray(result, self.ufunc)
        return self.ufunc(result)

    # --- what it looks like ---------------------------------------------------------------------------------------

    @property
    def flags(self) -> Any:
        return self.array.flags

    @property
    def storage(self) -> UnresolvedArray:
        """All of the memory that this is a part of, in one dimension."""
        owner = self.array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        elements = np.lib.stride_tricks.as_strided(owner, (owner.size,), (owner.itemsize,))
        return UnresolvedArray(elements.view(self.dtype), self.ufunc)

    @property
    def T(self) -> UnresolvedArray:  # noqa: N802 (NumPy's name)
        return UnresolvedArray(self.array.T, self.ufunc)

    @property
    def mT(self) -> UnresolvedArray:  # noqa: N802 (NumPy's name)
        return UnresolvedArray(self.array.mT, self.ufunc)

    @property
    def real(self) -> Any:
        return self.array.real if self.ufunc is np.conjugate else UnresolvedArray(self.array.real, self.ufunc)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> UnresolvedArray:
        return UnresolvedArray(self.array.imag, np.negative)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    def __contains__(self, value: Any) -> bool:
        return value in self.resolved()

    def __repr__(self) -> str:
        return f"UnresolvedArray({self.array!r}, {self.ufunc.__name__})"

    # --- its numbers ----------------------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("the values of a conjugated or negated view are not in memory, so they have to be copied")
        return self.resolved().astype(dtype or self.dtype, copy=False)

    def __getitem__(self, index: Any) -> Any:
        return self._like(self.array[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = self.ufunc(np.asarray(value).astype(self.dtype, copy=False))

    def __bool__(self) -> bool:
        return bool(self.array)

    def __int__(self) -> int:
        return int(self.resolved())

    def __float__(self) -> float:
        return float(self.resolved())

    def __complex__(self) -> complex:
        return complex(self.resolved())

    def get(self) -> np.ndarray:
        """A copy, as of an array on a GPU."""
        return self.resolved()

    def item(self, *index: int) -> Any:
        return self.resolved().item(*index)

    def tolist(self) -> Any:
        return self.resolved().tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        return self.resolved().tobytes(order)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> np.ndarray:
        return self.resolved().astype(dtype, *args, **kwargs)

    def copy(self, order: Any = "C") -> np.ndarray:
        return self.resolved().copy(order)

    # --- its arrangement ------------------------------------------------------------------------------------------

    def view(self, dtype: Any = None) -> Any:
        """The numbers' bits are not in memory as such, so that a view of them can only be one of a copy."""
        if dtype is not None and dtype != self.dtype:
            return self.resolved().view(dtype)
        return UnresolvedArray(self.array.view(), self.ufunc)

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        return self._like(self.array.reshape(*shape, **kwargs))

    def as_strided(self, shape: Sequence[int], strides: Sequence[int]) -> UnresolvedArray:
        return UnresolvedArray(np.lib.stride_tricks.as_strided(self.array, shape, strides), self.ufunc)

    # --- NumPy's protocols ----------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        function = getattr(ufunc, method)
        if method == "at":
            return _written(function, inputs[0], inputs[1:], kwargs)
        outs = kwargs.pop("out", ())
        room = _resolved(outs)
        if outs:
            kwargs["out"] = room
        result = function(*_resolved(inputs), **kwargs)
        for out, values in zip(outs, room, strict=True):
            if type(out) is UnresolvedArray:
                out[...] = values
        return outs[0] if len(outs) == 1 else outs or result

    def __array_function__(
        self, function: Callable[..., Any], types: Iterable[type], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        if function in _ARRANGING:
            return self._like(function(*_stored(args), **_stored(kwargs)))
        if function in _WRITING:
            return _written(function, args[0], args[1:], kwargs)
        out = kwargs.get("out")
        if type(out) is UnresolvedArray:
            out[...] = function(*_resolved(args), **_resolved({**kwargs, "out": None}))
            return out
        return function(*_resolved(args), **_resolved(kwargs))


def _written(function: Callable[..., Any], target: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Call a function that writes to ``target``."""
    values = _resolved(target)
    function(values, *_resolved(args), **_resolved(kwargs))
    if values is not target:
        target[...] = values


def _mapped(replace: Callable[[UnresolvedArray], np.ndarray], value: Any) -> Any:
    """Arguments with other arrays for unresolved ones."""
    if type(value) is UnresolvedArray:
        return replace(value)
    if type(value) in (list, tuple):
        return type(value)([_mapped(replace, item) for item in value])
    if type(value) is dict:
        return {name: _mapped(replace, item) for name, item in value.items()}
    return value


def _resolved(value: Any) -> Any:
    return _mapped(UnresolvedArray.resolved, value)


def _stored(value: Any) -> Any:
    return _mapped(lambda array: array.array, value)


def apply_lazily(ufunc: np.ufunc, array: Any) -> Any:
    """``ufunc(array)`` for ``np.conjugate`` or ``np.negative``, as a view of the same memory.

    In a batch it is a view of the memory of all samples. Arrays on a GPU are computed at once.
    """
    if type(array) is BatchedArray:
        return BatchedArray(apply_lazily(ufunc, array.array), array.levels)
    if type(array) is UnresolvedArray:
        return array.array.view() if array.ufunc is ufunc else UnresolvedArray(array.resolved(), ufunc)
    return UnresolvedArray(array, ufunc) if type(array) is np.ndarray else ufunc(array)


def resolve(array: Any) -> Any:
    """The array with its own numbers in memory: itself, unless it is an :class:`UnresolvedArray` or a batch of one."""
    if type(array) is BatchedArray:
        return BatchedArray(resolve(array.array), array.levels)
    return array.resolved() if type(array) is UnresolvedArray else array
