"""The always-on tier: the loss at backward, the gradients before the update."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import retrograd as rg
from retrograd.anomaly.adapters.torch.gradient_checks.gradients import finite_norm
from tests.anomaly.torch.training import (
    Net,
    batches,
    line_of,
    log_of_zero,
    root_of_zero,
    state,
    train,
    watched,
    weights_are_clean,
)

FAULTS = [log_of_zero, root_of_zero]


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("model", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_raise_leaves_the_weights_clean(fault: Any, model: bool, steps: bool) -> None:
    net = Net()
    with pytest.raises(rg.anomaly.AnomalyError) as caught:
        watched(fault, "raise", net=net, model=model, steps=steps)
    assert caught.value.event.harmed is not None
    assert weights_are_clean(net)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("steps", [False, True])
def test_skip_step_goes_on_with_clean_weights(fault: Any, steps: bool) -> None:
    w, net = watched(fault, "skip_step", steps=steps)
    assert len(w.events) == 1
    assert weights_are_clean(net)


def test_a_skipped_update_changes_neither_weights_nor_moments() -> None:
    torch.manual_seed(0)
    one, other = Net(), Net()
    other.load_state_dict(one.state_dict())
    optimizers = [torch.optim.Adam(net.parameters(), weight_decay=0.1) for net in (one, other)]
    good = batches(3)
    bad = torch.full((5, 4), math.nan)
    with rg.anomaly.watch(one, optimizers[0], "skip_step") as w:
        train(one, optimizers[0], [good[0], bad, good[1], bad, good[2]])
    train(other, optimizers[1], good)
    assert len(w.events) == 2
    torch.testing.assert_close(state(one), state(other), rtol=0, atol=0)
    moments = [optimizer.state_dict()["state"] for optimizer in optimizers]
    torch.testing.assert_close(moments[0], moments[1], rtol=0, atol=0)


def test_record_and_warn_let_the_update_happen() -> None:
    _, net = watched(root_of_zero, "record", steps=False)
    assert not weights_are_clean(net)
    with pytest.warns(rg.anomaly.AnomalyWarning, match="SqrtBackward0|gradient"):
        watched(root_of_zero, "warn", steps=False, budget=1e9)


@pytest.mark.parametrize("policy", ["raise", "skip_step"])
def test_every_bad_gradient_is_found_with_any_budget(policy: str) -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "skip_step", budget=1e-9) as w:
        for x in batches(30):
            net.fault = root_of_zero if w.step % 2 else None
            train(net, optimizer, [x])
    assert len(w.events) == 15
    assert weights_are_clean(net)


def test_a_finite_gradient_is_never_called_infinite() -> None:
    """The sum of its squares overflows."""
    net = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), 0.0)
    with rg.anomaly.watch(net, optimizer) as w:
        (net(torch.ones(1, 2)) * 1e30).sum().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    assert not w.events


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_finite_norm_is_none_if_any_number_is_not_finite(dtype: torch.dtype, value: float | None) -> None:
    tensors = [torch.full((300,), 6e4 if dtype == torch.float16 else 1e30).to(dtype), torch.zeros(0), torch.ones(2, 3)]
    if value is not None:
        tensors[0][17] = value
    assert (finite_norm(tensors) is not None) == (value is None)
    loss = torch.tensor(1.0 if value is None else value)
    assert (finite_norm([torch.ones(2)], [loss]) is not None) == (value is None)


def test_finite_norm_does_not_overflow() -> None:
    assert finite_norm([torch.full((4,), 1e30), torch.zeros(3)]) == pytest.approx(2e30)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("by_hand", [False, True])
def test_the_norms_of_the_gradients_are_remembered(clip: bool, by_hand: bool) -> None:
    net, norms = Net(), []
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    with rg.anomaly.watch(net, None if by_hand else optimizer, budget=1e9) as w:
        for batch in batches(4):
            net(batch).square().sum().backward()
            norms.append(nn.utils.get_total_norm([each.grad for each in net.parameters() if each.grad is not None]))
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), 0.01)
            if by_hand:
                with torch.no_grad():
                    for each in net.parameters():
                        each -= 0.01 * each.grad
            else:
                optimizer.step()
            net.zero_grad()
    known = [0.0 if each is None else each for each in w.grad_norm_history]
    assert len(known) == len(w.loss_history) == 4
    assert known == pytest.approx([each.item() for each in norms])


def test_a_runaway_is_recognised_by_the_norms_of_gradients() -> None:
    """Where backward starts from many numbers, there is no loss that could tell."""
    weight = nn.Parameter(torch.full((4,), 3.0))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch(optimizer=optimizer):
        for _ in range(20):
            optimizer.zero_grad()
            y = weight.square().square()
            y.backward(torch.ones(4))
            optimizer.step()
    event = caught.value.event
    assert event.op == "pow"
    assert "The weights ran away" in (event.cause or "")
    assert "gradient norm went" in (event.cause or "")


def test_a_bad_sparse_gradient_is_withheld() -> None:
    table = nn.Embedding(10, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters())
    with rg.anomaly.watch(table, optimizer, "skip_step") as w:
        for factor in (1.0, math.inf):
            optimizer.zero_grad()
            out = table(torch.tensor([1, 2]))
            out.register_hook(lambda grad, factor=factor: grad * factor)
            out.sum().backward()
            optimizer.step()
    assert len(w.events) == 1
    assert weights_are_clean(table)


def test_a_bad_loss_is_skipped_before_an_update_by_hand() -> None:
    """Where no optimizer is in sight, gradients are looked at when backward ends, and are zero after a bad loss."""
    x = torch.tensor([4.0, 1.0], requires_grad=True)
    with rg.anomaly.watch(policy="skip_step") as w:
        for offset in (0.0, 1.0, 5.0):
            x.grad = None
            torch.log(x - offset).sum().backward()
            with torch.no_grad():
                assert x.grad is not None
                x -= 0.1 * x.grad
    assert [event.op for event in w.events] == ["log", "log"]
    assert x.isfinite().all()


@pytest.mark.parametrize("steps", [False, True])
def test_a_bad_gradient_is_zero_for_an_update_by_hand(steps: bool) -> None:
    """The loss is fine; the gradient is what must not be applied."""
    x = torch.tensor([4.0, 1.0], requires_grad=True)
    before = []
    with rg.anomaly.watch(policy="skip_step") as w:
        for offset in w.steps([1.0, 0.0, 2.0]) if steps else [1.0, 0.0, 2.0]:
            x.grad = None
            before.append(x.detach().clone())
            torch.sqrt(x * offset).sum().backward()
            with torch.no_grad():
                assert x.grad is not None
                x -= 0.1 * x.grad
    assert [event.op for event in w.events] == ["SqrtBackward0"]
    assert x.isfinite().all()
    assert not torch.equal(x, before[-1])  # the step after it counts


def test_a_bad_loss_in_a_closure_is_skipped() -> None:
    x = torch.tensor([1.0], requires_grad=True)
    optimizer = torch.optim.LBFGS([x], lr=1.0, max_iter=3)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = torch.sqrt(x - x.detach()).sum()
        loss.backward()
        return loss

    with rg.anomaly.watch(None, optimizer, "skip_step") as w:
        optimizer.step(closure)
        assert w.events
        assert x.tolist() == [1.0]
        optimizer.step(lambda: (optimizer.zero_grad(), (x**2).sum(), (x**2).sum().backward())[1])
    assert x.tolist() != [1.0], "the step after was withheld"


def test_an_optimizer_that_calls_its_base_class_is_skipped_once() -> None:
    class Mine(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            super().step(closure)

    torch.optim.SGD([torch.zeros(1)])  # from here on torch tells of the inner step as well
    net = Net(root_of_zero)
    optimizer = Mine(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer, "skip_step") as w:
        train(net, optimizer, batches(1))
        assert len(w.events) == 1
        assert w._adapters[0].updates == 0  # type: ignore[attr-defined]
    assert weights_are_clean(net)


def test_an_optimizer_that_steps_others_is_skipped_with_them() -> None:
    """Their parameters are not its own."""

    class Both(torch.optim.Optimizer):
        def __init__(self, *optimizers: torch.optim.Optimizer) -> None:
            super().__init__([torch.zeros(1)], {})
            self.optimizers = optimizers

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            for each in self.optimizers:
                each.step()

    net = Net(root_of_zero)
    optimizer = Both(*(torch.optim.SGD(each.parameters(), 0.1) for each in (net.first, net.second)))
    with rg.anomaly.watch(net, optimizer=None, policy="skip_step") as w:
        for _ in range(2):
            net(batches(1)[0]).sum().backward()
            optimizer.step()
    assert w.events
    assert weights_are_clean(net)


def test_two_optimizers_are_withheld_apart() -> None:
    first, second = nn.Linear(2, 1), nn.Linear(2, 1)
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (first, second)]
    before = state(first), state(second)
    with rg.anomaly.watch(policy="skip_step"):
        torch.log(first(torch.ones(1, 2)) * 0).sum().backward()
        optimizers[0].step()
        second(torch.ones(1, 2)).sum().backward()
        optimizers[1].step()
    torch.testing.assert_close(state(first), before[0], rtol=0, atol=0)
    assert not torch.equal(second.weight, before[1]["weight"])


def test_a_bad_micro_batch_withholds_the_accumulated_gradients() -> None:
    """A bad micro-batch withholds the update that it would have been part of, and the second run spoils nothing."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    before = state(net)
    with rg.anomaly.watch(net, optimizer, "skip_step") as w:
        for number, x in enumerate(w.steps(batches(4))):
            net.fault = log_of_zero if number == 1 else None
            net(x).sum().backward()
        optimizer.step()
    assert [event.op for event in w.events] == ["log"]
    torch.testing.assert_close(state(net), before, rtol=0, atol=0)


