"""Weights that are updated by hand with what ``autograd.grad`` returns: nothing is harm but what spoils a weight."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import grad as imported_before
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import retrograd as rg
from tests.anomaly.torch.training import Net, batches, line_of, log_of_zero, root_of_zero, weights_are_clean

RATE = 0.1


def in_place(params: list[Tensor], grads: Any) -> None:
    with torch.no_grad():
        for param, grad in zip(params, grads, strict=True):
            param -= RATE * grad


def through_data(params: list[Tensor], grads: Any) -> None:
    for param, grad in zip(params, grads, strict=True):
        param.data.sub_(RATE * grad)


def assigned(params: list[Tensor], grads: Any) -> None:
    for param, grad in zip(params, grads, strict=True):
        param.data = param.data - RATE * grad


def together(params: list[Tensor], grads: Any) -> None:
    with torch.no_grad():
        torch._foreach_add_(params, grads, alpha=-RATE)


def by_index(params: list[Tensor], grads: Any) -> None:
    with torch.no_grad():
        for param, grad in zip(params, grads, strict=True):
            param[...] = param - RATE * grad


FORMS = [in_place, through_data, assigned, together, by_index]


def forward_birth(a: Tensor, factor: float) -> Tensor:
    return torch.log(a * factor).sum()  # a birth in forward


def backward_birth(a: Tensor, factor: float) -> Tensor:
    return torch.sqrt(a * factor).sum()  # a birth in backward


def weights() -> list[Tensor]:
    return [torch.tensor([3.0], requires_grad=True), torch.tensor([1.0, 2.0], requires_grad=True)]


def loop(params: list[Tensor], data: Any, update: Any, of: Any = forward_birth, ask: Any = None) -> None:
    b, a = params
    for factor in data:
        loss = of(a, factor) + (b**2).sum()
        update(params, (ask or torch.autograd.grad)(loss, params))


def clean(params: Any) -> bool:
    return all(bool(each.isfinite().all()) for each in params)


def after(steps: int, of: Any = forward_birth, update: Any = in_place) -> list[Tensor]:
    params = weights()
    loop(params, [1.0] * steps, update, of)
    return [each.detach() for each in params]


@pytest.mark.parametrize("good", [0, 2, 12])
@pytest.mark.parametrize("of", [forward_birth, backward_birth])
@pytest.mark.parametrize("update", FORMS)
def test_the_birth_is_named_before_the_weight_is_changed(update: Any, of: Any, good: int) -> None:
    params = weights()
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch() as w:
        loop(params, [1.0] * good + [0.0] + [1.0], update, of)
    event = caught.value.event
    op, line = ("log", "# a birth in forward") if of is forward_birth else ("SqrtBackward0", "# a birth in backward")
    assert (event.op, event.index, event.lineno) == (op, (0,), line_of(line, of))
    assert event.operands["input"] == 0.0
    assert event.step == good + 1 == w.step
    assert event.harmed in ({"loss"} if of is forward_birth else {"the gradient of a", "the gradient of params[1]"})
    torch.testing.assert_close([each.detach() for each in params], after(good, of, update), rtol=0, atol=0)
    assert not _get_current_dispatch_mode_stack()


@pytest.mark.parametrize("update", [each for each in FORMS if each is not assigned])
def test_a_skipped_update_changes_no_weight(update: Any) -> None:
    params = weights()
    with rg.anomaly.watch(policy="skip_step") as w:
        loop(params, [1.0, 0.0, 1.0, 0.0, 0.0, 1.0], update)
    torch.testing.assert_close([each.detach() for each in params], after(3))
    assert [event.step for event in w.events] == [2, 4, 5]
    assert w.step == len(w.loss_history) == 6


def test_a_skipped_update_that_assigns_undoes_the_next_step_too() -> None:
    params = weights()
    with rg.anomaly.watch(policy="skip_step") as w:
        loop(params, [1.0, 0.0, 1.0, 1.0], assigned)
    torch.testing.assert_close([each.detach() for each in params], after(2))
    assert [event.step for event in w.events] == [2]


@pytest.mark.parametrize("update", FORMS)
def test_record_and_warn_let_the_update_happen(update: Any) -> None:
    params = weights()
    with rg.anomaly.watch(policy="record", budget=1e9) as w:
        loop(params, [1.0, 0.0, 1.0, 1.0], update)
    assert [(event.op, event.step) for event in w.events] == [("log", 2)]  # what comes of it is no news
    assert params[1].isnan().all()
    with pytest.warns(rg.anomaly.AnomalyWarning, match="log"), rg.anomaly.watch(policy="warn", budget=1e9):
        loop(weights(), [1.0, 0.0, 1.0], update)


def test_several_bad_weights_are_one_event() -> None:
    b, a = weights()
    with rg.anomaly.watch(policy="record", budget=1e9) as w:
        for factor in (1.0, 0.0, 1.0, 1.0):
            loss = forward_birth(a, factor) * (b**2).sum()
            in_place([b, a], torch.autograd.grad(loss, [b, a]))
    assert not b.isfinite().all()
    assert [(event.op, event.step) for event in w.events] == [("log", 2)]


@pytest.mark.parametrize("policy", ["skip_step", "record", "raise"])
@pytest.mark.parametrize("of", [forward_birth, backward_birth])
@pytest.mark.parametrize("update", [in_place, through_data, together])
def test_a_bad_step_is_run_again_and_located(update: Any, of: Any, policy: str) -> None:
    params = weights()
    w = rg.anomaly.watch(policy=policy)
    try:
        with w:
            loop(params, w.steps([1.0, 0.0, 1.0]), update, of)
    except rg.anomaly.AnomalyError:
        assert policy == "raise"
    (event,) = w.events
    op, line = ("log", "# a birth in forward") if of is forward_birth else ("SqrtBackward0", "# a birth in backward")
    assert (event.op, event.index, event.lineno) == (op, (0,), line_of(line, of))
    assert (event.step, event.batch_idx, event.reproducible) == (2, 1, True)
    torch.testing.assert_close([each.detach() for each in params], after(1 if policy == "raise" else 2, of))


@pytest.mark.parametrize("from_step", [1, 2, 3])
def test_a_recorded_step_has_its_operation_and_line(from_step: int) -> None:
    params = weights()
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch(from_step=from_step):
        loop(params, [1.0, 1.0, 0.0], in_place, backward_birth)
    event = caught.value.event
    assert (event.op, event.lineno, event.step) == (
        "SqrtBackward0",
        line_of("# a birth in backward", backward_birth),
        3,
    )
    assert clean(params)


def test_autograd_grad_imported_before_the_watch_is_watched() -> None:
    params = weights()
    with pytest.raises(rg.anomaly.AnomalyError), rg.anomaly.watch():
        loop(params, [0.0], in_place, ask=imported_before)
    assert clean(params)


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("fault", [log_of_zero, root_of_zero])
def test_the_birth_in_a_model_updated_by_hand_is_named(fault: Any, steps: bool) -> None:
    net = Net()
    params = list(net.parameters())
    with rg.anomaly.watch(net, policy="skip_step") as w:
        data = batches()
        for number, x in enumerate(w.steps(data) if steps else data):
            number = w.batch_idx if steps else number  # type: ignore[assignment]
            net.fault = fault if number == 2 else None
            loss = (net(x) ** 2).mean()
            with torch.no_grad():
                for param, grad in zip(params, torch.autograd.grad(loss, params), strict=True):
                    param -= 0.01 * grad
    (event,) = w.events
    assert (event.op, event.lineno) == (
        "log" if fault is log_of_zero else "SqrtBackward0",
        line_of(f"# the birth of {fault.__name__}", fault),
    )
    assert event.step == 3
    assert weights_are_clean(net)


def test_the_momentum_of_the_program_stays_finite() -> None:
    """It has taken over the gradient before anything is known; the weights stay finite all the same."""
    params = weights()
    moments = [torch.zeros_like(each) for each in params]

    def update(params: list[Tensor], grads: Any) -> None:
        with torch.no_grad():
            for param, grad, moment in zip(params, grads, moments, strict=True):
                moment.mul_(0.9).add_(grad)
                param -= 0.01 * moment

    with rg.anomaly.watch(policy="skip_step") as w:
        loop(params, [1.0, 0.0, 1.0, 1.0], update)
    assert (w.events[0].op, w.events[0].step) == ("log", 2)
    assert clean(params)
    assert clean(moments)
    assert len(w.events) == 1


def test_a_mask_written_during_the_update_is_not_undone() -> None:
    params, mask = weights(), torch.zeros(3)

    def update(params: list[Tensor], grads: Any) -> None:
        mask.masked_fill_(torch.tensor([True, False, False]), -math.inf)
        in_place(params, grads)

    with rg.anomaly.watch(policy="skip_step") as w:
        loop(params, [0.0], update)
    assert len(w.events) == 1
    assert mask.tolist() == [-math.inf, 0.0, 0.0]


def test_a_momentum_that_cannot_be_restored_is_named_in_later_events() -> None:
    """It is a new tensor in each step. The weights stay finite, and later events say what they come of."""
    params = weights()
    moments = [torch.zeros_like(each) for each in params]

    def update(params: list[Tensor], grads: Any) -> None:
        moments[:] = [0.9 * moment + grad for moment, grad in zip(moments, grads, strict=True)]
        with torch.no_grad():
            for param, moment in zip(params, moments, strict=True):
                param -= 0.01 * moment

    with rg.anomaly.watch(policy="skip_step") as w:
        loop(params, [1.0, 0.0] + [1.0] * 6, update)
    assert clean(params)
    assert [(each.op, each.step) for each in w.events] == [("log", 2)] + [("unknown", step) for step in range(3, 9)]
    assert w.events[1].harmed == "the update of param"
    assert "kept between updates" in (w.events[1].cause or "")


def test_a_birth_in_the_update_itself_is_named() -> None:
    """The gradient is finite, and its norm zero: it is told as soon as the weight is used."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch():
        for factor in (1.0, 0.0, 1.0):
            (g,) = torch.autograd.grad((w * factor).sum(), w)
            with torch.no_grad():
                w -= g / g.norm()
            (w * 1.0).sum()
    event = caught.value.event
    assert (event.kind, event.step) == ("leaf", 3)
    assert event.rerun == "watch(..., from_step=2)"
    v = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch(from_step=2):
        for factor in (1.0, 0.0, 1.0):
            (g,) = torch.autograd.grad((v * factor).sum(), v)
            with torch.no_grad():
                v -= g / g.norm()  # the quotient of zeros
    event = caught.value.event
    line = line_of("# the quotient of zeros", test_a_birth_in_the_update_itself_is_named)
    assert (event.op, event.lineno, event.step, event.harmed) == ("div", line, 2, "the update of v")
    assert clean([v])


