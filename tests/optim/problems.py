"""A small optimization problem, the same in both libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

SHAPES: tuple[tuple[int, ...], ...] = ((3, 4), (4,), (), (2, 1, 3))


def start(library: Any, dtype: str = "float64") -> list[Any]:
    """Return the parameters at the start."""
    rng = np.random.default_rng(0)
    params = []
    for shape in SHAPES:
        values = rng.standard_normal(shape)
        if dtype.startswith("complex"):
            values = values + 1j * rng.standard_normal(shape)
        params.append(library.tensor(np.asarray(values), dtype=getattr(library, dtype), requires_grad=True))
    return params


def loss_of(params: list[Any], step: int) -> Any:
    """Return a smooth, non-convex loss that changes a little from step to step, as with batches."""
    total = 0.0
    for number, p in enumerate(params):
        shifted = p - (0.3 * number + 0.1 * (step % 3))
        size = (shifted * shifted.conj()).real if p.is_complex() else shifted * shifted
        total = total + ((size + 0.3).log() * (1 + 0.1 * number) + 0.05 * size).sum()
    return total


def bowl(params: list[Any]) -> Any:
    """Return a convex loss that is not quadratic."""
    sizes = [((p - 0.3) * (p - 0.3).conj()).real if p.is_complex() else (p - 0.3) * (p - 0.3) for p in params]
    return sum((size * (0.2 + 0.3 * number) + 0.1 * size * size).sum() for number, size in enumerate(sizes))


def train(optimizer: Any, params: list[Any], steps: int = 50, first: int = 0) -> None:
    """Train for ``steps`` steps; in steps 0 and 1 the last parameter has no gradient."""
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss_of(params[:-1] if step < 2 else params, step).backward()
        optimizer.step()


def values(params: list[Any]) -> list[np.ndarray]:
    """Return the current values of the parameters."""
    return [np.asarray(p.detach().numpy()) for p in params]


def assert_same(ours: list[Any], theirs: list[Any], dtype: str = "float64") -> None:
    tolerance = 1e-9 if dtype in ("float64", "complex128") else 1e-4
    for mine, torchs in zip(values(ours), values(theirs), strict=True):
        assert mine.dtype == torchs.dtype and mine.shape == torchs.shape
        np.testing.assert_allclose(mine, torchs, rtol=tolerance, atol=tolerance)
