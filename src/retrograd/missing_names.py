"""Names of torch, NumPy and JAX that do not exist here, and what to use instead.

The advice is part of the error, for attributes as well as for imports.
"""

from __future__ import annotations

import sys
from typing import Any

from retrograd.core.registry import add_method

__all__ = ["ABSENT", "OF_TENSORS", "missing"]

_COMPILED = "nothing is compiled here; leave the call or the decorator out"
_NOT_LOADED = "models are not downloaded; load weights with retrograd.load(path)"
_QUANTISED = "quantised models stay in torch"
_DTYPES = "NumPy has no such dtype; use float32. Files with bfloat16 are read as float32"
_DENSE = "all tensors are dense; for sparse matrices use SciPy's, with A @ x or retrograd.sparse"
_NO_STORAGES = "there are no storage classes; x.untyped_storage() gives the address and the size of a tensor's memory"
_CHECKPOINTS = "whole functions are recomputed; call checkpoint only for the parts to recompute"
_STREAMS = "all work runs on one stream; leave streams out, and take times after retrograd.cuda.synchronize()"
_AUTOCAST = (
    "autocast changes no dtypes here (retrograd.is_autocast_enabled() is False), so leave it out; results have the "
    "dtypes of the tensors"
)
_DEVICES = "tensors are on the CPU, or on NVIDIA GPUs through CuPy; use this only where is_available() is True"
_STRIDED = "all tensors are dense and strided; leave the argument out"

ABSENT = {
    "BoolStorage": _NO_STORAGES,
    "ByteStorage": _NO_STORAGES,
    "CharStorage": _NO_STORAGES,
    "DoubleStorage": _NO_STORAGES,
    "Event": _STREAMS,
    "FloatStorage": _NO_STORAGES,
    "HalfStorage": _NO_STORAGES,
    "IntStorage": _NO_STORAGES,
    "LongStorage": _NO_STORAGES,
    "ShortStorage": _NO_STORAGES,
    "Storage": _NO_STORAGES,
    "Stream": _STREAMS,
    "TypedStorage": _NO_STORAGES,
    "_C": "this is torch's compiled core; use public names, such as retrograd.jit.is_tracing()",
    "_dynamo": _COMPILED,
    "_inductor": _COMPILED,
    "ao": _QUANTISED,
    "array": "use retrograd.tensor(data)",
    "channels_last": _STRIDED,
    "channels_last_3d": _STRIDED,
    "complex32": "NumPy has no such dtype; use complex64",
    "cond": "use Python's if",
    "cuda.Event": _STREAMS,
    "cuda.Stream": _STREAMS,
    "cuda.current_stream": _STREAMS,
    "cuda.nvtx": "use retrograd.profiler.record_function(name)",
    "cuda.stream": _STREAMS,
    "dequantize": _QUANTISED,
    "eig": "use retrograd.linalg.eig(A)",
    "export": _COMPILED,
    "float8_e4m3fn": _DTYPES,
    "float8_e5m2": _DTYPES,
    "from_file": "use retrograd.from_numpy(numpy.memmap(filename, dtype, mode))",
    "func.functionalize": "nothing is traced; call the function itself",
    "futures": "use Python's concurrent.futures",
    "fx": _COMPILED,
    "grad": "use retrograd.func.grad(function), or retrograd.autograd.grad(outputs, inputs)",
    "hessian": "use retrograd.func.hessian(function)",
    "hash_tensor": "use hashlib.sha256(x.numpy().tobytes()).hexdigest()",
    "hub": _NOT_LOADED,
    "jacobian": "use retrograd.autograd.functional.jacobian(function, inputs), or retrograd.func.jacrev(function)",
    "library": "define your own operation as a retrograd.autograd.Function",
    "lobpcg": "use retrograd.linalg.eigh(A)",
    "lstsq": "use retrograd.linalg.lstsq(A, B)",
    "masked": f"{_DENSE}; mask with retrograd.where(mask, x, 0)",
    "matrix_rank": "use retrograd.linalg.matrix_rank(A)",
    "ndarray": "the tensor class is retrograd.Tensor; x.numpy() returns its array",
    "nested": "all tensors are dense; pad with nn.utils.rnn.pad_sequence and mask",
    "nn.intrinsic": _QUANTISED,
    "nn.qat": _QUANTISED,
    "nn.quantized": _QUANTISED,
    "numpy": "NumPy's own functions take tensors and can be differentiated: import numpy as np",
    "onnx": "models are not exported; load the weights into the torch model and export that",
    "optim.SparseAdam": f"{_DENSE}; use Adam",
    "overrides": "operations return plain tensors, even from a subclass; wrap your own functions instead",
    "qint32": _QUANTISED,
    "qint8": _QUANTISED,
    "quantization": _QUANTISED,
    "quantize_per_channel": _QUANTISED,
    "quantize_per_tensor": _QUANTISED,
    "quasirandom": "use retrograd.from_numpy(scipy.stats.qmc.Sobol(d).random(n))",
    "quint8": _QUANTISED,
    "solve": "use retrograd.linalg.solve(A, B), whose operands are in the opposite order",
    "sparse_bsc_tensor": _DENSE,
    "sparse_bsr_tensor": _DENSE,
    "sparse_compressed_tensor": _DENSE,
    "sparse_coo": _STRIDED,
    "sparse_coo_tensor": _DENSE,
    "sparse_csc_tensor": _DENSE,
    "sparse_csr_tensor": _DENSE,
    "symeig": "use retrograd.linalg.eigh(A, UPLO='U')",
    "uint16": "use int32, which holds all its values",
    "uint32": "use int64, which holds all its values",
    "uint64": "use int64",
    "utils.benchmark": "use Python's timeit",
    "utils.checkpoint.CheckpointPolicy": _CHECKPOINTS,
    "utils.checkpoint.SelectiveCheckpointContext": _CHECKPOINTS,
    "utils.checkpoint.create_selective_checkpoint_contexts": _CHECKPOINTS,
    "utils.cpp_extension": _COMPILED,
    "utils.flop_counter": "use retrograd.profiler.profile(with_flops=True)",
    "utils.model_zoo": _NOT_LOADED,
    "utils.tensorboard": "import SummaryWriter from torch or tensorboardX; it takes numbers and arrays",
    "value_and_grad": "use retrograd.func.value_and_grad(function)",
    "while_loop": "use Python's while",
}

