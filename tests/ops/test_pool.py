"""Maxima over windows, with a history and without one, when they are computed without their places."""

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.nn import functional as F

OPTIONS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (5, 2), "stride": 1, "padding": (2, 0)},
    {"kernel_size": 3, "stride": 2, "dilation": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 8},
]
SHAPES = [(1, 2, 8, 8), (2, 4, 18, 15), (4, 8, 33, 32)]  # which different ways of computing them apply to


def images(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    rng = np.random.default_rng(0)
    values = rng.integers(-20, 20, shape).astype(dtype)  # some are equal
    if values.dtype.kind == "f":
        values.reshape(-1)[rng.integers(0, values.size, 3)] = np.nan, np.inf, -np.inf
    return values


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_maxima_without_a_history_are_those_of_torch(shape, options):
    for dtype in ("float32", "float64", "int32"):
        values = images(shape, dtype)
        ours = F.max_pool2d(rg.from_numpy(values), **options)
        theirs = torch.nn.functional.max_pool2d(torch.from_numpy(values), **options)
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
        assert ours.is_contiguous()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tangents_follow_the_same_maxima_as_gradients(shape, options):
    """A dual tensor has no history, so that its maxima are computed without their places."""
    x = rg.from_numpy(images(shape)).nan_to_num(0.0, 50.0, -50.0)
    tangent = rg.randn(shape, dtype=rg.float64)
    _, along = rg.func.jvp(lambda t: F.max_pool2d(t, **options), (x,), (tangent,))
    x.requires_grad_()
    result = F.max_pool2d(x, **options)
    g = rg.randn(result.shape, dtype=rg.float64)
    result.backward(g)
    np.testing.assert_allclose((along * g).sum().item(), (x.grad * tangent).sum().item())


def test_maxima_of_all_rows_at_once():
    """Over leading dimensions that only vmap knows about."""
    x = rg.from_numpy(images((3, 2, 6, 6))).nan_to_num(0.0)
    mapped = rg.func.vmap(lambda t: F.max_pool2d(t, 3, 1, 1))(x)
    np.testing.assert_array_equal(mapped.numpy(), F.max_pool2d(x, 3, 1, 1).numpy())
    gradients = rg.func.vmap(rg.func.grad(lambda t: (F.max_pool2d(t, 3, 1, 1) ** 2).sum()))(x)
    x.requires_grad_()
    (F.max_pool2d(x, 3, 1, 1) ** 2).sum().backward()
    np.testing.assert_array_equal(gradients.numpy(), x.grad.numpy())
