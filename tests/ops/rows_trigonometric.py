"""Rows for trigonometric and hyperbolic functions, their inverses, and angles."""

from __future__ import annotations

import numpy as np

from tests.ops.harness import COMPLEX, FLOATS, INTS, Make, binary, unary
from tests.ops.rows_arithmetic import INF, NAN, at, mixed, not_zero

EVERY = ("float16", *COMPLEX, *INTS, "bool")


def above_one(make: Make, shape: tuple[int, ...]) -> np.ndarray:
    return make.positive(*shape) + np.asarray(1, make.dtype)


def inside(make: Make, shape: tuple[int, ...]) -> np.ndarray:
    return make.uniform(*shape, low=-0.9, high=0.9)


ROWS = [
    unary("sin", dtypes=EVERY, numpy=(np.sin,)),
    at("sin", [0.0, INF, NAN], second=True),
    unary("cos", dtypes=EVERY, numpy=(np.cos,)),
    unary("tan", inside, dtypes=EVERY, numpy=(np.tan,)),
    unary("sinc", not_zero, dtypes=EVERY, numpy=(np.sinc,), tolerance=10),
    at("sinc", [0.0, -0.0, 1.0, -2.0, INF, NAN], tolerance=10),
    unary("asin", inside, dtypes=EVERY, numpy=(np.arcsin,)),
    unary("acos", inside, dtypes=EVERY, numpy=(np.arccos,)),
    unary("atan", dtypes=EVERY, numpy=(np.arctan,)),
    at("asin", [0.0, 1.0, -1.0, 1.5, NAN]),
    at("acos", [0.0, 1.0, -1.0, 1.5, NAN]),
    at("atan", [0.0, INF, -INF, NAN], second=True),
    at("asin", [2 + 1j, -2 - 1j], dtypes=("complex64", "complex128"), numeric=True, second=True),
    at("acos", [2 + 1j, -2 - 1j], dtypes=("complex64", "complex128"), numeric=True, second=True),
    binary("atan2", not_zero, not_zero, dtypes=("float16", *FLOATS, *INTS), scalars=(), numpy=(np.arctan2,)),
    at("atan2", [0.0, 0.0, 1.0, -0.0, INF, 0.0], [0.0, 1.0, 0.0, -1.0, INF, -1.0]),
    *mixed("atan2")[:2],
    unary("sinh", dtypes=EVERY, numpy=(np.sinh,)),
    unary("cosh", dtypes=EVERY, numpy=(np.cosh,)),
    unary("tanh", dtypes=EVERY, numpy=(np.tanh,)),
    at("tanh", [0.0, 100.0, INF, -INF, NAN], second=True),
    # torch has no gradients for these in-place forms
    *(
        row
        for name, values, numpy in (
            ("asinh", "normal", np.arcsinh),
            ("acosh", above_one, np.arccosh),
            ("atanh", inside, np.arctanh),
        )
        for row in (
            unary(name, values, dtypes=EVERY, inplace=False, numpy=(numpy,)),
            unary(name, values, dtypes=EVERY, gradients=False),
        )
    ),
    at("asinh", [0.0, INF, NAN], second=True),
    at("acosh", [1.0, 0.5, INF, NAN]),
    at("acosh", [2 + 1j, 0.5 - 1j, -2 + 0.5j], dtypes=("complex64", "complex128"), numeric=True, second=True),
    at("atanh", [0.0, 1.0, -1.0, 2.0]),
    unary("deg2rad", dtypes=("float16", *FLOATS, *INTS, "bool"), numpy=(np.deg2rad, np.radians)),
    unary("rad2deg", dtypes=("float16", *FLOATS, *INTS, "bool"), numpy=(np.rad2deg, np.degrees)),
]
