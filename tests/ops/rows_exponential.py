"""Rows for exponentials, logarithms, powers and roots."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.harness import COMPLEX, FLOATS, INTS, Make, Row, binary, call, unary
from tests.ops.rows_arithmetic import INF, NAN, at, mixed

EVERY = ("float16", *COMPLEX, *INTS, "bool")


def exponents(make: Make, shape: tuple[int, ...]) -> np.ndarray:
    """Return small integers of the dtype, negative only where that makes sense."""
    low = 0 if make.dtype.kind in "iu" else -3
    return make.rng.integers(low, 4, shape).astype(make.dtype)


def powers(make: Make) -> list[Any]:
    x = make.positive(2, 3)
    if make.dtype.kind in "iu":
        return [call(x + 1, 0), call(x + 1, 1), call(x + 1, 2), call(x + 1, 3), call(x, 0.5), call(2, x), call(2.5, x)]
    turns = [call(x, 1 - 2j), call(1 - 2j, x)] if make.dtype.kind == "c" else []
    numbers = (0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, True)
    return [*(call(x, n) for n in numbers), *(call(base, x) for base in (2, 0.5, 3)), *turns]


def integer_powers(make: Make) -> list[Any]:
    bases = np.array([[2], [1], [-1], [0], [-3]]).astype(make.dtype)
    return [call(bases, np.array([3, 2, 1, 0, -1, -2, -3]).astype(make.dtype)), call(2, np.array([-1, 0, 3]))]


def frexps(make: Make) -> list[Any]:
    return [call(np.array(values, make.dtype)) for values in ([0.0, -0.0, 1.0, -3.0, 0.3], [[1e-5, 1e4]], [], 5.0)]


ROWS = [
    # exponentials
    unary("exp", dtypes=EVERY, numpy=(np.exp,)),
    at("exp", [0.0, 1000.0, -1000.0, INF, -INF, NAN], second=True),
    unary("exp2", dtypes=EVERY, numpy=(np.exp2,)),
    unary("expm1", dtypes=EVERY, numpy=(np.expm1,)),
    at("expm1", [0.0, 1e-10, -INF, INF]),
    binary("ldexp", "normal", exponents, dtypes=(*COMPLEX, "int64"), scalars=()),
    binary("ldexp", "normal", "normal", scalars=()),
    Row(
        "ldexp",
        lambda make: [call(make.normal(3), np.array([2, 0, 5])), call(make.normal(2, 3), np.array(2))],
        inplace=True,
        grad_args=(0,),
        numpy=(np.ldexp,),
    ),
    # torch's gradients use 2 ** other in integers, which is 0 for negative ones
    Row(
        "ldexp",
        lambda make: [call(make.normal(3), np.array([-2, 0, 200]))],
        gradients=False,
        inplace=True,
    ),
    Row("frexp", frexps, dtypes=FLOATS, numeric=False, numpy=(np.frexp,)),
    Row("frexp", frexps, dtypes=("float16",), gradients=False),
    # logarithms
    unary("log", "positive", dtypes=EVERY, numpy=(np.log,)),
    at("log", [0.0, -0.0, -1.0, INF, NAN]),
    unary("log2", "positive", dtypes=EVERY, numpy=(np.log2,)),
    unary("log10", "positive", dtypes=EVERY, numpy=(np.log10,)),
    unary("log1p", "positive", dtypes=EVERY, numpy=(np.log1p,)),
    at("log1p", [0.0, 1e-10, -1.0, -2.0, INF]),
    binary("logaddexp", dtypes=("float16", *COMPLEX), scalars=(), inplace=False, numpy=(np.logaddexp,)),
    at("logaddexp", [INF, -INF, -INF, 1000.0, INF, -1000.0], [INF, -INF, INF, 0.0, 0.0, -1000.0]),
    at("logaddexp", [-INF, 1000.0], [-INF, 1000 + 1j], dtypes=("complex64", "complex128"), gradients=False),
    binary("logaddexp2", dtypes=("float16", *FLOATS), scalars=(), inplace=False, numpy=(np.logaddexp2,)),
    at("logaddexp2", [INF, -INF, -INF, 100.0, INF], [INF, -INF, INF, 0.0, 0.0]),
    # powers
    binary("pow", "positive", "normal", dtypes=("float16", *COMPLEX), numpy=(np.power,)),
    binary("pow", "normal", exponents, dtypes=(*FLOATS, "complex128", *INTS), scalars=(2, 3), numeric=False),
    Row("pow", powers, dtypes=("float16", *COMPLEX, "int32", "uint8", "int64"), method=False, numpy=(np.power,)),
    Row("pow", integer_powers, dtypes=("int8", "int32", "int64"), gradients=False, method=False),
    at("pow", [0.0, 0.0, 0.0, -1.0, 2.0, INF, 0.0], [0.0, 2.0, -1.0, 2.0, 0.0, 2.0, 0.5]),
    at("pow", [1j, 2, 0j], [2, 0j, 2], dtypes=("complex64", "complex128")),
    *(at("pow", [0.0, 1.0, -2.0], n) for n in (0, 1, 2, 3, 0.0, 2.0)),
    at("pow", 0.0, [0.0, 1.0, -1.0], method=False),
    at("pow", -2, [0.0, 1.0, 2.0], method=False),
    at("pow", [True, False], 2, dtypes=("bool",)),
    *mixed("pow")[:3],
    Row("pow", lambda make: [call(make.positive(2, 3), exponent=3)], inplace=True, grad_args=(0,)),
    binary("float_power", "positive", "normal", dtypes=(*COMPLEX, "int64"), numpy=(np.float_power,)),
    Row(
        "float_power", lambda make: [call(2, make.positive(3)), call(make.positive(3), -1)], dtypes=FLOATS, method=False
    ),
    unary("square", dtypes=EVERY, numpy=(np.square,)),
    at("square", [0.0, -0.0, INF, NAN], second=True),
    # roots
    unary("sqrt", "positive", dtypes=EVERY, numpy=(np.sqrt,)),
    at("sqrt", [0.0, -0.0, -1.0, INF, NAN]),
    at("sqrt", [-1 + 0j, 1j, -2 - 1j], dtypes=("complex64", "complex128"), numeric=True, second=True),
    unary("rsqrt", "positive", dtypes=EVERY),
    at("rsqrt", [0.0, -0.0, -1.0, 4.0, INF, NAN]),
]
