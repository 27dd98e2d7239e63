"""Conversion of normalisation layers, their fusion with the layer before, and older names of functions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.nn.twins import close, twins
from tests.parity import attempt, parity


def x(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


@parity
def test_convert_sync_batchnorm(m: Any) -> Any:
    nn = m.nn
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()), nn.BatchNorm1d(3, affine=False))
    net[2].eval()
    parameters = list(map(id, net.parameters()))
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(net, "group")
    alone = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(4, momentum=None))
    return [
        repr(converted),
        converted is net,
        parameters == list(map(id, converted.parameters())),
        converted[2].training,
        converted[2].process_group,
        repr(alone),
        attempt(lambda: alone(m.ones(4))),
        attempt(lambda: alone(m.ones(2, 0, 3))),
        attempt(lambda: alone(m.ones(2, 3, 3))),
    ]


LAYERS = {
    "Conv1d": (lambda nn: nn.Conv1d(4, 6, 3, groups=2), "BatchNorm1d", (2, 4, 7), False),
    "Conv2d": (lambda nn: nn.Conv2d(4, 6, 3, bias=False), "BatchNorm2d", (2, 4, 5, 6), False),
    "ConvTranspose2d": (lambda nn: nn.ConvTranspose2d(4, 6, 3), "BatchNorm2d", (2, 4, 5, 6), True),
    "Linear": (lambda nn: nn.Linear(4, 6), "BatchNorm1d", (5, 4), None),
    "Linear without bias": (lambda nn: nn.Linear(4, 6, bias=False), "BatchNorm1d", (5, 4), None),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("affine", [True, False])
def test_fusing_batch_norm_with_the_layer_before(name: str, affine: bool) -> None:
    make, norm, shape, transpose = LAYERS[name]
    if transpose is None and not affine:
        affine = True  # after a linear layer, torch needs a normalisation with weight and bias
    theirs, ours = twins(lambda nn: nn.Sequential(make(nn), getattr(nn, norm)(6, affine=affine)))
    with torch.no_grad(), rg.no_grad():
        theirs(torch.tensor(x(*shape)))
        ours(rg.tensor(x(*shape)))
    theirs.eval()
    ours.eval()
    functions = [
        lib.nn.utils.fuse_linear_bn_eval if transpose is None else lib.nn.utils.fuse_conv_bn_eval for lib in (torch, rg)
    ]
    more = () if transpose is None else (transpose,)
    expected, got = functions[0](*theirs, *more), functions[1](*ours, *more)
    close(got.weight, expected.weight, "weight")
    close(got.bias, expected.bias, "bias")
    assert got.weight.requires_grad == expected.weight.requires_grad
    assert got.bias.requires_grad == expected.bias.requires_grad
    np.testing.assert_allclose(
        got(rg.tensor(x(*shape))).detach().numpy(), ours(rg.tensor(x(*shape))).detach().numpy(), rtol=1e-9, atol=1e-12
    )


@parity
def test_fusing_refuses_unsuitable_layers(m: Any) -> Any:
    nn, utils = m.nn, m.nn.utils
    conv, linear, norm = nn.Conv2d(2, 3, 3).eval(), nn.Linear(2, 3).eval(), nn.BatchNorm2d(3)
    untracked = nn.BatchNorm2d(3, track_running_stats=False).eval()

    def raises_assertion(call: Any) -> bool:
        try:
            call()
        except AssertionError:
            return True
        return False

    return [
        raises_assertion(lambda: utils.fuse_conv_bn_eval(conv, norm)),
        raises_assertion(lambda: utils.fuse_conv_bn_eval(conv, untracked)),
        raises_assertion(lambda: utils.fuse_linear_bn_eval(linear, norm)),
        raises_assertion(lambda: utils.fuse_linear_bn_eval(linear, nn.BatchNorm1d(2).eval())),
        raises_assertion(lambda: utils.fuse_linear_bn_eval(linear, nn.BatchNorm1d(1).eval())),
    ]


@parity
def test_deprecated_upsample_functions(m: Any) -> Any:
    f, image = m.nn.functional, m.arange(12.0).reshape(1, 1, 3, 4)
    return [
        f.upsample(image, scale_factor=2),
        f.upsample(image, size=(5, 3), mode="bilinear", align_corners=False),
        f.upsample_nearest(image, 6),
        f.upsample_bilinear(image, scale_factor=2),
    ]


def test_deprecated_upsample_functions_warn() -> None:
    f, image = rg.nn.functional, rg.ones(1, 1, 2, 2)
    for function in (f.upsample, f.upsample_nearest, f.upsample_bilinear):
        with pytest.warns(UserWarning, match=f"`nn.functional.{function.__name__}` is deprecated"):
            function(image, 4)


@parity
def test_linear_cross_entropy_refuses(m: Any) -> Any:
    loss, target = m.nn.functional.linear_cross_entropy, m.tensor([0, 1])
    return [
        attempt(lambda: loss(m.ones(2, 3, 4), m.ones(5, 4), target)),
        attempt(lambda: loss(m.ones(2, 4), m.ones(4), target)),
        attempt(lambda: loss(m.ones(2, 4), m.ones(5, 3), target)),
        attempt(lambda: loss(m.ones(2, 4), m.ones(5, 4), target, linear_bias=m.ones(4))),
        attempt(lambda: loss(m.ones(4), m.ones(5, 2, 4), target)),
        attempt(lambda: loss(m.ones(2, 4), m.ones(5, 4), m.ones(2, 5), ignore_index=1)),
    ]


def test_skip_init_and_stateless_functional_call() -> None:
    layer = rg.nn.utils.skip_init(rg.nn.Linear, 3, 2, bias=False, dtype=rg.float64, device="cpu")
    assert layer.weight.shape == (2, 3)
    assert layer.weight.dtype == rg.float64
    for library in (rg, torch):
        with pytest.raises(RuntimeError, match="Expected a Module"):
            library.nn.utils.skip_init(dict, 3)
        with pytest.raises(RuntimeError, match="must support a 'device' arg"):
            library.nn.utils.skip_init(library.nn.ReLU)
    for library in (rg, torch):
        layer = library.nn.Linear(2, 1)
        weights = {"weight": library.ones(1, 2), "bias": library.zeros(1)}
        with pytest.warns(FutureWarning, match="func.functional_call"):
            result = library.nn.utils.stateless.functional_call(layer, weights, library.ones(2))
        assert result.tolist() == [2.0]


def test_fuse_linear_bn_eval_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rg.nn.utils.fuse_linear_bn_eval(rg.nn.Linear(2, 3).eval(), rg.nn.BatchNorm1d(3).eval())


@parity
def test_cross_map_lrn_agrees_with_torch(m: Any) -> Any:
    """For sizes below and above the number of channels. Gradients are not compared: torch's contradict its result."""
    image = m.tensor(x(2, 6, 3, 2))
    made = [m.nn.CrossMapLRN2d(size, 0.5, 0.6, 1.5)(image) for size in range(1, 9)]
    return [*made, m.nn.CrossMapLRN2d(3)(image), attempt(lambda: m.nn.CrossMapLRN2d(3)(image[0]))]


def test_gradient_of_cross_map_lrn() -> None:
    image = rg.tensor(x(2, 6, 1, 2), requires_grad=True)
    assert rg.autograd.gradcheck(rg.nn.CrossMapLRN2d(3, 0.5), image)
