"""Births in gradients that are a part of the forward pass stand on the line of the operation, in a second run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import retrograd as rg
from retrograd.anomaly.report import format_event
from retrograd.anomaly.report.contents import verdict
from tests.anomaly.torch.training import Root, line_of


def energy(w: Tensor, x: Tensor) -> Tensor:
    h = w * x
    return torch.sqrt(h).sum()  # the birth in its derivative


def by_autograd(w: Tensor, x: Tensor) -> Tensor:
    return torch.autograd.grad(energy(w, x), w, create_graph=True)[0]


def by_transform(w: Tensor, x: Tensor) -> Tensor:
    return torch.func.grad(energy)(w, x)


def per_sample(w: Tensor, x: Tensor) -> Tensor:
    return torch.func.vmap(torch.func.grad(energy), (None, 0))(w, torch.stack([x, x]))


@pytest.mark.parametrize("gradient", [by_autograd, torch.func.grad(energy), per_sample])
def test_a_birth_in_a_derivative_has_the_line_of_the_operation(gradient: Any) -> None:
    w = torch.ones(3, requires_grad=True)
    x = torch.tensor([1.0, 0.0, 2.0])
    with rg.anomaly.watch(policy="record") as watch:
        for _ in watch.steps([0]):
            gradient(w, x).pow(2).sum().backward()
    event = watch.event
    assert (event.op, event.is_backward, event.operands["input"]) == ("SqrtBackward0", True, 0.0)
    assert event.lineno == line_of("# the birth in its derivative", energy)


def test_a_birth_in_a_custom_backward_has_its_own_line() -> None:
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        for _ in w.steps([0]):
            torch.autograd.grad(Root.apply(x).sum(), x, create_graph=True)[0].sum().backward()
    assert w.event.lineno == line_of("# the quotient of Root")


@pytest.mark.parametrize("again", [False, True], ids=["once", "steps"])
def test_a_model_called_in_a_transform_is_not_run_again(again: bool) -> None:
    """The gradients of its outputs exist only within the transform."""
    net = torch.nn.Linear(3, 3, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def direction(x: Tensor) -> Tensor:
        y = net(x)
        return y / (y.norm() + 1e-6)  # the norm's second derivative at 0

    with rg.anomaly.watch(net, policy="record") as w:
        for _ in w.steps([0]) if again else [0]:
            torch.func.vmap(torch.func.jacrev(direction))(torch.zeros(2, 3)).pow(2).sum().backward()
            optimizer.step()
    (event,) = w.events
    assert event.harmed == "the gradient of weight"
    assert "failed" not in (event.note or "")


def _penalised(gradient: Any, **options: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    x = torch.tensor([1.0, 0.0, 2.0])
    with rg.anomaly.watch(policy="skip_step", **options) as watch:
        gradient(w, x).pow(2).sum().backward()
    return watch.event


@pytest.mark.parametrize("gradient", [by_autograd, by_transform])
def test_without_a_record_the_line_of_the_derivative_is_not_blamed(gradient: Any) -> None:
    event = _penalised(gradient)
    assert (event.op, event.lineno) == ("div", line_of("energy", gradient))
    assert "the div of a derivative" in str(event)
    assert "the div of a derivative" in verdict(event)
    assert f"line {line_of('# the birth in its derivative', energy)}" in event.cause
    assert event.remedy is None
    assert event.rerun == "watch(..., from_step=1)"
    assert "must not get" not in format_event(event)


def test_with_a_record_the_line_is_exact() -> None:
    event = _penalised(by_autograd, from_step=1)
    assert (event.op, event.lineno) == ("SqrtBackward0", line_of("# the birth in its derivative", energy))
    assert event.rerun is None
    assert "+ 1e-12" in event.remedy


def test_an_operation_beside_the_derivative_has_its_line() -> None:
    def gradient(w: Tensor, x: Tensor) -> Tensor:
        return torch.autograd.grad((w * x).pow(2).sum(), w, create_graph=True)[0] / x  # the division by data

    event = _penalised(gradient)
    assert (event.op, event.lineno) == ("div", line_of("# the division by data", gradient))
    assert event.rerun is None


def test_an_operation_within_a_custom_backward_has_its_line_or_a_remark() -> None:
    def gradient(w: Tensor, x: Tensor) -> Tensor:
        return torch.autograd.grad(Root.apply(w * x).sum(), w, create_graph=True)[0]

    event = _penalised(gradient)
    is_exact = event.lineno == line_of("# the quotient of Root")
    assert event.op == "div"
    assert ("of a derivative" in str(event), event.rerun is None) == (not is_exact, is_exact)


def test_a_model_that_computes_a_derivative_is_run_again() -> None:
    class Force(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            return by_autograd(self.w, x)

    net = Force()
    with rg.anomaly.watch(net, policy="skip_step") as w:
        net(torch.tensor([1.0, 0.0, 2.0])).pow(2).sum().backward()
    assert (w.event.op, w.event.lineno) == ("SqrtBackward0", line_of("# the birth in its derivative", energy))


@pytest.mark.parametrize("from_step", [None, 1])
def test_zero_tensors_of_double_backward_do_no_harm(from_step: int | None) -> None:
    """Double backward makes such tensors, which a mode must not read."""
    w = torch.tensor([1.0, 0.5], requires_grad=True)
    x = torch.zeros(2, requires_grad=True)
    with rg.anomaly.watch(policy="record", from_step=from_step) as watch:
        for _ in watch.steps([0]) if from_step is None else [0]:
            energy = ((x * w).abs() ** 1.5).sum()  # the power whose second derivative is infinite
            (g,) = torch.autograd.grad(energy, x, create_graph=True)
            (g - 1).pow(2).sum().backward()
    event = watch.event
    assert (event.op, event.index, event.operands["input"]) == ("PowBackward0", (0,), 0.0)
    assert event.lineno == line_of("# the power whose second", test_zero_tensors_of_double_backward_do_no_harm)


@pytest.mark.parametrize(
    "transform", [torch.func.grad, lambda f: lambda w: torch.func.vmap(torch.func.grad(f))(w[None])]
)
def test_operations_of_a_derivative_are_not_blamed_on_the_program(transform: Any) -> None:
    """1/h is the derivative of the logarithm, and no error divided by a variance."""

    def likelihood(w: Tensor) -> Tensor:
        h = torch.log(w * 1.0)  # the birth in what is differentiated
        return (h * w).sum()

    w = torch.tensor([1.0, 0.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as watch:
        (transform(likelihood)(w) + 1).sum().backward()
    event = watch.event
    assert (event.op, event.lineno) == ("log", line_of("# the birth in what is differentiated", likelihood))
    assert "variance" not in (event.cause or "")
    assert "log(0)" in (event.cause or "")


def task_loss(weight: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return ((weight * x - y) ** 2).mean() / y.std()  # the quotient in a task


def adapted(weight: Tensor, x: Tensor, y: Tensor) -> Tensor:
    (slope,) = torch.autograd.grad(task_loss(weight, x, y), weight, create_graph=True)  # the inner derivative
    return ((weight - 0.1 * slope) * x - y).pow(2).mean()


@pytest.mark.parametrize("from_step", [None, 2])
def test_a_number_that_the_derivative_made_is_not_taken_for_data(from_step: int | None) -> None:
    weight = torch.nn.Parameter(torch.tensor([0.5]))
    x = torch.linspace(-1, 1, 10)
    with rg.anomaly.watch(policy="record", from_step=from_step) as w:
        for y in (torch.sin(x), torch.zeros(10)):
            adapted(weight, x, y).backward()
    event = w.event
    assert event.lineno == line_of("# the quotient in a task", task_loss)
    assert "loaded" not in (event.cause or "")
