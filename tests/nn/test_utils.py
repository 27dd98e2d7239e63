"""nn.utils: clipping, parameters as a vector, padded sequences, functional_call."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity


def with_grads(m: Any, *grads: Any) -> list[Any]:
    parameters = []
    for grad in grads:
        value = m.tensor(grad)
        parameter = m.nn.Parameter(m.zeros(value.shape))
        parameter.grad = value
        parameters.append(parameter)
    return [*parameters, m.nn.Parameter(m.zeros(3))]  # the last parameter has no gradient


GRADS = ([3.0, -4.0], [[12.0]], [0.5, 0.25])


@parity
def test_clip_grad_norm(m: Any) -> Any:
    report: list[Any] = []
    for order in (2.0, 1, 3.0, math.inf, 0.5):
        for limit in (1.0, 100.0):
            parameters = with_grads(m, *GRADS)
            total = m.nn.utils.clip_grad_norm_(parameters, limit, norm_type=order, foreach=None)
            report.append([total, [p.grad for p in parameters]])
    return report


@parity
def test_clip_grad_value(m: Any) -> Any:
    parameters = with_grads(m, *GRADS)
    m.nn.utils.clip_grad_value_(parameters, 2)
    single = with_grads(m, [5.0])[0]
    m.nn.utils.clip_grad_value_(single, 0.5)
    return [[p.grad for p in parameters], single.grad]


@parity
def test_get_total_norm_and_clip_grads_with_norm(m: Any) -> Any:
    utils, parameters = m.nn.utils, with_grads(m, *GRADS)
    grads = [p.grad for p in parameters if p.grad is not None]
    total = utils.get_total_norm(grads)
    utils.clip_grads_with_norm_(parameters, 1.0, total)
    return [total, utils.get_total_norm(iter(grads)), utils.get_total_norm([]), utils.get_total_norm(m.ones(4))]


@parity
def test_clipping_with_norms_that_are_not_finite(m: Any) -> Any:
    parameters = with_grads(m, [math.inf, 1.0], [1.0])
    report: list[Any] = [
        attempt(lambda: m.nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)),
        [str(p.grad) for p in parameters[:2]],
    ]
    total = m.nn.utils.clip_grad_norm_(parameters, 1.0)
    return [*report, str(total), [str(p.grad) for p in parameters[:2]]]


def test_clipping_error_names_the_gradients_that_are_not_finite() -> None:
    parameters = with_grads(rg, [1.0], [math.nan], [math.inf])
    with pytest.raises(RuntimeError, match="number 1, 2") as error:
        rg.nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert "non-finite, so it cannot be clipped" in str(error.value)


def test_clipping_refuses_a_model() -> None:
    for clip in (rg.nn.utils.clip_grad_norm_, rg.nn.utils.clip_grad_value_):
        with pytest.raises(TypeError, match=rf"{clip.__name__}: expected tensors, but got Linear; pass its parameters"):
            clip(rg.nn.Linear(1, 1), 1.0)


def test_clipping_an_exhausted_generator_warns() -> None:
    with pytest.warns(UserWarning, match="empty generator"):
        rg.nn.utils.clip_grad_value_((p for p in []), 1.0)


def test_clipping_keeps_dtypes() -> None:
    wide, narrow = with_grads(rg, [3.0])[0], rg.nn.Parameter(rg.zeros(1, dtype=rg.float64))
    narrow.grad = rg.tensor([4.0], dtype=rg.float64)
    assert rg.nn.utils.clip_grad_norm_([wide, narrow], 1.0).item() == 5
    assert (wide.grad.dtype, narrow.grad.dtype) == (rg.float32, rg.float64)
    assert narrow.grad.item() == pytest.approx(0.8, rel=1e-5)


@parity
def test_parameters_to_vector_and_back(m: Any) -> Any:
    net = m.nn.Linear(2, 3)
    with m.no_grad():
        net.weight.copy_(m.arange(6.0).reshape(3, 2))
        net.bias.fill_(7)
    vector = m.nn.utils.parameters_to_vector(net.parameters())
    (grad,) = m.autograd.grad((vector * m.arange(9.0)).sum(), net.bias)
    other = m.arange(9.0) * 2
    m.nn.utils.vector_to_parameters(other, net.parameters())
    other[0] = 100.0
    return [
        vector.detach(),
        grad,
        net.weight,
        net.bias,
        attempt(lambda: m.nn.utils.vector_to_parameters([1.0], net.parameters())),
        attempt(lambda: m.nn.utils.vector_to_parameters(m.ones(3), net.parameters())),
    ]


@parity
def test_pad_sequence(m: Any) -> Any:
    pad = m.nn.utils.rnn.pad_sequence
    sequences = [m.ones(2, 3), m.ones(4, 3) * 2, m.ones(1, 3) * 3]
    return [
        pad(sequences),
        pad(sequences, batch_first=True, padding_value=-1.0),
        pad(sequences, batch_first=True, padding_side="left"),
        m.nn.utils.rnn.unpad_sequence(pad(sequences), m.tensor([2, 4, 1])),
        attempt(lambda: pad([])),
        attempt(lambda: pad(sequences, padding_side="top")),
    ]


def test_gradients_through_pad_sequence() -> None:
    x = rg.ones(2, requires_grad=True)
    padded = rg.nn.utils.rnn.pad_sequence([x, rg.ones(3)], batch_first=True)
    (padded * rg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 2])


def test_functional_call_takes_only_tensors() -> None:
    layer = rg.nn.Linear(2, 1)
    for lib, module in ((rg, layer), (torch, torch.nn.Linear(2, 1))):
        with pytest.raises(TypeError, match=r"not an instance|'bias' must be a Tensor, but is 3"):
            lib.func.functional_call(module, {"bias": 3}, lib.ones(2))
    assert isinstance(layer.bias, rg.nn.Parameter)


@parity
def test_pruning_and_weight_norm_refuse_wrong_names_and_dims(lib: Any) -> Any:
    utils = {name: importlib.import_module(f"{lib.__name__}.nn.utils.{name}") for name in ("prune", "parametrizations")}
    layer, other = lib.nn.Linear(2, 3, bias=False), lib.nn.Linear(2, 3, bias=False)
    calls = [
        lambda: utils["prune"].l1_unstructured(layer, "bias", 1),
        lambda: lib.nn.utils.weight_norm(other, "bias"),
        lambda: utils["parametrizations"].weight_norm(other, dim=2),
        lambda: utils["parametrizations"].weight_norm(lib.nn.LayerNorm(3), dim=-2),
    ]
    return [*(attempt(call) for call in calls), list(other.state_dict())]


@parity
def test_functional_call_returns_reassigned_buffers_in_the_dict(lib: Any) -> Any:
    class Counting(lib.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", lib.ones(1))
            self.weight = lib.nn.Parameter(lib.ones(1))

        def forward(self, fails: bool) -> Any:
            self.count = self.count + 1
            if fails:
                raise KeyError("after the assignment")
            return self.count * self.weight

    module, weight = Counting(), lib.tensor([3.0])
    alone, failed, several = ({"count": lib.tensor([10.0]), "weight": weight} for _ in range(3))
    call = lib.func.functional_call
    call(module, alone, (False,))
    results = [call(module, alone, (False,)), attempt(lambda: call(module, failed, (True,))), alone["weight"] is weight]
    results.append(call(module, (several,), (False,)))
    return [*results, *(given["count"] for given in (alone, failed, several)), module.count]


@parity
def test_functional_call_with_attributes_that_are_not_parameters(lib: Any) -> Any:
    class Scaled(lib.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = lib.nn.ReLU()
            self.scale = lib.ones(1)
            self.count = 3

        def forward(self, x: Any) -> Any:
            return x * self.scale + getattr(self, "shift", 0)

    module, x = Scaled(), lib.ones(2)
    call = lib.func.functional_call
    names = ("scale", "shift", "inner.new", "inner", "count", "", "inner.", "nowhere.scale")
    report = [attempt(lambda name=name: call(module, {name: lib.tensor([5.0])}, x)) for name in names]
    slope = lib.func.grad(lambda scale: call(module, {"scale": scale}, x).sum())(lib.tensor([2.0]))
    return [*report, slope, module.scale, hasattr(module, "shift"), hasattr(module.inner, "new")]
