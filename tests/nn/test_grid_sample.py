"""grid_sample, affine_grid and distances beyond the rows of the table: edges, NaN, errors, warnings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity

F = rg.nn.functional


def image(library: Any, *shape: int) -> Any:
    return library.tensor(np.random.default_rng(0).normal(size=shape or (1, 2, 3, 4)))


@parity
def test_rotating_an_image(m: Any) -> Any:
    c, s = math.cos(0.4), math.sin(0.4)
    theta = m.tensor([[[c, -s, 0.1], [s, c, -0.2]]], dtype=m.float64, requires_grad=True)
    grid = m.nn.functional.affine_grid(theta, (1, 2, 5, 6), align_corners=False)
    turned = m.nn.functional.grid_sample(image(m), grid, align_corners=False)
    turned.square().sum().backward()
    return turned, theta.grad


def test_identity_grid_gives_the_image() -> None:
    x = image(rg)
    for align_corners in (False, True):
        theta = rg.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], dtype=rg.float64)
        grid = F.affine_grid(theta, x.shape, align_corners)
        for mode in ("bilinear", "nearest", "bicubic"):
            same = F.grid_sample(x, grid, mode, align_corners=align_corners)
            np.testing.assert_allclose(same.numpy(), x.numpy(), atol=1e-12)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_nan_in_the_grid_affects_only_its_own_place(mode: str, padding_mode: str) -> None:
    grid = rg.tensor([[[[math.nan, 0.0], [0.1, 0.2]]]], dtype=rg.float64)
    sampled = F.grid_sample(image(rg), grid, mode, padding_mode, align_corners=False)
    assert sampled[..., 0].isnan().all()
    assert sampled[..., 1].isfinite().all()


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_places_far_outside_the_image(mode: str) -> None:
    grid = rg.tensor([[[[math.inf, 0.0], [-math.inf, 0.0], [1e300, 0.0]]]], dtype=rg.float64, requires_grad=True)
    x = image(rg)
    zeros = F.grid_sample(x, grid, mode, "zeros", align_corners=True)
    assert (zeros == 0).all()
    zeros.sum().backward()
    assert (grid.grad == 0).all()
    reflected = F.grid_sample(x, grid.detach(), mode, "reflection", align_corners=True)
    assert reflected[..., :2].isnan().all()  # the reflection of an infinitely distant place is undefined
    assert reflected[..., 2].isfinite().all()
    border = F.grid_sample(x, grid.detach(), mode, "border", align_corners=True)
    np.testing.assert_allclose(border[..., 0].numpy(), x[:, :, 1, [3]].numpy())
    np.testing.assert_allclose(border[..., 1].numpy(), x[:, :, 1, [0]].numpy())


@parity
def test_nearest_mode_has_zero_gradients_for_the_grid(m: Any) -> Any:
    grid = m.tensor([[[[0.3, -0.2], [1.4, 0.9]]]], dtype=m.float64, requires_grad=True)
    m.nn.functional.grid_sample(image(m), grid, "nearest", align_corners=False).sum().backward()
    return grid.grad


@parity
def test_grid_places_exactly_on_the_border(m: Any) -> Any:
    report = []
    for padding_mode in ("border", "reflection"):
        grid = m.tensor([[[[-1.0, -1.0], [1.0, 1.0]]]], dtype=m.float64, requires_grad=True)
        sampled = m.nn.functional.grid_sample(image(m), grid, "bilinear", padding_mode, True)
        sampled.sum().backward()
        report += [sampled, grid.grad]
    return report


def test_second_gradients_that_torch_does_not_have() -> None:
    x = image(rg).requires_grad_()
    grid = rg.tensor(np.random.default_rng(1).uniform(-0.8, 0.8, (1, 2, 2, 2)), requires_grad=True)
    for mode in ("bilinear", "bicubic"):
        assert rg.autograd.gradgradcheck(
            lambda a, b, mode=mode: F.grid_sample(a, b, mode, align_corners=False), (x, grid)
        )


@parity
def test_wrong_arguments_of_grid_sampling_are_refused(m: Any) -> Any:
    sample, grid = m.nn.functional.grid_sample, m.nn.functional.affine_grid
    x = image(m)

    def zeros(*shape: int) -> Any:
        return m.zeros(*shape, dtype=m.float64)

    return [
        attempt(lambda: sample(x, zeros(1, 1, 1, 2).float())),
        attempt(lambda: sample(x.int(), zeros(1, 1, 1, 2).int())),
        attempt(lambda: sample(x, zeros(2, 1, 1, 2))),
        attempt(lambda: sample(x, zeros(1, 1, 1, 3))),
        attempt(lambda: sample(x, zeros(1, 1, 2))),
        attempt(lambda: sample(x[0], zeros(1, 1, 2))),
        attempt(lambda: sample(x[:, :, :0], zeros(1, 1, 1, 2))),
        attempt(lambda: sample(x[None], zeros(1, 1, 1, 1, 3), mode="bicubic")),
        attempt(lambda: sample(x, zeros(1, 1, 1, 2), mode="linear")),
        attempt(lambda: sample(x, zeros(1, 1, 1, 2), padding_mode="circular")),
        attempt(lambda: grid(zeros(1, 2, 3), [1, 1, 2])),
        attempt(lambda: grid(zeros(1, 2, 4), [1, 1, 2, 2])),
        attempt(lambda: grid(zeros(1, 2, 3), [2, 1, 2, 2])),
        attempt(lambda: grid(zeros(1, 2, 3).int(), [1, 1, 2, 2])),
        attempt(lambda: grid(zeros(1, 2, 3), [1, 1, 0, 2])),
    ]


def test_missing_align_corners_warns() -> None:
    for library in (rg, torch):
        theta = library.zeros(1, 2, 3)
        with pytest.warns(UserWarning, match="align_corners"):
            grid = library.nn.functional.affine_grid(theta, (1, 1, 2, 2))
        with pytest.warns(UserWarning, match="align_corners"):
            library.nn.functional.grid_sample(library.zeros(1, 1, 2, 2), grid)


def test_pdist_of_no_rows() -> None:
    x = rg.zeros(0, 3, requires_grad=True)
    rg.pdist(x).sum().backward()
    assert rg.pdist(x).shape == (0,)
    assert x.grad is not None
    assert x.grad.shape == (0, 3)


@parity
def test_pdist_of_equal_rows_and_its_errors(m: Any) -> Any:
    same = m.ones(3, 2, requires_grad=True)
    m.pdist(same).sum().backward()
    refused = [lambda: m.pdist(m.ones(3)), lambda: m.pdist(m.ones(2, 2), -1.0), lambda: m.pdist(m.ones(2, 2).int())]
    return [same.grad, *map(attempt, refused)]


@parity
def test_distances_of_order_0_have_zero_gradients(m: Any) -> Any:
    values = [[0.5, -1.0, 0.0], [0.5, 2.0, 0.0], [float("nan"), 1.0, 3.0]]
    x, y = m.tensor(values, requires_grad=True), m.ones(2, 3, requires_grad=True)
    pairs, between = m.pdist(x, 0), m.cdist(x, y, 0)
    (pairs.sum() + between.sum()).backward()
    return [[repr(d) for d in pairs.tolist()], repr(between.tolist()), x.grad, y.grad]


@pytest.mark.parametrize("size", [3, 40, 90])  # all images in one block, several in each, and one in each
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_in_blocks_of_images(size: int, mode: str) -> None:
    rng = np.random.default_rng(2)
    x, places = rng.normal(size=(5, 2, 7, 6)), rng.uniform(-1.3, 1.3, (5, size, size, 2))
    g = rng.normal(size=(5, 2, size, size))
    found = []
    for library in (rg, torch):
        leaves = [library.tensor(each, requires_grad=True) for each in (x, places)]
        sampled = library.nn.functional.grid_sample(*leaves, mode=mode, align_corners=False)
        found.append([sampled, *library.autograd.grad(sampled, leaves, library.tensor(g), retain_graph=True)])
        if library is rg:  # gradients with a graph are composed of operations
            found.append([sampled, *rg.autograd.grad(sampled, leaves, rg.tensor(g), create_graph=True)])
    for ours, composed, expected in zip(*found, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(composed.detach().numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)


def test_grid_sample_computes_half_precision_in_single() -> None:
    rng = np.random.default_rng(3)
    x, grid = rng.normal(size=(2, 3, 9, 9)).astype(np.float16), rng.uniform(-1, 1, (2, 4, 4, 2)).astype(np.float16)
    half, single = ([rg.tensor(each.astype(dtype), requires_grad=True) for each in (x, grid)] for dtype in "ef")
    results = [F.grid_sample(*leaves, align_corners=True) for leaves in (half, single)]
    gradients = [rg.autograd.grad(y.float().sum(), leaves) for y, leaves in zip(results, (half, single), strict=True)]
    for ours, exact in zip([results[0], *gradients[0]], [results[1], *gradients[1]], strict=True):
        assert ours.dtype == rg.float16
        np.testing.assert_array_equal(ours.detach().numpy(), exact.detach().numpy().astype(np.float16))
