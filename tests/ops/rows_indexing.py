"""Rows of operations that gather and scatter elements by index tensors, masks and slices."""

from __future__ import annotations

import numpy as np
import torch

from tests.ops.harness import COMPLEX, INTS, Make, Row, call
from tests.ops.rows_shape import ALL, each, every_layout, normal

REAL = ("float16", "float32", "float64", "uint8", "int64")
I = np.array  # noqa: E741


def calls(*made):
    """Return samples made by functions of a :class:`Make`."""
    return lambda make: [function(make) for function in made]


def gathered(make: Make):
    x = make.normal(3, 4)
    yield call(x, 0, I([[0, 2, 1, 1], [0, 0, 0, 0]]))
    yield call(x, 1, I([[0, 0, 3], [1, 2, 2], [3, 3, 3]]))
    yield call(x, -1, I([[1], [0]]))
    yield call(x, 1, np.zeros((3, 0), np.int64))
    yield call(normal(make, 5), 0, I([4, 4, 0]))
    yield call(normal(make, 5), 0, I(3))
    yield call(normal(make), 0, I([0]))
    yield call(normal(make), -1, I(0))
    yield call(normal(make, 2, 3, 2), 1, I([[[2, 0]], [[1, 1]]]))
    yield call(make.normal(4, 3).T, 1, I([[0, 0, 3], [1, 2, 2], [3, 3, 3]]))
    yield call(x, 1, I([[0, 3]], dtype=np.int32))


def scattered(make: Make):
    """Return samples with indices that do not repeat, so that the result is defined."""
    yield call(make.normal(3, 4), 0, I([[0, 2, 1, 1], [1, 0, 0, 2]]), make.normal(2, 4))
    yield call(make.normal(3, 4), 1, I([[0, 3], [1, 2]]), make.normal(2, 2))
    yield call(make.normal(5), 0, I([4, 1, 0]), make.normal(3))
    yield call(normal(make), 0, I(0), normal(make))
    yield call(make.normal(4, 3).T, -1, I([[0, 3], [1, 2]]), make.normal(2, 2))
    yield call(make.normal(2, 3), 0, np.zeros((0, 3), np.int64), make.normal(0, 3))


def repeated(make: Make):
    yield call(make.normal(3, 4), 0, I([[0, 2, 1, 1], [0, 0, 1, 2]]), make.normal(2, 4))
    yield call(make.normal(3, 4), 1, I([[0, 0, 0], [1, 2, 2]]), make.normal(2, 3))
    yield call(make.normal(5), -1, I([4, 4, 4, 0]), make.normal(4))
    yield call(normal(make), 0, I(0), normal(make))


def corner(*more: object):
    """Return samples whose ``src`` is larger than the index; torch has no gradient for them."""
    return lambda make: [call(make.normal(3, 4), 1, I([[0, 3], [1, 2]]), make.normal(3, 3), *more)]


def reduced(reduce: str, **keywords: object):
    def samples(make: Make):
        for sample in repeated(make):
            yield call(*sample.args, reduce, **keywords)
        x, src = make.distinct(3, 4), make.normal(2, 4)
        src[0, 1] = src[1, 1]
        yield call(x, 0, I([[0, 2, 1, 1], [0, 2, 0, 1]]), src, reduce, **keywords)

    return samples


def zeros(make: Make):
    x, src = make.normal(2, 5), make.normal(3, 5)
    src[0, 1] = src[0, 2] = src[1, 2] = x[0, 3] = x[0, 4] = src[0, 4] = 0
    yield call(x, 0, np.zeros((3, 5), np.int64), src, "prod")
    yield call(x, 0, I([[0, 0, 0, 0, 0], [0, 1, 0, 0, 1]]), src[:2], "prod")


def one_zero(make: Make):
    x, src = make.normal(2, 3), make.normal(3, 3)
    src[0, 1] = 0
    yield call(x, 0, np.zeros((3, 3), np.int64), src, "prod")


