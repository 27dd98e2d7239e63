"""Rows of copies, conversions and writes of whole tensors."""

from __future__ import annotations

import numpy as np

from tests.ops.harness import Row
from tests.ops.rows_shape import ALL, each, every_layout

ROWS = [
    Row("clone", each(((2, 3), ()), ((), ()), ((0, 3), ())), dtypes=ALL, view=False, numpy=(np.copy,)),
    Row("clone", every_layout(), dtypes=("float64",)),
]
