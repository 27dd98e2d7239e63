"""Weights that are new tensors in each step: a bad one is harm if the program holds none to which it could go back."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, grad_and_value, jacrev, vjp, vmap
from torch.utils._pytree import tree_map

import retrograd as rg
from tests.anomaly.torch.training import Net, batches, line_of

RATE = 0.1
GOOD, BAD = 1.0, 0.0


def born_in_forward(a: Tensor, factor: float) -> Tensor:
    return torch.log(a * factor).sum()  # a birth in forward


def born_in_backward(a: Tensor, factor: float) -> Tensor:
    return torch.sqrt(a * factor).sum()  # a birth in backward


def fresh() -> list[Tensor]:
    return [torch.tensor([3.0], requires_grad=True), torch.tensor([1.0, 2.0], requires_grad=True)]


def as_list(of: Any, factors: Iterable[float], end: list[Tensor]) -> None:
    params = fresh()
    try:
        for factor in factors:
            loss = of(params[1], factor) + (params[0] ** 2).sum()
            grads = torch.autograd.grad(loss, params)
            params = [(p - RATE * g).detach().requires_grad_() for p, g in zip(params, grads, strict=True)]
    finally:
        end[:] = [each.detach() for each in params]


def with_their_history(of: Any, factors: Iterable[float], end: list[Tensor]) -> None:
    params = fresh()
    try:
        for factor in factors:
            loss = of(params[1], factor) + (params[0] ** 2).sum()
            grads = torch.autograd.grad(loss, params)
            params = [p - RATE * g for p, g in zip(params, grads, strict=True)]
    finally:
        end[:] = [each.detach() for each in params]


def by_adam(of: Any, factors: Iterable[float], end: list[Tensor]) -> None:
    params = dict(zip("ba", fresh(), strict=True))
    m, v = ({name: torch.zeros_like(each) for name, each in params.items()} for _ in range(2))
    try:
        for t, factor in enumerate(factors, 1):
            loss = of(params["a"], factor) + (params["b"] ** 2).sum()
            grads = dict(zip(params, torch.autograd.grad(loss, list(params.values())), strict=True))
            m = {name: 0.9 * m[name] + 0.1 * grads[name] for name in params}
            v = {name: 0.99 * v[name] + 0.01 * grads[name] ** 2 for name in params}
            for name, param in list(params.items()):
                root = (v[name] / (1 - 0.99**t)).sqrt() + 1e-8
                params[name] = (param - RATE * m[name] / (1 - 0.9**t) / root).detach().requires_grad_()
    finally:
        end[:] = [each.detach() for each in params.values()]


def by_func_grad(of: Any, factors: Iterable[float], end: list[Tensor]) -> None:
    params = dict(zip("ba", (each.detach() for each in fresh()), strict=True))

    def objective(params: dict[str, Tensor], factor: float) -> Tensor:
        return of(params["a"], factor) + (params["b"] ** 2).sum()

    try:
        for factor in factors:
            params = tree_map(lambda p, g: p - RATE * g, params, grad(objective)(params, factor))
    finally:
        end[:] = list(params.values())


def by_grad_and_value(of: Any, factors: Iterable[float], end: list[Tensor]) -> None:
    b, a = (each.detach() for each in fresh())
    objective = grad_and_value(lambda a, b, factor: (of(a, factor) + (b**2).sum(), b * 2), (0, 1), has_aux=True)
    try:
        for factor in factors:
            (da, db), _ = objective(a, b, factor)
            a, b = a - RATE * da, b - RATE * db
    finally:
        end[:] = [b, a]


def by_vjp(of: Any, factors: Iterable[float], end: list[Tensor]) -> None:
    b, a = (each.detach() for each in fresh())
    try:
        for factor in factors:
            loss, pull = vjp(lambda a, b, factor=factor: of(a, factor) + (b**2).sum(), a, b)
            da, db = pull(torch.ones_like(loss))
            a, b = a - RATE * da, b - RATE * db
    finally:
        end[:] = [b, a]


def by_jacrev(of: Any, factors: Iterable[float], end: list[Tensor]) -> None:
    b, a = (each.detach() for each in fresh())
    try:
        for factor in factors:
            da, db = jacrev(lambda a, b, factor: of(a, factor) + (b**2).sum(), (0, 1))(a, b, factor)
            a, b = a - RATE * da, b - RATE * db
    finally:
        end[:] = [b, a]


def as_ensemble(of: Any, factors: Iterable[float], end: list[Tensor]) -> None:
    """Several models at once, of which the last one's gradient is not finite."""
    b, a = (each.detach().expand(3, *each.shape) for each in fresh())
    slopes = vmap(grad(lambda a, b, factor: of(a, factor) + (b**2).sum(), (0, 1)))
    try:
        for factor in factors:
            da, db = slopes(a, b, torch.tensor([GOOD, GOOD, factor]))
            a, b = a - RATE * da, b - RATE * db
    finally:
        end[:] = [b, a]


