"""Cumulative sums and extremes of arrays that are processed piece by piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops import cumulative

SHAPES = [(7, 301), (40, 64), (3, 999), (5000,), (2, 1025), (2, 3, 500), (65, 33), (9, 5), (3, 8), (4, 1), (2, 15, 40)]


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make small arrays be processed like large ones."""
    for name, value in {"_MANY": 0, "_SEVERAL": 0, "_LONG": 16, "_CACHED": 1024}.items():
        monkeypatch.setattr(cumulative, name, value)


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_operations_in_pieces_of_any_size(shape: tuple[int, ...], reverse: bool) -> None:
    data = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    x = rg.tensor(data, requires_grad=True)
    y = (x.flip(-1) if reverse else x).cumsum(-1)
    expected = np.cumsum(data[..., ::-1] if reverse else data, -1, np.float64)
    np.testing.assert_allclose(y.numpy(force=True), expected, rtol=1e-6, atol=1e-5)
    y.sum().backward()
    ends = np.arange(shape[-1], 0, -1, np.float32)
    np.testing.assert_array_equal(x.grad.numpy(), np.broadcast_to(ends[::-1] if reverse else ends, shape))


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
def test_cumulative_operations_in_pieces_agree_with_torch(name: str, shape: tuple[int, ...], dtype: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    data = rng.integers(-3, 4, shape).astype(dtype)  # with ties
    if name == "cumprod":
        data = rng.choice([-1, 1], shape).astype(dtype)
    if name in ("cummax", "cummin") and dtype != "int64":
        data = np.where(rng.random(shape) < 0.02, np.nan, data).astype(dtype)
    for dim in range(len(shape)):
        ours, theirs = getattr(rg, name)(rg.tensor(data), dim), getattr(torch, name)(torch.from_numpy(data), dim)
        ours, theirs = (ours, theirs) if isinstance(ours, tuple) else ([ours], [theirs])
        for result, expected in zip(ours, theirs, strict=True):
            assert str(result.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]
            np.testing.assert_array_equal(result.numpy(), expected.numpy())


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("x", [np.arange(3000.0), np.zeros(3000), -np.arange(3000.0)])
def test_cumulative_extremes_that_change_everywhere_or_never(x: Any) -> None:
    last = np.arange(3000)
    assert rg.cummax(rg.tensor(x), 0).indices.tolist() == (last if x[-1] >= 0 else 0 * last).tolist()
    assert rg.cummin(rg.tensor(x), 0).indices.tolist() == (last if x[-1] <= 0 else 0 * last).tolist()


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
@pytest.mark.parametrize("size", [3, 300, 20000])
def test_cumulative_operation_along_a_missing_dimension_is_refused(name: str, size: int) -> None:
    with pytest.raises(IndexError, match=rf"{name}\(\): Dimension out of range .*\[-1, 0\], but got 3"):
        getattr(rg, name)(rg.ones(size), 3)


@pytest.mark.parametrize(("shape", "dim"), [((9, 200), 0), ((5, 4, 130), 1), ((5, 4, 3, 50), -3), ((4, 3, 127), 1)])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_cumulative_operations_on_whole_slices_and_single_elements(name: str, shape: tuple[int, ...], dim: int) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    expected = getattr(np, name)(x.astype(np.float64), dim).astype(np.float32)
    for each in (x, np.asfortranarray(x)):
        np.testing.assert_array_equal(getattr(rg.from_numpy(each), name)(dim).numpy(), expected)
