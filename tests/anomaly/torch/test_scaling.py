"""Gradient scalers: what they do on purpose is no anomaly, what they cannot mend is."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import retrograd as rg
from retrograd.anomaly.adapters.torch.boundaries.scaling import MOST_SKIPS
from retrograd.anomaly.report import format_event
from tests.anomaly.torch.training import Net, batches, line_of, log_of_zero, root_of_zero, state, weights_are_clean


def train_scaled(net: nn.Module, data: Iterable[Tensor], scaler: Any, clip: bool = False) -> None:
    optimizer = torch.optim.SGD(net.parameters(), 0.0)
    for x in data:
        optimizer.zero_grad()
        scaler.scale((net(x) ** 2).mean()).backward()
        if clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def spike(out: Tensor) -> Tensor:
    """Gradients that overflow float32 while the scale is large."""
    return out * 1e17


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("steps", [False, True])
def test_an_update_that_the_scaler_skips_is_no_event(clip: bool, steps: bool) -> None:
    net = Net(spike)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
    with rg.anomaly.watch(net) as w:
        data = batches(4)
        train_scaled(net, w.steps(data) if steps else data, scaler, clip)
    assert scaler.get_scale() < 2.0**20, "nothing was skipped"
    assert not w.events


def test_an_infinite_scaled_loss_is_no_event() -> None:
    net = Net(lambda out: out * 1e17)
    with rg.anomaly.watch(net) as w:
        train_scaled(net, batches(2), torch.amp.GradScaler("cpu", init_scale=2.0**60))
    assert not w.events


@pytest.mark.parametrize("steps", [False, True])
def test_a_bad_loss_is_found_under_its_scale(steps: bool) -> None:
    net = Net(log_of_zero)
    with rg.anomaly.watch(net, policy="skip_step") as w:
        data = batches(1)
        train_scaled(net, w.steps(data) if steps else data, torch.amp.GradScaler("cpu"))
    assert w.event.op == "log"
    assert w.event.lineno == line_of("# the birth of log_of_zero")
    assert weights_are_clean(net)


def test_an_unread_bad_loss_is_found_when_its_update_is_left_out() -> None:
    """On a GPU, losses are read with the gradients, and the scaler keeps bad gradients from the optimizer."""
    net = Net()
    scaler = torch.amp.GradScaler("cpu")
    with rg.anomaly.watch(net, policy="skip_step", lag=1) as w:
        train_scaled(net, batches(2), scaler)
        net.fault = log_of_zero
        train_scaled(net, batches(1), scaler)
        assert [event.op for event in w.events] == ["log"]
        net.fault = None
        before = state(net)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        optimizer.zero_grad()
        net(batches(1)[0]).sum().backward()
        optimizer.step()
    assert w.events[0].harmed == "loss"
    assert not torch.equal(before["second.bias"], state(net)["second.bias"]), "the step after was withheld"


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("fused", [False, True])
def test_scaled_training_is_the_same_with_the_watch(fused: bool, lag: int) -> None:
    """The scaler is updated once, whether it or the watch leaves the update out."""

    def train(watched: bool) -> tuple[Any, Any]:
        torch.manual_seed(0)
        net = Net()
        optimizer = torch.optim.Adam(net.parameters(), fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
        w = rg.anomaly.watch(net, optimizer, "skip_step", lag=lag).start() if watched else None
        for number, x in enumerate(batches(6)):
            net.fault = spike if number in (1, 2) else None
            optimizer.zero_grad()
            scaler.scale((net(x) ** 2).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        if w is not None:
            w.stop()
            assert not w.events
        assert scaler.get_scale() < 2.0**20
        return state(net), optimizer.state_dict()["state"]

    torch.testing.assert_close(train(True), train(False), rtol=0, atol=0)


@pytest.mark.parametrize("steps", [False, True])
def test_updates_skipped_again_and_again_are_an_event(steps: bool) -> None:
    net = Net(root_of_zero)
    before = state(net)
    scaler = torch.amp.GradScaler("cpu")
    with rg.anomaly.watch(net, policy="record") as w:
        data = batches(MOST_SKIPS + 2)
        train_scaled(net, w.steps(data) if steps else data, scaler)
    assert len(w.events) == 1
    event = w.event
    assert (event.op, event.lineno) == ("SqrtBackward0", line_of("# the birth of root_of_zero"))
    assert event.harmed is not None and event.harmed.startswith("the gradient of ")
    assert f"skipped the update {MOST_SKIPS} times in a row; its scale is now 256" in event.note
    assert event.surroundings.context["scaled_on"] == "cpu"
    assert scaler.get_scale() == 65536 / 2 ** (MOST_SKIPS + 2)  # the second run has not moved it
    torch.testing.assert_close(state(net), before, rtol=0, atol=0)


def test_a_scale_that_comes_down_from_far_above_is_no_event() -> None:
    """The scaler skips as many updates as necessary, and then training goes on."""
    net = Net(lambda out: out * 1e16)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**33)
    with rg.anomaly.watch(net) as w:
        train_scaled(net, batches(MOST_SKIPS + 10), scaler)
    assert 2.0**10 < scaler.get_scale() < 2.0 ** (33 - MOST_SKIPS), "too few were skipped, or too many"
    assert not w.events


def test_a_bad_gradient_at_a_scale_of_1_is_an_event() -> None:
    net = Net(root_of_zero)
    with rg.anomaly.watch(net, policy="record") as w:
        train_scaled(net, batches(1), torch.amp.GradScaler("cpu", init_scale=1.0))
    assert "its scale is now 0.5" in w.event.note


class Half(nn.Module):
    """Computes in float16, whatever type it is given."""

    def __init__(self, line: Any) -> None:
        super().__init__()
        self.up, self.down, self.line = nn.Linear(4, 4), nn.Linear(4, 4), line

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            return self.line(self, x).float()


def product(net: Half, x: Tensor) -> Tensor:
    s = net.up(x) @ net.down(x).transpose(0, 1)
    return s.softmax(-1)


def square(net: Half, x: Tensor) -> Tensor:
    h = net.up(x)
    return net.down(h * h)


def sum_of_squares(net: Half, x: Tensor) -> Tensor:
    h = net.up(x)
    return (h * h).sum()


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize(("line", "off"), [(product, True), (square, True), (sum_of_squares, False)])
def test_a_remedy_in_float32_says_where_autocast_would_undo_it(line: Any, off: bool, steps: bool) -> None:
    torch.manual_seed(0)
    net = Half(line)
    with rg.anomaly.watch(net, policy="record") as w:
        for x in w.steps([torch.full((4, 4), 2000.0)]) if steps else [torch.full((4, 4), 2000.0)]:
            net(x).mean().backward()
    remedy = w.event.remedy or ""
    assert ".float()" in remedy
    assert remedy.startswith('with torch.autocast("cpu", enabled=False): ') == off
    assert "Change line" in format_event(w.event)
    name = line.__name__
    source = inspect.getsource(line).replace((w.event.code_line or "").strip(), remedy.strip())
    namespace: dict[str, Any] = {"torch": torch, "Tensor": Tensor, "Half": Half}
    exec(source, namespace)
    assert torch.isfinite(Half(namespace[name])(torch.full((4, 4), 2000.0))).all(), "the remedy does not help"


def large_input(net: Half, x: Tensor) -> Tensor:
    h = net.up(x).float() ** 2
    return net.down(h)


def masked_square(net: Half, x: Tensor) -> Tensor:
    h = net.up(x)
    h = h * h * (h > 0)
    return net.down(h / 1e6)


@pytest.mark.parametrize("steps", [False, True])
def test_a_conversion_by_autocast_is_mended_in_its_line(steps: bool) -> None:
    """No conversion is written in the line that calls the layer."""
    torch.manual_seed(0)
    net = Half(large_input)
    with rg.anomaly.watch(net, policy="record") as w:
        for x in w.steps([torch.full((4, 4), 2000.0)]) if steps else [torch.full((4, 4), 2000.0)]:
            net(x).mean().backward()
    event = w.event
    assert (event.op, event.code_line) == ("to", "return net.down(h)")
    assert "Autocast converts the input" in event.cause
    assert event.remedy == 'with torch.autocast("cpu", enabled=False): return net.down(h)'
    source = inspect.getsource(large_input).replace("return net.down(h)", event.remedy)
    namespace: dict[str, Any] = {"torch": torch, "Tensor": Tensor, "Half": Half}
    exec(source, namespace)
    assert torch.isfinite(Half(namespace["large_input"])(torch.full((4, 4), 2000.0))).all(), "the remedy does not help"


@pytest.mark.parametrize("steps", [False, True])
def test_a_conversion_to_float32_is_not_taken_for_the_one_to_float16(steps: bool) -> None:
    """A layer of torch converts the number that overflows, and the user's line that calls it converts the result."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Identity())
    with rg.anomaly.watch(net, policy="record") as w:
        for x in w.steps([torch.full((4, 4), 1e6)]) if steps else [torch.full((4, 4), 1e6)]:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.mse_loss(net(x).float(), x)
            loss.backward()
    event = w.event
    assert (event.op, event.operands) == ("to", {"input": 1e6})
    assert event.code_line == "loss = F.mse_loss(net(x).float(), x)", "where the model was called, not run again"
    assert event.remedy == 'with torch.autocast("cpu", enabled=False): loss = F.mse_loss(net(x).float(), x)'


