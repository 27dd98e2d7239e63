"""Rows of the copying versions of views, on the samples of the views."""

from __future__ import annotations

from dataclasses import replace

import torch

from tests.ops import rows_complex, rows_indexing, rows_joining, rows_shape
from tests.ops.harness import Row
from tests.ops.rows_shape import ALL, each, every_layout

# fmt: off
VIEWS = frozenset((
    "as_strided", "diagonal", "permute", "select", "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold",
    "unsqueeze", "view_as_complex", "view_as_real",
))
# fmt: on


# torch has no derivative for complex results of these
IN_TWO_STEPS = {
    "select": lambda *args: torch.select(*args).contiguous().clone(),
    "view_as_complex": lambda *args: torch.view_as_complex(*args).clone(),
}


def copying(row: Row) -> Row:
    view = None if row.view is None else False
    oracle = IN_TWO_STEPS.get(row.name)
    return replace(row, name=f"{row.name}_copy", method=False, numpy=(), view=view, torch=oracle)


ROWS = [
    *[
        copying(row)
        for row in (*rows_complex.ROWS, *rows_indexing.ROWS, *rows_joining.ROWS, *rows_shape.ROWS)
        if row.name in VIEWS
    ],
    Row("alias_copy", every_layout(), dtypes=ALL, method=False, view=False),
    Row("detach_copy", every_layout(), dtypes=ALL, method=False, view=False, gradients=False),
    Row("expand_copy", each(((3, 1), ((2, -1, 4),)), ((), ((2, 2),))), dtypes=ALL, method=False, view=False),
    Row("slice_copy", each(((5, 2), ()), ((5, 2), (0, 1, -1, 2)), ((2, 5), (-1, 3))), method=False, view=False),
    Row("split_copy", each(((5, 2), (2,)), ((2, 5), (3, -1))), dtypes=ALL, method=False, view=False),
    Row("view_copy", each(((2, 6), ((3, 4),)), ((2, 6), ((4, -1),))), dtypes=ALL, method=False, view=False),
]
