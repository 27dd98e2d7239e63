"""Every operation recorded from some step on: what a second run would find, in programs that have none."""

from __future__ import annotations

import contextlib
import gc
import linecache
import math
import os
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.data import DataLoader, Dataset

import retrograd as rg
from retrograd.anomaly.messages import outcome_of
from tests.anomaly.torch.training import line_of, state


def in_the_loss(out: Tensor) -> Tensor:
    """A loss function too long to be remembered, whose fault shows in backward."""
    d = (out * out).sum(1)
    d = torch.where(d > 0, torch.sqrt(d), 0.0)  # the birth in the loss
    for _ in range(10):
        d = torch.tanh(d) * 0.9 + d * 0.1
    return d.mean()


def run(
    from_step: int | None,
    *,
    steps: int = 6,
    bad: int = 4,
    micro: int = 1,
    given: bool = False,
    policy: str = "skip_step",
) -> Any:
    """A loop that makes its batches itself; one of them makes the loss function fail."""
    torch.manual_seed(0)
    net = nn.Linear(3, 3, bias=False)
    optimizer = torch.optim.Adam(net.parameters())
    with rg.anomaly.watch(None, optimizer if given else None, policy, from_step=from_step) as w:
        for step in range(1, steps + 1):
            for _ in range(micro):
                x = torch.randn(5, 3)
                if step == bad:
                    x = x * 0
                in_the_loss(net(x)).backward()
            optimizer.step()
            optimizer.zero_grad()
    return w, net, optimizer


def test_without_a_record_the_event_says_how_to_record() -> None:
    w, _, _ = run(None)
    assert w.event.op == "unknown"
    assert w.event.rerun == "watch(..., from_step=4)"


@pytest.mark.parametrize("from_step", [1, 3, 4])
def test_a_recorded_birth_has_operation_line_element_and_operands(from_step: int) -> None:
    w, _, _ = run(from_step)
    event = w.event
    assert (event.op, event.step, event.index, event.operands["input"]) == ("SqrtBackward0", 4, (0,), 0.0)
    assert event.lineno == line_of("# the birth in the loss", in_the_loss)
    assert event.rerun is None


def test_the_advised_step_is_the_first_of_the_accumulated_ones() -> None:
    """Before the first update it is not known that gradients are gathered; later the first bad one is met at once."""
    for bad, met, first in ((1, 2, 1), (3, 7, 7)):
        w, _, _ = run(None, micro=3, bad=bad, given=True)
        assert (w.event.step, w.event.rerun) == (met, f"watch(..., from_step={first})")
        w, _, _ = run(first, micro=3, bad=bad, given=True)
        assert (w.event.op, w.event.step) == ("SqrtBackward0", first)


def test_the_advised_step_is_that_of_the_first_operation_of_the_graph() -> None:
    """A part of the graph is older than the backward before, as that of a generator is."""
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], 0.1)

    def train(from_step: int | None) -> Any:
        with rg.anomaly.watch(policy="skip_step", from_step=from_step) as w:
            for step in range(3):
                fake = weight * (step != 2)
                (weight * 2).sum().backward()
                in_the_loss(fake[None]).backward()
                optimizer.step()
                optimizer.zero_grad()
        return w.event

    assert train(None).rerun == "watch(..., from_step=5)"
    assert train(5).op == "SqrtBackward0"


def test_recording_changes_nothing_else() -> None:
    """Weights, the optimizer's state and the random numbers are bit for bit those of a program without it."""
    plain = run(None, bad=0)
    numbers = torch.rand(3)
    recorded = run(2, bad=0)
    assert not recorded[0].events
    assert recorded[0].step == 6
    torch.testing.assert_close(torch.rand(3), numbers, rtol=0, atol=0)
    torch.testing.assert_close(state(recorded[1]), state(plain[1]), rtol=0, atol=0)
    torch.testing.assert_close(recorded[2].state_dict(), plain[2].state_dict(), rtol=0, atol=0)


