"""Watching torch from the moment the program imports it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from retrograd.anomaly.adapters.import_hook import ImportHook

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.torch.monitor import TorchMonitor
    from retrograd.anomaly.event import NaNEvent
    from retrograd.anomaly.monitor import Watch


class WhenImported:
    """Connects a watch to PyTorch as soon as torch is imported; does nothing until then.

    It takes the place of a :class:`~retrograd.anomaly.adapters.torch.monitor.TorchMonitor`, and hands over to one.

    Parameters
    ----------
    watch
        Supplies the policies and receives the events.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._hook = ImportHook("torch", lambda module: self._attach())
        self._monitor: TorchMonitor | None = None
        self._running = False

    def start(self) -> None:
        self._running = True
        if "torch" in sys.modules:
            self._attach()
        else:
            self._hook.put()

    def stop(self) -> None:
        self._running = False
        self._hook.remove()
        if self._monitor is not None:
            self._monitor.stop()
            self._monitor = None

    def snapshot(self) -> Any:
        return None if self._monitor is None else self._monitor.snapshot()

    def restore(self, snapshot: Any) -> None:
        if self._monitor is not None and snapshot is not None:
            self._monitor.restore(snapshot)

    def record_everything(self) -> None:
        if self._monitor is not None:
            self._monitor.record_everything()

    def stop_recording(self) -> None:
        if self._monitor is not None:
            self._monitor.stop_recording()

    def explain(self, error: BaseException) -> NaNEvent | None:
        return None if self._monitor is None else self._monitor.explain(error)

    def settle(self) -> None:
        if self._monitor is not None:
            self._monitor.settle()

    def _attach(self) -> None:
        from retrograd.anomaly.adapters.torch.monitor import TorchMonitor

        self._hook.remove()
        if self._running and self._monitor is None:
            self._monitor = TorchMonitor(self._watch)  # set before it starts, so that it is stopped if starting fails
            self._monitor.start()
