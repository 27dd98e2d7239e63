"""Writes to expanded tensors: to parts without repeated elements, and of one value to everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.parity import attempt, parity

WRITES = {
    "column": lambda m, e: e.__setitem__((slice(None), 0), 1),
    "element": lambda m, e: e.__setitem__((0, 0), 1),
    "narrowed": lambda m, e: e[:, :1].add_(1),
    "selected": lambda m, e: e.select(1, 2).fill_(7),
    "row of the transposed": lambda m, e: e.t()[0].mul_(3),
    "row": lambda m, e: e.__setitem__(0, 1),
    "two columns": lambda m, e: e[:, :2].add_(1),
    "all": lambda m, e: e.add_(1),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_parts_of_an_expanded_tensor(name: str) -> None:
    @parity
    def program(m: Any) -> list[Any]:
        leaf = m.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
        base = leaf * 2
        expanded = base.expand(3, 4)
        said = attempt(lambda: WRITES[name](m, expanded))
        (expanded * expanded).sum().backward()
        return [said if isinstance(said, str) else "", base, expanded, base._version, leaf.grad]

    program()


@parity
def test_one_value_can_fill_an_expanded_tensor(m: Any) -> list[Any]:
    """Unless the write is recorded: torch then refuses it in backward."""
    base = m.ones(3, 1)
    report: list[Any] = [base.expand(3, 4).zero_(), base, base._version]
    report += [base.expand(3, 4)[1:].fill_(2.5), base, base._version]
    report += [m.ones(4).unfold(0, 2, 1).fill_(7)]
    leaf = m.ones(1, requires_grad=True)
    with m.no_grad():
        report += [leaf.expand(3).fill_(4), leaf]
    report += [attempt(lambda: leaf.expand(3).zero_()), attempt(lambda: m.ones(1).expand(3).add_(1))]
    computed = leaf * 2
    expanded = computed.expand(3)
    report += [attempt(lambda: m.autograd.grad(expanded.fill_(1).sum() + computed.sum(), leaf))]
    return report


@parity
def test_zero_grad_of_an_expanded_gradient(m: Any) -> list[Any]:
    weight = m.ones(3, requires_grad=True)
    weight.grad = m.ones(1).expand(3)
    m.optim.SGD([weight], lr=0.1).zero_grad(set_to_none=False)
    return [weight.grad, weight.grad.stride()]


def test_expanding_read_only_memory_does_not_make_it_writable() -> None:
    array = np.zeros((3, 1))
    array.flags.writeable = False
    tensor = rg.from_numpy(array)
    with pytest.raises(RuntimeError, match="clone"):
        tensor.expand(3, 4)[:, 0] = 1
    with pytest.raises(RuntimeError, match="clone"):
        tensor.expand(3, 4).fill_(1)
    assert not array.any()