# What tensors do not have, and what to use instead.
OF_TENSORS = {
    "as_subclass": "operations return plain tensors; keep a tensor in an object of your own",
    "chalf": "NumPy has no such dtype; use x.cfloat()",
    "eig": "use retrograd.linalg.eig(x)",
    "lstsq": "use retrograd.linalg.lstsq(A, x)",
    "share_memory_": "tensors cannot be moved to memory shared between processes",
    "solve": "use retrograd.linalg.solve(A, x)",
    "storage": "use x.untyped_storage(), which gives the address and the size of its memory",
    "storage_type": "use x.untyped_storage(), which gives the address and the size of its memory",
    "symeig": "use retrograd.linalg.eigh(x, UPLO='U')",
}
# Further attributes of NumPy's arrays.
OF_TENSORS |= {
    "base": "use x._base, which is the tensor that x is a view of",
    "byteswap": "use x.numpy().byteswap()",
    "flags": "use x.is_contiguous(), or x.numpy().flags",
    "flat": "use x.ravel()",
    "partition": "use numpy.partition(x, kth)",
    "strides": "use x.stride(), which counts elements",
    "tobytes": "use x.detach().numpy().tobytes()",
    "tofile": "use x.detach().numpy().tofile(file)",
}
for _advice, _names in (
    (
        _DENSE,
        "ccol_indices coalesce col_indices crow_indices dense_dim indices is_coalesced row_indices sparse_dim "
        "sparse_mask to_mkldnn to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc "
        "to_sparse_csr values",
    ),
    (_QUANTISED, "dequantize int_repr q_scale q_zero_point qscheme"),
    (_STREAMS, "record_stream"),
):
    OF_TENSORS.update(dict.fromkeys(_names.split(), _advice))

_AUTOCAST_NAMES = (
    "autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache get_autocast_cpu_dtype "
    "get_autocast_dtype get_autocast_gpu_dtype is_autocast_cache_enabled is_autocast_cpu_enabled "
    "set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype "
    "set_autocast_enabled set_autocast_gpu_dtype"
)
ABSENT.update(dict.fromkeys(_AUTOCAST_NAMES.split(), _AUTOCAST))

# torch has them at its top, too, with other arguments.
_FUNCTIONAL = (
    "alpha_dropout batch_norm binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss dropout embedding "
    "embedding_bag group_norm hinge_embedding_loss instance_norm kl_div layer_norm margin_ranking_loss "
    "poisson_nll_loss rms_norm rrelu triplet_margin_loss"
)
ABSENT.update({name: f"use retrograd.nn.functional.{name}" for name in _FUNCTIONAL.split()})

# Modules that have few of torch's names, and what to do about the others.
_REST_OF = {
    "distributed": "training runs in one process; use this only where is_available() is True",
    "jit": "nothing is compiled here; call the module itself, and save its state_dict()",
    "mps": _DEVICES,
    "multiprocessing": (
        "tensors are not shared between processes; use the standard library's multiprocessing, and send arrays"
    ),
    "xpu": _DEVICES,
}


def _what_to_do(path: str) -> str | None:
    """What to do about a name that is not there, without ``retrograd.`` in front."""
    return ABSENT.get(path) or _REST_OF.get(path.partition(".")[0] if "." in path else "")


def missing(module: str, name: str) -> AttributeError:
    """The exception for a name that a module of ours does not have, with advice where there is some."""
    advice = _what_to_do(f"{module}.{name}".partition(".")[2])
    return AttributeError(f"module {module!r} has no attribute {name!r}" + (f": {advice}" if advice else ""))


class _AbsentMember:
    """Stands for an attribute that tensors do not have; the class does not have it either."""

    def __init__(self, name: str, advice: str) -> None:
        self.name = name
        self.__doc__ = f"Not there: {advice}."
        self.advice = advice

    def __get__(self, tensor: Any, owner: type) -> Any:
        error = AttributeError(f"'{owner.__name__}' object has no attribute '{self.name}': {self.advice}")
        error.name, error.obj = self.name, tensor
        raise error


def _members(tensor: Any) -> list[str]:
    return [name for name in object.__dir__(tensor) if name not in OF_TENSORS]


for _name, _advice in OF_TENSORS.items():
    add_method(_name, _AbsentMember(_name, _advice))
add_method("__dir__", _members)


class _ImportAdvice:
    """The last finder asked for a module of this package: raises with advice on what to do instead."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> None:
        package, _, name = fullname.partition(".")
        advice = _what_to_do(name) if package == "retrograd" else None
        if advice is not None:
            # Without name=, so that ``from retrograd import onnx`` shows it, too, in place of "cannot import name".
            raise ModuleNotFoundError(f"No module or name {fullname!r}: {advice}")


sys.meta_path.append(_ImportAdvice)
