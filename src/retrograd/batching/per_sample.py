"""Functions without a rule, sample by sample: slow, and correct if every sample's result has the same shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from retrograd.batching.array import BatchedArray, Levels, batched, expanded, full_sizes, levels_of, lift


def is_ours(operand: Any) -> bool:
    """Whether an operand is an array, of NumPy's or CuPy's or batched, or no array at all; a Tensor is not."""
    kind = type(operand)
    return (
        kind is BatchedArray
        or kind is np.ndarray
        or not hasattr(kind, "__array_function__")
        or issubclass(kind, np.ndarray)
        or hasattr(operand, "__cuda_array_interface__")
    )


def _leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    else:
        yield value


_NO_BATCH = frozenset((np.ndarray, int, float, bool, str, type(None)))


def holds_batch(operands: Iterable[Any]) -> bool:
    """Whether there is a batched array among the operands, also inside lists."""
    for operand in operands:  # a loop, as most calls of a kernel come through here
        kind = type(operand)
        if kind in _NO_BATCH:
            continue
        if kind is BatchedArray:
            return True
        if (kind is tuple or issubclass(kind, (list, tuple))) and holds_batch(operand):
            return True
        if issubclass(kind, dict) and holds_batch(operand.values()):
            return True
    return False


def _replaced(value: Any, by: Callable[[BatchedArray], Any]) -> Any:
    """``value`` with other arrays in place of batched ones."""
    if type(value) is BatchedArray:
        return by(value)
    if isinstance(value, dict):
        return {key: _replaced(item, by) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and holds_batch(value):
        parts = [_replaced(item, by) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _of_sample(value: Any, at: dict[Any, int]) -> Any:
    """``value`` with its sample's arrays in place of batched ones: views, which may be written to."""

    def pick(batch: BatchedArray) -> Any:
        index = [at[level] if n != 1 else 0 for level, n in zip(batch.levels, batch.hidden, strict=True)]
        return batch.array[(*index, ...)]

    return _replaced(value, pick)


def _name_of(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


def per_sample(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], name: str = "") -> Any:
    """Call ``function`` for every sample, and join what it returns.

    Raises
    ------
    RuntimeError
        If the results differ in shape, or if there are no samples and the shape of a result cannot be determined.
    """
    name = name or _name_of(function)
    levels = levels_of(_leaves([list(args), kwargs]))
    sizes = full_sizes(levels)
    if 0 in sizes:
        return _joined([_of_made_up_sample(function, args, kwargs, name)], levels, name)
    results = [
        function(*_of_sample(list(args), at), **_of_sample(kwargs, at))
        for at in (dict(zip(levels, index, strict=True)) for index in np.ndindex(*sizes))
    ]
    return _joined(results, levels, name)


def _of_made_up_sample(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], name: str) -> Any:
    """What ``function`` returns for ones and, as they may be indices, integers that are zero."""

    def make_up(batch: BatchedArray) -> Any:
        return np.full(batch.shape, batch.dtype.kind in "fc", batch.dtype, like=batch.array)

    try:
        with np.errstate(all="ignore"):
            return function(*_replaced(list(args), make_up), **_replaced(kwargs, make_up))
    except Exception as error:
        raise RuntimeError(
            f"vmap: {name} has no batching rule, and with a batch of 0 samples the shape of its result cannot be "
            f"determined: {error}"
        ) from error


