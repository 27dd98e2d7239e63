"""Programs of the catalogue as training steps under the watch, plain and in disguise."""

from __future__ import annotations

import linecache
import textwrap
from typing import Any

import torch

import retrograd as rg
from retrograd.anomaly.event import NaNEvent
from tests.anomaly.programs import Program

PLAIN = "{code}\nloss = y.float().sum()"
DISGUISES = {
    "plain": PLAIN,
    "under five operations": (
        "{code}\nz = y.float() * 0.5\nz = z + 1.0\nz = z.reshape(-1)\nz = z.clone()\nloss = z.sum()"
    ),
    "inside nested modules in a loop": (
        "class Inner(torch.nn.Module):\n    def forward(self):\n{inner}\n        return y\n"
        "class Outer(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layers = torch.nn.ModuleList([Inner()])\n"
        "    def forward(self):\n        for layer in self.layers:\n            y = layer()\n        return y\n"
        "model = Outer()\nloss = model().float().sum()"
    ),
    "in a branch joined by where and accumulation": (
        "{code}\ny = y.float()\nloss = torch.where(y.detach() == 0.125, 0.25, y).sum()\n"
        "loss = loss + sum(t.float().sum() for t in list(globals().values())\n"
        "                  if isinstance(t, torch.Tensor) and t.is_leaf and t.requires_grad)"
    ),
}
OFFSET = {"inside nested modules in a loop": 2}  # lines before the program


def disguised(program: Program, disguise: str) -> str:
    """The text of a step that computes ``loss`` from a program's ``y``."""
    return DISGUISES[disguise].format(code=program.code, inner=textwrap.indent(program.code, " " * 8))


def step(source: str, filename: str) -> Any:
    """Compile a text so that its lines can be read."""
    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = (len(source), None, lines, filename)
    return compile(source, filename, "exec")


def watched(program: Program, disguise: str = "plain", *, again: bool = True, filename: str = "step.py") -> NaNEvent:
    """Return the event of a program, with or without a second run of the step."""
    code = step(disguised(program, disguise), filename)
    with rg.anomaly.watch(policy="record") as w:
        for _ in w.steps([None]) if again else [None]:
            namespace: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
            exec(program.setup, namespace)
            exec(code, namespace)
            namespace["loss"].backward()
    assert w.event is not None, "nothing was found"
    return w.event
