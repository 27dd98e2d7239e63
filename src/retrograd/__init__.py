"""Automatic differentiation on NumPy arrays with torch's API and semantics.

>>> x = rg.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from __future__ import annotations

import importlib as _importlib
import os as _os
import warnings as _warnings
from math import e, inf, nan, pi
from typing import Any as _Any

from retrograd import autograd, creation, ops, random, serialization
from retrograd._lazy_names import NAMES as _LATE_NAMES
from retrograd._lazy_names import PACKAGES as _LATE_PACKAGES
from retrograd.autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from retrograd.autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled
from retrograd.core.blocks import get_num_threads, set_num_threads
from retrograd.core.heap import keep_freed_memory as _keep_freed_memory
from retrograd.core.size import Size
from retrograd.core.tensor import Tensor
from retrograd.core.tensor_types import CPU_TYPES as _CPU_TYPES
from retrograd.creation import (
    UntypedStorage,
    arange,
    as_tensor,
    asarray,
    contiguous_format,
    empty,
    empty_like,
    empty_permuted,
    empty_strided,
    eye,
    from_dlpack,
    from_numpy,
    frombuffer,
    full,
    full_like,
    get_default_device,
    is_storage,
    layout,
    linspace,
    logspace,
    memory_format,
    ones,
    ones_like,
    preserve_format,
    scalar_tensor,
    set_default_device,
    strided,
    tensor,
    tril_indices,
    triu_indices,
    zeros,
    zeros_like,
)
from retrograd.device import cuda_is_available, device
from retrograd.dtypes import (
    bool,
    can_cast,
    cdouble,
    cfloat,
    complex64,
    complex128,
    double,
    dtype,
    finfo,
    float,
    float16,
    float32,
    float64,
    get_default_dtype,
    half,
    iinfo,
    int,
    int8,
    int16,
    int32,
    int64,
    long,
    promote_types,
    set_default_dtype,
    short,
    uint8,
)
from retrograd.missing_names import missing as _missing
from retrograd.ops.activations import (
    celu,
    celu_,
    hardshrink,
    log_softmax,
    prelu,
    relu,
    relu_,
    selu,
    selu_,
    sigmoid,
    softmax,
    threshold,
    threshold_,
)
from retrograd.ops.arithmetic import (
    abs,
    absolute,
    add,
    copysign,
    div,
    divide,
    floor_divide,
    fmod,
    hypot,
    mul,
    multiply,
    neg,
    negative,
    positive,
    reciprocal,
    remainder,
    rsub,
    sgn,
    sign,
    signbit,
    sub,
    subtract,
    true_divide,
)
from retrograd.ops.comparison import (
    allclose,
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    eq,
    equal,
    gcd,
    ge,
    greater,
    greater_equal,
    gt,
    is_nonzero,
    isclose,
    isfinite,
    isinf,
    isnan,
    isneginf,
    isposinf,
    isreal,
    lcm,
    le,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    ne,
    not_equal,
)
from retrograd.ops.complex import (
    angle,
    complex,
    conj,
    conj_physical,
    imag,
    is_conj,
    is_neg,
    polar,
    real,
    resolve_conj,
    resolve_neg,
    view_as_complex,
    view_as_real,
)
from retrograd.ops.conditional import (
    addcdiv,
    addcmul,
    clamp,
    clamp_max,
    clamp_min,
    clip,
    fmax,
    fmin,
    heaviside,
    lerp,
    maximum,
    minimum,
    nan_to_num,
    where,
)
from retrograd.ops.copying import clone, fill
from retrograd.ops.cumulative import (
    cummax,
    cummin,
    cumprod,
    cumsum,
    cumulative_trapezoid,
    diff,
    gradient,
    logcumsumexp,
    trapezoid,
    trapz,
)
from retrograd.ops.diagonals import diag, diag_embed, diagflat, diagonal, diagonal_scatter, tril, triu
from retrograd.ops.einsum import einsum, inner, tensordot
from retrograd.ops.exponential import (
    exp,
    exp2,
    expm1,
    float_power,
    frexp,
    ldexp,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logaddexp2,
    pow,
    rsqrt,
    sqrt,
    square,
)
from retrograd.ops.extremes import amax, amin, aminmax, argmax, argmin, max, min
from retrograd.ops.facts import get_device, is_same_size
from retrograd.ops.histograms import bincount, histc, histogram, histogramdd
from retrograd.ops.in_place import IN_PLACE as _FORMS
from retrograd.ops.indexing import index_put, select
from retrograd.ops.joining import (
    block_diag,
    cartesian_prod,
    cat,
    chunk,
    column_stack,
    combinations,
    concat,
    concatenate,
    dsplit,
    dstack,
    hsplit,
    hstack,
    meshgrid,
    row_stack,
    split,
    split_with_sizes,
    stack,
    tensor_split,
    unbind,
    unsafe_chunk,
    unsafe_split,
    unsafe_split_with_sizes,
    vsplit,
    vstack,
)
from retrograd.ops.linear import bilinear
from retrograd.ops.matmul import (
    addbmm,
    addmm,
    addmv,
    addr,
    baddbmm,
    bmm,
    chain_matmul,
    dot,
    ger,
    kron,
    matmul,
    mm,
    mv,
    outer,
    trace,
    vdot,
)
from retrograd.ops.matmul import cross_along as cross
from retrograd.ops.placing import (
    index_add,
    index_copy,
    index_fill,
    index_reduce,
    masked_fill,
    masked_scatter,
    put,
    select_scatter,
    slice_scatter,
)
from retrograd.ops.rearranging import constant_pad_nd, flip, fliplr, flipud, pad, repeat_interleave, roll, rot90, tile
from retrograd.ops.reductions import (
    all,
    any,
    count_nonzero,
    dist,
    logsumexp,
    mean,
    nanmean,
    nansum,
    norm,
    prod,
    renorm,
    sum,
)
from retrograd.ops.rounding import ceil, fix, floor, frac, nextafter, round, trunc
from retrograd.ops.scatter import scatter, scatter_add, scatter_reduce
from retrograd.ops.selecting import (
    argwhere,
    gather,
    index_select,
    masked_select,
    narrow,
    narrow_copy,
    nonzero,
    nonzero_static,
    take,
    take_along_dim,
    unravel_index,
)
from retrograd.ops.shape import (
    adjoint,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_shapes,
    broadcast_tensors,
    broadcast_to,
    flatten,
    moveaxis,
    movedim,
    permute,
    ravel,
    reshape,
    squeeze,
    swapaxes,
    swapdims,
    t,
    transpose,
    unflatten,
    unsqueeze,
)
from retrograd.ops.sorting import (
    argsort,
    bucketize,
    isin,
    msort,
    searchsorted,
    sort,
    topk,
    unique,
    unique_consecutive,
)
from retrograd.ops.statistics import (
    corrcoef,
    cov,
    kthvalue,
    median,
    mode,
    nanmedian,
    nanquantile,
    quantile,
    std,
    std_mean,
    var,
    var_mean,
)
from retrograd.ops.trigonometric import (
    acos,
    acosh,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cos,
    cosh,
    deg2rad,
    rad2deg,
    sin,
    sinc,
    sinh,
    tan,
    tanh,
)
from retrograd.ops.windows import as_strided, as_strided_scatter
from retrograd.queries import (
    is_complex,
    is_floating_point,
    is_inference,
    is_signed,
    is_tensor,
    numel,
    result_type,
    typename,
)
from retrograd.random import (
    Generator,
    bernoulli,
    binomial,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    multinomial,
    normal,
    poisson,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
    seed,
    set_rng_state,
)

__version__ = "0.1.0"
newaxis = None

# torch says nothing about overflow and division by zero, and neither do we: NumPy's warnings would point into this
# package. Code outside of it warns as before.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"retrograd\.")


def __getattr__(name: str) -> _Any:
    if name in _FORMS:
        return getattr(Tensor, name)
    if name in _LATE_PACKAGES:
        return _importlib.import_module(f"retrograd.{name}")
    if name in _LATE_NAMES:
        value = globals()[name] = getattr(_importlib.import_module(f"retrograd.{_LATE_NAMES[name]}"), name)
        return value
    if name in _CPU_TYPES:
        return _CPU_TYPES[name]
    if name.startswith("_foreach_"):
        function = _importlib.import_module("retrograd.foreach").foreach(name.removeprefix("_foreach_"))
        if function is not None:
            return function
    raise _missing("retrograd", name)


# fmt: off
__all__ = [  # noqa: RUF022 (one page instead of ten)
    "BoolTensor", "ByteTensor", "CharTensor", "ComplexDoubleTensor", "ComplexFloatTensor", "DoubleTensor",
    "FloatTensor", "Generator", "GradScaler", "HalfTensor", "IntTensor", "LongTensor", "OutOfMemoryError",
    "ShortTensor", "Size", "Tensor", "UntypedStorage", "abs", "absolute", "acos", "acosh", "adaptive_avg_pool1d",
    "adaptive_max_pool1d", "add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "adjoint", "alias_copy",
    "all", "allclose", "amax", "amin", "aminmax", "amp", "angle", "any", "arange", "arccos", "arccosh", "arcsin",
    "arcsinh", "arctan", "arctan2", "arctanh", "are_deterministic_algorithms_enabled", "argmax", "argmin", "argsort",
    "argwhere", "as_strided", "as_strided_copy", "as_strided_scatter", "as_tensor", "asarray", "asin", "asinh", "atan",
    "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d", "autocast", "autograd", "avg_pool1d", "backends",
    "baddbmm", "bartlett_window", "bernoulli", "bfloat16", "bilinear", "bincount", "binomial", "bitwise_and",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "blackman_window",
    "block_diag", "bmm", "bool", "broadcast_shapes", "broadcast_tensors", "broadcast_to", "bucketize", "can_cast",
    "cartesian_prod", "cat", "cdist", "cdouble", "ceil", "celu", "celu_", "cfloat", "chain_matmul", "channel_shuffle",
    "cholesky", "cholesky_inverse", "cholesky_solve", "chunk", "clamp", "clamp_max", "clamp_min", "clip", "clone",
    "column_stack", "combinations", "compile", "complex", "complex128", "complex64", "concat", "concatenate", "conj",
    "conj_physical", "constant_pad_nd", "contiguous_format", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "copysign", "corrcoef", "cos", "cosh", "cosine_similarity",
    "count_nonzero", "cov", "creation", "cross", "cuda", "cuda_is_available", "cummax", "cummin", "cumprod", "cumsum",
    "cumulative_trapezoid", "default_generator", "deg2rad", "det", "detach", "detach_copy", "device", "diag",
    "diag_embed", "diagflat", "diagonal", "diagonal_copy", "diagonal_scatter", "diff", "digamma", "dist",
    "distributions", "div", "divide", "dot", "double", "dsplit", "dstack", "dtype", "e", "einsum", "empty",
    "empty_like", "empty_permuted", "empty_strided", "enable_grad", "eq", "equal", "erf", "erfc", "erfinv", "exp",
    "exp2", "expand_copy", "expm1", "eye", "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine",
    "fft", "fill", "finfo", "fix", "flatten", "flip", "fliplr", "flipud", "float", "float16", "float32", "float64",
    "float_power", "floor", "floor_divide", "fmax", "fmin", "fmod", "fork_rng", "frac", "frexp", "from_dlpack",
    "from_numpy", "frombuffer", "full", "full_like", "gather", "gcd", "ge", "geqrf", "ger", "get_default_device",
    "get_default_dtype", "get_deterministic_debug_mode", "get_device", "get_float32_matmul_precision",
    "get_num_interop_threads", "get_num_threads", "get_rng_state", "gradient", "greater", "greater_equal", "gt",
    "half", "hamming_window", "hann_window", "hardshrink", "heaviside", "histc", "histogram", "histogramdd", "hsplit",
    "hstack", "hypot", "i0", "igamma", "igammac", "iinfo", "imag", "index_add", "index_copy", "index_fill",
    "index_put", "index_reduce", "index_select", "inf", "inference_mode", "initial_seed", "inner", "int", "int16",
    "int32", "int64", "int8", "inverse", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_autocast_enabled",
    "is_complex", "is_conj", "is_deterministic_algorithms_warn_only_enabled", "is_floating_point", "is_grad_enabled",
    "is_inference", "is_inference_mode_enabled", "is_neg", "is_nonzero", "is_same_size", "is_signed", "is_storage",
    "is_tensor", "is_warn_always_enabled", "isclose", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf",
    "isreal", "istft", "kaiser_window", "kron", "kthvalue", "layout", "lcm", "ldexp", "le", "lerp", "less",
    "less_equal", "lgamma", "linalg", "linspace", "load", "log", "log10", "log1p", "log2", "log_softmax", "logaddexp",
    "logaddexp2", "logcumsumexp", "logdet", "logical_and", "logical_not", "logical_or", "logical_xor", "logit",
    "logspace", "logsumexp", "long", "lt", "lu", "lu_solve", "lu_unpack", "manual_seed", "masked_fill",
    "masked_scatter", "masked_select", "matmul", "matrix_exp", "matrix_power", "max", "max_pool1d", "max_pool2d",
    "max_pool3d", "maximum", "mean", "median", "memory_format", "meshgrid", "min", "minimum", "mm", "mode", "moveaxis",
    "movedim", "msort", "mul", "multinomial", "multiply", "mv", "mvlgamma", "nan", "nan_to_num", "nanmean",
    "nanmedian", "nanquantile", "nansum", "narrow", "narrow_copy", "ne", "neg", "negative", "newaxis", "nextafter",
    "nn", "no_grad", "nonzero", "nonzero_static", "norm", "norm_except_dim", "normal", "not_equal", "numel", "ones",
    "ones_like", "ops", "optim", "orgqr", "ormqr", "outer", "pad", "pairwise_distance", "pca_lowrank", "pdist",
    "permute", "permute_copy", "pi", "pinverse", "pixel_shuffle", "pixel_unshuffle", "poisson", "polar", "polygamma",
    "positive", "pow", "prelu", "preserve_format", "printoptions", "prod", "promote_types", "put", "qr", "quantile",
    "rad2deg", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "random", "randperm", "range",
    "ravel", "real", "reciprocal", "relu", "relu_", "remainder", "renorm", "repeat_interleave", "reshape",
    "resolve_conj", "resolve_neg", "result_type", "roll", "rot90", "round", "row_stack", "rsqrt", "rsub", "save",
    "scalar_tensor", "scatter", "scatter_add", "scatter_reduce", "searchsorted", "seed", "segment_reduce", "select",
    "select_copy", "select_scatter", "selu", "selu_", "serialization", "set_anomaly_enabled", "set_default_device",
    "set_default_dtype", "set_default_tensor_type", "set_deterministic_debug_mode", "set_float32_matmul_precision",
    "set_flush_denormal", "set_grad_enabled", "set_num_interop_threads", "set_num_threads", "set_printoptions",
    "set_rng_state", "set_warn_always", "sgn", "short", "sigmoid", "sign", "signbit", "sin", "sinc", "sinh",
    "slice_copy", "slice_scatter", "slogdet", "softmax", "sort", "split", "split_copy", "split_with_sizes",
    "split_with_sizes_copy", "sqrt", "square", "squeeze", "squeeze_copy", "stack", "std", "std_mean", "stft",
    "strided", "sub", "subtract", "sum", "svd", "svd_lowrank", "swapaxes", "swapdims", "t", "t_copy", "take",
    "take_along_dim", "tan", "tanh", "tensor", "tensor_split", "tensordot", "testing", "threshold", "threshold_",
    "tile", "to_dlpack", "topk", "trace", "transpose", "transpose_copy", "trapezoid", "trapz", "triangular_solve",
    "tril", "tril_indices", "triu", "triu_indices", "true_divide", "trunc", "typename", "uint8", "unbind",
    "unbind_copy", "unflatten", "unfold_copy", "unique", "unique_consecutive", "unravel_index", "unsafe_chunk",
    "unsafe_split", "unsafe_split_with_sizes", "unsqueeze", "unsqueeze_copy", "use_deterministic_algorithms", "vander",
    "var", "var_mean", "vdot", "view_as_complex", "view_as_complex_copy", "view_as_real", "view_as_real_copy",
    "view_copy", "vmap", "vsplit", "vstack", "where", "xlogy", "zeros", "zeros_like",
]

_keep_freed_memory()
if "RETROGRAD_WATCH" in _os.environ:
    _importlib.import_module("retrograd.anomaly.environment").start()
