"""Automatic differentiation on NumPy arrays with torch's API and semantics. Written by ``python -m tools.stubs``; do not edit."""

from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from collections.abc import Sequence
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import Any, Literal, overload

from numpy import ndarray

from retrograd import accelerator as accelerator
from retrograd import amp as amp
from retrograd import anomaly as anomaly
from retrograd import array_api as array_api
from retrograd import autograd as autograd
from retrograd import backends as backends
from retrograd import compiler as compiler
from retrograd import creation as creation
from retrograd import cuda as cuda
from retrograd import distributed as distributed
from retrograd import distributions as distributions
from retrograd import fft as fft
from retrograd import func as func
from retrograd import functional as functional
from retrograd import jit as jit
from retrograd import linalg as linalg
from retrograd import mps as mps
from retrograd import multiprocessing as multiprocessing
from retrograd import nn as nn
from retrograd import ops as ops
from retrograd import optim as optim
from retrograd import optimize as optimize
from retrograd import profiler as profiler
from retrograd import random as random
from retrograd import return_types as return_types
from retrograd import serialization as serialization
from retrograd import signal as signal
from retrograd import sparse as sparse
from retrograd import special as special
from retrograd import testing as testing
from retrograd import types as types
from retrograd import utils as utils
from retrograd import version as version
from retrograd import xpu as xpu
from retrograd.amp import GradScaler as GradScaler
from retrograd.amp import autocast as autocast
from retrograd.amp import is_autocast_enabled as is_autocast_enabled
from retrograd.autograd import enable_grad as enable_grad
from retrograd.autograd import inference_mode as inference_mode
from retrograd.autograd import is_grad_enabled as is_grad_enabled
from retrograd.autograd import is_inference_mode_enabled as is_inference_mode_enabled
from retrograd.autograd import no_grad as no_grad
from retrograd.autograd import set_grad_enabled as set_grad_enabled
from retrograd.autograd.anomaly_mode import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from retrograd.autograd.anomaly_mode import is_anomaly_enabled as is_anomaly_enabled
from retrograd.autograd.anomaly_mode import set_anomaly_enabled as set_anomaly_enabled
from retrograd.core.annotations import DTypeLike, Number, Operand, TensorOrArray
from retrograd.core.blocks import get_num_threads as get_num_threads
from retrograd.core.blocks import set_num_threads as set_num_threads
from retrograd.core.size import Size as Size
from retrograd.core.tensor import Tensor as Tensor
from retrograd.core.tensor_types import TensorType
from retrograd.creation import UntypedStorage as UntypedStorage
from retrograd.creation import arange as arange
from retrograd.creation import as_tensor as as_tensor
from retrograd.creation import asarray as asarray
from retrograd.creation import contiguous_format as contiguous_format
from retrograd.creation import empty as empty
from retrograd.creation import empty_like as empty_like
from retrograd.creation import empty_permuted as empty_permuted
from retrograd.creation import empty_strided as empty_strided
from retrograd.creation import eye as eye
from retrograd.creation import from_dlpack as from_dlpack
from retrograd.creation import from_numpy as from_numpy
from retrograd.creation import frombuffer as frombuffer
from retrograd.creation import full as full
from retrograd.creation import full_like as full_like
from retrograd.creation import get_default_device as get_default_device
from retrograd.creation import is_storage as is_storage
from retrograd.creation import layout as layout
from retrograd.creation import linspace as linspace
from retrograd.creation import logspace as logspace
from retrograd.creation import memory_format as memory_format
from retrograd.creation import ones as ones
from retrograd.creation import ones_like as ones_like
from retrograd.creation import preserve_format as preserve_format
from retrograd.creation import scalar_tensor as scalar_tensor
from retrograd.creation import set_default_device as set_default_device
from retrograd.creation import strided as strided
from retrograd.creation import tensor as tensor
from retrograd.creation import tril_indices as tril_indices
from retrograd.creation import triu_indices as triu_indices
from retrograd.creation import zeros as zeros
from retrograd.creation import zeros_like as zeros_like
from retrograd.creation.options import memory_format as _memory_format
from retrograd.creation.ranges import range as range
from retrograd.creation.signal_windows import bartlett_window as bartlett_window
from retrograd.creation.signal_windows import blackman_window as blackman_window
from retrograd.creation.signal_windows import hamming_window as hamming_window
from retrograd.creation.signal_windows import hann_window as hann_window
from retrograd.creation.signal_windows import kaiser_window as kaiser_window
from retrograd.cuda import OutOfMemoryError as OutOfMemoryError
from retrograd.device import cuda_is_available as cuda_is_available
from retrograd.device import device as device
from retrograd.dtypes import bool as bool
from retrograd.dtypes import can_cast as can_cast
from retrograd.dtypes import cdouble as cdouble
from retrograd.dtypes import cfloat as cfloat
from retrograd.dtypes import complex64 as complex64
from retrograd.dtypes import complex128 as complex128
from retrograd.dtypes import double as double
from retrograd.dtypes import dtype as dtype
from retrograd.dtypes import finfo as finfo
from retrograd.dtypes import float as float
from retrograd.dtypes import float16 as float16
from retrograd.dtypes import float32 as float32
from retrograd.dtypes import float64 as float64
from retrograd.dtypes import get_default_dtype as get_default_dtype
from retrograd.dtypes import half as half
from retrograd.dtypes import iinfo as iinfo
from retrograd.dtypes import int as int
from retrograd.dtypes import int8 as int8
from retrograd.dtypes import int16 as int16
from retrograd.dtypes import int32 as int32
from retrograd.dtypes import int64 as int64
from retrograd.dtypes import long as long
from retrograd.dtypes import promote_types as promote_types
from retrograd.dtypes import set_default_dtype as set_default_dtype
from retrograd.dtypes import short as short
from retrograd.dtypes import uint8 as uint8
from retrograd.files import load as load
from retrograd.files import save as save
from retrograd.legacy import detach as detach
from retrograd.legacy import norm_except_dim as norm_except_dim
from retrograd.lowrank import pca_lowrank as pca_lowrank
from retrograd.lowrank import svd_lowrank as svd_lowrank
from retrograd.ops.facts import get_device as get_device
from retrograd.ops.facts import is_same_size as is_same_size
from retrograd.printing import printoptions as printoptions
from retrograd.printing import set_printoptions as set_printoptions
from retrograd.queries import is_complex as is_complex
from retrograd.queries import is_floating_point as is_floating_point
from retrograd.queries import is_inference as is_inference
from retrograd.queries import is_signed as is_signed
from retrograd.queries import is_tensor as is_tensor
from retrograd.queries import numel as numel
from retrograd.queries import result_type as result_type
from retrograd.queries import typename as typename
from retrograd.random import Generator as Generator
from retrograd.random import bernoulli as bernoulli
from retrograd.random import binomial as binomial
from retrograd.random import default_generator as default_generator
from retrograd.random import fork_rng as fork_rng
from retrograd.random import get_rng_state as get_rng_state
from retrograd.random import initial_seed as initial_seed
from retrograd.random import manual_seed as manual_seed
from retrograd.random import multinomial as multinomial
from retrograd.random import normal as normal
from retrograd.random import poisson as poisson
from retrograd.random import rand as rand
from retrograd.random import rand_like as rand_like
from retrograd.random import randint as randint
from retrograd.random import randint_like as randint_like
from retrograd.random import randn as randn
from retrograd.random import randn_like as randn_like
from retrograd.random import randperm as randperm
from retrograd.random import seed as seed
from retrograd.random import set_rng_state as set_rng_state
from retrograd.settings import _assert as _assert
from retrograd.settings import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from retrograd.settings import bfloat16 as bfloat16
from retrograd.settings import compile as compile
from retrograd.settings import get_deterministic_debug_mode as get_deterministic_debug_mode
from retrograd.settings import get_float32_matmul_precision as get_float32_matmul_precision
from retrograd.settings import get_num_interop_threads as get_num_interop_threads
from retrograd.settings import (
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
)
from retrograd.settings import is_warn_always_enabled as is_warn_always_enabled
from retrograd.settings import set_default_tensor_type as set_default_tensor_type
from retrograd.settings import set_deterministic_debug_mode as set_deterministic_debug_mode
from retrograd.settings import set_float32_matmul_precision as set_float32_matmul_precision
from retrograd.settings import set_flush_denormal as set_flush_denormal
from retrograd.settings import set_num_interop_threads as set_num_interop_threads
from retrograd.settings import set_warn_always as set_warn_always
from retrograd.settings import use_deterministic_algorithms as use_deterministic_algorithms
from retrograd.utils.dlpack import to_dlpack as to_dlpack
from retrograd.vectorize import vmap as vmap

