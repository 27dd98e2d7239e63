"""The largest and smallest elements, and where they are.

Equal extremes share the gradient in :func:`amax`, :func:`amin`, :func:`aminmax` and where a whole tensor is reduced;
along one dimension, :func:`max` and :func:`min` pick one.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from retrograd.core.errors import wrong_kind
from retrograd.core.op import op
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.ops._picking import lifted, picking
from retrograd.ops._reducing import Dims, axes_of, reduce
from retrograd.ops._rules import keep_reduced
from retrograd.ops.conditional import maximum, minimum

if TYPE_CHECKING:
    from retrograd import return_types
    from retrograd.core.annotations import TensorOrArray


# --- on arrays --------------------------------------------------------------------------------------------------------


def check_ordered(name: str, x: Any) -> None:
    """Raise for complex numbers, which have no order."""
    if x.dtype.kind == "c":
        raise NotImplementedError(
            f"{name}(): complex input, which has no order, is not supported; compare abs() or real"
        )


def check_reducible(name: str, x: Any, axis: Any) -> None:
    """Raise if an element of the result would be a reduction of no elements."""
    if x.size:
        return
    if axis is None:
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )
    for k in axis if isinstance(axis, tuple) else (axis,):
        if -x.ndim <= k < x.ndim and x.shape[k] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {k} to have non-zero size.")


def _extreme(name: str, ufunc: np.ufunc, x: Any, dim: Dims, keepdim: bool) -> Any:
    axis = axes_of(dim, x.ndim)
    check_ordered(name, x)
    check_reducible(name, x, axis)
    return reduce(ufunc, x, axis, keepdim)


# --- sharing the gradient ---------------------------------------------------------------------------------------------


def share_among(chosen: Any, g: Any, shape: tuple[int, ...], dim: Dims, keepdim: bool) -> Any:
    """Give ``g`` in equal parts to the ``chosen`` elements over ``dim``."""
    count = np.add.reduce(chosen, axis=axes_of(dim, len(shape)), keepdims=True, dtype=g.dtype)
    return chosen * (keep_reduced(g, shape, dim, keepdim) / count)


def _ties_rule(g, input, result, dim, keepdim):
    shape = input.shape
    return share_among(input == keep_reduced(result, shape, dim, keepdim), g, shape, dim, keepdim)


def share_ties(g, input, result):
    """The rule where the whole tensor is reduced to one of its elements: NaNs share, too."""
    chosen = (input == result) | (np.isnan(input) & np.isnan(result))
    return share_among(chosen, g, input.shape, None, False)


# --- several dimensions -----------------------------------------------------------------------------------------------


@op(input=_ties_rule)
def amax(input, dim: Dims = None, keepdim: bool = False):
    """Return the largest elements over ``dim``. Equal ones share the gradient.

    Raises
    ------
    IndexError
        If one of the dimensions has no elements.
    """
    return _extreme("amax", np.maximum, input, dim, keepdim)


@op(input=_ties_rule)
def amin(input, dim: Dims = None, keepdim: bool = False):
    """Return the smallest elements over ``dim``. Equal ones share the gradient."""
    return _extreme("amin", np.minimum, input, dim, keepdim)


def _aminmax_rule(g, input, min, max, dim, keepdim):
    return _ties_rule(g[0], input, min, dim, keepdim) + _ties_rule(g[1], input, max, dim, keepdim)


@op(outputs=("min", "max"), input=_aminmax_rule)
def aminmax(input, dim: int | None = None, keepdim: bool = False):
    """Return the smallest and the largest elements over ``dim``, as a named tuple ``(min, max)``."""
    return (
        _extreme("aminmax", np.minimum, input, dim, keepdim),
        _extreme("aminmax", np.maximum, input, dim, keepdim),
    )


# --- max and min ------------------------------------------------------------------------------------------------------


@op(name="max", node_name="MaxBackward1", public=False, method=False, input=share_ties)
def _max_of_all(input):
    return _extreme("max", np.maximum, input, None, False)


@op(name="min", node_name="MinBackward1", public=False, method=False, input=share_ties)
def _min_of_all(input):
    return _extreme("min", np.minimum, input, None, False)


@picking(name="max", public=False, method=False)
@lifted
def _max_along(input, dim: int, keepdim: bool):
    values = _extreme("max", np.maximum, input, dim, keepdim)
    return values, np.argmax(input, axis=dim, keepdims=keepdim)


@picking(name="min", public=False, method=False)
@lifted
def _min_along(input, dim: int, keepdim: bool):
    values = _extreme("min", np.minimum, input, dim, keepdim)
    return values, np.argmin(input, axis=dim, keepdims=keepdim)


@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(
    input: Tensor, dim: int, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.max: ...
@overload
def max(input: TensorOrArray, other: TensorOrArray, /, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: TensorOrArray, *, other: TensorOrArray, out: Tensor | None = None) -> Tensor: ...
@composite()
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
    """Return the largest element; or those along ``dim`` with their indices; or, of two tensors, the larger elements.

    ``max(x)`` shares the gradient among equal elements; ``max(x, dim)`` gives it to the one it picked and returns a
    named tuple ``(values, indices)``; ``max(x, y)`` is ``maximum(x, y)``.

    >>> rg.max(rg.tensor([[1.0, 3.0], [4.0, 2.0]]), dim=1).indices
    tensor([1, 0])
    """
    if dim is None and other is None and not keepdim:
        return _max_of_all(input, out=out)
    if other is not None or isinstance(dim, (Tensor, np.ndarray)):
        return maximum(input, dim if other is None else other, out=out)
    return _max_along(input, _one_dim("max", dim), keepdim, out=out)


@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(
    input: Tensor, dim: int, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.min: ...
@overload
def min(input: TensorOrArray, other: TensorOrArray, /, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: TensorOrArray, *, other: TensorOrArray, out: Tensor | None = None) -> Tensor: ...
@composite()
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
    """Return the smallest element; or those along ``dim`` with their indices; or, of two tensors, the smaller elements.

    See :func:`max`.
    """
    if dim is None and other is None and not keepdim:
        return _min_of_all(input, out=out)
    if other is not None or isinstance(dim, (Tensor, np.ndarray)):
        return minimum(input, dim if other is None else other, out=out)
    return _min_along(input, _one_dim("min", dim), keepdim, out=out)


def _one_dim(name: str, dim: Any) -> int:
    if isinstance(dim, bool):
        raise wrong_kind(name, "argument 'dim'", "int", dim)
    try:
        return operator.index(dim)
    except TypeError:
        raise TypeError(
            f"{name}(): dim must be one int (or a tensor, for {name}imum), not {dim!r}; "
            f"a{name} reduces several dimensions"
        ) from None


# --- where they are ---------------------------------------------------------------------------------------------------


def _index_of_extreme(name: str, function: Any, x: Any, dim: int | None, keepdim: bool) -> Any:
    if x.dtype.kind in "bc":
        raise RuntimeError(f"{name}(): does not support {x.dtype} input")
    if x.size == 0 and dim is None:
        raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
    check_reducible(name, x, dim)
    return function(x, axis=dim, keepdims=keepdim)


@op()
@lifted
def argmax(input, dim: int | None = None, keepdim: bool = False):
    """Return the index of the largest element along ``dim``, the first if several are equal; without ``dim``, in the
    flattened tensor."""
    return _index_of_extreme("argmax", np.argmax, input, dim, keepdim)


@op()
@lifted
def argmin(input, dim: int | None = None, keepdim: bool = False):
    """Return the index of the smallest element along ``dim``, the first if several are equal; without ``dim``, in the
    flattened tensor."""
    return _index_of_extreme("argmin", np.argmin, input, dim, keepdim)


__all__ = ["amax", "amin", "aminmax", "argmax", "argmin", "max", "min"]
