"""The second run of a step: exact, and nothing of it stays behind."""

from __future__ import annotations

import functools
import gc
import math
import random
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import retrograd as rg
from tests.anomaly.torch.training import (
    Net,
    batches,
    line_of,
    log_of_zero,
    root_of_zero,
    state,
    train,
    watched,
)


@pytest.mark.parametrize("fault", [log_of_zero, root_of_zero])
def test_a_second_run_gives_operation_line_element_and_module(fault: Any) -> None:
    w, _ = watched(fault)
    event = w.event
    assert event.reproducible
    assert event.op == ("log" if fault is log_of_zero else "SqrtBackward0")
    assert (event.lineno, event.function) == (line_of(f"# the birth of {fault.__name__}"), fault.__name__)
    assert (event.index, event.operands["input"]) == ((0, 0), 0.0)
    assert event.module_type == "Net"
    assert event.batch_idx == 3


def test_the_innermost_module_is_named() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            return x / self.weight

    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), Block()))
    with rg.anomaly.watch(model, policy="record") as w:
        for x in w.steps([torch.ones(2, 3)]):
            model(x).sum().backward()
    assert (w.event.op, w.event.layer_name, w.event.module_type) == ("div", "1.1", "Block")


def test_the_second_run_draws_the_same_random_numbers() -> None:
    drawn: list[Any] = []
    x = torch.zeros(3, requires_grad=True)
    with rg.anomaly.watch(policy="skip_step") as w:
        for number in w.steps(range(3)):
            drawn.append((random.random(), np.random.rand(), torch.rand(2).tolist()))
            (torch.log(x).sum() if number == 1 else x.sum()).backward()
    assert drawn[1] == drawn[2]
    assert len({str(each) for each in drawn}) == 3  # and go on


def test_weights_and_state_are_those_of_one_run() -> None:
    """The weights, the optimizer, the learning rate and the random numbers."""

    def run(again: bool) -> Any:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 1))
        optimizer = torch.optim.Adam(net.parameters())
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        with rg.anomaly.watch(net, optimizer, "skip_step") as w:
            data = batches(6)
            runs = 0
            for x in w.steps(data) if again else data:
                runs += 1
                optimizer.zero_grad()
                loss = net(x).mean()
                (torch.log(loss * 0) if x is data[3] else loss).backward()
                optimizer.step()
                schedule.step()
        assert len(w.events) == 1
        assert runs == 6 + again
        return state(net), optimizer.state_dict()["state"], optimizer.param_groups[0]["lr"], torch.rand(3)

    torch.testing.assert_close(run(True), run(False), rtol=0, atol=0)


def test_schedules_advance_once() -> None:
    """This includes schedules that override ``step``."""
    schedules = torch.optim.lr_scheduler

    def rates(make: Callable[[torch.optim.Optimizer], Any], again: bool) -> list[float]:
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        schedule, found = make(optimizer), []
        measured = (1.0,) if isinstance(schedule, schedules.ReduceLROnPlateau) else ()
        with rg.anomaly.watch(net, optimizer, "skip_step") as w:
            data = batches(6)
            data[1] = data[1] * torch.nan
            for x in w.steps(data) if again else data:
                optimizer.zero_grad()
                (net(x) ** 2).mean().backward()
                optimizer.step()
                schedule.step(*measured)
                found.append(optimizer.param_groups[0]["lr"])
        assert len(w.events) == 1
        return found[:1] + found[1 + again :]

    def in_turns(optimizer: torch.optim.Optimizer) -> Any:
        first, second = schedules.ConstantLR(optimizer, 0.1, 2), schedules.ExponentialLR(optimizer, 0.9)
        return schedules.SequentialLR(optimizer, [first, second], [3])

    def on_plateau(optimizer: torch.optim.Optimizer) -> Any:
        return schedules.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)

    for make in (in_turns, on_plateau, lambda each: schedules.CosineAnnealingWarmRestarts(each, 4)):
        assert rates(make, True) == rates(make, False)


def test_a_step_that_is_run_again_counts_once() -> None:
    w, _ = watched(root_of_zero)
    assert (w.step, len(w.loss_history)) == (4, 4)


def test_a_skipped_step_restores_the_buffers() -> None:
    norm = nn.BatchNorm1d(4)
    with rg.anomaly.watch(norm, policy="skip_step") as w:
        for x in w.steps([batches(1)[0] * torch.nan]):
            before = state(norm)
            norm(x).sum().backward()
    torch.testing.assert_close(state(norm), before | {"running_mean": torch.zeros(4), "running_var": torch.ones(4)})
    assert norm.num_batches_tracked == 0


