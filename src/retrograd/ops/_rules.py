"""Small functions that rules share. They work on arrays and on Tensors alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from retrograd.batching import unbatched
from retrograd.core.op import kernel
from retrograd.core.tensor import Tensor


def conj(value: Any) -> Any:
    """The complex conjugate; a real value as it is (``np.conj`` would copy it)."""
    try:
        is_complex = value.dtype.kind == "c"
    except AttributeError:  # a Python number
        return value.conjugate()
    return np.conj(value) if is_complex else value


def in_floats(value: Any, like: Any) -> Any:
    """``value``, with integers and booleans converted to the precision of ``like``, where they do not wrap around.

    NumPy would also compute functions of small ones in half precision.
    """
    if getattr(value, "dtype", like.dtype).kind not in "biu":
        return value
    return value.astype((like.real if like.dtype.kind == "c" else like).dtype)


def is_tensor(value: Any) -> bool:
    """Whether an argument is a tensor, or an array in place of one, and not a number."""
    return isinstance(value, (Tensor, np.ndarray))


def normalize_dim(dim: int, ndim: int) -> int:
    """A dimension counted from the front; as in torch, a 0-d tensor has a dimension 0, too."""
    if dim is True or dim is False:  # x.sort(True) reads as if it were descending
        raise TypeError(f"argument 'dim' must be int, not bool; pass {dim} by keyword, as in keepdim={dim}")
    return normalize_axis_index(dim, ndim or 1)


def normalize_dims(dims: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    """Dimensions counted from the front, each at most once."""
    if not isinstance(dims, Sequence):
        return (normalize_dim(dims, ndim),)
    counted = tuple(normalize_dim(dim, ndim) for dim in dims)
    for dim in counted:
        if counted.count(dim) > 1:
            raise ValueError(f"dim {dim} appears multiple times in the list of dims")
    return counted


def expand_reduced(g: Any, shape: tuple[int, ...], dim: int | Sequence[int] | None, keepdim: bool) -> Any:
    """The gradient ``g`` of a reduction over ``dim``, spread over ``shape`` again, as a view."""
    if g.ndim == 0 and (type(g) is np.ndarray or isinstance(g, np.generic)):
        # what np.broadcast_to makes of a number, in a tenth of its time
        spread: np.ndarray = np.ndarray(shape, g.dtype, g, 0, (0,) * len(shape))
        spread.flags.writeable = False
        return spread
    return np.broadcast_to(keep_reduced(g, shape, dim, keepdim), shape)


def keep_reduced(value: Any, shape: tuple[int, ...], dim: int | Sequence[int] | None, keepdim: bool) -> Any:
    """The result of a reduction over ``dim`` of ``shape``, or its gradient, shaped as by ``keepdim=True``."""
    if keepdim or dim is None or value.ndim in (0, len(shape)):
        return value
    reduced = normalize_dims(dim, len(shape))
    return value.reshape(tuple(1 if k in reduced else n for k, n in enumerate(shape)))


def not_implemented(operation: str, argument: str) -> Callable[[Any], Any]:
    """The rule for an argument whose derivative is not implemented; it raises where torch's does."""

    def rule(g: Any) -> Any:
        raise NotImplementedError(
            f"the derivative for '{operation}: {argument}' is not implemented; "
            f"if it needs no gradient, pass {argument}.detach()"
        )

    return rule


def zero(g: Any) -> Any:
    """The rule of a function that is constant almost everywhere."""
    return np.zeros_like(g)


def everywhere(condition: Any) -> bool:
    """Whether a condition holds for all elements and, in a batch, for all samples: then a shorter way may be taken."""
    return bool(np.all(unbatched(condition._data if isinstance(condition, Tensor) else condition)))


def somewhere(condition: Any) -> bool:
    """Whether a condition holds for any element, in a batch for that of any sample."""
    return bool(np.any(unbatched(condition._data if isinstance(condition, Tensor) else condition)))


def keep(g: Any, mask: Any) -> Any:
    """``g`` where ``mask`` is true and 0 elsewhere, even where ``g`` is not finite, unlike ``g * mask``."""
    return _keep_elements(g, mask) if type(g) is np.ndarray else _keep(g, mask)


def _keep_elements(g, mask):
    # the bits times 0 or 1: many times as fast as np.where, whose time depends on how well the mask can be predicted
    bits = _BITS.get(g.dtype.itemsize)
    return np.where(mask, g, 0) if bits is None else (g.view(bits) * mask).view(g.dtype)


_BITS = {2: np.int16, 4: np.int32, 8: np.int64}


@kernel(name="keep", public=False, method=False, g=lambda gg, mask: keep(gg, mask))
def _keep(g, mask):
    return _keep_elements(g, mask)


def choose(condition: Any, input: Any, other: Any) -> Any:
    """``np.where``, whose time depends on how well the condition can be predicted; by the bits, it is always short."""
    are_many = type(condition) is np.ndarray and condition.size >= _LARGE["f"]
    bits = _bits_of_all(condition, input, other) if are_many else None
    if bits is None:
        return np.where(condition, input, other)
    otherwise = other.view(bits)
    difference = input.view(bits) ^ otherwise
    difference = np.multiply(difference, condition, out=difference if difference.ndim else None)
    difference ^= otherwise
    return difference.view(input.dtype)


# Elements from which on it takes a quarter of the time where the condition cannot be predicted, and of float32 not
# more where it can, of float64 half as much again (measured).
_LARGE = {"f": 1 << 13, "d": 1 << 15}


def _bits_of_all(condition: Any, *values: Any) -> Any:
    """The integer dtype for the bits of floats; None if they have neither one element for each of a condition nor
    one for all."""
    shapes = condition.shape, ()
    if not all(isinstance(value, (np.ndarray, np.generic)) and value.shape in shapes for value in values):
        return None
    dtype, *others = (value.dtype for value in values)
    fits = condition.size >= _LARGE.get(dtype.char, np.inf) and all(other == dtype for other in others)
    return _BITS[dtype.itemsize] if fits else None


def tied(g: Any, to: Any) -> Any:
    """``g``, which does not depend on ``to``, with a zero derivative with respect to it.

    Where a function is linear piece by piece, its gradient depends on the operand, as the piece does. Without a tie
    the second derivative would be an error and not zero.
    """
    return g if type(g) is np.ndarray else _tied(g, to)


@kernel(
    name="tied",
    public=False,
    method=False,
    g=lambda gg, to: tied(gg, to),
    to=lambda gg, to: tied(np.zeros_like(gg), to),
)
def _tied(g, to):
    return g
