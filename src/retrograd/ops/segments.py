"""Reductions of the segments of a dimension, which are consecutive and may differ in length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.errors import no_tensor
from retrograd.core.registry import composite
from retrograd.core.size import checked_dim
from retrograd.core.tensor import Tensor, wrap
from retrograd.dtypes import from_numpy_dtype
from retrograd.ops.conditional import where
from retrograd.ops.scatter import scatter_add, scatter_reduce

if TYPE_CHECKING:
    from retrograd.core.annotations import TensorOrArray


__all__ = ["segment_reduce"]

# the initial value of an empty segment, and further names
_EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -np.inf, "amin": np.inf}
_NAMES = {"max": "amax", "min": "amin"}


@composite(method=False)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: TensorOrArray | None = None,
    indices: TensorOrArray | None = None,
    offsets: TensorOrArray | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Reduce every segment of a dimension to one element.

    Parameters
    ----------
    data
        A tensor of real floating-point numbers.
    reduce
        ``"sum"``, ``"mean"``, ``"prod"``, ``"max"`` or ``"min"``, whose gradient is shared by elements that tie.
    lengths
        How long the segments are: a vector; or, for different segments in every row, a matrix and so on, whose last
        dimension goes along ``axis``.
    offsets
        In place of ``lengths``: where the segments begin, and at the end where the last one ends.
    indices
        Not supported, as in torch.
    axis
        The dimension: the last one of ``lengths``.
    unsafe
        If True, the segments need not reach to the end of the dimension.
    initial
        The value every reduction starts with. Without it, an empty segment has the sum 0, the product 1, the mean NaN,
        and an infinity for the extremum.

    Raises
    ------
    RuntimeError
        If the segments do not fit the dimension.

    Examples
    --------
    >>> x = rg.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> rg.segment_reduce(x, "max", lengths=rg.tensor([2, 3]))
    tensor([2., 5.])
    """
    if not isinstance(data, Tensor):
        raise no_tensor("segment_reduce", "argument 'data'", data)
    kind = _NAMES.get(reduce, reduce)
    if kind not in _EMPTY:
        raise RuntimeError(f"segment_reduce(): reduce must be sum, mean, prod, max or min, but got {reduce!r}")
    if not data.is_floating_point():
        raise NotImplementedError(
            f"segment_reduce(): not implemented for {data.dtype}; it takes real floating-point tensors"
        )
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices are not supported; give lengths, or use data.scatter_reduce()")
    if (lengths is None) == (offsets is None):
        raise RuntimeError("segment_reduce(): either lengths or offsets must be given, and not both")
    starts, counts = _segments(lengths, offsets)
    dim = checked_dim("segment_reduce", axis, data.ndim)
    if dim != counts.ndim - 1 or counts.shape[:dim] != data.shape[:dim]:
        raise RuntimeError(
            f"segment_reduce(): the last dimension of lengths or offsets runs along axis {dim}, and the dimensions "
            f"before it must match those of data, but the shapes are {list(counts.shape)} and {list(data.shape)}"
        )
    index = _index(starts, counts, data.shape[dim], unsafe)
    last = (1,) * (data.ndim - dim - 1)
    everywhere = wrap(index.reshape(*index.shape, *last)).to(data.device).expand(data.shape)
    segments = counts.shape[-1]
    shape = (*data.shape[:dim], segments + 1, *data.shape[dim + 1 :])  # the last one collects elements of no segment
    base = data.new_full(shape, _EMPTY[kind])
    if kind in ("sum", "mean"):
        result = scatter_add(base, dim, everywhere, data)
    else:
        result = scatter_reduce(base, dim, everywhere, data, kind, include_self=kind == "prod")
    result = result.narrow(dim, 0, segments).contiguous()
    if initial is not None:
        result = _begun_with(result, kind, float(initial))
    if kind == "mean":
        numbers = wrap(counts.reshape(*counts.shape, *last)).to(data.device)
        mean = result / numbers.to(data.dtype)
        result = mean if initial is None else where(numbers == 0, result, mean)
    return result


def _begun_with(result: Any, kind: str, initial: float) -> Any:
    if kind == "prod":
        return result * initial
    if kind in ("sum", "mean"):
        return result + initial
    # where both are equal, the gradient is that of the elements
    return where(result < initial if kind == "amax" else result > initial, initial, result)


def _segments(lengths: Any, offsets: Any) -> tuple[np.ndarray, np.ndarray]:
    """Where the segments begin, and how long they are."""
    name, given = ("lengths", lengths) if offsets is None else ("offsets", offsets)
    if not isinstance(given, Tensor):
        raise no_tensor("segment_reduce", f"argument '{name}'", given)
    array = given.numpy(force=True)
    if array.dtype not in (np.int32, np.int64):
        raise NotImplementedError(
            f"segment_reduce(): {name} must be int32 or int64, not {from_numpy_dtype(array.dtype)}"
        )
    if array.ndim == 0 or (offsets is not None and not array.shape[-1]):
        raise RuntimeError(f"segment_reduce(): {name} must be a vector or more, but its shape is {list(array.shape)}")
    array = array.astype(np.int64, copy=False)
    starts, counts = (np.cumsum(array, -1) - array, array) if offsets is None else (array[..., :-1], np.diff(array))
    if (counts < 0).any() or (starts < 0).any():
        raise RuntimeError(f"segment_reduce(): {name} must not be negative or decrease, but got {array.tolist()}")
    return starts, counts


def _index(starts: np.ndarray, counts: np.ndarray, size: int, unsafe: bool) -> np.ndarray:
    """The number of the segment that each element belongs to; one more than the last for elements of no segment."""
    segments = counts.shape[-1]
    index = np.full((*counts.shape[:-1], size), segments, np.int64)
    for row in np.ndindex(counts.shape[:-1]):
        begin = int(starts[row][0]) if segments else 0
        total = int(counts[row].sum())
        if begin + total > size or (not unsafe and begin + total != size):
            raise RuntimeError(
                f"segment_reduce(): the segments must cover the whole dimension, of size {size}, but end at "
                f"{begin + total}; their lengths are {counts[row].tolist()}"
            )
        index[row][begin : begin + total] = np.repeat(np.arange(segments), counts[row])
    return index