def by_gradients_of_samples(of: Any, factors: Iterable[float], end: list[Tensor]) -> None:
    b, a = (each.detach() for each in fresh())
    slopes = vmap(grad(lambda a, b, factor: of(a, factor) + (b**2).sum(), (0, 1)), in_dims=(None, None, 0))
    try:
        for factor in factors:
            da, db = slopes(a, b, torch.tensor([GOOD, factor]))
            a, b = a - RATE * da.mean(0), b - RATE * db.mean(0)
    finally:
        end[:] = [b, a]


TRANSFORMS = [by_func_grad, by_grad_and_value, by_vjp, by_jacrev, as_ensemble, by_gradients_of_samples]
PROGRAMS = [as_list, with_their_history, by_adam, *TRANSFORMS]


def after(program: Any, of: Any, steps: int) -> list[Tensor]:
    end: list[Tensor] = []
    program(of, [GOOD] * steps, end)
    return end


@pytest.mark.parametrize("good", [0, 2, 6])
@pytest.mark.parametrize("of", [born_in_forward, born_in_backward])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_birth_is_named_and_the_update_undone(program: Any, of: Any, good: int) -> None:
    end: list[Tensor] = []
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch():
        program(of, [GOOD] * good + [BAD, GOOD, GOOD], end)
    event = caught.value.event
    op, line = ("log", "# a birth in forward") if of is born_in_forward else ("SqrtBackward0", "# a birth in backward")
    assert (event.op, event.index) == (op, (0,))
    if program is not with_their_history or good < 3:  # later its steps are no longer alike
        assert event.lineno == line_of(line, of)
    assert event.operands.get("input", 0.0) == 0.0
    assert event.step == good + 1
    torch.testing.assert_close(end, after(program, of, good), rtol=0, atol=0)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_skipped_update_is_undone_when_the_next_gradient_is_computed(program: Any) -> None:
    """It is undone when the next gradient is asked for. Only a transform has not used the weights by then."""
    end: list[Tensor] = []
    with rg.anomaly.watch(policy="skip_step") as w:
        program(born_in_forward, [GOOD, GOOD, BAD, GOOD, GOOD], end)
    assert (w.events[0].op, w.events[0].step) == ("log", 3)
    if program is not by_adam:  # whose moments nobody can put back
        assert len(w.events) == 1
        assert all(bool(each.isfinite().all()) for each in end)
        is_transform = program in TRANSFORMS
        torch.testing.assert_close(end, after(program, born_in_forward, 4 if is_transform else 3), rtol=0, atol=0)
    assert w.step == len(w.loss_history) == 5


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_birth_that_may_pass_is_reported_once(program: Any) -> None:
    end: list[Tensor] = []
    with rg.anomaly.watch(policy="record", budget=1e9) as w:
        program(born_in_backward, [GOOD, GOOD, BAD, GOOD, GOOD], end)
    assert [(event.op, event.step) for event in w.events] == [("SqrtBackward0", 3)]
    assert not end[1].isfinite().all()
    with pytest.warns(rg.anomaly.AnomalyWarning, match="sqrt"), rg.anomaly.watch(policy="warn", budget=1e9):
        program(born_in_backward, [GOOD, GOOD, BAD, GOOD, GOOD], end)


@pytest.mark.parametrize("of", [born_in_forward, born_in_backward])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_bad_last_update_is_found_when_the_watch_ends(program: Any, of: Any) -> None:
    """No gradient is asked for after it: the program is looked through for what it holds when the watch ends."""
    end: list[Tensor] = []
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch():
        program(of, [GOOD, GOOD, BAD], end)
    assert (caught.value.event.op, caught.value.event.step) == ("log" if of is born_in_forward else "SqrtBackward0", 3)
    torch.testing.assert_close(end[1], after(program, of, 2)[1], rtol=0, atol=0)  # of the other nobody knows