def rows(make: Make):
    yield call(make.normal(3, 4), 0, I([2, 0]), make.normal(2, 4))
    yield call(make.normal(3, 4), -1, I([1]), make.normal(3, 1))
    yield call(make.normal(5), 0, I([4, 1]), make.normal(2))
    yield call(make.normal(3, 2), 0, I(1), make.normal(1, 2))
    yield call(normal(make), 0, I([0]), normal(make))
    yield call(make.normal(2, 3, 2), 1, I([2, 1]), make.normal(2, 2, 2))
    yield call(make.normal(4, 3).T, 1, I([], dtype=np.int64), make.normal(3, 0))


def repeated_rows(make: Make):
    yield call(make.normal(3, 4), 0, I([2, 0, 2]), make.normal(3, 4))
    yield call(make.normal(3, 4), 1, I([1, 1]), make.normal(3, 2), alpha=2)
    yield call(normal(make), 0, I([0]), normal(make))


MASK = I([[True, False, True], [False, True, False]])
masks = calls(
    lambda make: call(make.normal(2, 3), MASK),
    lambda make: call(make.normal(2, 3), MASK[0]),
    lambda make: call(make.normal(3), MASK),
    lambda make: call(normal(make), I(True)),
    lambda make: call(make.normal(2, 3), np.zeros((2, 3), bool)),
    lambda make: call(make.normal(3, 2).T, MASK),
    lambda make: call(make.normal(0, 3), np.zeros((0, 3), bool)),
)


def filled(*values: object, empty: bool = True):
    def samples(make: Make):
        for sample in masks(make):
            for value in values:
                yield call(*sample.args, value)
        yield call(make.normal(2, 3), MASK, normal(make))

    return samples


