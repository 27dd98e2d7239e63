"""Optimizers of the program's own: which step has spoilt a weight, and on which line."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import retrograd as rg
from retrograd.anomaly.messages import outcome_of
from retrograd.anomaly.report.contents import advice
from tests.anomaly.torch.training import line_of

BAD = 4  # the step whose gradients are all zero


class Normalised(torch.optim.Optimizer):
    """Steps of one length, whatever the gradient's."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for param in group["params"]:
                direction = param.grad / param.grad.norm()  # the birth in step
                self.state[param]["last"] = direction
                param.sub_(group["lr"] * direction)


class Ascending(torch.optim.SGD):
    """Looks at the gradient a little uphill, as sharpness-aware minimisation does."""

    @torch.no_grad()
    def ascend(self) -> None:
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["moved"] = param.grad * (0.05 / param.grad.norm())  # the birth in ascend
                param.add_(self.state[param]["moved"])

    @torch.no_grad()
    def descend(self) -> None:
        for group in self.param_groups:
            for param in group["params"]:
                param.sub_(self.state[param]["moved"])
        self.step()


def loss_of(net: nn.Module, x: Tensor) -> Tensor:
    return net(x).pow(2).mean()


def batch(step: int) -> Tensor:
    return torch.randn(5, 3) * (step != BAD)


def train(from_step: int | None, policy: str = "skip_step", steps: int = 6, lag: int = 0) -> tuple[Any, nn.Module, Any]:
    torch.manual_seed(0)
    net = nn.Linear(3, 3, bias=False)
    optimizer = Normalised(net.parameters())
    with rg.anomaly.watch(policy=policy, from_step=from_step, lag=lag) as w:
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            loss_of(net, batch(step)).backward()
            optimizer.step()
    return w, net, optimizer


def test_the_step_is_taken_once_more_with_a_record_and_undone() -> None:
    w, net, optimizer = train(None, steps=BAD)
    (event,) = w.events
    assert (event.op, event.step, event.harmed) == ("div", BAD, "the update of weight")
    assert event.lineno == line_of("# the birth in step", Normalised.step)
    assert event.operands == {"input": 0.0, "other": 0.0}
    assert event.rerun is None
    _, before, _ = train(None, steps=BAD - 1)
    assert torch.equal(net.weight, before.weight)  # type: ignore[arg-type]
    assert optimizer.state[net.weight]["last"].isnan().all()  # as the first one has left it


class WithLength(Normalised):
    """Has to be told how far to go."""

    def step(self, length: float) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["lr"] = length
        super().step()


