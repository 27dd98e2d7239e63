"""Rows for rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.harness import FLOATS, INTS, Make, Row, binary, call, unary
from tests.ops.rows_arithmetic import INF, NAN, at

SPECIAL = [0.5, 1.5, 2.5, -0.5, -0.0, 1e30, INF, -INF, NAN]
ROUNDED = ("float16", *FLOATS, *INTS)


def digits(make: Make) -> list[Any]:
    x = make.normal(3, 4, scale=100)
    return [call(x, decimals=decimals) for decimals in (-3, -1, 0, 1, 2, 5)]


ROWS = [
    unary("ceil", dtypes=ROUNDED, numpy=(np.ceil,)),
    unary("floor", dtypes=ROUNDED, numpy=(np.floor,)),
    unary("trunc", dtypes=ROUNDED, numpy=(np.trunc, np.fix)),
    unary("round", dtypes=ROUNDED, numpy=(np.round, np.around, np.rint)),
    unary("frac", dtypes=("float16", *FLOATS)),
    *(at(name, SPECIAL) for name in ("ceil", "floor", "trunc", "round", "frac")),
    Row("round", digits, inplace=True, numeric=False, numpy=(np.round,)),
    at("round", [0.125, 1.255, 123456.789, 1e38, INF, NAN], kwargs={"decimals": 2}, dtypes=("float32",)),
    binary("nextafter", scalars=(), numeric=False, numpy=(np.nextafter,)),
    at("nextafter", [0.0, 1.0, INF, NAN, 1.0], [1.0, 1.0, 0.0, 1.0, -INF]),
]
