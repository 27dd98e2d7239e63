"""Repeating, rolling, flipping and padding: copies with the elements in other places."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.batching import BatchedArray
from retrograd.core.layout import dense_copy, row_major
from retrograd.core.op import kernel, linear
from retrograd.core.registry import add_method, composite, for_users
from retrograd.core.size import as_int
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops._checks import check_tensor
from retrograd.ops._positions import along
from retrograd.ops._reducing import add_reduce
from retrograd.ops._rules import everywhere, normalize_dim, normalize_dims
from retrograd.ops._windows import Slices
from retrograd.ops.copying import fill_value
from retrograd.ops.selecting import index_select

if TYPE_CHECKING:
    from retrograd.core.annotations import TensorOrArray


# --- repeating ----------------------------------------------------------------------------------------------------


def _interleaved(shape: Sequence[int], repeats: Sequence[int]) -> tuple[int, ...]:
    """The shape in which every dimension of a repeated tensor is split into (how often, how long)."""
    shape = (*(1,) * (len(repeats) - len(shape)), *shape)
    return tuple(length for pair in zip(repeats, shape, strict=True) for length in pair)


def _repeated(input: Any, repeats: Sequence[int]) -> Any:
    if any(times < 0 for times in repeats):
        raise RuntimeError(f"repeat: Trying to create tensor with negative dimension: repeats are {list(repeats)}")
    parts = np.empty_like(input, shape=_interleaved(input.shape, repeats), order="C")
    parts[...] = input.reshape(_interleaved(input.shape, (1,) * len(repeats)))
    return parts.reshape([parts.shape[k] * parts.shape[k + 1] for k in range(0, parts.ndim, 2)])


def _repeat_back(g: Any, input_shape: tuple[int, ...], repeats: Sequence[int]) -> Any:
    parts = g.reshape(_interleaved(input_shape, repeats))
    return np.sum(parts, axis=tuple(range(0, parts.ndim, 2))).reshape(input_shape)


@linear(variadic="repeats", input=_repeat_back)
def repeat(input, repeats: Sequence[int]):
    """Repeat a tensor as often along each dimension as ``repeats`` says, which may name new leading dimensions."""
    if len(repeats) < input.ndim:
        raise RuntimeError(
            "repeat: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor, but "
            f"repeats are {list(repeats)} for shape {list(input.shape)}"
        )
    return _repeated(input, repeats)


def _for_all(dims: Sequence[int], ndim: int) -> tuple[int, ...]:
    """How often to repeat along each dimension, if ``dims`` names only the last ones."""
    return (*(1,) * (ndim - len(dims)), *dims)


@linear(
    variadic="dims",
    node_name="RepeatBackward0",
    input=lambda g, input_shape, dims: _repeat_back(g, input_shape, _for_all(dims, len(input_shape))),
)
def tile(input, dims: Sequence[int]):
    """Repeat a tensor as :func:`repeat` does; if ``dims`` has too few entries, along its last dimensions."""
    return _repeated(input, _for_all(dims, input.ndim))


def _repeat_each_back(g: Any, input_shape: tuple[int, ...], repeats: int, dim: int) -> Any:
    return add_reduce(g.reshape(*input_shape[: dim + 1], repeats, *input_shape[dim + 1 :]), dim + 1)


@linear(name="repeat_interleave", public=False, method=False, input=_repeat_each_back)
def _repeat_each(input, repeats: int, dim: int):
    return np.repeat(input, repeats, dim)


@composite()
def repeat_interleave(
    input: Tensor | None = None,
    repeats: int | TensorOrArray | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """Repeat every element (every position of ``dim``) the given number of times, or each its own number of times.

    ``repeat_interleave(repeats)`` returns each index as often as ``repeats`` says.

    >>> rg.repeat_interleave(rg.tensor([1, 2]), rg.tensor([2, 1])).tolist()
    [1, 1, 2]
    """
    if input is None or repeats is None:
        repeats = check_tensor("repeat_interleave", repeats if input is None else input)
        input, dim = wrap(np.arange(repeats.numel(), like=repeats._data)), 0
    if dim is None:
        input, dim = input.reshape(-1), 0
    elif not input.ndim:
        input = input.reshape(1)
    dim = normalize_dim(dim, input.ndim)
    times = _times(repeats)
    if times.dtype.kind not in "iu":
        raise NotImplementedError(f'"repeat_interleave" not implemented for repeats of dtype {times.dtype}')
    if not everywhere(times >= 0):
        raise RuntimeError("repeat_interleave: Repeats must be non-negative")
    length = input.shape[dim]
    if times.ndim > 1 or times.size not in (1, length):
        raise RuntimeError(
            "repeat_interleave: repeats must have the same size as input along dim, but got "
            f"repeats of shape {list(times.shape)} and input.size({dim}) = {length}"
        )
    is_batched = type(times) is BatchedArray
    each = int(times.reshape(())) if times.size == 1 and not is_batched else None
    if each is None:
        # a batch must be in the first argument, as NumPy dispatches on that alone
        positions = np.repeat(np.arange(length) + np.zeros_like(times, np.int64), times)
    total = len(positions) if each is None else each * length
    if output_size is not None and output_size != total:
        raise RuntimeError(f"repeat_interleave: output_size is {output_size}, but the repeats add up to {total}")
    if each is not None:
        return _repeat_each(input, each, dim)
    return index_select(input, dim, wrap(positions if is_batched else np.asarray(positions, like=input._data)))


def _times(repeats: Any) -> Any:
    """How often to repeat, as an array on the CPU, which says how large the result is."""
    if not isinstance(repeats, Tensor):
        return np.asarray(repeats)
    return repeats._data if type(repeats._data) is BatchedArray else repeats.numpy(force=True)


# --- rolling and flipping -----------------------------------------------------------------------------------------


def _negated(values: int | Iterable[int]) -> Any:
    return -values if isinstance(values, int) else tuple(-value for value in values)


def _rolled(dims: Any) -> Any:
    """NumPy's ``axis``: None for no dimensions; 0 is one."""
    return None if dims is None or (isinstance(dims, Sequence) and not dims) else dims


