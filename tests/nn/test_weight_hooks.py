"""The older weight and spectral normalisation, which recompute the weight in a hook before every call."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.nn.twins import assert_alike
from tests.parity import attempt, parity

pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")

NORMS = {
    "weight_norm": lambda u, layer: u.weight_norm(layer),
    "weight_norm dim 1": lambda u, layer: u.weight_norm(layer, dim=1),
    "weight_norm whole": lambda u, layer: u.weight_norm(layer, dim=None),
    "spectral_norm": lambda u, layer: u.spectral_norm(layer, n_power_iterations=2),
    "spectral_norm dim 1": lambda u, layer: u.spectral_norm(layer, dim=1),
    "spectral_norm of a vector": lambda u, layer: u.spectral_norm(layer, "bias", dim=0),
}
LAYERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "Linear": (lambda nn: nn.Linear(4, 3), (2, 4)),
    "Conv2d": (lambda nn: nn.Conv2d(2, 3, 2), (1, 2, 4, 4)),
    "ConvTranspose1d": (lambda nn: nn.ConvTranspose1d(2, 3, 2), (1, 2, 4)),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("train", [True, False])
def test_weight_hooks_agree_with_torch(norm: str, layer: str, train: bool) -> None:
    make, shape = LAYERS[layer]
    x = np.random.default_rng(0).normal(size=shape)
    # the second gradient of torch's weight norm fails torch's own gradgradcheck
    second = norm.startswith("spectral")
    assert_alike(lambda nn: NORMS[norm](nn.utils, make(nn)), x, train=train, second=second, tolerance=1e-8)


@parity
def test_adding_and_removing_weight_hooks(m: Any) -> Any:
    u, report = m.nn.utils, []
    for norm, remove in ((u.weight_norm, u.remove_weight_norm), (u.spectral_norm, u.remove_spectral_norm)):
        layer = m.nn.Linear(3, 2)
        with m.no_grad():
            layer.weight.copy_(m.tensor([[3.0, 0.0, 4.0], [0.0, 1.0, 0.0]]))
        report += [norm(layer) is layer, [name for name, _ in layer.named_parameters()], list(layer.state_dict())]
        report += [isinstance(layer.weight, m.nn.Parameter), attempt(lambda n=norm, k=layer: n(k))]
        layer.eval()
        with m.no_grad():
            before = layer.weight.clone() if norm is u.weight_norm else None
        report += [before, remove(layer) is layer, [name for name, _ in layer.named_parameters()]]
        report += [isinstance(layer.weight, m.nn.Parameter), len(layer._forward_pre_hooks)]
        report += [attempt(lambda r=remove, k=layer: r(k))]
    return report


def test_spectral_norm_hook_divides_by_the_largest_singular_value() -> None:
    rg.manual_seed(0)
    layer = rg.nn.utils.spectral_norm(rg.nn.Linear(5, 4).double(), n_power_iterations=30)
    layer(rg.ones(2, 5, dtype=rg.float64))
    assert abs(float(rg.linalg.matrix_norm(layer.weight.detach(), 2)) - 1) < 1e-6


def test_training_with_the_weight_norm_hook() -> None:
    layer = rg.nn.utils.weight_norm(rg.nn.Linear(3, 2))
    optimizer = rg.optim.SGD(layer.parameters(), lr=0.1)
    before = layer.weight.detach().clone()
    layer(rg.ones(1, 3)).square().sum().backward()
    optimizer.step()
    layer(rg.ones(1, 3))
    assert not rg.allclose(layer.weight, before)
    twin = copy.deepcopy(layer.state_dict())
    other = rg.nn.utils.weight_norm(rg.nn.Linear(3, 2))
    other.load_state_dict(twin)
    other(rg.ones(1, 3))
    assert rg.allclose(other.weight, layer.weight)


@parity
def test_state_dicts_of_weight_hooks_load_into_parametrizations(m: Any) -> Any:
    older, newer = m.nn.Sequential(m.nn.Linear(3, 2)), m.nn.Sequential(m.nn.Linear(3, 2))
    m.nn.utils.weight_norm(older[0])
    with m.no_grad():
        older[0].weight_g.copy_(m.tensor([[1.0], [2.0]]))
        older[0].weight_v.copy_(m.tensor([[3.0, 0.0, 4.0], [0.0, 1.0, 0.0]]))
        older[0].bias.zero_()
    m.nn.utils.parametrizations.weight_norm(newer[0])
    loaded = newer.load_state_dict(older.state_dict())
    return [repr(loaded), newer(m.ones(1, 3)), newer[0].weight]


def test_weight_norm_hook_warns_about_the_parametrization() -> None:
    for library in (rg, torch):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(FutureWarning, match=r"parametrizations\.weight_norm"):
                library.nn.utils.weight_norm(library.nn.Linear(2, 2))


@parity
def test_weight_hooks_refuse_wrong_uses(m: Any) -> Any:
    u = m.nn.utils
    return [
        attempt(lambda: u.spectral_norm(m.nn.Linear(2, 2), n_power_iterations=0)),
        attempt(lambda: u.spectral_norm(m.nn.Linear(2, 2, bias=False), "bias")),
        attempt(lambda: u.weight_norm(m.nn.LazyLinear(2))),
        attempt(lambda: u.spectral_norm(m.nn.LazyLinear(2))),
        attempt(lambda: u.weight_norm(m.nn.Linear(2, 2), "nothing")),
    ]