def change_samples(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> None:
    """Call a function that writes to its first argument for every sample."""
    levels = levels_of(_leaves([list(args), kwargs or {}]))
    for index in np.ndindex(*full_sizes(levels)):
        at = dict(zip(levels, index, strict=True))
        function(*_of_sample(list(args), at), **_of_sample(kwargs or {}, at))


def _joined(results: list[Any], levels: Levels, name: str) -> Any:
    first = results[0]
    if first is None or isinstance(first, (str, np.dtype, type)):
        return first
    if isinstance(first, (tuple, list)):
        if len({len(result) for result in results}) > 1:
            raise depends_on_data(name)
        parts = [_joined(list(column), levels, name) for column in zip(*results, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if len({np.shape(result) for result in results}) > 1:
        raise depends_on_data(name)
    stacked, sizes = np.stack(results), full_sizes(levels)
    if 0 in sizes:
        stacked = stacked[:0]  # the result of the made-up sample
    return BatchedArray(stacked.reshape(sizes + stacked.shape[1:]), levels)


def depends_on_data(name: str) -> RuntimeError:
    """The error of a function whose result has a shape that depends on the values in it."""
    return RuntimeError(
        f"vmap: the shape of the result of {name} depends on the data, so it may differ between samples and cannot be "
        "batched. Keep the shape fixed, for example with where(mask, x, 0) or x * mask in place of x[mask], or call "
        "the function in a loop over the samples."
    )


class RandomnessError(RuntimeError):
    """Random numbers that the mode of ``vmap`` rules out; drawing them sample by sample would be another mode."""


# The operations whose results have another shape for other values.
DYNAMIC = frozenset(["argwhere", "bincount", "index", "masked_select", "nonzero", "unique", "unique_consecutive"])


# The operations on matrices (and vectors) whose functions take further dimensions in front as a batch of their own.
OF_MATRICES = frozenset(["exponential", "lu_factor_ex", "permutation_matrix", "substitute"])


def compute_per_sample(name: str, function: Callable[..., Any], operands: Sequence[Any], writes: bool) -> Any:
    """Compute an operation that its function could not do for all samples at once.

    Parameters
    ----------
    name
        Of the operation.
    function
        Its function on arrays.
    operands
        All arguments.
    writes
        Whether the function writes its result over the first operand.
    """
    if writes:
        from retrograd.batching.ufuncs import check_target

        check_target(operands[0], _leaves(list(operands[1:])))
        return change_samples(function, operands)
    if name in OF_MATRICES:
        return in_front(function, operands)
    try:  # a method of an array does not know what to do with batched arguments; one of a batched array does
        return function(*_all_batched(operands))
    except (RandomnessError, IndexError):
        raise
    except Exception:
        if name in DYNAMIC:
            raise depends_on_data(name) from None
        return per_sample(function, operands, {}, name)


def in_front(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Call a function that takes further dimensions in front as a batch of its own, for all samples at once."""
    lifted = _all_batched(operands)
    leaves = [leaf for leaf in _leaves(lifted) if type(leaf) is BatchedArray]
    levels, ndim = levels_of(leaves), max(leaf.ndim for leaf in leaves)
    plain = [_replaced(operand, lambda batch: expanded(batch, levels, ndim)) for operand in lifted]
    return batched(function(*plain), levels)


def over_rows(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Call a function of matrices with as many rows, and of vectors for their columns: all samples' rows are rows.

    Vectors that differ from sample to sample make it one call for each sample.
    """
    levels = levels_of(operands)
    sizes = full_sizes(levels)
    merged, rows = [], 0
    for operand in operands:
        if isinstance(operand, (BatchedArray, np.ndarray)) and operand.ndim == 2:
            rows = operand.shape[0]
            operand = expanded(operand, levels).reshape(math.prod(sizes) * operand.shape[0], operand.shape[1])
        elif type(operand) is BatchedArray:
            if operand.array.size != operand.size:
                return per_sample(function, operands, {})
            operand = operand.array.reshape(operand.shape)
        merged.append(operand)

    def parted(result: Any) -> Any:
        return None if result is None else result.reshape(*sizes, rows, result.shape[1])

    result = function(*merged)
    return batched(tuple(map(parted, result)) if isinstance(result, tuple) else parted(result), levels)


def _all_batched(operands: Sequence[Any]) -> list[Any]:
    levels = levels_of(_leaves(list(operands)))
    return [_lifted(value, levels) for value in operands]


def _lifted(value: Any, levels: Levels) -> Any:
    if isinstance(value, (BatchedArray, np.ndarray)):
        return lift(value, levels)
    if isinstance(value, (list, tuple)) and any(isinstance(leaf, (BatchedArray, np.ndarray)) for leaf in value):
        return [_lifted(item, levels) for item in value]
    return value
