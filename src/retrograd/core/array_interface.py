"""The part of a tensor's interface that concerns it as an array: shape, layout, conversion to Python and NumPy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from retrograd.batching.array import BatchedArray
from retrograd.conjugate_views import UnresolvedArray
from retrograd.core import state
from retrograd.core.conversion_errors import asks_for_operand, no_array, warn_of_number
from retrograd.core.layout import is_row_major
from retrograd.core.size import Size, checked_dim, shape_of
from retrograd.core.state import local
from retrograd.device import device as _device
from retrograd.dtypes import dtype as _dtype
from retrograd.dtypes import from_numpy_dtype
from retrograd.gpu import DeviceArray

if TYPE_CHECKING:
    from retrograd.core.tensor import Tensor

CPU = _device("cpu")


class ArrayInterface:
    """Properties and conversions of a tensor that have nothing to do with its history."""

    __slots__ = ()

    _data: np.ndarray
    requires_grad: bool

    @property
    def dtype(self) -> _dtype:
        """The element type, for example ``retrograd.float32``."""
        return from_numpy_dtype(self._data.dtype)

    @property
    def device(self) -> _device:
        """Where the elements are: ``cpu`` or ``cuda:N``."""
        data: Any = self._data
        return CPU if type(data) is np.ndarray or data.device == "cpu" else _device("cuda", int(data.device.id))

    @property
    def shape(self) -> Size:
        """The length of every dimension."""
        return shape_of(self._data.shape)

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the length of dimension ``dim``."""
        if dim is None:
            return shape_of(self._data.shape)
        return self._data.shape[checked_dim("size", dim, self._data.ndim)]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self._data.ndim

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements."""
        return self._data.size

    nelement = numel

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._data.itemsize

    def element_size(self) -> int:
        """Return the bytes per element."""
        return self._data.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._data.nbytes

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> Any:
        """Return the step, in elements, from one index to the next of every dimension, or of dimension ``dim``."""
        strides = [step // self._data.itemsize for step in self._data.strides]
        inner = 1  # the extent of the dimensions after this one
        for position in reversed(range(len(strides))):
            if strides[position] == 0 and (self._data.shape[position] == 1 or not self._data.size):
                strides[position] = inner  # NumPy gives a new dimension no step, nor those of an array without elements
            inner = max(self._data.shape[position], 1) * strides[position]
        return tuple(strides) if dim is None else strides[checked_dim("stride", dim, len(strides))]

    def storage_offset(self) -> int:
        """Return the distance, in elements, of the first element from the start of the storage."""
        return storage_offset_of(self._data)

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return _address(self._data)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in memory one after the other in index order."""
        return is_row_major(self._data)

    def is_floating_point(self) -> bool:
        """Whether the dtype is a real floating-point one."""
        return self._data.dtype.kind == "f"

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self._data.dtype.kind == "c"

    def is_signed(self) -> bool:
        """Whether the dtype can hold negative numbers."""
        return self._data.dtype.kind in "ifc"

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a GPU."""
        return self.device.type == "cuda"

    # --- out of the graph -----------------------------------------------------------------------------------------

    def loses_derivative(self) -> bool:
        """Whether a derivative, of reverse or forward mode, would be lost if only the numbers were passed on."""
        return self._leaves_the_graph() or self._leaves_its_tangent()

    def _leaves_the_graph(self) -> bool:
        """Whether a gradient would be lost; not under ``no_grad``, nor in the ``forward`` of a custom function."""
        return self.requires_grad and local.grad_enabled

    def _leaves_its_tangent(self) -> bool:
        """Whether a derivative of forward mode would be lost, as above."""
        return local.tangents is not None and local.grad_enabled and local.tangents.tangent(self) is not None

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """Return the elements as a NumPy array on the same memory.

        Parameters
        ----------
        force
            Detach, resolve and copy to the CPU first where needed, instead of raising.

        Raises
        ------
        RuntimeError
            If the tensor requires grad where operations are recorded, or is a conjugate or negative view, and
            ``force`` is False.
        TypeError
            If the tensor is on a GPU and ``force`` is False.
        """
        data: Any = self._data
        if not force:
            if self._leaves_the_graph():
                raise RuntimeError(
                    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
                )
            if self.is_cuda:
                raise TypeError(
                    f"can't convert {self.device} device type tensor to numpy. "
                    "Use Tensor.cpu() to copy the tensor to host memory first."
                )
            if type(data) is UnresolvedArray:
                bit, resolve = data.torch_names
                raise RuntimeError(
                    f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.{resolve}().numpy() instead."
                )
        return data if type(data) is np.ndarray else data.get()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if asks_for_operand(sys._getframe(1)):
            return np.empty((), object)
        if self._leaves_the_graph():
            raise no_array("requires grad")
        if self._leaves_its_tangent():
            raise no_array("has a tangent")
        data = self.numpy()
        if copy:
            return np.array(data, dtype=dtype, copy=True)
        if copy is False and dtype is not None and data.dtype != dtype:
            raise ValueError(
                f"a copy is needed to convert {data.dtype} to {np.dtype(dtype)}, and copy=False forbids it"
            )
        return data if dtype is None else data.astype(dtype, copy=False)

    @property
    def _mask(self) -> Any:
        """What numpy.ma looks up in every operand, besides ``_data``, which it takes for the operand itself."""
        self.__array__()
        raise AttributeError("_mask")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Torch's protocol; without it, torch's error would say that it wants a Tensor, not a Tensor."""
        raise TypeError(
            f"torch's {getattr(func, '__name__', func)}() was given a retrograd tensor: call retrograd's own function, "
            "or convert the tensor first, with torch.as_tensor(x.detach().numpy())"
        )

    def __dlpack__(self, **kwargs: Any) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        data: Any = self._data
        if type(data) is UnresolvedArray:
            bit, resolve = data.torch_names
            raise BufferError(f"Can't export tensors with the {bit} bit set, use tensor.{resolve}()")
        return self._data.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def item(self) -> int | float | bool:
        """Return the only element as a Python number.

        Raises
        ------
        RuntimeError
            If there is not exactly one element.
        """
        if self._data.size != 1:
            raise RuntimeError(
                f"a Tensor with {self._data.size} elements cannot be converted to Scalar; "
                "reduce it first, for example with .sum() or .mean()"
            )
        value = self._data.item()
        if state.monitor is not None:
            state.monitor.read(self, value)
        return value

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        return self._data.tolist()

    def __bool__(self) -> bool:
        if self._data.size != 1:
            if self._data.size == 0:
                raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous; use .any() or .all()")
        value = bool(self._data.item())
        if state.monitor is not None:
            state.monitor.read(self, value)
        return value

    def __float__(self) -> float:
        if self.loses_derivative():
            warn_of_number()
        return float(self._real_number("float"))

    def __int__(self) -> int:
        return int(self._real_number("int"))

    def __complex__(self) -> complex:
        if self.loses_derivative():
            warn_of_number()
        return complex(self._number())

    def _number(self) -> Any:
        if self._data.size != 1:
            raise ValueError(
                f"only one element tensors can be converted to Python scalars, but this one has shape {self.shape}; "
                "reduce it first, for example with .sum() or .mean(); for each element, call NumPy's function, "
                "np.sqrt, not that of math"
            )
        return self.item()

    def _real_number(self, kind: str) -> Any:
        number = self._number()
        if type(number) is complex:
            if number.imag:
                raise RuntimeError(f"value {number} cannot be converted to {kind}; take its .real or .abs() first")
            return number.real
        return number

    def __index__(self) -> int:
        if self._data.dtype.kind not in "iub" or self._data.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._data.item())

    def __len__(self) -> int:
        if self._data.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._data.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if self._data.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))  # type: ignore[attr-defined]

    def __contains__(self, element: Any) -> bool:
        if isinstance(element, ArrayInterface):
            element = element._data
        elif not isinstance(element, (int, float, complex, np.generic)):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
            )
        return bool((self._data == element).any())


def storage_of(data: Any) -> Any:
    """The array whose memory ``data`` is a part of."""
    if type(data) in (DeviceArray, UnresolvedArray):
        return data.storage
    storage = data
    while (data := getattr(data, "base", None)) is not None:
        if isinstance(data, type(storage)):
            storage = data
    return storage


def storage_offset_of(data: Any) -> int:
    """The distance, in elements, of the first element (of a batch, in its first sample) from the storage's start."""
    data = data.array if type(data) is BatchedArray else data
    return (_address(data) - _address(storage_of(data))) // data.itemsize


def storage_address_of(data: Any) -> int:
    """The address of the storage, which identifies it as long as it lives."""
    return _address(storage_of(data))


def _address(data: Any) -> int:
    if type(data) is UnresolvedArray:
        data = data.array
    return data.__array_interface__["data"][0] if type(data) is np.ndarray else data.data.ptr
