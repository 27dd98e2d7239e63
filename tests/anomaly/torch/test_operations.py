"""How many operations the watch adds to a step: on a GPU each is a launch, and as many as there are parameters do harm.

Only counts; what they cost is measured by ``benchmarks/torch_watch.py``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import retrograd as rg
from retrograd.anomaly.adapters.torch import monitor
from retrograd.anomaly.adapters.torch.gradient_checks import gradients

STEPS = 5
_HERE_ONLY = ("aten::detach", "aten::view", "aten::view.dtype", "aten::empty_like")  # nothing happens on a device


class Operations(TorchDispatchMode):
    """Counts the operations below autograd."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[func.name()] += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture(params=[False, True], ids=["here", "on a device"])
def on_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Have the watch take all tensors for those of a device, whose numbers are not at hand."""
    if request.param:
        for module in (gradients, monitor):
            monkeypatch.setattr(module, "is_here", lambda device: False)
    return bool(request.param)


def added(depth: int, lag: int, make: Callable[[Any], torch.optim.Optimizer], clip: bool = False) -> Counter[str]:
    """The operations that a step has more when it is watched."""
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(depth)))
    optimizer = make(model.parameters())
    x, target = torch.randn(5, 4), torch.randint(4, (5,))

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), target).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    def counted() -> Counter[str]:
        steps(3)
        with Operations() as operations:
            steps(STEPS)
        return operations.count

    usual = counted()
    with rg.anomaly.watch(model, optimizer, lag=lag) as w:
        watched = counted()
    assert not w.events
    watched.subtract(usual)
    return +watched


def adam(params: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(params, fused=True)


def launched(counts: Counter[str]) -> float:
    """How many of them are work for a device, for each step."""
    return sum(number for name, number in counts.items() if name not in _HERE_ONLY) / STEPS


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("lag", [0, 1])
def test_a_step_gets_a_fixed_small_number_of_operations(lag: int, clip: bool, on_device: bool) -> None:
    """Norms, and all of them in one row; with a lag besides three that say whether one is bad, as a number, that the
    optimizer asks for it, and the copy to where the row is read later. On the CPU the numbers are read one by one
    without a lag, which is no operation for a device.
    """
    counts, few = (added(depth, lag, adam, clip) for depth in (40, 2))
    read = [each.pop("aten::_local_scalar_dense", 0) for each in (counts, few)]
    assert launched(counts) <= (7 if lag else 2), counts
    assert sum(counts.values()) / STEPS <= 12, counts
    assert counts == few, "as many as there are parameters"
    if on_device or lag:
        assert read == [0, 0]


@pytest.mark.parametrize("foreach", [False, True])
def test_withholding_an_update_takes_few_operations(foreach: bool) -> None:
    def make(params: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(params, foreach=foreach)

    assert launched(added(40, 1, make)) <= 13
    assert launched(added(40, 1, make)) == launched(added(2, 1, make))


def test_restored_values_keep_infinities_and_signs_of_zero() -> None:
    """An infinity that masks a weight, and the sign of a zero, are what they were; the step's NaN is gone."""
    weight = nn.Parameter(torch.tensor([-math.inf, -0.0, 1.0]))
    optimizer = torch.optim.SGD([weight], 0.1, momentum=0.9)
    with rg.anomaly.watch(None, optimizer, "skip_step", lag=1) as w:
        weight.grad = torch.tensor([math.nan, 1.0, math.inf])
        optimizer.step()
        assert weight.tolist() == [-math.inf, 0.0, 1.0]
        assert math.copysign(1.0, weight[1].item()) == -1.0
    assert not optimizer.state[weight]
    assert w.events
