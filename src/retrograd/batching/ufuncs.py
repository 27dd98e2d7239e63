"""NumPy's ufuncs on batched arrays (NEP 13)."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from retrograd.array_methods import outer
from retrograd.batching.array import BatchedArray, Levels, batched, has_room, levels_of, samples_apart, with_levels
from retrograd.batching.per_sample import change_samples, is_ours, per_sample
from retrograd.batching.products import matmul


def batched_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer ``np.exp(batched)``, ``np.add.reduce(batched)`` and the like."""
    for operand in inputs:
        if not is_ours(operand):
            return NotImplemented
    if method == "__call__":
        if "out" in kwargs or "where" in kwargs:
            return _with_targets(ufunc, inputs, **kwargs)
        return samples_apart(_call(ufunc, inputs, kwargs))
    if method == "reduce":
        return samples_apart(_reduce(ufunc, *inputs, **kwargs))
    if method == "accumulate":
        return samples_apart(_accumulate(ufunc, *inputs, **kwargs))
    if method == "at":
        return _at(ufunc, *inputs)
    if method == "outer":
        return outer(ufunc, *inputs, **kwargs)
    return per_sample(getattr(ufunc, method), inputs, kwargs)


def aligned(operands: Any, cores: Any = None) -> tuple[list[Any], Levels]:
    """Arrays that broadcast as the samples do: hidden axes, then the loop dimensions, then the core dimensions.

    Parameters
    ----------
    operands
        Batched arrays, arrays and numbers; the last two are left as they are.
    cores
        How many core dimensions each operand has; none, if not given.
    """
    levels = levels_of(operands)
    loops = 0
    for position, operand in enumerate(operands):
        loops = max(loops, getattr(operand, "ndim", 0) - (0 if cores is None else cores[position]))
    arrays = []
    for position, operand in enumerate(operands):
        if type(operand) is BatchedArray:
            operand = with_levels(operand, levels, loops + (0 if cores is None else cores[position]))
        arrays.append(operand)
    return arrays, levels


@functools.cache
def _core_dimensions(signature: str) -> tuple[int, ...]:
    """How many core dimensions each operand of a generalized ufunc has: (2, 1) for "(m,n),(n)->(m)"."""
    operands = signature.split("->")[0].strip("()").split("),(")
    return tuple(len(names.split(",")) if names else 0 for names in operands)


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    signature = ufunc.signature
    if signature is None:
        arrays, levels = aligned(inputs)
    elif ufunc is np.matmul and not kwargs:
        return matmul(*inputs)
    elif "?" in signature or "axes" in kwargs or kwargs.get("axis", -1) >= 0:
        return per_sample(ufunc, inputs, kwargs)
    else:
        arrays, levels = aligned(inputs, _core_dimensions(signature))
    return batched(ufunc(*arrays, **kwargs), levels)


def _with_targets(ufunc: np.ufunc, inputs: tuple[Any, ...], out: Any = None, where: Any = True, **kwargs: Any) -> Any:
    targets = () if out is None else out
    if ufunc.signature is not None or not is_ours(where):
        return _written(_call(ufunc, inputs, kwargs), targets)
    for target in targets:
        check_target(target, (*inputs, where))
    arrays, levels = aligned((*inputs, where, *targets))
    *arrays, where = arrays[: len(inputs) + 1]
    plain = tuple(None if target is None else with_levels(target, levels) for target in targets)
    result = ufunc(*arrays, out=plain or None, where=where, **kwargs)
    if not targets:
        return batched(result, levels)
    results = result if isinstance(result, tuple) else (result,)
    given = tuple(
        batched(part, levels) if target is None else target for part, target in zip(results, targets, strict=True)
    )
    return given if isinstance(result, tuple) else given[0]


def _written(result: Any, targets: tuple[Any, ...]) -> Any:
    results = result if isinstance(result, tuple) else (result,)
    for part, target in zip(results, targets, strict=False):
        if target is not None:
            target[...] = part
    return targets[0] if len(targets) == 1 else targets or result


def check_target(target: Any, operands: Iterable[Any]) -> None:
    """Raise unless there is room in ``target`` for what is computed from ``operands``."""
    if target is not None and not has_room(target, operands):
        raise RuntimeError(
            "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
            "extra_args that has more elements than `self`. This happened due to `other` being vmapped over but `self` "
            "not being vmapped over in a vmap. Please try to use out-of-place operators instead of inplace arithmetic; "
            "if self is a new tensor, create it from one that is vmapped over, for example with x.new_zeros(shape)."
        )


# --- methods of ufuncs ----------------------------------------------------------------------------------------------


def from_the_end(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes of a sample counted from the end, so that hidden ones do not matter; all of them for None."""
    if axis is None or (ndim == 0 and axis in (0, -1, (0,), (-1,))):  # which NumPy's reductions take
        return tuple(range(-ndim, 0))
    return tuple([each - ndim for each in normalize_axis_tuple(axis, ndim)])


def _reduce(ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None, **kwargs: Any) -> Any:
    if type(x) is not BatchedArray or kwargs.get("where", True) is not True:
        return _written(per_sample(ufunc.reduce, (x, axis, dtype), kwargs), out or ())
    axes = from_the_end(axis, x.ndim)
    return _written(BatchedArray(ufunc.reduce(x.array, axes, dtype, None, **kwargs), x.levels), out or ())


def _accumulate(ufunc: np.ufunc, x: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    if type(x) is not BatchedArray:  # the target is
        return _written(ufunc.accumulate(x, axis, dtype), out or ())
    (axis,) = from_the_end(axis, x.ndim)
    return _written(BatchedArray(ufunc.accumulate(x.array, axis, dtype), x.levels), out or ())


def _at(ufunc: np.ufunc, target: Any, positions: Any, *values: Any) -> None:
    """Combine values into ``target`` at ``positions``; of a vector, in one call for all samples."""
    check_target(target, (positions, *values))
    flat = target.array.reshape(-1)
    if target.ndim != 1 or np.ndim(positions) != 1 or not np.shares_memory(flat, target.array):
        change_samples(ufunc.at, (target, positions, *values))
        return
    levels = target.levels
    length = target.shape[0]
    hidden = target.hidden
    starts = np.arange(0, math.prod(hidden) * length, length).reshape((*hidden, 1))
    everywhere = with_levels(positions, levels)
    everywhere = np.where(everywhere < 0, everywhere + length, everywhere) + starts
    spread = [np.broadcast_to(with_levels(value, levels, 1), everywhere.shape).reshape(-1) for value in values]
    ufunc.at(flat, everywhere.reshape(-1), *spread)
