"""Rows for complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.ops.harness import COMPLEX, FLOATS, INTS, Make, Row, call, layouts, unary
from tests.ops.rows_arithmetic import at, not_zero

ONLY_COMPLEX = ("complex64", "complex128")
EVERY = (*COMPLEX, *INTS, "bool")


def real_pairs(make: Make) -> list[Any]:
    return [
        call(make.normal(3, 2)),
        call(make.normal(2)),
        call(make.normal(3, 4)[:, :2]),
        call(make.normal(4, 3, 2)[::2]),
    ]


def complex_layouts(make: Make) -> list[Any]:
    return [call(array) for array in layouts(make, "normal") if array.size]


def same_shape(make: Make) -> list[Any]:
    return [
        call(make.positive(3, 4), make.normal(3, 4)),
        call(make.positive(3, 1), make.normal(4)),
        call(np.asarray(make.positive()), np.asarray(make.normal())),
        call(make.positive(0, 2), make.normal(0, 2)),
    ]


ROWS = [
    unary("real", dtypes=EVERY, inplace=False, method=False, numpy=(np.real,)),
    unary("real", dtypes=ONLY_COMPLEX, inplace=False, method=False, torch=lambda x: x.real),
    unary("imag", dtypes=ONLY_COMPLEX, inplace=False, method=False, numpy=(np.imag,)),
    unary("conj", dtypes=EVERY, inplace=False, numpy=(np.conj,)),
    unary("conj_physical", dtypes=(*COMPLEX, *INTS, "bool")),
    unary("conjugate", dtypes=EVERY, inplace=False, torch=torch.conj),
    unary("resolve_conj", dtypes=COMPLEX, inplace=False),
    unary("resolve_neg", dtypes=COMPLEX, inplace=False),
    unary("is_conj", dtypes=COMPLEX, inplace=False, gradients=False),
    unary("is_neg", dtypes=COMPLEX, inplace=False, gradients=False),
    unary("angle", not_zero, dtypes=("float16", *EVERY), inplace=False, numpy=(np.angle,)),
    at("angle", [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]),
    at("angle", [0j, 3 + 4j, -1 + 0j, 1j], dtypes=ONLY_COMPLEX),
    Row("complex", same_shape, dtypes=FLOATS, method=False),
    at("complex", [np.inf, 1.0], [1.0, np.nan], method=False),
    Row("polar", same_shape, dtypes=FLOATS, method=False),
    at("polar", [0.0, 1.0, -2.0], [0.0, 1.0, 3.0], method=False),
    Row("view_as_real", complex_layouts, dtypes=ONLY_COMPLEX, method=False),
    Row("view_as_complex", real_pairs, dtypes=FLOATS, method=False, view=True),
]
