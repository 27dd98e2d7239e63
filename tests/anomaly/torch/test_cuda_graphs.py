"""CUDA graphs: a capture is not looked at, and a step that is replayed is watched as any other."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW
from torch.overrides import _get_current_function_mode_stack

import retrograd as rg
from tests.anomaly.torch.cuda_graphs import emulate
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

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda params: SGD(params, 0.1),
    "momentum": lambda params: SGD(params, 0.1, momentum=0.9, foreach=True),
    "fused": lambda params: Adam(params, 0.1, fused=True),
}


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    emulate(monkeypatch)


class Step:
    """A training step that reads its batch from a tensor of its own, to be captured."""

    def __init__(
        self,
        name: str = "SGD",
        net: Net | None = None,
        loss: Callable[[Tensor], Tensor] | None = None,
        clip: bool = False,
    ) -> None:
        torch.manual_seed(0)
        self.net = net or Net()
        self.optimizer = OPTIMIZERS[name](self.net.parameters())
        self.x = torch.zeros(5, 4)
        self.loss_of = loss or (lambda out: (out**2).mean())
        self.clip = clip
        self.graph = torch.cuda.CUDAGraph()

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.backward()
        if self.clip:
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()

    def backward(self) -> None:
        self.loss = self.loss_of(self.net(self.x))
        self.loss.backward()

    def warm_up(self) -> None:
        for x in batches(3):
            self.x.copy_(x)
            self()

    def capture(self, call: Callable[[], None] | None = None) -> None:
        self.optimizer.zero_grad()
        with torch.cuda.graph(self.graph):
            (call or self)()

    def replay(self, x: Tensor) -> None:
        self.x.copy_(x)
        self.graph.replay()


def test_the_emulated_graph_computes_what_the_program_does() -> None:
    step, usual = Step("momentum"), Step("momentum")
    for each in (step, usual):
        each.warm_up()
    step.capture()
    torch.testing.assert_close(state(step.net), state(usual.net), rtol=0, atol=0)
    for x in batches(4):
        step.replay(x)
        usual.x.copy_(x)
        usual()
    torch.testing.assert_close(state(step.net), state(usual.net))


def test_the_emulated_capture_refuses_to_read_numbers() -> None:
    step = Step()
    with pytest.raises(RuntimeError, match="previous error during capture"):
        step.capture(lambda: step.loss_of(step.net(step.x)).item())  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_bad_replayed_step_is_left_out_and_reported(name: str, lag: int, clip: bool) -> None:
    good, bad = batches(4), torch.full((5, 4), math.nan)
    usual = Step(name, clip=clip)
    usual.warm_up()
    for x in good:
        usual.x.copy_(x)
        usual()
    step = Step(name, clip=clip)
    with rg.anomaly.watch(step.net, step.optimizer, "skip_step", lag=lag) as w:
        step.warm_up()
        step.capture()
        assert w.step == 3, "a capture is no step"
        assert not _get_current_function_mode_stack(), "and nothing is noted where nothing is called"
        for x in [good[0], bad, good[1], bad, bad, *good[2:]]:
            step.replay(x)
    torch.testing.assert_close(state(step.net), state(usual.net))
    assert w.step == 10
    assert [event.step for event in w.events] == [5, 7, 8]


@pytest.mark.parametrize("lag", [0, 1])
def test_the_error_comes_with_the_bad_replay_or_the_next(lag: int) -> None:
    step = Step()
    with rg.anomaly.watch(step.net, step.optimizer, lag=lag):
        step.warm_up()
        step.capture()
        step.replay(batches(1)[0])
        if lag:
            step.replay(torch.full((5, 4), math.nan))
        with pytest.raises(rg.anomaly.AnomalyError, match=r"it reached the loss") as caught:
            step.replay(batches(1)[0] if lag else torch.full((5, 4), math.nan))
        assert weights_are_clean(step.net)
    event = caught.value.event
    assert (event.kind, event.op) == (("leaf", "leaf") if lag == 0 else ("invalid", "unknown"))
    assert event.remedy is None, "the batch of a graph has one size"
    assert lag == 0 or "Weights or inputs have changed by now" in str(event.note)


@pytest.mark.parametrize("model", [True, False])
@pytest.mark.parametrize(
    ("fault", "op"), [(log_of_zero, "log"), (root_of_zero, "SqrtBackward0")], ids=["forward", "backward"]
)
def test_a_birth_in_the_model_of_a_graph_has_its_line(fault: Callable[[Tensor], Tensor], op: str, model: bool) -> None:
    """The model is run again with what is in the graph's inputs; without it the last operations tell."""
    step = Step(net=Net(lambda out: fault(out) if out is not None else out))
    with rg.anomaly.watch(step.net if model else None, step.optimizer, "skip_step") as w:
        step.capture()
        step.replay(batches(1)[0])
    assert w.event is not None
    assert (w.event.op, w.event.lineno) == (op, line_of(f"the birth of {fault.__name__}"))
    assert w.event.rerun is None, "a record of a graph has nothing in it"
    assert weights_are_clean(step.net)


