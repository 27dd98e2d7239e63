"""Births between backward and the next forward: in an optimizer's step, in clipping, in updates by hand."""

from __future__ import annotations

import linecache
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.anomaly import AnomalyError, AnomalyWarning, NaNEvent, Watch, diagnose, expect_nonfinite
from retrograd.anomaly.messages import outcome_of
from retrograd.core.blocks import get_num_threads, set_num_threads
from retrograd.core.tensor import Tensor
from retrograd.optim._blockwise import LARGE

Values = list[float]


def values(tensors: Any) -> list[np.ndarray]:
    return [tensor.detach().numpy().copy() for tensor in tensors]


def remembered(optimizer: rg.optim.Optimizer) -> list[dict[str, np.ndarray]]:
    return [
        {key: value.numpy().copy() for key, value in state.items() if isinstance(value, Tensor)}
        for state in optimizer.state.values()
    ]


def same(one: Any, other: Any) -> None:
    np.testing.assert_equal(one, other)


def found(watch: Watch) -> NaNEvent:
    (event,) = watch.events
    return event


# --- eps that is nothing: row 46 --------------------------------------------------------------------------------------

DIVIDING = ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop", "Adadelta"]


def train(library: Any, name: str, dtype: str, eps: float) -> Iterator[tuple[Any, Any, Any]]:
    """Steps with an optimizer, for two parameters, one of which has a gradient of zero."""
    dtype = getattr(library, dtype)
    first = library.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
    second = library.tensor([[3.0, 4.0]], dtype=dtype, requires_grad=True)
    optimizer = getattr(library.optim, name)([first, second], eps=eps)
    for _ in range(8):
        optimizer.zero_grad()
        (first.sum() + (second * library.tensor([1.0, 0.0], dtype=dtype)).sum()).backward()
        yield optimizer, first, second


def bad_step(name: str, dtype: str, eps: float) -> tuple[int, tuple[int, ...]]:
    """The number of torch's step that spoils a weight, and which."""
    for number, (optimizer, _, second) in enumerate(train(torch, name, dtype, eps)):
        optimizer.step()
        bad = (~second.isfinite()).nonzero()
        if len(bad):
            return number, tuple(bad[0].tolist())
    raise AssertionError("torch's weights are finite")


HALF = [pytest.param(name, "float16", 1e-8, id=f"{name}-float16") for name in ("Adam", "RMSprop", "Adagrad")]


@pytest.mark.parametrize(("name", "dtype", "eps"), [*((name, "float32", 0.0) for name in DIVIDING), *HALF])
def test_the_first_update_that_divides_by_zero_is_the_one_that_spoils_torchs_weights(
    name: str, dtype: str, eps: float
) -> None:
    spoiled, index = bad_step(name, dtype, eps)
    with rg.anomaly.watch() as watch:
        for number, (optimizer, first, second) in enumerate(train(rg, name, dtype, eps)):
            before = values((first, second)), remembered(optimizer)
            try:
                optimizer.step()
            except AnomalyError:
                break
            assert number < spoiled
    same((values((first, second)), remembered(optimizer)), before)
    event = found(watch)
    assert (number, event.index, event.op) == (spoiled, index, "div")
    assert (event.harmed, event.code_line) == ("the update of second", "optimizer.step()")
    assert (event.operands["grad"], event.operands["eps"]) == (0.0, eps)
    assert diagnose(event).number == 46
    assert event.cause is not None
    assert event.cause.startswith(name)


def test_a_gradient_whose_square_underflows_in_float16_is_explained() -> None:
    x = rg.tensor([1.0], dtype=rg.float16, requires_grad=True)
    optimizer = rg.optim.Adam([x])
    with rg.anomaly.watch(policy="record") as watch:
        (x * 1e-4).sum().backward()
        optimizer.step()
    event = found(watch)
    assert (event.kind, event.index) == ("divide", (0,))
    assert "The square of this gradient, 0.0001, is 0 in float16" in (event.cause or "")


