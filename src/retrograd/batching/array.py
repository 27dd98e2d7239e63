"""The array with hidden leading axes, and how axes are hidden and revealed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from retrograd.array_methods import ArrayMethods

_next_number = itertools.count().__next__


class Level:
    """One call of ``vmap``: what a hidden axis belongs to.

    Attributes
    ----------
    size : int
        The number of samples.
    number : int
        Larger than that of all levels made before; hidden axes are in this order.
    active : bool
        Whether the function that is mapped is running.
    randomness : str
        What random operations do: ``"error"``, ``"same"`` or ``"different"``.
    """

    __slots__ = ("active", "number", "randomness", "size")

    def __init__(self, size: int, randomness: str = "error") -> None:
        self.size = size
        self.number = _next_number()
        self.active = False
        self.randomness = randomness

    def __repr__(self) -> str:
        return f"<vmap {self.number} over {self.size} samples>"


Levels = tuple[Level, ...]


class BatchedArray(ArrayMethods):
    """An array that looks like one sample of a batch.

    Its first axes are hidden: :attr:`shape`, ``axis=`` and indices are those of a sample. A hidden axis is as long as
    its level, or 1 if all samples are the same.

    Parameters
    ----------
    array
        The samples, with the hidden axes in front.
    levels
        What the hidden axes belong to, in the order of their numbers.
    """

    __slots__ = ("array", "levels")

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: Any, levels: Levels) -> None:
        self.array = array
        self.levels = levels

    # --- what it looks like ---------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape[len(self.levels) :]

    @property
    def ndim(self) -> int:
        return self.array.ndim - len(self.levels)

    @property
    def size(self) -> int:
        size = 1
        for n in self.array.shape[len(self.levels) :]:
            size *= n
        return size

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def itemsize(self) -> int:
        return self.array.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.array.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        return self.array.strides[len(self.levels) :]

    @property
    def flags(self) -> Any:
        return self.array.flags

    @property
    def base(self) -> Any:
        return self.array  # arrays that share memory with it have the same owner

    @property
    def device(self) -> Any:
        return self.array.device

    @property
    def real(self) -> BatchedArray:
        return BatchedArray(self.array.real, self.levels)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> BatchedArray:
        return BatchedArray(self.array.imag, self.levels)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[BatchedArray]:
        return iter([self[k, ...] for k in range(len(self))])

    def __repr__(self) -> str:
        return f"BatchedArray({self.array!r}, levels={self.levels})"

    # --- what it cannot be: the value of one sample ---------------------------------------------------------------

    def __bool__(self) -> bool:
        """The truth value of all samples. An operation may branch on it only if they agree."""
        if self.array.all():
            return True
        if not self.array.any():
            return False
        raise RuntimeError(
            "vmap: a condition differs between the samples of the batch, so no branch is right for all of them; choose "
            "between results with where(condition, a, b) instead"
        )

    def item(self) -> Any:
        mapping = any(level.active for level in self.levels)
        escaped = (
            "" if mapping else " The mapped function has already returned: return the tensor as one of its results."
        )
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor (or int(), float(), bool(), an `if` or a loop over "
            "its value). We don't support vmap over calling .item() on a Tensor: its value differs between samples. "
            "Keep it a tensor; for a branch, compute both sides and choose with where(condition, a, b)." + escaped
        )

    tolist = item
    __int__ = __index__ = __float__ = __complex__ = item

    @property
    def data(self) -> Any:
        raise RuntimeError(
            "vmap: a batched tensor, which has a value for every sample, has no memory of its own. It cannot become a "
            "NumPy array, index one, or be written into a tensor that is not batched. Return it from the mapped "
            "function, index retrograd.from_numpy(array), or write out of place. A custom Function that computes with "
            "arrays needs a vmap method, or samples one by one: jacrev(f, chunk_size=1)."
        )

    __array_interface__ = data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.data

    def get(self) -> Any:
        return self.data

    # --- in-place operators, which need room for what is written ---------------------------------------------------

    def _combined(self, ufunc: np.ufunc, other: Any) -> BatchedArray:
        """``ufunc(self, other)``, written to ``self`` if that has room for every sample."""
        if has_room(self, (other,)):
            return ufunc(self, other, out=(self,))
        return ufunc(self, other).astype(self.dtype, copy=False)

    def __iadd__(self, other: Any) -> BatchedArray:
        return self._combined(np.add, other)

    def __isub__(self, other: Any) -> BatchedArray:
        return self._combined(np.subtract, other)

    def __imul__(self, other: Any) -> BatchedArray:
        return self._combined(np.multiply, other)

    def __itruediv__(self, other: Any) -> BatchedArray:
        return self._combined(np.true_divide, other)

    # --- NumPy's protocols ----------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from retrograd.batching.ufuncs import batched_ufunc

        return batched_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Iterable[type], args: Any, kwargs: Any) -> Any:
        from retrograd.batching.dispatch import batched_function

        return batched_function(self, function, types, args, kwargs)

    def __getitem__(self, index: Any) -> BatchedArray:
        from retrograd.batching.indexing import get

        return get(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        from retrograd.batching.indexing import put

        put(self, index, value)

    # --- ndarray's methods ----------------------------------------------------------------------------------------

    def _with(self, array: Any) -> BatchedArray:
        return BatchedArray(array, self.levels)

    @property
    def hidden(self) -> tuple[int, ...]:
        """The lengths of the hidden axes."""
        return self.array.shape[: len(self.levels)]

    def reshape(self, *shape: Any, order: Any = "C") -> BatchedArray:
        lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        if order not in ("C", None) or self.array.size == 0:
            lengths = np.broadcast_to(0, self.shape).reshape(lengths, order=order).shape
        if order == "F":
            return self.transpose().reshape(tuple(reversed(lengths))).transpose()
        try:
            return self._with(self.array.reshape(self.hidden + tuple(lengths)))
        except ValueError:
            raise ValueError(f"cannot reshape array of size {self.size} into shape {tuple(lengths)}") from None

    def astype(
        self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: Any = True, copy: bool = True
    ) -> Any:
        made = self.array.astype(dtype, order, casting, subok, copy)
        return self if made is self.array else samples_apart(self._with(made))

    def copy(self, order: Any = "C") -> BatchedArray:
        """A copy to write to: with room for every sample."""
        return samples_apart(self._with(np.broadcast_to(self.array, full_sizes(self.levels) + self.shape).copy(order)))

    def view(self, dtype: Any = None) -> BatchedArray:
        return self._with(self.array.view() if dtype is None else self.array.view(dtype))

    @property
    def T(self) -> BatchedArray:  # noqa: N802 (NumPy's name)
        return self.transpose()

    @property
    def mT(self) -> BatchedArray:  # noqa: N802 (NumPy's name)
        if self.ndim < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        return self._with(self.array.mT)

    def ravel(self, order: Any = "C") -> BatchedArray:
        return self.reshape((-1,), order=order)


# --- levels ---------------------------------------------------------------------------------------------------------


def full_sizes(levels: Levels) -> tuple[int, ...]:
    return tuple([level.size for level in levels])


def union(a: Levels, b: Levels) -> Levels:
    """The levels of both, in order."""
    return a if a == b else tuple(sorted({*a, *b}, key=lambda level: level.number))


def _sizes(operand: Any) -> dict[Level, int]:
    """How many samples of each level may differ."""
    if type(operand) is not BatchedArray:
        return {}
    return {level: n for level, n in zip(operand.levels, operand.hidden, strict=True) if n != 1}


def has_room(target: Any, operands: Iterable[Any]) -> bool:
    """Whether what is computed from ``operands`` can be written to ``target`` for every sample."""
    own = _sizes(target)
    return all(level in own for operand in operands for level in _sizes(operand))


def with_room(x: Any, target: Any, operand: Any) -> Any:
    """A copy of ``x`` with room for the samples that differ in ``operand``, though not in ``target``."""
    own = _sizes(target)
    return lift(x, tuple([level for level in _sizes(operand) if level not in own])).copy()


def levels_of(operands: Iterable[Any]) -> Levels:
    """All levels of the batched ones among ``operands``."""
    found: Levels | None = None
    for operand in operands:
        if type(operand) is BatchedArray:
            found = operand.levels if found is None or found is operand.levels else union(found, operand.levels)
    return found or ()


def with_levels(operand: Any, levels: Levels, ndim: int | None = None) -> Any:
    """The plain array behind ``operand``, with an axis for each of ``levels``.

    Parameters
    ----------
    operand
        A batched array of some of the levels, or one of none.
    ndim
        The number of dimensions to which a sample is padded with ones in front; as many as it has, if not given.
    """
    if type(operand) is not BatchedArray:
        operand = as_array(operand)
        shape = operand.shape
        return operand.reshape((1,) * (len(levels) + max((ndim or 0) - len(shape), 0)) + shape)
    array, own = operand.array, operand.levels
    shape = array.shape
    k = len(own)
    missing = 0 if ndim is None else ndim + k - len(shape)
    if own is levels or own == levels:
        return array if missing <= 0 else array.reshape(shape[:k] + (1,) * missing + shape[k:])
    lengths = dict(zip(own, shape, strict=False))
    return array.reshape(tuple([lengths.get(level, 1) for level in levels]) + (1,) * max(missing, 0) + shape[k:])


def expanded(operand: Any, levels: Levels, ndim: int | None = None) -> Any:
    """As :func:`with_levels`, with a full axis for each of ``levels``, as a view."""
    array = with_levels(operand, levels, ndim)
    return np.broadcast_to(array, full_sizes(levels) + array.shape[len(levels) :])


def batched(result: Any, levels: Levels) -> Any:
    """What a function returned for arrays with hidden axes, as batched arrays; None stays."""
    if isinstance(result, (tuple, list)):
        parts = [batched(part, levels) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return None if result is None else BatchedArray(result, levels)


def samples_apart(result: Any) -> Any:
    """A result with every sample contiguous in memory, as it would be without a batch.

    NumPy lays new arrays out as their operands are, among which the hidden axes may be the inner ones. A view stays.
    """
    if type(result) is BatchedArray:
        array = result.array
        if type(array) is np.ndarray and array.base is None and not array.flags.c_contiguous:
            k, steps = len(result.levels), array.strides
            if min(steps[:k], default=0) < max(steps[k:], default=0):
                order = [*range(k), *sorted(range(k, array.ndim), key=lambda axis: -steps[axis])]
                result.array = np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))
    elif type(result) in (tuple, list):
        for part in result:
            samples_apart(part)
    return result


def unbatched(value: Any) -> Any:
    """All samples of a batch in one array; anything else as it is."""
    return value.array if type(value) is BatchedArray else value


def as_array(value: Any) -> Any:
    """``np.asarray``, which leaves a batch, or an array on a GPU, as it is."""
    return value if type(value) is BatchedArray or hasattr(value, "__cuda_array_interface__") else np.asarray(value)


# --- hiding and revealing -------------------------------------------------------------------------------------------


def hide(x: Any, dim: int, level: Level) -> BatchedArray:
    """Make axis ``dim`` of ``x`` the hidden one of ``level``."""
    own: Levels = x.levels if type(x) is BatchedArray else ()
    array = x.array if type(x) is BatchedArray else x
    levels = union(own, (level,))
    axis = dim + len(own) if dim >= 0 else dim
    return BatchedArray(np.moveaxis(array, axis, levels.index(level)), levels)


def reveal(x: Any, dim: int, level: Level) -> Any:
    """Make the hidden axis of ``level`` axis ``dim`` of the result."""
    own: Levels = x.levels if type(x) is BatchedArray else ()
    position = own.index(level) if level in own else 0
    array = x.array if level in own else with_levels(x, (level, *own))
    rest = tuple(other for other in own if other is not level)
    if array.shape[position] != level.size:
        array = np.broadcast_to(array, (*array.shape[:position], level.size, *array.shape[position + 1 :]))
    array = np.moveaxis(array, position, dim + len(rest) if dim >= 0 else dim)
    return BatchedArray(array, rest) if rest else array


def lift(x: Any, levels: Levels) -> BatchedArray:
    """The same value for every sample of further ``levels``."""
    wanted = union(x.levels if type(x) is BatchedArray else (), levels)
    return BatchedArray(with_levels(x, wanted), wanted)


def total(x: Any, levels: Levels) -> Any:
    """The sum over all samples of ``levels``: the adjoint of :func:`lift`."""
    own: Levels = x.levels if type(x) is BatchedArray else ()
    array = x.array if own else x
    summed = tuple([position for position, level in enumerate(own) if level in levels])
    # an axis of length 1, or none at all, stands for as many equal samples
    times = 1
    for level in levels:
        if level not in own or array.shape[own.index(level)] != level.size:
            times *= level.size
    if summed:
        array = np.add.reduce(array, summed)
    if times != 1:
        array = array * array.dtype.type(times)
    rest = tuple(level for level in own if level not in levels)
    return BatchedArray(array, rest) if rest else np.asarray(array) if isinstance(array, np.generic) else array
