"""``lag=1``: no step waits for the result of a check, and yet no bad update changes anything."""

from __future__ import annotations

import copy
import gc
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adadelta, Adagrad, Adam, AdamW, NAdam, RAdam, RMSprop, Rprop
from torch.utils._python_dispatch import TorchDispatchMode

import retrograd as rg
from retrograd.anomaly.adapters.torch.gradient_checks.device_check import DeviceCheck
from tests.anomaly.torch.training import (
    Net,
    batches,
    line_of,
    log_of_zero,
    root_of_zero,
    state,
    train,
    weights_are_clean,
)

Make = Callable[[Any], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda params: SGD(params, 0.1),
    "SGD with momentum": lambda params: SGD(params, 0.1, momentum=0.9, weight_decay=0.1),
    "SGD fused": lambda params: SGD(params, 0.1, momentum=0.9, fused=True),
    "Adam": lambda params: Adam(params, 0.1, weight_decay=0.1, amsgrad=True),
    "Adam fused": lambda params: Adam(params, 0.1, weight_decay=0.1, fused=True),
    "Adam capturable, foreach": lambda params: Adam(params, 0.1, foreach=True),
    "AdamW fused": lambda params: AdamW(params, 0.1, fused=True),
    "Adagrad": lambda params: Adagrad(params, 0.1, lr_decay=0.1),
    "RMSprop": lambda params: RMSprop(params, 0.1, momentum=0.9, centered=True),
    "Adadelta": lambda params: Adadelta(params),
    "NAdam": lambda params: NAdam(params),
    "RAdam": lambda params: RAdam(params),
    "Rprop": lambda params: Rprop(params),
    "one that counts in Python": lambda params: Counting(params),
}


