"""Names that users of torch, NumPy and JAX look for in vain, and what to do about it; part of the AttributeError."""

from __future__ import annotations

__all__ = ["ABSENT"]

_COMPILED = "nothing is compiled here; leave the call or the decorator out"
_ONE_PROCESS = "training runs in one process; DataLoader(num_workers=...) loads data in several"
_DTYPES = "NumPy has no such dtype; use float32. Files with bfloat16 are read as float32"
_STRIDED = "there are only dense tensors in the order of their strides; leave the argument out"

ABSENT = {
    "ao": "quantised models stay in torch",
    "array": "use retrograd.tensor(data)",
    "bfloat16": _DTYPES,
    "channels_last": _STRIDED,
    "channels_last_3d": _STRIDED,
    "distributed": _ONE_PROCESS,
    "export": _COMPILED,
    "float8_e4m3fn": _DTYPES,
    "float8_e5m2": _DTYPES,
    "fx": _COMPILED,
    "grad": "use retrograd.func.grad(function), or retrograd.autograd.grad(outputs, inputs)",
    "hessian": "use retrograd.func.hessian(function)",
    "hub": "models are not downloaded; load weights with retrograd.load(path)",
    "jacobian": "use retrograd.autograd.functional.jacobian(function, inputs), or retrograd.func.jacrev(function)",
    "jit": _COMPILED,
    "mps": "there are tensors on the CPU, and on NVIDIA GPUs through CuPy",
    "multiprocessing": "tensors are not shared between processes; use the standard library's multiprocessing",
    "ndarray": "tensors are of the class retrograd.Tensor; x.numpy() gives the array of one",
    "nested": "there are only dense tensors; pad with nn.utils.rnn.pad_sequence and mask",
    "numpy": "NumPy's own functions take tensors and can be differentiated: import numpy as np",
    "onnx": "models are not exported; load the weights into the torch model and export that",
    "profiler": "use retrograd.autograd.profiler.profile",
    "quantization": "quantised models stay in torch",
    "sparse": "there are only dense tensors",
    "sparse_coo": _STRIDED,
    "value_and_grad": "use retrograd.func.value_and_grad(function)",
    "version": "use retrograd.__version__",
    "xpu": "there are tensors on the CPU, and on NVIDIA GPUs through CuPy",
}
