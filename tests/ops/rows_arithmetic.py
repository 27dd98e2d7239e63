"""Rows for sums, products, quotients and remainders; signs and absolute values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.harness import COMPLEX, FLOATS, INTS, Make, Row, binary, call, unary

INF, NAN = np.inf, np.nan


def at(name: str, *operands: Any, **more: Any) -> Row:
    """Return a row for chosen values, such as 0, infinity and NaN; lists become arrays, the rest stays unchanged."""
    kwargs = more.pop("kwargs", {})

    def samples(make: Make) -> list[Any]:
        return [call(*(np.array(v, make.dtype) if isinstance(v, list) else v for v in operands), **kwargs)]

    return Row(name, samples, numeric=more.pop("numeric", False), second=more.pop("second", False), **more)


def not_zero(make: Make, shape: tuple[int, ...]) -> np.ndarray:
    """Return divisors away from 0, of both signs if the dtype is signed."""
    signs = 1 if make.dtype.kind in "ub" else make.rng.choice([-1, 1], shape)
    return make.positive(*shape) * np.asarray(signs, make.dtype)


def between_multiples(make: Make, shape: tuple[int, ...]) -> np.ndarray:
    """Return dividends whose quotient by :func:`quarters` is not an integer."""
    if make.dtype.kind in "iu":
        return make.normal(*shape)
    return (make.rng.integers(-9, 10, shape) + make.rng.uniform(0.1, 0.2, shape)).astype(make.dtype)


def quarters(make: Make, shape: tuple[int, ...]) -> np.ndarray:
    if make.dtype.kind in "iu":
        return not_zero(make, shape)
    return make.rng.choice([-0.5, 0.25, 1.0, -2.0], shape).astype(make.dtype)


def mixed_dtypes(left: str, right: str) -> Any:
    """Return samples of two dtypes, some with 0-d operands, whose dtype counts less."""

    def samples(make: Make) -> list[Any]:
        a, b = make.rng.normal(size=(2, 3)) + 3, make.rng.normal(size=(3,)) + 3
        return [
            call(a.astype(left), b.astype(right)),
            call(a.astype(right), b.astype(left)),
            call(a.astype(left), np.array(3, right)),
            call(np.array(3, left), b.astype(right)),
        ]

    return samples


def mixed(name: str) -> list[Row]:
    return [
        Row(name, mixed_dtypes(left, right), dtypes=("float64",), numeric=False, tolerance=1e5)
        for left, right in (
            ("float32", "float64"),
            ("int64", "float32"),
            ("complex64", "float64"),
            ("uint8", "float16"),
        )
    ]


def alphas(make: Make) -> list[Any]:
    x, y = make.normal(2, 3), make.normal(3)
    fractions = [call(x, y, alpha=0.5), call(x, 2, alpha=-1.5)] if make.is_float else []
    turns = [call(x, y, alpha=1 - 2j)] if make.dtype.kind == "c" else []
    return [call(x, y, alpha=2), call(x, y, alpha=1), call(x, 3, alpha=2), *fractions, *turns]


def roundings(modes: tuple[str | None, ...]) -> Any:
    def samples(make: Make) -> list[Any]:
        x, y = between_multiples(make, (3, 4)), quarters(make, (4,))
        return [sample for mode in modes for sample in (call(x, y, rounding_mode=mode), call(x, 2, rounding_mode=mode))]

    return samples


ROWS = [
    # sums
    binary("add", dtypes=("float16", *COMPLEX, *INTS, "bool"), numpy=(np.add,)),
    binary("add", scalars=(2, 0.5, 1j, True, -1), dtypes=COMPLEX, inplace=False),
    Row("add", alphas, dtypes=(*COMPLEX, *INTS), inplace=True),
    *mixed("add"),
    binary("sub", dtypes=("float16", *COMPLEX, *INTS), numpy=(np.subtract,)),
    Row("sub", alphas, dtypes=(*COMPLEX, *INTS), inplace=True),
    binary("subtract", dtypes=FLOATS),
    *mixed("sub"),
    binary("rsub", dtypes=(*COMPLEX, "int64"), inplace=False, method=False),
    Row("rsub", alphas, dtypes=(*COMPLEX, "int64"), method=False),
    # products and quotients
    binary("mul", dtypes=("float16", *COMPLEX, *INTS, "bool"), numpy=(np.multiply,)),
    binary("mul", scalars=(2, 0.5, 1j, True, -1), dtypes=COMPLEX, inplace=False),
    *mixed("mul"),
    binary("div", "normal", not_zero, dtypes=("float16", *COMPLEX, *INTS), numpy=(np.true_divide,)),
    binary("divide", "normal", not_zero, dtypes=FLOATS),
    binary("true_divide", "normal", not_zero, dtypes=FLOATS),
    *mixed("div"),
    at("div", [1.0, -1.0, 0.0, INF], [0.0, 0.0, 0.0, INF]),
    Row("div", roundings((None, "floor", "trunc")), dtypes=(*FLOATS, *INTS), inplace=True),
    at("div", [1.0, -1.0, 0.0, INF], [0.0, 0.0, 0.0, 2.0], kwargs={"rounding_mode": "floor"}),
    at("div", [1.0, -1.0, 0.0, INF], [0.0, 0.0, 0.0, 2.0], kwargs={"rounding_mode": "trunc"}),
    binary(
        "floor_divide", between_multiples, quarters, dtypes=(*FLOATS, *INTS), gradients=False, numpy=(np.floor_divide,)
    ),
    at("floor_divide", [1.0, -1.0, 0.0, INF, 5.0, 1.0], [0.0, 0.0, 0.0, 1.0, INF, 0.1], gradients=False),
    binary("remainder", between_multiples, quarters, dtypes=(*FLOATS, *INTS), numpy=(np.remainder,)),
    at("remainder", [7.0, -7.0, 6.0, 5.0, -5.0, 1.0], [3.0, 3.0, -3.0, INF, INF, 0.0]),
    binary("fmod", between_multiples, quarters, dtypes=(*FLOATS, *INTS), numpy=(np.fmod,)),
    at("fmod", [7.0, -7.0, 6.0, 5.0, -5.0, 1.0], [3.0, 3.0, -3.0, INF, INF, 0.0]),
    unary("reciprocal", not_zero, dtypes=("float16", *COMPLEX, *INTS), numpy=(np.reciprocal,)),
    at("reciprocal", [0.0, -0.0, INF, NAN], second=True),
    # signs
    unary("neg", dtypes=("float16", *COMPLEX, *INTS), numpy=(np.negative,)),
    unary("positive", dtypes=(*COMPLEX, "int64"), inplace=False, numpy=(np.positive,)),
    unary("abs", not_zero, dtypes=("float16", *COMPLEX, *INTS), numpy=(np.abs,)),
    unary("abs", not_zero, numpy=(np.fabs,)),
    at("abs", [0.0, -0.0, INF, -INF], second=True),
    at("abs", [0j, 3 + 4j], dtypes=("complex64", "complex128")),
    unary("sign", not_zero, dtypes=("float16", *FLOATS, *INTS, "bool"), numpy=(np.sign,)),
    at("sign", [0.0, -0.0, INF, -INF, NAN]),
    unary("sgn", not_zero, dtypes=("float16", *COMPLEX, *INTS, "bool")),
    at("sgn", [0j, 3 + 4j, 1e-20j], dtypes=("complex64", "complex128")),
    unary("signbit", dtypes=("float16", *FLOATS, *INTS, "bool"), gradients=False, inplace=False, numpy=(np.signbit,)),
    at("signbit", [0.0, -0.0, INF, -INF, NAN], gradients=False),
    binary("copysign", not_zero, not_zero, dtypes=("float16", *FLOATS, *INTS), numpy=(np.copysign,)),
    at("copysign", [0.0, 1.0, -1.0, 2.0], [1.0, -1.0, -0.0, INF]),
    *mixed("copysign")[:2],
    binary("hypot", not_zero, not_zero, dtypes=("float16", *FLOATS), scalars=(), numpy=(np.hypot,)),
    at("hypot", [0.0, 3.0, 1.0, 1e30], [0.0, 4.0, INF, 1e30], dtypes=("float32",)),
    Row("hypot", lambda make: [call(np.ones(3, "float32"), np.arange(3))], dtypes=("float32",), numeric=False),
]
