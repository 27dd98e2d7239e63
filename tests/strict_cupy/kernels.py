"""Elementwise kernels whose C assignments are also valid Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.strict_cupy.array import check_device, heard, ndarray


class ElementwiseKernel:
    """A kernel whose parameters all have one dtype, that of its array arguments."""

    def __init__(self, in_params: str, out_params: str, operation: str, name: str = "kernel"):
        self.nin = len(in_params.split(", "))
        params = [param.split() for param in f"{in_params}, {out_params}".split(", ")]
        if any(kind != "T" for kind, _ in params):
            raise NotImplementedError("the stand-in knows kernels of one dtype only")
        self.names = [param for _, param in params]
        self.statements = [each.strip() for each in operation.split(";") if each.strip()]
        self.__name__ = name

    @heard
    def __call__(self, *args: Any) -> Any:
        if len(args) not in (self.nin, len(self.names)):
            raise TypeError(f"Wrong number of arguments for {self.__name__}")
        for value in args:
            if not isinstance(value, (ndarray, int, float)):
                raise TypeError(f"Unsupported type {type(value)}")
        check_device(args)
        arrays = [value for value in args if isinstance(value, ndarray)]
        if len({array.dtype for array in arrays}) != 1:
            raise TypeError(f"Type is mismatched. {self.names}")
        values: dict[str, Any] = {"sqrt": np.sqrt}
        for name, value in zip(self.names, args, strict=False):
            values[name] = value._host if isinstance(value, ndarray) else arrays[0].dtype.type(value)
        with np.errstate(all="ignore"):
            for statement in self.statements:
                exec(statement, values)
        outputs = self.names[self.nin :]
        written = args[self.nin :] or tuple(ndarray(np.array(values[name], arrays[0].dtype)) for name in outputs)
        for name, array in zip(outputs, written, strict=True):
            array._host[...] = values[name]
        return written[0] if len(written) == 1 else written