ROWS = [
    Row(
        "select",
        each(((3, 4), (0, 1)), ((3, 4), (1, -1)), ((3, 4), (-2, 2)), ((3,), (0, 1)), ((2, 3, 4), (1, 0))),
        dtypes=ALL,
        view=True,
    ),
    Row("select", every_layout(1, 2), dtypes=("float64",)),
    Row(
        "narrow",
        each(((3, 4), (0, 1, 2)), ((3, 4), (1, -2, 2)), ((3, 4), (-1, 0, 4)), ((3,), (0, 3, 0))),
        dtypes=ALL,
        view=None,
    ),
    Row("narrow", each(((3, 4), (0, 1, 2)), ((3, 4), (1, -2, 2))), dtypes=("float64",), view=True),
    Row("narrow", lambda make: [call(make.normal(4), 0, I(1), 2)], dtypes=("float64",)),
    # torch.narrow_copy has no usable derivative
    Row(
        "narrow_copy",
        each(((3, 4), (0, 1, 2)), ((3, 4), (1, -2, 2))),
        lambda *args: torch.narrow(*args).clone(),
        dtypes=ALL,
        view=False,
    ),
    Row(
        "unravel_index",
        calls(
            lambda make: call(I([3, 5, 0]), (2, 3)),
            lambda make: call(I(7), (2, 2, 2)),
            lambda make: call(I([[1], [4]]), 6),
            lambda make: call(I([], dtype=np.int64), (2, 3)),
            lambda make: call(np.array([3, 200], np.uint8), (2, 300)),
            lambda make: call(np.array([3, 5], np.int32), (2, 3)),
        ),
        dtypes=("int64",),
        gradients=False,
        method=False,
    ),
    Row(
        "index_select",
        calls(
            lambda make: call(make.normal(3, 4), 0, I([2, 0, 2])),
            lambda make: call(make.normal(3, 4), 1, I([1])),
            lambda make: call(make.normal(3, 4), -1, I([3, 3, 0, 1, 2])),
            lambda make: call(make.normal(3, 4), 0, I([], dtype=np.int64)),
            lambda make: call(make.normal(5), 0, I(4)),
            lambda make: call(normal(make), 0, I([0])),
            lambda make: call(make.normal(2, 3, 2), 1, I([2, 2], dtype=np.int32)),
            lambda make: call(make.normal(4, 3).T, 0, I([0, 0])),
        ),
        dtypes=ALL,
        view=False,
    ),
    Row("gather", gathered, dtypes=ALL, view=None),
    Row(
        "take_along_dim",
        calls(
            lambda make: call(make.normal(3, 4), I([[0, 2, 1, -1], [0, 0, 0, 0], [3, 3, 3, 3]]), 1),
            lambda make: call(make.normal(3, 4), I([[1], [0], [1]]), 1),
            lambda make: call(make.normal(3, 4), I([[1, 0]]), 1),
            lambda make: call(make.normal(1, 4), I([[1], [0]]), 1),
            lambda make: call(make.normal(3, 4), I([0, 11, 1])),
            lambda make: call(make.normal(3, 4), I([[0, 5]]), None),
            lambda make: call(make.normal(2, 3, 2), I([[[2]], [[1]]]), -2),
        ),
        dtypes=ALL,
    ),
    Row(
        "take_along_dim",
        calls(
            lambda make: call(make.normal(3, 4), I([[0, 2, 1, -1], [0, 0, 0, 0], [3, 3, 3, 3]]), 1),
            lambda make: call(make.normal(3, 4), I([[1], [0], [1]]), 1),
            lambda make: call(make.normal(3, 4), I([0, 11, 1]), None),
        ),
        dtypes=("float64",),
        numpy=(np.take_along_axis,),
    ),
    Row(
        "take",
        calls(
            lambda make: call(make.normal(3, 4), I([0, 11, -1, 0])),
            lambda make: call(make.normal(3, 4), I([[5, 5], [0, -12]])),
            lambda make: call(normal(make), I(0)),
            lambda make: call(make.normal(4, 3).T, I([1, 2])),
            lambda make: call(make.normal(3), I([], dtype=np.int64)),
        ),
        dtypes=ALL,
        numpy=(np.take,),
    ),
    Row("masked_select", masks, dtypes=ALL),
    Row(
        "nonzero",
        each(
            ((3, 4), ()),
            ((5,), ()),
            ((), ()),
            ((0, 2), ()),
            ((3, 4), (), {"as_tuple": True}),
            ((), (), {"as_tuple": True}),
        ),
        dtypes=(*COMPLEX, *INTS, "bool"),
        gradients=False,
    ),
    Row(
        "argwhere",
        each(((3, 4), ()), ((5,), ()), ((), ())),
        dtypes=(*COMPLEX, *INTS, "bool"),
        gradients=False,
        numpy=(np.argwhere,),
    ),
    # scattering by index
    Row("scatter", scattered, dtypes=ALL, inplace=True),
    Row(
        "scatter",
        calls(
            lambda make: call(make.normal(3, 4), 0, I([[0, 2, 1, 1], [1, 1, 0, 2]]), 1),
            lambda make: call(make.normal(3, 4), 1, I([[0, 0], [1, 2]]), value=2),
            lambda make: call(normal(make), 0, I(0), 3),
        ),
        dtypes=ALL,
        inplace=True,
    ),
    Row(
        "scatter",
        calls(
            lambda make: call(make.normal(3, 4), 0, I([[0, 2, 1, 1], [0, 1, 0, 2]]), make.normal(3, 4), reduce="add"),
            lambda make: call(
                make.normal(3, 4), 0, I([[0, 2, 1, 1], [0, 1, 0, 2]]), make.normal(3, 4), reduce="multiply"
            ),
            lambda make: call(make.normal(3, 4), 0, I([[0, 2, 1, 1], [0, 1, 0, 2]]), 2, reduce="add"),
            lambda make: call(make.normal(3, 4), 0, I([[0, 2, 1, 1], [0, 1, 0, 2]]), 2, reduce="multiply"),
        ),
        dtypes=("float64", "int64"),
        gradients=False,
        inplace=True,
    ),
    Row("scatter_add", repeated, dtypes=ALL, inplace=True),
    Row("scatter_reduce", reduced("sum"), dtypes=REAL, inplace=True),
    Row("scatter_reduce", reduced("sum", include_self=False), dtypes=("float64",), inplace=True),
    Row("scatter_reduce", reduced("mean"), dtypes=REAL, inplace=True),
    Row("scatter_reduce", reduced("mean", include_self=False), dtypes=("float64", "int64"), inplace=True),
    Row("scatter_reduce", reduced("prod"), dtypes=REAL, inplace=True, tolerance=3),
    Row("scatter_reduce", reduced("prod", include_self=False), dtypes=("float64", "int64"), inplace=True),
    Row("scatter_reduce", zeros, dtypes=("float64",), inplace=True, second=False),
    Row("scatter_reduce", one_zero, dtypes=("float64",), inplace=True),
    Row(
        "scatter_reduce", reduced("amax"), dtypes=("float32", "float64", "int64", "uint8"), inplace=True, numeric=False
    ),
    Row(
        "scatter_reduce", reduced("amin"), dtypes=("float32", "float64", "int64", "uint8"), inplace=True, numeric=False
    ),
    Row(
        "scatter_reduce", reduced("amax", include_self=False), dtypes=("float64", "int64"), inplace=True, numeric=False
    ),
    Row(
        "scatter_reduce", reduced("amin", include_self=False), dtypes=("float64", "int64"), inplace=True, numeric=False
    ),
    *(
        Row(
            "segment_reduce",
            lambda make, reduce=reduce: [
                call(make.normal(6), reduce, lengths=I([2, 4])),
                call(make.normal(6, 2), reduce, lengths=I([3, 1, 2])),
                call(make.normal(2, 4, 3), reduce, lengths=I([[1, 3], [2, 2]]), axis=1),
                call(make.normal(5), reduce, offsets=I([0, 2, 5]), initial=0.5),
            ],
            method=False,
            second=False,  # torch has none
            tolerance=3,
        )
        for reduce in ("sum", "mean", "prod")
    ),
    Row("index_add", rows, dtypes=ALL, inplace=True),
    Row("index_add", repeated_rows, dtypes=("float32", "float64", "complex128", "int64"), inplace=True),
    Row(
        "index_add",
        lambda make: [call(make.normal(3, 2), 0, I([2, 2]), make.normal(2, 2), alpha=1.5)],
        dtypes=("float64", "int64"),
        inplace=True,
    ),
    Row("index_copy", rows, dtypes=ALL, inplace=True),
    Row(
        "index_fill",
        calls(
            lambda make: call(make.normal(3, 4), 0, I([2, 0]), 2),
            lambda make: call(make.normal(3, 4), -1, I([-1, -1]), 1),
            lambda make: call(make.normal(3, 4), 1, I([1, 1]), normal(make)),
            lambda make: call(make.normal(3), 0, I(1), 1),
            lambda make: call(normal(make), 0, I([0]), 1),
            lambda make: call(make.normal(3), 0, I([], dtype=np.int64), 1),
        ),
        dtypes=ALL,
        inplace=True,
    ),
    *(
        Row(
            "index_reduce",
            calls(
                lambda make, reduce=reduce, inner=inner: call(
                    make.distinct(3, 4), 0, I([2, 0, 2]), make.normal(3, 4), reduce, include_self=inner
                ),
                lambda make, reduce=reduce, inner=inner: call(
                    make.distinct(3, 4), -1, I([1, 1]), make.normal(3, 2), reduce, include_self=inner
                ),
            ),
            dtypes=("float32", "float64", "int64"),
            inplace=True,
        )
        for reduce in ("prod", "mean", "amax", "amin")
        for inner in (True, False)
    ),
    Row(
        "index_put",
        calls(
            lambda make: call(make.normal(3, 4), (I([2, 0]),), make.normal(2, 4)),
            lambda make: call(make.normal(3, 4), (I([2, 0]), I([1, 3])), make.normal(2)),
            lambda make: call(make.normal(3, 4), (I([2, 0]), I([1])), normal(make)),
            lambda make: call(make.normal(3, 4), (I([[2], [0]]), I([1, 3])), make.normal(2, 1)),
            lambda make: call(make.normal(2, 3), (MASK,), make.normal(3)),
            lambda make: call(make.normal(2, 3), (MASK[:, 0],), make.normal(3)),
            lambda make: call(make.normal(4, 3).T, [I([1]), I([1])], make.normal(1)),
            lambda make: call(make.normal(3, 4), (I([-1], dtype=np.int32),), make.normal(4)),
        ),
        dtypes=ALL,
        inplace=True,
    ),
    Row(
        "index_put",
        calls(
            lambda make: call(make.normal(3, 4), (I([2, 2]),), make.normal(2, 4), True),
            lambda make: call(make.normal(3, 4), (I([2, 2, 0]), I([1, 1, 3])), make.normal(3), accumulate=True),
            lambda make: call(make.normal(3, 4), (I([2, -1]),), normal(make), True),
            lambda make: call(make.normal(2, 3), (MASK,), make.normal(3), True),
            lambda make: call(make.normal(4, 3).T, (I([1, 1]),), make.normal(4), True),
        ),
        dtypes=ALL,
        inplace=True,
    ),
    Row("scatter", corner(), gradients=False, inplace=True),
    Row("scatter_add", corner(), gradients=False, inplace=True),
    Row("scatter_reduce", corner("amax"), gradients=False, inplace=True),
    # scattering by mask
    Row("masked_fill", filled(0, 3), dtypes=ALL, inplace=True),
    Row("masked_fill", filled(0.5, float("inf")), dtypes=("float64",), inplace=True, numeric=False),
    Row(
        "masked_scatter",
        calls(
            lambda make: call(make.normal(2, 3), MASK, make.normal(4)),
            lambda make: call(make.normal(2, 3), MASK, make.normal(3, 1)),
            lambda make: call(make.normal(2, 3), MASK[0], make.normal(2, 3)),
            lambda make: call(make.normal(3), MASK, make.normal(5)),
            lambda make: call(make.normal(2, 3), np.zeros((2, 3), bool), make.normal(2)),
        ),
        dtypes=ALL,
        inplace=True,
    ),
    # scattering at flat positions and slices
    Row(
        "put",
        calls(
            lambda make: call(make.normal(3, 4), I([0, 11, -2]), make.normal(3)),
            lambda make: call(make.normal(4, 3).T, I([[0, 11], [1, 2]]), make.normal(2, 2)),
            lambda make: call(make.normal(3, 4), I([0]), make.normal(1, 1)),
            lambda make: call(make.normal(3, 4), I([0, 0, -12]), make.normal(3), True),
            lambda make: call(make.normal(4, 3).T, I([1, 1]), make.normal(2), accumulate=True),
        ),
        dtypes=ALL,
        inplace=True,
    ),
    Row(
        "select_scatter",
        calls(
            lambda make: call(make.normal(3, 4), make.normal(4), 0, 1),
            lambda make: call(make.normal(3, 4), make.normal(3), -1, -2),
            lambda make: call(make.normal(4), normal(make), 0, 3),
        ),
        dtypes=REAL,
    ),
    Row(
        "slice_scatter",
        calls(
            lambda make: call(make.normal(3, 4), make.normal(2, 4), 0, 1),
            lambda make: call(make.normal(3, 4), make.normal(3, 2), 1, 0, 4, 2),
            lambda make: call(make.normal(3, 4), make.normal(3, 2), -1, -3, -1),
            lambda make: call(make.normal(3, 4), make.normal(3, 4)),
        ),
        dtypes=REAL,
    ),
    Row(
        "as_strided_scatter",
        calls(
            lambda make: call(make.normal(12), make.normal(3, 2), (3, 2), (4, 1), 1),
            lambda make: call(make.normal(3, 4), make.normal(2, 2), (2, 2), (1, 4)),
        ),
        dtypes=REAL,
        gradients=False,  # torch's gradient for input fails its own gradcheck; ours is tested in test_indexing.py
    ),
    Row(
        "nonzero_static",
        calls(
            lambda make: call(make.mask(3, 4), size=2),
            lambda make: call(make.mask(3, 4), size=20),
            lambda make: call(make.mask(3, 4), size=20, fill_value=7),
            lambda make: call(make.mask(4), size=0),
        ),
        dtypes=("bool",),
        gradients=False,
    ),
]
