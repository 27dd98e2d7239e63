"""Plans: the layout of a step's work is reused from step to step, and made again when anything has changed."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd.optim import _blockwise
from retrograd.optim._blockwise import BLOCK, LARGE, LINE, SMALL, Plan

OPTIMIZERS = ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop", "Adadelta", "ASGD", "Rprop"]
SHAPES = [(3, 4), (5,), (SMALL + 4,), (2, 3), ()]
OPTIONS: dict[str, dict[str, Any]] = {"SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True}}


def training(t: Any, name: str, seed: int = 0) -> tuple[Any, list[Any], Callable[[], None]]:
    """Return an optimizer, its parameters, and a function that gives these new gradients."""
    rng = np.random.default_rng(seed)
    params = [t.tensor(rng.standard_normal(shape), requires_grad=True) for shape in SHAPES]

    def new_gradients() -> None:
        for param in params:
            param.grad = t.tensor(rng.standard_normal(tuple(param.shape)))

    return getattr(t.optim, name)(params, lr=0.01, **OPTIONS.get(name, {})), params, new_gradients


def replace_data(t: Any, optimizer: Any, params: list[Any]) -> None:
    for param in params[::2]:
        param.data = param.data * 0.5


def write_to_data(t: Any, optimizer: Any, params: list[Any]) -> None:
    with t.no_grad():
        for param in params:
            param.mul_(0.5)


def freeze_one(t: Any, optimizer: Any, params: list[Any]) -> None:
    params[1].grad = None


def transpose_one(t: Any, optimizer: Any, params: list[Any]) -> None:
    params[0].data = params[0].data.T.clone().T if t is torch else params[0].data.T.contiguous().T
    params[0].grad = params[0].grad.T.contiguous().T


def write_to_state(t: Any, optimizer: Any, params: list[Any]) -> None:
    for param in params:
        for value in optimizer.state[param].values():
            if isinstance(value, t.Tensor) and value.shape == param.shape and value.ndim:
                value *= 0.5


def replace_state(t: Any, optimizer: Any, params: list[Any]) -> None:
    for param in params:
        state = optimizer.state[param]
        for key, value in state.items():
            if isinstance(value, t.Tensor) and value.shape == param.shape and value.ndim:
                state[key] = value * 0.5


def forget_state(t: Any, optimizer: Any, params: list[Any]) -> None:
    if type(optimizer).__name__ != "Adagrad":  # Adagrad has state from the beginning
        optimizer.state.pop(params[1])


def load_state(t: Any, optimizer: Any, params: list[Any]) -> None:
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def change_options(t: Any, optimizer: Any, params: list[Any]) -> None:
    optimizer.param_groups[0]["lr"] = 0.05
    if "weight_decay" in optimizer.defaults:
        optimizer.param_groups[0]["weight_decay"] = 0.1


def split_the_group(t: Any, optimizer: Any, params: list[Any]) -> None:
    (group,) = optimizer.param_groups
    moved = group["params"].pop(3)
    optimizer.add_param_group({"params": [moved], "lr": 0.2})


EVENTS = [
    replace_data,
    write_to_data,
    freeze_one,
    transpose_one,
    write_to_state,
    replace_state,
    forget_state,
    load_state,
    change_options,
    split_the_group,
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_agree_with_torch_after_a_change_from_outside(name: str, event: Callable[..., None]) -> None:
    results = []
    for t in (rg, torch):
        optimizer, params, new_gradients = training(t, name)
        for number in range(6):
            new_gradients()
            if number == 3:
                event(t, optimizer, params)
            optimizer.step()
        results.append([param.detach().numpy() for param in params])
    # when loading, torch casts NAdam's float32 product of momenta to the parameter's dtype
    tolerance = 1e-7 if event is load_state else 1e-9
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=1e-3 * tolerance)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Collect the plans that are made."""
    made: list[Plan] = []
    original = Plan.__init__

    def init(self: Plan, *args: Any) -> None:
        made.append(self)
        original(self, *args)

    monkeypatch.setattr(Plan, "__init__", init)
    return made


