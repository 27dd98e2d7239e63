"""Rows of the activation functions and of softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tests.ops.harness import FLOATS, Make, Row, Sample, call, layouts

functional = torch.nn.functional
HALF = ("float16", *FLOATS)


def activation(name: str, *options: dict[str, Any], **more: Any) -> Row:
    """Return a row for a function of one tensor: all layouts, values far from 0, and every set of options."""

    def samples(make: Make) -> Iterator[Sample]:
        for array in layouts(make, "normal"):
            yield call(array)
        if make.is_float:
            yield call((make.normal(4, 5) * make.dtype.type(8)).astype(make.dtype))
        for chosen in options:
            yield call(make.normal(3, 5), **chosen)
            yield call(make.normal(2, 3).T, **chosen)

    settings: dict[str, Any] = {"dtypes": HALF, "method": False, "torch": getattr(functional, name), **more}
    return Row(name, samples, **settings)


def at(row: Row, *values: float, **options: Any) -> Row:
    """Return a row for the same function at chosen points, where finite differences may not exist."""

    def samples(make: Make) -> Iterator[Sample]:
        yield call(np.array(values, make.dtype), **options)

    return replace(row, samples=samples, dtypes=FLOATS, numeric=False, inplace=False)


INF, NAN = math.inf, math.nan
FAR = (-INF, -1e4, -100.0, -20.5, -0.0, 0.0, 20.5, 100.0, 1e4, INF, NAN)

RELU = activation("relu", dtypes=(*HALF, "int64", "uint8"), method=True, inplace=True)
RELU6 = activation("relu6", dtypes=(*HALF, "int64", "uint8"))
HARDTANH = activation("hardtanh", {"min_val": -0.3, "max_val": 0.5}, dtypes=(*HALF, "int64"))
LEAKY_RELU = activation("leaky_relu", {"negative_slope": 0.3}, {"negative_slope": -2.0}, {"negative_slope": 0.0})
HARDSHRINK = activation("hardshrink", {"lambd": 0.2}, method=True)
SOFTSHRINK = activation("softshrink", {"lambd": 0.2}, {"lambd": 0.0})
HARDSIGMOID = activation("hardsigmoid", second=False, tolerance=100)  # torch's slope is a float32
HARDSWISH = activation("hardswish")
ELU = activation("elu", {"alpha": 0.5}, {"alpha": -2.0})
SELU = activation("selu")
CELU = activation("celu", {"alpha": 0.5}, {"alpha": -2.0})
SIGMOID = activation(
    "sigmoid",
    dtypes=("complex64", "complex128", *HALF, "int64", "bool"),
    torch=torch.sigmoid,
    method=True,
    inplace=True,
)
LOGSIGMOID = activation("logsigmoid")
SOFTPLUS = activation("softplus", {"beta": 2.0}, {"beta": 0.5, "threshold": 1.0}, {"beta": -1.0})
SILU = activation("silu")
MISH = activation("mish", dtypes=FLOATS)
GELU = activation("gelu", {"approximate": "tanh"})
SOFTSIGN = activation("softsign", dtypes=(*HALF, "int64", "complex128"))
TANHSHRINK = activation("tanhshrink", dtypes=(*FLOATS, "int64", "complex128"))


def thresholds(make: Make) -> Iterator[Sample]:
    for array in layouts(make, "normal"):
        yield call(array, 1, 20)
    yield call(make.normal(3, 4), 0.5, 2.7)
    yield call(make.normal(3, 4), threshold=-0.5, value=-7)


def prelus(make: Make) -> Iterator[Sample]:
    yield call(make.normal(2, 3, 4), make.normal(3))
    yield call(make.normal(2, 3), make.normal(3))
    yield call(make.normal(3, 2).T, make.normal(3))
    yield call(make.normal(2, 3), make.normal(1))
    yield call(make.normal(5), make.normal(1))
    yield call(make.normal(5), np.asarray(make.normal()))
    yield call(np.asarray(make.normal()), make.normal(1))
    yield call(make.normal(0, 3), make.normal(3))


def glus(make: Make) -> Iterator[Sample]:
    yield call(make.normal(3, 4))
    yield call(make.normal(6))
    yield call(make.normal(4, 3), 0)
    yield call(make.normal(2, 4, 3), dim=-2)
    yield call(make.normal(4, 3).T)
    yield call(make.normal(0, 4))


def along(widen: bool = True) -> Callable[[Make], Iterator[Sample]]:
    """Return calls of a function that normalises along a dimension."""

    def samples(make: Make) -> Iterator[Sample]:
        yield call(make.normal(3, 4), 1)
        yield call(make.normal(3, 4), 0)
        yield call(make.normal(3, 4), dim=-1)
        yield call(make.normal(2, 3, 4), -2)
        yield call(make.normal(5), 0)
        yield call(np.asarray(make.normal()), 0)
        yield call(np.asarray(make.normal()), -1)
        yield call(make.normal(3, 0), 1)
        yield call(make.normal(0, 3), 1)
        yield call(make.normal(1, 3), 0)
        yield call(make.normal(4, 3).T, 0)
        yield call(make.normal(3, 8)[:, ::2], 1)
        yield call(make.normal(3, 4)[::-1], 0)
        yield call(make.normal(3, 4, scale=100), 1)
        if widen:
            yield call(make.normal(3, 4), 1, dtype="dtype:float64")

    return samples


def infinite(make: Make) -> Iterator[Sample]:
    yield call(np.array([-INF, -1.0, 0.0, 2.0], make.dtype), 0)
    yield call(np.array([[-INF, -INF], [-INF, 0.0], [INF, 0.0], [NAN, 0.0]], make.dtype), 1)


def widened(make: Make) -> Iterator[Sample]:
    yield call(make.normal(3, 4), 1, dtype="dtype:float32")
    yield call(make.normal(3, 4), -1, dtype="dtype:float64")


ROWS = [
    RELU,
    at(RELU, *FAR),
    RELU6,
    # for NaN, torch's gradient depends on the position
    at(RELU6, -1.0, 3.0, 6.0, 7.0, *FAR[:-1]),
    HARDTANH,
    at(HARDTANH, -2.0, -1.0, 0.5, 1.0, 2.0, *FAR[:-1]),
    LEAKY_RELU,
    at(LEAKY_RELU, *FAR),
    HARDSHRINK,
    at(HARDSHRINK, -1.0, -0.5, 0.5, 1.0, *FAR),
    SOFTSHRINK,
    at(SOFTSHRINK, -1.0, -0.5, 0.5, 1.0, *FAR),
    HARDSIGMOID,
    at(HARDSIGMOID, -4.0, -3.0, 3.0, 4.0, *FAR),
    HARDSWISH,
    at(HARDSWISH, -4.0, -3.0, 3.0, 4.0, *FAR),
    Row("threshold", thresholds, dtypes=(*HALF, "int64"), method=False),
    at(Row("threshold", thresholds, method=False), 0.5, 1.0, NAN, INF, -INF, threshold=1.0, value=5.0),
    Row("prelu", prelus, dtypes=HALF),
    ELU,
    at(ELU, *FAR),
    SELU,
    at(SELU, *FAR),
    CELU,
    at(CELU, *FAR),
    SIGMOID,
    at(SIGMOID, *FAR),
    replace(SIGMOID, name="special.expit", torch=torch.special.expit, method=False, inplace=False),
    LOGSIGMOID,
    at(LOGSIGMOID, *FAR),
    SOFTPLUS,
    at(SOFTPLUS, *FAR),
    SILU,
    at(SILU, *FAR),
    replace(SILU, dtypes=("complex64", "complex128"), gradients=False),
    MISH,
    replace(MISH, dtypes=("float16",), gradients=False),
    at(MISH, *FAR[:-4]),  # beyond, torch's second derivative overflows
    GELU,
    at(GELU, *FAR[:-2]),  # at infinity, torch has NaN in float32 only
    at(GELU, *FAR, approximate="tanh"),
    SOFTSIGN,
    at(SOFTSIGN, *FAR),
    TANHSHRINK,
    at(TANHSHRINK, *FAR),
    Row("glu", glus, torch=functional.glu, dtypes=HALF, method=False),
    Row("softmax", along(), dtypes=HALF),
    Row("softmax", infinite, numeric=False),
    Row("softmax", widened, dtypes=("int64", "bool", "float16"), gradients=False),
    Row("log_softmax", along(), dtypes=HALF),
    Row("log_softmax", infinite, numeric=False),
    Row("log_softmax", widened, dtypes=("int64", "bool", "float16"), gradients=False),
    Row("softmin", along(), torch=functional.softmin, dtypes=HALF, method=False),
    Row("special.softmax", along(), dtypes=FLOATS),
    Row("special.log_softmax", along(), dtypes=FLOATS),
]
