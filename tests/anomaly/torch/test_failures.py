"""Errors of torch's linear algebra: cause and remedy are added to them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import retrograd as rg
from retrograd.anomaly.report import format_event
from retrograd.anomaly.report.training_history import remembered
from tests.anomaly.torch.training import Net


class Solver(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, a: Tensor) -> Tensor:
        return torch.linalg.solve(a, self.weight)


SINGULAR = torch.ones(3, 3)


def test_the_error_says_why_and_what_to_write_instead() -> None:
    kernel = SINGULAR - torch.eye(3)
    with pytest.raises(torch.linalg.LinAlgError) as raised, rg.anomaly.watch() as w:
        root = torch.linalg.cholesky(kernel)
        root.sum().backward()
    event = w.event
    assert event is not None
    assert (event.kind, event.op, event.code_line) == ("error", "cholesky", "root = torch.linalg.cholesky(kernel)")
    assert "not positive definite" in (event.cause or "")
    assert (event.remedy or "").startswith("root = torch.linalg.cholesky(kernel + 1e-5 * torch.eye(kernel.shape[-1]")
    (note,) = raised.value.__notes__
    assert event.remedy is not None
    assert event.remedy in note
    assert str(raised.value) not in note, "the error is printed above its note"


def test_a_nan_in_a_matrix_is_blamed_on_its_birth() -> None:
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    with pytest.raises(torch.linalg.LinAlgError) as raised, rg.anomaly.watch() as w:
        kernel = torch.diag(torch.log(x)) + torch.eye(2)
        torch.linalg.cholesky(kernel)
    event = w.event
    assert event is not None
    assert (event.op, event.index, event.code_line) == ("log", (1,), "kernel = torch.diag(torch.log(x)) + torch.eye(2)")
    (note,) = raised.value.__notes__
    assert "reached an argument of the call that raised LinAlgError" in note


def test_a_nan_in_a_matrix_without_a_gradient_is_named_with_its_line() -> None:
    returns = torch.ones(4, 2)
    with pytest.raises(torch.linalg.LinAlgError), rg.anomaly.watch() as w:
        scaled = returns / returns.std(0) - returns
        kernel = torch.tensordot(scaled, scaled - scaled, dims=([0], [0]))
        torch.linalg.cholesky(kernel)
    event = w.event
    assert event is not None
    assert (event.kind, event.index, event.code_line) == ("leaf", (0, 0), "torch.linalg.cholesky(kernel)")
    assert "kernel = torch.tensordot(scaled, scaled - scaled, dims=([0], [0]))" in (event.cause or "")
    assert event.rerun is not None


def whitened(x: Tensor) -> Tensor:
    x = x / x.std(0)
    kernel = x.T @ x
    return torch.linalg.cholesky(kernel + torch.eye(2))


def test_the_lines_of_a_step_without_a_loss_are_known() -> None:
    """It was not noted, and its operations are the first of those in the steps before."""
    weight = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(torch.linalg.LinAlgError), rg.anomaly.watch(budget=1e-9) as w:
        for step in range(6):
            x = torch.randn(4, 2) * (step < 5)
            (x @ weight).sin()  # goes nowhere
            whitened(x @ weight).diagonal().log().sum().backward()
    event = w.event
    assert event is not None
    assert (event.op, event.code_line, event.step) == ("div", "x = x / x.std(0)", 6)
    assert [row["step"] for row in remembered(event)] == [1, 2, 3, 4, 5, 6]
    assert "loss" not in remembered(event)[-1]


def test_an_error_without_a_matrix_claims_nothing() -> None:
    error = torch.linalg.LinAlgError("linalg.eigh: The algorithm failed to converge because (error code: 3).")
    with pytest.raises(torch.linalg.LinAlgError), rg.anomaly.watch() as w:
        raise error
    assert w.event is not None
    assert (w.event.kind, w.event.step) == ("error", 1)
    assert "gave" not in (w.event.cause or "")


class Covariance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.eye(2))

    def forward(self) -> Tensor:
        return torch.linalg.cholesky(self.factor @ self.factor.mT)


def test_a_nan_in_a_weight_is_blamed_and_not_the_matrix() -> None:
    net = Covariance()
    with torch.no_grad():
        net.factor[0, 1] = torch.nan
    with pytest.raises(torch.linalg.LinAlgError), rg.anomaly.watch(net) as w:
        net()
    assert w.event is not None
    assert (w.event.kind, w.event.operands) == ("leaf", {"factor": pytest.approx(torch.nan, nan_ok=True)})


def test_an_unrelated_infinity_leaves_the_matrix_to_blame() -> None:
    mask = torch.full((3, 3), -torch.inf)
    with pytest.raises(torch.linalg.LinAlgError), rg.anomaly.watch() as w:
        torch.linalg.inv(SINGULAR)
    assert w.event is not None
    assert w.event.op == "inv"
    assert mask.isinf().all()


def test_the_remedy_factorises_the_matrix() -> None:
    kernel = SINGULAR.clone()
    with pytest.raises(torch.linalg.LinAlgError), rg.anomaly.watch() as w:
        root = torch.linalg.cholesky(kernel)
    assert w.event is not None
    assert w.event.remedy is not None
    names: dict[str, Any] = {"torch": torch, "kernel": kernel}
    exec(w.event.remedy, names)
    root = names["root"]
    torch.testing.assert_close(root @ root.mT, kernel, atol=1e-4, rtol=0)


@pytest.mark.parametrize("model", [True, False])
def test_the_matrix_of_a_batch_and_the_module_are_named(model: bool) -> None:
    net = nn.Sequential(nn.Identity(), Solver())
    with pytest.raises(torch.linalg.LinAlgError), rg.anomaly.watch(net if model else None) as w:
        net(torch.stack([torch.eye(3), SINGULAR]))
    event = w.event
    assert event is not None
    assert (event.op, event.index, event.module_type, event.layer_name) == ("solve", (1,), "Solver", "1")
    assert event.code_line == "return torch.linalg.solve(a, self.weight)"


def test_an_error_in_backward_is_explained() -> None:
    x = torch.eye(3).requires_grad_()
    y = x * 1.0
    y.register_hook(lambda grad: torch.linalg.inv(grad * 0))
    with pytest.raises(torch.linalg.LinAlgError), rg.anomaly.watch() as w:
        y.sum().backward()
    assert w.event is not None
    assert w.event.op == "inv"


def test_other_errors_get_no_note() -> None:
    with pytest.raises(RuntimeError) as raised, rg.anomaly.watch(Net()) as w:
        torch.ones(2, 3) @ torch.ones(2, 3)
    assert not w.events
    assert not hasattr(raised.value, "__notes__")


def test_an_error_that_the_program_catches_is_no_event() -> None:
    with rg.anomaly.watch(Net()) as w:
        with pytest.raises(torch.linalg.LinAlgError):
            torch.linalg.inv(SINGULAR)
        torch.ones(2, requires_grad=True).sum().backward()
    assert not w.events


class Scores(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.clone().log_() - x.clone().log_()

    def sampled(self, x: Tensor) -> Tensor:
        scores = self.prepared(x)
        probabilities = scores.softmax(-1)
        return torch.multinomial(probabilities, 1)

    def prepared(self, x: Tensor) -> Tensor:
        return self(x)


@torch.no_grad()
def sampled(model: nn.Module, x: Tensor) -> Tensor:
    call = model.__call__
    scores = call(x)
    return torch.multinomial(scores.softmax(-1), 1)


@pytest.mark.parametrize("method", [False, True])
def test_a_result_of_the_model_without_a_gradient_is_not_called_data(method: bool) -> None:
    model, x = Scores(), torch.tensor([[1.0, 0.0]])
    with pytest.raises(RuntimeError, match="probability tensor"), rg.anomaly.watch() as w:
        model.sampled(x) if method else sampled(model, x)
    event = w.event
    assert event is not None
    assert "computed" in (event.cause or "")
    assert f"without a gradient, with {'self' if method else 'call'} (Scores)" in (event.cause or "")
    assert event.remedy is None
    assert event.rerun is not None
    shown = format_event(event)
    assert "uses it" not in shown
    assert "NaN came in with scores" in shown
