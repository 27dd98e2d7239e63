"""Lazy modules, whose sizes come from the first input."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.nn.modules.lazy import LazyModuleMixin
from retrograd.nn.parameter import is_lazy
from tests.nn.twins import assert_alike
from tests.parity import attempt, parity

PLACES = {1: (5,), 2: (5, 4), 3: (5, 4, 3)}
LAYERS: dict[str, tuple[int, ...]] = {"LazyLinear(3)": (4, 5), "LazyLinear(3, bias=False)": (2, 4, 5)}
for n, places in PLACES.items():
    LAYERS[f"LazyConv{n}d(4, 2, groups=2)"] = (2, 6, *places)
    LAYERS[f"LazyConv{n}d(4, 3, bias=False, padding='same')"] = (6, *places)
    LAYERS[f"LazyConvTranspose{n}d(4, 2, stride=2, groups=2)"] = (2, 6, *places)
    LAYERS[f"LazyBatchNorm{n}d()"] = (2, 6, *places)
    LAYERS[f"LazyBatchNorm{n}d(affine=False, momentum=None)"] = (2, 6, *places)
    LAYERS[f"LazyInstanceNorm{n}d(bias=False, track_running_stats=False)"] = (2, 6, *places)


def build(nn: Any, text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that lazy modules are experimental
        return eval(f"nn.{text}", {"nn": nn})


def values(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


@pytest.mark.parametrize("text", LAYERS)
def test_lazy_module_before_and_after_the_first_call(text: str) -> None:
    ours, theirs = build(rg.nn, text), build(torch.nn, text)
    assert repr(ours) == repr(theirs)
    assert str(dict(ours.state_dict())) == str(dict(theirs.state_dict()))
    ours(rg.tensor(values(LAYERS[text]), dtype=rg.float32))
    theirs(torch.tensor(values(LAYERS[text]), dtype=torch.float32))
    assert repr(ours) == repr(theirs)
    assert type(ours) is getattr(rg.nn, type(theirs).__name__)
    assert {key: (tuple(v.shape), str(v.dtype).split(".")[1]) for key, v in ours.state_dict().items()} == {
        key: (tuple(v.shape), str(v.dtype).split(".")[1]) for key, v in theirs.state_dict().items()
    }


@pytest.mark.parametrize("text", LAYERS)
def test_lazy_module_agrees_with_torch(text: str) -> None:
    def ready(nn: Any) -> Any:
        library: Any = rg if nn is rg.nn else torch
        layer = build(nn, text)
        layer(library.tensor(values(LAYERS[text]), dtype=library.float32))
        return layer

    assert_alike(ready, values(LAYERS[text]))


@pytest.mark.parametrize("text", LAYERS)
def test_lazy_module_survives_pickle_and_deepcopy(text: str) -> None:
    layer = build(rg.nn, text)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert repr(twin) == repr(layer)
        twin(rg.tensor(values(LAYERS[text]), dtype=rg.float32))
        assert all(isinstance(p, rg.nn.Parameter) and not is_lazy(p) for p in twin.parameters())
    assert all(map(is_lazy, layer.parameters()))


@pytest.mark.parametrize("text", LAYERS)
def test_state_dicts_of_lazy_modules(text: str) -> None:
    x = rg.tensor(values(LAYERS[text]), dtype=rg.float32)
    full = build(rg.nn, text)
    full(x)
    full.eval()
    lazy = build(rg.nn, text).eval()
    lazy.load_state_dict(build(rg.nn, text).state_dict())  # both are uninitialized
    lazy.load_state_dict(full.state_dict())
    assert not lazy.has_uninitialized_params()
    assert (lazy(x) == full(x)).all()  # the first call must not draw new values
    assert repr(lazy) == repr(full)


def test_uninitialized_state_cannot_be_loaded_into_an_initialized_module() -> None:
    for library in (rg, torch):
        full, lazy = build(library.nn, "Linear(4, 3)"), build(library.nn, "LazyLinear(3)")
        with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
            full.load_state_dict(lazy.state_dict())


def test_lazy_module_converted_before_the_first_call() -> None:
    net = rg.nn.Sequential(rg.nn.LazyLinear(3), rg.nn.LazyBatchNorm1d(), rg.nn.LazyLinear(2)).double()
    assert all(p.dtype == rg.float64 and is_lazy(p) for p in net.parameters())
    assert net(rg.ones(4, 5, dtype=rg.float64)).dtype == rg.float64
    assert net[1].num_batches_tracked.dtype == rg.int64


def test_optimizer_made_before_the_first_call_of_a_lazy_module() -> None:
    net = rg.nn.LazyLinear(1, bias=False)
    optimizer = rg.optim.SGD(net.parameters(), lr=0.5)
    net(rg.ones(2, 3)).sum().backward()
    before = net.weight.detach().clone()
    optimizer.step()
    assert rg.allclose(net.weight.detach(), before - 1.0)


def test_lazy_module_frozen_before_the_first_call() -> None:
    layer = rg.nn.LazyLinear(3).requires_grad_(False)
    assert not layer(rg.ones(2, 4)).requires_grad
    assert not any(p.requires_grad for p in layer.parameters())


@parity
def test_uninitialized_parameters_refuse_operations(m: Any) -> Any:
    w = m.nn.UninitializedParameter()
    b = m.nn.UninitializedBuffer()
    return [
        isinstance(w, m.nn.Parameter),
        isinstance(b, m.nn.Parameter),
        w.requires_grad,
        b.requires_grad,
        w.dtype,
        repr(w),
        repr(b),
        attempt(lambda: w.shape),
        attempt(lambda: w + 1),
        attempt(lambda: 1 - w),
        attempt(lambda: m.exp(w)),
        attempt(lambda: m.cat([w, w])),
        attempt(lambda: w.numel()),
        attempt(lambda: m.nn.init.ones_(w)),
        attempt(lambda: w.zero_()),
    ]


@parity
def test_materialize_uninitialized_parameters(m: Any) -> Any:
    w = m.nn.UninitializedParameter(requires_grad=False, dtype=m.float64)
    b, v = m.nn.UninitializedBuffer(), m.nn.UninitializedBuffer()
    w.materialize((2, 3))
    b.materialize((4,), dtype=m.int64)
    v.materialize(5)
    shapes = w.shape, b.shape, v.shape
    return [isinstance(w, m.nn.Parameter), w.dtype, w.requires_grad, shapes, b.dtype, type(b) is m.Tensor]


def test_lazy_modules_refuse_wrong_first_inputs() -> None:
    for library in (rg, torch):
        with pytest.raises(RuntimeError, match="Expected 3D"):
            build(library.nn, "LazyConv2d(4, 3)")(library.ones(2, 3))
        with pytest.raises(ValueError, match="divisible by groups"):
            build(library.nn, "LazyConv2d(4, 3, groups=2)")(library.ones(1, 3, 5, 5))
        with pytest.raises(ValueError, match="expected 4D input"):
            build(library.nn, "LazyBatchNorm2d()")(library.ones(2, 3))
    with pytest.raises(ValueError, match="5 is not divisible by 2"):
        rg.nn.LazyConv1d(5, 3, groups=2)


def test_user_defined_lazy_module() -> None:
    class Scale(rg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = rg.nn.UninitializedParameter()

        def forward(self, x: Any) -> Any:
            return x * self.factor

    class LazyScale(LazyModuleMixin, Scale):
        calls = 0

        def initialize_parameters(self, x: Any) -> None:
            self.calls += 1
            self.factor.materialize(x.shape[-1:])
            rg.nn.init.constant_(self.factor, 2.0)

    layer = LazyScale()
    assert layer.has_uninitialized_params()
    assert (layer(rg.ones(2, 3)) == 2).all()
    assert (layer(x=rg.ones(2, 3)) == 2).all()
    assert layer.calls == 1


def test_lazy_module_that_leaves_a_parameter_uninitialized() -> None:
    class Forgetful(LazyModuleMixin):
        def __init__(self) -> None:
            super().__init__()
            self.factor = rg.nn.UninitializedParameter()

        def initialize_parameters(self, x: Any) -> None:
            """Do nothing."""

    with pytest.raises(RuntimeError, match="module Forgetful has not been fully initialized"):
        Forgetful()(rg.ones(2))
    with pytest.raises(NotImplementedError, match="initialize_parameters is not implemented for LazyModuleMixin"):
        LazyModuleMixin()(rg.ones(2))
