"""Tensors filled with one value, or uninitialised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from retrograd.batching import BatchedArray
from retrograd.core.errors import no_tensor
from retrograd.core.registry import add_method, method
from retrograd.core.size import as_int
from retrograd.core.tensor import Tensor
from retrograd.creation.options import (
    Options,
    Request,
    ShapedOptions,
    as_number,
    as_shape,
    cast_number,
    dtype_of_number,
    layout,
    shape_of,
    strided,
)
from retrograd.gpu import as_strided as strided_view

if TYPE_CHECKING:
    from retrograd.core.annotations import Number


__all__ = [
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eye",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "scalar_tensor",
    "zeros",
    "zeros_like",
]

# --- of one value -------------------------------------------------------------------------------------------------


def zeros(*shape: int | Sequence[int], **options: Unpack[ShapedOptions]) -> Tensor:
    """Return a tensor of zeros.

    Parameters
    ----------
    *shape
        The shape, as ints or as one tuple.
    **options
        ``dtype``, ``device``, ``requires_grad``, ``out``; see :class:`Options`.

    Examples
    --------
    >>> rg.zeros(2, 3, dtype=rg.int64)
    tensor([[0, 0, 0],
            [0, 0, 0]])
    """
    lengths = shape_of("zeros", shape, options)
    request = Request("zeros", options)
    return request.make(lambda xp: xp.zeros(lengths, request.dtype))


def ones(*shape: int | Sequence[int], **options: Unpack[ShapedOptions]) -> Tensor:
    """Return a tensor of ones; see :func:`zeros` for the arguments."""
    lengths = shape_of("ones", shape, options)
    request = Request("ones", options)
    return request.make(lambda xp: xp.ones(lengths, request.dtype))


def empty(*shape: int | Sequence[int], **options: Unpack[ShapedOptions]) -> Tensor:
    """Return a tensor whose elements are whatever was in memory; see :func:`zeros` for the arguments."""
    lengths = shape_of("empty", shape, options)
    request = Request("empty", options)
    return request.make(lambda xp: xp.empty(lengths, request.dtype))


def full(size: int | Sequence[int], fill_value: Number | Tensor, **options: Unpack[Options]) -> Tensor:
    """Return a tensor with ``fill_value`` everywhere; its dtype follows from the value unless one is given.

    Examples
    --------
    >>> rg.full((2,), 7)
    tensor([7, 7])
    """
    value = as_number("full", "fill_value", fill_value)
    request = Request("full", options, dtype_of_number(value))
    return _filled(request, as_shape("full", size), value)


def _filled(request: Request, shape: tuple[int, ...], value: Any) -> Tensor:
    element = cast_number(request.name, value, request.dtype)
    return request.make(lambda xp: xp.full(shape, element, request.dtype))


def scalar_tensor(s: Any, **options: Unpack[Options]) -> Tensor:
    """Return a 0-d tensor of the default dtype, whatever the type of the number ``s``."""
    return _filled(Request("scalar_tensor", options), (), as_number("scalar_tensor", "s", s))


def eye(n: int, m: int | None = None, **options: Unpack[Options]) -> Tensor:
    """Return an ``n`` by ``m`` matrix (``m`` is ``n`` by default) of ones on the diagonal and zeros elsewhere."""
    request = Request("eye", options)
    rows = as_int("eye", "n", n)
    columns = rows if m is None else as_int("eye", "m", m)
    for name, length in (("n", rows), ("m", columns)):
        if length < 0:
            raise RuntimeError(f"eye(): {name} must be greater or equal to 0, got {length}")
    return request.make(lambda xp: xp.eye(rows, columns, dtype=request.dtype))


def empty_permuted(size: int | Sequence[int], physical_layout: Any, **options: Unpack[Options]) -> Tensor:
    """Return a tensor whose elements are whatever was in memory, dense, with its dimensions in a given order there.

    Parameters
    ----------
    size
        The shape.
    physical_layout
        All dimensions, the one with the largest stride first.

    Raises
    ------
    RuntimeError
        If these are not the dimensions, each once.

    Examples
    --------
    >>> rg.empty_permuted((2, 3, 5, 7), (0, 2, 3, 1)).stride()
    (105, 1, 21, 3)
    """
    request = Request("empty_permuted", options)
    shape = as_shape("empty_permuted", size)
    order = [as_int("empty_permuted", "physical_layout", dim) for dim in physical_layout]
    if sorted(order) != list(range(len(shape))):
        raise RuntimeError(
            f"empty_permuted(): physical_layout must contain each of {len(shape)} dimensions, counted from 0, exactly "
            f"once, but got {order}"
        )
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return _empty_strided(request, shape, strides)


def empty_strided(size: int | Sequence[int], stride: Sequence[int], **options: Unpack[Options]) -> Tensor:
    """Return a tensor of given strides, in elements, whose elements are whatever was in memory.

    Raises
    ------
    RuntimeError
        If the strides are negative, or fewer or more than the dimensions.
    """
    return _empty_strided(Request("empty_strided", options), size, stride)


def _empty_strided(request: Request, size: Any, stride: Any) -> Tensor:
    shape, steps = as_shape(request.name, size), tuple(stride)
    if len(shape) != len(steps):
        raise RuntimeError(
            f"{request.name}(): dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
            f"({len(steps)})"
        )
    if any(step < 0 for step in steps):
        raise RuntimeError(f"{request.name}(): strides must not be negative, got {list(steps)}")
    extent = 1 + sum((length - 1) * step for length, step in zip(shape, steps, strict=True)) if 0 not in shape else 0
    strides = tuple(step * request.dtype.itemsize for step in steps)

    def make(xp: Any) -> Any:
        return strided_view(xp.empty(extent, request.dtype), shape, strides)

    return request.make(make)


# --- like another tensor ------------------------------------------------------------------------------------------


def like(name: str, input: Any, options: Options) -> Request:
    """A request whose dtype and device are those of ``input`` unless the keywords say otherwise."""
    if not isinstance(input, Tensor):
        raise no_tensor(name, "argument 'input' (position 1)", input)
    request = Request(name, options, input._data.dtype, input.device)
    if type(input._data) is BatchedArray:
        request.batch = input._data.levels
    if 0 in input._data.strides:  # the strides of an expanded tensor, which are not worth keeping
        request.order = "C"
    return request


def zeros_like(input: Tensor, **options: Unpack[Options]) -> Tensor:
    """Return zeros with the shape, dtype, device and order in memory of ``input``."""
    request = like("zeros_like", input, options)
    return request.make(lambda xp: xp.zeros_like(_layout_of(xp, input), request.dtype, request.order))


def ones_like(input: Tensor, **options: Unpack[Options]) -> Tensor:
    """Return ones with the shape, dtype, device and order in memory of ``input``."""
    request = like("ones_like", input, options)
    return request.make(lambda xp: xp.ones_like(_layout_of(xp, input), request.dtype, request.order))


def empty_like(input: Tensor, **options: Unpack[Options]) -> Tensor:
    """Return whatever was in memory with the shape, dtype, device and order in memory of ``input``."""
    request = like("empty_like", input, options)
    return request.make(lambda xp: empty_as(xp, input, request))


def empty_as(xp: Any, input: Tensor, request: Request) -> Any:
    """The array of :func:`empty_like`."""
    return xp.empty_like(_layout_of(xp, input), request.dtype, request.order)


def full_like(input: Tensor, fill_value: Number | Tensor, **options: Unpack[Options]) -> Tensor:
    """Return ``fill_value`` everywhere with the shape, dtype, device and order in memory of ``input``."""
    request = like("full_like", input, options)
    element = cast_number("full_like", as_number("full_like", "fill_value", fill_value), request.dtype)
    return request.make(lambda xp: xp.full_like(_layout_of(xp, input), element, request.dtype, request.order))


def _layout_of(xp: Any, input: Tensor) -> Any:
    """An array of the module ``xp`` that stands for the shape and strides of ``input``."""
    data = input._data
    return data if isinstance(data, xp.ndarray) else xp.broadcast_to(xp.empty(()), data.shape)


@method
def new_zeros(self: Tensor, *shape: int | Sequence[int], **options: Unpack[ShapedOptions]) -> Tensor:
    """Return zeros with the dtype and device of this tensor."""
    lengths = shape_of("new_zeros", shape, options)
    request = like("new_zeros", self, options)
    return request.make(lambda xp: xp.zeros(lengths, request.dtype))


@method
def new_ones(self: Tensor, *shape: int | Sequence[int], **options: Unpack[ShapedOptions]) -> Tensor:
    """Return ones with the dtype and device of this tensor."""
    lengths = shape_of("new_ones", shape, options)
    request = like("new_ones", self, options)
    return request.make(lambda xp: xp.ones(lengths, request.dtype))


@method
def new_empty(self: Tensor, *shape: int | Sequence[int], **options: Unpack[ShapedOptions]) -> Tensor:
    """Return whatever was in memory with the dtype and device of this tensor."""
    lengths = shape_of("new_empty", shape, options)
    request = like("new_empty", self, options)
    return request.make(lambda xp: xp.empty(lengths, request.dtype))


@method
def new_full(
    self: Tensor, size: int | Sequence[int], fill_value: Number | Tensor, **options: Unpack[Options]
) -> Tensor:
    """Return ``fill_value`` everywhere with the dtype and device of this tensor."""
    request = like("new_full", self, options)
    return _filled(request, as_shape("new_full", size), as_number("new_full", "fill_value", fill_value))


@method
def new_empty_strided(
    self: Tensor, size: int | Sequence[int], stride: Sequence[int], **options: Unpack[Options]
) -> Tensor:
    """Return a tensor of given strides with the dtype and device of this tensor."""
    return _empty_strided(like("new_empty_strided", self, options), size, stride)


def _layout(self: Tensor) -> layout:
    """How the elements are kept: ``retrograd.strided``."""
    return strided


add_method("layout", property(_layout))
