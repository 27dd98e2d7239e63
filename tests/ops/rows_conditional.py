"""Rows for choices between operands, limits and interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.harness import COMPLEX, FLOATS, INTS, Make, Row, binary, call, layouts, unary
from tests.ops.rows_arithmetic import INF, NAN, at, mixed, not_zero

REAL = ("float16", *FLOATS, *INTS, "bool")


def choices(make: Make) -> list[Any]:
    x, y = make.normal(3, 4), make.normal(4)
    numbers = [call(make.mask(3, 4), x, 2), call(make.mask(4), 0, x)]
    if make.is_float:
        numbers += [call(make.mask(3, 1), x, 0.5), call(np.array(True), x, y)]
    return [
        call(make.mask(3, 4), x, y),
        call(make.mask(3, 4)[::-1], x[:, ::-1], y),
        call(make.mask(2, 3, 4), x, y),
        call(np.array(False), np.asarray(x[0, 0]), np.asarray(x[0, 1])),
        call(make.mask(0, 4), x[:0], y),
        *numbers,
    ]


def choices_of_numbers(make: Make) -> list[Any]:
    mask = make.mask(3)
    return [
        call(mask, 1, 2),
        call(mask, 1.5, 2),
        call(mask, 1, 2j),
        call(mask, np.arange(3), np.array(2.5)),
        call(mask),
    ]


def limits(make: Make) -> list[Any]:
    x = make.normal(3, 4, scale=3)
    low, high = np.sort(make.normal(2, 4), axis=0)
    samples = [call(x, 1, 3), call(x, 1), call(x, max=3), call(x, min=0, max=2)]
    samples += [call(x, low, high), call(x, min=low), call(x, max=high), call(x, high, low), call(x, low[:1], high)]
    if make.is_float:
        samples += [call(x, -0.5, 0.5), call(x, min=0.5), call(x, 0.5, -0.5)]
    return [*samples, *(call(array, 1, 3) for array in layouts(make, "normal"))]


def limits_of_integers(make: Make) -> list[Any]:
    x = make.normal(3, 4)
    return [
        call(x, 0.5),
        call(x, max=1.5),
        call(x, 0.5, 2),
        call(x, np.array([0.5], "float32")),
        call(x, np.array(1.5)),
    ]


def lower(make: Make) -> list[Any]:
    x = make.normal(3, 4)
    fractions = [call(x, 0.5)] if make.is_float else [call(x, 1.5)]
    return [call(x, 1), call(x, make.normal(4)), call(x, make.normal(3, 1)), *fractions]


def interpolations(make: Make) -> list[Any]:
    x, y = make.normal(3, 4), make.normal(4)
    return [
        *(call(x, y, weight) for weight in (0.0, 0.3, 0.5, 0.9, 1.0, 2, -1.5)),
        call(x, y, make.uniform(3, 4, low=-1.0, high=2.0)),
        call(x, y, make.uniform(3, 1)),
        call(x, y, np.array(0.7, make.dtype)),
        call(x, y, weight=0.25),
        call(make.normal(2, 0), make.normal(0), 0.5),
    ]


def products(make: Make) -> list[Any]:
    x, y, z = make.normal(3, 4), not_zero(make, (4,)), not_zero(make, (3, 1))
    fractions = [call(x, y, z, value=0.5)] if make.is_float else []
    return [call(x, y, z), call(x, y, z, value=2), call(np.asarray(x[0, 0]), y, z), *fractions]


TIES = [1.0, 1.0, NAN, 1.0, INF, -0.0], [1.0, 2.0, 1.0, NAN, INF, 0.0]

ROWS = [
    Row("where", choices, dtypes=(*COMPLEX, *INTS, "bool"), method=False, numpy=(np.where,)),
    Row("where", choices_of_numbers, dtypes=("float64",), gradients=False, method=False),
    binary("maximum", dtypes=REAL, scalars=(), inplace=False, numpy=(np.maximum,)),
    binary("minimum", dtypes=REAL, scalars=(), inplace=False, numpy=(np.minimum,)),
    binary("fmax", dtypes=REAL, scalars=(), inplace=False, numpy=(np.fmax,)),
    binary("fmin", dtypes=REAL, scalars=(), inplace=False, numpy=(np.fmin,)),
    *(at(name, *TIES, second=True) for name in ("maximum", "minimum", "fmax", "fmin")),
    *mixed("maximum")[:2],
    Row("clamp", limits, dtypes=("float16", *FLOATS, *INTS), inplace=True),
    Row("clamp", limits_of_integers, dtypes=("int64", "uint8"), gradients=False),
    at("clamp", [0.0, 1.0, 0.5, 2.0, NAN, -1.0], 0.0, 1.0),
    at("clamp", [0.0, 1.0, NAN], 0.0),
    at("clamp", [0.0, 1.0, 0.5, 2.0, -1.0, 0.5], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
    at("clamp", [True, False], [False, False], dtypes=("bool",)),
    Row("clamp_min", lower, dtypes=("float16", *FLOATS, *INTS), inplace=True),
    Row("clamp_max", lower, dtypes=("float16", *FLOATS, *INTS), inplace=True),
    at("clamp_min", [0.0, 1.0, NAN, -1.0], -INF),
    at("clamp_min", [0.0, 1.0, NAN, -1.0], [0.0, 0.0, 0.0, NAN]),
    at("clamp_max", [0.0, 1.0, NAN, -1.0], [0.0, 0.0, 0.0, NAN]),
    unary("nan_to_num", dtypes=("float16", *FLOATS, *INTS, "bool"), numpy=(np.nan_to_num,)),
    at("nan_to_num", [NAN, INF, -INF, 1.0], dtypes=("float16", *FLOATS)),
    at("nan_to_num", [NAN, INF, -INF, 1.0], kwargs={"nan": 2.0, "posinf": 3.0, "neginf": -4.0}),
    at("nan_to_num", [NAN, INF, -INF, 1.0], 2.0, 3.0),
    at("nan_to_num", [complex(NAN, INF), complex(1, -INF)], dtypes=("complex64",), gradients=False),
    binary("heaviside", dtypes=REAL, scalars=(), gradients=False),
    at("heaviside", [NAN, 0.0, -0.0, -1.0, 2.0, INF], [0.5], gradients=False),
    Row("lerp", interpolations, dtypes=("float16", *COMPLEX), inplace=True),
    at("lerp", [0.1, 0.1], [0.7, 0.7], [0.0, 1.0], second=True),
    Row("addcmul", products, dtypes=(*COMPLEX, *INTS), inplace=True),
    Row("addcdiv", products, dtypes=COMPLEX, inplace=True),
]
