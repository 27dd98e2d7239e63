"""A step of training that may have to be run again."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from retrograd.anomaly.adapter import Adapter
from retrograd.anomaly.enumerate_counters import count_again
from retrograd.anomaly.event import NaNEvent, context_of, is_birth, is_certain, was_given_bad
from retrograd.anomaly.messages import CARRIED_OVER, GATHERED, NOT_AGAIN

if TYPE_CHECKING:
    from retrograd.anomaly.monitor import Watch


class SecondRun:
    """The second run of a step, or what has to be kept until it is known whether there is one.

    Parameters
    ----------
    adapters
        The adapters of the watch, each of which restores its own part.

    Attributes
    ----------
    adapters
        The same list; once the watch has been stopped, it has a different one.
    tripped : tuple of str and NaNEvent, or None
        The kind of harm and the event that the current run has tripped over.
    first : tuple of str and NaNEvent, or None
        The same for the first run, once the second has begun.
    """

    def __init__(self, adapters: Sequence[Adapter]) -> None:
        self.adapters = adapters
        self._snapshots = [adapter.snapshot() for adapter in adapters]
        self.tripped: tuple[str, NaNEvent] | None = None
        self.first: tuple[str, NaNEvent] | None = None
        self._progress: tuple[Any, ...] = ()  # when the first run has tripped

    def trip(self, watch: Watch, kind: str, event: NaNEvent) -> None:
        """Take over the finding of a run; only the first counts."""
        if self.tripped is None:
            self.tripped = kind, event
            self._progress = event.step, *watch.histories()

    def abandon(self) -> tuple[str, NaNEvent] | None:
        """Give up a step that will not be run to its end; return what it has tripped over, but only once."""
        left, self.tripped, self.first = self.tripped or self.first, None, None
        return left

    def put_back(self) -> None:
        """Restore what the current run has changed."""
        for adapter, snapshot in zip(self.adapters, self._snapshots, strict=True):
            adapter.restore(snapshot)

    @contextmanager
    def under_way(self, watch: Watch) -> Iterator[None]:
        """A context for the second run, in which every operation is recorded.

        In it the watch is at the step where the first run tripped, although that run went on afterwards: a loop body
        may hold several backward passes, and the harm is often in one before the last.
        """
        self.first, self.tripped = self.tripped, None
        self.put_back()
        count_again()
        for adapter in self.adapters:
            adapter.record_everything()
        reached = watch.step, *watch.histories()
        _set_progress(watch, *self._progress)
        try:
            yield
        finally:
            _set_progress(watch, *reached)
            for adapter in self.adapters:
                adapter.stop_recording()

    def outcome(self) -> tuple[str, NaNEvent]:
        """The kind of harm and the event that both runs together lead to."""
        assert self.first is not None
        kind, event = self.tripped or self.first
        first_kind, first = self.first
        if self.tripped is None:
            passes = context_of(event).get("gathered", 1)
            if passes > 1 and not is_certain(event):  # only the batch of the last one has been run again
                return kind, replace(event, note=GATHERED.format(passes))
            return kind, replace(event, reproducible=False, note=NOT_AGAIN)
        if is_certain(first) and not was_given_bad(first) and not is_birth(event):
            return first_kind, replace(first, reproducible=False, note=CARRIED_OVER)
        return kind, replace(event, reproducible=True)


def _set_progress(watch: Watch, step: int, losses: Sequence[float | None], norms: Sequence[float | None]) -> None:
    watch.step = step
    for history, values in ((watch.loss_history, losses), (watch.grad_norm_history, norms)):
        history.clear()
        history.extend(values)


def batches_of(loader: Iterable[Any]) -> Iterable[Any]:
    """The loader itself; a TypeError for anything that holds no batches."""
    if hasattr(loader, "__iter__") or hasattr(loader, "__getitem__"):
        return loader
    count = f"; for {loader} steps give range({loader})" if isinstance(loader, int) else ""
    raise TypeError(f"steps() takes the batches, as a DataLoader or a list, but got {loader!r}{count}")


class Batches:
    """An iterator over the batches of a loader, some of which come twice; it has the loader's length, if any.

    Parameters
    ----------
    loader
        It is asked for its length, for example by a progress bar.
    batches
        What is iterated over.
    """

    def __init__(self, loader: Any, batches: Generator[Any, None, None]) -> None:
        self._loader = loader
        self._batches = batches

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        return next(self._batches)

    def __len__(self) -> int:
        return len(self._loader)

    def close(self) -> None:
        """Leave the loop, as when a generator is closed."""
        self._batches.close()
