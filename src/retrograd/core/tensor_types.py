"""One class per dtype, such as ``FloatTensor``: how tensors were made and tested for before dtypes existed."""

from __future__ import annotations

from typing import Any

from retrograd import dtypes
from retrograd.core.constructor import constructed_array
from retrograd.core.registry import method
from retrograd.core.tensor import Tensor, wrap
from retrograd.device import as_device

DTYPES = {
    "HalfTensor": dtypes.float16,
    "FloatTensor": dtypes.float32,
    "DoubleTensor": dtypes.float64,
    "ComplexFloatTensor": dtypes.complex64,
    "ComplexDoubleTensor": dtypes.complex128,
    "ByteTensor": dtypes.uint8,
    "CharTensor": dtypes.int8,
    "ShortTensor": dtypes.int16,
    "IntTensor": dtypes.int32,
    "LongTensor": dtypes.int64,
    "BoolTensor": dtypes.bool,
}


class TensorType(type):
    """The metaclass: calling one of its classes makes a Tensor of its dtype, and such a Tensor is an instance of it."""

    dtype: dtypes.dtype
    device: str

    def __call__(cls, *args: Any) -> Tensor:
        if len(args) == 1 and isinstance(args[0], Tensor):
            (source,) = args
            if not isinstance(source, cls):
                raise TypeError(
                    f"{cls.__name__}(): the tensor has dtype {source.dtype} on {source.device}; use .to() to convert it"
                )
            return source.detach()
        return wrap(constructed_array(cls.__name__, args, cls.dtype.numpy, as_device(cls.device)))

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype and instance.device.type == cls.device


@method
def new(self: Tensor, *args: Any) -> Tensor:
    """Return a tensor of the dtype and on the device of this one: of the given sizes, or with a copy of a sequence.

    New programs say :meth:`new_empty` and :meth:`new_tensor`.
    """
    return wrap(constructed_array("new", args, self._data.dtype, self.device))


def _types(device: str, module: str) -> dict[str, TensorType]:
    return {
        name: TensorType(
            name,
            (),
            {
                "dtype": dtype,
                "device": device,
                "__module__": module,
                "__doc__": f"Makes a tensor of {dtype}, of sizes or of a sequence; see ``tensor`` and ``empty``.",
            },
        )
        for name, dtype in DTYPES.items()
    }


CPU_TYPES = _types("cpu", "retrograd")
CUDA_TYPES = _types("cuda", "retrograd.cuda")