def test_a_bad_gradient_is_found_behind_clipping() -> None:
    """One infinite gradient, and not the NaNs that clipping would make of all of them."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def spoil_and_clip() -> None:
        assert net.first.bias.grad is not None
        net.first.bias.grad[3] = math.inf
        nn.utils.clip_grad_norm_(net.parameters(), 2.5)

    with rg.anomaly.watch(net, optimizer, "skip_step") as w:
        train(net, optimizer, batches(1), spoil_and_clip)
    (event,) = w.events
    assert event.harmed == "the gradient of first.bias"
    assert (event.index, event.posinf_count, event.nan_count) == ((3,), 1, 0)
    assert event.lineno == line_of(
        "clip_grad_norm_(net.parameters(), 2.5)", test_a_bad_gradient_is_found_behind_clipping
    )
    assert "error_if_nonfinite=True" in (event.remedy or "")
    assert weights_are_clean(net)


def test_gradients_are_not_checked_again_after_clipping(monkeypatch: pytest.MonkeyPatch) -> None:
    from retrograd.anomaly.adapters.torch import monitor

    looks = []
    monkeypatch.setattr(monitor, "finite_norm", lambda *args: looks.append(1) or 1.0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with rg.anomaly.watch(net, optimizer):
        train(net, optimizer, batches(3), lambda: nn.utils.clip_grad_norm_(net.parameters(), 1.0))
        assert not looks
        train(net, optimizer, batches(3))
        assert len(looks) == 3


def test_a_gradient_spoilt_after_clipping_is_caught() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def clip_and_spoil() -> None:
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        net.first.bias.grad.fill_(math.nan)  # type: ignore[union-attr]

    with rg.anomaly.watch(net, optimizer, "skip_step") as w:
        train(net, optimizer, batches(1), clip_and_spoil)
    assert len(w.events) == 1
    assert weights_are_clean(net)


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("clipped", [False, True])
def test_gradients_replaced_after_the_check_are_checked_again(clipped: bool, lag: int) -> None:
    """Python gives the numbers of objects that are gone to new ones."""
    net = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    w = rg.anomaly.watch(net, optimizer, "skip_step", lag=lag)
    w.every_backward = not clipped
    with w:
        for _ in range(7):
            optimizer.zero_grad()
            net(torch.ones(2, 4)).sum().backward()
            if clipped:
                nn.utils.clip_grad_norm_(net.parameters(), 1e9)
            for parameter in net.parameters():
                parameter.grad = None
            for parameter in net.parameters():
                parameter.grad = torch.full_like(parameter, math.nan)
                if clipped:
                    parameter.grad.mul_(1.0)  # as often written to as the other one
            optimizer.step()
            optimizer.state_dict()  # when the result is known
            assert weights_are_clean(net)
    assert len(w.events) == 7


@pytest.mark.parametrize("steps", [False, True])
def test_an_error_within_the_watch_does_not_end_the_training(steps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> Any:
        raise ZeroDivisionError("in the search")

    monkeypatch.setattr("retrograd.anomaly.adapters.torch.postmortem.analysis.origin_of", fail)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    data = [batches(1)[0], torch.full((5, 4), math.nan), batches(1)[0]]
    with rg.anomaly.watch(net, optimizer, "skip_step") as w:
        train(net, optimizer, w.steps(data) if steps else data)
    assert len(w.events) == 1
    assert weights_are_clean(net)
    event = w.events[0]
    assert (event.op, event.harmed) == ("unknown", "loss")
    assert "ZeroDivisionError: in the search" in (event.note or "")


def test_births_within_expect_nonfinite_are_not_reported() -> None:
    x = torch.zeros(2, requires_grad=True)
    with rg.anomaly.watch() as w, rg.anomaly.expect_nonfinite("a test"):
        torch.log(x).sum().backward()
    assert not w.events


def test_ignored_kinds_are_not_searched_for() -> None:
    x = torch.zeros(2, requires_grad=True)
    with rg.anomaly.watch(policy={"nan": "raise", "inf": "ignore"}) as w:
        torch.log(x).sum().backward()
        with pytest.raises(rg.anomaly.AnomalyError):
            (torch.log(x) * 0).sum().backward()
    assert len(w.events) == 1


def test_a_bad_weight_is_reported_with_its_name() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with torch.no_grad():
        net.second.weight[1, 5] = math.nan
    with rg.anomaly.watch(net, optimizer, "record") as w:
        train(net, optimizer, w.steps(batches(1)))
    event = w.event
    assert event is not None
    assert (event.kind, event.layer_name, event.index) == ("leaf", "second", (1, 5))
    assert "second.weight" in event.operands
    assert event.cause is not None and "second.weight itself holds 1 NaN" in event.cause


@pytest.mark.parametrize("library", [rg, torch])
@pytest.mark.parametrize("policy", ["record", "warn"])
@pytest.mark.filterwarnings("ignore::retrograd.anomaly.AnomalyWarning")
def test_a_weight_spoilt_under_record_refers_to_the_event_of_that_step(library: Any, policy: str) -> None:
    weight = library.tensor([1.0, 2.0], requires_grad=True)
    optimizer = library.optim.SGD([weight], lr=0.1)
    with rg.anomaly.watch(policy=policy) as w:
        for number in (2.0, 0.0, 3.0, 4.0):
            optimizer.zero_grad()
            (weight / library.tensor([number, 1.0])).sum().backward()
            optimizer.step()
    birth, *later = w.events
    assert (birth.op.lower()[:3], birth.step) == ("div", 2)
    assert [event.kind for event in later] == ["leaf", "leaf"]
    for event in later:
        assert event.cause is not None and "In step 2 the policy let the update go ahead" in event.cause
        assert event.rerun is None, "there is nothing to search for"


def test_a_skipped_update_is_not_said_to_have_passed() -> None:
    weight = rg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = rg.optim.SGD([weight], lr=0.1)
    with rg.anomaly.watch(policy="skip_step") as w:
        (weight / 0).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        weight.data[0] = math.nan
        (weight * 2).sum().backward()
    assert w.events[1].cause is not None and "the policy let" not in w.events[1].cause


@pytest.mark.parametrize("steps", [False, True])
def test_a_bad_batch_is_reported_with_its_name(steps: bool) -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    data = batches(1)
    data[0][2, 1] = math.inf
    with rg.anomaly.watch(net, optimizer, "record") as w:
        for images in w.steps(data) if steps else data:
            (net(images) ** 2).mean().backward()
    event = w.event
    assert event is not None
    assert (event.kind, event.index, list(event.operands.values())) == ("leaf", (2, 1), [math.inf])
    assert event.cause is not None and "The data already held 1 Inf of 20 elements" in event.cause
    assert event.surroundings is not None and event.surroundings.context["name"] == "images"


def test_wrong_arguments_are_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="ReLU has no parameters"):
        rg.anomaly.watch(nn.ReLU()).start()
    with pytest.raises(ValueError, match=r"first\.weight is on the meta device"):
        rg.anomaly.watch(Net().to("meta")).start()
    with pytest.raises(ValueError, match="this Adam updates none of the model's parameters"):
        rg.anomaly.watch(Net(), torch.optim.Adam(Net().parameters())).start()
    assert rg.anomaly.current() is None


def test_all_ways_to_start_backward_are_watched() -> None:
    x = torch.zeros(2, requires_grad=True)
    y = torch.log(x)
    with rg.anomaly.watch(policy="record") as w:
        torch.autograd.backward([y], [torch.ones(2)], retain_graph=True)
        torch.autograd.backward(y.sum() * 0)
    assert [event.harmed for event in w.events] == ["loss", "loss"]
    assert [event.op for event in w.events] == ["log", "log"]
