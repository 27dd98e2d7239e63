"""Running sums of arrays that are worked on piece by piece."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops import cumulative


@pytest.mark.parametrize("shape", [(7, 301), (40, 64), (3, 999), (5000,), (2, 1025), (2, 3, 500), (65, 33)])
@pytest.mark.parametrize("reverse", [False, True])
def test_pieces_of_any_size_make_up_the_whole(
    shape: tuple[int, ...], reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cumulative, "_MANY", 0)
    monkeypatch.setattr(cumulative, "_CACHED", 1024)
    data = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    x = rg.tensor(data, requires_grad=True)
    y = (x.flip(-1) if reverse else x).cumsum(-1)
    expected = np.cumsum(data[..., ::-1] if reverse else data, -1, np.float64)
    np.testing.assert_allclose(y.numpy(force=True), expected, rtol=1e-6, atol=1e-5)
    y.sum().backward()
    ends = np.arange(shape[-1], 0, -1, np.float32)
    np.testing.assert_array_equal(x.grad.numpy(), np.broadcast_to(ends[::-1] if reverse else ends, shape))