class Remembering(Normalised):
    """Keeps its first direction: the second time, the step is given a bad one."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for param in group["params"]:
                if "first" not in self.state[param]:
                    self.state[param]["first"] = param.grad / param.grad.norm()
                param.sub_(group["lr"] * self.state[param]["first"])


@pytest.mark.parametrize(("kind", "args"), [(WithLength, (0.1,)), (Remembering, ())])
def test_a_step_that_cannot_be_repeated_is_named_and_how_to_find_the_line(kind: Any, args: tuple[Any, ...]) -> None:
    torch.manual_seed(0)
    net = nn.Linear(3, 3, bias=False)
    optimizer = kind(net.parameters())
    with rg.anomaly.watch(policy="skip_step") as w:
        loss_of(net, torch.zeros(5, 3)).backward()
        optimizer.step(*args)
    (event,) = w.events
    assert (event.op, event.step, event.harmed) == (f"{kind.__name__}.step", 1, "the update of weight")
    assert event.rerun == "watch(..., from_step=1)"
    assert f"{kind.__name__}, your own optimizer" in event.cause
    assert event.remedy is None
    assert net.weight.isfinite().all()
    assert f"Mend {kind.__name__}.step, the update that line {event.lineno} calls, then run again." in advice(event)


def test_raise_restores_the_weights() -> None:
    torch.manual_seed(0)
    net = nn.Linear(3, 3, bias=False)
    optimizer = Normalised(net.parameters())
    before = net.weight.detach().clone()
    with pytest.raises(rg.anomaly.AnomalyError), rg.anomaly.watch():
        loss_of(net, torch.zeros(5, 3)).backward()
        optimizer.step()
    assert torch.equal(net.weight, before)


@pytest.mark.parametrize("reason", ["lag", "policy", "size"])
def test_without_copies_the_bad_weight_is_found_in_the_next_step(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason == "size":
        monkeypatch.setattr("retrograd.anomaly.adapters.torch.boundaries.updates._MOST_BYTES", 0)
    policy, lag = "record" if reason == "policy" else "skip_step", 1 if reason == "lag" else 0
    w, _, _ = train(None, policy, steps=BAD + 1, lag=lag)
    event = w.events[0]
    assert (event.kind, event.step) == ("leaf", BAD + 1)
    assert event.rerun == f"watch(..., from_step={BAD})"


def test_state_that_is_infinite_on_purpose_is_no_event() -> None:
    class Patient(Normalised):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            for group in self.param_groups:
                for param in group["params"]:
                    self.state[param].setdefault("best", torch.zeros(1)).fill_(float("inf"))
            super().step(closure)

    torch.manual_seed(0)
    net = nn.Linear(3, 3, bias=False)
    optimizer = Patient(net.parameters())
    with rg.anomaly.watch():
        for step in range(1, BAD):
            optimizer.zero_grad()
            loss_of(net, batch(step)).backward()
            optimizer.step()


@pytest.mark.parametrize("from_step", [1, BAD - 1, BAD])
def test_with_a_record_the_line_of_the_step_is_known(from_step: int) -> None:
    w, net, optimizer = train(from_step)
    (event,) = w.events
    assert (event.op, event.step, event.harmed) == ("div", BAD, "the update of weight")
    assert event.lineno == line_of("# the birth in step", Normalised.step)
    assert event.operands == {"input": 0.0, "other": 0.0}
    assert event.rerun is None
    assert net.weight.isfinite().all()  # type: ignore[operator]
    assert all(each.isfinite().all() for state in optimizer.state.values() for each in state.values())


class Scaled(Normalised):
    """Reads the length of each step as a number, as LAMB does."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for param in group["params"]:
                direction = param.grad / param.grad.abs().sqrt()  # the birth in scaled
                param.add_(torch.sign(param.grad), alpha=-group["lr"] * float(direction.norm()))
                param.add_(direction, alpha=-group["lr"])


def test_a_number_that_was_passed_on_is_no_birth() -> None:
    torch.manual_seed(0)
    net = nn.Linear(3, 3, bias=False)
    optimizer = Scaled(net.parameters())
    with rg.anomaly.watch(policy="record", from_step=1) as w:
        loss_of(net, torch.randn(5, 3) * torch.tensor([1.0, 0.0, 1.0])).backward()
        optimizer.step()
    assert w.event.lineno == line_of("# the birth in scaled", Scaled.step)
    assert not w.event.also


def test_a_factor_that_is_not_finite_is_shown() -> None:
    weight = nn.Parameter(torch.ones(3))
    with rg.anomaly.watch(policy="record", from_step=1) as w:
        torch.add(weight, weight, alpha=float("inf")).sum().backward()
    assert w.event.operands["alpha"] == float("inf")


def test_recording_changes_nothing_else() -> None:
    _, net, optimizer = train(None, steps=BAD - 1)
    w, same, other = train(1, steps=BAD - 1)
    assert not w.events
    assert torch.equal(net.weight, same.weight)  # type: ignore[arg-type]
    assert [state["last"].tolist() for state in optimizer.state.values()] == [
        state["last"].tolist() for state in other.state.values()
    ]


def test_the_policy_decides_whether_the_update_is_undone() -> None:
    w, net, _ = train(1, policy="record", steps=BAD)
    assert w.event.harmed == "the update of weight"
    assert net.weight.isnan().all()  # type: ignore[operator]


def test_a_skipped_update_is_not_said_to_lack_gradients() -> None:
    """The step of :class:`Normalised` asks for the norm of each; it is undone, whatever it does."""
    torch.manual_seed(0)
    net = nn.Linear(3, 3, bias=False)
    optimizer = Normalised(net.parameters())
    with rg.anomaly.watch(policy="skip_step") as w:
        for step in range(3):
            optimizer.zero_grad()
            x = torch.randn(5, 3)
            loss_of(net, x / 0 if step == 1 else x).backward()
            before = net.weight.detach().clone()
            optimizer.step()
            assert torch.equal(before, net.weight) == (step == 1)  # type: ignore[arg-type]
    assert len(w.events) == 1
    assert all(state["last"].isfinite().all() for state in optimizer.state.values())