def test_a_bad_last_update_is_no_event_if_earlier_weights_are_kept() -> None:
    kept: list[list[Tensor]] = []
    params = fresh()
    with rg.anomaly.watch() as w:
        for factor in [GOOD, GOOD, BAD]:
            kept.append([each.detach() for each in params])
            grads = torch.autograd.grad(born_in_forward(params[1], factor) + (params[0] ** 2).sum(), params)
            params = [(p - RATE * g).detach().requires_grad_() for p, g in zip(params, grads, strict=True)]
    assert not w.events


def test_a_bad_last_gradient_that_is_not_applied_is_no_event() -> None:
    params = fresh()
    with rg.anomaly.watch() as w:
        for factor in [GOOD, GOOD, BAD]:
            grads = torch.autograd.grad(born_in_forward(params[1], factor) + (params[0] ** 2).sum(), params)
            if all(bool(each.isfinite().all()) for each in grads):
                params = [(p - RATE * g).detach().requires_grad_() for p, g in zip(params, grads, strict=True)]
    assert not w.events


@pytest.mark.parametrize("program", [as_list, by_func_grad])
def test_a_recorded_step_has_its_operation_and_line(program: Any) -> None:
    end: list[Tensor] = []
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch(from_step=2):
        program(born_in_backward, [GOOD, GOOD, BAD, GOOD], end)
    event = caught.value.event
    assert (event.op, event.lineno, event.step) == (
        "SqrtBackward0",
        line_of("# a birth in backward", born_in_backward),
        3,
    )


@pytest.mark.parametrize("of", [born_in_forward, born_in_backward])
def test_a_module_called_with_new_parameters_is_watched(of: Any) -> None:
    """The initial parameters of the module do not count as weights to go back to."""
    net = nn.Linear(3, 2)
    params = {name: each.detach().clone() for name, each in net.named_parameters()}

    def objective(params: dict[str, Tensor], x: Tensor, factor: float) -> Tensor:
        return of(functional_call(net, params, (x,)).square(), factor)

    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch(net):
        for factor in [GOOD, GOOD, BAD, GOOD]:
            gradients = grad(objective)(params, torch.ones(4, 3), factor)
            params = {name: each - 1e-3 * gradients[name] for name, each in params.items()}
    assert caught.value.event.op == ("log" if of is born_in_forward else "SqrtBackward0")
    assert caught.value.event.step == 3


def train(params: list[Tensor], factors: list[float]) -> list[Tensor]:
    for factor in factors:
        grads = torch.autograd.grad(born_in_forward(params[1], factor) + (params[0] ** 2).sum(), params)
        params = [(p - 1e-3 * g).detach().requires_grad_() for p, g in zip(params, grads, strict=True)]
    return params


@pytest.mark.parametrize("policy", ["raise", "skip_step", "warn", "record"])
def test_many_bad_steps_of_a_program_that_could_go_back_give_one_warning(policy: str) -> None:
    """It holds what it began with, as one that goes on from a state of its own choosing does."""
    params = fresh()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with rg.anomaly.watch(policy=policy, budget=1e9) as w:
            train(params, [GOOD, GOOD, BAD] + [GOOD] * 150)
    (event,) = w.events
    assert (event.op, event.step, event.lineno) == ("log", 3, line_of("# a birth in forward", born_in_forward))
    assert "the last 100 gradients" in (event.note or "")
    assert len([each for each in caught if each.category is rg.anomaly.AnomalyWarning]) == (policy != "record")


# --- healthy programs ---------------------------------------------------------------------------------------------


def energy(q: Tensor) -> Tensor:
    """Of an exponential distribution: infinite below zero, with a gradient of NaN."""
    return torch.where(q > 0, q - torch.log(q), torch.inf).sum() + 0 * torch.sqrt(q).sum()


