"""Rows for products of vectors and matrices, and for contractions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.ops.harness import COMPLEX, FLOATS, INTS, Make, Row, Sample, call

ALL = (*COMPLEX, "float16", "int32", "int64", "uint8")


def draw(make: Make, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.asarray(make.normal(*shape)) for shape in shapes]


def shaped(*shapes: tuple[tuple[int, ...], ...], **kwargs: Any) -> Any:
    """Return samples of random tensors of these shapes."""

    def samples(make: Make) -> Iterator[Sample]:
        for group in shapes:
            yield call(*draw(make, *group), **kwargs)

    return samples


def matmul_samples(make: Make) -> Iterator[Sample]:
    shapes = [
        ((3, 4), (4, 5)),
        ((4,), (4,)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (4,)),
        ((4,), (2, 4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((2, 2, 3, 4), (4, 5)),
        ((1, 3, 4), (2, 4, 5)),
        ((0, 4), (4, 5)),
        ((3, 0), (0, 5)),
        ((2, 0, 4), (4, 3)),
        ((2, 3, 0), (0, 4)),
        ((1, 1), (1, 1)),
    ]
    for left, right in shapes:
        yield call(make.normal(*left), make.normal(*right))
    yield call(make.normal(4, 3).T, make.normal(5, 4).T)
    yield call(make.normal(3, 8)[:, ::2], make.normal(4, 5)[::-1])
    yield call(np.swapaxes(make.normal(2, 4, 3), 1, 2), make.normal(4, 5))
    yield call(make.normal(3, 2, 4).transpose(1, 0, 2), make.normal(2, 4, 2))


def einsum_samples(make: Make) -> Iterator[Sample]:
    cases: list[tuple[str, list[tuple[int, ...]]]] = [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ij,kj->ki", [(2, 3), (4, 3)]),
        (" i j , j k -> k i ", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bij,bjk->kib", [(2, 3, 4), (2, 4, 5)]),
        ("i,j->ij", [(3,), (4,)]),
        ("i,i->", [(3,), (3,)]),
        ("i,i->i", [(3,), (3,)]),
        ("ij,ij->j", [(3, 4), (3, 4)]),
        ("ij,ij->ji", [(3, 4), (3, 4)]),
        ("ijk,jil->kl", [(2, 3, 4), (3, 2, 5)]),
        ("ij->ji", [(2, 3)]),
        ("ij->i", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("ij", [(2, 3)]),
        ("ba", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("iji->j", [(3, 2, 3)]),
        ("iij->ji", [(3, 3, 2)]),
        ("iii->i", [(3, 3, 3)]),
        ("iijj->ij", [(3, 3, 2, 2)]),
        ("ii,ij->j", [(3, 3), (3, 2)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("ij,jk,ki->", [(2, 3), (3, 4), (4, 2)]),
        ("i,ij,j->", [(2,), (2, 3), (3,)]),
        ("bn,anm,bm->ba", [(2, 3), (4, 3, 5), (2, 5)]),
        ("a,b,c->abc", [(2,), (3,), (4,)]),
        ("ij,k->i", [(2, 3), (4,)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]),
        ("...ij,...jk->...ik", [(5, 1, 3, 4), (2, 4, 5)]),
        ("...ij,jk->ik...", [(2, 3, 4), (4, 5)]),
        ("...i,...i", [(3, 1, 2), (4, 2)]),
        ("...ij->...", [(2, 3, 4)]),
        ("...ij->ij", [(2, 3, 4)]),
        ("i...->...", [(2, 3, 4)]),
        ("...,...", [(3, 1), (4,)]),
        ("ij,jk->ik", [(3, 1), (4, 5)]),
        ("ij,ij->i", [(3, 1), (1, 4)]),
        ("bij,bjk->bik", [(1, 3, 4), (2, 4, 5)]),
        ("ij,jk->ik", [(0, 3), (3, 2)]),
        ("ij,jk->ik", [(2, 0), (0, 2)]),
        ("Ab,bA->", [(2, 3), (3, 2)]),
        ("aB", [(2, 3)]),
        (",i->i", [(), (3,)]),
        (",", [(), ()]),
    ]
    for equation, shapes in cases:
        yield call(equation, *draw(make, *shapes))
    yield call("ij,jk->ik", make.normal(3, 2).T, make.normal(3, 8)[::-1, ::2])


def sublist_samples(make: Make) -> Iterator[Sample]:
    yield call(make.normal(2, 3), [0, 1], make.normal(3, 4), [1, 2], [2, 0])
    yield call(make.normal(2, 3), [1, 0])
    yield call(make.normal(2, 3, 4), [0, Ellipsis], [Ellipsis, 0])
    yield call(make.normal(2, 3), [0, 30], make.normal(3, 4), [30, 51])


def numpy_einsum(*args: Any) -> Any:
    return np.einsum(*args, optimize=True)


def tensordot_samples(make: Make) -> Iterator[Sample]:
    yield call(make.normal(2, 3, 4), make.normal(3, 4, 5))
    yield call(make.normal(2, 3), make.normal(3, 4), 1)
    yield call(make.normal(2, 3), make.normal(4), 0)
    yield call(make.normal(2, 3, 4), make.normal(4, 2), dims=([0, 2], [1, 0]))
    yield call(make.normal(2, 3, 4), make.normal(4, 2), dims=([-1], [0]))
    yield call(make.normal(2, 1), make.normal(3, 2), dims=([1], [0]))
    yield call(make.normal(2, 3), make.normal(2, 3), dims=2)
    yield call(*draw(make, (), (3,)), dims=0)


def added(*shapes: tuple[tuple[int, ...], ...]) -> Any:
    """Return samples for ``input`` plus a product, with and without factors."""

    def samples(make: Make) -> Iterator[Sample]:
        for group in shapes:
            yield call(*draw(make, *group))
        arrays = draw(make, *shapes[0])
        yield call(*arrays, beta=2, alpha=3)
        yield call(*arrays, beta=0)
        yield call(*arrays, alpha=0)
        if make.is_float:
            yield call(*arrays, beta=0.5, alpha=-1.5)
            yield call(np.full_like(arrays[0], np.nan), *arrays[1:], beta=0)
        if make.dtype.kind == "c":
            yield call(*arrays, beta=0.5 + 1j, alpha=1 - 2j)

    return samples


def chain_samples(make: Make) -> Iterator[Sample]:
    for shapes in (
        [(2, 3), (3, 4)],
        [(2, 3), (3, 4), (4, 2)],
        [(10, 2), (2, 8), (8, 3), (3, 5)],
        [(3,), (3, 4), (4,)],
        [(3,), (3,)],
        [(3,), (3, 2)],
        [(2, 3), (3,)],
    ):
        yield call(draw(make, *shapes))


def cross_samples(make: Make) -> Iterator[Sample]:
    yield call(make.normal(2, 3), make.normal(2, 3))
    yield call(make.normal(3), make.normal(3))
    yield call(make.normal(2, 1, 3), make.normal(1, 4, 3))
    yield call(make.normal(3, 2), make.normal(3, 2), dim=0)
    yield call(make.normal(2, 3, 4), make.normal(2, 3, 4), dim=-2)
    yield call(make.normal(0, 3), make.normal(0, 3))


ROWS = [
    Row("matmul", matmul_samples, dtypes=ALL, numpy=(np.matmul, np.linalg.matmul)),
    Row("linalg.matmul", lambda make: [call(make.normal(3, 4), make.normal(4, 5))], numpy=(np.linalg.matmul,)),
    Row("mm", shaped(((3, 4), (4, 5)), ((0, 4), (4, 5)), ((3, 0), (0, 5))), dtypes=ALL, numpy=(np.matmul, np.dot)),
    Row("bmm", shaped(((2, 3, 4), (2, 4, 5)), ((0, 3, 4), (0, 4, 5)), ((2, 3, 0), (2, 0, 5))), dtypes=ALL),
    Row("mv", shaped(((3, 4), (4,)), ((3, 0), (0,)), ((0, 3), (3,))), dtypes=ALL, numpy=(np.matmul, np.dot)),
    Row("dot", shaped(((4,), (4,)), ((0,), (0,))), dtypes=ALL, numpy=(np.dot, np.inner)),
    Row("vdot", shaped(((4,), (4,)), ((0,), (0,))), dtypes=ALL, numpy=(np.vdot,)),
    Row(
        "linalg.vecdot",
        lambda make: [
            call(make.normal(3, 4), make.normal(3, 4)),
            call(make.normal(4), make.normal(4)),
            call(make.normal(2, 3, 4), make.normal(4)),
            call(make.normal(3, 4), make.normal(3, 4), dim=0),
            call(make.normal(2, 3, 4), make.normal(3, 1), dim=1),
            call(make.normal(3, 0), make.normal(3, 0)),
            call(make.normal(3, 1), make.normal(3, 4)),
            call(make.normal(1).reshape(()), make.normal(2, 3)),
            call(make.normal(1).reshape(()), make.normal(1).reshape(())),
        ],
        dtypes=(*COMPLEX, "float16"),
    ),
    Row(
        "inner",
        shaped(
            ((4,), (4,)),
            ((2, 3), (4, 3)),
            ((2, 3), (3,)),
            ((3,), (2, 3)),
            ((2, 3, 4), (5, 4)),
            ((), (3,)),
            ((2, 0), (3, 0)),
        ),
        dtypes=(*COMPLEX, "int64"),
        numpy=(np.inner,),
    ),
    Row(
        "outer", shaped(((3,), (4,)), ((0,), (4,))), dtypes=(*COMPLEX, *INTS, "bool"), numpy=(np.outer, np.linalg.outer)
    ),
    Row("ger", shaped(((3,), (4,))), dtypes=FLOATS),
    Row(
        "addmm",
        added(((3, 5), (3, 4), (4, 5)), ((5,), (3, 4), (4, 5)), ((3, 1), (3, 4), (4, 5)), ((), (3, 4), (4, 5))),
        dtypes=(*COMPLEX, "int64", "float16"),
        inplace=True,
        tolerance=2,
    ),
    Row(
        "addmv",
        added(((3,), (3, 4), (4,)), ((), (3, 4), (4,)), ((1,), (3, 4), (4,))),
        dtypes=(*COMPLEX, "int64"),
        inplace=True,
    ),
    Row(
        "baddbmm",
        added(((2, 3, 5), (2, 3, 4), (2, 4, 5)), ((3, 5), (2, 3, 4), (2, 4, 5)), ((2, 1, 1), (2, 3, 4), (2, 4, 5))),
        dtypes=(*COMPLEX, "int64"),
        inplace=True,
    ),
    Row(
        "addbmm",
        added(((3, 5), (2, 3, 4), (2, 4, 5)), ((3, 5), (0, 3, 4), (0, 4, 5))),
        dtypes=(*COMPLEX, "int64"),
        inplace=True,
    ),
    Row("addbmm", shaped(((1, 5), (2, 3, 4), (2, 4, 5)), ((), (2, 3, 4), (2, 4, 5))), dtypes=COMPLEX),
    Row("addr", added(((3, 4), (3,), (4,)), ((4,), (3,), (4,))), dtypes=(*COMPLEX, "int64"), inplace=True),
    Row("linalg.multi_dot", chain_samples, dtypes=COMPLEX, numpy=(np.linalg.multi_dot,)),
    Row("chain_matmul", shaped(((2, 3),), ((2, 3), (3, 4)), ((2, 3), (3, 4), (4, 2))), dtypes=COMPLEX, method=False),
    Row(
        "kron",
        shaped(((2, 3), (4, 2)), ((2,), (3,)), ((2,), (3, 2)), ((2, 1, 3), (2, 2)), ((), (2, 3)), ((0,), (2,))),
        dtypes=(*COMPLEX, "int64", "bool"),
        numpy=(np.kron,),
    ),
    Row("linalg.cross", cross_samples, dtypes=(*COMPLEX, "int64")),
    Row("cross", cross_samples, dtypes=(*COMPLEX, "int64")),
    Row(
        "trace",
        lambda make: [
            call(make.normal(3, 3)),
            call(make.normal(2, 4)),
            call(make.normal(4, 2)),
            call(make.normal(0, 3)),
        ],
        dtypes=(*COMPLEX, *INTS),
        numpy=(np.trace, np.linalg.trace),
    ),
    Row("einsum", einsum_samples, dtypes=(*COMPLEX, "int64"), method=False, numpy=(np.einsum, numpy_einsum)),
    Row("einsum", sublist_samples, method=False, numpy=(np.einsum,)),
    Row("einsum", lambda make: [call("ij,jk->ik", draw(make, (2, 3), (3, 2)))], method=False),
    Row("tensordot", tensordot_samples, dtypes=(*COMPLEX, "int64", "int32"), method=False),
]

# names without a row, and where they are tested
WITHOUT_ROW = dict.fromkeys(("sparse.mm", "sparse.spsolve"), "test_sparse.py, since they take SciPy's matrices")
