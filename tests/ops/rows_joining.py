"""Rows of operations that join and split tensors."""

from __future__ import annotations

import numpy as np

from tests.ops.harness import COMPLEX, Make, Row, call
from tests.ops.rows_shape import ALL, each, every_layout, normal


def lists(*calls: tuple[list[tuple[int, ...]], tuple] | tuple[list[tuple[int, ...]], tuple, dict]):
    """Return a sample of a list of normal values for each (shapes, further arguments, keywords)."""

    def samples(make: Make):
        for shapes, args, *keywords in calls:
            yield call([normal(make, *shape) for shape in shapes], *args, **(keywords[0] if keywords else {}))

    return samples


def separate(*calls: list[tuple[int, ...]], **keywords: object):
    """Return the same with the tensors as separate arguments."""
    return lambda make: [call(*[normal(make, *shape) for shape in shapes], **keywords) for shapes in calls]


def mixed(make: Make):
    """Return tensors of several dtypes."""
    for other in ("float64", "float32", "int64", "bool"):
        yield call([make.normal(2, 3), Make(other).normal(2, 3)])


def strided(make: Make):
    yield call([make.normal(3, 4).T, make.normal(4, 6)[:, ::2], make.normal(4, 3)[::-1]])


CAT = lists(
    ([(2, 3), (2, 3)], ()),
    ([(2, 3), (2, 1), (2, 0)], (1,)),
    ([(2, 3), (1, 3)], (-2,)),
    ([(3,), (2,), (0,)], ()),
    ([(0,), (2, 3)], ()),
    ([(0,), (0,)], (1,)),
    ([(2, 3)], ()),
    ([(2, 3), (2, 3)], (), {"dim": 1}),
)
SAME = lists(([(2, 3), (2, 3)], ()), ([(2, 3)] * 3, (1,)), ([(2, 3), (2, 3)], (-1,)), ([(), ()], ()), ([(0, 2)], (2,)))
ROWS = [
    Row("cat", CAT, dtypes=ALL, method=False),
    Row("cat", mixed, dtypes=("float32", "int64", "float64"), method=False, numeric=False),
    Row("cat", strided, dtypes=("float64",), method=False, numpy=(np.concatenate,)),
    Row("stack", SAME, dtypes=ALL, method=False, numpy=(np.stack,)),
    Row("stack", mixed, dtypes=("float32", "int64", "float64"), method=False, numeric=False),
    Row("stack", strided, dtypes=("float64",), method=False),
    Row(
        "hstack",
        lists(([(2, 3), (2, 1)], ()), ([(3,), (2,), ()], ()), ([()], ())),
        dtypes=ALL,
        method=False,
        numpy=(np.hstack,),
    ),
    Row(
        "vstack",
        lists(([(2, 3), (1, 3)], ()), ([(3,), (2, 3)], ()), ([(), ()], ())),
        dtypes=ALL,
        method=False,
        numpy=(np.vstack,),
    ),
    Row("row_stack", lists(([(2, 3), (1, 3)], ()), ([(3,), (2, 3)], ())), method=False),
    Row(
        "dstack",
        lists(([(2, 3), (2, 3)], ()), ([(3,), (3,)], ()), ([(), ()], ()), ([(2, 3, 1), (2, 3)], ())),
        dtypes=ALL,
        method=False,
        numpy=(np.dstack,),
    ),
    Row(
        "column_stack",
        lists(([(2, 3), (2, 1)], ()), ([(3,), (3,)], ()), ([(3,), (3, 2)], ())),
        dtypes=ALL,
        method=False,
        numpy=(np.column_stack,),
    ),
    Row(
        "block_diag",
        separate([(2, 3), (1, 2)], [(), (2,), (2, 2)], [(2, 2)], [(0, 2), (1, 1)]),
        dtypes=COMPLEX,
        method=False,
    ),
    Row("meshgrid", separate([(2,), (3,)], [(2,), (), (3,)], [(4,)], indexing="ij"), dtypes=ALL, method=False),
    Row(
        "meshgrid", separate([(2,), (3,)], [(2,), (3,), (4,)], [(4,)], indexing="xy"), dtypes=("float64",), method=False
    ),
    Row("meshgrid", lists(([(2,), (3,)], (), {"indexing": "ij"})), dtypes=("float64",), method=False),
    Row("cartesian_prod", separate([(2,), (3,)], [(2,), (1,), (3,)], [(4,)], [(0,), (2,)]), dtypes=ALL, method=False),
    Row(
        "combinations",
        each(((4,), ()), ((4,), (3,)), ((4,), (2, True)), ((3,), (1,)), ((2,), (3,)), ((3,), (0,))),
        dtypes=ALL,
    ),
    # splitting
    Row("unbind", each(((3, 2), ()), ((3, 2), (1,)), ((3, 2, 2), (-1,)), ((3,), ())), dtypes=ALL, view=True),
    Row("unbind", every_layout(1), dtypes=("float64",)),
    Row(
        "split",
        each(
            ((5, 2), (2,)),
            ((5, 2), ([1, 4],)),
            ((5, 2), (1, 1)),
            ((2, 5), (3, -1)),
            ((2, 5), ((2, 0, 3), 1)),
            ((3,), (7,)),
            ((0, 2), (0,)),
        ),
        dtypes=ALL,
        view=True,
    ),
    Row("split", every_layout(2, 1), dtypes=("float64",)),
    Row("unsafe_split", each(((5, 2), (2,)), ((2, 5), (3, -1))), dtypes=ALL),
    Row("unsafe_split_with_sizes", each(((5, 2), ([1, 4],)), ((2, 5), ((2, 0, 3), 1))), dtypes=ALL),
    Row("unsafe_chunk", each(((5, 2), (2,)), ((2, 5), (3, -1)), ((0, 2), (2,))), dtypes=ALL),
    Row("split_with_sizes", each(((5, 2), ([1, 4],)), ((2, 5), ((2, 0, 3), 1))), dtypes=ALL, view=True),
    Row(
        "chunk",
        each(((5, 2), (2,)), ((5, 2), (3,)), ((2, 5), (4, 1)), ((3,), (5,)), ((0, 2), (3,))),
        dtypes=ALL,
        view=True,
    ),
    Row(
        "tensor_split",
        each(
            ((5, 2), (2,)),
            ((5, 2), ([1, 3],)),
            ((2, 7), (3, 1)),
            ((2, 5), ((2, 2, 9, 1), -1)),
            ((3,), (5,)),
            ((4,), ([-1],)),
        ),
        dtypes=ALL,
        view=True,
    ),
    Row(
        "tensor_split",
        lambda make: [call(make.normal(5), np.array([1, 3])), call(make.normal(2, 5), np.array(2), 1)],
        dtypes=("float64",),
        view=True,
    ),
    Row(
        "tensor_split",
        each(((5, 2), (2,)), ((5, 2), ([1, 3],)), ((2, 7), (3, 1))),
        dtypes=("float64",),
        numpy=(np.array_split,),
    ),
    Row(
        "hsplit",
        each(((2, 4), (2,)), ((2, 4), ([1],)), ((4,), (2,)), ((4,), ([1, 3],))),
        dtypes=ALL,
        view=True,
        numpy=(np.hsplit,),
    ),
    Row("vsplit", each(((4, 2), (2,)), ((4, 2), ([1, 3],))), dtypes=ALL, view=True, numpy=(np.vsplit,)),
    Row("dsplit", each(((2, 3, 4), (2,)), ((2, 1, 4), ([1],))), dtypes=ALL, view=True, numpy=(np.dsplit,)),
]