def hamiltonian(slope_of: Callable[[Tensor], Tensor]) -> None:
    q, lost = torch.tensor([0.05, 0.5]), 0
    for _ in range(20):
        start, momentum = q, torch.randn(2)
        for _ in range(4):
            momentum = momentum - 0.3 * slope_of(q)
            q = q + 0.3 * momentum
        if not bool(energy(q).isfinite()):
            lost += bool(q.isnan().any())
            q = start
    assert lost, "the program has not come to what it is to show"


def slope(q: Tensor) -> Tensor:
    q = q.detach().requires_grad_()
    return torch.autograd.grad(energy(q), q)[0]


def sampler() -> None:
    hamiltonian(slope)


def sampler_with_a_transform() -> None:
    hamiltonian(grad(energy))


def samplers_at_once() -> None:
    slopes, positions = vmap(grad(energy)), torch.full((8, 2), 0.05)
    for _ in range(20):
        start, momentum = positions, torch.randn(8, 2)
        for _ in range(4):
            momentum = momentum - 0.3 * slopes(positions)
            positions = positions + 0.3 * momentum
        stays = torch.stack([energy(each).isfinite() for each in positions])
        positions = torch.where(stays[:, None], positions, start)


def newtons_method() -> None:
    x = torch.tensor([2.0, 3.0])
    for _ in range(10):
        x = x - torch.linalg.solve(jacrev(jacrev(ravine))(x), jacrev(ravine)(x))


def ravine(x: Tensor) -> Tensor:
    return (x.exp() - x).sum()


class State:
    __slots__ = ("momentum", "position")

    def __init__(self, position: Any, momentum: Any) -> None:
        self.position, self.momentum = position, momentum


def sampler_with_states() -> None:
    """It holds copies, in objects within a list."""
    chain = [State({"q": torch.tensor([0.05, 0.5])}, None)]
    for _ in range(20):
        q, momentum = chain[-1].position["q"].clone(), torch.randn(2)
        for _ in range(4):
            momentum = momentum - 0.3 * slope(q)
            q = q + 0.3 * momentum
        chain.append(State({"q": q}, momentum) if bool(energy(q).isfinite()) else chain[-1])


def sampler_in_numpy() -> None:
    position = np.array([0.05, 0.5])
    for _ in range(20):
        q, momentum = position.copy(), np.random.randn(2)
        for _ in range(4):
            momentum = momentum - 0.3 * slope(torch.from_numpy(q)).numpy()
            q = q + 0.3 * momentum
        if np.isfinite(energy(torch.from_numpy(q)).item()):
            position = q


def sampler_of_weights() -> None:
    """Of all weights as one vector, while gradients are asked for those of each layer."""
    net = nn.Linear(2, 1)
    position = torch.cat([each.detach().flatten() for each in net.parameters()])
    for _ in range(10):
        q, momentum = position, torch.randn(3)
        for _ in range(4):
            params = [q[:2].reshape(1, 2).detach().requires_grad_(), q[2:].detach().requires_grad_()]
            out = functional_call(net, {"weight": params[0], "bias": params[1]}, (torch.ones(1, 2),))
            slopes = torch.autograd.grad(energy(out), params)
            momentum = momentum - 0.3 * torch.cat([each.flatten() for each in slopes])
            q = q + 0.3 * momentum
        if bool(q.isfinite().all()):
            position = q


def line_search() -> None:
    x = torch.tensor([2.0, 3.0])
    for _ in range(4):
        value, g = (x - torch.log(x - 1)).sum(), grad(lambda x: (x - torch.log(x - 1)).sum())(x)
        rate = 8.0
        while True:
            trial = x - rate * g
            loss, at_trial = (trial - torch.log(trial - 1)).sum(), grad(lambda x: (x - torch.sqrt(x - 1)).sum())(trial)
            if loss <= value and bool(at_trial.isfinite().all()):
                break
            rate /= 2
        x = trial


def with_a_backup() -> None:
    """It looks at what it has made, and takes the weights of before."""
    params = fresh()
    for factor in [GOOD, BAD, BAD, GOOD, BAD, GOOD]:
        before = params
        grads = torch.autograd.grad(born_in_forward(params[1], factor) + (params[0] ** 2).sum(), params)
        params = [(p - RATE * g).detach().requires_grad_() for p, g in zip(params, grads, strict=True)]
        if not all(bool(each.isfinite().all()) for each in params):
            params = before