def test_the_note_says_if_the_birth_does_not_happen_again() -> None:
    x = torch.zeros(3, requires_grad=True)
    runs = []
    with rg.anomaly.watch(policy="record") as w:
        for _ in w.steps([0]):
            runs.append(0)
            (torch.log(x) if len(runs) == 1 else x).sum().backward()
    assert w.event.reproducible is False
    assert "run again" in (w.event.note or "")


@pytest.mark.parametrize("decorated", [False, True])
@pytest.mark.parametrize("framed", [True, False])
def test_a_birth_in_a_custom_function_has_its_line(framed: bool, decorated: bool) -> None:
    decorate = functools.partial(torch.amp.custom_fwd, device_type="cpu") if decorated else staticmethod

    class Root(torch.autograd.Function):
        @staticmethod
        @decorate
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.sqrt()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return grad / (2 * x.sqrt())  # the quotient of the user's own

    x = torch.tensor([1.0, 0.0], requires_grad=True)
    apply = Root.apply if framed else super(torch.autograd.Function, Root).apply  # is itself without one from 2.14 on
    with rg.anomaly.watch(policy="record") as w:
        for _ in w.steps([0]):
            apply(x).sum().backward()  # the call of the function
    event = w.event
    assert (event.op, event.index, event.is_backward) == ("RootBackward", (1,), True)
    assert event.lineno == line_of("# the call of the function", test_a_birth_in_a_custom_function_has_its_line)
    assert (
        str(line_of("# the quotient of the user's own", test_a_birth_in_a_custom_function_has_its_line)) in event.note
    )


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_birth_in_a_checkpoint_has_its_line(reentrant: bool) -> None:
    layer = nn.Linear(3, 3)
    with rg.anomaly.watch(layer, policy="record") as w:
        for x in w.steps([torch.ones(2, 3, requires_grad=True)]):
            h = checkpoint(lambda x: root_of_zero(layer(x)), x, use_reentrant=reentrant)
            h.sum().backward()
    assert w.event.op == "SqrtBackward0"
    assert w.event.lineno == line_of("# the birth of root_of_zero")


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_recomputed_value_is_known_to_be_bad(reentrant: bool) -> None:
    """The loss leaves the bad rows out: they show in the gradients of weights that they meet."""
    layer = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)

    def attend(scores: torch.Tensor) -> torch.Tensor:
        return layer(torch.softmax(scores, -1))  # the birth in a row

    with rg.anomaly.watch(layer, optimizer, "record") as w:
        for _ in w.steps([0]):
            scores = torch.zeros(2, 3, requires_grad=True)
            masked = scores.masked_fill(torch.tensor([[False] * 3, [True] * 3]), -math.inf)
            checkpoint(attend, masked, use_reentrant=reentrant)[0].sum().backward()
            optimizer.step()
    assert (w.event.op, w.event.index) == ("softmax", (1, 0))
    assert w.event.lineno == line_of("# the birth in a row", test_a_recomputed_value_is_known_to_be_bad)


def test_a_birth_written_in_place_is_found() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        for _ in w.steps([0]):
            h = x * 1.0
            h[1] = (h[1] - 1).log()  # the birth in place
            h.sum().backward()
    assert w.event.op == "log"
    assert w.event.lineno == line_of("# the birth in place", test_a_birth_written_in_place_is_found)


