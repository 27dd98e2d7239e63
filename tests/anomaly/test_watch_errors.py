"""Errors of operations under a watch: the note that names the birth, the cause and the remedy."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError
from retrograd.core.tensor import Tensor
from tests.anomaly.steps import leaf

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


def indefinite() -> Tensor:
    return rg.tensor([[1.0, 2.0], [2.0, 1.0]], requires_grad=True)


@pytest.mark.parametrize("policy", ["record", "raise"])
def test_an_error_of_linear_algebra_gets_a_note(policy: str) -> None:
    K = indefinite()  # noqa: N806
    with pytest.raises(rg.linalg.LinAlgError) as raised, rg.anomaly.watch(policy=policy) as watch:
        L = rg.linalg.cholesky(K)  # noqa: N806
        L.sum().backward()
    event = watch.event
    assert event is not None
    assert (event.kind, event.op) == ("error", "linalg_cholesky")
    assert event.code_line == "L = rg.linalg.cholesky(K)  # noqa: N806"
    assert "not positive definite" in (event.cause or "")
    (note,) = raised.value.__notes__
    assert event.remedy is not None
    assert event.remedy in note
    assert "rg.linalg.cholesky(K + " in event.remedy


def test_an_error_about_a_value_that_was_born_before_names_the_birth() -> None:
    """The function that refuses the NaN is not at fault: the remedy changes the line of the birth."""
    x = rg.tensor([1.0, 800.0], dtype=rg.float64, requires_grad=True)
    loss_of = rg.nn.BCELoss()
    with pytest.raises(RuntimeError, match="between 0 and 1") as raised, rg.anomaly.watch() as watch:
        p = rg.exp(x) / (1 + rg.exp(x))
        q = p.reshape(2, 1)
        loss_of(q, rg.ones(2, 1, dtype=rg.float64)).backward()
    event = watch.event
    assert event is not None
    assert (event.op, event.index, event.code_line) == ("exp", (1,), "p = rg.exp(x) / (1 + rg.exp(x))")
    (note,) = raised.value.__notes__
    assert "p = rg.exp(x) / (1 + rg.exp(x))" in note
    assert "reached an argument of the call that raised RuntimeError" in note
    assert event.remedy is not None
    assert event.remedy.splitlines()[0] in note


def test_a_nan_in_a_matrix_is_blamed_on_its_birth() -> None:
    x = rg.tensor([1.0, -1.0], requires_grad=True)
    with pytest.raises(rg.linalg.LinAlgError) as raised, rg.anomaly.watch():
        rg.linalg.cholesky(rg.diag(rg.log(x)) + rg.eye(2))
    (note,) = raised.value.__notes__
    assert "born in log" in note
    assert "reached an argument of the call that raised LinAlgError" in note


def test_an_anomaly_error_gets_no_note_about_itself() -> None:
    with pytest.raises(AnomalyError) as raised, rg.anomaly.watch() as watch:
        (rg.log(leaf(0.0)) * 0).sum().backward()
    assert watch.events == (raised.value.event,)
    assert not hasattr(raised.value, "__notes__")


def test_an_error_about_shapes_gets_no_note_about_legal_infinities() -> None:
    mask = rg.full((2, 2), -rg.inf)
    with pytest.raises(RuntimeError) as raised, rg.anomaly.watch() as watch:
        rg.matmul(mask, rg.ones(3, 3))
    assert watch.events == ()
    assert not hasattr(raised.value, "__notes__")


def test_an_error_that_the_program_catches_is_no_event() -> None:
    with rg.anomaly.watch() as watch:
        with pytest.raises(rg.linalg.LinAlgError):
            rg.linalg.cholesky(indefinite())
        leaf(1.0).sum().backward()
    assert watch.events == ()
