"""Rows for comparisons, logic, bits and integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.harness import ALL_REAL, COMPLEX, INTS, Make, Row, binary, call, unary
from tests.ops.rows_arithmetic import INF, NAN, at

EVERY = ("float16", *COMPLEX, *INTS, "bool")
REAL = ("float16", *ALL_REAL)
BITS = (*INTS, "bool")


def compared(name: str, dtypes: tuple[str, ...], *numpy: Any) -> list[Row]:
    """Return a row that compares small integers (many equal), special values, and numbers of a higher kind."""
    return [
        binary(name, small, small, scalars=(1, 0.5, 300), dtypes=dtypes, gradients=False, numpy=numpy),
        at(name, [0.0, -0.0, NAN, INF, INF, NAN, 1.0], [-0.0, 0.0, NAN, INF, -INF, 1.0, NAN], gradients=False),
        at(name, [1, 2, 44], 1.5, dtypes=INTS, gradients=False),
    ]


def small(make: Make, shape: tuple[int, ...]) -> np.ndarray:
    return make.rng.integers(0, 3, shape).astype(make.dtype)


def shifts(make: Make, shape: tuple[int, ...]) -> np.ndarray:
    return make.rng.integers(0, 2 + 8 * make.dtype.itemsize, shape).astype(make.dtype)


def close(make: Make) -> list[Any]:
    x = make.normal(2, 3)
    near = x + np.asarray(0 if make.dtype.kind in "iu" else 1e-9).astype(make.dtype)
    samples = [call(x, near), call(x, x[:1]), call(x, x[::-1]), call(x, near, rtol=0.0, atol=1e-12)]
    if make.is_float:
        special = np.array([1, NAN, INF, -INF], make.dtype)
        samples += [call(special, special[::1]), call(special, special, equal_nan=True), call(special, special[::-1])]
    return samples


def pairs(make: Make) -> list[Any]:
    x = make.normal(2, 3)
    return [call(x, x.copy()), call(x, x[::-1]), call(x, x[0]), call(x, x.astype("complex128")), call(x[:0], x[:0])]


def single(make: Make) -> list[Any]:
    return [call(np.array(value, make.dtype)) for value in (0, 1, [1], [[0]])]


ROWS = [
    *compared("eq", EVERY, np.equal),
    *compared("ne", EVERY, np.not_equal),
    *compared("lt", REAL, np.less),
    *compared("le", REAL, np.less_equal),
    *compared("gt", REAL, np.greater),
    *compared("ge", REAL, np.greater_equal),
    Row("isclose", close, dtypes=(*COMPLEX, "int64", "uint8"), gradients=False, numpy=(np.isclose,)),
    Row(
        "isclose",
        lambda make: [call(np.array([True, False]), np.array([True, True]))],
        dtypes=("bool",),
        gradients=False,
    ),
    Row("allclose", close, dtypes=(*COMPLEX, "int64"), gradients=False),
    Row("equal", pairs, dtypes=(*COMPLEX, "int64", "bool"), gradients=False),
    *(
        row
        for name, numpy in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite), ("isreal", np.isreal))
        for row in (
            unary(name, small, dtypes=EVERY, gradients=False, inplace=False, numpy=(numpy,)),
            at(name, [0.0, NAN, INF, -INF, 1.0], dtypes=("float16", *COMPLEX), gradients=False),
            at(name, [1j, complex(NAN, 1), complex(1, INF)], dtypes=("complex64",), gradients=False),
        )
    ),
    *(
        row
        for name, numpy in (("isposinf", np.isposinf), ("isneginf", np.isneginf))
        for row in (
            unary(name, small, dtypes=REAL, gradients=False, inplace=False, numpy=(numpy,)),
            at(name, [0.0, NAN, INF, -INF, 1.0], dtypes=("float16", "float32", "float64"), gradients=False),
        )
    ),
    Row("is_nonzero", single, dtypes=EVERY, gradients=False),
    binary("logical_and", small, small, dtypes=EVERY, scalars=(), gradients=False, numpy=(np.logical_and,)),
    binary("logical_or", small, small, dtypes=EVERY, scalars=(), gradients=False, numpy=(np.logical_or,)),
    binary("logical_xor", small, small, dtypes=EVERY, scalars=(), gradients=False, numpy=(np.logical_xor,)),
    unary("logical_not", small, dtypes=EVERY, gradients=False, numpy=(np.logical_not,)),
    at("logical_or", [NAN, 0.0, -0.0], [0.0, 0.0, 0.0], gradients=False),
    binary("bitwise_and", dtypes=BITS, scalars=(3, 300, True), gradients=False, numpy=(np.bitwise_and,)),
    binary("bitwise_or", dtypes=BITS, scalars=(3, 300, True), gradients=False, numpy=(np.bitwise_or,)),
    binary("bitwise_xor", dtypes=BITS, scalars=(3, 300, True), gradients=False, numpy=(np.bitwise_xor,)),
    unary("bitwise_not", dtypes=BITS, gradients=False, numpy=(np.invert,)),
    binary("bitwise_left_shift", "normal", shifts, dtypes=INTS, scalars=(2,), gradients=False, numpy=(np.left_shift,)),
    binary(
        "bitwise_right_shift", "normal", shifts, dtypes=INTS, scalars=(2,), gradients=False, numpy=(np.right_shift,)
    ),
    Row(
        "bitwise_left_shift",
        lambda make: [call(1, np.arange(3)), call(np.array([True]), 2)],
        dtypes=("int64",),
        gradients=False,
        method=False,
    ),
    binary("gcd", dtypes=INTS, scalars=(), gradients=False, numpy=(np.gcd,)),
    binary("lcm", dtypes=INTS, scalars=(), gradients=False, numpy=(np.lcm,)),
]