def test_a_birth_in_the_outer_loop_of_maml_is_named() -> None:
    meta = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch():
        for factor in (1.0, 1.0, 0.0):
            (inner,) = torch.autograd.grad((meta**2).sum(), meta)
            fast = meta - 0.1 * inner
            outer = torch.log(fast * factor).sum()  # the birth in the outer loop
            (g,) = torch.autograd.grad(outer, meta)
            with torch.no_grad():
                meta -= 0.1 * g
    event = caught.value.event
    assert (event.op, event.index, event.lineno) == (
        "log",
        (0,),
        line_of("# the birth in the outer loop", test_a_birth_in_the_outer_loop_of_maml_is_named),
    )
    assert clean([meta])


def test_two_players_updated_in_turn_both_stay_finite() -> None:
    """The gradients of both are there before either is updated."""
    x, y = weights()
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch():
        for factor in (1.0, 0.0):
            (gx,) = torch.autograd.grad(torch.log(x * factor).sum() * y.detach().sum(), x)
            (gy,) = torch.autograd.grad((x.detach().sum() * y).sum(), y)
            in_place([y, x], [gy, gx])
    assert (caught.value.event.op, caught.value.event.harmed) == ("log", "loss")
    assert clean([x, y])


# --- healthy programs ---------------------------------------------------------------------------------------------


