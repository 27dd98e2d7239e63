"""Initialisation: the same distributions as torch's, alone and in layers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

import retrograd as rg
from tests.parity import attempt, parity

init = rg.nn.init


def drawn(fill: Callable[..., Any], *shape: int, **kwargs: Any) -> np.ndarray:
    rg.manual_seed(0)
    tensor = rg.empty(*shape, dtype=rg.float64)
    assert fill(tensor, **kwargs) is tensor
    return tensor.numpy()


def same_distribution(name: str, *shape: int, **kwargs: Any) -> None:
    """Check by a Kolmogorov-Smirnov test that samples of both libraries have the same distribution."""
    torch.manual_seed(1)
    expected = getattr(torch.nn.init, name)(torch.empty(*shape, dtype=torch.float64), **kwargs).numpy()
    got = drawn(getattr(init, name), *shape, **kwargs)
    assert scipy.stats.ks_2samp(got.ravel(), expected.ravel()).pvalue > 1e-3


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("uniform_", {"a": -2, "b": 3}),
        ("normal_", {"mean": 1, "std": 3}),
        ("trunc_normal_", {}),
        ("trunc_normal_", {"mean": 1, "std": 2, "a": 0, "b": 1.5}),
        ("trunc_normal_", {"a": 1.2, "b": 7}),
        ("xavier_uniform_", {"gain": 2}),
        ("xavier_normal_", {}),
        ("kaiming_uniform_", {"a": math.sqrt(5)}),
        ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}),
        ("sparse_", {"sparsity": 0.3, "std": 2}),
    ],
)
def test_random_initialisers_have_torchs_distributions(name: str, kwargs: dict[str, Any]) -> None:
    same_distribution(name, 80, 50, **kwargs)


def test_truncated_normal_far_in_the_tail() -> None:
    values = drawn(init.trunc_normal_, 4000, a=10.0, b=1000.0)
    assert values.min() >= 10
    expected = scipy.stats.truncnorm(10, 1000)
    assert scipy.stats.kstest(values, expected.cdf).pvalue > 1e-3


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (5, 2, 3), (3, 2, 4)])
def test_orthogonal_init_gives_orthogonal_matrices(shape: tuple[int, ...]) -> None:
    matrix = drawn(init.orthogonal_, *shape, gain=2).reshape(shape[0], -1)
    small = matrix if matrix.shape[0] < matrix.shape[1] else matrix.T
    np.testing.assert_allclose(small @ small.T, 4 * np.eye(len(small)), atol=1e-12)


def test_orthogonal_init_is_uniformly_distributed() -> None:
    rg.manual_seed(0)
    corners = [init.orthogonal_(rg.empty(2, 2))[0, 0].item() for _ in range(400)]
    assert scipy.stats.kstest(np.arccos(corners) / np.pi, "uniform").pvalue > 1e-3


@parity
def test_constant_initialisers(m: Any) -> Any:
    return [
        m.nn.init.constant_(m.empty(2), 3.5),
        m.nn.init.ones_(m.empty(2)),
        m.nn.init.zeros_(m.empty(2)),
        m.nn.init.eye_(m.empty(2, 3)),
        m.nn.init.dirac_(m.empty(4, 2, 3)),
        m.nn.init.dirac_(m.empty(4, 2, 3, 3), groups=2),
        m.nn.init.dirac_(m.empty(2, 3, 3, 2, 3)),
    ]


@parity
def test_calculate_gain(m: Any) -> Any:
    names = ["linear", "conv2d", "conv_transpose3d", "sigmoid", "tanh", "relu", "selu", "leaky_relu"]
    gain = m.nn.init.calculate_gain
    return [repr(gain(name)) for name in names] + [gain("leaky_relu", 0.3), attempt(lambda: gain("gelu"))]


@parity
def test_initialisers_refuse_wrong_arguments(m: Any) -> Any:
    vector, matrix = m.empty(3), m.empty(3, 3)
    return [
        attempt(lambda: m.nn.init.eye_(vector)),
        attempt(lambda: m.nn.init.dirac_(matrix)),
        attempt(lambda: m.nn.init.dirac_(m.empty(3, 2, 2), groups=2)),
        attempt(lambda: m.nn.init.xavier_uniform_(vector)),
        attempt(lambda: m.nn.init.kaiming_normal_(matrix, mode="fan")),
        attempt(lambda: m.nn.init.kaiming_uniform_(matrix, nonlinearity="x")),
        attempt(lambda: m.nn.init.orthogonal_(vector)),
        attempt(lambda: m.nn.init.sparse_(vector, 0.1)),
        attempt(lambda: m.nn.init.trunc_normal_(vector, a=3, b=2)),
        attempt(lambda: m.nn.init.calculate_gain("leaky_relu", "x")),
    ]


def test_sparse_init_has_equally_many_zeros_per_column() -> None:
    assert ((drawn(init.sparse_, 10, 7, sparsity=0.25) == 0).sum(0) == 3).all()


def test_initialisers_do_not_record_history() -> None:
    weight = rg.nn.Parameter(rg.ones(3, 3))
    for fill in (init.zeros_, init.xavier_uniform_, init.orthogonal_, init.trunc_normal_, init.eye_):
        fill(weight)
        assert weight.is_leaf
        assert weight.requires_grad


def test_initialisers_use_the_given_generator() -> None:
    for name in ("uniform_", "normal_", "trunc_normal_", "kaiming_uniform_", "xavier_normal_", "orthogonal_"):
        first, second = (getattr(init, name)(rg.empty(3, 4), generator=rg.Generator().manual_seed(7)) for _ in range(2))
        assert (first == second).all()


LAYERS = [
    "Linear(50, 40)",
    "Bilinear(20, 10, 15)",
    "Conv2d(8, 16, 3)",
    "ConvTranspose2d(8, 16, 3)",
    "Embedding(50, 20)",
    "LSTM(20, 30)",
    "GRUCell(20, 30)",
    "MultiheadAttention(32, 4)",
    "MultiheadAttention(32, 4, kdim=16, vdim=24, add_bias_kv=True)",
    "TransformerEncoderLayer(32, 4, 48)",
    "Transformer(16, 2, 1, 1, 32)",
    "BatchNorm1d(4)",
    "LayerNorm(4)",
    "PReLU(3)",
]


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_are_initialised_as_in_torch(layer: str) -> None:
    rg.manual_seed(0)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = eval(f"nn.{layer}", {"nn": rg.nn}), eval(f"nn.{layer}", {"nn": torch.nn})
    for (name, got), expected in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        mine, other = got.detach().numpy().ravel(), expected.detach().numpy().ravel()
        if len(np.unique(other)) == 1:
            assert (mine == other[0]).all(), name
        else:
            assert scipy.stats.ks_2samp(mine, other).pvalue > 1e-4, name


@pytest.mark.parametrize("layer", ["Linear(50, 40)", "Conv2d(8, 16, 3)", "LSTM(20, 30)"])
def test_reset_parameters_draws_new_values(layer: str) -> None:
    module = eval(f"nn.{layer}", {"nn": rg.nn})
    before = [p.detach().clone() for p in module.parameters()]
    module.reset_parameters()
    assert all((old != new).any() for old, new in zip(before, module.parameters(), strict=True))
