"""The batches of an unmodified script, repeating one if something goes wrong with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

import torch

from retrograd.anomaly.adapters.framework_loops import owns_its_loop
from retrograd.anomaly.adapters.torch.records.calls import next_seq
from retrograd.anomaly.monitor import Watch


class Rerun:
    """An iterator of a ``DataLoader`` under :meth:`Watch.steps <retrograd.anomaly.monitor.Watch.steps>`.

    If another loader's step is under way, as in ``zip(a, b)``, it takes part in that one: in the second run it repeats
    what it yielded in the first. If the second batch is requested before anything was computed with the first, as
    prefetchers do, a repeated batch would not meet the step it belongs to, so no step is run again.

    Parameters
    ----------
    iterator
        The loader's own.
    watch
        The watch that owns the steps.
    rehearsing
        Tells whether a second run is under way.
    """

    def __init__(self, iterator: Iterator[Any], watch: Watch, rehearsing: Callable[[], bool]) -> None:
        self._iterator = iterator
        self._watch = watch
        self._rehearsing = rehearsing
        self._steps = _steps_of(watch, iterator)
        self._leads = False
        self._nodes: int | None = None  # the next sequence number when the first batch was yielded
        self._is_ahead = False
        self._given: list[Any] = []  # batches yielded in the present step of another loader
        self._taken = 0  # how many of these were repeated in the second run
        self._step: Any = None

    def __iter__(self) -> Rerun:
        return self

    def __next__(self) -> Any:
        if self._leads or not self._watch.replaying:
            return self._next_to_lead()
        if self._watch.present_step is not self._step:
            self._step, self._given, self._taken = self._watch.present_step, [], 0
        if not self._rehearsing():
            self._given.append(next(self._iterator))
            return self._given[-1]
        if self._taken < len(self._given):
            self._taken += 1
            return self._given[self._taken - 1]
        return next(self._iterator)

    def _next_to_lead(self) -> Any:
        if not self._leads:
            self._leads = True
            batch = next(self._steps)
            self._nodes = next_seq()
            return batch
        if self._nodes is not None:
            self._is_ahead, self._nodes = next_seq() == self._nodes, None
            if self._is_ahead:
                self._steps.close()
        return next(self._iterator if self._is_ahead else self._steps)

    def __len__(self) -> int:
        return len(self._iterator)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


def _steps_of(watch: Watch, iterator: Iterator[Any]) -> Generator[Any, None, None]:
    yield from watch.steps(iterator)


def rerun(watch: Watch, rehearsing: Callable[[], bool]) -> Callable[..., Any]:
    """Make a replacement for ``DataLoader.__iter__``; validation, without gradients, is left alone.

    So are the loops of frameworks, which :mod:`retrograd.anomaly.adapters.framework_loops` handles.
    """

    def iterate(original: Any, loader: Any) -> Any:
        iterator = original(loader)
        if not torch.is_grad_enabled() or owns_its_loop(sys._getframe(1)):
            return iterator
        return Rerun(iterator, watch, rehearsing)

    return iterate
