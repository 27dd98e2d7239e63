"""Derivatives of eigenvectors and singular vectors for repeated values: those that exist, and NaN for the others.

torch gives NaN as soon as any two values are equal; here only if a vector that is used is not unique.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg

REPEATED = np.diag([3.0, 1.0, 1.0])
RANK_ONE = np.outer([1.0, 2.0, 2.0], [1.0, 2.0, 2.0]) / 9.0


def gradient(library: Any, matrix: np.ndarray, loss: Any) -> np.ndarray:
    a = library.tensor(matrix.tolist(), dtype=library.float64, requires_grad=True)
    loss(library.linalg, a).backward()
    return a.grad.numpy()


VECTORS = {
    "eigh": lambda linalg, a: linalg.eigh(a)[1][0].sum(),
    "eig": lambda linalg, a: linalg.eig(a)[1].abs()[0].sum(),
    "U": lambda linalg, a: linalg.svd(a)[0][0].sum(),
    "Vh": lambda linalg, a: linalg.svd(a)[2][:, 0].sum(),
    # the product does not depend on the choice of vectors, but its derivative cannot be computed from theirs
    "product": lambda linalg, a: (lambda u, s, vh: ((u * s) @ vh).sum())(*linalg.svd(a)),
}


@pytest.mark.parametrize("vectors", VECTORS)
def test_vectors_of_repeated_values_have_nan_gradients(vectors: str) -> None:
    matrix = np.eye(3) if vectors == "eig" else REPEATED
    ours, theirs = (gradient(library, matrix, VECTORS[vectors]) for library in (rg, torch))
    assert not np.isfinite(theirs).all()
    assert not np.isfinite(ours).all()


VALUES = {
    "eigh": lambda linalg, a: (linalg.eigh(a)[0] ** 2).sum(),
    "svd": lambda linalg, a: (linalg.svd(a)[1] ** 2).sum(),
}


@pytest.mark.parametrize("values", VALUES)
def test_repeated_values_alone_have_gradients(values: str) -> None:
    ours, theirs = (gradient(library, REPEATED, VALUES[values]) for library in (rg, torch))
    np.testing.assert_allclose(ours, theirs)


# neither depends on the sign of the vector
UNIQUE = {
    "eigh": lambda linalg, a: (linalg.eigh(a)[1][:, -1] * weights(a)).sum() ** 2,
    "U": lambda linalg, a: (linalg.svd(a)[0][:, 0] * weights(a)).sum() ** 2,
    "Vh": lambda linalg, a: (linalg.svd(a)[2][0] * weights(a)).sum() ** 2,
}


def weights(like: Any) -> Any:
    return rg.tensor([0.3, -0.7, 0.2], dtype=like.dtype)


@pytest.mark.parametrize("matrix", [REPEATED, RANK_ONE], ids=["repeated", "of rank one"])
@pytest.mark.parametrize("vectors", UNIQUE)
def test_vector_of_a_simple_value_has_a_gradient(vectors: str, matrix: np.ndarray) -> None:
    ours = gradient(rg, matrix, UNIQUE[vectors])

    def value(a: np.ndarray) -> float:
        return UNIQUE[vectors](rg.linalg, rg.tensor(a.tolist(), dtype=rg.float64)).item()

    step = 1e-6
    numerical = np.zeros((3, 3))
    for i, j in np.ndindex(3, 3):
        direction = np.zeros((3, 3))
        direction[i, j] = step
        if vectors == "eigh":  # for symmetric matrices
            direction = (direction + direction.T) / 2
        numerical[i, j] = (value(matrix + direction) - value(matrix - direction)) / (2 * step)
    symmetric = (ours + ours.T) / 2 if vectors == "eigh" else ours
    np.testing.assert_allclose(symmetric, numerical, atol=1e-8)
    assert abs(ours).max() > 0.01
