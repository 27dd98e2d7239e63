"""The memory that tensors lie in, and moving a tensor to other memory in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.core.array_interface import storage_of
from retrograd.core.in_place import change_shape, check_writable, lie_in
from retrograd.core.registry import method
from retrograd.core.state import local
from retrograd.core.tensor import Tensor, bump, wrap
from retrograd.device import device as _device


class UntypedStorage:
    """The memory that a tensor and its views lie in, as :meth:`Tensor.untyped_storage` gives it.

    Examples
    --------
    >>> x = rg.zeros(4)
    >>> x[1:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    True
    """

    __slots__ = ("_all",)

    def __init__(self, owner: Tensor) -> None:
        self._all = wrap(storage_of(owner._data))

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return self._all.data_ptr()

    def nbytes(self) -> int:
        """Return the length in bytes."""
        return self._all.nbytes

    size = nbytes

    def __len__(self) -> int:
        return self.nbytes()

    @property
    def device(self) -> _device:
        """The device of the memory."""
        return self._all.device

    def __repr__(self) -> str:
        return f"UntypedStorage(device={self.device}, nbytes={self.nbytes()})"


def is_storage(obj: Any, /) -> bool:
    """Whether ``obj`` is a storage, as :meth:`Tensor.untyped_storage` gives it."""
    return isinstance(obj, UntypedStorage)


@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    """Return the memory that the tensor lies in, to ask where it is and how large; views share that of their base."""
    return UntypedStorage(self)


@method
def resize_(self: Tensor, *size: Any, memory_format: Any = None) -> Tensor:
    """Give the tensor another shape, in place: the same memory as far as it goes, new memory where there is too little.

    Other tensors on its memory keep the old one. New elements have no particular values.

    Raises
    ------
    RuntimeError
        If the tensor requires grad, or if it has a tangent.

    Examples
    --------
    >>> rg.arange(6).resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    if self.requires_grad:
        raise RuntimeError(
            "cannot resize variables that require grad. Use reshape() for another view of the same elements, "
            "or make a new tensor."
        )
    if local.tangents is not None and local.tangents.is_dual_at_any_level(self):
        raise RuntimeError(
            "cannot resize variables that has a forward grad. The tangent would keep the old shape; use reshape(), or "
            "make a new tensor."
        )
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    if any(length < 0 for length in shape):
        raise RuntimeError(f"resize_(): sizes must not be negative, but got {list(shape)}")
    if shape == self._data.shape:
        return self  # nothing is written, and what is saved for backward remains right
    check_writable(self, "resize_", elements=False)
    change_shape(self, shape)
    bump(self)
    return self


@method
def resize_as_(self: Tensor, tensor: Tensor, memory_format: Any = None) -> Tensor:
    """Give the tensor the shape of another one, in place; see :meth:`Tensor.resize_`."""
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"resize_as_(): argument 'tensor' (position 1) must be Tensor, not {type(tensor).__name__}; "
            "resize_ takes a shape"
        )
    return resize_(self, tensor.shape)


@method
def set_(
    self: Tensor,
    source: Tensor | UntypedStorage | None = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Let the tensor lie in the memory of another one, in place; without ``source``, let it be empty.

    Parameters
    ----------
    source
        A tensor of the same dtype, or a storage.
    storage_offset, size, stride
        Which part of it, as in :func:`retrograd.as_strided`; by default all.

    Raises
    ------
    RuntimeError
        If the dtypes differ, or if gradients would have to flow: neither the old elements nor ``source`` may require
        grad while recording.
    NotImplementedError
        If one of them has a tangent.

    Examples
    --------
    >>> x, y = rg.zeros(2), rg.tensor([1.0, 2.0])
    >>> x.set_(y).mul_(10)
    tensor([10., 20.])
    >>> y
    tensor([10., 20.])
    """
    check_writable(self, "set_", elements=False)
    given: Tensor
    if isinstance(source, UntypedStorage):
        given = source._all.view(self.dtype)
        size = given.shape if size is None else size
    else:
        given = wrap(np.empty_like(self._data, shape=0)) if source is None else source
    if given._data.dtype != self._data.dtype:
        raise RuntimeError(f"Could not set tensor of type {given.dtype} to a tensor of type {self.dtype}")
    if local.grad_enabled and (self.requires_grad or given.requires_grad):
        raise RuntimeError(
            "set_(): the derivative is not implemented; use detach(), or write inside retrograd.no_grad()"
        )
    if local.tangents is not None and local.tangents.is_dual_at_any_level([self, given]):
        raise NotImplementedError(
            "Trying to use forward AD with set_ that does not support it because it has not been implemented yet. "
            "Use copy_(), or unpack_dual() the tensors first"
        )
    if size is not None:
        if stride is None:
            stride = [math.prod(size[k + 1 :]) for k in range(len(size))]
        given = given.detach().as_strided(size, stride, storage_offset)
    lie_in(self, given._data.view())
    bump(self)
    return self
