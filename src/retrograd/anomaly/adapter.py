"""What connects the watch to a tensor library."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from retrograd.anomaly.event import NaNEvent


class Adapter(Protocol):
    """What connects the watch to a tensor library."""

    def start(self) -> None:
        """Begin to observe."""

    def stop(self) -> None:
        """Restore everything to its previous state; works after any exception, even one in or before :meth:`start`."""

    def snapshot(self) -> Any:
        """Return the state that has to be restored to run the coming step again."""

    def restore(self, snapshot: Any) -> None:
        """Restore it before the second run; afterwards, all but the random states, which advanced by one step."""

    def record_everything(self) -> None:
        """Check every operation from now on, until :meth:`stop_recording`."""

    def stop_recording(self) -> None:
        """Go back to looking at the boundaries only."""


@runtime_checkable
class ExplainsErrors(Protocol):
    """An optional capability of adapters: explaining exceptions."""

    def explain(self, error: BaseException) -> NaNEvent | None:
        """The event for an error about non-finite numbers; None for any other error.

        An operation raised it because of its arguments, or the program because of a loss, for example before it exits.
        """


@runtime_checkable
class ReadsLater(Protocol):
    """An optional capability of adapters: reading the results of checks later."""

    def settle(self) -> None:
        """Wait for the result of a check that has not been read yet."""