def energy(q: Tensor) -> Tensor:
    """Of an exponential distribution: infinite below zero, with a gradient of NaN."""
    return torch.where(q > 0, q - torch.log(q), torch.inf).sum() + 0 * torch.sqrt(q).sum()


def sampler() -> None:
    q = torch.tensor([0.05, 0.5])
    for _ in range(30):
        start, momentum = q, torch.randn(2)
        for _ in range(3):
            q = q.detach().requires_grad_()
            (slope,) = torch.autograd.grad(energy(q), q)
            momentum = momentum - 0.3 * slope
            q = q + 0.3 * momentum
        q = q.detach() if bool(energy(q.detach()).isfinite()) else start.detach()


def sampler_in_place() -> None:
    """It looks before it leaps: Metropolis' rule with the gradient of the new place."""
    q = torch.tensor([0.05, 0.5], requires_grad=True)
    for _ in range(30):
        kept = q.detach().clone()
        with torch.no_grad():
            q += 0.5 * torch.randn(2)
        u = energy(q)
        (slope,) = torch.autograd.grad(u, q)
        with torch.no_grad():
            if not (u.isfinite() and slope.isfinite().all()):
                q.copy_(kept)
            else:
                q -= 0.01 * slope


def line_search() -> None:
    """Trial points are written to the leaf, and those outside the domain are left."""
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    for _ in range(6):
        loss = (x - torch.log(x - 1)).sum()
        (g,) = torch.autograd.grad(loss, x)
        start, rate = x.detach().clone(), 8.0
        while True:
            with torch.no_grad():
                x.copy_(start - rate * g)
            trial = (x - torch.log(x - 1)).sum()
            (slope,) = torch.autograd.grad(trial, x)
            if trial.isfinite() and slope.isfinite().all() and trial <= loss:
                break
            rate /= 2


