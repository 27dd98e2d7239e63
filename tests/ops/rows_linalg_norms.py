"""Rows for norms of vectors and matrices, condition numbers and distances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from tests.ops.harness import COMPLEX, FLOATS, Make, Row, Sample, call
from tests.ops.rows_linalg import regular

INF = float("inf")
MATRIX_ORDERS: tuple[Any, ...] = ("fro", "nuc", INF, -INF, 1, -1, 2, -2)


def vector_norms(*orders: float) -> Any:
    def samples(make: Make) -> Iterator[Sample]:
        for ord in orders:
            yield call(make.normal(4), ord)
            yield call(make.normal(3, 4), ord)
            yield call(make.normal(3, 4), ord, dim=1)
            yield call(make.normal(3, 4), ord, dim=-2, keepdim=True)
            yield call(make.normal(2, 3, 4), ord, (0, 2))
            yield call(make.normal(2, 3, 4), ord, (0, 2), True)
            yield call(make.normal(2, 3, 4), ord, keepdim=True)
            yield call(make.normal(2, 3), ord, dim=())
            yield call(np.asarray(make.normal()), ord)
            yield call(make.normal(4, 3).T[::-1], ord, 0)

    return samples


def empty_norms(make: Make) -> Iterator[Sample]:
    for ord in (0, 1, 2, 3):
        yield call(make.normal(0), ord)
        yield call(make.normal(2, 0), ord, dim=1)
        yield call(make.normal(2, 0), ord, dim=0)
    yield call(make.normal(2, 0), INF, dim=0)


def zeros_and_ties(make: Make) -> Iterator[Sample]:
    """Return samples where the norm has no derivative: torch gives 0 at 0 and divides the gradient among ties."""
    for ord in (1, 2, 3, 1.5, INF, -INF):
        yield call(np.zeros((2, 3), make.dtype), ord)
        yield call(np.array([[0, 0, 0], [1, 0, -2]], make.dtype), ord, dim=1)
        yield call(np.array([1, -1, 1, 0.5], make.dtype), ord)
    yield call(np.array([0, 2, 0, 3], make.dtype), 0.5)


def in_double(*samples: Sample) -> Any:
    return [Sample(s.args, {**s.kwargs, "dtype": "dtype:float64"}) for s in samples]


def matrix_norms(make: Make) -> Iterator[Sample]:
    yield call(make.normal(3, 4))
    for ord in MATRIX_ORDERS:
        yield call(make.normal(3, 4), ord)
        yield call(make.normal(4, 3), ord, keepdim=True)
        yield call(make.normal(2, 3, 4), ord, dim=(0, 2))
        yield call(make.normal(2, 3, 4), ord, dim=(-1, 0), keepdim=True)
        yield call(make.normal(2, 3, 4), ord)


def empty_matrix_norms(make: Make) -> Iterator[Sample]:
    for ord in ("fro", "nuc", INF, 1, 2):
        for shape in ((0, 3), (3, 0), (0, 0), (2, 0, 3)):
            yield call(make.normal(*shape), ord)


def norms(make: Make) -> Iterator[Sample]:
    yield call(make.normal(4))
    yield call(make.normal(2, 3, 4))
    yield call(np.asarray(make.normal()))
    for ord in MATRIX_ORDERS:
        yield call(make.normal(3, 4), ord)
        yield call(make.normal(2, 3, 4), ord, (0, 1))
    for number in (3, 1, 2, INF, -INF, 0.5):
        yield call(make.normal(4), number)
        yield call(make.normal(3, 4), number, 1)
        yield call(make.normal(3, 4), number, (0,), True)
    yield call(make.normal(2, 3, 4), dim=(0, 2), keepdim=True)
    yield call(make.normal(2, 3, 4), dim=-1)


def conditions(make: Make) -> Iterator[Sample]:
    for p in (None, *MATRIX_ORDERS):
        yield call(regular(make, 3, 3), p)
        yield call(regular(make, 2, 3, 3), p)
    for p in (None, 2, -2):
        yield call(make.normal(2, 3, 4), p)


def degenerate_conditions(make: Make) -> Iterator[Sample]:
    for p in (1, -1, INF, "fro"):
        yield call(np.stack([np.eye(2), np.ones((2, 2))]).astype(make.dtype), p)
        yield call(np.zeros((0, 0), make.dtype), p)
    yield call(np.zeros((2, 0, 0), make.dtype))


def distances(*orders: float, **kwargs: Any) -> Any:
    def samples(make: Make) -> Iterator[Sample]:
        for p in orders:
            yield call(make.normal(3, 4), make.normal(5, 4), p, **kwargs)
            yield call(make.normal(2, 3, 4), make.normal(2, 5, 4), p, **kwargs)
            yield call(make.normal(2, 1, 3, 4), make.normal(4, 2, 4), p, **kwargs)
            yield call(make.normal(3, 1), make.normal(2, 1), p, **kwargs)

    return samples


def equal_points(make: Make) -> Iterator[Sample]:
    points = make.normal(3, 4)
    for p in (1.0, 2.0, 3.0, INF):
        yield call(points, points[::-1], p)
        yield call(points, points.copy(), p)


def empty_distances(make: Make) -> Iterator[Sample]:
    for p in (1.0, 2.0, INF):
        yield call(make.normal(2, 0), make.normal(3, 0), p)
        yield call(make.normal(0, 4), make.normal(3, 4), p)
        yield call(make.normal(2, 0, 4), make.normal(2, 3, 4), p)


def similarities(make: Make) -> Iterator[Sample]:
    yield call(make.normal(3, 4), make.normal(3, 4))
    yield call(make.normal(3, 4), make.normal(3, 4), dim=0)
    yield call(make.normal(4), make.normal(4), dim=-1, eps=1e-3)
    yield call(make.normal(2, 1, 4), make.normal(3, 4), dim=2)


def small_vectors(make: Make) -> Iterator[Sample]:
    yield call(np.array([[0, 0, 0], [1, 2, 2]], make.dtype), np.array([[1, 0, 2], [2, 2, 1]], make.dtype))
    yield call(np.array([[0.1, 0.2, 0.2]], make.dtype), make.normal(1, 3), eps=1.0)


def explicit_distance(x1: torch.Tensor, x2: torch.Tensor, p: float, compute_mode: str) -> torch.Tensor:
    """Compute cdist by formula, because torch's has a second derivative only for the matrix-product mode."""
    return torch.linalg.vector_norm(x1[..., :, None, :] - x2[..., None, :, :], p, dim=-1)