def test_plan_is_made_once_and_again_after_a_change(plans: list[Plan]) -> None:
    optimizer, params, new_gradients = training(rg, "Adam")
    for _ in range(5):
        new_gradients()
        optimizer.step()
    assert len(plans) == 1
    replace_data(rg, optimizer, params)
    optimizer.step()
    optimizer.step()
    assert len(plans) == 2


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_plan_does_not_keep_gradients_alive(name: str) -> None:
    optimizer, params, new_gradients = training(rg, name)
    new_gradients()
    optimizer.step()
    arrays = [weakref.ref(param.grad._data) for param in params]
    optimizer.zero_grad()
    assert [ref() for ref in arrays] == [None] * len(params)


def test_plan_does_not_keep_replaced_state_alive() -> None:
    optimizer, params, new_gradients = training(rg, "Adam")
    new_gradients()
    optimizer.step()
    before = [weakref.ref(optimizer.state[param]["exp_avg"]._data) for param in params]
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert [ref() for ref in before] == [None] * len(params)


def test_steps_keep_the_memory_of_parameters_and_the_state_tensors() -> None:
    optimizer, params, new_gradients = training(rg, "Adam")
    new_gradients()
    arrays = [param.detach().numpy() for param in params]
    optimizer.step()
    remembered = [optimizer.state[param]["exp_avg"] for param in params]
    for _ in range(3):
        new_gradients()
        before = [tensor.clone() for tensor in remembered]
        optimizer.step()
        for param, array, tensor, earlier in zip(params, arrays, remembered, before, strict=True):
            assert np.shares_memory(param.detach().numpy(), array)
            assert optimizer.state[param]["exp_avg"] is tensor
            assert not rg.equal(tensor, earlier)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copied_optimizer_is_independent(duplicate: Callable[[Any], Any]) -> None:
    optimizer, params, new_gradients = training(rg, "Adam")
    new_gradients()
    optimizer.step()
    other, others = duplicate((optimizer, params))
    expected = [param.detach().clone() for param in params]
    for param, twin in zip(params, others, strict=True):
        twin.grad = param.grad.clone()
    other.step()
    assert all(rg.equal(param, before) for param, before in zip(params, expected, strict=True))
    optimizer.step()
    assert all(rg.equal(param, twin) for param, twin in zip(params, others, strict=True))