def own_guard() -> None:
    params = weights()
    for factor in (1.0, 0.0, 1.0, 0.0, 1.0):
        loss = forward_birth(params[1], factor) + (params[0] ** 2).sum()
        grads = torch.autograd.grad(loss, params)
        if all(bool(each.isfinite().all()) for each in grads):
            in_place(params, grads)


def nan_taken_out() -> None:
    params = weights()
    for factor in (1.0, 0.0, 1.0):
        loss = forward_birth(params[1], factor) + (params[0] ** 2).sum()
        in_place(params, [torch.nan_to_num(each, 0.0, 0.0, 0.0) for each in torch.autograd.grad(loss, params)])


def saliency() -> None:
    net = Net()
    for x in batches():
        x[0, 0] = -1.0
        pixel = x.requires_grad_()
        (g,) = torch.autograd.grad((torch.log(torch.relu(pixel)) * net(pixel).sum()).sum(), pixel)
        assert not g.isfinite().all()


def attack() -> None:
    net = Net()
    x = batches()[0]
    for _ in range(4):
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(net(x).norm(), x)
        x = (x + 0.01 * g.sign()).clamp(-1, 1)


def influence() -> None:
    net = Net()
    params = list(net.parameters())
    for x in batches():
        grads = torch.autograd.grad(torch.log(net(x) * 0).sum(), params, allow_unused=True)
        sum(float(each.square().sum()) for each in grads if each is not None)


def jacobian() -> None:
    torch.autograd.functional.jacobian(torch.log, torch.tensor([0.0, 1.0]))
    torch.autograd.functional.hessian(lambda x: torch.sqrt(x).sum(), torch.tensor([0.0, 1.0]))