def _shifted(x: Any, shifts: Any, dims: Any) -> Any:
    """``np.roll``; along one dimension of an array without its overhead, which takes longer than the copies do."""
    if type(x) is not np.ndarray or type(shifts) is not int or type(dims) is not int or not -x.ndim <= dims < x.ndim:
        return np.roll(x, shifts, _rolled(dims))
    first = -shifts % x.shape[dims] if x.shape[dims] else 0
    before = (slice(None),) * (dims % x.ndim)
    return np.concatenate((x[(*before, slice(first, None))], x[(*before, slice(first))]), dims)


@linear(input=lambda g, shifts, dims: _shifted(g, _negated(shifts), dims))
def roll(input, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None):
    """Shift the elements along ``dims`` (of the flattened tensor, if none are given), the last ones coming in first.

    >>> rg.roll(rg.arange(4), 1).tolist()
    [3, 0, 1, 2]
    """
    shifts = tuple(map(operator.index, shifts)) if isinstance(shifts, Sequence) else operator.index(shifts)
    count = len(shifts) if isinstance(shifts, Sequence) else 1
    expected = 1 if not dims and dims != 0 else len(dims) if isinstance(dims, Sequence) else 1
    if count != expected:
        raise RuntimeError(f"roll: shifts and dimensions must align. shifts: {shifts}, dims: {dims}")
    return row_major(_shifted(input, shifts, dims))


@linear(variadic="dims", input=lambda g, dims: row_major(np.flip(g, dims)) if g.ndim else g)
def flip(input, dims: int | Sequence[int]):
    """Return a copy with the order of the elements reversed along ``dims``.

    >>> rg.flip(rg.arange(3), (0,)).tolist()
    [2, 1, 0]
    """
    counted = normalize_dims(dims, input.ndim)
    return dense_copy(np.flip(input, counted if input.ndim else ()))


def _reversed(self: Tensor) -> Tensor:
    """The result of ``reversed()``: a copy in reverse order along dimension 0."""
    return flip(self, 0) if self.ndim else self


add_method("__reversed__", _reversed)


@composite()
def fliplr(input) -> Tensor:
    """Return a copy with the columns in reverse order."""
    if input.ndim < 2:
        raise RuntimeError(f"fliplr: Input must be >= 2-d, but has shape {list(input.shape)}")
    return flip(input, 1)