HalfTensor: TensorType
FloatTensor: TensorType
DoubleTensor: TensorType
ComplexFloatTensor: TensorType
ComplexDoubleTensor: TensorType
ByteTensor: TensorType
CharTensor: TensorType
ShortTensor: TensorType
IntTensor: TensorType
LongTensor: TensorType
BoolTensor: TensorType
__version__: str
newaxis: None
__all__ = [
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "ComplexDoubleTensor",
    "ComplexFloatTensor",
    "DoubleTensor",
    "FloatTensor",
    "Generator",
    "GradScaler",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "OutOfMemoryError",
    "ShortTensor",
    "Size",
    "Tensor",
    "UntypedStorage",
    "abs",
    "absolute",
    "acos",
    "acosh",
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "add",
    "addbmm",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "addr",
    "adjoint",
    "alias_copy",
    "all",
    "allclose",
    "amax",
    "amin",
    "aminmax",
    "amp",
    "angle",
    "any",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "are_deterministic_algorithms_enabled",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "as_strided",
    "as_strided_copy",
    "as_strided_scatter",
    "as_tensor",
    "asarray",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "autocast",
    "autograd",
    "avg_pool1d",
    "backends",
    "baddbmm",
    "bartlett_window",
    "bernoulli",
    "bfloat16",
    "bilinear",
    "bincount",
    "binomial",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "blackman_window",
    "block_diag",
    "bmm",
    "bool",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "bucketize",
    "can_cast",
    "cartesian_prod",
    "cat",
    "cdist",
    "cdouble",
    "ceil",
    "celu",
    "celu_",
    "cfloat",
    "chain_matmul",
    "channel_shuffle",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "chunk",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "clone",
    "column_stack",
    "combinations",
    "compile",
    "complex",
    "complex128",
    "complex64",
    "concat",
    "concatenate",
    "conj",
    "conj_physical",
    "constant_pad_nd",
    "contiguous_format",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "copysign",
    "corrcoef",
    "cos",
    "cosh",
    "cosine_similarity",
    "count_nonzero",
    "cov",
    "creation",
    "cross",
    "cuda",
    "cuda_is_available",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "default_generator",
    "deg2rad",
    "det",
    "detach",
    "detach_copy",
    "device",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "diagonal_copy",
    "diagonal_scatter",
    "diff",
    "digamma",
    "dist",
    "distributions",
    "div",
    "divide",
    "dot",
    "double",
    "dsplit",
    "dstack",
    "dtype",
    "e",
    "einsum",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "enable_grad",
    "eq",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expand_copy",
    "expm1",
    "eye",
    "fake_quantize_per_channel_affine",
    "fake_quantize_per_tensor_affine",
    "fft",
    "fill",
    "finfo",
    "fix",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "float",
    "float16",
    "float32",
    "float64",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "fork_rng",
    "frac",
    "frexp",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "gather",
    "gcd",
    "ge",
    "geqrf",
    "ger",
    "get_default_device",
    "get_default_dtype",
    "get_deterministic_debug_mode",
    "get_device",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "get_rng_state",
    "gradient",
    "greater",
    "greater_equal",
    "gt",
    "half",
    "hamming_window",
    "hann_window",
    "hardshrink",
    "heaviside",
    "histc",
    "histogram",
    "histogramdd",
    "hsplit",
    "hstack",
    "hypot",
    "i0",
    "igamma",
    "igammac",
    "iinfo",
    "imag",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "index_select",
    "inf",
    "inference_mode",
    "initial_seed",
    "inner",
    "int",
    "int16",
    "int32",
    "int64",
    "int8",
    "inverse",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_autocast_enabled",
    "is_complex",
    "is_conj",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_floating_point",
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "is_neg",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_storage",
    "is_tensor",
    "is_warn_always_enabled",
    "isclose",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "istft",
    "kaiser_window",
    "kron",
    "kthvalue",
    "layout",
    "lcm",
    "ldexp",
    "le",
    "lerp",
    "less",
    "less_equal",
    "lgamma",
    "linalg",
    "linspace",
    "load",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logcumsumexp",
    "logdet",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logspace",
    "logsumexp",
    "long",
    "lt",
    "lu",
    "lu_solve",
    "lu_unpack",
    "manual_seed",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "matmul",
    "matrix_exp",
    "matrix_power",
    "max",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "maximum",
    "mean",
    "median",
    "memory_format",
    "meshgrid",
    "min",
    "minimum",
    "mm",
    "mode",
    "moveaxis",
    "movedim",
    "msort",
    "mul",
    "multinomial",
    "multiply",
    "mv",
    "mvlgamma",
    "nan",
    "nan_to_num",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "narrow",
    "narrow_copy",
    "ne",
    "neg",
    "negative",
    "newaxis",
    "nextafter",
    "nn",
    "no_grad",
    "nonzero",
    "nonzero_static",
    "norm",
    "norm_except_dim",
    "normal",
    "not_equal",
    "numel",
    "ones",
    "ones_like",
    "ops",
    "optim",
    "orgqr",
    "ormqr",
    "outer",
    "pad",
    "pairwise_distance",
    "pca_lowrank",
    "pdist",
    "permute",
    "permute_copy",
    "pi",
    "pinverse",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson",
    "polar",
    "polygamma",
    "positive",
    "pow",
    "prelu",
    "preserve_format",
    "printoptions",
    "prod",
    "promote_types",
    "put",
    "qr",
    "quantile",
    "rad2deg",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "range",
    "ravel",
    "real",
    "reciprocal",
    "relu",
    "relu_",
    "remainder",
    "renorm",
    "repeat_interleave",
    "reshape",
    "resolve_conj",
    "resolve_neg",
    "result_type",
    "roll",
    "rot90",
    "round",
    "row_stack",
    "rsqrt",
    "rsub",
    "save",
    "scalar_tensor",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "seed",
    "segment_reduce",
    "select",
    "select_copy",
    "select_scatter",
    "selu",
    "selu_",
    "serialization",
    "set_anomaly_enabled",
    "set_default_device",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_grad_enabled",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "set_warn_always",
    "sgn",
    "short",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "slice_copy",
    "slice_scatter",
    "slogdet",
    "softmax",
    "sort",
    "split",
    "split_copy",
    "split_with_sizes",
    "split_with_sizes_copy",
    "sqrt",
    "square",
    "squeeze",
    "squeeze_copy",
    "stack",
    "std",
    "std_mean",
    "stft",
    "strided",
    "sub",
    "subtract",
    "sum",
    "svd",
    "svd_lowrank",
    "swapaxes",
    "swapdims",
    "t",
    "t_copy",
    "take",
    "take_along_dim",
    "tan",
    "tanh",
    "tensor",
    "tensor_split",
    "tensordot",
    "testing",
    "threshold",
    "threshold_",
    "tile",
    "to_dlpack",
    "topk",
    "trace",
    "transpose",
    "transpose_copy",
    "trapezoid",
    "trapz",
    "triangular_solve",
    "tril",
    "tril_indices",
    "triu",
    "triu_indices",
    "true_divide",
    "trunc",
    "typename",
    "uint8",
    "unbind",
    "unbind_copy",
    "unflatten",
    "unfold_copy",
    "unique",
    "unique_consecutive",
    "unravel_index",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "unsqueeze",
    "unsqueeze_copy",
    "use_deterministic_algorithms",
    "vander",
    "var",
    "var_mean",
    "vdot",
    "view_as_complex",
    "view_as_complex_copy",
    "view_as_real",
    "view_as_real_copy",
    "view_copy",
    "vmap",
    "vsplit",
    "vstack",
    "where",
    "xlogy",
    "zeros",
    "zeros_like",
]

