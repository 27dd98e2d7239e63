"""Rows for inverses, systems, decompositions and functions of matrices; norms are in rows_linalg_norms.py."""
# ruff: noqa: N806 (matrices have capital letters)

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import retrograd as rg
from tests.ops.harness import COMPLEX, Make, Row, Sample, as_array, call

SHAPES: list[tuple[int, ...]] = [(3, 3), (2, 4, 4), (1, 1), (0, 0), (2, 0, 3, 3)]


def regular(make: Make, *shape: int) -> np.ndarray:
    """Return square matrices that are far from singular."""
    return make.normal(*shape) + (shape[-1] * np.eye(shape[-1])).astype(make.dtype)


def positive(make: Make, *shape: int) -> np.ndarray:
    """Return Hermitian positive-definite matrices."""
    a = make.normal(*shape)
    return a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(shape[-1], dtype=make.dtype)


def factor(make: Make, *shape: int) -> np.ndarray:
    """Return matrices like Cholesky factors, with a real diagonal."""
    a = regular(make, *shape)
    return np.where(np.eye(shape[-1], dtype=bool), a.real, a).astype(make.dtype)


def hermitian(make: Make, *shape: int) -> np.ndarray:
    a = make.normal(*shape)
    return a + np.conj(np.swapaxes(a, -1, -2)) + np.diag(3 * np.arange(shape[-1])).astype(make.dtype)


def each(values: Callable[..., np.ndarray], shapes: list[tuple[int, ...]] = SHAPES, **kwargs: Any) -> Any:
    """Return samples of one argument in every shape, transposed, and with a negative stride."""

    def samples(make: Make) -> Iterator[Sample]:
        for shape in shapes:
            yield call(values(make, *shape), **kwargs)
        yield call(values(make, 4, 4).T, **kwargs)
        yield call(values(make, 4, 4)[::-1, ::-1], **kwargs)

    return samples


def normal(make: Make, *shape: int) -> np.ndarray:
    return make.normal(*shape)


def systems(values: Callable[..., np.ndarray], **kwargs: Any) -> Any:
    """Return samples of a matrix and right-hand sides."""

    def samples(make: Make) -> Iterator[Sample]:
        pairs = [
            ((3, 3), (3, 2)),
            ((2, 3, 3), (2, 3, 2)),
            ((3, 3), (2, 3, 2)),
            ((2, 3, 3), (3, 2)),
            ((2, 1, 3, 3), (1, 4, 3, 1)),
            ((0, 0), (0, 2)),
            ((3, 3), (3, 0)),
        ]
        for a, b in pairs:
            rhs = make.normal(*b)
            yield call(values(make, *a), rhs if kwargs.get("left", True) else np.swapaxes(rhs, -1, -2), **kwargs)

    return samples


def solve_samples(make: Make) -> Iterator[Sample]:
    yield from systems(regular)(make)
    yield call(regular(make, 3, 3), make.normal(3))
    yield call(regular(make, 2, 3, 3), make.normal(2, 3))
    yield call(regular(make, 2, 3, 3), make.normal(3))
    yield call(regular(make, 3, 3), make.normal(2, 3), left=False)
    yield call(regular(make, 2, 3, 3), make.normal(4, 3), left=False)


def triangular_samples(make: Make) -> Iterator[Sample]:
    for upper in (False, True):
        yield from systems(regular, upper=upper)(make)
        yield from systems(regular, left=False, upper=upper)(make)
        yield call(regular(make, 4, 4), make.normal(2, 4), upper=upper, left=False)
        yield call(regular(make, 4, 4), make.normal(4, 2), upper=upper, unitriangular=True)
        yield call(regular(make, 4, 4), make.normal(2, 4), upper=upper, unitriangular=True, left=False)


# --- results that are unique only up to a choice ----------------------------------------------------------------------


