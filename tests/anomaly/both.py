"""One program run with retrograd and with PyTorch, both called ``torch`` in it, under the watch."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch

import retrograd as rg
from retrograd.anomaly import NaNEvent, Watch, watch
from tests.anomaly.disguises import HERE

_numbers = iter(range(10**9))

libraries = pytest.mark.parametrize("library", ["retrograd", "torch"])
modules = pytest.mark.parametrize("module", [rg, torch], ids=["retrograd", "torch"])
runs = pytest.mark.parametrize("steps", [False, True], ids=["once", "steps"])


def run(library: str, text: str, steps: bool = False, *, policy: Any = "record", function: bool = False) -> Watch:
    """Return the watch under which a program has run that calls ``backward`` itself.

    With ``steps`` a bad step is run a second time. With ``function`` the program defines a function ``step`` that
    returns the loss, so that its variables are gone when ``backward`` runs.
    """
    filename = f"<program {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module: Any = rg if library == "retrograd" else torch
    module.manual_seed(0)
    w = watch(policy=policy)
    with w:
        for _ in w.steps([0]) if steps else [0]:
            namespace = {"torch": module, "F": module.nn.functional, "nn": module.nn, "w": w}
            exec(compile(text, filename, "exec"), namespace)
            if function:
                namespace["step"]().backward()
    return w


def executed(library: str, text: str) -> dict[str, Any]:
    """Run a program without a watch and return its variables."""
    module: Any = rg if library == "retrograd" else torch
    variables = {"torch": module, "F": module.nn.functional, "nn": module.nn}
    exec(text, variables)
    return variables


def only_event(w: Watch) -> NaNEvent:
    """Return the event of a watch that has found exactly one."""
    assert len(w.events) == 1, "\n".join(map(str, w.events))
    return w.events[0]


def line(text: str) -> int:
    """Return the number of the marked line."""
    return next(number for number, each in enumerate(text.splitlines(), 1) if each.endswith(HERE))


def mended(text: str, event: NaNEvent) -> str:
    """Return the program with the remedy in the place of the line that it replaces."""
    lines = text.splitlines()
    number = (event.remedy_lineno or event.lineno or 0) - 1
    indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
    lines[number] = indent + (event.remedy or "").replace("rg.", "torch.")  # as the programs call either
    return "\n".join(lines).replace(HERE, "")
