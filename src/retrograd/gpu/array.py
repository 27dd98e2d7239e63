"""The array on a GPU: NumPy's interface in front of an array of CuPy's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from retrograd.array_methods import ArrayBefore


class Answers(NamedTuple):
    """The functions that implement NumPy's protocols for arrays, from modules that import this one."""

    ufunc: Callable[..., Any]
    function: Callable[..., Any]
    get: Callable[..., Any]
    put: Callable[..., Any]
    method: Callable[..., Any]


@functools.cache
def _answers() -> Answers:
    """Imported with the first array, as few users have a GPU, and cached: an import per call would double its time."""
    from retrograd.gpu.cupy_calls import method
    from retrograd.gpu.functions import device_function
    from retrograd.gpu.indexing import get, put
    from retrograd.gpu.ufuncs import device_ufunc

    return Answers(device_ufunc, device_function, get, put, method)


class Flags(NamedTuple):
    """The flags of an array's memory layout that callers read."""

    c_contiguous: bool
    f_contiguous: bool
    owndata: bool
    writeable: bool


class DeviceArray(ArrayBefore):
    """An array on a GPU.

    Parameters
    ----------
    array
        CuPy's.
    """

    __slots__ = ()

    def __init__(self, array: Any) -> None:
        self.array = array

    # --- what it looks like ---------------------------------------------------------------------------------------

    @property
    def flags(self) -> Flags:
        flags, strides = self.array.flags, self.array.strides
        # CuPy would write to an expanded array, NumPy makes it read-only
        expanded = (
            0 in strides
            and self.array.size > 0
            and any(step == 0 and n > 1 for step, n in zip(strides, self.array.shape, strict=True))
        )
        return Flags(flags.c_contiguous, flags.f_contiguous, flags.owndata, not expanded)

    @property
    def storage(self) -> DeviceArray:
        """The array whose memory this is a part of."""
        owner = self.array.base
        return self if owner is None else DeviceArray(owner)

    @property
    def flat(self) -> _Flat:
        return _Flat(self)

    @property
    def data(self) -> Any:
        """CuPy's pointer to the memory."""
        return self.array.data

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.array.__cuda_array_interface__

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    @property
    def real(self) -> DeviceArray:
        return DeviceArray(self.array.real)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> DeviceArray:
        return DeviceArray(self.array.imag)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __repr__(self) -> str:
        return f"DeviceArray({self.array!r})"

    # --- to the CPU -----------------------------------------------------------------------------------------------

    def get(self) -> np.ndarray:
        """A copy in the computer's memory."""
        return self.array.get()

    def item(self, *index: int) -> Any:
        return self.get().item(*index)

    def tolist(self) -> Any:
        return self.get().tolist()

    def tobytes(self) -> bytes:
        return self.get().tobytes()

    def __bool__(self) -> bool:
        return bool(self.array)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        return self.get().__index__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError(
            f"can't convert cuda:{int(self.device.id)} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )

    # --- copies ---------------------------------------------------------------------------------------------------

    def astype(
        self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: Any = True, copy: bool = True
    ) -> DeviceArray:
        if not copy and dtype == self.array.dtype and order == "K":
            return self
        return _answers().method(self, "astype", dtype, order=order)

    def copy(self, order: Any = "C") -> DeviceArray:
        return _answers().method(self, "copy", order)

    def __copy__(self) -> DeviceArray:
        return self.copy("K")

    def __deepcopy__(self, memo: Any) -> DeviceArray:
        return self.copy("K")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.get(),)

    # --- NumPy's protocols ----------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _answers().ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Iterable[type], args: Any, kwargs: Any) -> Any:
        return _answers().function(self, function, types, args, kwargs)

    def __getitem__(self, index: Any) -> DeviceArray:
        return _answers().get(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        _answers().put(self, index, value)

    # --- ndarray's methods ----------------------------------------------------------------------------------------

    def view(self, dtype: Any = None) -> DeviceArray:
        return DeviceArray(self.array.view() if dtype is None else self.array.view(dtype))

    def reshape(self, *shape: Any, order: Any = "C", copy: bool | None = None) -> DeviceArray:
        lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        return _answers().method(self, "reshape", tuple(lengths), order=order)

    def as_strided(self, shape: Sequence[int], strides: Sequence[int]) -> DeviceArray:
        import cupy

        made = cupy.lib.stride_tricks.as_strided(self.array, tuple(shape), tuple(strides))
        return DeviceArray(made.view())  # a view, so that CuPy knows the memory is shared

    @property
    def T(self) -> DeviceArray:  # noqa: N802 (NumPy's name)
        return DeviceArray(self.array.T)

    @property
    def mT(self) -> DeviceArray:  # noqa: N802 (NumPy's name)
        return DeviceArray(self.array.mT)


class _Flat:
    """The elements of an array in index order."""

    def __init__(self, array: DeviceArray) -> None:
        self._array = array

    def __getitem__(self, positions: Any) -> Any:
        picked = self._array.reshape(-1)[positions]
        return picked.item() if isinstance(positions, int) else picked

    def __setitem__(self, positions: Any, values: Any) -> None:
        self._array[np.unravel_index(positions % max(self._array.size, 1), self._array.shape)] = values


def _restored(values: np.ndarray) -> DeviceArray:
    """An array on the current GPU, as pickle makes it."""
    import cupy

    return DeviceArray(cupy.asarray(values))


def as_strided(x: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """A view of given strides, in bytes: ``np.lib.stride_tricks.as_strided``, which NumPy does not dispatch."""
    if type(x) is np.ndarray:
        return np.lib.stride_tricks.as_strided(x, shape, strides)
    return x.as_strided(shape, strides)