@pytest.mark.parametrize("lag", [0, 1])
def test_a_birth_in_the_loss_function_of_a_graph_has_its_line(lag: int) -> None:
    def loss(out: Tensor) -> Tensor:
        return (out - out.detach()).sum(1).sqrt().mean()  # a root of zero

    step = Step(loss=loss)
    with rg.anomaly.watch(step.net, step.optimizer, "skip_step", lag=lag) as w:
        step.capture()
        step.replay(batches(1)[0])
        step.x.zero_()
    assert w.event is not None
    assert (w.event.op, w.event.lineno) == ("SqrtBackward0", line_of("a root of zero", loss))


@pytest.mark.parametrize("policy", ["record", "warn"])
def test_a_bad_replay_that_may_pass_is_applied_and_reported(policy: str, recwarn: pytest.WarningsRecorder) -> None:
    step = Step()
    with rg.anomaly.watch(step.net, step.optimizer, policy, budget=1e9) as w:
        step.warm_up()
        step.capture()
        step.replay(torch.full((5, 4), math.nan))
    assert len(w.events) == 1
    assert len(recwarn) == (policy == "warn")
    assert not weights_are_clean(step.net)


def test_an_update_by_hand_in_a_graph_is_reported_as_applied() -> None:
    step = Step()

    def by_hand() -> None:
        step.backward()
        with torch.no_grad():
            for each in step.net.parameters():
                each -= 0.1 * each.grad  # type: ignore[operator]

    with rg.anomaly.watch(step.net), pytest.raises(rg.anomaly.AnomalyError, match="it reached the loss"):
        step.capture(by_hand)
        step.replay(torch.full((5, 4), math.nan))
    assert not weights_are_clean(step.net)


@pytest.mark.parametrize("lag", [0, 1])
def test_bad_gradients_of_a_graph_are_withheld_outside_it(lag: int) -> None:
    step = Step()
    with rg.anomaly.watch(step.net, step.optimizer, "skip_step", lag=lag) as w:
        step.warm_up()
        step.capture(step.backward)
        before = state(step.net)
        for each in step.net.parameters():
            each.grad.zero_()  # type: ignore[union-attr]
        step.replay(torch.full((5, 4), math.nan))
        step.optimizer.step()
        torch.testing.assert_close(state(step.net), before, rtol=0, atol=0)
    assert [event.step for event in w.events] == [4]


def test_a_stopped_watch_does_not_change_replays() -> None:
    step = Step()
    with rg.anomaly.watch(step.net, step.optimizer, "skip_step"):
        step.warm_up()
        step.capture()
    step.replay(torch.full((5, 4), math.nan))
    assert not weights_are_clean(step.net)


def test_pending_checks_are_read_before_a_capture() -> None:
    step = Step()
    with rg.anomaly.watch(step.net, step.optimizer, "skip_step", lag=1) as w:
        train(step.net, step.optimizer, [torch.full((5, 4), math.nan)])
        assert not w.events
        with torch.cuda.graph(step.graph):
            assert len(w.events) == 1
            step()


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("given", [False, True])
def test_graphed_callables_are_watched(given: bool, lag: int) -> None:
    """They are captured with a model that has hooks of the watch, and watched afterwards."""
    net = Net()
    optimizer = SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net if given else None, optimizer if given else None, "skip_step", lag=lag) as w:
        graphed = torch.cuda.make_graphed_callables(net, (torch.randn(5, 4),))
        assert w.step == 0
        train(graphed, optimizer, batches(3))
        before = state(net)
        train(graphed, optimizer, [torch.full((5, 4), math.nan)])
    torch.testing.assert_close(state(net), before, rtol=0, atol=0)
    assert [event.step for event in w.events] == [4]


