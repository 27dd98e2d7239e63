"""A step of training that may have to be run again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from retrograd.anomaly.event import NaNEvent

if TYPE_CHECKING:
    from retrograd.anomaly.monitor import Watch


class SecondRun:
    """The second run of a step, or what it takes until it is known whether there is one.

    Parameters
    ----------
    snapshots
        What each adapter puts back before it.

    Attributes
    ----------
    tripped : tuple of str and NaNEvent, or None
        What the run that is under way has tripped over, and the kind of its harm.
    first : tuple of str and NaNEvent, or None
        What the first run has tripped over, once the second has begun.
    """

    def __init__(self, snapshots: Sequence[Any]) -> None:
        self.snapshots = snapshots
        self.tripped: tuple[str, NaNEvent] | None = None
        self.first: tuple[str, NaNEvent] | None = None
        self._progress: tuple[Any, ...] = ()  # when the first run has tripped

    def trip(self, watch: Watch, kind: str, event: NaNEvent) -> None:
        """Take over what a run has come to; only the first counts."""
        if self.tripped is None:
            self.tripped = kind, event
            self._progress = event.step, *watch.histories()

    @contextmanager
    def counted_as_the_first(self, watch: Watch) -> Iterator[None]:
        """A context in which the watch has come as far as when the first run tripped, although that went on since.

        A loop body may hold several backward passes, and the harm is often in one before the last.
        """
        self.tripped = None
        reached = watch.step, *watch.histories()
        _set_progress(watch, *self._progress)
        try:
            yield
        finally:
            _set_progress(watch, *reached)


def _set_progress(watch: Watch, step: int, losses: Sequence[float | None], norms: Sequence[float | None]) -> None:
    watch.step = step
    for history, values in ((watch.loss_history, losses), (watch.grad_norm_history, norms)):
        history.clear()
        history.extend(values)


def batches_of(loader: Iterable[Any]) -> Iterable[Any]:
    """The loader itself; a TypeError for what holds no batches."""
    if hasattr(loader, "__iter__") or hasattr(loader, "__getitem__"):
        return loader
    count = f"; for {loader} steps give range({loader})" if isinstance(loader, int) else ""
    raise TypeError(f"steps() takes the batches, as a DataLoader or a list, but got {loader!r}{count}")
