"""Gradients of interpolation, computed in two ways: from the taps of the result, or faster, by taps of the adjoint."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.ops import interpolate as module

MODES: list[tuple[str, dict[str, Any]]] = [
    ("nearest", {}),
    ("nearest-exact", {}),
    *itertools.product(("bilinear", "bicubic"), ({"align_corners": False}, {"align_corners": True})),
    *itertools.product(("bilinear", "bicubic"), ({"antialias": True},)),
]
SIZES = [(1, 3), (2, 1), (3, 4), (5, 3), (8, 4), (8, 16), (9, 2), (4, 13), (7, 7), (16, 15)]


def gradient(library: Any, x: Any, g: Any, mode: str, options: dict[str, Any]) -> np.ndarray:
    leaf = library.tensor(x, requires_grad=True)
    library.nn.functional.interpolate(leaf, size=g.shape[2:], mode=mode, **options).backward(library.tensor(g))
    return leaf.grad.numpy()


@pytest.mark.parametrize("adjoint", [True, False])
@pytest.mark.parametrize(("mode", "options"), MODES)
def test_gradients_of_interpolation_between_many_sizes(
    mode: str, options: dict[str, Any], adjoint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not adjoint:
        monkeypatch.setattr(module, "_adjoint", lambda size, taps: None)
    rng = np.random.default_rng(0)
    for size, wanted in SIZES:
        x, g = rng.normal(size=(2, 3, size, 5)), rng.normal(size=(2, 3, wanted, 6))
        ours, theirs = (gradient(library, x, g, mode, options) for library in (rg, torch))
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12, err_msg=f"{size} to {wanted}")


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_infinite_gradient_reaches_only_its_own_elements(mode: str) -> None:
    for size, wanted in [(8, 4), (8, 16), (5, 3)]:
        x, g = np.ones((1, 1, size, 4)), np.zeros((1, 1, wanted, 4))
        for place in range(wanted):
            g[0, 0, place, 1] = 1
            share = gradient(torch, x, g, mode, {})
            g[0, 0, place, 1] = np.inf
            ours = gradient(rg, x, g, mode, {})
            np.testing.assert_array_equal(ours, np.where(share == 0, 0, np.copysign(np.inf, share)))
            g[0, 0, place, 1] = 0
