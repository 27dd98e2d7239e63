"""Remedies in programs that call their libraries by names of their own."""

from __future__ import annotations

import linecache

import pytest

import retrograd as rg
from retrograd.anomaly import NaNEvent
from tests.anomaly.both import mended

IMPORTS = """
import torch as T
import torch.nn.functional as func
from torch import linalg as la
x = T.tensor([[1.0, 0.0], [0.0, 0.0]], requires_grad=True)
"""

PROGRAMS = {
    "y = T.log(x)": "y = T.log(T.clamp(x, min=1e-12))",
    "y = T.lgamma(x)": "y = T.lgamma(T.clamp(x, min=1e-6))",
    "y = T.where(x > 0, T.sqrt(x), 0.0)": "y = T.where(x > 0, T.sqrt(T.where(x > 0, x, 1.0)), 0.0)",
    "n = x.norm(dim=-1, keepdim=True)\ny = x / n": "y = x / T.where(n == 0, 1.0, n)",
    "y = T.log(func.softmax(x * 1e4, dim=-1))": "y = func.log_softmax(x * 1e4, dim=-1)",
    "y = x / la.vector_norm(x, dim=-1, keepdim=True)": None,
    "y = T.softmax(T.where(x > 0, x, -T.inf), dim=-1)": None,
}


def found(text: str, filename: str) -> list[NaNEvent]:
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    with rg.anomaly.watch(policy="record") as w:
        for _ in w.steps([0]):
            exec(compile(text, filename, "exec"), {"rg": rg})
    return w.events


@pytest.mark.parametrize("code", PROGRAMS)
def test_the_remedy_calls_modules_as_the_program_does(code: str) -> None:
    text = f"{IMPORTS}{code}\ny.sum().backward()\n"
    (event,) = found(text, "<as T>")
    expected = PROGRAMS[code]
    assert event.remedy is not None
    assert expected is None or event.remedy == expected
    assert not found(mended(text, event), "<as T, mended>"), event.remedy


def test_the_remedy_uses_the_programs_name_for_retrograd() -> None:
    text = "import retrograd as R\nx = R.tensor([1.0, 0.0], requires_grad=True)\nR.lgamma(x).sum().backward()\n"
    (event,) = found(text, "<as R>")
    assert event.remedy == "R.lgamma(R.clamp(x, min=1e-6)).sum().backward()"


def test_a_tensor_with_the_name_of_a_module_is_no_module() -> None:
    """Names that nothing imports are tensors, whatever they are called elsewhere."""
    text = "import torch\nT = torch.zeros(2, requires_grad=True)\ny = T.log()\ny.sum().backward()\n"
    (event,) = found(text, "<a tensor T>")
    assert event.remedy == "y = T.clamp(min=1e-12).log()"