def test_a_birth_in_a_graphed_callable_has_its_line() -> None:
    net = Net(log_of_zero)
    optimizer = SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "skip_step", lag=1) as w:
        torch.cuda.make_graphed_callables(net, (torch.randn(5, 4),))
        replaying = net.forward
        train(net, optimizer, batches(1))
    assert net.forward is replaying
    assert w.event is not None
    assert (w.event.op, w.event.lineno) == ("log", line_of("the birth of log_of_zero"))


def test_a_model_may_be_graphed_after_watched_steps() -> None:
    net = Net()
    net.first.bias.data.fill_(10.0)  # so that no unit has a gradient of zero
    optimizer = AdamW(net.parameters(), 0.01, eps=0.0)
    with rg.anomaly.watch(net, optimizer, {"nan": "raise", "inf": "raise", "spike": "record"}, lag=1) as w:
        train(net, optimizer, batches(3))
        torch.cuda.make_graphed_callables(net, (torch.randn(5, 4),))
        train(net, optimizer, batches(3))
        assert w.step == 6


@pytest.mark.parametrize("options", [{"from_step": 1}, {"policy": {"nan": "raise", "spike": "record"}}, {"lag": 1}])
def test_nothing_is_read_in_a_capture(options: dict[str, Any]) -> None:
    """Whatever is asked for besides: reading would be an error."""
    step = Step()
    step.net.first.bias.data.fill_(10.0)  # so that no unit has a gradient of zero
    step.optimizer = AdamW(step.net.parameters(), 0.01, eps=0.0, fused=True)  # which may divide by zero
    with rg.anomaly.watch(step.net, step.optimizer, **options) as w, rg.anomaly.NaNDetector(step.net):
        step.warm_up()
        step.capture()
        step.replay(batches(1)[0])
    assert not w.events


def test_autograd_grad_works_in_a_capture() -> None:
    weight = torch.ones(3, requires_grad=True)
    graph = torch.cuda.CUDAGraph()

    def update() -> None:
        (gradient,) = torch.autograd.grad((weight**2).sum(), weight)
        weight.data.sub_(0.1 * gradient)
        torch.func.grad(lambda w: (w**2).sum())(weight.detach())

    with rg.anomaly.watch():
        for _ in range(3):
            update()
        with torch.cuda.graph(graph):
            update()
        graph.replay()
    torch.testing.assert_close(weight.detach(), torch.full((3,), 0.8**4))


def test_a_gradient_scaler_works_in_a_capture() -> None:
    step = Step("fused")
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def scaled() -> None:
        step.loss = step.loss_of(step.net(step.x))
        scaler.scale(step.loss).backward()
        scaler.step(step.optimizer)
        scaler.update()

    with rg.anomaly.watch(step.net, step.optimizer, "skip_step") as w:
        for x in batches(2):
            step.x.copy_(x)
            step.optimizer.zero_grad()
            scaled()
        step.capture(scaled)
        step.replay(batches(1)[0])
        before = copy.deepcopy(state(step.net))
        step.replay(torch.full((5, 4), math.nan))
    torch.testing.assert_close(state(step.net), before, rtol=0, atol=0)
    assert [event.step for event in w.events] == [4]


def test_captures_by_torch_within_a_step_are_not_disturbed() -> None:
    """Compiled code does this, and the step around it goes on."""
    scope: dict[str, Any] = {}
    text = """
def captured(graph, function, *args):
    graph.capture_begin()
    result = function(*args)
    graph.capture_end()
    graph.replay()
    return result
"""
    exec(compile(text, f"{torch.__path__[0]}/_inductor/cudagraph_trees.py", "exec"), scope)
    net = Net(lambda out: log_of_zero(scope["captured"](torch.cuda.CUDAGraph(), torch.relu, out)))
    optimizer = SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "skip_step", lag=1) as w:
        train(net, optimizer, batches(2))
    assert [(event.step, event.op) for event in w.events] == [(1, "log"), (2, "log")]
    assert weights_are_clean(net)