def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def abs_(input: Tensor) -> Tensor: ...
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acos_(input: Tensor) -> Tensor: ...
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acosh_(input: Tensor) -> Tensor: ...
def adaptive_avg_pool1d(input: Tensor, output_size: _int | Sequence[_int | None] | None) -> Tensor: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: _int | Sequence[_int | None] | None, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: _int | Sequence[_int | None] | None, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: _int | Sequence[_int | None] | None, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: _int | Sequence[_int | None] | None, *, return_indices: _bool
) -> Any: ...
def add(input: Operand, other: Operand, *scaled: Operand, alpha: Number = 1, out: Tensor | None = None) -> Tensor: ...
def addbmm(
    input: TensorOrArray,
    batch1: TensorOrArray,
    batch2: TensorOrArray,
    beta: _complex = 1,
    alpha: _complex = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def addcdiv(
    input: Operand, tensor1: Operand, tensor2: Operand, value: _complex = 1, *, out: Tensor | None = None
) -> Tensor: ...
def addcmul(
    input: Operand, tensor1: Operand, tensor2: Operand, value: _complex = 1, *, out: Tensor | None = None
) -> Tensor: ...
def addmm(
    input: TensorOrArray,
    mat1: TensorOrArray,
    mat2: TensorOrArray,
    beta: _complex = 1,
    alpha: _complex = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def addmv(
    input: TensorOrArray,
    mat: TensorOrArray,
    vec: TensorOrArray,
    beta: _complex = 1,
    alpha: _complex = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def addmv_(
    input: TensorOrArray, mat: TensorOrArray, vec: TensorOrArray, beta: _complex = 1, alpha: _complex = 1
) -> Tensor: ...
def addr(
    input: TensorOrArray,
    vec1: TensorOrArray,
    vec2: TensorOrArray,
    beta: _complex = 1,
    alpha: _complex = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def adjoint(input: Tensor) -> Tensor: ...
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def all(
    input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def all(
    input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdims: _bool, out: Tensor | None = None
) -> Tensor: ...
@overload
def all(
    input: Tensor, *, axis: _int | Sequence[_int] | None, keepdims: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def allclose(
    input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False
) -> _bool: ...
@overload
def amax(
    input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def amax(
    input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdims: _bool, out: Tensor | None = None
) -> Tensor: ...
@overload
def amax(
    input: Tensor, *, axis: _int | Sequence[_int] | None, keepdims: _bool = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def amin(
    input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def amin(
    input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdims: _bool, out: Tensor | None = None
) -> Tensor: ...
@overload
def amin(
    input: Tensor, *, axis: _int | Sequence[_int] | None, keepdims: _bool = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def aminmax(
    input: Tensor,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.aminmax: ...
@overload
def aminmax(
    input: Tensor, dim: _int | None = None, *, keepdims: _bool, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.aminmax: ...
@overload
def aminmax(
    input: Tensor, *, axis: _int | None, keepdims: _bool = False, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.aminmax: ...
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def any(
    input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def any(
    input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdims: _bool, out: Tensor | None = None
) -> Tensor: ...
@overload
def any(
    input: Tensor, *, axis: _int | Sequence[_int] | None, keepdims: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arccos_(input: Tensor) -> Tensor: ...
def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arccosh_(input: Tensor) -> Tensor: ...
def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arcsin_(input: Tensor) -> Tensor: ...
def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arcsinh_(input: Tensor) -> Tensor: ...
def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctan2(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def arctan_(input: Tensor) -> Tensor: ...
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctanh_(input: Tensor) -> Tensor: ...
@overload
def argmax(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def argmax(input: Tensor, dim: _int | None = None, *, keepdims: _bool, out: Tensor | None = None) -> Tensor: ...
@overload
def argmax(input: Tensor, *, axis: _int | None, keepdims: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def argmin(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def argmin(input: Tensor, dim: _int | None = None, *, keepdims: _bool, out: Tensor | None = None) -> Tensor: ...
@overload
def argmin(input: Tensor, *, axis: _int | None, keepdims: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def argsort(
    input: Tensor, dim: _int = -1, descending: _bool = False, stable: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def argsort(
    input: Tensor, *, axis: _int, descending: _bool = False, stable: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def argwhere(input: Tensor) -> Tensor: ...
def as_strided(
    input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None
) -> Tensor: ...
def as_strided_(
    input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None
) -> Tensor: ...
def as_strided_copy(
    input: Tensor,
    size: Sequence[_int],
    stride: Sequence[_int],
    storage_offset: _int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def as_strided_scatter(
    input: TensorOrArray,
    src: TensorOrArray,
    size: Sequence[_int],
    stride: Sequence[_int],
    storage_offset: _int | None = None,
) -> Tensor: ...
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def asin_(input: Tensor) -> Tensor: ...
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def asinh_(input: Tensor) -> Tensor: ...
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atan2(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def atan_(input: Tensor) -> Tensor: ...
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atanh_(input: Tensor) -> Tensor: ...
@overload
def atleast_1d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_1d(tensors: Sequence[TensorOrArray], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_1d(first: TensorOrArray, second: TensorOrArray, /, *more: TensorOrArray) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_2d(tensors: Sequence[TensorOrArray], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(first: TensorOrArray, second: TensorOrArray, /, *more: TensorOrArray) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_3d(tensors: Sequence[TensorOrArray], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(first: TensorOrArray, second: TensorOrArray, /, *more: TensorOrArray) -> tuple[Tensor, ...]: ...
def avg_pool1d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = None,
    padding: _int | Sequence[_int] = 0,
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
) -> Tensor: ...
def baddbmm(
    input: TensorOrArray,
    batch1: TensorOrArray,
    batch2: TensorOrArray,
    beta: _complex = 1,
    alpha: _complex = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def bilinear(
    input1: TensorOrArray, input2: TensorOrArray, weight: TensorOrArray, bias: TensorOrArray | None = None
) -> Tensor: ...
def bincount(
    input: TensorOrArray, weights: TensorOrArray | None = None, minlength: _int = 0, *, out: Tensor | None = None
) -> Tensor: ...
def bitwise_and(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def bitwise_left_shift(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def bitwise_or(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def bitwise_right_shift(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def bitwise_xor(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def block_diag(*tensors: TensorOrArray) -> Tensor: ...
def bmm(input: TensorOrArray, mat2: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
def broadcast_shapes(*shapes: _int | Sequence[_int]) -> Size: ...
def broadcast_tensors(*tensors: Sequence[TensorOrArray] | TensorOrArray) -> tuple[Tensor, ...]: ...
@overload
def broadcast_to(input: Tensor, size: Sequence[_int]) -> Tensor: ...
@overload
def broadcast_to(input: Tensor, *size: _int) -> Tensor: ...
def bucketize(
    input: Operand,
    boundaries: TensorOrArray,
    out_int32: _bool = False,
    right: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def cartesian_prod(*tensors: TensorOrArray) -> Tensor: ...
@overload
def cat(tensors: Sequence[TensorOrArray], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
@overload
def cat(tensors: Sequence[TensorOrArray], *, axis: _int, out: Tensor | None = None) -> Tensor: ...
def cdist(
    x1: TensorOrArray, x2: TensorOrArray, p: _float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor: ...
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ceil_(input: Tensor) -> Tensor: ...
def celu(input: Tensor, alpha: _float = 1.0, *, out: Tensor | None = None) -> Tensor: ...
def celu_(input: Tensor, alpha: _float = 1.0) -> Tensor: ...
def chain_matmul(*matrices: TensorOrArray, out: Tensor | None = None) -> Tensor: ...
def channel_shuffle(input: Tensor, groups: _int) -> Tensor: ...
def cholesky(A: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def cholesky_inverse(L: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def cholesky_solve(
    B: TensorOrArray, L: TensorOrArray, upper: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def chunk(input: Tensor, chunks: _int, *, axis: _int) -> tuple[Tensor, ...]: ...
def clamp(
    input: Operand, min: Operand | None = None, max: Operand | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def clamp_(input: Operand, min: Operand | None = None, max: Operand | None = None) -> Tensor: ...
def clamp_max(input: Operand, max: Operand, *, out: Tensor | None = None) -> Tensor: ...
def clamp_max_(input: Operand, max: Operand) -> Tensor: ...
def clamp_min(input: Operand, min: Operand, *, out: Tensor | None = None) -> Tensor: ...
def clamp_min_(input: Operand, min: Operand) -> Tensor: ...
def clip(
    input: Operand, min: Operand | None = None, max: Operand | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def clip_(input: Operand, min: Operand | None = None, max: Operand | None = None) -> Tensor: ...
def clone(input: Tensor, memory_format: _memory_format | None = None, *, out: Tensor | None = None) -> Tensor: ...
def column_stack(tensors: Sequence[TensorOrArray], *, out: Tensor | None = None) -> Tensor: ...
def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor: ...
def complex(real: TensorOrArray, imag: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
@overload
def concat(tensors: Sequence[TensorOrArray], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
@overload
def concat(tensors: Sequence[TensorOrArray], *, axis: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def concatenate(tensors: Sequence[TensorOrArray], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
@overload
def concatenate(tensors: Sequence[TensorOrArray], *, axis: _int, out: Tensor | None = None) -> Tensor: ...
def conj(input: Tensor) -> Tensor: ...
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def conj_physical_(input: Tensor) -> Tensor: ...
def constant_pad_nd(
    input: Tensor, pad: Sequence[_int], value: _complex = 0, *, out: Tensor | None = None
) -> Tensor: ...
def conv1d(
    input: TensorOrArray,
    weight: TensorOrArray,
    bias: TensorOrArray | None = None,
    stride: _int | Sequence[_int] = 1,
    padding: _int | Sequence[_int] | str = 0,
    dilation: _int | Sequence[_int] = 1,
    groups: _int = 1,
) -> Tensor: ...
def conv2d(
    input: TensorOrArray,
    weight: TensorOrArray,
    bias: TensorOrArray | None = None,
    stride: _int | Sequence[_int] = 1,
    padding: _int | Sequence[_int] | str = 0,
    dilation: _int | Sequence[_int] = 1,
    groups: _int = 1,
) -> Tensor: ...
def conv3d(
    input: TensorOrArray,
    weight: TensorOrArray,
    bias: TensorOrArray | None = None,
    stride: _int | Sequence[_int] = 1,
    padding: _int | Sequence[_int] | str = 0,
    dilation: _int | Sequence[_int] = 1,
    groups: _int = 1,
) -> Tensor: ...
def conv_transpose1d(
    input: TensorOrArray,
    weight: TensorOrArray,
    bias: TensorOrArray | None = None,
    stride: _int | Sequence[_int] = 1,
    padding: _int | Sequence[_int] = 0,
    output_padding: _int | Sequence[_int] = 0,
    groups: _int = 1,
    dilation: _int | Sequence[_int] = 1,
) -> Tensor: ...
def conv_transpose2d(
    input: TensorOrArray,
    weight: TensorOrArray,
    bias: TensorOrArray | None = None,
    stride: _int | Sequence[_int] = 1,
    padding: _int | Sequence[_int] = 0,
    output_padding: _int | Sequence[_int] = 0,
    groups: _int = 1,
    dilation: _int | Sequence[_int] = 1,
) -> Tensor: ...
def conv_transpose3d(
    input: TensorOrArray,
    weight: TensorOrArray,
    bias: TensorOrArray | None = None,
    stride: _int | Sequence[_int] = 1,
    padding: _int | Sequence[_int] = 0,
    output_padding: _int | Sequence[_int] = 0,
    groups: _int = 1,
    dilation: _int | Sequence[_int] = 1,
) -> Tensor: ...
def copysign(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def corrcoef(input: Tensor) -> Tensor: ...
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def cos_(input: Tensor) -> Tensor: ...
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def cosh_(input: Tensor) -> Tensor: ...
@overload
def cosine_similarity(x1: TensorOrArray, x2: TensorOrArray, dim: _int = 1, eps: _float = 1e-08) -> Tensor: ...
@overload
def cosine_similarity(x1: TensorOrArray, x2: TensorOrArray, *, axis: _int, eps: _float = 1e-08) -> Tensor: ...
@overload
def count_nonzero(input: Tensor, dim: _int | Sequence[_int] | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def count_nonzero(input: Tensor, *, axis: _int | Sequence[_int] | None, out: Tensor | None = None) -> Tensor: ...
def cov(
    input: Tensor, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor: ...
@overload
def cross(
    input: TensorOrArray, other: TensorOrArray, dim: _int | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def cross(input: TensorOrArray, other: TensorOrArray, *, axis: _int | None, out: Tensor | None = None) -> Tensor: ...
@overload
def cummax(
    input: Tensor, dim: _int, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.cummax: ...
@overload
def cummax(
    input: Tensor, *, axis: _int, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.cummax: ...
@overload
def cummin(
    input: Tensor, dim: _int, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.cummin: ...
@overload
def cummin(
    input: Tensor, *, axis: _int, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.cummin: ...
@overload
def cumprod(input: Tensor, dim: _int, dtype: DTypeLike | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def cumprod(input: Tensor, *, axis: _int, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def cumsum(input: Tensor, dim: _int, dtype: DTypeLike | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def cumsum(input: Tensor, *, axis: _int, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def cumulative_trapezoid(
    y: Tensor, x: TensorOrArray | None = None, *, dx: _float | None = None, dim: _int = -1
) -> Tensor: ...
@overload
def cumulative_trapezoid(
    y: Tensor, x: TensorOrArray | None = None, *, dx: _float | None = None, axis: _int
) -> Tensor: ...
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def deg2rad_(input: Tensor) -> Tensor: ...
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def detach_(self: Tensor) -> Tensor: ...
def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def diag(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def diag_embed(
    input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1, *, out: Tensor | None = None
) -> Tensor: ...
def diagflat(input: Tensor, offset: _int = 0) -> Tensor: ...
def diagonal(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor: ...
def diagonal_copy(
    input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None
) -> Tensor: ...
def diagonal_scatter(
    input: TensorOrArray,
    src: TensorOrArray,
    offset: _int = 0,
    dim1: _int = 0,
    dim2: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def diff(
    input: Tensor,
    n: _int = 1,
    dim: _int = -1,
    prepend: TensorOrArray | None = None,
    append: TensorOrArray | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def diff(
    input: Tensor,
    n: _int = 1,
    *,
    axis: _int,
    prepend: TensorOrArray | None = None,
    append: TensorOrArray | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def dist(input: TensorOrArray, other: TensorOrArray, p: _float = 2) -> Tensor: ...
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor: ...
def divide(
    input: Operand, other: Operand, *, rounding_mode: str | None = None, out: Tensor | None = None
) -> Tensor: ...
def dot(input: TensorOrArray, tensor: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
def dsplit(input: Tensor, indices_or_sections: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
def dstack(tensors: Sequence[TensorOrArray], *, out: Tensor | None = None) -> Tensor: ...
def einsum(*equation_and_operands: Any) -> Tensor: ...
def eq(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def equal(input: Tensor, other: Tensor) -> _bool: ...
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erf_(input: Tensor) -> Tensor: ...
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erfc_(input: Tensor) -> Tensor: ...
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp2_(input: Tensor) -> Tensor: ...
def exp_(input: Tensor) -> Tensor: ...
def expand_copy(input: Tensor, size: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def expm1_(input: Tensor) -> Tensor: ...
def fake_quantize_per_channel_affine(
    input: TensorOrArray,
    scale: TensorOrArray,
    zero_point: TensorOrArray,
    axis: _int,
    quant_min: _int,
    quant_max: _int,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fake_quantize_per_tensor_affine(
    input: Tensor,
    scale: _float | TensorOrArray,
    zero_point: _int | TensorOrArray,
    quant_min: _int,
    quant_max: _int,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fill(input: TensorOrArray, value: Number, *, out: Tensor | None = None) -> Tensor: ...
def fill_(input: TensorOrArray, value: Number) -> Tensor: ...
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fix_(input: Tensor) -> Tensor: ...
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = -1) -> Tensor: ...
@overload
def flip(input: Tensor, dims: _int | Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
@overload
def flip(input: Tensor, *, axes: _int | Sequence[_int], out: Tensor | None = None) -> Tensor: ...
@overload
def flip(input: Tensor, *dims: _int) -> Tensor: ...
def fliplr(input: Tensor) -> Tensor: ...
def flipud(input: Tensor) -> Tensor: ...
def float_power(input: Operand, exponent: Operand, *, out: Tensor | None = None) -> Tensor: ...
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def floor_(input: Tensor) -> Tensor: ...
def floor_divide(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def fmax(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def fmin(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def fmod(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def frac_(input: Tensor) -> Tensor: ...
def frexp(input: Tensor, *, out: tuple[Tensor, ...] | list[Tensor] | None = None) -> return_types.frexp: ...
@overload
def gather(
    input: TensorOrArray, dim: _int, index: TensorOrArray, sparse_grad: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def gather(
    input: TensorOrArray, *, axis: _int, index: TensorOrArray, sparse_grad: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def gcd(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def gcd_(input: Operand, other: Operand) -> Tensor: ...
def ge(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def geqrf(input: Tensor, *, out: tuple[Tensor, ...] | list[Tensor] | None = None) -> return_types.geqrf: ...
def ger(input: TensorOrArray, vec2: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
@overload
def gradient(
    input: Tensor,
    *,
    spacing: _float | Sequence[Any] | TensorOrArray | None = None,
    dim: _int | Sequence[_int] | None = None,
    edge_order: _int = 1,
) -> tuple[Tensor, ...]: ...
@overload
def gradient(
    input: Tensor,
    *,
    spacing: _float | Sequence[Any] | TensorOrArray | None = None,
    axis: _int | Sequence[_int] | None,
    edge_order: _int = 1,
) -> tuple[Tensor, ...]: ...
def greater(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def greater_equal(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def gt(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def hardshrink(input: Tensor, lambd: _float = 0.5, *, out: Tensor | None = None) -> Tensor: ...
def heaviside(input: TensorOrArray, values: Operand, *, out: Tensor | None = None) -> Tensor: ...
def histc(
    input: Tensor, bins: _int = 100, min: _float = 0, max: _float = 0, *, out: Tensor | None = None
) -> Tensor: ...
def histogram(
    input: TensorOrArray,
    bins: _int | Tensor | ndarray | Sequence[Any] = 100,
    range: tuple[_float, _float] | None = None,
    weight: TensorOrArray | None = None,
    density: _bool = False,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.histogram: ...
def histogramdd(
    input: TensorOrArray,
    bins: _int | Sequence[_int] | Sequence[TensorOrArray],
    *,
    range: Sequence[_float] | None = None,
    weight: TensorOrArray | None = None,
    density: _bool = False,
) -> return_types.histogramdd: ...
def hsplit(input: Tensor, indices_or_sections: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
def hstack(tensors: Sequence[TensorOrArray], *, out: Tensor | None = None) -> Tensor: ...
def hypot(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def i0_(input: Tensor) -> Tensor: ...
def igamma(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def igammac(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def imag(input: Tensor) -> Tensor: ...
@overload
def index_add(
    input: TensorOrArray,
    dim: _int,
    index: TensorOrArray,
    source: TensorOrArray,
    alpha: _float = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def index_add(
    input: TensorOrArray,
    *,
    axis: _int,
    index: TensorOrArray,
    source: TensorOrArray,
    alpha: _float = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def index_copy(
    input: TensorOrArray, dim: _int, index: TensorOrArray, source: TensorOrArray, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def index_copy(
    input: TensorOrArray, *, axis: _int, index: TensorOrArray, source: TensorOrArray, out: Tensor | None = None
) -> Tensor: ...
@overload
def index_fill(
    input: TensorOrArray, dim: _int, index: TensorOrArray, value: Operand, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def index_fill(
    input: TensorOrArray, *, axis: _int, index: TensorOrArray, value: Operand, out: Tensor | None = None
) -> Tensor: ...
def index_put(
    input: TensorOrArray,
    indices: Sequence[TensorOrArray | None],
    values: TensorOrArray,
    accumulate: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def index_put_(
    input: TensorOrArray, indices: Sequence[TensorOrArray | None], values: TensorOrArray, accumulate: _bool = False
) -> Tensor: ...
@overload
def index_reduce(
    input: TensorOrArray,
    dim: _int,
    index: TensorOrArray,
    source: TensorOrArray,
    reduce: str,
    *,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def index_reduce(
    input: TensorOrArray,
    *,
    axis: _int,
    index: TensorOrArray,
    source: TensorOrArray,
    reduce: str,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def index_select(input: TensorOrArray, dim: _int, index: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
@overload
def index_select(input: TensorOrArray, *, axis: _int, index: TensorOrArray, out: Tensor | None = None) -> Tensor: ...
def inner(input: TensorOrArray, other: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
def inverse(A: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def is_conj(input: Tensor) -> _bool: ...
def is_neg(input: Tensor) -> _bool: ...
def is_nonzero(input: Tensor) -> _bool: ...
def isclose(
    input: Operand, other: Operand, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False
) -> Tensor: ...
def isfinite(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isin(
    elements: Operand,
    test_elements: Operand,
    assume_unique: _bool = False,
    invert: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def isinf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isnan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isreal(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def istft(
    input: Tensor,
    n_fft: _int,
    hop_length: _int | None = None,
    win_length: _int | None = None,
    window: Tensor | None = None,
    center: _bool = True,
    normalized: _bool = False,
    onesided: _bool | None = None,
    length: _int | None = None,
    return_complex: _bool = False,
) -> Tensor: ...
def kron(input: TensorOrArray, other: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
@overload
def kthvalue(
    input: Tensor,
    k: _int,
    dim: _int = -1,
    keepdim: _bool = False,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.kthvalue: ...
@overload
def kthvalue(
    input: Tensor, k: _int, dim: _int = -1, *, keepdims: _bool, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.kthvalue: ...
@overload
def kthvalue(
    input: Tensor, k: _int, *, axis: _int, keepdims: _bool = False, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.kthvalue: ...
def lcm(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def lcm_(input: Operand, other: Operand) -> Tensor: ...
def ldexp(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def ldexp_(input: Operand, other: Operand) -> Tensor: ...
def le(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def lerp(input: Operand, end: Operand, weight: Operand, *, out: Tensor | None = None) -> Tensor: ...
def less(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def less_equal(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log10_(input: Tensor) -> Tensor: ...
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log1p_(input: Tensor) -> Tensor: ...
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log2_(input: Tensor) -> Tensor: ...
def log_(input: Tensor) -> Tensor: ...
@overload
def log_softmax(input: Tensor, dim: _int, dtype: DTypeLike | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def log_softmax(input: Tensor, *, axis: _int, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor: ...
def logaddexp(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def logaddexp2(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
@overload
def logcumsumexp(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def logcumsumexp(input: Tensor, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
def logdet(input: Tensor) -> Tensor: ...
def logical_and(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_or(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def logical_xor(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor: ...
def logit_(input: Tensor, eps: _float | None = None) -> Tensor: ...
@overload
def logsumexp(
    input: Tensor, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def logsumexp(input: Tensor, dim: _int | Sequence[_int], *, keepdims: _bool, out: Tensor | None = None) -> Tensor: ...
@overload
def logsumexp(
    input: Tensor, *, axis: _int | Sequence[_int], keepdims: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def lt(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
@overload
def lu(
    A: Tensor,
    pivot: _bool = True,
    get_infos: Literal[False] = False,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def lu(
    A: Tensor, pivot: _bool = True, *, get_infos: Literal[True], out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...
def lu_solve(
    b: TensorOrArray, LU_data: TensorOrArray, LU_pivots: TensorOrArray, *, out: Tensor | None = None
) -> Tensor: ...
def lu_unpack(
    LU_data: TensorOrArray,
    LU_pivots: TensorOrArray,
    unpack_data: _bool = True,
    unpack_pivots: _bool = True,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.linalg_lu: ...
def masked_fill(input: TensorOrArray, mask: TensorOrArray, value: Operand, *, out: Tensor | None = None) -> Tensor: ...
def masked_scatter(
    input: TensorOrArray, mask: TensorOrArray, source: TensorOrArray, *, out: Tensor | None = None
) -> Tensor: ...
def masked_select(input: TensorOrArray, mask: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
def matmul(input: TensorOrArray, other: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
def matrix_exp(A: Tensor) -> Tensor: ...
def matrix_power(A: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.max: ...
@overload
def max(input: Tensor, dim: _int, *, keepdims: _bool, out: tuple[Tensor, Tensor] | None = None) -> return_types.max: ...
@overload
def max(
    input: Tensor, *, axis: _int, keepdims: _bool = False, out: tuple[Tensor, Tensor] | None = None
) -> return_types.max: ...
@overload
def max(input: TensorOrArray, other: TensorOrArray, /, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: TensorOrArray, *, other: TensorOrArray, out: Tensor | None = None) -> Tensor: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = None,
    padding: _int | Sequence[_int] = 0,
    dilation: _int | Sequence[_int] = 1,
    ceil_mode: _bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = None,
    padding: _int | Sequence[_int] = 0,
    dilation: _int | Sequence[_int] = 1,
    ceil_mode: _bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None,
    padding: _int | Sequence[_int],
    dilation: _int | Sequence[_int],
    ceil_mode: _bool,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = None,
    padding: _int | Sequence[_int] = 0,
    dilation: _int | Sequence[_int] = 1,
    ceil_mode: _bool = False,
    *,
    return_indices: _bool,
) -> Any: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = None,
    padding: _int | Sequence[_int] = 0,
    dilation: _int | Sequence[_int] = 1,
    ceil_mode: _bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = None,
    padding: _int | Sequence[_int] = 0,
    dilation: _int | Sequence[_int] = 1,
    ceil_mode: _bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None,
    padding: _int | Sequence[_int],
    dilation: _int | Sequence[_int],
    ceil_mode: _bool,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = None,
    padding: _int | Sequence[_int] = 0,
    dilation: _int | Sequence[_int] = 1,
    ceil_mode: _bool = False,
    *,
    return_indices: _bool,
) -> Any: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = None,
    padding: _int | Sequence[_int] = 0,
    dilation: _int | Sequence[_int] = 1,
    ceil_mode: _bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = None,
    padding: _int | Sequence[_int] = 0,
    dilation: _int | Sequence[_int] = 1,
    ceil_mode: _bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None,
    padding: _int | Sequence[_int],
    dilation: _int | Sequence[_int],
    ceil_mode: _bool,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = None,
    padding: _int | Sequence[_int] = 0,
    dilation: _int | Sequence[_int] = 1,
    ceil_mode: _bool = False,
    *,
    return_indices: _bool,
) -> Any: ...
def maximum(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
@overload
def mean(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    dtype: DTypeLike | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def mean(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    *,
    keepdims: _bool,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def mean(
    input: Tensor,
    *,
    axis: _int | Sequence[_int] | None,
    keepdims: _bool = False,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def median(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def median(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.median: ...
@overload
def median(
    input: Tensor, dim: _int, *, keepdims: _bool, out: tuple[Tensor, Tensor] | None = None
) -> return_types.median: ...
@overload
def median(
    input: Tensor, *, axis: _int, keepdims: _bool = False, out: tuple[Tensor, Tensor] | None = None
) -> return_types.median: ...
def meshgrid(*tensors: Sequence[TensorOrArray] | TensorOrArray, indexing: str = "ij") -> tuple[Tensor, ...]: ...
@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.min: ...
@overload
def min(input: Tensor, dim: _int, *, keepdims: _bool, out: tuple[Tensor, Tensor] | None = None) -> return_types.min: ...
@overload
def min(
    input: Tensor, *, axis: _int, keepdims: _bool = False, out: tuple[Tensor, Tensor] | None = None
) -> return_types.min: ...
@overload
def min(input: TensorOrArray, other: TensorOrArray, /, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: TensorOrArray, *, other: TensorOrArray, out: Tensor | None = None) -> Tensor: ...
def minimum(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def mm(input: TensorOrArray, mat2: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
@overload
def mode(
    input: Tensor, dim: _int = -1, keepdim: _bool = False, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.mode: ...
@overload
def mode(
    input: Tensor, dim: _int = -1, *, keepdims: _bool, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.mode: ...
@overload
def mode(
    input: Tensor, *, axis: _int, keepdims: _bool = False, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.mode: ...
def moveaxis(input: Tensor, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor: ...
def movedim(input: Tensor, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor: ...
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mul(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def multiply(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def mv(input: TensorOrArray, vec: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
def mvlgamma(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor: ...
def nan_to_num(
    input: Tensor,
    nan: _float | None = None,
    posinf: _float | None = None,
    neginf: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def nan_to_num_(
    input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None
) -> Tensor: ...
@overload
def nanmean(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    dtype: DTypeLike | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nanmean(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    *,
    keepdims: _bool,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nanmean(
    input: Tensor,
    *,
    axis: _int | Sequence[_int] | None,
    keepdims: _bool = False,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nanmedian(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def nanmedian(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.nanmedian: ...
@overload
def nanmedian(
    input: Tensor, dim: _int, *, keepdims: _bool, out: tuple[Tensor, Tensor] | None = None
) -> return_types.nanmedian: ...
@overload
def nanmedian(
    input: Tensor, *, axis: _int, keepdims: _bool = False, out: tuple[Tensor, Tensor] | None = None
) -> return_types.nanmedian: ...
@overload
def nanquantile(
    input: Tensor,
    q: _float | TensorOrArray,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nanquantile(
    input: Tensor,
    q: _float | TensorOrArray,
    dim: _int | None = None,
    *,
    keepdims: _bool,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nanquantile(
    input: Tensor,
    q: _float | TensorOrArray,
    *,
    axis: _int | None,
    keepdims: _bool = False,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nansum(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    dtype: DTypeLike | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nansum(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    *,
    keepdims: _bool,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nansum(
    input: Tensor,
    *,
    axis: _int | Sequence[_int] | None,
    keepdims: _bool = False,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def narrow(input: Tensor, dim: _int, start: _int | Tensor, length: _int) -> Tensor: ...
@overload
def narrow(input: Tensor, *, axis: _int, start: _int | Tensor, length: _int) -> Tensor: ...
@overload
def narrow_copy(
    input: Tensor, dim: _int, start: _int | Tensor, length: _int, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def narrow_copy(
    input: Tensor, *, axis: _int, start: _int | Tensor, length: _int, out: Tensor | None = None
) -> Tensor: ...
def ne(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def neg_(input: Tensor) -> Tensor: ...
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def negative_(input: Tensor) -> Tensor: ...
def nextafter(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor: ...
@overload
def nonzero(
    input: Tensor, *, as_tuple: Literal[True], out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, ...]: ...
def nonzero_static(input: Tensor, *, size: _int, fill_value: _int = -1, out: Tensor | None = None) -> Tensor: ...
@overload
def norm(
    input: Tensor,
    p: _float | str | None = "fro",
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def norm(
    input: Tensor,
    p: _float | str | None = "fro",
    dim: _int | Sequence[_int] | None = None,
    *,
    keepdims: _bool,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def norm(
    input: Tensor,
    p: _float | str | None = "fro",
    *,
    axis: _int | Sequence[_int] | None,
    keepdims: _bool = False,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def not_equal(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def orgqr(A: TensorOrArray, tau: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
def ormqr(
    input: TensorOrArray,
    tau: TensorOrArray,
    other: TensorOrArray,
    left: _bool = True,
    transpose: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def outer(input: TensorOrArray, vec2: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
def pad(input: Tensor, pad: Sequence[_int], mode: str = "constant", value: _float | None = None) -> Tensor: ...
@overload
def pairwise_distance(
    x1: TensorOrArray, x2: TensorOrArray, p: _float = 2.0, eps: _float = 1e-06, keepdim: _bool = False
) -> Tensor: ...
@overload
def pairwise_distance(
    x1: TensorOrArray, x2: TensorOrArray, p: _float = 2.0, eps: _float = 1e-06, *, keepdims: _bool
) -> Tensor: ...
def pdist(input: Tensor, p: _float = 2.0) -> Tensor: ...
@overload
def permute(input: Tensor, dims: Sequence[_int]) -> Tensor: ...
@overload
def permute(input: Tensor, *, axes: Sequence[_int]) -> Tensor: ...
@overload
def permute(input: Tensor, *dims: _int) -> Tensor: ...
@overload
def permute_copy(input: Tensor, dims: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
@overload
def permute_copy(input: Tensor, *, axes: Sequence[_int], out: Tensor | None = None) -> Tensor: ...
def pinverse(input: Tensor, rcond: _float = 1e-15) -> Tensor: ...
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor: ...
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor: ...
def polar(abs: TensorOrArray, angle: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
def polygamma(n: _int, input: TensorOrArray, *, out: TensorOrArray | None = None) -> Tensor: ...
def positive(input: Tensor) -> Tensor: ...
def pow(input: Operand, exponent: Operand, *, out: Tensor | None = None) -> Tensor: ...
def prelu(input: TensorOrArray, weight: TensorOrArray) -> Tensor: ...
@overload
def prod(
    input: Tensor,
    dim: _int | None = None,
    keepdim: _bool = False,
    dtype: DTypeLike | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def prod(
    input: Tensor,
    dim: _int | None = None,
    *,
    keepdims: _bool,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def prod(
    input: Tensor,
    *,
    axis: _int | None,
    keepdims: _bool = False,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def put(
    input: TensorOrArray,
    index: TensorOrArray,
    source: TensorOrArray,
    accumulate: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def qr(
    input: Tensor, some: _bool = True, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_qr: ...
@overload
def quantile(
    input: Tensor,
    q: _float | TensorOrArray,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def quantile(
    input: Tensor,
    q: _float | TensorOrArray,
    dim: _int | None = None,
    *,
    keepdims: _bool,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def quantile(
    input: Tensor,
    q: _float | TensorOrArray,
    *,
    axis: _int | None,
    keepdims: _bool = False,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def rad2deg_(input: Tensor) -> Tensor: ...
def ravel(input: Tensor) -> Tensor: ...
def real(input: Tensor) -> Tensor: ...
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def reciprocal_(input: Tensor) -> Tensor: ...
def relu(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def relu_(input: Tensor) -> Tensor: ...
def remainder(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
@overload
def renorm(input: Tensor, p: _float, dim: _int, maxnorm: _float, *, out: Tensor | None = None) -> Tensor: ...
@overload
def renorm(input: Tensor, p: _float, *, axis: _int, maxnorm: _float, out: Tensor | None = None) -> Tensor: ...
@overload
def repeat_interleave(
    input: Tensor | None = None,
    repeats: _int | TensorOrArray | None = None,
    dim: _int | None = None,
    *,
    output_size: _int | None = None,
) -> Tensor: ...
@overload
def repeat_interleave(
    input: Tensor | None = None,
    repeats: _int | TensorOrArray | None = None,
    *,
    axis: _int | None,
    output_size: _int | None = None,
) -> Tensor: ...
@overload
def reshape(input: Tensor, shape: Sequence[_int]) -> Tensor: ...
@overload
def reshape(input: Tensor, *shape: _int) -> Tensor: ...
def resize_as_(self: Tensor, tensor: Tensor, memory_format: _memory_format | None = None) -> Tensor: ...
def resolve_conj(input: Tensor) -> Tensor: ...
def resolve_neg(input: Tensor) -> Tensor: ...
@overload
def roll(
    input: Tensor,
    shifts: _int | Sequence[_int],
    dims: _int | Sequence[_int] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def roll(
    input: Tensor, shifts: _int | Sequence[_int], *, axes: _int | Sequence[_int] | None, out: Tensor | None = None
) -> Tensor: ...
@overload
def rot90(input: Tensor, k: _int = 1, dims: Sequence[_int] = (0, 1), *, out: Tensor | None = None) -> Tensor: ...
@overload
def rot90(input: Tensor, k: _int = 1, *, axes: Sequence[_int], out: Tensor | None = None) -> Tensor: ...
def round(input: Tensor, decimals: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def round_(input: Tensor, decimals: _int = 0) -> Tensor: ...
def row_stack(tensors: Sequence[TensorOrArray], *, out: Tensor | None = None) -> Tensor: ...
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def rsqrt_(input: Tensor) -> Tensor: ...
def rsub(input: Operand, other: Operand, *, alpha: Number = 1, out: Tensor | None = None) -> Tensor: ...
@overload
def scatter(
    input: TensorOrArray,
    dim: _int,
    index: TensorOrArray,
    src: Operand | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def scatter(
    input: TensorOrArray,
    *,
    axis: _int,
    index: TensorOrArray,
    src: Operand | None = None,
    value: Number | None = None,
    reduce: str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def scatter_add(
    input: TensorOrArray, dim: _int, index: TensorOrArray, src: TensorOrArray, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def scatter_add(
    input: TensorOrArray, *, axis: _int, index: TensorOrArray, src: TensorOrArray, out: Tensor | None = None
) -> Tensor: ...
@overload
def scatter_reduce(
    input: TensorOrArray,
    dim: _int,
    index: TensorOrArray,
    src: TensorOrArray,
    reduce: str,
    include_self: _bool = True,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def scatter_reduce(
    input: TensorOrArray,
    *,
    axis: _int,
    index: TensorOrArray,
    src: TensorOrArray,
    reduce: str,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
def searchsorted(
    sorted_sequence: TensorOrArray,
    input: Operand,
    out_int32: _bool = False,
    right: _bool = False,
    side: str | None = None,
    sorter: TensorOrArray | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: TensorOrArray | None = None,
    indices: TensorOrArray | None = None,
    offsets: TensorOrArray | None = None,
    axis: _int = 0,
    unsafe: _bool = False,
    initial: _float | None = None,
) -> Tensor: ...
@overload
def select(input: Tensor, dim: _int, index: _int) -> Tensor: ...
@overload
def select(input: Tensor, *, axis: _int, index: _int) -> Tensor: ...
@overload
def select_copy(input: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def select_copy(input: Tensor, *, axis: _int, index: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def select_scatter(
    input: TensorOrArray, src: TensorOrArray, dim: _int, index: _int, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def select_scatter(
    input: TensorOrArray, src: TensorOrArray, *, axis: _int, index: _int, out: Tensor | None = None
) -> Tensor: ...
def selu(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def selu_(input: Tensor) -> Tensor: ...
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sigmoid_(input: Tensor) -> Tensor: ...
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sin_(input: Tensor) -> Tensor: ...
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sinc_(input: Tensor) -> Tensor: ...
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sinh_(input: Tensor) -> Tensor: ...
@overload
def slice_copy(
    input: Tensor,
    dim: _int = 0,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def slice_copy(
    input: Tensor,
    *,
    axis: _int,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def slice_scatter(
    input: TensorOrArray,
    src: TensorOrArray,
    dim: _int = 0,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def slice_scatter(
    input: TensorOrArray,
    src: TensorOrArray,
    *,
    axis: _int,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def slogdet(A: Tensor, *, out: tuple[Tensor, ...] | list[Tensor] | None = None) -> return_types.linalg_slogdet: ...
@overload
def softmax(input: Tensor, dim: _int, dtype: DTypeLike | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def softmax(input: Tensor, *, axis: _int, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def sort(
    input: Tensor,
    dim: _int = -1,
    descending: _bool = False,
    stable: _bool | None = None,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.sort: ...
@overload
def sort(
    input: Tensor,
    *,
    axis: _int,
    descending: _bool = False,
    stable: _bool | None = None,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.sort: ...
@overload
def split(tensor: Tensor, split_size_or_sections: _int | Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def split(tensor: Tensor, split_size_or_sections: _int | Sequence[_int], *, axis: _int) -> tuple[Tensor, ...]: ...
@overload
def split_copy(
    tensor: Tensor, split_size: _int, dim: _int = 0, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, ...]: ...
@overload
def split_copy(
    tensor: Tensor, split_size: _int, *, axis: _int, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, ...]: ...
@overload
def split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def split_with_sizes(input: Tensor, split_sizes: Sequence[_int], *, axis: _int) -> tuple[Tensor, ...]: ...
@overload
def split_with_sizes_copy(
    input: Tensor, split_sizes: Sequence[_int], dim: _int = 0, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, ...]: ...
@overload
def split_with_sizes_copy(
    input: Tensor, split_sizes: Sequence[_int], *, axis: _int, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, ...]: ...
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sqrt_(input: Tensor) -> Tensor: ...
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def square_(input: Tensor) -> Tensor: ...
@overload
def squeeze(input: Tensor, dim: _int | Sequence[_int] | None = None) -> Tensor: ...
@overload
def squeeze(input: Tensor, *, axis: _int | Sequence[_int] | None) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, dim: _int | Sequence[_int] | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, *, axis: _int | Sequence[_int] | None, out: Tensor | None = None) -> Tensor: ...
@overload
def stack(tensors: Sequence[TensorOrArray], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
@overload
def stack(tensors: Sequence[TensorOrArray], *, axis: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def std(
    input: Tensor,
    dim: _int | Sequence[_int] | _bool | None = None,
    unbiased: _bool | None = None,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def std(
    input: Tensor,
    dim: _int | Sequence[_int] | _bool | None = None,
    unbiased: _bool | None = None,
    *,
    keepdims: _bool,
    correction: _float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def std(
    input: Tensor,
    *,
    axis: _int | Sequence[_int] | _bool | None,
    unbiased: _bool | None = None,
    keepdims: _bool = False,
    correction: _float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def std_mean(
    input: Tensor,
    dim: _int | Sequence[_int] | _bool | None = None,
    unbiased: _bool | None = None,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(
    input: Tensor,
    dim: _int | Sequence[_int] | _bool | None = None,
    unbiased: _bool | None = None,
    *,
    keepdims: _bool,
    correction: _float | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(
    input: Tensor,
    *,
    axis: _int | Sequence[_int] | _bool | None,
    unbiased: _bool | None = None,
    keepdims: _bool = False,
    correction: _float | None = None,
) -> tuple[Tensor, Tensor]: ...
def stft(
    input: Tensor,
    n_fft: _int,
    hop_length: _int | None = None,
    win_length: _int | None = None,
    window: Tensor | None = None,
    center: _bool = True,
    pad_mode: str = "reflect",
    normalized: _bool = False,
    onesided: _bool | None = None,
    return_complex: _bool | None = None,
    align_to_window: _bool | None = None,
) -> Tensor: ...
def sub(input: Operand, other: Operand, *scaled: Operand, alpha: Number = 1, out: Tensor | None = None) -> Tensor: ...
def subtract(
    input: Operand, other: Operand, *scaled: Operand, alpha: Number = 1, out: Tensor | None = None
) -> Tensor: ...
@overload
def sum(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    dtype: DTypeLike | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def sum(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    *,
    keepdims: _bool,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def sum(
    input: Tensor,
    *,
    axis: _int | Sequence[_int] | None,
    keepdims: _bool = False,
    dtype: DTypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def svd(
    input: Tensor, some: _bool = True, compute_uv: _bool = True, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.svd: ...
def swapaxes(input: Tensor, axis0: _int, axis1: _int) -> Tensor: ...
def swapdims(input: Tensor, dim0: _int, dim1: _int) -> Tensor: ...
def t(input: Tensor) -> Tensor: ...
def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def take(input: TensorOrArray, index: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
@overload
def take_along_dim(
    input: TensorOrArray, indices: TensorOrArray, dim: _int | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def take_along_dim(
    input: TensorOrArray, indices: TensorOrArray, *, axis: _int | None, out: Tensor | None = None
) -> Tensor: ...
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tan_(input: Tensor) -> Tensor: ...
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tanh_(input: Tensor) -> Tensor: ...
@overload
def tensor_split(
    input: Tensor, indices_or_sections: _int | Sequence[_int] | Tensor, dim: _int = 0
) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(
    input: Tensor, indices_or_sections: _int | Sequence[_int] | Tensor, *, axis: _int
) -> tuple[Tensor, ...]: ...
@overload
def tensordot(
    a: TensorOrArray, b: TensorOrArray, dims: _int | Sequence[Any] = 2, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def tensordot(
    a: TensorOrArray, b: TensorOrArray, *, axes: _int | Sequence[Any], out: Tensor | None = None
) -> Tensor: ...
def threshold(input: Tensor, threshold: _float, value: _float, *, out: Tensor | None = None) -> Tensor: ...
def threshold_(input: Tensor, threshold: _float, value: _float) -> Tensor: ...
@overload
def tile(input: Tensor, dims: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
@overload
def tile(input: Tensor, *, axes: Sequence[_int], out: Tensor | None = None) -> Tensor: ...
@overload
def tile(input: Tensor, *dims: _int) -> Tensor: ...
@overload
def topk(
    input: Tensor,
    k: _int,
    dim: _int = -1,
    largest: _bool = True,
    sorted: _bool = True,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.topk: ...
@overload
def topk(
    input: Tensor,
    k: _int,
    *,
    axis: _int,
    largest: _bool = True,
    sorted: _bool = True,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.topk: ...
def trace(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def transpose(input: Tensor, dim0: _int, dim1: _int) -> Tensor: ...
def transpose_copy(input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def trapezoid(y: Tensor, x: TensorOrArray | None = None, *, dx: _float | None = None, dim: _int = -1) -> Tensor: ...
@overload
def trapezoid(y: Tensor, x: TensorOrArray | None = None, *, dx: _float | None = None, axis: _int) -> Tensor: ...
@overload
def trapz(y: Tensor, x: TensorOrArray | None = None, *, dx: _float | None = None, dim: _int = -1) -> Tensor: ...
@overload
def trapz(y: Tensor, x: TensorOrArray | None = None, *, dx: _float | None = None, axis: _int) -> Tensor: ...
def triangular_solve(
    b: TensorOrArray,
    A: TensorOrArray,
    upper: _bool = True,
    transpose: _bool = False,
    unitriangular: _bool = False,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.triangular_solve: ...
def tril(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def triu(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def true_divide(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def trunc_(input: Tensor) -> Tensor: ...
@overload
def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def unbind(input: Tensor, *, axis: _int) -> tuple[Tensor, ...]: ...
@overload
def unbind_copy(
    input: Tensor, dim: _int = 0, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, ...]: ...
@overload
def unbind_copy(
    input: Tensor, *, axis: _int, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, ...]: ...
@overload
def unflatten(input: Tensor, dim: _int, sizes: Sequence[_int]) -> Tensor: ...
@overload
def unflatten(input: Tensor, *, axis: _int, sizes: Sequence[_int]) -> Tensor: ...
def unfold_copy(input: Tensor, dimension: _int, size: _int, step: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool = True,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: _int | None = None,
) -> Tensor: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool = True,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    *,
    axis: _int | None,
) -> Tensor: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool = True,
    return_inverse: Literal[False] = False,
    *,
    return_counts: Literal[True],
    dim: _int | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool = True,
    return_inverse: Literal[False] = False,
    *,
    return_counts: Literal[True],
    axis: _int | None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor, sorted: _bool, return_inverse: Literal[False], return_counts: Literal[True], dim: _int | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor, sorted: _bool, return_inverse: Literal[False], return_counts: Literal[True], *, axis: _int | None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    dim: _int | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    axis: _int | None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    dim: _int | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    *,
    axis: _int | None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[True],
    dim: _int | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[True],
    axis: _int | None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor, sorted: _bool, return_inverse: Literal[True], return_counts: Literal[True], dim: _int | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor, sorted: _bool, return_inverse: Literal[True], return_counts: Literal[True], *, axis: _int | None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor, sorted: _bool = True, *, return_inverse: _bool, return_counts: _bool = False, dim: _int | None = None
) -> Any: ...
@overload
def unique(
    input: Tensor, sorted: _bool = True, *, return_inverse: _bool, return_counts: _bool = False, axis: _int | None
) -> Any: ...
@overload
def unique_consecutive(
    input: Tensor,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: _int | None = None,
) -> Tensor: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, *, axis: _int | None
) -> Tensor: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, *, return_counts: Literal[True], dim: _int | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, *, return_counts: Literal[True], axis: _int | None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False], return_counts: Literal[True], dim: _int | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False], return_counts: Literal[True], *, axis: _int | None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: _int | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[False] = False, axis: _int | None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: _int | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[True], return_counts: Literal[False] = False, *, axis: _int | None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[True], dim: _int | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[True], axis: _int | None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[True], return_counts: Literal[True], dim: _int | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[True], return_counts: Literal[True], *, axis: _int | None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: _bool, return_counts: _bool = False, dim: _int | None = None
) -> Any: ...
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: _bool, return_counts: _bool = False, axis: _int | None
) -> Any: ...
def unravel_index(indices: Tensor, shape: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
@overload
def unsafe_chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def unsafe_chunk(input: Tensor, chunks: _int, *, axis: _int) -> tuple[Tensor, ...]: ...
@overload
def unsafe_split(tensor: Tensor, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def unsafe_split(tensor: Tensor, split_size: _int, *, axis: _int) -> tuple[Tensor, ...]: ...
@overload
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[_int], *, axis: _int) -> tuple[Tensor, ...]: ...
@overload
def unsqueeze(input: Tensor, dim: _int) -> Tensor: ...
@overload
def unsqueeze(input: Tensor, *, axis: _int) -> Tensor: ...
@overload
def unsqueeze_copy(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def unsqueeze_copy(input: Tensor, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False) -> Tensor: ...
@overload
def var(
    input: Tensor,
    dim: _int | Sequence[_int] | _bool | None = None,
    unbiased: _bool | None = None,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def var(
    input: Tensor,
    dim: _int | Sequence[_int] | _bool | None = None,
    unbiased: _bool | None = None,
    *,
    keepdims: _bool,
    correction: _float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def var(
    input: Tensor,
    *,
    axis: _int | Sequence[_int] | _bool | None,
    unbiased: _bool | None = None,
    keepdims: _bool = False,
    correction: _float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def var_mean(
    input: Tensor,
    dim: _int | Sequence[_int] | _bool | None = None,
    unbiased: _bool | None = None,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(
    input: Tensor,
    dim: _int | Sequence[_int] | _bool | None = None,
    unbiased: _bool | None = None,
    *,
    keepdims: _bool,
    correction: _float | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(
    input: Tensor,
    *,
    axis: _int | Sequence[_int] | _bool | None,
    unbiased: _bool | None = None,
    keepdims: _bool = False,
    correction: _float | None = None,
) -> tuple[Tensor, Tensor]: ...
def vdot(input: TensorOrArray, other: TensorOrArray, *, out: Tensor | None = None) -> Tensor: ...
def view_as_complex(input: Tensor) -> Tensor: ...
def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def view_as_real(input: Tensor) -> Tensor: ...
def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def view_copy(input: Tensor, size: Sequence[_int] | DTypeLike, *, out: Tensor | None = None) -> Tensor: ...
def vsplit(input: Tensor, indices_or_sections: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
def vstack(tensors: Sequence[TensorOrArray], *, out: Tensor | None = None) -> Tensor: ...
@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: TensorOrArray, input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def xlogy(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
def xlogy_(input: Operand, other: Operand) -> Tensor: ...
def zero_(input: Tensor) -> Tensor: ...
