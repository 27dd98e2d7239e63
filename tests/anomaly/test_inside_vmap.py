"""Births in operations that vmap maps over samples, where operands have a hidden axis in front."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd.anomaly import watch


@pytest.mark.parametrize("again", [False, True], ids=["once", "steps"])
def test_operands_of_different_dimensions(again: bool) -> None:
    """A vector by its norm: with the axis of the samples these are of shapes (2, 3) and (2,)."""

    def direction(x: rg.Tensor) -> rg.Tensor:
        y = weight @ x
        return y / y.norm()  # its value is thrown away, its derivative is not

    weight = rg.eye(3).requires_grad_()
    with watch(policy="record") as w:
        for _ in w.steps([0]) if again else [0]:
            rg.func.vmap(rg.func.jacrev(direction))(rg.zeros(2, 3)).pow(2).sum().backward()
    event = w.events[0]
    assert (event.code_line or "").startswith("return y / y.norm()")
    assert "failed" not in (event.note or "")