def test_infinite_gradients_that_meet_in_a_sum_are_explained() -> None:
    x = torch.tensor([0.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        for _ in w.steps([0]):
            (torch.sqrt(x) - torch.sqrt(x * 2)).sum().backward()
    assert w.event.op == "SqrtBackward0"  # the infinities themselves; their sum only shows them


def test_a_birth_in_a_second_derivative_has_its_line() -> None:
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        for _ in w.steps([0]):
            (grad,) = torch.autograd.grad((x**1.5).sum(), x, create_graph=True)
            (grad**2).sum().sqrt().backward(retain_graph=True)
            x.grad = None
            grad.sum().backward()
    assert w.event.is_backward
    assert w.event.op.startswith("PowBackward")


def test_a_compiled_model_is_run_again_uncompiled(request: pytest.FixtureRequest) -> None:
    request.addfinalizer(torch._dynamo.reset)
    model = torch.compile(Net(root_of_zero), backend="eager")
    with rg.anomaly.watch(model, policy="record") as w:
        for x in w.steps(batches(1)):
            model(x).sum().backward()
    assert w.event.op == "SqrtBackward0"
    assert w.event.lineno == line_of("# the birth of root_of_zero")


def test_without_steps_the_model_alone_is_run_again() -> None:
    """A birth in its backward, although nothing of the step is left."""
    net = Net(root_of_zero)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    before = state(net)
    with rg.anomaly.watch(net, optimizer, "skip_step") as w:
        train(net, optimizer, batches(1))
    assert w.event.op == "SqrtBackward0"
    assert w.event.lineno == line_of("# the birth of root_of_zero")
    torch.testing.assert_close(state(net), before, rtol=0, atol=0)


def test_the_model_is_run_again_with_its_inputs_before_hooks() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            return torch.sqrt(self.weight * x)

    model = Root()
    model.register_forward_pre_hook(lambda _, args: (args[0] + 1,))
    model.register_forward_hook(lambda _module, _args, output: output * 2)
    with rg.anomaly.watch(model, policy="record") as w:
        model(torch.tensor([3.0, -1.0, 0.0])).sum().backward()
    assert (w.event.op, w.event.index, w.event.operands["input"]) == ("SqrtBackward0", (1,), 0.0)


def test_a_birth_in_the_loss_function_is_not_blamed_on_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the loss function is too long to be remembered."""
    monkeypatch.setattr("retrograd.anomaly.adapters.torch.records.loss_tail._MOST_NODES", 0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "record") as w:
        root_of_zero(net(batches(1)[0])).sum().backward()
        optimizer.step()
    assert w.event.op == "unknown"
    assert "loss function" in w.event.cause
    assert "steps(loader)" in w.event.note


def test_allowed_operations_are_not_blamed() -> None:
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with rg.anomaly.watch(policy="record", allow=("log",)) as w:
        for _ in w.steps([0]):
            torch.div(torch.log(x).sum() + torch.sqrt(x - 1.5).sum(), 2).backward()
    assert w.event.op == "sqrt"


def test_the_record_releases_healthy_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The birth is exact even if next to nothing may be kept."""
    monkeypatch.setattr("retrograd.anomaly.adapters.torch.records.recording.MOST_BYTES", 1000)
    w, _ = watched(root_of_zero)
    assert (w.event.op, w.event.lineno) == ("SqrtBackward0", line_of("# the birth of root_of_zero"))


def test_no_tensor_of_a_bad_step_is_kept_alive() -> None:
    def step(kept: list[Any]) -> None:
        x = torch.zeros(3, requires_grad=True)
        y = torch.log(x * 2)
        kept.append(weakref.ref(y))
        y.sum().backward()
        del y
        gc.collect()
        assert kept[0]() is None

    with rg.anomaly.watch(policy="record"):
        step([])


SECOND_RUN = """
with rg.anomaly.watch(policy="skip_step") as w:
    for _ in w.steps([1]):
        torch.sqrt(x).sum().backward()
"""
BY_HAND = """
with rg.anomaly.watch(policy="record") as w, torch.no_grad():
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(torch.sqrt(x).sum(), x)
    x -= gradient
"""


@pytest.mark.parametrize("program", [SECOND_RUN, BY_HAND], ids=["second run", "update by hand"])
def test_a_second_run_does_not_import_the_compiler(program: str) -> None:
    """To keep a mode of the dispatcher out of compiled code takes seconds; nothing is compiled here."""
    program = f"""
import sys, torch, retrograd as rg
x = torch.tensor([0.0, 1.0], requires_grad=True)
{program}
print(w.events[0].op, "torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["SqrtBackward0", "False"], done.stderr


def test_a_fault_that_depends_on_the_step_number_is_reproduced() -> None:
    """A count of the program's own goes on for the same batch, so that the second run takes another way."""
    torch.manual_seed(0)
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    step = 0
    with pytest.raises(rg.anomaly.AnomalyError) as raised, rg.anomaly.watch() as w:
        for x in w.steps([torch.ones(4, 2)] * 4):
            step += 1
            out = net(x)
            optimizer.zero_grad()
            (torch.sqrt((out - out.detach()) ** 2).sum() if step == 2 else out.square().sum()).backward()
            optimizer.step()
    event = raised.value.event
    assert event.reproducible is False
    assert event.note is not None
    assert "a counter of the program" in event.note
    assert "no backward pass" not in (event.cause or "")
    assert "born in backward" in (event.cause or "")
    assert str(raised.value).count("the runs differ") == 1
