"""Further queries of tensors: where and how they are stored. There are dense tensors on the CPU and on GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.core.in_place import check_writable
from retrograd.core.registry import add_method, method
from retrograd.core.tensor import Tensor, bump
from retrograd.ops._checks import check_tensors


def _is_cpu(self: Tensor) -> bool:
    """Whether the elements are in the computer's memory."""
    return not self.is_cuda


def _no(self: Tensor) -> bool:
    """False: there are no such tensors here."""
    return False


add_method("is_cpu", property(_is_cpu))

# Kinds of tensors that exist in torch only.
for _kind in ("meta", "mkldnn", "mps", "nested", "quantized", "sparse", "sparse_csr", "vulkan", "xla", "xpu"):
    add_method(f"is_{_kind}", property(_no))


def get_device(input: Tensor) -> int:
    """Return the number of the GPU that a tensor is on, and -1 for the CPU."""
    check_tensors("get_device", input=input)
    index = input.device.index
    return -1 if index is None or not input.is_cuda else index


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    check_tensors("is_same_size", input=input, other=other)
    return input._data.shape == other._data.shape


method(get_device)
method(is_same_size)


@method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both tensors are the same elements of the same storage, in the same order."""
    check_tensors("is_set_to", tensor=tensor)
    mine, other = self._data, tensor._data
    return (self.data_ptr(), mine.shape, mine.strides, mine.dtype) == (
        tensor.data_ptr(),
        other.shape,
        other.strides,
        other.dtype,
    )


@method
def dim_order(self: Tensor, *, ambiguity_check: bool | Sequence[Any] = False) -> tuple[int, ...]:
    """Return the dimensions in the order of their strides, the largest first.

    Parameters
    ----------
    ambiguity_check
        Whether to raise if another order would be just as valid: dimensions of length 1, expanded or of equal strides
        can be swapped. Given memory formats, the order is taken for unique if the tensor is in exactly one of these.

    Raises
    ------
    RuntimeError
        If the order is not unique.
    """
    formats = () if isinstance(ambiguity_check, bool) else ambiguity_check
    if not isinstance(formats, (list, tuple)):
        raise TypeError(
            f"dim_order(): The ambiguity_check argument must be a bool or a list of memory formats, but got "
            f"{ambiguity_check!r}."
        )
    strides = self.stride()
    swappable = 1 in self.shape or len(set(strides)) < self.ndim
    fits = sum([self.is_contiguous(each) for each in formats]) == 1
    if (ambiguity_check and 0 in strides) or (ambiguity_check is not False and swappable and not fits):
        raise RuntimeError(
            "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats: shape "
            f"{list(self.shape)}, strides {list(strides)}."
        )
    return tuple(sorted(range(self.ndim), key=lambda dim: -self._data.strides[dim]))


def _grad_dtype(self: Tensor) -> Any:
    """The dtype of ``.grad``, which is that of the tensor. There is no other to choose; only leaves have it."""
    if not self.is_leaf:
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
    return self.dtype


def _set_grad_dtype(self: Tensor, value: Any) -> None:
    if not self.is_leaf:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if value != self.dtype:
        raise NotImplementedError(
            f"grad_dtype cannot be {value}: gradients have the dtype of their tensor, here {self.dtype}; convert them, "
            "as in x.grad.to(dtype), or create the leaf in the other dtype and compute with x.to(dtype)"
        )


add_method("grad_dtype", property(_grad_dtype, _set_grad_dtype))


@method
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """Return the tensor itself, in ``dtype`` if that is given: all tensors are dense."""
    return self if dtype is None else self.to(dtype)


@method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Return the tensor itself: memory is not pinned, and ``.to("cuda")`` copies from it nevertheless."""
    return self


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Return False: memory is not pinned."""
    return False


def _computed(self: Tensor, name: str, function: Callable[..., Any], *others: Tensor) -> Tensor:
    """Overwrite the elements with what a Python function of them returns."""
    for tensor in (self, *others):
        if tensor.requires_grad:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
            )
    check_writable(self, name)
    shape = self._data.shape
    try:
        operands = [np.broadcast_to(tensor._data, shape) for tensor in (self, *others)]
    except ValueError:
        raise RuntimeError(
            f"{name}: the shape {list(others[0].shape)} cannot be broadcast to the target's shape {list(shape)}"
        ) from None
    values = [function(*items) for items in zip(*(operand.ravel().tolist() for operand in operands), strict=True)]
    self._data[...] = np.array(values, self._data.dtype).reshape(self._data.shape)
    bump(self)
    return self


@method
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace every element by what a Python function returns for it, one by one and slowly.

    >>> rg.tensor([1.0, 4.0]).apply_(lambda value: value + 1)
    tensor([2., 5.])
    """
    return _computed(self, "apply_", callable)


@method
def map_(self: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace every element by what a Python function returns for it and the element of ``other``, slowly."""
    check_tensors("map_", other=other)
    return _computed(self, "map_", callable, other)


__all__ = ["get_device", "is_same_size"]
