"""Averaged models and the other tools of swa_utils, compared with torch."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.optim.swa_utils

import retrograd as rg
from tests.parity import attempt, parity

MEANS = {
    "default": lambda utils: {},
    "ema": lambda utils: {"avg_fn": utils.get_ema_avg_fn(0.9)},
    "swa": lambda utils: {"avg_fn": utils.get_swa_avg_fn()},
    "multi ema": lambda utils: {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.9)},
    "multi swa": lambda utils: {"multi_avg_fn": utils.get_swa_multi_avg_fn()},
}


def net(library: Any) -> Any:
    nn = library.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
    rng = np.random.default_rng(0)
    state = {key: rng.uniform(0.5, 2, value.shape) for key, value in model.state_dict().items()}
    model.load_state_dict({key: library.tensor(np.asarray(value)) for key, value in state.items()})
    return model


def batches(library: Any, count: int = 4) -> list[Any]:
    rng = np.random.default_rng(1)
    return [library.tensor(rng.normal(size=(8, 3))) for _ in range(count)]


# with buffers, torch's "multi swa" fails on the integer counter of batches
CASES = [
    (kind, use_buffers) for kind in MEANS for use_buffers in (False, True) if not (use_buffers and kind == "multi swa")
]


@pytest.mark.parametrize(("kind", "use_buffers"), CASES)
def test_averaged_model_agrees_with_torch(kind: str, use_buffers: bool) -> None:
    @parity
    def program(library: Any) -> Any:
        utils, model = library.optim.swa_utils, net(library)
        averaged = utils.AveragedModel(model, use_buffers=use_buffers, **MEANS[kind](utils))
        optimizer = library.optim.SGD(model.parameters(), lr=0.1)
        for batch in batches(library):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            averaged.update_parameters(model)
        return dict(averaged.state_dict()), averaged.eval()(batches(library)[0])

    program()


def test_averages_computed_by_hand() -> None:
    model = rg.nn.Linear(1, 1)
    mean, ema = (
        rg.optim.swa_utils.AveragedModel(model),
        rg.optim.swa_utils.AveragedModel(model, multi_avg_fn=rg.optim.swa_utils.get_ema_multi_avg_fn(0.75)),
    )
    for value in (4.0, 8.0, 0.0):
        rg.nn.init.constant_(model.weight, value)
        mean.update_parameters(model)
        ema.update_parameters(model)
    assert mean.module.weight.item() == 4.0
    assert ema.module.weight.item() == (4.0 * 0.75 + 8.0 * 0.25) * 0.75
    assert int(mean.n_averaged) == 3


def test_averaging_does_not_change_the_model() -> None:
    model = net(rg)
    before = copy.deepcopy(model.state_dict())
    averaged = rg.optim.swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    averaged.update_parameters(model)
    assert all((before[key] == value).all() for key, value in model.state_dict().items())
    assert all(p.requires_grad and p.is_leaf for p in averaged.parameters())


@parity
def test_update_bn(library: Any) -> Any:
    model = net(library)
    model[1].momentum = 0.3
    model.eval()
    library.optim.swa_utils.update_bn([(batch, "label") for batch in batches(library)], model)
    return dict(model.state_dict()), model.training, model[1].momentum


def test_update_bn_restores_the_model_after_an_error() -> None:
    model = net(rg).eval()
    with pytest.raises(RuntimeError):
        rg.optim.swa_utils.update_bn([rg.ones(2, 7, dtype=rg.float64)], model)
    assert not model.training
    assert model[1].momentum == 0.1


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_swalr_agrees_with_torch(strategy: str, epochs: int) -> None:
    @parity
    def program(library: Any) -> Any:
        params = [library.ones(1, requires_grad=True) for _ in range(2)]
        groups = [{"params": [params[0]]}, {"params": [params[1]], "lr": 0.2}]
        optimizer = library.optim.SGD(groups, lr=0.5)
        scheduler = library.optim.swa_utils.SWALR(optimizer, [0.1, 0.3], epochs, strategy)
        rates = [scheduler.get_last_lr()]
        for _ in range(5):
            optimizer.step()
            scheduler.step()
            rates.append([round(lr, 12) for lr in scheduler.get_last_lr()])
        state = scheduler.state_dict()
        scheduler.load_state_dict(state)
        optimizer.step()
        scheduler.step()
        return rates, sorted(set(state) - {"_is_initial", "verbose"}), scheduler.get_last_lr()

    program()


@parity
def test_swa_utils_refuse_wrong_arguments(library: Any) -> Any:
    utils = library.optim.swa_utils
    optimizer = library.optim.SGD([library.ones(1, requires_grad=True)], lr=0.5)
    ema = utils.get_ema_avg_fn()
    return [
        attempt(lambda: utils.get_ema_avg_fn(1.5)),
        attempt(lambda: utils.get_ema_multi_avg_fn(-0.1)),
        attempt(lambda: utils.SWALR(optimizer, 0.1, anneal_strategy="straight")),
        attempt(lambda: utils.SWALR(optimizer, 0.1, anneal_epochs=-1)),
        attempt(lambda: utils.SWALR(optimizer, [0.1, 0.2])),
        attempt(lambda: utils.AveragedModel(net(library), avg_fn=ema, multi_avg_fn=ema)),
    ]


def test_state_dict_of_an_averaged_model_loads_here_and_in_torch() -> None:
    model = net(rg)
    averaged = rg.optim.swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    other = rg.optim.swa_utils.AveragedModel(net(rg))
    other.load_state_dict(averaged.state_dict())
    theirs = torch.optim.swa_utils.AveragedModel(net(torch))
    theirs.load_state_dict({key: torch.tensor(value.numpy()) for key, value in averaged.state_dict().items()})
    for loaded in (other, theirs):
        state = loaded.state_dict()
        assert list(state) == list(averaged.state_dict())
        for key, value in averaged.state_dict().items():
            np.testing.assert_array_equal(state[key].numpy(), value.numpy())


def test_averaging_a_different_model_is_refused() -> None:
    averaged = rg.optim.swa_utils.AveragedModel(rg.nn.Linear(2, 1))
    with pytest.raises(ValueError, match="which has 2 parameters, but this one has 1"):
        averaged.update_parameters(rg.nn.Linear(2, 1, bias=False))
    assert averaged.n_averaged.item() == 0
