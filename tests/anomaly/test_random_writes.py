"""Random programs that write to tensors in place: what a second run finds is a line from which the loss became bad.

Beside each program its elements are followed: their values, and the lines where what is bad in them was born.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from tests.anomaly.both import libraries, only_event, run

UNARY: dict[str, Any] = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt, "neg": np.negative}
BINARY: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
KINDS = ("unary", "binary", "unary_", "binary_", "out", "copy_", "fill_", "element", "view", "cat", *["use"] * 5)
SIZE = 3


class Cell:
    """An element: its value, and the lines where it was born, if it is bad."""

    def __init__(self, value: Any, births: frozenset[int] = frozenset()) -> None:
        self.value = np.float32(value)
        self.births = births if self.is_bad else frozenset()

    @property
    def is_bad(self) -> bool:
        return not math.isfinite(self.value)

    def put(self, other: Cell) -> None:
        self.value, self.births = other.value, other.births


def computed(function: Any, line: int, *operands: Cell) -> Cell:
    births = frozenset().union(*(each.births for each in operands))
    with np.errstate(all="ignore"):
        return Cell(function(*(each.value for each in operands)), births or frozenset([line]))


class Program:
    """A random program, its text and what its loss is."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.lines = ["", f"w = torch.ones({SIZE}, requires_grad=True)"]
        self._tensors: dict[str, list[Cell]] = {}  # views have their base's cells
        for name in "abc":
            numbers = [self._random.choice([0.0, 1.0, 2.0, -1.0, 100.0]) for _ in range(SIZE)]
            self.lines.append(f"{name} = torch.tensor({numbers})")
            self._tensors[name] = list(map(Cell, numbers))
        self.lines.append("loss = (w * 0.0).sum()")
        self.loss = Cell(0.0)
        for _ in range(self._random.randint(4, 10)):
            self._add(self._random.choice(KINDS))
        self.lines.append("loss.backward()")

    def _new(self, text: str, cells: list[Cell]) -> None:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self._tensors[name] = cells

    def _write(self, text: str, target: list[Cell], cells: list[Cell]) -> None:
        self.lines.append(text)
        for cell, new in zip(target, cells, strict=True):
            cell.put(new)

    def _add(self, kind: str) -> None:
        x, y = self._random.choice([*self._tensors]), self._random.choice([*self._tensors])
        own, other, line = self._tensors[x], self._tensors[y], len(self.lines) + 1
        are_alike, are_whole = len(own) == len(other), len(own) == len(other) == SIZE
        if kind in ("unary", "unary_", "out"):
            op = self._random.choice([*UNARY])
            made = [computed(UNARY[op], line, each) for each in (other if kind == "out" else own)]
            if kind == "unary":
                self._new(f"torch.{op}({x})", made)
            elif kind == "unary_":
                self._write(f"{x}.{op}_()", own, made)
            elif are_alike and x != y:
                self._write(f"torch.{op}({y}, out={x})", own, made)
        elif kind in ("binary", "binary_") and are_alike:
            op = self._random.choice([*BINARY])
            made = [computed(BINARY[op], line, a, b) for a, b in zip(own, other, strict=True)]
            if kind == "binary":
                self._new(f"torch.{op}({x}, {y})", made)
            else:
                self._write(f"{x}.{op}_({y})", own, made)
        elif kind == "copy_" and are_alike and x != y:
            self._write(f"{x}.copy_({y})", own, [Cell(each.value, each.births) for each in other])
        elif kind == "fill_":
            self._write(f"{x}.fill_(2.0)", own, [Cell(2.0) for _ in own])
        elif kind == "element":
            i, j = self._random.randrange(len(own)), self._random.randrange(len(other))
            self._write(f"{x}[{i}] = {y}[{j}]", [own[i]], [other[j]])
        elif kind == "view" and len(own) == SIZE:
            self._new(f"{x}[:2]", own[:2])
        elif kind == "cat" and are_whole:
            cells = [*own[:1], *other[1:]]
            self._new(f"torch.cat([{x}[:1], {y}[1:]])", [Cell(each.value, each.births) for each in cells])
        elif kind == "use":
            for each in own:
                self.loss = computed(lambda a, b: a + (b + np.float32(1)), line, self.loss, each)
            self.lines.append(f"loss = loss + ({x} + w[:{len(own)}]).sum()")


@libraries
@pytest.mark.parametrize("part", range(4))
def test_the_event_names_a_line_where_the_loss_became_bad(library: str, part: int) -> None:
    bad = 0
    for seed in range(50 * part, 50 * part + 50):
        program = Program(seed)
        text = "\n".join(program.lines)
        w = run(library, text, steps=True)
        if not program.loss.is_bad:
            assert not w.events, text
            continue
        bad += 1
        event = only_event(w)
        assert event.lineno in program.loss.births, f"{text}\n{event}, but {sorted(program.loss.births)}"
    assert bad > 2