def own_guard() -> None:
    params = [each.detach() for each in fresh()]
    for factor in [GOOD, BAD, BAD, GOOD, BAD, GOOD]:
        grads = grad(lambda params, factor: born_in_forward(params[1], factor) + (params[0] ** 2).sum())(params, factor)
        if all(bool(each.isfinite().all()) for each in grads):
            params = [p - RATE * g for p, g in zip(params, grads, strict=True)]


def nan_taken_out() -> None:
    params = fresh()
    for factor in [GOOD, BAD, GOOD, BAD, GOOD]:
        grads = torch.autograd.grad(born_in_backward(params[1], factor) + (params[0] ** 2).sum(), params)
        params = [
            (p - RATE * g.nan_to_num(0, 0, 0)).detach().requires_grad_() for p, g in zip(params, grads, strict=True)
        ]


def saliency_of_gaps() -> None:
    """Data with NaN for what is missing, after data whose gradient was not finite."""
    for number, data in enumerate(batches(6)):
        data[0, 1] = -1.0 if number % 2 else math.nan
        x = data.requires_grad_()
        (g,) = torch.autograd.grad(torch.sqrt(x - x.detach()).sum(), x)
        del data, x
        assert not g.isfinite().all()


def attack() -> None:
    original = batches()[0]
    x = original
    for _ in range(5):
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(torch.sqrt((x - original).square().sum()), x)
        x = torch.min(torch.max(x + 0.01 * g.sign(), original - 0.1), original + 0.1)


def minimised_by_scipy() -> None:
    from scipy.optimize import minimize

    def objective(x: Any) -> Any:
        w = torch.tensor(x, requires_grad=True)
        value = (w - torch.log(w - 1) - 0.5 * torch.log(9 - w)).sum()
        (g,) = torch.autograd.grad(value, w)
        return value.item(), g.numpy()

    for method in ("L-BFGS-B", "CG", "BFGS"):
        with np.errstate(all="ignore"):
            minimize(objective, np.array([2.0, 8.9]), jac=True, method=method, options={"maxiter": 5})


def meta_learning() -> None:
    """Inner loops without second derivatives, and an optimizer outside: nothing of theirs is a step."""
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for _ in range(3):
        fast = list(net.parameters())
        for _ in range(3):
            loss = nn.functional.linear(torch.ones(3, 2), *fast).square().mean()
            fast = [p - 0.1 * g for p, g in zip(fast, torch.autograd.grad(loss, fast), strict=True)]
        optimizer.zero_grad()
        nn.functional.linear(torch.ones(3, 2), *fast).square().mean().backward()
        optimizer.step()


def hardened() -> None:
    """Attacks before each update."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for x in batches(3):
        for _ in range(3):
            x = x.detach().requires_grad_()
            x = x + 0.01 * torch.autograd.grad(net(x).square().sum(), x)[0].sign()
        optimizer.zero_grad()
        net(x.detach()).square().mean().backward()
        optimizer.step()


HEALTHY: list[Callable[[], None]] = [
    *(samplers_at_once, newtons_method),
    *(sampler, sampler_with_a_transform, sampler_with_states, sampler_in_numpy, sampler_of_weights, line_search),
    *(with_a_backup, own_guard, nan_taken_out, saliency_of_gaps, attack, minimised_by_scipy, meta_learning, hardened),
]


@pytest.mark.parametrize("policy", ["raise", "skip_step"])
@pytest.mark.parametrize("program", HEALTHY, ids=lambda each: each.__name__)
def test_healthy_programs_have_no_event(program: Callable[[], None], policy: str) -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rg.anomaly.watch(policy=policy) as w:
            program()
    assert not w.events
    if program in (meta_learning, hardened):
        assert w.step == len(w.loss_history) == 3


@pytest.mark.parametrize("program", PROGRAMS)
def test_weights_are_the_same_with_and_without_the_watch(program: Any) -> None:
    end: list[Tensor] = []
    with rg.anomaly.watch() as w:
        program(born_in_forward, [GOOD] * 5, end)
    torch.testing.assert_close(end, after(program, born_in_forward, 5), rtol=0, atol=0)
    assert w.step == len(w.loss_history) == 5
    assert all(each is not None and math.isfinite(each) for each in (*w.loss_history, *w.grad_norm_history))