def test_the_remedy_is_the_construction_of_the_optimizer_with_an_eps() -> None:
    x = rg.tensor([1.0], requires_grad=True)
    optimizer = rg.optim.Adam([x], lr=0.1, eps=0.0)
    with rg.anomaly.watch(policy="skip_step") as watch:
        (x * 0).sum().backward()
        optimizer.step()
        event = found(watch)
        assert event.remedy == "optimizer = rg.optim.Adam([x], lr=0.1, eps=1e-8)"
        assert (
            linecache.getline(__file__, event.remedy_lineno or 0).strip()
            == "optimizer = rg.optim.Adam([x], lr=0.1, eps=0.0)"
        )
        namespace = {"rg": rg, "x": x}
        exec(event.remedy, namespace)
        namespace["optimizer"].step()
    same(values([x]), [np.array([1.0], np.float32)])
    assert len(watch.events) == 1


def test_skip_step_restores_weights_and_averages() -> None:
    def trained(watched: bool) -> list[np.ndarray]:
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        optimizer = rg.optim.Adam([x], lr=0.1, eps=0.0)
        for factors in ([2.0, 1.0], [1.0, 3.0]):
            if watched:  # an element without a gradient so far, in a fresh optimizer
                y = rg.tensor([5.0], requires_grad=True)
                optimizer.add_param_group({"params": [y]})
                ((x * rg.tensor([7.0, 7.0])).sum() + (y * 0).sum()).backward()
                optimizer.step()
                optimizer.param_groups.pop()
                optimizer.zero_grad()
            (x * rg.tensor(factors)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return values([x])

    with rg.anomaly.watch(policy="skip_step") as watch:
        skipped = trained(True)
    assert len(watch.events) == 2
    same(skipped, trained(False))


@pytest.mark.parametrize("policy", ["record", "warn", "ignore"])
def test_other_policies_let_the_update_happen(policy: str) -> None:
    def trained() -> Any:
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        optimizer = rg.optim.Adam([x], eps=0.0)
        (x * rg.tensor([1.0, 0.0])).sum().backward()
        optimizer.step()
        return values([x]), remembered(optimizer)

    with rg.anomaly.watch(policy=policy) as watch:
        if policy == "warn":
            with pytest.warns(AnomalyWarning, match="update of x"):
                trained_here = trained()
        else:
            trained_here = trained()
    assert len(watch.events) == (policy != "ignore")
    with np.errstate(all="ignore"):
        same(trained_here, trained())


def test_an_expected_update_is_not_reported() -> None:
    x = rg.tensor([1.0], requires_grad=True)
    optimizer = rg.optim.Adam([x], eps=0.0)
    with rg.anomaly.watch() as watch, expect_nonfinite("this weight is never used"):
        (x * 0).sum().backward()
        optimizer.step()
    assert watch.events == ()
    assert np.isnan(x.item())


def test_a_bad_update_is_not_run_a_second_time() -> None:
    x = rg.tensor([1.0], requires_grad=True)
    optimizer = rg.optim.Adam([x], eps=0.0)
    seen = []
    with rg.anomaly.watch(policy="skip_step") as watch:
        for batch in watch.steps([1, 2]):
            seen.append(batch)
            (x * 0).sum().backward()
            optimizer.step()
    assert seen == [1, 2]
    assert [event.batch_idx for event in watch.events] == [0, 1]
    assert x.item() == 1.0


def test_a_step_with_a_closure_returns_its_loss() -> None:
    x = rg.tensor([1.0], requires_grad=True)
    optimizer = rg.optim.Adam([x], eps=0.0)

    def closure() -> Tensor:
        loss = (x * 0).sum() + 3
        loss.backward()
        return loss

    with rg.anomaly.watch(policy="skip_step") as watch:
        assert optimizer.step(closure).item() == 3.0
    assert found(watch).harmed == "the update of x"


def test_a_bad_loss_in_a_closure_raises_before_the_update() -> None:
    x = rg.tensor([1.0], requires_grad=True)
    optimizer = rg.optim.LBFGS([x])

    def closure() -> Tensor:
        loss = rg.log(x * 0).sum()
        loss.backward()
        return loss

    with pytest.raises(AnomalyError) as raised, rg.anomaly.watch():
        optimizer.step(closure)
    assert raised.value.event.op == "log"
    same(values([x]), [np.array([1.0], np.float32)])


# --- the parameter's name ---------------------------------------------------------------------------------------------


def spoil(net: rg.nn.Module, params: Any, **options: Any) -> NaNEvent:
    optimizer = rg.optim.Adam(params, eps=0.0)
    with rg.anomaly.watch(policy="skip_step", **options) as watch:
        net(rg.zeros(1, 2)).sum().backward()
        optimizer.step()
    return found(watch)


@pytest.mark.parametrize("how", ["model", "names", "variable"])
def test_the_event_names_the_parameter_of_the_update(how: str) -> None:
    model = rg.nn.Sequential(rg.nn.Linear(2, 2))
    params = model.named_parameters() if how == "names" else model.parameters()
    event = spoil(model, params, **({"model": model} if how == "model" else {}))
    assert (event.harmed, event.layer_name) == ("the update of 0.weight", "0")


def test_a_parameter_without_a_name_has_its_number_and_shape() -> None:
    def make() -> rg.optim.Optimizer:
        x = rg.tensor([1.0], requires_grad=True)
        x.grad = rg.zeros(1)
        return rg.optim.Adam([x], eps=0.0)

    made = make()
    with rg.anomaly.watch(policy="skip_step") as watch:
        made.step()
    assert found(watch).harmed == "the update of parameter 0 of shape [1]"


# --- overflow ---------------------------------------------------------------------------------------------------------


def overflowing(make: Callable[[list[Tensor]], rg.optim.Optimizer], grad: float, policy: str = "raise") -> Any:
    """One step with a parameter that is well and one with a large gradient."""
    well = rg.tensor([1.0], requires_grad=True)
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    well.grad, x.grad = rg.tensor([1.0]), rg.tensor([1.0, grad])
    optimizer = make([well, x])
    with rg.anomaly.watch(policy=policy) as watch:
        if policy == "raise":
            with pytest.raises(AnomalyError):
                optimizer.step()
        else:
            optimizer.step()
    return optimizer, values([well, x]), found(watch)


@pytest.mark.parametrize(
    ("make", "grad", "op"),
    [
        (lambda params: rg.optim.SGD(params, lr=10.0), 1e38, "mul"),
        (lambda params: rg.optim.SGD(params, lr=1.0, weight_decay=3e38), 1.0, "mul"),
        (lambda params: rg.optim.SGD(params, lr=1.0, momentum=0.9, nesterov=True), 3e38, "add"),
    ],
    ids=["learning rate", "weight decay", "momentum"],
)
def test_an_overflow_reaches_no_weight(make: Any, grad: float, op: str) -> None:
    _, (well, x), event = overflowing(make, grad)
    assert np.isfinite(well).all()
    same(x, np.array([1.0, 2.0], np.float32))
    assert (event.op, event.kind, event.index, event.harmed) == (op, "overflow", (1,), "the update of x")
    assert diagnose(event).title == "an update beyond the type's range"
    assert event.remedy == "rg.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()"


def test_an_overflow_on_writing_a_float16_weight_is_reported() -> None:
    x = rg.tensor([60000.0, 1.0], dtype=rg.float16, requires_grad=True)
    optimizer = rg.optim.SGD([x], lr=1.0)
    x.grad = rg.tensor([-60000.0, 1.0], dtype=rg.float16)
    with rg.anomaly.watch(policy="skip_step") as watch:
        optimizer.step()
    event = found(watch)
    assert event.index == (0,)
    assert (event.note or "").endswith("hold the largest number of their dtype.")
    same(values([x]), [np.array([65504.0, 0.0], np.float16)])


def test_averages_that_overflow_are_reset() -> None:
    optimizer, (_, x), event = overflowing(lambda params: rg.optim.Adam(params, lr=0.1), 1e25, "skip_step")
    assert (event.harmed, event.operands["grad"]) == ("exp_avg_sq of x", float(np.float32(1e25)))
    same(x, np.array([1.0, 2.0], np.float32))
    params = optimizer.param_groups[0]["params"]
    with rg.anomaly.watch() as watch:
        optimizer.zero_grad()
        (params[1] * 3).sum().backward()
        optimizer.step()
    assert watch.events == ()
    fresh = rg.tensor([1.0, 2.0], requires_grad=True)
    fresh.grad = rg.tensor([3.0, 3.0])
    rg.optim.Adam([fresh], lr=0.1).step()
    same(values([params[1]]), values([fresh]))


@pytest.mark.parametrize("size", [10, 20_000, LARGE])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_overflow_in_blas_is_found_without_a_flag(size: int, dtype: str) -> None:
    """Large updates are made by BLAS, and NumPy does not report the flags of BLAS."""
    largest = float(np.finfo(dtype).max)
    x = rg.ones(size, dtype=getattr(rg, dtype), requires_grad=True)
    x.grad = rg.ones(size, dtype=x.dtype)
    x.grad[size - 1] = largest / 2
    with rg.anomaly.watch(policy="skip_step") as watch:
        rg.optim.SGD([x], lr=10.0).step()
    event = found(watch)
    assert (event.index, event.kind, event.neginf_count) == ((size - 1,), "overflow", 1)
    assert np.isfinite(x.detach().numpy()).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("eps", [0.0, 1e-8])
def test_the_element_of_a_birth_is_exact_in_large_parameters(threads: int, eps: float) -> None:
    x = rg.ones(4, LARGE, requires_grad=True)
    grad = rg.ones(4, LARGE)
    grad[3, LARGE - 1] = 0.0 if eps == 0 else 1e25
    x.grad = grad
    optimizer = rg.optim.Adam([x], eps=eps)
    before = get_num_threads()
    set_num_threads(threads)
    try:
        with rg.anomaly.watch(policy="skip_step") as watch:
            optimizer.step()
    finally:
        set_num_threads(before)
    event = found(watch)
    assert event.index == (3, LARGE - 1)
    assert np.isfinite(x.detach().numpy()).all()
    if eps == 0:
        same(values([x]), [np.ones((4, LARGE), np.float32)])


# --- optimizers and updates of the user's -----------------------------------------------------------------------------


class Normed(rg.optim.Optimizer):
    """Steps of a fixed length."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    @rg.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p -= group["lr"] * p.grad / p.grad.norm()


def test_a_birth_in_an_optimizer_of_the_program_has_its_line() -> None:
    x, y = rg.tensor([1.0], requires_grad=True), rg.tensor([2.0, 3.0], requires_grad=True)
    optimizer = Normed([x, y])
    with rg.anomaly.watch(policy="skip_step") as watch:
        (x.sum() + (y * 0).sum()).backward()
        optimizer.step()
    same(values([y]), [np.array([2.0, 3.0], np.float32)])
    event = found(watch)
    assert (event.op, event.harmed) == ("div", "the update of y")
    assert event.code_line == 'p -= group["lr"] * p.grad / p.grad.norm()'
    assert diagnose(event).number == 14


class Remembering(rg.optim.Optimizer):
    """Steps of a fixed length in every direction, with a state of any kind."""

    def __init__(self, params: Any, remember: Callable[[dict[Any, Any], Tensor], None]) -> None:
        super().__init__(params, {"lr": 0.5, "eps": 0.0})
        self.remember = remember

    @rg.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                self.remember(self.state, p)
                p -= group["lr"] * p.grad / (p.grad.abs() + group["eps"])


def a_lock(state: dict[Any, Any], p: Tensor) -> None:
    state[p].setdefault("lock", threading.Lock())


def a_tensor_alone(state: dict[Any, Any], p: Tensor) -> None:
    state[p] = p.grad * 2


def a_result_with_its_graph(state: dict[Any, Any], p: Tensor) -> None:
    with rg.enable_grad():
        state[p]["twice"] = p * 2


def a_count_of_all(state: dict[Any, Any], p: Tensor) -> None:
    state["count"] = 1


@pytest.mark.parametrize("remember", [a_lock, a_tensor_alone, a_result_with_its_graph, a_count_of_all])
def test_the_step_of_an_optimizer_with_any_state_is_undone(remember: Callable[[dict[Any, Any], Tensor], None]) -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = Remembering([x], remember)
    with rg.anomaly.watch(policy="skip_step") as watch:
        for scale in (1.0, 1.0, 0.0):
            optimizer.zero_grad()
            (x * rg.tensor([1.0, scale])).sum().backward()
            optimizer.step()
    assert x.tolist() == [0.0, 1.0]
    assert (found(watch).op, found(watch).harmed) == ("div", "the update of x")


def test_clipping_with_an_infinite_norm_gets_error_if_nonfinite() -> None:
    """Row 45. The infinity is written by hand, because any other would have been reported earlier."""
    x, y = rg.tensor([1.0, 2.0], requires_grad=True), rg.tensor([3.0], requires_grad=True)
    x.grad, y.grad = rg.tensor([float("inf"), 1.0]), rg.tensor([1.0])
    optimizer = rg.optim.SGD([x, y], lr=0.1)
    with rg.anomaly.watch(policy="skip_step") as watch:
        rg.nn.utils.clip_grad_norm_([x, y], 5.0)
        optimizer.step()
    event = found(watch)
    assert (event.op, event.operands) == ("clip_grad_norm_", {"total_norm": float("inf"), "max_norm": 5.0})
    assert diagnose(event).number == 45
    assert event.remedy == "rg.nn.utils.clip_grad_norm_([x, y], 5.0, error_if_nonfinite=True)"
    same(values([x, y]), [np.array([1.0, 2.0], np.float32), np.array([3.0], np.float32)])


@pytest.mark.parametrize("policy", ["raise", "skip_step"])
def test_a_gradient_spoilt_by_hand_is_reported_before_the_update(policy: str) -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = rg.optim.SGD([x], lr=0.1)
    with rg.anomaly.watch(policy=policy) as watch:
        (x * 0).sum().backward()
        assert x.grad is not None
        x.grad /= x.grad.norm()
        if policy == "raise":
            with pytest.raises(AnomalyError):
                optimizer.step()
        else:
            optimizer.step()
    same(values([x]), [np.array([1.0, 2.0], np.float32)])
    event = found(watch)
    assert (event.op, event.harmed, event.code_line) == ("div", "the gradient of x", "x.grad /= x.grad.norm()")


def test_a_birth_between_backward_and_step_without_harm_is_not_reported() -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = rg.optim.SGD([x], lr=0.1)
    with rg.anomaly.watch() as watch:
        x.sum().backward()
        rg.log(rg.zeros(2))  # a statistic that nothing uses
        optimizer.step()
    assert watch.events == ()


@pytest.mark.parametrize("update", ["w -= 1e10 * w.grad", "w.sub_(w.grad, alpha=1e10)", "w.mul_(w.grad).mul_(w.grad)"])
def test_an_overflow_in_an_update_by_hand_is_reported_at_the_next_loss(update: str) -> None:
    w = rg.tensor([1.0, 2.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as watch:
        (w * 1e30).sum().backward()
        with rg.no_grad():
            exec(update, {"w": w})
        w.sum().backward()
    event = found(watch)
    assert (event.kind, event.harmed) == ("overflow", "loss")
    assert event.op in ("mul", "sub", "sub_", "mul_")
    assert event.note == "It was written to w by an update by hand."
    assert outcome_of("inf", event, "raise") == "update withheld, but w is not clean"


# --- factors of gradients ---------------------------------------------------------------------------------------------


CLIPPED_BY_HAND = """
def clip(params, theta):
    norm = rg.sqrt(sum(rg.sum(p.grad**2) for p in params))
    for p in params:
        p.grad[:] *= theta / norm

def update(params, lr):
    with rg.no_grad():
        for p in params:
            p -= lr * p.grad
            p.grad.zero_()

params = [rg.zeros(3, 2, requires_grad=True), rg.zeros(2, requires_grad=True)]
x = rg.tensor([[1.0, 2.0, 3.0]])
for _ in range(3):
    loss = (rg.relu(x @ params[0] + params[1] - 1) ** 2).sum()
    loss.backward()
    clip(params, 1.0)
    update(params, 0.1)
"""


def test_a_factor_of_gradients_is_to_blame_for_the_parameters_that_it_spoils() -> None:
    """No result of the division is in a parameter: it multiplies a gradient, which then is set to zero."""
    linecache.cache["<clipped>"] = (len(CLIPPED_BY_HAND), None, CLIPPED_BY_HAND.splitlines(True), "<clipped>")
    with Watch() as watch, pytest.raises(AnomalyError):
        exec(compile(CLIPPED_BY_HAND, "<clipped>", "exec"), {"rg": rg})
    event = found(watch)
    assert (event.op, event.lineno, event.step) == ("div", 5, 2)
    assert "between the last backward and this step" in event.note


def test_a_parameter_that_was_loaded_bad_is_not_blamed_on_a_finite_update() -> None:
    w = rg.tensor([1.0, 2.0], requires_grad=True)
    with Watch() as watch, pytest.raises(AnomalyError):
        for step in range(2):
            (w * w).sum().backward()
            with rg.no_grad():
                w -= 0.1 * w.grad  # type: ignore[operator]
                if step == 0:
                    w.copy_(rg.tensor([float("nan"), 1.0]))
    assert found(watch).kind == "leaf"