class Counting(torch.optim.Optimizer):
    """Its own state lives here: numbers in ``state`` and in ``param_groups``, and a tensor that is replaced."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1, "steps": 0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["steps"] += 1
            for each in group["params"]:
                if each.grad is not None:
                    own = self.state[each]
                    own["count"] = own.get("count", 0) + 1
                    own["mean"] = 0.9 * own.get("mean", torch.zeros_like(each)) + each.grad
                    each -= group["lr"] / own["count"] * own["mean"]


def everything(net: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    saved = copy.deepcopy(optimizer.state_dict())
    for group in saved["param_groups"]:
        group.pop("fused", None)
    return state(net), saved


@pytest.mark.parametrize("bad_first", [False, True])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_bad_step_leaves_weights_and_state_unchanged(name: str, value: float, bad_first: bool) -> None:
    """Weights and state, bit by bit, also when they are saved before anybody knows."""
    good, bad = batches(4), torch.full((5, 4), value)
    data = [bad, *good] if bad_first else [good[0], bad, good[1], bad, bad, *good[2:]]

    def run(net: nn.Module, data: list[Tensor], optimizer: torch.optim.Optimizer) -> list[Any]:
        after = []
        for x in data:
            train(net, optimizer, [x])
            after.append((state(net), copy.deepcopy(optimizer.state_dict())))
        return after

    torch.manual_seed(0)
    net = Net()
    other = copy.deepcopy(net)
    optimizer, usual = (OPTIMIZERS[name](each.parameters()) for each in (net, other))
    expected = [(state(other), copy.deepcopy(usual.state_dict())), *run(other, good, usual)]
    with rg.anomaly.watch(net, optimizer, "skip_step", lag=1) as w:
        found = run(net, data, optimizer)
    for number, after in enumerate(found):
        trained = sum(x is not bad for x in data[: number + 1])
        torch.testing.assert_close(after, expected[trained], rtol=0, atol=0)
    assert [event.step for event in w.events] == [number + 1 for number, x in enumerate(data) if x is bad]


def test_a_new_optimizer_is_not_taken_for_a_deleted_one() -> None:
    """Python gives the numbers of those that are gone to new ones."""
    torch.manual_seed(0)
    net, numbers = Net(), []
    with rg.anomaly.watch(net, None, "skip_step", lag=1):
        while len(set(numbers)) == len(numbers):
            assert len(numbers) < 300, "no number was given twice"
            optimizer = Counting(net.parameters())
            numbers.append(id(optimizer))
            train(net, optimizer, [batches(1)[0], torch.full((5, 4), math.nan)])
            assert optimizer.state_dict()["param_groups"][0]["steps"] == 1
            del optimizer
            gc.collect()  # it is part of a cycle


class Calls(TorchDispatchMode):
    """Counts the operations that wait for the device."""

    WAITING = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select")

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in self.WAITING:
            self.count[name] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("name", ["SGD", "Adam", "Adam fused"])
@pytest.mark.parametrize("policy", ["raise", "record"])
def test_a_step_with_lag_waits_for_nothing(name: str, clip: bool, policy: str) -> None:
    def counted(lag: int | None) -> Counter[str]:
        torch.manual_seed(0)
        net = Net()
        optimizer = OPTIMIZERS[name](net.parameters())
        before_step = (lambda: nn.utils.clip_grad_norm_(net.parameters(), 1.0)) if clip else None
        w = None if lag is None else rg.anomaly.watch(net, optimizer, policy, lag=lag, budget=1e9).start()
        train(net, optimizer, batches(2), before_step)
        with Calls() as calls:
            train(net, optimizer, batches(4), before_step)
        if w is not None:
            w.stop()
            assert not w.events
            assert len(w.loss_history) == 6
        return calls.count

    assert counted(1) == counted(None)
    assert counted(0) != counted(None)


class Marked(Net):
    """Its fault shows in batches that begin with a 100."""

    def forward(self, x: Tensor) -> Tensor:
        out = self.second(torch.relu(self.first(x)))
        assert self.fault is not None
        return self.fault(out) if float(x[0, 0]) == 100 else out


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("fault", [log_of_zero, root_of_zero])
def test_the_event_is_as_exact_as_without_lag(fault: Any, steps: bool) -> None:
    """The operation, the line and the element, of the step that was bad."""

    def found(lag: int) -> Any:
        torch.manual_seed(0)
        net = Marked(fault)
        optimizer = Adam(net.parameters())
        with rg.anomaly.watch(net, optimizer, "skip_step", lag=lag) as w:
            data = batches(5)
            data[2][0, 0] = 100
            for number, x in enumerate(w.steps(data) if steps else data):
                if not steps:
                    w.set_batch(number)
                train(net, optimizer, [x])
        (event,) = w.events
        return event

    event, exact = found(1), found(0)
    assert event.op == exact.op == ("log" if fault is log_of_zero else "SqrtBackward0")
    assert event.lineno == exact.lineno == line_of(f"# the birth of {fault.__name__}")
    assert (event.index, event.operands, event.harmed) == (exact.index, exact.operands, exact.harmed)
    assert event.batch_idx == 2
    assert event.reproducible == (steps or None)


def test_raise_stops_before_the_next_update() -> None:
    net = Net()
    optimizer = Adam(net.parameters())
    updates = []
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch(net, optimizer, lag=1):
        for number, x in enumerate(batches(4)):
            net.fault = root_of_zero if number == 1 else None
            train(net, optimizer, [x])
            updates.append(number)
            before = state(net)
    assert updates == [0, 1]
    assert caught.value.event.step == 2
    torch.testing.assert_close(state(net), before, rtol=0, atol=0)


def test_the_last_step_is_checked_when_the_watch_ends() -> None:
    net = Net(root_of_zero)
    optimizer = Adam(net.parameters())
    before = state(net)
    with pytest.raises(rg.anomaly.AnomalyError), rg.anomaly.watch(net, optimizer, lag=1) as w:
        train(net, optimizer, batches(1))
        assert not w.events
    torch.testing.assert_close(state(net), before, rtol=0, atol=0)
    assert rg.anomaly.current() is None


def test_an_error_of_the_programs_own_comes_first() -> None:
    net = Net(root_of_zero)
    optimizer = Adam(net.parameters())
    with pytest.raises(ZeroDivisionError), rg.anomaly.watch(net, optimizer, lag=1) as w:
        train(net, optimizer, batches(1))
        raise ZeroDivisionError
    assert len(w.events) == 1


def test_settle_checks_the_last_step() -> None:
    net = Net(root_of_zero)
    optimizer = Adam(net.parameters())
    with rg.anomaly.watch(net, optimizer, "skip_step", lag=1) as w:
        train(net, optimizer, batches(1))
        w.settle()
        assert len(w.events) == 1


def test_clipping_does_not_hide_the_bad_gradient() -> None:
    net = Net()
    optimizer = SGD(net.parameters(), 0.1)
    before = state(net)

    def spoil_and_clip() -> None:
        net.first.bias.grad[3] = math.inf  # type: ignore[index]
        nn.utils.clip_grad_norm_(net.parameters(), 2.5)

    with rg.anomaly.watch(net, optimizer, "skip_step", lag=1) as w:
        train(net, optimizer, batches(1), spoil_and_clip)
    assert [event.harmed for event in w.events] == ["the gradient of first.bias"]
    torch.testing.assert_close(state(net), before, rtol=0, atol=0)


def test_a_gradient_spoilt_after_clipping_is_withheld() -> None:
    net = Net()
    optimizer = SGD(net.parameters(), 0.1)

    def clip_and_spoil() -> None:
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        net.first.bias.grad.fill_(math.nan)  # type: ignore[union-attr]

    with rg.anomaly.watch(net, optimizer, "skip_step", lag=1) as w:
        train(net, optimizer, batches(1), clip_and_spoil)
    assert len(w.events) == 1
    assert weights_are_clean(net)


def test_only_updates_that_must_not_pass_are_withheld() -> None:
    policy = {"nan": "raise", "inf": "record"}
    net = nn.Linear(2, 1, bias=False)
    optimizer = SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, policy, lag=1, budget=1e9) as w:
        net.weight.register_hook(lambda grad: grad * math.inf)
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert len(w.events) == 1
    assert net.weight.isinf().all()


def test_an_update_that_raises_is_checked_again() -> None:
    net = Net(root_of_zero)
    optimizer = Adam(net.parameters(), fused=True)

    def fail(*args: Any) -> None:
        raise ZeroDivisionError

    with rg.anomaly.watch(net, optimizer, "skip_step", lag=1) as w:
        handle = optimizer.register_step_pre_hook(fail)
        with pytest.raises(ZeroDivisionError):
            train(net, optimizer, batches(1))
        handle.remove()
        train(net, optimizer, batches(1))
    assert len(w.events) == 2
    assert not hasattr(optimizer, "found_inf")
    assert weights_are_clean(net)


def test_an_optimizer_that_cannot_be_undone_is_waited_for() -> None:
    class Strange(SGD):
        """Keeps something that cannot be put back."""

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            super().step()
            self.state[self.param_groups[0]["params"][0]]["seen"] = torch.eye(2).to_sparse()

    net = Net()
    optimizer = Strange(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "skip_step", lag=1) as w:
        train(net, optimizer, batches(2))
        assert not w.events
        net.fault = root_of_zero
        train(net, optimizer, batches(1))
        assert len(w.events) == 1, "the result was not read at once"
    assert weights_are_clean(net)


def test_a_schedule_that_has_advanced_is_not_set_back() -> None:
    net = Net()
    optimizer = Adam(net.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    with rg.anomaly.watch(net, optimizer, "skip_step", lag=1):
        for number, x in enumerate(batches(3)):
            net.fault = root_of_zero if number == 1 else None
            train(net, optimizer, [x])
            schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.1 * 0.5**3


def test_a_closure_is_waited_for() -> None:
    x = torch.tensor([1.0], requires_grad=True)
    optimizer = torch.optim.LBFGS([x], lr=1.0, max_iter=3)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = torch.sqrt(x - x.detach()).sum()
        loss.backward()
        return loss

    with rg.anomaly.watch(None, optimizer, "skip_step", lag=1) as w:
        optimizer.step(closure)
        assert w.events
    assert x.tolist() == [1.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_a_verdict_tells_finite_from_bad(dtype: torch.dtype, value: float | None) -> None:
    tensors = [torch.full((300,), 6e4 if dtype == torch.float16 else 1e30).to(dtype), torch.zeros(0), torch.ones(2, 3)]
    if value is not None:
        tensors[0][17] = value
    verdict = DeviceCheck(tensors, [torch.tensor(2.0)], ["nan", "inf"])
    harmful, largest, losses = verdict.sent().read()
    assert harmful == bool(verdict.harm) == (value is not None)
    assert [math.isfinite(each) for each in largest] == [value is None, True, True]
    assert losses == [2.0]


def test_a_large_finite_loss_is_not_bad() -> None:
    assert not DeviceCheck([torch.ones(1)], [torch.tensor(1e300, dtype=torch.float64)], ["nan", "inf"]).sent().read()[0]


def test_a_loss_that_cannot_be_read_is_not_bad() -> None:
    losses = [torch.ones((), device="meta"), torch.tensor(math.nan)]
    assert DeviceCheck([], losses[:1], ["nan"]).sent().read() == (False, [], [0.0])
    assert DeviceCheck([], losses, ["nan"]).sent().read()[0]


def test_a_verdict_tells_nan_from_infinity() -> None:
    gradients = [torch.tensor([math.inf]), torch.ones(1)]
    assert [DeviceCheck(gradients, [], [kind]).sent().read()[0] for kind in ("nan", "inf")] == [False, True]


@pytest.mark.parametrize("fault", [log_of_zero, root_of_zero])
def test_a_model_that_was_not_given_is_run_again(fault: Callable[[Tensor], Tensor]) -> None:
    net = Net()
    optimizer = SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(lag=1, policy="skip_step") as w:
        train(net, optimizer, batches(1))
        net.fault = fault
        train(net, optimizer, batches(1))
    assert [event.lineno for event in w.events] == [line_of(f"the birth of {fault.__name__}")]


def test_a_bad_batch_has_the_name_that_it_had() -> None:
    """When it is known to be bad, the variable holds the next one."""
    net = Net()
    optimizer = SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "skip_step", lag=1) as w:
        for x in [*batches(1), torch.full((5, 4), math.inf), *batches(1)]:
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()
    assert w.event is not None
    assert w.event.operands == {"x": math.inf}


def test_a_lag_other_than_0_or_1_is_refused() -> None:
    with pytest.raises(ValueError, match="lag must be 0 or 1 steps, but got 2"):
        rg.anomaly.watch(lag=2)
