"""Modules as functions of their parameters, compared with torch."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, message, parity


def net(lib: Any) -> Any:
    layers = [lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.Linear(4, 2)]
    model = lib.nn.Sequential(*layers)
    for number, parameter in enumerate(model.parameters()):
        parameter.data = lib.linspace(-1, 1, parameter.numel()).reshape(parameter.shape) * 0.5**number
    return model


@parity
def test_functional_call(lib: Any) -> Any:
    model = net(lib)
    x = lib.linspace(0, 1, 6).reshape(2, 3)
    changed = {"0.weight": lib.ones(4, 3), "2.bias": lib.zeros(2)}
    report = [lib.func.functional_call(model, changed, (x,)), lib.func.functional_call(model, changed, x), model(x)]
    loss = lambda weights: lib.func.functional_call(model, weights, (x,)).sum()  # noqa: E731
    gradients = lib.func.grad(loss)({name: each.detach() for name, each in model.named_parameters()})
    return [*report, sorted(gradients), *[gradients[name] for name in sorted(gradients)]]


@parity
def test_functional_call_with_several_dicts_and_strict(lib: Any) -> Any:
    model = net(lib)
    x = lib.ones(1, 3)
    call = lib.func.functional_call
    weights = {name: each.detach() for name, each in model.named_parameters()}
    return [
        call(model, ({"0.bias": lib.zeros(4)}, {"2.bias": lib.ones(2)}), x),
        attempt(lambda: call(model, ({"0.bias": lib.zeros(4)}, {"0.bias": lib.zeros(4)}), x)),
        attempt(lambda: call(model, {"0.bias": lib.zeros(4)}, x, strict=True)),
        attempt(lambda: call(model, {**weights, "other": lib.zeros(4)}, x, strict=True)),
        call(model, weights, x, strict=True),
        call(model, {"other": lib.zeros(1)}, x),
    ]


@parity
def test_functional_call_updates_the_dict_with_reassigned_buffers(lib: Any) -> Any:
    class Counting(lib.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", lib.zeros(()))
            self.register_buffer("largest", lib.zeros(()))
            self.weight = lib.nn.Parameter(lib.ones(()))

        def forward(self, x: Any, fails: bool = False) -> Any:
            self.calls = self.calls + 1
            self.largest.copy_(x.max())
            if fails:
                raise ValueError
            return x * self.calls * self.weight

    module, x = Counting(), lib.tensor([1.0, 2.0])
    call = lib.func.functional_call
    state = {"calls": lib.tensor(4.0), "largest": lib.tensor(0.0), "other": lib.tensor(7.0)}
    report = [call(module, state, x), dict(state), call(module, state, x), dict(state)]
    report += [attempt(lambda: call(module, state, x, {"fails": True})), dict(state)]
    several = ({"calls": lib.tensor(4.0)}, {"largest": lib.tensor(0.0)})
    return [*report, call(module, several, x), several, dict(module.named_buffers())]


def test_functional_call_accepts_a_read_only_mapping() -> None:
    norm = rg.nn.BatchNorm1d(2)
    state = MappingProxyType({"running_mean": rg.ones(2)})
    assert rg.func.functional_call(norm, state, rg.zeros(3, 2)).tolist() == [[0.0, 0.0]] * 3
    assert state["running_mean"].tolist() == pytest.approx([0.9, 0.9])
    assert norm.running_mean.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("lib", [torch, rg], ids=["torch", "retrograd"])
def test_functional_call_with_tied_weights(lib: Any) -> None:
    model = lib.nn.Sequential(lib.nn.Linear(2, 2, bias=False), lib.nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    x, twos = lib.ones(1, 2), lib.full((2, 2), 2.0)
    assert lib.func.functional_call(model, {"0.weight": twos}, x).tolist() == [[16.0, 16.0]]
    call = lambda: lib.func.functional_call(model, {"0.weight": twos, "1.weight": twos * 2}, x)  # noqa: E731
    assert "multiple values for keys" in message(call)
    untied = lib.func.functional_call(model, {"0.weight": twos, "1.weight": twos * 2}, x, tie_weights=False)
    assert untied.tolist() == [[32.0, 32.0]]


def test_functional_call_restores_the_module_after_an_error() -> None:
    model = net(rg)
    before = [id(each) for each in model.parameters()]
    with pytest.raises(RuntimeError):
        rg.func.functional_call(model, {"0.weight": rg.ones(1, 7)}, rg.ones(2, 3))
    assert [id(each) for each in model.parameters()] == before


def test_functional_call_refuses_a_parametrized_tensor() -> None:
    """torch assigns it through ``right_inverse``, which overwrites the learned originals and has no gradient."""
    model = net(rg)
    rg.nn.utils.parametrizations.weight_norm(model[2])
    before = model(rg.ones(1, 3)).detach()
    text = message(lambda: rg.func.functional_call(model, {"2.weight": rg.ones(2, 4)}, rg.ones(1, 3)))
    wanted = ["'2.weight'", "2.parametrizations.weight.original0", "2.parametrizations.weight.original1"]
    assert [word for word in wanted if word not in text] == []
    assert rg.equal(model(rg.ones(1, 3)), before)


def test_functional_call_refuses_a_property() -> None:
    class Doubled(rg.nn.Linear):
        @property
        def double(self) -> rg.Tensor:
            return 2 * self.weight

    text = message(lambda: rg.func.functional_call(Doubled(2, 2), {"double": rg.ones(2, 2)}, rg.ones(1, 2)))
    assert "'double' is a property of Doubled" in text
    assert "what it is computed from" in text


def test_vmap_over_an_ensemble_of_modules() -> None:
    models = [net(rg) for _ in range(3)]
    for number, model in enumerate(models):
        model[0].weight.data = model[0].weight.data + number
    parameters, buffers = rg.func.stack_module_state(models)
    x = rg.rand(5, 3)
    call = lambda p, b: rg.func.functional_call(models[0], (p, b), (x,))  # noqa: E731
    together = rg.vmap(call)(parameters, buffers)
    np.testing.assert_allclose(together.detach().numpy(), np.stack([m(x).detach().numpy() for m in models]), rtol=1e-5)
    assert all(each.is_leaf and each.requires_grad for each in parameters.values())


@parity
def test_stack_module_state_refuses_unlike_modules(lib: Any) -> Any:
    stacked = lib.func.stack_module_state
    model = net(lib)
    frozen = net(lib).requires_grad_(False)
    return [
        attempt(lambda: stacked([])),
        attempt(lambda: stacked([model, net(lib).eval()])),
        attempt(lambda: stacked([model, lib.nn.Linear(1, 1)])),
        attempt(lambda: stacked([model, frozen])),
    ]


@pytest.mark.parametrize("training", [True, False])
def test_replace_all_batch_norm_modules(training: bool) -> None:
    def program(lib: Any) -> Any:
        model = lib.nn.Sequential(lib.nn.BatchNorm1d(3), lib.nn.Sequential(lib.nn.BatchNorm1d(3), lib.nn.Tanh()))
        model.append(lib.nn.InstanceNorm1d(3, track_running_stats=True))
        model.train(training)
        batch = (lib.arange(24.0) ** 2 % 7).reshape(2, 4, 3)
        refused = attempt(lambda: lib.vmap(model[:2])(batch)) if training else ""
        returned = lib.func.replace_all_batch_norm_modules_(model)
        return [
            refused,
            returned is model,
            sorted(name for name, _ in model.named_buffers()),
            lib.vmap(model[:2])(batch),
            attempt(lambda: lib.func.grad(lambda x: (model[:2](x) ** 3).sum())(batch[0])),
        ]

    parity(program)()


@parity
def test_functional_call_takes_only_dictionaries(m: Any) -> Any:
    layer = m.nn.Linear(2, 2)
    wrong = [3, None, [3], [{"weight": m.ones(2, 2)}, m.ones(2)], m.ones(2, 2)]
    return [attempt(lambda given=given: m.func.functional_call(layer, given, m.ones(2))) for given in wrong]