def test_a_bad_update_is_left_out() -> None:
    w, net, _ = run(2, steps=4, bad=4)
    _, before, _ = run(None, steps=3, bad=0)
    assert len(w.events) == 1
    torch.testing.assert_close(state(net), state(before), rtol=0, atol=0)


def test_a_birth_without_a_gradient_is_found() -> None:
    weight = torch.ones(2, requires_grad=True)
    with rg.anomaly.watch(policy="record", from_step=1) as w:
        returns = torch.ones(4)
        returns = returns / returns.std()  # the birth without a gradient
        (weight.sum() * returns).sum().backward()
    line = line_of("# the birth without a gradient", test_a_birth_without_a_gradient_is_found)
    assert (w.event.op, w.event.lineno) == ("div", line)


def test_a_closure_within_the_optimizer_is_recorded() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.LBFGS([weight], max_iter=2)
    calls = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        calls.append(0)
        loss = in_the_loss(weight[None] * (len(calls) < 3))
        loss.backward()
        return loss

    with rg.anomaly.watch(policy="record", from_step=3) as w:
        for _ in range(2):
            optimizer.step(closure)
    assert (w.event.op, w.event.step) == ("SqrtBackward0", 3)


def test_what_torchs_optimizers_do_after_a_closure_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if recording begins in the closure, after the first of its backward passes."""
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.LBFGS([weight], max_iter=3)
    gather = torch.optim.LBFGS._gather_flat_grad
    paused = []

    def spied(self: Any) -> Tensor:
        recorder = getattr(w._adapters[-1], "_monitor", w._adapters[-1]).recorder
        paused.append(recorder is None or recorder.paused)
        return gather(self)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (weight - 3).pow(4).sum()
        loss.backward()
        return loss

    monkeypatch.setattr(torch.optim.LBFGS, "_gather_flat_grad", spied)
    with rg.anomaly.watch(policy="record", from_step=2) as w:
        for _ in range(2):
            optimizer.step(closure)
    assert len(paused) > 2
    assert all(paused)


class Ascending(torch.optim.Optimizer):
    """Takes the gradient where the loss is higher, by a closure, and steps by another optimizer (as SAM does)."""

    def __init__(self, params: Any, base: torch.optim.Optimizer) -> None:
        super().__init__(params, {})
        self.base = base

    @torch.no_grad()
    def step(self, closure: Any) -> Any:  # type: ignore[override]
        loss = torch.enable_grad()(closure)()
        for group in self.param_groups:
            for param in group["params"]:
                param.grad.mul_(param.grad / param.grad.norm())  # the birth after the closure
        self.base.step()
        return loss


def test_what_a_step_does_after_its_closure_is_recorded() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = Ascending([weight], torch.optim.SGD([weight], 0.1))
    factors = iter([1.0, 1.0, 0.0])

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (weight * next(factors)).sum()
        loss.backward()
        return loss

    with rg.anomaly.watch(policy="record", from_step=2) as w:
        for _ in range(3):
            optimizer.step(closure)
    assert (w.event.op, w.event.step, w.event.lineno) == ("div", 3, line_of("# the birth after the closure", Ascending))


@pytest.mark.parametrize("changes", [True, False])
def test_the_event_names_the_lines_that_change_gradients_after_backward(changes: bool) -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], 0.1)
    program = "weight.grad /= norm\n"
    filename = "<a program that normalises>"
    linecache.cache[filename] = (len(program), None, [program, "optimizer.step()\n"], filename)
    code = compile(f"{program if changes else chr(10)}optimizer.step()", filename, "exec")
    if not changes:
        weight.register_hook(lambda grad: grad * math.nan)
    with rg.anomaly.watch(policy="record") as w:
        for factor in (1.0, 0.0):
            optimizer.zero_grad()
            (weight * factor).sum().backward()
            exec(code, {"weight": weight, "optimizer": optimizer, "norm": weight.grad.norm()})
    cause = w.event.cause or ""
    assert (w.event.op, "changed since backward" in cause) == ("unknown", changes)
    assert ("(line 1, `weight.grad /= norm`)" in cause) == changes


@pytest.mark.filterwarnings("ignore:.*jit:DeprecationWarning")
def test_a_gradient_written_by_hand_has_the_line_of_its_birth() -> None:
    """No backward at all: the tangent of a dual number is made a gradient."""
    weight = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], 0.1)
    with rg.anomaly.watch(policy="skip_step", from_step=1) as w:
        _, tangent = torch.func.jvp(torch.sqrt, (weight.detach(),), (torch.ones(2),))  # the birth of a tangent
        weight.grad = tangent * 1
        optimizer.step()
    line = line_of("# the birth of a tangent", test_a_gradient_written_by_hand_has_the_line_of_its_birth)
    assert (w.event.op, w.event.lineno, weight.tolist()) == ("div", line, [0.0, 0.0])


def test_dispatch_modes_of_the_program_stay_on_top() -> None:
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    with rg.anomaly.watch(from_step=2):
        with Mode() as mode:
            x.sum().backward()
            assert len(_get_current_dispatch_mode_stack()) == 2
            assert _get_current_dispatch_mode_stack()[-1] is mode
        assert len(_get_current_dispatch_mode_stack()) == 1
    assert not _get_current_dispatch_mode_stack()


def test_tensors_of_old_steps_are_released() -> None:
    kept: list[Any] = []
    weight = torch.ones(3, requires_grad=True)
    with rg.anomaly.watch(policy="record", from_step=1):
        for _ in range(12):
            infinite = torch.log(weight.detach() * 0)  # harmless, and still not kept for ever
            kept.append(weakref.ref(infinite))
            (weight * 2).sum().backward()
            with torch.no_grad():
                weight -= 0.1 * weight.grad
        del infinite
        gc.collect()
        assert [ref() is None for ref in kept[:6]] == [True] * 6


def test_compiled_code_runs_as_it_was_written(request: pytest.FixtureRequest) -> None:
    request.addfinalizer(torch._dynamo.reset)
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    with rg.anomaly.watch(policy="record", from_step=1) as w:
        loss = torch.compile(in_the_loss, backend="eager")
        loss(x[:, None]).backward()
    assert (w.event.op, w.event.lineno) == ("SqrtBackward0", line_of("# the birth in the loss", in_the_loss))


def test_steps_before_from_step_are_run_again() -> None:
    x = torch.tensor([0.0], requires_grad=True)
    with rg.anomaly.watch(policy="record", from_step=3) as w:
        for number in w.steps(range(4)):
            x.grad = None
            (torch.sqrt(x) if number in (0, 3) else x * 1).sum().backward()
    assert [(each.step, each.reproducible) for each in w.events] == [(1, True), (4, None)]


def test_every_gradient_is_checked_under_record() -> None:
    for bad in range(4, 9):
        w, _, _ = run(2, steps=bad, bad=bad, policy="record")
        assert w.event.op == "SqrtBackward0"


@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
def test_tensors_without_arithmetic_are_recorded() -> None:
    with rg.anomaly.watch(from_step=1):
        small = torch.randn(4).to(torch.float8_e4m3fn).clone()
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]) * 2
        torch.ones(2, requires_grad=True).sum().backward()
    assert small.dtype is torch.float8_e4m3fn
    assert nested.is_nested


class _Paused(Dataset[int]):
    """Says whether the record of this process is paused."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        modes = _get_current_dispatch_mode_stack()
        return int(len(modes) == 1 and modes[0].paused)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_the_processes_of_a_loader_record_nothing() -> None:
    with rg.anomaly.watch(from_step=1):
        [paused] = DataLoader(_Paused(), num_workers=1, multiprocessing_context="fork")
        assert bool(paused)
        assert not any(mode.paused for mode in _get_current_dispatch_mode_stack())


