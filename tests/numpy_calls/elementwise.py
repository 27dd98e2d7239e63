"""Calls of ufuncs and other elementwise functions."""

from __future__ import annotations

import numpy as np

from tests.numpy_calls.arrays import (
    HOLES,
    MASK,
    POSITIVE,
    SCALAR,
    SQUARE,
    SQUARES,
    TALL,
    UNIT,
    UP,
    ZSQUARE,
    B,
    K,
    M,
    N,
    V,
    W,
    X,
    Z,
)
from tests.numpy_calls.call import Fixed, constant, described, differentiable

# --- ufuncs of one argument -------------------------------------------------------------------------------------------

differentiable(
    "absolute arctan arcsinh cbrt ceil conjugate cos cosh deg2rad degrees exp exp2 expm1 fabs floor frexp modf "
    "negative positive rad2deg radians reciprocal rint sign sin sinh square tan tanh trunc",
    M,
)
differentiable("arccos arcsin arctanh", UNIT)
differentiable("log log10 log1p log2 sqrt", POSITIVE)
differentiable("arccosh", POSITIVE + 1)
differentiable(
    "absolute conjugate cos cosh exp expm1 log log10 log1p log2 negative positive reciprocal sin sinh sqrt square tan "
    "tanh",
    Z,
)
differentiable("exp sin", SCALAR)
constant("isfinite isinf isnan signbit logical_not", HOLES)
differentiable("spacing", M)
constant("isfinite isinf isnan", Z)
constant("invert bitwise_count absolute negative sign square", N)
constant("invert logical_not", B)
constant("_core.umath._ones_like", M)

# --- ufuncs of two and three arguments --------------------------------------------------------------------------------

differentiable("add arctan2 copysign divide fmax fmin hypot maximum minimum multiply nextafter subtract", X, M)
differentiable("divmod floor_divide fmod remainder", V, W)
differentiable("add divide maximum logaddexp logaddexp2", M, M[:, :1].copy() + 0.11)
differentiable("add divide multiply subtract", M, SCALAR)
differentiable("power float_power", POSITIVE, UNIT)
differentiable("power", V, 3)
differentiable("power", 2.5, V)
differentiable("ldexp", M, N[:, :1][0])
differentiable("add divide multiply subtract", Z, Z[:1] + 1.5)
differentiable("multiply", Z, UNIT)
differentiable("matmul", SQUARES, TALL.T)
differentiable("matmul", V, W)
differentiable("matmul", M, V[:4])
differentiable("matmul", Z, ZSQUARE)
differentiable("vecdot", M, X)
differentiable("vecdot", SQUARES, SQUARE, axis=1)
differentiable("vecdot", M, X, keepdims=True)
differentiable("vecdot", Z, Z[::-1].copy())
differentiable("matvec", SQUARES, V[:3])
differentiable("vecmat", V[:3], SQUARES)
differentiable("vecmat", Z, ZSQUARE)
differentiable("_core.umath.clip", M, -1.0, 1.3)
constant("equal greater greater_equal less less_equal not_equal logical_and logical_or logical_xor", M, X)
constant("bitwise_and bitwise_or bitwise_xor gcd lcm left_shift right_shift add multiply floor_divide remainder", N, K)
constant("bitwise_and bitwise_or bitwise_xor logical_and equal", B, B[::-1].copy())
constant("equal not_equal", Z, Z[:1])
differentiable("heaviside", M, X)

# --- methods of ufuncs ------------------------------------------------------------------------------------------------

differentiable("add.reduce multiply.reduce maximum.reduce minimum.reduce logaddexp.reduce", X)
differentiable(
    "add.reduce multiply.reduce maximum.reduce minimum.reduce logaddexp.reduce", X, axis=(0, 2), keepdims=True
)
differentiable("add.reduce maximum.reduce", X, None)
differentiable("add.reduce multiply.reduce", M, 1, initial=2.0)
differentiable("add.reduce", M, where=MASK)
differentiable("add.accumulate multiply.accumulate maximum.accumulate minimum.accumulate logaddexp.accumulate", X)
differentiable(
    "add.accumulate multiply.accumulate maximum.accumulate minimum.accumulate logaddexp.accumulate", X, axis=1
)
differentiable("add.outer multiply.outer maximum.outer minimum.outer logaddexp.outer arctan2.outer", TALL, W)
differentiable("subtract.outer", V, SCALAR)
differentiable("power.outer", POSITIVE, Fixed(np.array([1.0, 2.0])))
constant("logical_and.reduce logical_or.reduce", B, axis=1)
constant("less.outer", V, W)

