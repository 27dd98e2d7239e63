"""What connects the watch to a tensor library."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from retrograd.anomaly.event import NaNEvent


class Adapter(Protocol):
    """What connects the watch to a tensor library."""

    def start(self) -> None:
        """Begin to observe."""

    def stop(self) -> None:
        """Leave everything as it was before; works after any exception, one in :meth:`start` or before it included."""

    def snapshot(self) -> Any:
        """Return what has to be put back to run the coming step again."""

    def restore(self, snapshot: Any) -> None:
        """Put it back before the second run; after it, all but the random states, which have moved on by one step."""

    def record_everything(self) -> None:
        """Check every operation from now on, until :meth:`stop_recording`."""

    def stop_recording(self) -> None:
        """Go back to looking at the boundaries only."""


@runtime_checkable
class ExplainsErrors(Protocol):
    """What an adapter may be able to do besides."""

    def explain(self, error: BaseException) -> NaNEvent | None:
        """The event of an error about numbers that are not finite; None for any other.

        An operation has raised it about what it was given, or the program about a loss: before it exits, say.
        """


@runtime_checkable
class ReadsLater(Protocol):
    """What an adapter may be able to do besides."""

    def settle(self) -> None:
        """Wait for the result of a look that has not been read yet."""
