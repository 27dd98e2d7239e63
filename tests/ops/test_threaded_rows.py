"""Layers and activations whose work is shared among threads agree with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.anomaly import AnomalyError, watch
from retrograd.core import blocks, scratch
from retrograd.core.scratch import scratch_like
from retrograd.ops import _rows

LAYERS = {
    "layer_norm": lambda t: t.nn.LayerNorm(24),
    "rms_norm": lambda t: t.nn.RMSNorm(24),
    "group_norm": lambda t: t.nn.GroupNorm(3, 6),
    "batch_norm": lambda t: t.nn.BatchNorm2d(6),
    "softmax": lambda t: t.nn.Softmax(-1),
    "log_softmax": lambda t: t.nn.LogSoftmax(-1),
    "gelu": lambda t: t.nn.GELU(),
    "tanh_gelu": lambda t: t.nn.GELU(approximate="tanh"),
    "silu": lambda t: t.nn.SiLU(),
    "mish": lambda t: t.nn.Mish(),
    "softplus": lambda t: t.nn.Softplus(2.0, 3.0),
    "elu": lambda t: t.nn.ELU(0.7),
    "sigmoid": lambda t: t.nn.Sigmoid(),
    "erf": lambda t: t.erf,
    "lgamma": lambda t: t.lgamma,
}


@pytest.fixture(params=[1, 2, 3])
def shared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make threads share even small arrays."""
    before = rg.get_num_threads()
    monkeypatch.setattr(blocks, "HEAVY", 1)
    monkeypatch.setattr(blocks, "BLOCK", 500)
    monkeypatch.setattr(_rows, "SHARED_BLOCK", 500)
    rg.set_num_threads(request.param)
    yield request.param
    rg.set_num_threads(before)


@pytest.mark.parametrize("samples", [1, 2, 7, 16])
@pytest.mark.parametrize("name", LAYERS)
def test_threaded_layers_agree_with_torch(shared: int, name: str, samples: int) -> None:
    rng = np.random.default_rng(samples)
    given, g = rng.standard_normal((2, samples, 6, 5, 24))
    found = []
    for t in (rg, torch):
        layer = LAYERS[name](t)
        parameters = list(layer.parameters()) if hasattr(layer, "parameters") else []
        layer = layer.double() if hasattr(layer, "double") else layer
        with t.no_grad():
            for number, parameter in enumerate(parameters):
                parameter.copy_(t.linspace(0.5, 1.5 + number, parameter.numel(), dtype=t.float64))
        x = t.tensor(given, requires_grad=True)
        result = layer(x)
        result.backward(t.tensor(g))
        found.append([result.detach().numpy(), x.grad.numpy(), *(p.grad.numpy() for p in parameters)])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("row", [0, 17, 79])
def test_birth_in_any_thread_of_a_layer_is_found(shared: int, row: int) -> None:
    """Squares of finite numbers overflow in one row of eighty."""
    x = rg.ones(80, 24)
    x[row, 5] = 3e30
    x.requires_grad_()
    layer = rg.nn.LayerNorm(24)
    with pytest.raises(AnomalyError) as caught, watch():
        (layer(x) * rg.tensor(0.0).log()).sum().backward()
    assert caught.value.event.op == "log"
    with pytest.raises(AnomalyError) as caught, watch():
        rg.nn.functional.silu(x * 1e9).sum().backward()
    assert (caught.value.event.op, caught.value.event.index) == ("mul", (row, 5))
    with pytest.raises(AnomalyError) as caught, watch():
        rg.nn.functional.elu(-x, alpha=float("inf")).sum().backward()
    assert caught.value.event.op == "elu"
    x = rg.full((80, 24), 2.0)
    x[row, 5] = 3e37
    x.requires_grad_()
    with pytest.raises(AnomalyError) as caught, watch():
        born = rg.lgamma(x)
        born.sum().backward()
    event = caught.value.event
    assert (event.op, event.index, event.code_line.strip()) == ("lgamma", (row, 5), "born = rg.lgamma(x)")


def test_scratch_memory_does_not_grow_with_many_sizes() -> None:
    scratch_like(np.empty(3, np.float32))
    kept = scratch._scratch
    before = len(kept.beginnings), [len(vectors) for vectors in kept.vectors.values()]
    for size in range(1, 3000, 7):
        assert scratch_like(np.empty((size, 2), np.float32)).shape == (size, 2)
    assert (len(kept.beginnings), [len(vectors) for vectors in kept.vectors.values()]) == before


def test_nested_sharing_of_work_does_not_deadlock() -> None:
    """Shared work may call functions that share work themselves."""
    before = rg.get_num_threads()
    rg.set_num_threads(2)
    inner: list[int] = []
    try:
        blocks.share_out(
            lambda _: blocks.share_out(inner.append, [(1,), (2,), (3,)]), [(number,) for number in range(20)]
        )
    finally:
        rg.set_num_threads(before)
    assert sorted(inner) == sorted([1, 2, 3] * 20)
    assert not blocks._thread.is_sharing


@pytest.mark.parametrize("name", ["gelu", "silu", "softplus", "erf", "sigmoid"])
def test_threaded_activations_agree_with_torch(name: str) -> None:
    before = rg.get_num_threads()
    rng = np.random.default_rng(5)
    given, g = rng.standard_normal((2, blocks.HEAVY + 77)).astype(np.float32) * 3
    found = []
    for t in (rg, torch):
        x = t.tensor(given, requires_grad=True)
        if t is rg:
            rg.set_num_threads(2)
        try:
            result = LAYERS[name](t)(x)
            result.backward(t.tensor(g))
        finally:
            rg.set_num_threads(before)
        found.append([result.detach().numpy(), x.grad.numpy()])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-6, atol=2e-6)
