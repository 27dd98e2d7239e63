"""A small problem to be optimized, the same in torch and here."""

from __future__ import annotations

from typing import Any

import numpy as np

SHAPES: tuple[tuple[int, ...], ...] = ((3, 4), (4,), (), (2, 1, 3))


def start(library: Any, dtype: str = "float64") -> list[Any]:
    """The parameters."""
    rng = np.random.default_rng(0)
    params = []
    for shape in SHAPES:
        values = rng.standard_normal(shape)
        if dtype.startswith("complex"):
            values = values + 1j * rng.standard_normal(shape)
        params.append(library.tensor(np.asarray(values), dtype=getattr(library, dtype), requires_grad=True))
    return params


def loss_of(params: list[Any], step: int) -> Any:
    """A loss that changes a little from step to step, as batches do; not convex, and tame."""
    total = 0.0
    for number, p in enumerate(params):
        shifted = p - (0.3 * number + 0.1 * (step % 3))
        size = (shifted * shifted.conj()).real if p.is_complex() else shifted * shifted
        total = total + ((size + 0.3).log() * (1 + 0.1 * number) + 0.05 * size).sum()
    return total


def bowl(params: list[Any]) -> Any:
    """A convex loss, not a quadratic one."""
    sizes = [((p - 0.3) * (p - 0.3).conj()).real if p.is_complex() else (p - 0.3) * (p - 0.3) for p in params]
    return sum((size * (0.2 + 0.3 * number) + 0.1 * size * size).sum() for number, size in enumerate(sizes))


def train(optimizer: Any, params: list[Any], steps: int = 50, first: int = 0) -> None:
    """So many steps; the last parameter has no gradient in the first of them."""
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss_of(params[:-1] if step < 2 else params, step).backward()
        optimizer.step()


def values(params: list[Any]) -> list[np.ndarray]:
    """What the parameters are now."""
    return [np.asarray(p.detach().numpy()) for p in params]


def assert_same(ours: list[Any], theirs: list[Any], dtype: str = "float64") -> None:
    tolerance = 1e-9 if dtype in ("float64", "complex128") else 1e-4
    for mine, torchs in zip(values(ours), values(theirs), strict=True):
        assert mine.dtype == torchs.dtype and mine.shape == torchs.shape
        np.testing.assert_allclose(mine, torchs, rtol=tolerance, atol=tolerance)