# --- elementwise functions --------------------------------------------------------------------------------------------

differentiable("clip", M, -1.0, 1.3)
differentiable("clip", M, M.min(0) + 0.3, np.full(4, 1.5))
differentiable("clip", M, None, 0.4)
if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
    differentiable("clip", M, min=-1.0)
    differentiable("clip", M, max=0.4, min=-2.0)
differentiable("angle", Z)
differentiable("angle", Z, deg=True)
differentiable("real imag", Z)
differentiable("real real_if_close", M)
differentiable("real_if_close", Z)
differentiable("real_if_close", M, via=lambda f, a: f(a + 0j))
constant("imag", M)
differentiable("nan_to_num", HOLES, nan=2.0)
differentiable("nan_to_num", M)
differentiable("fix", M)
differentiable("round around", V + 0.01, 1)
differentiable("i0 sinc", M)
differentiable("unwrap", V * 4)
differentiable("unwrap", X, discont=2.0, axis=0, period=3.0)
differentiable("where", MASK, M, M[::-1].copy())
differentiable("where", MASK, X, -1.0)
differentiable("where", MASK, 2.0, X)
constant("where", MASK)
constant("where", MASK, 1.0, np.pi)
constant("where", MASK, [1, 2, 3, 4], 0)
differentiable("select", [MASK, M > 1], [M, M[::-1].copy()], 7.0)
differentiable("select", [MASK, X > 1], [X, M * 2])
differentiable("choose", N[0] % 3, [V[:3], W[:3], UP[:3]])
differentiable("choose", N[0], (V[:3], W[:3]), mode="wrap")
differentiable("piecewise", V, [V < 0, V > 2.5], [np.negative, lambda x: x**2, 3.0])
differentiable("piecewise", SCALAR, [SCALAR > 1, SCALAR > 5], [np.sin, 2.0])
differentiable("apply_along_axis", np.sort, 0, X)
differentiable("apply_along_axis", np.sum, -1, X)
differentiable("apply_along_axis", lambda x: np.outer(x[:2], W[:2]), 1, X)
differentiable("apply_over_axes", np.sum, X, (0, -1))
differentiable("apply_over_axes", np.cumsum, X, 1)
differentiable("piecewise", M, [MASK], [lambda x, k: x * k, lambda x, k: np.sin(x)], k=1.5)
differentiable("lib.scimath.sqrt lib.scimath.log lib.scimath.log2 lib.scimath.log10", POSITIVE)
differentiable("lib.scimath.sqrt lib.scimath.log", Z)
differentiable("lib.scimath.sqrt lib.scimath.log lib.scimath.log2 lib.scimath.log10", V)
differentiable("lib.scimath.arccos lib.scimath.arcsin lib.scimath.arctanh", UNIT)
differentiable("lib.scimath.arccos lib.scimath.arcsin lib.scimath.arctanh", V)
differentiable("lib.scimath.power", V, 1.5)
differentiable("lib.scimath.power", V, Fixed(np.array(-2)))
differentiable("lib.scimath.logn", POSITIVE + 1, POSITIVE[::-1].copy())
differentiable("lib.scimath.power", POSITIVE, UNIT)
constant("isclose", M, M + 1e-9)
constant("isclose", M, X, rtol=0.5, atol=0.1, equal_nan=True)
described("allclose array_equal array_equiv", M, M.copy())
described("allclose", M, M + 1e-3, 0.1, 0.2)
constant("isneginf isposinf isreal iscomplex", M)
constant("isreal iscomplex", Z)
described("isrealobj iscomplexobj", M)
described("isrealobj iscomplexobj", Z)
