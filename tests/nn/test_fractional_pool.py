"""Fractional max pooling chooses the same windows as torch for the same random samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.nn.twins import assert_alike
from tests.parity import attempt, parity

CASES = [
    (2, (2, 3, 9, 8), 2, {"output_size": 3}),
    (2, (3, 9, 8), (3, 1), {"output_size": (4, 8)}),
    (2, (2, 3, 9, 8), 3, {"output_ratio": 0.6}),
    (2, (2, 3, 9, 8), 1, {"output_size": (9, 1)}),
    (2, (0, 3, 9, 8), 2, {"output_size": 3}),
    (3, (2, 3, 6, 7, 5), 2, {"output_size": 3}),
    (3, (3, 6, 7, 5), (2, 3, 1), {"output_ratio": (0.5, 0.4, 0.9)}),
]


def samples(n: int, shape: tuple[int, ...]) -> np.ndarray:
    batch = shape[0] if len(shape) == n + 2 else 1
    return np.random.default_rng(1).random((batch, 3, n))


@pytest.mark.parametrize(("n", "shape", "kernel_size", "options"), CASES)
@pytest.mark.parametrize("return_indices", [False, True])
def test_fractional_pooling_agrees_with_torch(
    n: int, shape: tuple[int, ...], kernel_size: Any, options: dict[str, Any], return_indices: bool
) -> None:
    def build(nn: Any) -> Any:
        library = rg if nn is rg.nn else __import__("torch")
        drawn = library.tensor(samples(n, shape))
        return getattr(nn, f"FractionalMaxPool{n}d")(
            kernel_size, return_indices=return_indices, _random_samples=drawn, **options
        )

    x = np.random.default_rng(0).permutation(int(np.prod(shape))).reshape(shape) * 0.37
    assert_alike(build, x, second=0 not in shape)


def test_fractional_pooling_draws_new_windows_that_cover_the_image() -> None:
    rg.manual_seed(0)
    x = rg.arange(400.0).reshape(1, 1, 20, 20)
    results = {tuple(rg.nn.functional.fractional_max_pool2d(x, 2, 11).flatten().tolist()) for _ in range(10)}
    assert len(results) > 1
    assert all(result[-1] == 399.0 for result in results)  # the last window always ends with the image


@parity
def test_fractional_pooling_of_nan_is_nan(m: Any) -> Any:
    x = m.arange(36.0).reshape(1, 1, 6, 6).clone()
    x[0, 0, 2, 2] = float("nan")
    drawn = m.full((1, 1, 2), 0.5)
    return m.nn.functional.fractional_max_pool2d(x, 3, 3, _random_samples=drawn).isnan()


@parity
def test_fractional_pooling_refuses_wrong_arguments(m: Any) -> Any:
    pool, x = m.nn.functional.fractional_max_pool2d, m.ones(2, 3, 7, 8)
    return [
        attempt(lambda: pool(x, 3)),
        attempt(lambda: pool(x, 3, output_size=6)),
        attempt(lambda: pool(x, 9, output_size=1)),
        attempt(lambda: pool(x.int(), 3, output_size=1, _random_samples=m.ones(2, 3, 2).int())),
        attempt(lambda: pool(x, 3, 4, _random_samples=m.ones(2, 3))),
        attempt(lambda: pool(x, 3, 4, _random_samples=m.ones(2, 2, 2))),
        attempt(lambda: pool(x, 3, 4, _random_samples=m.ones(2, 3, 2).double())),
        attempt(lambda: m.nn.functional.fractional_max_pool3d(x[:, :, None], 2, 3)),
    ]
