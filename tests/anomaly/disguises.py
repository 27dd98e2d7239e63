"""The programs of the catalogue written with retrograd, as they stand and in three disguises, under the watch."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import retrograd as rg
from retrograd.anomaly import NaNEvent

HERE = "  # born here"
_numbers = iter(range(10**9))


def plain(code: str) -> str:
    """Return the program as it stands."""
    return f"{code}\nloss = y.sum()"


def under_five(code: str) -> str:
    """Under five further operations."""
    return f"{code}\nh1 = y * 2\nh2 = h1.reshape(-1)\nh3 = h2 + 1\nh4 = -h3\nh5 = h4 / 4\nloss = h5.sum()"


def in_modules(code: str) -> str:
    """In a module inside a module that is called in a loop."""
    return "\n".join(
        [
            "class Inner(torch.nn.Module):",
            "    def forward(self):",
            textwrap.indent(code, " " * 8),
            "        return y",
            "class Outer(torch.nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            "        self.blocks = torch.nn.ModuleList([Inner() for _ in range(3)])",
            "    def forward(self):",
            "        total = 0.0",
            "        for block in self.blocks:",
            "            total = total + block().sum()",
            "        return total",
            "model = Outer()",
            "loss = model()",
        ]
    )


def in_branch(code: str) -> str:
    """In one branch of two that are joined, with gradients of the leaves from both."""
    leaves = "[each for each in list(globals().values()) if isinstance(each, torch.Tensor) and each.requires_grad]"
    return "\n".join(
        [
            f"leaves = [each for each in {leaves} if each.is_leaf]",
            code,
            "other = sum((leaf * 0.5).sum() for leaf in leaves)",
            "joined = torch.where(torch.ones_like(y) > 0, y, other)",
            "loss = joined.sum() + other",
        ]
    )


DISGUISES: dict[str, Callable[[str], str]] = {
    "plain": plain,
    "under five": under_five,
    "in modules": in_modules,
    "in a branch": in_branch,
}


def marked(code: str, lineno: int | None) -> str:
    """The code with the guilty line marked."""
    lines = code.splitlines()
    if lineno is not None:
        lines[lineno - 1] += HERE
    return "\n".join(lines)


def marked_line(text: str) -> int | None:
    """The number of the marked line."""
    return next((number for number, line in enumerate(text.splitlines(), 1) if line.endswith(HERE)), None)


def namespace_of(setup: str) -> dict[str, Any]:
    """Return the variables that a program starts with; it calls retrograd ``torch``."""
    namespace: dict[str, Any] = {"torch": rg, "F": rg.nn.functional, "__name__": "program"}
    exec(setup, namespace)
    return namespace


def watched(setup: str, text: str, *, steps: bool, **options: Any) -> tuple[NaNEvent, ...]:
    """The events of a program that computes ``loss``; ``steps`` has the bad step run a second time."""
    filename = f"<program {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    code = compile(text, filename, "exec")
    namespace = namespace_of(setup)
    watch = rg.anomaly.watch(**{"policy": "record", **options})

    def batches() -> Iterator[Any]:
        return watch.steps([0]) if steps else iter([0])

    with watch:
        for _ in batches():
            exec(code, namespace)
            namespace["loss"].backward()
    return watch.events
