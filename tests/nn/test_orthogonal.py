"""The orthogonal parametrization."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.nn.twins import assert_alike, close
from tests.parity import attempt, parity

MAPS = ("matrix_exp", "cayley", "householder")
SHAPES = [(4, 4), (5, 3), (3, 5)]


def matrix(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def layer_of(m: Any, shape: tuple[int, int], **options: Any) -> Any:
    layer = m.nn.Linear(shape[1], shape[0], bias=False).double()
    with m.no_grad():
        layer.weight.copy_(m.tensor(matrix(*shape)))
    return m.nn.utils.parametrizations.orthogonal(layer, **options)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("orthogonal_map", MAPS)
@pytest.mark.parametrize("use_trivialization", [True, False])
def test_orthogonal_parametrization_agrees_with_torch(
    shape: tuple[int, int], orthogonal_map: str, use_trivialization: bool
) -> None:
    options = {"orthogonal_map": orthogonal_map, "use_trivialization": use_trivialization}

    def build(nn: Any) -> Any:
        return nn.utils.parametrizations.orthogonal(nn.Linear(shape[1], shape[0]).double(), **options)

    # torch has no second derivative of the product of reflections
    assert_alike(build, matrix(2, shape[1]), second=orthogonal_map == "cayley", tolerance=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("orthogonal_map", MAPS)
def test_weight_stays_orthogonal_during_training(shape: tuple[int, int], orthogonal_map: str) -> None:
    layer = layer_of(rg, shape, orthogonal_map=orthogonal_map)
    optimizer = rg.optim.SGD(layer.parameters(), lr=0.1)
    start = layer.weight.detach().clone()
    for _ in range(5):
        optimizer.zero_grad()
        (layer.weight * rg.tensor(matrix(*shape)[::-1].copy())).sum().backward()
        optimizer.step()
    weight = layer.weight.detach()
    gram = weight.mT @ weight if shape[0] >= shape[1] else weight @ weight.mT
    np.testing.assert_allclose(gram.numpy(), np.eye(min(shape)), atol=1e-10)
    assert not rg.allclose(weight, start)


@pytest.mark.parametrize("orthogonal_map", MAPS)
def test_orthogonal_weight_is_not_changed_by_parametrizing(orthogonal_map: str) -> None:
    q = np.linalg.qr(matrix(4, 4))[0]
    for library in (rg, torch):
        layer = library.nn.Linear(4, 4, bias=False).double()
        with library.no_grad():
            layer.weight.copy_(library.tensor(q))
        library.nn.utils.parametrizations.orthogonal(layer, orthogonal_map=orthogonal_map)
        np.testing.assert_allclose(layer.weight.detach().numpy(), q, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_initial_orthogonal_weight_agrees_with_torch(shape: tuple[int, int]) -> None:
    """In the cases without randomness: square weights with a base, and reflections without one."""
    options: list[dict[str, Any]] = [{"orthogonal_map": "householder", "use_trivialization": False}]
    if shape[0] == shape[1]:
        options += [{"orthogonal_map": name} for name in MAPS]
    for chosen in options:
        close(layer_of(rg, shape, **chosen).weight, layer_of(torch, shape, **chosen).weight, str(chosen), 1e-10)


def test_assigning_an_orthogonal_weight() -> None:
    q = np.linalg.qr(matrix(5, 3))[0]
    for name in MAPS:
        layer = layer_of(rg, (5, 3), orthogonal_map=name)
        layer.weight = rg.tensor(q)
        np.testing.assert_allclose(layer.weight.detach().numpy(), q, atol=1e-12)


def test_orthogonal_parametrization_of_complex_weights_is_unitary() -> None:
    layer = rg.nn.Linear(3, 3, bias=False, dtype=rg.complex128)
    rg.nn.utils.parametrizations.orthogonal(layer)
    weight = layer.weight
    np.testing.assert_allclose((weight.mH @ weight).detach().numpy(), np.eye(3), atol=1e-12)


@parity
def test_orthogonal_parametrization_refuses_wrong_uses(m: Any) -> Any:
    orthogonal = m.nn.utils.parametrizations.orthogonal
    fixed = layer_of(m, (4, 4), orthogonal_map="cayley")
    one_way = layer_of(m, (4, 4), orthogonal_map="cayley", use_trivialization=False)
    return [
        attempt(lambda: setattr(one_way, "weight", m.eye(4, dtype=m.float64))),
        attempt(lambda: orthogonal(m.nn.Linear(2, 2), "nothing")),
        attempt(lambda: orthogonal(m.nn.Linear(2, 2), "bias")),
        attempt(lambda: orthogonal(m.nn.Linear(2, 2), orthogonal_map="givens")),
        attempt(lambda: orthogonal(m.nn.Linear(2, 2, dtype=m.complex128), orthogonal_map="householder")),
        attempt(lambda: fixed.parametrizations.weight[0].right_inverse(m.ones(2, 2, dtype=m.float64))),
        attempt(lambda: setattr(layer_of(m, (4, 4), orthogonal_map="cayley", use_trivialization=False), "weight", 1)),
    ]
