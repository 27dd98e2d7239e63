"""Sequences of different lengths, packed: the rows of one step after those of another, the longest sequence first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Run(NamedTuple):
    """Successive steps that equally many sequences take.

    Attributes
    ----------
    start
        The row of the first step.
    steps, batch
        How many steps there are, and how many sequences; every step has a row for each.
    before
        How many rows the states before the first step of the earlier runs take.
    """

    start: int
    steps: int
    batch: int
    before: int

    def rows(self, array: Any) -> Any:
        """The rows of this run, by step and sequence."""
        return array[self.start : self.start + self.steps * self.batch].reshape(
            self.steps, self.batch, *array.shape[1:]
        )

    def states(self, array: Any) -> Any:
        """The states before the first step and after every step, from an array that has both for every run."""
        at = self.start + self.before
        return array[at : at + (self.steps + 1) * self.batch].reshape(self.steps + 1, self.batch, array.shape[1])

    def gates(self, array: Any, count: int) -> Any:
        """By step and gate, a matrix with a row for every sequence, from an array with ``count`` rows for each."""
        at, length = self.start * count, self.steps * count * self.batch
        return array[at : at + length].reshape(self.steps, count, self.batch, array.shape[1])


def runs_of(batch_sizes: Sequence[int]) -> list[Run]:
    """The runs of packed sequences, from how many of them take every step."""
    runs = []
    start = before = 0
    for batch, group in itertools.groupby(batch_sizes):
        steps = len(list(group))
        runs.append(Run(start, steps, batch, before))
        start += steps * batch
        before += batch
    return runs


def reversal(batch_sizes: Sequence[int]) -> Any:
    """The order of the rows in which every sequence runs backwards; it is its own inverse."""
    sizes = np.array(batch_sizes)
    starts = np.cumsum(sizes) - sizes
    step = np.repeat(np.arange(len(sizes)), sizes)
    sequence = np.arange(len(step)) - starts[step]
    lengths = np.searchsorted(-sizes, -np.arange(sizes[0]), side="left") if len(sizes) else sizes
    return starts[lengths[sequence] - 1 - step] + sequence