def gradient_penalty() -> None:
    net = Net()
    optimizer = None
    for x in batches():
        x = x.requires_grad_()
        (g,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        loss = ((g.norm(dim=1) - 1) ** 2).mean()
        optimizer = optimizer or torch.optim.SGD(net.parameters(), 0.01)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def functional() -> None:
    params = [each.detach() for each in weights()]
    for _ in range(5):
        params = [each.detach().requires_grad_() for each in params]
        loss = (params[0] ** 2).sum() + (params[1] ** 2).sum()
        params = [p - 0.1 * g for p, g in zip(params, torch.autograd.grad(loss, params), strict=True)]


def meta_learning() -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for _ in range(4):
        fast = list(net.parameters())
        for _ in range(2):
            loss = nn.functional.linear(torch.ones(3, 2), *fast).square().mean()
            grads = torch.autograd.grad(loss, fast, create_graph=True)
            fast = [p - 0.1 * g for p, g in zip(fast, grads, strict=True)]
        optimizer.zero_grad()
        nn.functional.linear(torch.ones(3, 2), *fast).square().mean().backward()
        optimizer.step()


def surgery() -> None:
    """Gradients of two tasks, put together for an optimizer."""
    net = Net()
    params = list(net.parameters())
    optimizer = torch.optim.Adam(params)
    for x in batches():
        one = torch.autograd.grad(net(x).square().mean(), params)
        two = torch.autograd.grad(net(x).abs().mean(), params)
        for param, a, b in zip(params, one, two, strict=True):
            param.grad = a + b
        optimizer.step()


HEALTHY: list[Callable[[], None]] = [
    *(sampler, sampler_in_place, line_search, own_guard, nan_taken_out, saliency, attack, influence, jacobian),
    *(gradient_penalty, functional, meta_learning, surgery),
]


@pytest.mark.parametrize("policy", ["raise", "skip_step", "record"])
@pytest.mark.parametrize("program", HEALTHY, ids=lambda each: each.__name__)
def test_healthy_programs_have_no_event(program: Callable[[], None], policy: str) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rg.anomaly.watch(policy=policy, budget=1e9) as w:
            program()
    assert not w.events
    assert not _get_current_dispatch_mode_stack()


@pytest.mark.parametrize("update", FORMS)
def test_weights_are_the_same_with_and_without_the_watch(update: Any) -> None:
    params, others = weights(), weights()
    loop(others, [1.0] * 5, update)
    with rg.anomaly.watch(budget=1e9) as w:
        loop(params, [1.0] * 5, update)
    torch.testing.assert_close(params, others, rtol=0, atol=0)
    assert w.step == 5
    assert len(w.loss_history) == 5
    assert all(each is not None and math.isfinite(each) for each in (*w.loss_history, *w.grad_norm_history))


def test_gradients_that_update_nothing_count_no_step() -> None:
    net, x = Net(), batches()[0]
    with rg.anomaly.watch() as w:
        for _ in range(5):
            torch.autograd.grad(net(x).sum(), list(net.parameters()))
            torch.autograd.grad(net(x.requires_grad_()).sum(), x)
    assert w.step == 0


def test_an_expected_bad_gradient_is_no_event() -> None:
    params = weights()
    with rg.anomaly.watch() as w, rg.anomaly.expect_nonfinite("a test"):
        loop(params, [0.0], in_place)
    assert not w.events


@pytest.mark.parametrize("goes_on", [False, True])
def test_an_expected_write_is_no_event(goes_on: bool) -> None:
    """The gradient was computed before; no harm is found afterwards, when the leaf is looked at again."""
    leaf, other = (torch.tensor([0.0, 1.0], requires_grad=True) for _ in range(2))
    with rg.anomaly.watch() as w:
        gradients = torch.autograd.grad(torch.sqrt(leaf).sum() + torch.sqrt(other).sum(), (leaf, other))
        with rg.anomaly.expect_nonfinite("a test"), torch.no_grad():
            leaf -= gradients[0]
        if goes_on:
            torch.autograd.grad((leaf * 1).sum(), leaf)
    assert leaf.tolist() == [-math.inf, 0.5]
    assert not w.events


def test_an_unexpected_write_beside_an_expected_one_is_an_event() -> None:
    leaf, other = (torch.tensor([0.0, 1.0], requires_grad=True) for _ in range(2))
    with rg.anomaly.watch(policy="skip_step") as w:
        gradients = torch.autograd.grad(torch.sqrt(leaf).sum() + torch.sqrt(other).sum(), (leaf, other))
        with torch.no_grad():
            with rg.anomaly.expect_nonfinite("a test"):
                leaf -= gradients[0]
            other -= gradients[1]
    assert leaf.tolist() == [-math.inf, 0.5]
    assert other.tolist() == [0.0, 1.0]
    assert [event.op for event in w.events] == ["SqrtBackward0"]


def test_a_nan_written_elsewhere_in_the_same_memory_is_no_event() -> None:
    """The leaf is a part of what is written to, and not the part that is spoilt."""
    whole = torch.ones(4)
    leaf = whole[:2].requires_grad_()
    with rg.anomaly.watch() as w:
        torch.autograd.grad(torch.log(leaf * 0).sum(), leaf)
        whole[3] = math.nan
    assert not w.events


def test_a_dispatch_mode_of_the_program_keeps_its_place() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            Count.seen += 1
            return func(*args, **(kwargs or {}))

    params = weights()
    with rg.anomaly.watch(policy="skip_step") as w:
        with Count():
            loss = forward_birth(params[1], 0.0) + params[0].sum()
            grads = torch.autograd.grad(loss, params)
        before = Count.seen
        in_place(params, grads)
        assert Count.seen == before
    assert len(w.events) == 1
    assert clean(params)