@pytest.mark.parametrize("steps", [False, True])
def test_autocast_is_seen_behind_a_second_operation_of_the_same_name(steps: bool) -> None:
    torch.manual_seed(0)
    net = Half(masked_square)
    with rg.anomaly.watch(net, policy="record") as w:
        for x in w.steps([torch.full((4, 4), 2000.0)]) if steps else [torch.full((4, 4), 2000.0)]:
            net(x).mean().backward()
    assert w.event.op == "mul"
    assert w.event.remedy == 'with torch.autocast("cpu", enabled=False): h = h.float() * h.float() * (h > 0)'


def test_an_update_left_out_only_in_the_second_run_changes_no_scale() -> None:
    """Where the loss that was bad comes out finite then, and the scale is too large for its gradients."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
    factors = iter((torch.nan, 1e10))
    with rg.anomaly.watch(net, optimizer, "record") as w:
        for x in w.steps(batches(1)):
            optimizer.zero_grad()
            scaler.scale((net(x) * next(factors)).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
    assert [each.reproducible for each in w.events] == [False]
    assert scaler.get_scale() == 2.0**100


@pytest.mark.parametrize("together", [True, False])
def test_several_losses_scaled_before_backward_are_no_event(together: bool) -> None:
    """That the scaled form of one is infinite is how the scaler works."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
    with rg.anomaly.watch(net, optimizer) as w:
        losses = [(net(batches(1)[0]) ** 2).mean() + added for added in (1e10, 0.0)]
        scaled = scaler.scale(losses) if together else [scaler.scale(each) for each in losses]
        assert not scaled[0].isfinite()
        if together:
            torch.autograd.backward(scaled)
        else:
            for each in scaled:
                each.backward()
        scaler.step(optimizer)
        scaler.update()
    assert not w.events
    assert next(iter(w.loss_history)) == losses[0].item()


def test_a_disabled_scaler_hides_nothing() -> None:
    net = Net(root_of_zero)
    with rg.anomaly.watch(net, policy="skip_step") as w:
        train_scaled(net, batches(1), torch.amp.GradScaler("cpu", enabled=False))
    assert w.event.op == "SqrtBackward0"
    assert weights_are_clean(net)