def test_plan_is_made_again_after_an_interrupt(plans: list[Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer, params, new_gradients = training(rg, "Adam")
    new_gradients()
    optimizer.step()

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_blockwise._Block, "run", interrupt)
        with pytest.raises(KeyboardInterrupt):
            optimizer.load_state_dict(optimizer.state_dict())
            optimizer.step()
    made = len(plans)
    optimizer.step()
    assert len(plans) == made + 1
    assert all(bool(param.isfinite().all()) for param in params)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_adjacent_parts_of_one_array_are_updated_together(name: str) -> None:
    def run(t: Any) -> Any:
        flat = t.arange(1.0, 13.0, dtype=t.float64)
        parts = [flat[:4], flat[4:10].reshape(2, 3), flat[10:]]
        params = [part.detach().requires_grad_() for part in parts]
        optimizer = getattr(t.optim, name)(params, lr=0.01, **OPTIONS.get(name, {}))
        for number in range(1, 4):
            for param in params:
                param.grad = param.detach() * number - 3
            optimizer.step()
        return optimizer, flat

    optimizer, flat = run(rg)
    np.testing.assert_allclose(flat.numpy(), run(torch)[1].numpy(), rtol=1e-9)
    assert len(optimizer._plan._alone) == 1
    assert not optimizer._plan._shared


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_of_parameters_without_elements(name: str) -> None:
    for shapes in ([(0, 3)], [(0, 3), (3,)], [(0,), (0,)]):
        params = [rg.ones(*shape, requires_grad=True) for shape in shapes]
        optimizer = getattr(rg.optim, name)(params)
        for _ in range(2):
            for param in params:
                param.grad = rg.ones(*param.shape)
            optimizer.step()
        assert all(bool((param != 1).all()) for param in params)


@given(st.lists(st.integers(0, 3 * BLOCK), min_size=1, max_size=6), st.integers(1, 5))
def test_blocks_cover_every_parameter_exactly(sizes: list[int], threads: int) -> None:
    tasks = [
        _blockwise._Task([number], [(rg.tensor(np.broadcast_to(np.float32(0), size)),)], _blockwise._Step())
        for number, size in enumerate(sizes)
    ]
    blocks = _blockwise._cut(tasks, threads)
    # as few blocks as possible: the borders of threads' shares add at most one less than the number of threads
    assert len(blocks) <= sum(max(-(-size // (BLOCK - LINE)), 1) for size in sizes) + threads - 1
    for task, size in zip(tasks, sizes, strict=True):
        borders = [(block._low, block._high) for block in blocks if block._task is task]
        assert task.is_in_blocks == (len(borders) > 1)
        assert borders[0][0] == 0
        assert borders[-1][1] == size
        for low, high in borders:
            assert low % LINE == 0
            assert 0 <= high - low <= BLOCK
            assert low < high or size == 0
        assert all(end == start for (_, end), (start, _) in pairwise(borders))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_number_of_threads_does_not_change_steps(name: str) -> None:
    """Every element is computed by the same operations, in whichever thread."""

    rng = np.random.default_rng(1)
    shapes = [(700, 500), (30,), (9_000,), (BLOCK + 1,), (400, 900), (7,), (2 * LARGE,)]
    start, *gradients = [[rng.standard_normal(shape, np.float32) for shape in shapes] for _ in range(4)]

    def run(threads: int) -> list[Any]:
        rg.set_num_threads(threads)
        params = [rg.tensor(values, requires_grad=True) for values in start]
        optimizer = getattr(rg.optim, name)(params, lr=0.01, **OPTIONS.get(name, {}))
        for step in gradients:
            for param, values in zip(params, step, strict=True):
                param.grad = rg.tensor(values)
            optimizer.step()
        return [param.detach().numpy() for param in params]

    before = rg.get_num_threads()
    try:
        alone = run(1)
        for threads in (2, 3, 4):
            for mine, other in zip(run(threads), alone, strict=True):
                np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-7)
    finally:
        rg.set_num_threads(before)


def test_plan_is_made_again_for_another_number_of_threads(plans: list[Plan]) -> None:
    before = rg.get_num_threads()
    optimizer, _, new_gradients = training(rg, "Adam")
    try:
        for threads in (1, 1, 2, 2, 1):
            rg.set_num_threads(threads)
            new_gradients()
            optimizer.step()
    finally:
        rg.set_num_threads(before)
    assert len(plans) == 3


@pytest.mark.parametrize("sizes", [[3, 5], [3, 40_000], [600_000, 600_000]])
def test_optimizer_is_freed_without_the_garbage_collector(sizes: list[int]) -> None:
    params = [rg.ones(size, requires_grad=True) for size in sizes]
    optimizer = rg.optim.Adam(params)
    for param in params:
        param.grad = rg.ones_like(param)
    optimizer.step()

    def memory(state: dict[str, Any]) -> weakref.ref[Any]:
        array = state["exp_avg"]._data
        return weakref.ref(array if array.base is None else array.base)

    kept = memory(optimizer.state[params[-1]])
    gc.disable()
    try:
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        optimizer.step()  # makes a plan anew
        assert kept() is None
        kept = memory(optimizer.state[params[-1]])
        del optimizer
        assert kept() is None
    finally:
        gc.enable()
