"""Births on the way into sparse tensors, and behind them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from retrograd.anomaly import watch
from retrograd.anomaly.adapters.torch.postmortem import analysis
from tests.anomaly.torch.training import line_of

PLACES = torch.tensor([[0, 1], [1, 0]])


def summed(values: Tensor) -> Tensor:
    return torch.sparse.sum(torch.sparse_coo_tensor(PLACES, values, (2, 2)))


def made_dense(values: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(PLACES, values, (2, 2)).to_dense().sum()


def multiplied(values: Tensor) -> Tensor:
    return torch.sparse.mm(torch.sparse_coo_tensor(PLACES, values, (2, 2)), torch.ones(2, 1)).sum()


def within_rows(values: Tensor) -> Tensor:
    return torch.sparse.mm(torch.sparse_csr_tensor([0, 1, 2], [1, 0], values, (2, 2)), torch.ones(2, 1)).sum()


def normalised(values: Tensor) -> Tensor:
    rows = torch.sparse.log_softmax(torch.sparse_coo_tensor(PLACES, values, (2, 2)).coalesce(), 1)
    return torch.sparse.sum(rows)


@pytest.mark.parametrize("function", [summed, made_dense, multiplied, within_rows, normalised])
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_a_birth_before_a_sparse_tensor_has_its_line(function: object) -> None:
    values = torch.tensor([1.0, -2.0], requires_grad=True)
    with watch(policy="record") as w:
        function(torch.log(values)).backward()  # type: ignore[operator]  # the birth
    assert w.event is not None
    assert (w.event.op, w.event.operands, w.event.index) == ("log", {"input": -2.0}, (1,))
    assert w.event.lineno == line_of("# the birth", test_a_birth_before_a_sparse_tensor_has_its_line)


def test_a_failed_search_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object) -> None:
        raise NotImplementedError("Could not run it. " + "It is only available for these: " + "CPU, " * 500 + "\nmore")

    monkeypatch.setattr(analysis, "origin_of", fails)
    with watch(policy="record") as w:
        torch.log(torch.zeros(1, requires_grad=True)).sum().backward()  # type: ignore[no-untyped-call]
    assert w.event is not None
    note = w.event.note or ""
    assert note.startswith("The search for the birth failed (NotImplementedError: Could not run it.")
    assert len(note.partition(").")[0]) < 300
    assert "\n" not in note
