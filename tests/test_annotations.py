"""User functions whose annotations name things that exist only for type checkers.

Since Python 3.14 annotations are evaluated on request (PEP 649); before that, programs have
``from __future__ import annotations``.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

import retrograd as rg

PROGRAM = """
class Scaled(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x: Missing, factor: Missing = 2.0) -> Missing:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, g: Missing) -> Missing:
        return g * ctx.factor, None

class Layer(rg.nn.Module):
    weight: Missing

    def __init__(self, size: Missing, device: Missing = None):
        super().__init__()
        self.weight = rg.nn.Parameter(rg.ones(size, device=device))

    def forward(self, x: Missing) -> Missing:
        return x * self.weight

def square(x: Missing) -> Missing:
    return x * x
"""


@pytest.fixture
def program() -> dict[str, Any]:
    first = "" if sys.version_info >= (3, 14) else "from __future__ import annotations\n"
    names: dict[str, Any] = {"rg": rg, "__name__": "program"}
    exec(compile(first + PROGRAM, "program.py", "exec", dont_inherit=True), names)
    return names


def test_custom_function_with_unresolvable_annotations(program: dict[str, Any]) -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    y = program["Scaled"].apply(x, factor=3.0)
    y.sum().backward()
    assert y.tolist() == [3.0, 6.0]
    assert x.grad.tolist() == [3.0, 3.0]


def test_skip_init_of_a_module_with_unresolvable_annotations(program: dict[str, Any]) -> None:
    layer = rg.nn.utils.skip_init(program["Layer"], 3)
    assert layer.weight.shape == (3,)


def test_transforms_of_functions_with_unresolvable_annotations(program: dict[str, Any]) -> None:
    x = rg.tensor([1.0, 2.0])
    square = program["square"]
    for wrapped in (rg.no_grad()(square), rg.func.vmap(square), rg.func.vmap(rg.func.grad(square))):
        assert wrapped.__name__ == square.__name__
        assert wrapped(x).tolist() in ([1.0, 4.0], [2.0, 4.0])
    assert rg.func.functional_call(program["Layer"](2), {}, (x,)).tolist() == [1.0, 2.0]
