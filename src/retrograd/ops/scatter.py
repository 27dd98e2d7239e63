"""Placing values where an index tensor says, one index per value: scatter and its relatives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core import calls
from retrograd.core.op import kernel, linear
from retrograd.core.registry import add_method, composite, for_users
from retrograd.core.tensor import Tensor
from retrograd.ops._positions import add_along, along_dim, apart, combine_at, write_flat
from retrograd.ops._rules import conj, everywhere, is_tensor, normalize_dim
from retrograd.ops.copying import fill_value
from retrograd.ops.extremes import check_ordered
from retrograd.ops.indexing import place
from retrograd.ops.selecting import check_gather, elements_at, same_dtype, scatter_zeros

if TYPE_CHECKING:
    from retrograd.core.annotations import Operand, TensorOrArray


# --- scatter ------------------------------------------------------------------------------------------------------


@kernel(public=False, method=False, grad=lambda g, dim, index: blank_along(g, dim, index))
def blank_along(grad, dim: int, index):
    """``grad`` with zeros where gather would pick."""
    result = np.copy(grad)
    _set_at(result, along_dim(index, grad.shape, normalize_dim(dim, grad.ndim)), 0)
    return result


def _set_at(target: Any, positions: Any, values: Any) -> None:
    def change(flat: Any) -> None:
        flat[positions] = values

    write_flat(target, change)


def _corner(src: Any, index: Any) -> Any:
    """The part of ``src`` that has an index: all of it, if the shapes agree."""
    if not index.size:  # its shape need not be related to the shape of src
        return src.reshape(-1)[:0].reshape(index.shape)
    if index.ndim != src.ndim:  # one of them is a number, which counts as a vector
        return src.reshape(-1)[: index.size].reshape(index.shape)
    return src if src.shape == index.shape else src[(*(slice(length) for length in index.shape), ...)]


def _spread(picked: Any, shape: tuple[int, ...]) -> Any:
    """The adjoint of taking the corner."""
    if 0 in picked.shape or picked.ndim != len(shape):
        return place(picked.reshape(-1), (math.prod(shape),), (slice(math.prod(picked.shape)),)).reshape(shape)
    return picked if picked.shape == shape else place(picked, shape, (*(slice(n) for n in picked.shape), ...))


def _scatter_into(input: Any, dim: int, index: Any, src: Any) -> None:
    if hasattr(src, "dtype"):
        same_dtype("scatter", input, src, "src")
        dim = check_gather("scatter", index, dim, input.shape, src.shape)
        values = _corner(src, index)
    else:
        dim = check_gather("scatter", index, dim, input.shape)
        values = fill_value("scatter", src, input.dtype)
    _set_at(input, along_dim(index, input.shape, dim), values)


@linear(
    name="scatter",
    node_name=lambda src: f"ScatterBackward{int(not is_tensor(src))}",
    public=False,
    method=False,
    inplace=_scatter_into,
    input=lambda g, dim, index: blank_along(g, dim, index),
    src=lambda g, dim, index, src_shape: _spread(elements_at(g, dim, index), src_shape),
)
def _scatter(input, dim: int, index, src):
    result = input.copy()
    _scatter_into(result, dim, index, src)
    return result


def _add_into(input: Any, dim: int, index: Any, src: Any) -> None:
    same_dtype("scatter_add", input, src, "src")
    dim = check_gather("scatter_add", index, dim, input.shape, src.shape)
    add_along(input, index, dim, _corner(src, index))


@linear(
    inplace=_add_into,
    input=lambda g: g,
    src=lambda g, dim, index, src_shape: _spread(elements_at(g, dim, index), src_shape),
)
def scatter_add(input, dim: int, index, src):
    """Add ``src`` where ``index`` says: ``out[i, index[i, j]] += src[i, j]`` for ``dim=1``."""
    result = input.copy()
    _add_into(result, dim, index, src)
    return result


# --- scatter_reduce -----------------------------------------------------------------------------------------------

_UFUNCS = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _identity(reduce: str, dtype: np.dtype) -> Any:
    """The initial value of a reduction."""
    if reduce == "prod":
        return 1
    if reduce in ("sum", "mean"):
        return 0
    if dtype.kind == "f":
        return -np.inf if reduce == "amax" else np.inf
    if dtype.kind == "b":
        return reduce == "amin"
    return np.iinfo(dtype).min if reduce == "amax" else np.iinfo(dtype).max


def _reduce_into(input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> None:
    if not isinstance(reduce, str) or reduce not in _UFUNCS:
        raise RuntimeError(f"scatter_reduce: reduce must be sum, prod, mean, amax or amin, but got {reduce}")
    if reduce in ("amax", "amin"):
        check_ordered("scatter_reduce", input)
    same_dtype("scatter_reduce", input, src, "src")
    dim = check_gather("scatter_reduce", index, dim, input.shape, src.shape)
    if not include_self:  # elements overwritten first may be read afterwards
        index, src = apart(index, input), apart(src, input)
    positions = along_dim(index, input.shape, dim)
    if not include_self:
        _set_at(input, positions, _identity(reduce, input.dtype))
    combine_at(_UFUNCS[reduce], input, positions, _corner(src, index))
    if reduce == "mean":
        count = _counts(index, input.shape, dim, include_self)
        input[...] = input // count if input.dtype.kind in "biu" else input / count.astype(input.real.dtype)


def _counts(index: Any, shape: tuple[int, ...], dim: int, include_self: bool) -> Any:
    """How many elements are combined at each place; 1 where there are none."""
    counts = scatter_zeros(np.ones_like(index, dtype=np.int64), shape, dim, index)
    return counts + 1 if include_self else np.maximum(counts, 1)


def _reduce_back_input(
    g: Any, input: Any, dim: int, index: Any, src: Any, result: Any, reduce: str, include_self: bool
) -> Any:
    if not include_self:  # the old value stays where nothing was added, and does not count elsewhere
        return blank_along(g, dim, index)
    if reduce == "prod":
        return g * conj(reduced_at(np.ones_like(input), dim, index, src, "prod"))
    if reduce in ("amax", "amin"):
        return g * _share(input, dim, index, src, result, include_self) * (input == result)
    return g / _counts(index, input.shape, dim, include_self).astype(g.dtype) if reduce == "mean" else g


def _reduce_back_src(
    g: Any, input: Any, dim: int, index: Any, src: Any, result: Any, reduce: str, include_self: bool
) -> Any:
    used = _corner(src, index)
    if reduce == "mean":
        g = g / _counts(index, input.shape, dim, include_self).astype(g.dtype)
    elif reduce in ("amax", "amin"):
        g = g * _share(input, dim, index, src, result, include_self)
    picked = elements_at(g, dim, index)
    if reduce == "prod":
        picked = picked * conj(_other_factors(input, dim, index, used, result, include_self))
    elif reduce in ("amax", "amin"):
        picked = picked * (used == elements_at(result, dim, index))
    return _spread(picked, src.shape)


def _share(input: Any, dim: int, index: Any, src: Any, result: Any, include_self: bool) -> Any:
    """One over the number of elements that attain the extremum of their place."""
    attains = (_corner(src, index) == elements_at(result, dim, index)).astype(result.dtype)
    own = (input == result).astype(result.dtype)
    ties = scatter_zeros(attains, input.shape, dim, index) + (own if include_self else blank_along(own, dim, index))
    return 1 / np.where(ties == 0, 1, ties)


def _other_factors(input: Any, dim: int, index: Any, used: Any, result: Any, include_self: bool) -> Any:
    """The product of all other factors of the same place, for every factor, exact where some are zero."""
    zero = used == 0
    zeros = elements_at(scatter_zeros(zero.astype(np.int64), input.shape, dim, index), dim, index)
    factors = np.where(zero, 1, used)
    nonzero = elements_at(reduced_at(input, dim, index, factors, "prod", include_self), dim, index)
    others = np.where(zero, np.where(zeros == 1, nonzero, 0), elements_at(result, dim, index) / factors)
    if not everywhere(zeros <= 1):
        return only_once(
            others,
            "scatter_reduce(): Double backward is unsupported for src when >1 zeros in src are scattered to the same "
            "position in self",
        )
    return others


def _raise(message: str) -> Any:
    raise RuntimeError(message)


@kernel(public=False, method=False, input=lambda g, message: _raise(message))
def only_once(input, message: str):
    """``input`` itself, with a derivative that raises, as it would be wrong."""
    return input


@kernel(name="scatter_reduce", inplace=_reduce_into, input=_reduce_back_input, src=_reduce_back_src)
def reduced_at(input, dim: int, index, src, reduce: str, include_self: bool = True):
    """Reduce all of ``src`` that ``index`` sends to the same place, as :func:`scatter_add` does for the sum.

    Parameters
    ----------
    reduce
        ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``, whose gradient is shared by elements that tie.
    include_self
        Whether the elements of ``input`` take part.
    """
    result = input.copy()
    _reduce_into(result, dim, index, src, reduce, include_self)
    return result


scatter_reduce = for_users(reduced_at)


# --- torch's overloads --------------------------------------------------------------------------------------------


def _dispatch(inplace: bool, input: Any, dim: int, index: Any, src: Any, value: Any, reduce: str | None) -> Tensor:
    name = "scatter_" if inplace else "scatter"
    given = value if src is None else src
    if given is None:
        raise TypeError(f"{name}() needs src or value")
    if isinstance(given, np.generic):
        given = given.item()
    if reduce is None:
        return (
            calls.apply_inplace(_scatter.op, name, [input, dim, index, given])
            if inplace
            else _scatter(input, dim, index, given)
        )
    if reduce not in ("add", "multiply"):
        raise RuntimeError(f"{name}: reduce argument must be either add or multiply, but got {reduce}")
    if not isinstance(given, Tensor):
        given = input.detach().new_full(index.shape, given)
    return getattr(input, "scatter_reduce_" if inplace else "scatter_reduce")(
        dim, index, given, "sum" if reduce == "add" else "prod"
    )


@composite(out=True)
def scatter(
    input, dim: int, index, src: Operand | None = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """Place ``src``, a tensor or a number, where ``index`` says: ``out[i, index[i, j]] = src[i, j]`` for ``dim=1``.

    Parameters
    ----------
    reduce
        ``"add"`` or ``"multiply"`` to combine with the elements there.
    """
    return _dispatch(False, input, dim, index, src, value, reduce)


def scatter_(
    input: Tensor,
    dim: int,
    index: TensorOrArray,
    src: Operand | None = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    """In-place form of :func:`retrograd.scatter`."""
    return _dispatch(True, input, dim, index, src, value, reduce)


add_method("scatter_", scatter_)