def condition(a: torch.Tensor, p: Any) -> torch.Tensor:
    """Compute cond by formula, because torch's gradient fails where it uses an inverse."""
    if p in (None, 2, -2):
        return torch.linalg.cond(a, p)
    return torch.linalg.matrix_norm(a, p) * torch.linalg.matrix_norm(torch.linalg.inv(a), p)


NEVER, ALWAYS = "donot_use_mm_for_euclid_dist", "use_mm_for_euclid_dist"

ROWS = [
    Row("linalg.vector_norm", vector_norms(2, 1, 3, 2.5, INF, -INF), dtypes=COMPLEX, tolerance=4),
    Row("linalg.vector_norm", vector_norms(0, 0.5, -1, 1.5, -2), dtypes=COMPLEX, tolerance=10),
    Row("linalg.vector_norm", vector_norms(2, 1, INF), dtypes=("float16",), second=False, numeric=False),
    Row("linalg.vector_norm", zeros_and_ties, numeric=False, second=False),
    Row("linalg.vector_norm", empty_norms, dtypes=COMPLEX, gradients=False),
    Row(
        "linalg.vector_norm", lambda make: in_double(call(make.normal(3, 4), 2), call(make.normal(3), 3)), dtypes=FLOATS
    ),
    Row("linalg.matrix_norm", matrix_norms, dtypes=COMPLEX, tolerance=20),
    Row("linalg.matrix_norm", empty_matrix_norms, dtypes=COMPLEX, gradients=False),
    Row("linalg.matrix_norm", lambda make: in_double(call(make.normal(3, 4), "nuc"), call(make.normal(3, 3)))),
    Row("linalg.norm", norms, dtypes=COMPLEX, numpy=(), tolerance=20),
    Row(
        "linalg.norm",
        lambda make: [call(make.normal(3, 4), o) for o in (None, *MATRIX_ORDERS)],
        numpy=(np.linalg.norm,),
        tolerance=20,
    ),
    Row("linalg.cond", conditions, dtypes=COMPLEX, gradients=False),
    Row("linalg.cond", conditions, torch=condition, dtypes=COMPLEX, tolerance=20),
    Row(
        "linalg.cond",
        lambda make: [call(regular(make, 3, 3), p) for p in (None, 1, "fro")],
        gradients=False,
        numpy=(np.linalg.cond,),
        tolerance=20,
    ),
    Row("linalg.cond", degenerate_conditions, gradients=False),
    Row("cdist", distances(2.0, 1.0, 3.0, 1.5, INF, 0.0), method=False, second=False, tolerance=4),
    Row("cdist", distances(2.0, 3.0, compute_mode=NEVER), torch=explicit_distance, method=False, tolerance=4),
    Row("cdist", distances(2.0, compute_mode=ALWAYS), method=False, tolerance=10),
    Row("cdist", lambda make: [call(make.normal(26, 3), make.normal(4, 3))], method=False, tolerance=10),
    Row("cdist", equal_points, method=False, second=False, numeric=False),
    Row("cdist", empty_distances, method=False, gradients=False),
    Row(
        "pairwise_distance",
        lambda make: [
            call(make.normal(3, 4), make.normal(3, 4)),
            call(make.normal(3, 4), make.normal(4), p=1.0, keepdim=True),
            call(make.normal(4), make.normal(4), 3.0, 1e-3),
        ],
        method=False,
        tolerance=4,
    ),
    Row("cosine_similarity", similarities, method=False, tolerance=4),
    Row("cosine_similarity", small_vectors, method=False, second=False, numeric=False),
    Row(
        "cosine_similarity",
        lambda make: [call(make.normal(3, 4), make.normal(3, 4))],
        method=False,
        dtypes=("float64", "float16"),
    ),
]
