"""Rows of reshaping, expanding, transposing, repeating, padding, diagonals and windows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from tests.ops.harness import COMPLEX, Make, Row, Sample, call, layouts, values_of

ALL = ("float16", *COMPLEX, "uint8", "int64", "bool")


def normal(make: Make, *shape: int) -> np.ndarray:
    return values_of(make, "normal", shape)


def every_layout(*args: object, **kwargs: object):
    """Return the same arguments for all layouts of at least two dimensions."""

    def samples(make: Make) -> Iterator[Sample]:
        for array in layouts(make, "normal"):
            if array.ndim == 2:
                yield call(array, *args, **kwargs)

    return samples


def each(*calls: tuple[tuple[int, ...], tuple, dict] | tuple[tuple[int, ...], tuple]):
    """Return a sample of normal values for each (shape, further arguments, keywords)."""

    def samples(make: Make) -> Iterator[Sample]:
        for shape, args, *keywords in calls:
            yield call(normal(make, *shape), *args, **(keywords[0] if keywords else {}))

    return samples


def reshape_samples(make: Make) -> Iterator[Sample]:
    yield call(normal(make, 2, 6), (3, 4))
    yield call(normal(make, 2, 6), (4, -1))
    yield call(normal(make, 2, 6), (2, -1, 1, 3))
    yield call(normal(make), (1, 1))
    yield call(normal(make, 1), ())
    yield call(normal(make, 0, 3), (3, 0))
    yield call(normal(make, 12), [-1])
    yield call(normal(make, 8, 2)[::2], (2, 2, 2))


def two(first: tuple[int, ...], second: tuple[int, ...], *more: object):
    return lambda make: [call(normal(make, *first), normal(make, *second), *more)]


ROWS = [
    Row("reshape", reshape_samples, dtypes=ALL, view=True, numpy=(np.reshape,)),
    Row("reshape", every_layout((-1,)), dtypes=("float64",)),
    Row("reshape", each(((2, 3), (3, 2)), ((2, 3), (-1,))), torch=torch.Tensor.reshape, view=True, dtypes=("float64",)),
    Row("reshape_as", two((2, 3), (3, 2)), grad_args=(0,), view=True),
    Row("view", each(((2, 6), (3, 4)), ((2, 6), ((-1, 2),)), ((3,), (3, 1)), ((), (1,))), dtypes=ALL, view=True),
    Row("view", lambda make: [call(normal(make, 4, 6)[:, ::2], 2, 2, 3)], dtypes=("float64",), view=True),
    Row(
        "view",
        each(((2, 3), ("dtype:int32",)), ((4,), ("dtype:float64",)), ((2, 2), (), {"dtype": "dtype:uint8"})),
        dtypes=("float32",),
        gradients=False,
    ),
    Row("view_as", two((2, 3), (3, 2)), grad_args=(0,), view=True),
    Row(
        "flatten",
        each(((2, 3, 4), ()), ((2, 3, 4), (1,)), ((2, 3, 4), (0, 1)), ((2, 3, 4), (-2, -1)), ((), ()), ((0, 3), ())),
        dtypes=ALL,
    ),
    Row("flatten", every_layout(), dtypes=("float64",)),
    Row(
        "unflatten",
        each(((4, 6), (1, (2, 3))), ((4, 6), (-1, (3, -1))), ((4,), (0, (2, 1, -1))), ((0, 2), (0, (0, 3)))),
        dtypes=ALL,
        view=True,
    ),
    Row("ravel", each(((2, 3), ()), ((), ()), ((4,), ())), dtypes=ALL, view=True, numpy=(np.ravel,)),
    Row("ravel", every_layout(), dtypes=("float64",)),
    Row(
        "expand",
        each(
            ((3, 1), (2, 3, 4)),
            ((3, 1), ((2, -1, 4),)),
            ((), (2, 2)),
            ((1, 3), (1, 3)),
            ((2, 1), (2, 0)),
            ((3,), (-1,)),
        ),
        dtypes=ALL,
        view=True,
    ),
    Row("expand_as", two((3, 1), (2, 3, 4)), grad_args=(0,), view=True),
    Row(
        "broadcast_to",
        each(((3, 1), ((2, 3, 4),)), ((), ((2, 2),)), ((1, 3), ((1, 3),))),
        dtypes=ALL,
        view=True,
        numpy=(np.broadcast_to,),
    ),
    Row(
        "broadcast_tensors",
        lambda make: [call(normal(make, 3, 1), normal(make, 4), normal(make)), call(normal(make, 2, 2))],
        dtypes=COMPLEX,
        method=False,
    ),
    Row(
        "broadcast_shapes",
        lambda make: [call((3, 1), (4,)), call((2,), 2, ()), call((0, 1), (1, 5))],
        gradients=False,
        method=False,
    ),
    Row(
        "sum_to_size",
        each(((2, 3), (3,)), ((2, 3), (2, 1)), ((2, 3), ((1, 1),)), ((2, 3), ((),)), ((2, 3), (2, 3))),
        dtypes=COMPLEX,
        torch=torch.Tensor.sum_to_size,
    ),
    Row(
        "permute",
        each(((2, 3, 4), ((2, 0, 1),)), ((2, 3, 4), ((-1, 0, -2),)), ((2, 3), ((0, 1),)), ((), ((),))),
        dtypes=ALL,
        view=True,
        numpy=(np.transpose,),
    ),
    Row(
        "transpose",
        each(((2, 3, 4), (0, 2)), ((2, 3, 4), (-1, -2)), ((2, 3), (1, 1)), ((), (0, -1))),
        dtypes=ALL,
        view=True,
    ),
    Row("transpose", every_layout(0, 1), dtypes=("float64",), numpy=(np.swapaxes,)),
    Row("swapaxes", each(((2, 3, 4), (0, 2)), ((2, 3), (-1, -2))), dtypes=ALL, view=True, numpy=(np.swapaxes,)),
    Row("t", each(((2, 3), ()), ((3,), ()), ((), ())), dtypes=ALL, view=True),
    Row("adjoint", each(((2, 3), ()), ((2, 3, 4), ())), dtypes=("float64", "complex128", "int64")),
    Row(
        "movedim",
        each(((2, 3, 4), (0, 2)), ((2, 3, 4), ((0, 1), (-1, 0))), ((2, 3, 4), (-1, 0)), ((), (0, 0))),
        dtypes=ALL,
        view=True,
    ),
    Row(
        "movedim", each(((2, 3, 4), (0, 2)), ((2, 3, 4), ((0, 1), (-1, 0)))), dtypes=("float64",), numpy=(np.moveaxis,)
    ),
    Row(
        "squeeze",
        each(
            ((1, 3, 1), ()),
            ((1, 3, 1), (0,)),
            ((1, 3, 1), (1,)),
            ((1, 3, 1), (-1,)),
            ((1, 3, 1), ((0, 2),)),
            ((1, 3, 1), ((0, 1),)),
            ((1, 1), ()),
            ((), (0,)),
            ((), ()),
            ((2, 3), ()),
        ),
        dtypes=ALL,
        view=True,
    ),
    Row(
        "squeeze",
        each(((1, 3, 1), ()), ((1, 3, 1), (0,)), ((1, 3, 1), ((0, 2),))),
        dtypes=("float64",),
        numpy=(np.squeeze,),
    ),
    Row(
        "unsqueeze",
        each(((2, 3), (0,)), ((2, 3), (1,)), ((2, 3), (-1,)), ((2, 3), (2,)), ((), (0,))),
        dtypes=ALL,
        view=True,
        numpy=(np.expand_dims,),
    ),
    Row(
        "atleast_1d",
        lambda make: [
            call(normal(make)),
            call(normal(make, 3)),
            call(normal(make), normal(make, 2)),
            call([normal(make), normal(make, 2)]),
        ],
        dtypes=ALL,
        method=False,
    ),
    Row(
        "atleast_2d",
        lambda make: [
            call(normal(make)),
            call(normal(make, 3)),
            call(normal(make, 2, 2), normal(make, 2)),
            call((normal(make),)),
        ],
        dtypes=ALL,
        method=False,
    ),
    Row(
        "atleast_3d",
        lambda make: [call(normal(make)), call(normal(make, 3)), call(normal(make, 2, 3), normal(make, 2, 1, 2))],
        dtypes=ALL,
        method=False,
    ),
    # repeating
    Row(
        "repeat",
        each(
            ((2, 3), (2, 1)),
            ((2, 3), ((2, 3, 1),)),
            ((3,), (2,)),
            ((), (2,)),
            ((2, 3), (0, 2)),
            ((2, 3), (1, 1)),
            ((1, 3), (3, 1)),
            ((0, 2), (2, 2)),
        ),
        dtypes=ALL,
        view=False,
    ),
    Row("repeat", every_layout(2, 3), dtypes=("float64",)),
    Row(
        "tile",
        each(((2, 3), (2,)), ((2, 3), ((2, 2),)), ((3,), ((2, 2),)), ((), ((),)), ((2, 3), (1, 2, 2))),
        dtypes=ALL,
        torch=torch.Tensor.tile,
    ),
    Row("tile", each(((2, 3), ((2,),)), ((2, 3), ((2, 1, 2),))), dtypes=("float64",), numpy=(np.tile,)),
    Row(
        "repeat_interleave",
        each(
            ((2, 3), (2,)),
            ((2, 3), (2, 0)),
            ((2, 3), (3, -1)),
            ((2, 3), (0,)),
            ((2, 3), (1, 0)),
            ((), (2,)),
            ((0, 2), (2, 1)),
        ),
        dtypes=ALL,
    ),
    Row(
        "repeat_interleave",
        lambda make: [
            call(normal(make, 2, 3), np.array([2, 0, 1]), 1),
            call(normal(make, 4), np.array([1, 2, 0, 3])),
            call(normal(make, 2, 2), np.array([2]), 0),
            call(normal(make, 2, 2), np.array(2), 1),
            call(normal(make, 2, 2), np.array([1, 2]), dim=0, output_size=3),
        ],
        dtypes=ALL,
    ),
    Row("repeat_interleave", lambda make: [call(np.array([2, 0, 3]))], gradients=False),
    Row(
        "roll",
        each(
            ((2, 3), (1,)),
            ((2, 3), (1, 1)),
            ((2, 3), ((1, -2), (0, 1))),
            ((2, 3), ((1, 2), (0, 0))),
            ((2, 3), (7, -1)),
            ((), (1,)),
            ((0, 3), (1, 0)),
        ),
        dtypes=ALL,
    ),
    Row(
        "roll",
        each(((2, 3), (1,)), ((2, 3), (1, 1)), ((2, 3), ((1, -2), (0, 1)))),
        dtypes=("float64",),
        numpy=(np.roll,),
    ),
    Row(
        "flip",
        each(
            ((2, 3), ((0,),)),
            ((2, 3), ((0, 1),)),
            ((2, 3), ((-1,),)),
            ((2, 3), ((),)),
            ((), ((0,),)),
            ((0, 3), ((1,),)),
        ),
        dtypes=ALL,
        view=False,
    ),
    Row("flip", every_layout((0, 1)), dtypes=("float64",), numpy=(np.flip,)),
    Row("fliplr", each(((2, 3), ()), ((2, 3, 2), ())), dtypes=ALL, view=False, numpy=(np.fliplr,)),
    Row("flipud", each(((2, 3), ()), ((3,), ())), dtypes=ALL, view=False, numpy=(np.flipud,)),
    Row(
        "rot90",
        each(
            ((2, 3), ()),
            ((2, 3), (2,)),
            ((2, 3), (-1, (0, 1))),
            ((2, 3, 2), (3, (1, 2))),
            ((2, 3, 2), (1, (2, 0))),
            ((2, 3), (4,)),
            ((2, 3), (1, (-1, 0))),
        ),
        dtypes=ALL,
        view=False,
        numpy=(np.rot90,),
    ),
    # padding
    Row(
        "pad",
        each(
            ((2, 3), ((1, 2),)),
            ((2, 3), ((1, 2, 3, 0),)),
            ((2, 3), ((-1, 2),)),
            ((2, 3), ((-1, -1),)),
            ((2, 3), ((1, 1), "constant", 2)),
            ((2, 3), ((),)),
            ((3,), ((0, 0),)),
            ((0, 3), ((1, 0),)),
            ((2, 3), ((1, 1), "constant", None)),
        ),
        dtypes=ALL,
        method=False,
        torch=torch.nn.functional.pad,
    ),
    Row(
        "pad",
        lambda make: [call(array, (1, 2, 0, 1), value=3) for array in layouts(make, "normal") if array.ndim == 2],
        dtypes=("float64",),
        method=False,
        torch=torch.nn.functional.pad,
    ),
    Row(
        "pad",
        each(
            *(
                ((2, 3, 4), ((before, after), mode))
                for mode in ("reflect", "replicate", "circular")
                for before, after in ((1, 2), (3, 0), (0, 0), (-1, 2), (2, -1))
            )
        ),
        dtypes=(*COMPLEX, "int64"),
        method=False,
        torch=torch.nn.functional.pad,
    ),
    Row(
        "pad",
        each(
            *(((1, 2, 3, 4), ((1, 2, 2, 1), mode)) for mode in ("reflect", "replicate", "circular")),
            *(((3, 4, 3), ((1, 1, 2, 2), mode)) for mode in ("reflect", "replicate", "circular")),
            ((2, 3), ((1, 1), "reflect")),
            ((2, 2, 3, 2), ((1, 1, 2, 1, 1, 1), "replicate")),
            ((2, 3), ((4, 5), "replicate")),
        ),
        dtypes=("float64",),
        method=False,
        torch=torch.nn.functional.pad,
    ),
    Row("constant_pad_nd", each(((2, 3), ((1, 2),)), ((2, 3), ((1, -1, 0, 2), 3))), dtypes=ALL, method=False),
    # diagonals
    Row(
        "diagonal",
        each(
            ((3, 4), ()),
            ((3, 4), (1,)),
            ((3, 4), (-2,)),
            ((2, 3, 4), (0, 1, 2)),
            ((2, 3, 4), (1, -1, 0)),
            ((2, 3), (5,)),
            ((3, 3), (0, 1, 0)),
        ),
        dtypes=ALL,
        numpy=(np.diagonal,),
    ),
    Row("diagonal", each(((3, 4), ()), ((2, 3, 4), (1, -1, 0))), dtypes=("float64",), view=True),
    Row("diagonal", every_layout(), dtypes=("float64",)),
    Row(
        "diag",
        each(((3,), ()), ((3,), (1,)), ((3,), (-2,)), ((3, 4), ()), ((3, 4), (1,)), ((0,), ())),
        dtypes=ALL,
        view=False,
        numpy=(np.diag,),
    ),
    Row("diagflat", each(((2, 2), ()), ((3,), (-1,)), ((), ())), dtypes=ALL, numpy=(np.diagflat,)),
    Row(
        "diag_embed",
        each(((3,), ()), ((2, 3), (1,)), ((2, 3), (-1, 0, 2)), ((2, 3), (0, -1, 0)), ((2, 3), (1, 2, 1))),
        dtypes=ALL,
    ),
    Row(
        "diagonal_scatter",
        lambda make: [
            call(normal(make, 3, 3), normal(make, 3)),
            call(normal(make, 3, 4), normal(make, 3), 1),
            call(normal(make, 2, 3, 4), normal(make, 3, 1), -1, 0, 2),
        ],
        dtypes=ALL,
    ),
    Row(
        "tril",
        each(((3, 4), ()), ((3, 4), (1,)), ((2, 3, 3), (-1,)), ((3, 4), (-9,)), ((0, 3), ())),
        dtypes=ALL,
        inplace=True,
        numpy=(np.tril,),
    ),
    Row("tril", every_layout(), dtypes=("float64",), inplace=True),
    Row(
        "triu",
        each(((3, 4), ()), ((3, 4), (1,)), ((2, 3, 3), (-1,)), ((3, 4), (9,)), ((0, 3), ())),
        dtypes=ALL,
        inplace=True,
        numpy=(np.triu,),
    ),
    # windows
    Row(
        "unfold",
        each(
            ((5, 2), (0, 3, 1)),
            ((5, 2), (0, 2, 2)),
            ((2, 6), (-1, 4, 2)),
            ((2, 3, 4), (1, 2, 1)),
            ((4,), (0, 0, 1)),
            ((4,), (0, 4, 3)),
        ),
        dtypes=ALL,
        view=True,
    ),
    Row("unfold", each(((), (0, 1, 1))), dtypes=("float64",)),
    Row("unfold", every_layout(1, 2, 1), dtypes=("float64",)),
    Row(
        "as_strided",
        each(
            ((3, 4), ((2, 2), (1, 2))),
            ((3, 4), ((2, 2), (1, 2), 3)),
            ((12,), ((3, 3), (1, 1))),
            ((12,), ((2, 3), (0, 2), 1)),
            ((12,), ((0, 3), (1, 1))),
            ((12,), ((), (), 5)),
        ),
        dtypes=ALL,
        view=True,
    ),
]
