"""On a processor without floating-point flags, as WebAssembly is, the same is told as with them."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy._core import _ufunc_config

import retrograd as rg
from retrograd import nn
from retrograd.anomaly import AnomalyWarning, NaNDetector
from retrograd.anomaly.adapters.retrograd.gradient_checks import products_raise_flags
from retrograd.processor import keeps_flags

Program = Callable[[], Any]


@contextlib.contextmanager
def no_flags() -> Iterator[None]:
    """NumPy hears of nothing in this thread, whatever error state it is asked for."""
    make = _ufunc_config._make_extobj

    def deaf(**given: Any) -> Any:
        return make(all="ignore", **{key: value for key, value in given.items() if key in ("call", "bufsize")})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_ufunc_config, "_make_extobj", deaf)
        try:
            for answer in (keeps_flags, products_raise_flags):
                answer.cache_clear()
            with np.errstate():
                yield
        finally:
            for answer in (keeps_flags, products_raise_flags):
                answer.cache_clear()


@pytest.fixture
def without() -> Iterator[None]:
    with no_flags():
        assert not keeps_flags()
        yield


def leaf(*values: Any, dtype: Any = rg.float32) -> rg.Tensor:
    return rg.tensor(list(values), dtype=dtype, requires_grad=True)


# --- programs in which something is born ------------------------------------------------------------------------------


def forward() -> None:
    (leaf(1.0, 0.0).log() * 2).sum().backward()


def overflow() -> None:
    x = leaf(1.0, 3e38)
    (x * 10).sum().backward()


def of_infinities() -> None:
    x = leaf(1.0, 1e30)
    y = x * 1e30
    (y - y).sum().backward()


def matrices() -> None:
    x = rg.full((2, 2), 1e30, requires_grad=True)
    (x @ x).sum().backward()


def several_operands() -> None:
    x = rg.tensor([[rg.nan, 1.0]])
    rg.cat([leaf(0.0, 1.0)[None] / leaf(0.0, 2.0), x.nan_to_num()]).sum().backward()


def with_byproducts() -> None:
    nn.functional.layer_norm(rg.zeros(2, 3, requires_grad=True), (3,), eps=0.0).sum().backward()


def row_of_minus_infinity() -> None:
    scores = rg.zeros(2, 3, requires_grad=True)
    scores.masked_fill(rg.tensor([[True, True, True], [False, False, True]]), -rg.inf).softmax(-1).sum().backward()


def backward() -> None:
    leaf(4.0, 0.0).sqrt().sum().backward()


def backward_of_power() -> None:
    (leaf(4.0, 0.0) ** 0.5).sum().backward()


def behind_a_mask() -> None:
    x = leaf(4.0, 0.0)
    rg.where(x > 0, x.sqrt(), 0.0).sum().backward()


def out_of_the_domain_behind_a_mask() -> None:
    x = leaf(4.0, -1.0)
    rg.where(x > 0, x.sqrt(), 0.0).sum().backward()


def half() -> None:
    (leaf(300.0, 1.0, dtype=rg.float16) ** 2).sum().backward()


def complex_numbers() -> None:
    leaf(1.0, 0.0, dtype=rg.complex64).log().abs().sum().backward()


def in_place() -> None:
    y = leaf(1.0, 0.0) * 1
    y.log_()
    y.sum().backward()


def in_place_on_a_view() -> None:
    y = leaf(1.0, 0.0, 4.0) * 1
    y[:2].sqrt_()
    y.sum().backward()


def augmented() -> None:
    y = leaf(1.0, 3e38) * 1
    y *= 10
    y.sum().backward()


def gradients_that_add_up() -> None:
    x = leaf(1.0)
    y = x * 1
    (y * 3e38 + y * 3e38 - y * 3e38).sum().backward()


def gradients_of_opposite_signs() -> None:
    x = leaf(0.0)
    y = x * 1
    (y.sqrt() - y.sqrt()).sum().backward()


def a_leaf_that_accumulates() -> None:
    x = leaf(0.0)
    x.grad = rg.tensor([3e38])
    (x * 3e38).sum().backward()


def second_derivative() -> None:
    x = leaf(4.0, 0.0)
    (slope,) = rg.autograd.grad((x**1.5).sum(), x, create_graph=True)
    slope.sum().backward()


def data_that_is_bad() -> None:
    (leaf(1.0, 2.0) * rg.tensor([1.0, rg.nan])).sum().backward()


def made_without_a_gradient() -> None:
    data = rg.tensor([1.0, 0.0])
    logs = data.log()
    (leaf(1.0, 2.0) * logs).sum().backward()


def made_in_no_grad() -> None:
    x = leaf(1.0, 0.0)
    with rg.no_grad():
        weight = 1 / x
    (x * weight).sum().backward()


def parameter_that_is_bad() -> None:
    (leaf(1.0, rg.inf) * 2).sum().backward()


def written_by_hand() -> None:
    x = leaf(1.0, 3e38)
    with rg.no_grad():
        x *= 10
    x.sum().backward()


def tangents() -> None:
    rg.func.jvp(rg.sqrt, (rg.tensor([4.0, 0.0]),), (rg.ones(2),))


def samples() -> None:
    x = rg.tensor([[1.0, 2.0], [0.0, 1.0]], requires_grad=True)
    rg.func.vmap(lambda row: row.log().sum())(x).sum().backward()


def a_function_of_tensors() -> None:
    class Root(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.sqrt()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g / (2 * x.sqrt())

    Root.apply(leaf(4.0, 0.0)).sum().backward()


def a_hook() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(lambda g: g / 0)
    y.sum().backward()


def a_checkpoint() -> None:
    rg.utils.checkpoint.checkpoint(lambda x: x.sqrt(), leaf(4.0, 0.0), use_reentrant=False).sum().backward()


def update(make: Callable[[list[rg.Tensor]], Any], slope: float = 1.0) -> Program:
    def program() -> None:
        x = leaf(1.0, 2.0)
        optimizer = make([x])
        (x * rg.tensor([slope, 0.0])).sum().backward()
        optimizer.step()

    return program


OPTIMIZERS = {
    name: update(lambda params, name=name: getattr(rg.optim, name)(params, eps=0.0))
    for name in ("Adam", "AdamW", "NAdam", "Adamax", "Adagrad", "RMSprop", "Adadelta")
}
UPDATES = {
    **OPTIMIZERS,
    "a rate": update(lambda params: rg.optim.SGD(params, lr=1e30), 1e30),
    "momentum": update(lambda params: rg.optim.SGD(params, lr=1e20, momentum=0.9), 1e20),
    "squares": update(lambda params: rg.optim.Adam(params), 1e30),
}
PROGRAMS = [
    forward,
    overflow,
    of_infinities,
    matrices,
    several_operands,
    with_byproducts,
    row_of_minus_infinity,
    backward,
    backward_of_power,
    behind_a_mask,
    out_of_the_domain_behind_a_mask,
    half,
    complex_numbers,
    in_place,
    in_place_on_a_view,
    augmented,
    gradients_that_add_up,
    gradients_of_opposite_signs,
    second_derivative,
    data_that_is_bad,
    made_without_a_gradient,
    made_in_no_grad,
    parameter_that_is_bad,
    tangents,
    samples,
    a_function_of_tensors,
    a_hook,
    a_checkpoint,
]

# an operand that was overwritten is known as well
MORE_KNOWN = [a_leaf_that_accumulates, written_by_hand]


def told(program: Program, steps: bool) -> list[Any]:
    """Return the fields of every event."""
    with rg.anomaly.watch(policy="record") as watch:
        for _ in watch.steps([0]) if steps else [0]:
            program()
    fields = (
        "op",
        "kind",
        "lineno",
        "code_line",
        "index",
        "operands",
        "harmed",
        "is_backward",
        "path",
        "cause",
        "remedy",
    )
    return [tuple(repr(getattr(event, name)) for name in fields) for event in watch.events]


@pytest.mark.parametrize("steps", [False, True], ids=["once", "steps"])
@pytest.mark.parametrize("program", [*PROGRAMS, *UPDATES.values()], ids=[*(p.__name__ for p in PROGRAMS), *UPDATES])
def test_the_event_is_the_same_without_flags(program: Program, steps: bool) -> None:
    expected = told(program, steps)
    with no_flags():
        assert told(program, steps) == expected
    assert len(expected) == 1


@pytest.mark.parametrize("program", MORE_KNOWN)
def test_without_flags_more_operands_are_known(program: Program) -> None:
    (expected,) = told(program, steps=False)
    with no_flags():
        (found,) = told(program, steps=False)
    assert [found[k] for k in (0, 1, 2, 4, 6)] == [expected[k] for k in (0, 1, 2, 4, 6)]
    assert len(found[5]) > len(expected[5])


# --- births without harm ----------------------------------------------------------------------------------------------


def logs_under_a_mask() -> None:
    x = leaf(1.0, 0.0)
    logs = x.detach().log()
    assert logs.tolist() == [0.0, -rg.inf]
    rg.where(x > 0, x * 2, logs.clamp(min=-9)).sum().backward()


def masked_scores() -> None:
    scores = rg.zeros(2, 3, requires_grad=True).masked_fill(rg.tensor([False, True, False]), -rg.inf)
    scores.softmax(-1).log_softmax(-1).exp().sum().backward()


def a_quotient_that_is_left_out() -> None:
    x = rg.tensor([[2.0, 0.0]])
    (leaf(1.0, 2.0) * (1 / x)[:, :1]).sum().backward()


@pytest.mark.parametrize("program", [logs_under_a_mask, masked_scores, a_quotient_that_is_left_out])
@pytest.mark.parametrize("steps", [False, True], ids=["once", "steps"])
def test_births_without_harm_are_not_reported(program: Program, steps: bool, without: None) -> None:
    assert told(program, steps) == []


def test_nothing_is_checked_after_the_watch(without: None) -> None:
    with rg.anomaly.watch():
        pass
    rg.zeros(2, requires_grad=True).log().sum().backward()
    assert rg.core.state.monitor is None


# --- the weights ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_bad_update_is_undone_without_flags(name: str, without: None) -> None:
    x = leaf(1.0, 2.0)
    optimizer = getattr(rg.optim, name)([x], lr=0.1, eps=0.0)
    (x * 2).sum().backward()
    with rg.anomaly.watch(policy="skip_step") as watch:
        optimizer.step()
        before, state = x.tolist(), repr(optimizer.state_dict())
        assert np.isfinite(before).all() and not watch.triggered
        optimizer.zero_grad()
        (x * rg.tensor([2.0, 0.0])).sum().backward()
        for group in optimizer.param_groups:
            group["lr"] = 1e38
        x.grad *= 1e38
        optimizer.step()
    assert watch.triggered
    assert x.tolist() == before
    assert repr(optimizer.state_dict()).replace("1e+38", "0.1") == state


# --- beside the watch -------------------------------------------------------------------------------------------------


def test_a_policy_for_underflow_warns_that_it_cannot_be_seen(without: None) -> None:
    with pytest.warns(AnomalyWarning, match="has no floating-point flags"):
        rg.anomaly.watch(policy={"underflow": "record"}).start().stop()


def test_detect_anomaly_works_without_flags(without: None) -> None:
    x = leaf(0.0)
    with warnings.catch_warnings(), rg.anomaly.watch(policy="record") as watch, rg.autograd.detect_anomaly():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values"):
            (x.sqrt() * 0).sum().backward()
    assert not watch.triggered  # backward has not come to its end


def test_the_detector_works_without_flags(without: None) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with rg.no_grad():
        model[0].weight[0, 0] = rg.inf
    with NaNDetector(model, verbose=False) as detector:
        model(rg.ones(1, 2)).sum().backward()
    assert detector.triggered


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rg.linalg.inv(rg.zeros(2, 2)), "input matrix is singular"),
        (lambda: rg.linalg.inv(rg.stack([rg.eye(2), rg.zeros(2, 2)])), r"\(Batch element 1\)"),
        (lambda: rg.linalg.solve(rg.zeros(2, 2), rg.ones(2)), "input matrix is singular"),
        (lambda: rg.linalg.cholesky(-rg.eye(2)), "leading minor of order 1"),
    ],
)
def test_matrices_that_lapack_refuses_raise_without_flags(call: Program, message: str, without: None) -> None:
    with pytest.raises(rg.linalg.LinAlgError, match=message):
        call()