def ascended(from_step: int | None) -> tuple[Any, str]:
    torch.manual_seed(0)
    net = nn.Linear(3, 3, bias=False)
    optimizer = Ascending(net.parameters(), lr=0.1)
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch(from_step=from_step):
        for step in range(1, 7):
            x = batch(step)
            optimizer.zero_grad()
            loss_of(net, x).backward()
            optimizer.ascend()
            optimizer.zero_grad()
            loss_of(net, x).backward()
            optimizer.descend()
    event = caught.value.event
    return event, outcome_of("nan", event, "raise")


def test_weights_that_are_bad_are_not_called_clean() -> None:
    event, outcome = ascended(1)
    assert event.lineno == line_of("# the birth in ascend", Ascending.ascend)
    assert outcome == "update withheld, but weight is not clean"


def test_a_weight_spoilt_between_two_backward_passes_is_blamed_on_the_step() -> None:
    event, _ = ascended(None)
    assert event.kind == "leaf"
    step = event.step
    assert event.rerun == f"watch(..., from_step={step - 1})"
    assert ascended(step - 1)[0].lineno == line_of("# the birth in ascend", Ascending.ascend)


def test_a_weight_that_was_bad_from_the_start_is_blamed_on_no_step() -> None:
    net = nn.Linear(3, 3)
    with torch.no_grad():
        net.weight[0, 0] = float("nan")
    with rg.anomaly.watch(policy="record") as w:
        loss_of(net, torch.ones(2, 3)).backward()
    assert w.event.kind == "leaf"
    assert w.event.rerun is None


class Adaptive(torch.optim.Optimizer):
    """Divides the gradient by the root of a running mean of its squares, plus eps."""

    def __init__(self, params: Any, lr: float = 0.1, eps: float = 1e-8) -> None:
        super().__init__(params, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for param in group["params"]:
                squares = self.state[param].setdefault("squares", torch.zeros_like(param))
                squares.mul_(0.9).addcmul_(param.grad, param.grad, value=0.1)
                param.sub_(group["lr"] * param.grad / (squares.sqrt() + group["eps"]))  # the birth in adaptive


def step_without_a_feature(net: nn.Linear, optimizer: Any, unused: int) -> Any:
    x = torch.randn(4, 3)
    x[:, unused] = 0.0
    with rg.anomaly.watch(policy="skip_step") as w:
        loss_of(net, x).backward()
        optimizer.step()
    (event,) = w.events
    assert (event.op, event.index, event.harmed) == ("div", (0, unused), "the update of weight")
    assert event.lineno == line_of("# the birth in adaptive", Adaptive.step)
    assert "eps is 0" in (event.cause or "")
    assert bool(torch.isfinite(net.weight).all())
    return event


features = pytest.mark.parametrize("unused", [0, 2])  # the first and the last of the gradient's elements


@features
def test_an_eps_of_zero_in_a_step_of_the_program_is_the_cause(unused: int) -> None:
    net = nn.Linear(3, 1, bias=False)
    optimizer = Adaptive(net.parameters(), lr=0.2, eps=0)
    event = step_without_a_feature(net, optimizer, unused)
    assert event.remedy == "optimizer = Adaptive(net.parameters(), lr=0.2, eps=1e-8)"


@features
def test_an_eps_of_zero_is_replaced_in_the_group_that_has_it(unused: int) -> None:
    net = nn.Linear(3, 1, bias=False)
    other = nn.Parameter(torch.ones(1))
    other.grad = torch.ones(1)
    optimizer = Adaptive([{"params": [other]}, {"params": net.parameters(), "eps": 0.0}], lr=0.2)
    event = step_without_a_feature(net, optimizer, unused)
    made = 'optimizer = Adaptive([{"params": [other]}, {"params": net.parameters(), "eps": 1e-8}], lr=0.2)'
    assert event.remedy == made
