"""Names that users of torch, NumPy and JAX look for in vain, and what to do about it.

The advice is part of the error, be the name asked for as an attribute or in an import line.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["ABSENT", "missing"]

_COMPILED = "nothing is compiled here; leave the call or the decorator out"
_NOT_LOADED = "models are not downloaded; load weights with retrograd.load(path)"
_QUANTISED = "quantised models stay in torch"
_DTYPES = "NumPy has no such dtype; use float32. Files with bfloat16 are read as float32"
_DENSE = "there are only dense tensors"
_STRIDED = "there are only dense tensors in the order of their strides; leave the argument out"

ABSENT = {
    "_dynamo": _COMPILED,
    "_inductor": _COMPILED,
    "ao": _QUANTISED,
    "array": "use retrograd.tensor(data)",
    "as_strided_": "use x = x.as_strided(size, stride)",
    "channels_last": _STRIDED,
    "channels_last_3d": _STRIDED,
    "export": _COMPILED,
    "float8_e4m3fn": _DTYPES,
    "float8_e5m2": _DTYPES,
    "fx": _COMPILED,
    "grad": "use retrograd.func.grad(function), or retrograd.autograd.grad(outputs, inputs)",
    "hessian": "use retrograd.func.hessian(function)",
    "histogramdd": "use numpy.histogramdd, which takes tensors",
    "hub": _NOT_LOADED,
    "jacobian": "use retrograd.autograd.functional.jacobian(function, inputs), or retrograd.func.jacrev(function)",
    "library": "an operation of your own is a retrograd.autograd.Function",
    "lobpcg": "use retrograd.linalg.eigh(A)",
    "lstsq": "use retrograd.linalg.lstsq(A, B)",
    "masked": f"{_DENSE}; mask with retrograd.where(mask, x, 0)",
    "matrix_rank": "use retrograd.linalg.matrix_rank(A)",
    "mps": "there are tensors on the CPU, and on NVIDIA GPUs through CuPy",
    "ndarray": "tensors are of the class retrograd.Tensor; x.numpy() gives the array of one",
    "nested": "there are only dense tensors; pad with nn.utils.rnn.pad_sequence and mask",
    "nn.intrinsic": _QUANTISED,
    "nn.qat": _QUANTISED,
    "nn.quantized": _QUANTISED,
    "numpy": "NumPy's own functions take tensors and can be differentiated: import numpy as np",
    "onnx": "models are not exported; load the weights into the torch model and export that",
    "optim.SparseAdam": f"{_DENSE}; use Adam",
    "profiler": "use retrograd.autograd.profiler.profile",
    "quantization": _QUANTISED,
    "quantize_per_tensor": _QUANTISED,
    "segment_reduce": "use x.scatter_reduce(dim, index, src, reduce)",
    "sparse": _DENSE,
    "sparse_coo": _STRIDED,
    "sparse_coo_tensor": _DENSE,
    "sparse_csr_tensor": _DENSE,
    "utils.benchmark": "use Python's timeit",
    "utils.cpp_extension": _COMPILED,
    "utils.model_zoo": _NOT_LOADED,
    "utils.tensorboard": "it writes numbers and arrays; import SummaryWriter from torch itself, or from tensorboardX",
    "value_and_grad": "use retrograd.func.value_and_grad(function)",
    "xpu": "there are tensors on the CPU, and on NVIDIA GPUs through CuPy",
}

# torch has them at its top, too, with other arguments.
_FUNCTIONAL = (
    "alpha_dropout batch_norm binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss dropout embedding "
    "embedding_bag group_norm hinge_embedding_loss instance_norm kl_div layer_norm margin_ranking_loss "
    "poisson_nll_loss rms_norm rrelu triplet_margin_loss"
)
ABSENT.update({name: f"use retrograd.nn.functional.{name}" for name in _FUNCTIONAL.split()})


def missing(module: str, name: str) -> AttributeError:
    """The exception for a name that a module of ours does not have, with advice where there is some."""
    path = f"{module}.{name}".partition(".")[2]
    advice = ABSENT.get(path)
    return AttributeError(f"module {module!r} has no attribute {name!r}" + (f": {advice}" if advice else ""))


class _ImportAdvice:
    """Asked for a module of ours that no other finder has: gives none, and says what to do instead."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> None:
        package, _, name = fullname.partition(".")
        if package == "retrograd" and name in ABSENT:
            # Without name=, so that ``from retrograd import onnx`` shows it, too, in place of "cannot import name".
            raise ModuleNotFoundError(f"No module or name {fullname!r}: {ABSENT[name]}")


sys.meta_path.append(_ImportAdvice)