@pytest.mark.parametrize("from_step", [0, -1, "3", 2.0])
def test_anything_but_a_positive_step_number_is_refused(from_step: Any) -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        rg.anomaly.watch(from_step=from_step)


def test_a_birth_is_blamed_before_a_number_computed_from_it() -> None:
    """The loss gets the NaN in two ways, and one of them leads through Python."""
    w = torch.ones(1, requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", from_step=1) as watch:
        returns = torch.tensor([1.0, 2.0])
        returns = (returns - 1.0) / (returns - 1.0)  # the birth that goes two ways
        targets = torch.tensor([float(each) for each in returns])
        ((w * returns).sum() + torch.nn.functional.smooth_l1_loss(w.expand(2), targets)).backward()
    event = watch.event
    assert (event.op, event.kind) == ("div", "invalid")
    assert event.lineno == line_of(
        "# the birth that goes two ways", test_a_birth_is_blamed_before_a_number_computed_from_it
    )


def test_bad_data_used_before_a_birth_is_blamed() -> None:
    w = torch.ones(2, requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", from_step=1) as watch:
        given = w * torch.tensor([float("nan"), 1.0])
        (given + torch.log(w - 1.0)).sum().backward()
    assert watch.event.kind == "leaf"


def test_a_part_of_a_weight_written_to_twice_has_the_right_element() -> None:
    """torch does not say whether such a view is a leaf; the program need not ask."""
    weight = torch.ones(3, 2, requires_grad=True)
    with rg.anomaly.watch(policy="record", from_step=1) as w:
        with torch.no_grad():
            weight[:, 1].mul_(2).neg_()
        weight.log().sum().backward()  # the log of what was written
    assert weight[:, 1].tolist() == [-2.0] * 3
    assert (w.event.op, w.event.index, w.event.operands) == ("log", (0, 1), {"input": -2.0})


def test_a_part_of_a_weight_among_the_variables_does_no_harm() -> None:
    weight = torch.zeros((), requires_grad=True)
    with pytest.raises(FloatingPointError, match="the loss"), rg.anomaly.watch() as w:
        with torch.no_grad():
            part = weight.view(())
            part.add_(1).neg_()
        loss = torch.log(weight)
        if not loss.isfinite():
            raise FloatingPointError("the loss is not finite")
    assert (w.event.op, w.event.operands) == ("log", {"input": -1.0})


@pytest.mark.parametrize("policy", ["raise", "skip_step"])
def test_a_leaf_spoilt_by_hand_is_called_not_clean(policy: str) -> None:
    """It belongs to no model; the step before has written to it."""
    w1, w2 = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    with contextlib.suppress(rg.anomaly.AnomalyError), rg.anomaly.watch(policy=policy, from_step=1) as watch:
        for _ in range(2):
            (w2 * w1 * torch.tensor([1.0, 0.0])).sum().backward()
            with torch.no_grad():
                w1 -= 0.1 * w1.grad / w1.grad.abs()  # the update by hand
                w1.grad = w2.grad = None
    event = watch.events[0]
    assert (event.op, event.step) == ("div", 2)
    assert event.lineno == line_of("# the update by hand", test_a_leaf_spoilt_by_hand_is_called_not_clean)
    assert outcome_of("nan", event, policy).endswith(", but w1 is not clean")


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_finite_leaves_are_called_clean(scale: float) -> None:
    w = torch.ones(2, requires_grad=True)
    with rg.anomaly.watch(policy="skip_step", from_step=1) as watch:
        (torch.sqrt(w - 1.0) * scale).sum().backward()
    assert outcome_of("nan", watch.event, "skip_step").endswith("weights are clean")


@pytest.mark.filterwarnings("ignore:.*prototype stage:UserWarning")
def test_a_birth_in_a_nested_leaf_is_located() -> None:
    """While torch finds out whether it is one, it asks for its size, and must not be asked once more meanwhile."""
    rows = [torch.tensor([0.0, 1.0]), torch.tensor([2.0, 3.0, 4.0])]
    x = torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=True)
    with rg.anomaly.watch(policy="record", from_step=1) as w:
        y = torch.sqrt(x)  # the root of a nested tensor
        y.values().sum().backward()
    (event,) = w.events
    assert (event.op, event.index) == ("SqrtBackward0", (0,))
    assert event.lineno == line_of("# the root of a nested tensor", test_a_birth_in_a_nested_leaf_is_located)


class Averages(nn.Module):
    """Keeps the mean of what it is given for each class, some of which are never met."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("means", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.weight + self.means
        counts = (x > 0).float().sum(0)
        self.means.copy_((x * (x > 0)).sum(0) / counts)  # the birth in a buffer
        return y.sum()


def with_averages(from_step: int | None) -> Any:
    net = Averages()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    batches = [torch.ones(3, 2) - (torch.tensor([0.0, 5.0]) if number == 2 else 0.0) for number in range(5)]
    with rg.anomaly.watch(net, optimizer, policy="skip_step", from_step=from_step) as w:
        for x in batches if from_step else w.steps(batches):
            optimizer.zero_grad()
            net(x).backward()
            optimizer.step()
    return w.events[0]


@pytest.mark.filterwarnings("ignore:NaN came in with the buffer means")  # which is bad from then on
def test_a_buffer_spoilt_in_the_step_before_is_traced_by_a_record() -> None:
    """The second run has recorded the step in which it is met, and not the one that wrote it."""
    event = with_averages(None)
    assert (event.kind, event.operands.keys(), event.step) == ("leaf", {"means"}, 4)
    assert event.rerun == "watch(..., from_step=3)"
    event = with_averages(3)
    assert (event.op, event.index, event.operands) == ("div", (1,), {"input": 0.0, "other": 0.0})
    assert event.lineno == line_of("# the birth in a buffer", Averages.forward)


def test_the_note_says_if_an_earlier_micro_batch_was_bad() -> None:
    """Only the last one comes again; the bad one has come before it, and nothing differs between the runs.

    It is met so late only before the first update, when it is not known yet that gradients are gathered.
    """
    torch.manual_seed(0)
    net = nn.Linear(3, 3, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    batches = [torch.randn(5, 3) * (number != 0) for number in range(6)]
    with rg.anomaly.watch(net, optimizer, policy="skip_step") as w:
        for number, x in w.steps(enumerate(batches)):
            in_the_loss(net(x)).backward()
            if number % 2:
                optimizer.step()
                optimizer.zero_grad()
    event = w.events[0]
    assert (event.step, event.rerun) == (2, "watch(..., from_step=1)")
    assert "accumulated over 2 backward passes" in (event.note or "")
    assert "it came from an earlier batch" in (event.note or "")
    assert event.reproducible is None


class Spread:
    """An average of past spreads, kept from step to step."""

    def __init__(self) -> None:
        self.mean = torch.ones(2)

    def scaled(self, out: Tensor, x: Tensor) -> Tensor:
        result = out / self.mean
        self.mean = 0.5 * self.mean + 0.5 * (x - x.mean(0)).abs().mean(0) / x.abs().mean(0)  # the birth in what is kept
        return result


def kept_state(from_step: int | None) -> Any:
    torch.manual_seed(0)
    net, spread = nn.Linear(2, 2), Spread()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(policy="record", from_step=from_step) as w:
        for step in range(1, 5):
            x = torch.randn(4, 2)
            if step == 2:
                x[:, 1] = 0.0
            spread.scaled(net(x), x).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return w


def test_a_value_kept_from_a_step_before_the_record_asks_for_a_record_from_the_beginning() -> None:
    event = kept_state(3).event
    assert (event.step, event.op) == (3, "leaf")
    assert "kept from step to step" in event.cause
    assert "loaded" not in event.cause
    assert event.rerun == "watch(..., from_step=1)"
    found = kept_state(1).event
    assert (found.op, found.step, found.rerun) == ("div", 3, None)
    assert found.lineno == line_of("# the birth in what is kept", Spread)