@composite()
def flipud(input) -> Tensor:
    """Return a copy with the rows in reverse order."""
    if input.ndim < 1:
        raise RuntimeError("flipud: Input must be >= 1-d")
    return flip(input, 0)


@linear(input=lambda g, k, dims: row_major(np.rot90(g, -k, dims)))
def rot90(input, k: int = 1, dims: Sequence[int] = (0, 1)):
    """Return a copy turned by ``k`` quarters from the first towards the second of two dimensions."""
    if len(dims) != 2:
        raise RuntimeError(f"rot90: expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"rot90: expected total dims >= 2, but got total dims = {input.ndim}")
    first, second = (normalize_dim(dim, input.ndim) for dim in dims)
    if first == second:
        raise RuntimeError(
            f"rot90: expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    return np.rot90(input, as_int("rot90", "k", k), (first, second)).copy()


# --- padding ------------------------------------------------------------------------------------------------------


def _pairs(pad: Sequence[int], ndim: int) -> list[tuple[int, int]]:
    """What to add before and after each dimension; ``pad`` counts them from the last."""
    if len(pad) % 2:
        raise RuntimeError(f"pad: Padding length must be divisible by 2, but pad is {list(pad)}")
    if len(pad) > 2 * ndim:
        raise RuntimeError(
            "pad: Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {ndim}"
        )
    pairs = list(zip(pad[::2], pad[1::2], strict=True))
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


@functools.lru_cache(maxsize=256)
def _places(pad: tuple[int, ...], lengths: tuple[int, ...]) -> tuple[tuple[int, ...], Slices, Slices]:
    """The padded shape, and where the elements that are kept are in it and in the tensor."""
    pairs = _pairs(pad, len(lengths))
    shape = tuple(n + before + after for n, (before, after) in zip(lengths, pairs, strict=True))
    if any(n + min(before, 0) + min(after, 0) < 0 for n, (before, after) in zip(lengths, pairs, strict=True)):
        raise RuntimeError(f"pad: {list(pad)} leaves a negative length of shape {list(lengths)}")
    there = tuple(slice(max(before, 0), n - max(after, 0)) for n, (before, after) in zip(shape, pairs, strict=True))
    here = tuple(slice(max(-before, 0), n - max(-after, 0)) for n, (before, after) in zip(lengths, pairs, strict=True))
    return shape, there, here


@kernel(name="constant_pad_nd", method=False, input=lambda g, pad: padded(g, [-width for width in pad]))
def padded(input, pad: Sequence[int], value: complex = 0):
    """Add ``value`` around a tensor, or cut off where ``pad`` is negative; ``pad`` begins with the last dimension."""
    shape, there, here = _places(tuple(map(operator.index, pad)), tuple(input.shape))
    result = np.full_like(input, fill_value("pad", value, input.dtype), shape=shape, order="C")
    result[there] = input[here]
    return result


constant_pad_nd = for_users(padded)


@functools.lru_cache(maxsize=256)
def _border(length: int, before: int, after: int, mode: str) -> tuple[int, int, list[tuple[int, int]]]:
    """Where the kept elements begin and end, and for each position beyond the edges which element it repeats."""
    inner = max(length - 1, 1)
    source = {
        "reflect": lambda k: inner - abs(inner - k % (2 * inner)),
        "replicate": lambda k: min(max(k, 0), length - 1),
        "circular": lambda k: k % length,
    }[mode]
    outside = [*range(-before, min(0, length + after)), *range(max(length, -before), length + after)]
    stop = length - max(-after, 0)
    return min(max(-before, 0), stop), stop, [(k + before, source(k)) for k in outside]


@kernel(
    name="pad",
    public=False,
    method=False,
    input=lambda g, input_shape, dim, before, after, mode: fold_border(g, input_shape[dim], dim, before, after, mode),
)
def extend(input, dim: int, before: int, after: int, mode: str):
    """Continue a tensor beyond its edges in one dimension; negative widths cut off."""
    length = input.shape[dim]
    start, stop, border = _border(length, before, after, mode)
    shape = (*input.shape[:dim], length + before + after, *input.shape[dim + 1 :])
    result = np.empty_like(input, shape=shape, order="C")
    result[along(dim, slice(start + before, stop + before))] = input[along(dim, slice(start, stop))]
    for position, source in border:
        result[along(dim, position)] = input[along(dim, source)]
    return result


@kernel(public=False, method=False, grad=lambda g, dim, before, after, mode: extend(g, dim, before, after, mode))
def fold_border(grad, length: int, dim: int, before: int, after: int, mode: str):
    """Add what lies beyond the edges to the elements it repeats: the adjoint of :func:`extend`."""
    start, stop, border = _border(length, before, after, mode)
    result = np.zeros_like(grad, shape=(*grad.shape[:dim], length, *grad.shape[dim + 1 :]), order="C")
    result[along(dim, slice(start, stop))] = grad[along(dim, slice(start + before, stop + before))]
    for position, source in border:
        result[along(dim, source)] += grad[along(dim, position)]
    return result


@composite(method=False)
def pad(input, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Add elements around a tensor; negative widths cut off.

    Parameters
    ----------
    pad
        The widths before and after the last dimension, then those of the one before it, and so on.
    mode
        ``"constant"``: the added elements are ``value``; ``"reflect"``: mirrored at the edge, which is not repeated;
        ``"replicate"``: the edge; ``"circular"``: from the other side. Only the last dimensions can be padded
        otherwise than by a constant: 1 to 3 of them, with one or two before.

    >>> rg.pad(rg.tensor([[1, 2, 3]]), (1, 2), mode="reflect").tolist()
    [[2, 1, 2, 3, 2, 1]]
    """
    if mode == "constant":
        return padded(input, pad, value or 0)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(
            f"pad: Unrecognised padding mode {mode}; use constant, reflect, replicate or circular"
        )
    if value:
        raise RuntimeError(f'pad: Padding mode "{mode}" doesn\'t take in value argument')
    pairs = _pairs(pad, input.ndim)
    count = len(pad) // 2
    if not 1 <= count <= 3 or input.ndim not in (count + 1, count + 2):
        raise NotImplementedError(
            f"pad: Padding size {len(pad)} is not supported for {input.ndim}D input tensor. Non-constant padding "
            "needs 1 to 3 padded dimensions and one or two before them; add dimensions with unsqueeze"
        )
    for dim in range(input.ndim - count, input.ndim):
        _check_border(input.shape, dim, pairs[dim], mode)
    lengths = [input.shape[dim] + sum(pairs[dim]) for dim in range(input.ndim - count, input.ndim)]
    if mode != "circular" and max(lengths) < 1:
        raise RuntimeError(
            f"pad: input {list(input.shape)} is too small for padding {list(pad)} with mode {mode}: nothing would "
            "be left"
        )
    for dim in range(input.ndim - count, input.ndim):
        before, after = pairs[dim]
        if mode == "circular" and min(before, after) < 0:  # elements that are cut off do not wrap around
            kept = slice(max(-before, 0), input.shape[dim] - max(-after, 0))
            input = input[along(dim, kept)].copy()  # the result is never a view, even if nothing is added
            before, after = max(before, 0), max(after, 0)
            if input.shape[dim] == 0 and before + after > 0:
                raise RuntimeError(
                    f"pad: {pairs[dim]} cuts off everything at dimension {dim}, which leaves nothing for circular "
                    "padding"
                )
        if before or after:
            input = extend(input, dim, before, after, mode)
    return input.copy() if not any(pad) else input


def _check_border(shape: Sequence[int], dim: int, pair: tuple[int, int], mode: str) -> None:
    length = shape[dim]
    if mode == "reflect" and max(pair) >= length:
        raise RuntimeError(
            "pad: Padding size should be less than the corresponding input dimension, but got: padding "
            f"{pair} at dimension {dim} of input {list(shape)}"
        )
    if mode == "circular" and max(pair) > length:
        raise RuntimeError(
            f"pad: Padding value causes wrapping around more than once: {pair} at dimension {dim} of {list(shape)}"
        )
    if length == 0 or length + sum(pair) < 0:
        raise RuntimeError(f"pad: cannot pad dimension {dim} of input {list(shape)} by {pair} with mode {mode}")