def adjoint(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def svd_invariants(results: list[Any]) -> list[Any]:
    U, S, Vh = results
    k = S.shape[-1]
    U, Vh = U[..., :, :k], Vh[..., :k, :]
    return [S, U.abs(), Vh.abs(), U @ Vh]


def old_svd_invariants(results: list[Any]) -> list[Any]:
    U, S, V = results
    return svd_invariants([U, S, adjoint(V)])


def qr_invariants(results: list[Any]) -> list[Any]:
    Q, R = results
    return [Q @ R, R.abs(), Q.abs()] if Q.ndim > 1 else [R.abs()]


def eigh_invariants(results: list[Any]) -> list[Any]:
    L, V = results
    return [L, V.abs(), (V * (L * L)[..., None, :]) @ adjoint(V)]


def eig_invariants(results: list[Any]) -> list[Any]:
    L, V = results
    return [eigenvalues_in_order([L])[0], in_order(V.abs(), L), (V * (L * L)[..., None, :]) @ V.inverse()]


def eigenvalues_in_order(results: list[Any]) -> list[Any]:
    return [in_order(results[0], results[0])]


def in_order(x: Any, L: Any) -> Any:
    """Return ``x`` with its last dimension in the order of the eigenvalues ``L``: by real, then by imaginary part."""
    values = as_array(L)
    if values.size == 0:
        return x
    order = np.lexsort((np.round(values.imag, 3), np.round(values.real, 3)), axis=-1)
    order = np.broadcast_to(order[..., None, :] if x.ndim > L.ndim else order, x.shape).copy()
    if isinstance(x, torch.Tensor):
        return torch.take_along_dim(x, torch.from_numpy(order), -1)
    return rg.take_along_dim(x, rg.from_numpy(order), -1)


def first_only(results: list[Any]) -> list[Any]:
    return results[:1]


MATRICES: list[tuple[int, ...]] = [
    (3, 3),
    (4, 3),
    (3, 4),
    (2, 4, 3),
    (2, 3, 4),
    (1, 1),
    (4, 1),
    (1, 4),
    (0, 0),
    (2, 0, 3, 2),
]
EMPTY: list[tuple[int, ...]] = [(0, 3), (3, 0)]


def lstsq_samples(make: Make) -> Iterator[Sample]:
    for driver in ("gelsd", "gelss", "gelsy", "gels"):
        yield call(make.normal(5, 3), make.normal(5, 2), driver=driver)
        yield call(make.normal(3, 5), make.normal(3, 2), driver=driver)
        yield call(make.normal(2, 5, 3), make.normal(2, 5, 2), driver=driver)
    yield call(make.normal(5, 3), make.normal(5))
    yield call(make.normal(2, 5, 3), make.normal(2, 5))
    yield call(make.normal(3, 3), make.normal(3, 1))


def deficient(make: Make, *shape: int) -> np.ndarray:
    """Return matrices of rank 2."""
    *batch, m, n = shape
    return make.normal(*batch, m, 2) @ make.normal(*batch, 2, n)


def householder_samples(make: Make) -> Iterator[Sample]:
    yield call(make.normal(4, 3), make.normal(3))
    yield call(make.normal(4, 3), make.normal(2))
    yield call(make.normal(3, 3), make.normal(3))
    yield call(make.normal(2, 4, 3), make.normal(2, 3))


def ormqr_samples(make: Make) -> Iterator[Sample]:
    for transpose in (False, True):
        yield call(make.normal(4, 3), make.normal(3), make.normal(4, 2), transpose=transpose)
        yield call(make.normal(4, 3), make.normal(3), make.normal(2, 4), left=False, transpose=transpose)
    yield call(make.normal(3, 4), make.normal(3), make.normal(3, 3))
    yield call(make.normal(2, 4, 3), make.normal(2, 3), make.normal(2, 4, 2))


def lu_solve_samples(make: Make) -> Iterator[Sample]:
    for adjoint in (False, True):
        for left in (True, False):
            LU, pivots = (x.numpy() for x in torch.linalg.lu_factor(torch.from_numpy(make.normal(4, 4))))
            yield call(LU, pivots, make.normal(*(4, 2) if left else (2, 4)), left=left, adjoint=adjoint)
    LU, pivots = (x.numpy() for x in torch.linalg.lu_factor(torch.from_numpy(make.normal(2, 4, 4))))
    yield call(LU, pivots, make.normal(4, 2))


def old_lu_solve_samples(make: Make) -> Iterator[Sample]:
    LU, pivots = (x.numpy() for x in torch.linalg.lu_factor(torch.from_numpy(make.normal(2, 4, 4))))
    yield call(make.normal(2, 4, 3), LU, pivots)


def lu_unpack_samples(make: Make) -> Iterator[Sample]:
    for shape in ((4, 4), (5, 3), (3, 5), (2, 3, 3)):
        LU, pivots = (x.numpy() for x in torch.linalg.lu_factor(torch.from_numpy(make.normal(*shape))))
        yield call(LU, pivots)


def triangle(factor: torch.Tensor, upper: bool) -> torch.Tensor:
    return factor.triu() if upper else factor.tril()


def not_empty(results: list[Any]) -> list[Any]:
    return [result for result in results if result.numel()]


def wide_and_tall(make: Make) -> Iterator[Sample]:
    for shape in ((4, 2), (2, 4), (2, 5, 3), (0, 3), (3, 0)):
        yield call(make.normal(*shape))


def powers(x: torch.Tensor, n: int | None, increasing: bool) -> torch.Tensor:
    exponents = torch.arange(len(x) if n is None else n)
    return x[:, None] ** (exponents if increasing else exponents.flip(0))


def twice(name: str, alias: str, samples: Any, **more: Any) -> list[Row]:
    """Return the same row for a function and for its other name."""
    return [Row(name, samples, **more), Row(alias, samples, **more)]


LU_SHAPES: list[tuple[int, ...]] = [
    (4, 4),
    (5, 3),
    (3, 5),
    (2, 4, 4),
    (2, 3, 2, 4),
    (1, 1),
    (1, 3),
    (3, 1),
    (0, 0),
    (40, 40),
]

ROWS = [
    *twice("linalg.inv", "inverse", each(regular), dtypes=COMPLEX, numpy=(np.linalg.inv,)),
    Row("linalg.inv_ex", each(regular), dtypes=COMPLEX),
    *twice("linalg.det", "det", each(normal), dtypes=COMPLEX, numpy=(np.linalg.det,), tolerance=4),
    Row("logdet", each(positive), dtypes=COMPLEX, tolerance=4),
    *twice("linalg.slogdet", "slogdet", each(regular), dtypes=COMPLEX, numpy=(np.linalg.slogdet,), tolerance=4),
    Row("linalg.solve", solve_samples, dtypes=COMPLEX, tolerance=2),
    Row("linalg.solve_ex", solve_samples, dtypes=COMPLEX, tolerance=2),
    Row("linalg.solve_triangular", triangular_samples, dtypes=COMPLEX, tolerance=4),
    Row(
        "triangular_solve",
        lambda make: [
            call(make.normal(3, 2), regular(make, 3, 3)),
            call(make.normal(2, 3, 2), regular(make, 2, 3, 3), upper=False),
            call(make.normal(3, 2), regular(make, 3, 3), upper=False, transpose=True),
            call(make.normal(3, 2), regular(make, 3, 3), unitriangular=True),
        ],
        dtypes=COMPLEX,
        post=first_only,
        second=False,
    ),
    # torch's gradients also have entries in the triangle that is not read
    Row(
        "cholesky_solve",
        lambda make: [call(make.normal(2, 3, 2), regular(make, 2, 3, 3), upper=u) for u in (False, True)],
        torch=lambda b, factor, upper: torch.cholesky_solve(b, triangle(factor, upper), upper),
        dtypes=COMPLEX,
        tolerance=4,
    ),
    Row(
        "cholesky_inverse",
        lambda make: [call(factor(make, *s), upper=u) for u in (False, True) for s in SHAPES],
        torch=lambda factor, upper: torch.cholesky_inverse(triangle(factor, upper), upper),
        dtypes=COMPLEX,
        tolerance=4,
    ),
    # and its complex ones are not Hermitian; test_linalg.py compares those of Hermitian matrices
    *twice("linalg.cholesky", "cholesky", each(positive), numeric=False, tolerance=4),
    Row("linalg.cholesky", each(positive, upper=True), numeric=False, tolerance=4),
    Row("linalg.cholesky", each(positive), dtypes=("complex64", "complex128"), gradients=False, tolerance=4),
    Row("linalg.cholesky_ex", each(positive), numeric=False, tolerance=4),
    Row("linalg.qr", each(normal, MATRICES), dtypes=COMPLEX, post=qr_invariants, numpy=(np.linalg.qr,), tolerance=20),
    Row("linalg.qr", each(normal, MATRICES, mode="complete"), post=qr_invariants, gradients=False),
    Row("linalg.qr", each(normal, [(2, 3, 4)], mode="complete"), dtypes=COMPLEX, post=qr_invariants, tolerance=20),
    Row("linalg.qr", each(normal, [*MATRICES, *EMPTY], mode="r"), dtypes=COMPLEX, post=qr_invariants, gradients=False),
    Row("qr", each(normal, MATRICES), post=qr_invariants, tolerance=20),
    Row("linalg.svd", each(normal, MATRICES), dtypes=COMPLEX, post=svd_invariants, tolerance=30),
    Row("linalg.svd", each(normal, MATRICES, full_matrices=False), dtypes=COMPLEX, post=svd_invariants, tolerance=30),
    Row("svd", each(normal, MATRICES), post=old_svd_invariants, tolerance=30),
    Row("linalg.svdvals", each(normal, MATRICES), dtypes=COMPLEX, numpy=(np.linalg.svdvals,), tolerance=10),
    Row("linalg.eigh", each(hermitian), dtypes=COMPLEX, post=eigh_invariants, numeric=False, tolerance=30),
    Row("linalg.eigh", each(hermitian, UPLO="U"), dtypes=COMPLEX, post=eigh_invariants, numeric=False, tolerance=30),
    Row("linalg.eigvalsh", each(hermitian), dtypes=COMPLEX, numeric=False, numpy=(np.linalg.eigvalsh,), tolerance=10),
    Row("linalg.eig", each(normal), dtypes=COMPLEX, post=eig_invariants, tolerance=100),
    Row("linalg.eigvals", each(normal), dtypes=COMPLEX, post=eigenvalues_in_order, tolerance=50),
    Row("linalg.lstsq", lstsq_samples, dtypes=COMPLEX, post=not_empty, tolerance=10),
    *twice("linalg.pinv", "pinverse", wide_and_tall, dtypes=COMPLEX, numpy=(np.linalg.pinv,), tolerance=30),
    Row("linalg.pinv", each(deficient, [(4, 3), (2, 4, 5)], rtol=1e-4), dtypes=COMPLEX, numeric=False, tolerance=20),
    Row("linalg.pinv", each(positive, hermitian=True), dtypes=COMPLEX, numeric=False, second=False, tolerance=10),
    Row("linalg.matrix_rank", each(deficient, [(4, 3), (2, 4, 5), (0, 3)]), dtypes=COMPLEX, gradients=False),
    *twice("linalg.matrix_exp", "matrix_exp", each(normal), dtypes=COMPLEX, tolerance=4),
    *twice(
        "linalg.matrix_power",
        "matrix_power",
        lambda make: [call(make.normal(*s), n) for s in SHAPES for n in (1, 2, 3, 7)],
        dtypes=COMPLEX,
        numpy=(np.linalg.matrix_power,),
        tolerance=20,
    ),
    Row(
        "linalg.matrix_power",
        lambda make: [call(regular(make, *s), n) for s in SHAPES for n in (0, -1, -3)],
        dtypes=COMPLEX,
    ),
    Row(
        "linalg.matrix_power",
        lambda make: [call(make.normal(3, 3), n) for n in (0, 1, 2, 5)],
        dtypes=("int64", "int32"),
    ),
    Row("linalg.lu_factor", each(normal, LU_SHAPES), dtypes=COMPLEX, tolerance=50),
    Row("linalg.lu_factor_ex", each(normal, LU_SHAPES), dtypes=COMPLEX, tolerance=50),
    Row("linalg.lu", each(normal, LU_SHAPES), dtypes=COMPLEX, tolerance=50),
    Row("lu", each(normal, [(4, 4), (2, 3, 5)]), tolerance=50),
    Row("lu_unpack", lu_unpack_samples, dtypes=COMPLEX, method=False),
    Row("linalg.lu_solve", lu_solve_samples, dtypes=COMPLEX, grad_args=(0, 2), tolerance=50),
    Row("lu_solve", old_lu_solve_samples, grad_args=(0, 1), tolerance=50),
    Row(
        "linalg.tensorinv",
        lambda make: [call(regular(make, 6, 6).reshape(s), i) for s, i in (((2, 3, 6), 2), ((6, 3, 2), 1))],
        dtypes=COMPLEX,
        numpy=(np.linalg.tensorinv,),
    ),
    Row(
        "linalg.tensorsolve",
        lambda make: [
            call(regular(make, 6, 6).reshape(2, 3, 6), make.normal(2, 3)),
            call(regular(make, 6, 6).reshape(6, 3, 2), make.normal(6)),
            call(make.normal(2, 6, 3), make.normal(6), dims=(0, 2)),
        ],
        dtypes=COMPLEX,
        tolerance=10,
    ),
    Row(
        "linalg.vander",
        lambda make: [
            *(call(make.normal(*s), N=n) for s in ((3,), (2, 4)) for n in (None, 2, 5)),
            call(np.array(make.normal(1)[0]), N=3),
        ],
        dtypes=(*COMPLEX, "int64"),
    ),
    Row(
        "vander",
        lambda make: [call(make.normal(3), n, increasing=i) for n in (None, 0, 1, 4) for i in (False, True)],
        dtypes=(*COMPLEX, "int64"),
        method=False,
        gradients=False,
        numpy=(np.vander,),
    ),
    # torch's own gradient fails for descending powers
    Row(
        "vander",
        lambda make: [call(make.normal(3), n, increasing=i) for n in (None, 1, 4) for i in (False, True)],
        torch=powers,
        dtypes=COMPLEX,
        method=False,
    ),
    Row(
        "linalg.diagonal",
        lambda make: [
            call(make.normal(2, 3, 4)),
            call(make.normal(3, 3), offset=1),
            call(make.normal(2, 3, 4), offset=-1, dim1=0, dim2=2),
        ],
        dtypes=(*COMPLEX, "int64"),
        view=True,
    ),
    *twice("linalg.householder_product", "orgqr", householder_samples, dtypes=COMPLEX, numeric=False, tolerance=4),
    Row("geqrf", each(normal, [*MATRICES, *EMPTY]), dtypes=COMPLEX, gradients=False, tolerance=20),
    Row("ormqr", ormqr_samples, dtypes=COMPLEX, numeric=False, tolerance=4),
]
