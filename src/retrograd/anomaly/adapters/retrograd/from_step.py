"""The monitor of retrograd's engine for a watch that records every operation from some step on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.anomaly.adapters.retrograd.monitor import RetrogradMonitor
from retrograd.anomaly.monitor import Watch
from retrograd.core.tensor import Tensor


class FromStepMonitor(RetrogradMonitor):
    """Connects a watch to retrograd's engine, and starts a new record in each step from the requested one.

    Parameters
    ----------
    watch
        Supplies the policies, receives the events, and requests the first recorded step by its ``from_step``.
    """

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        assert watch.from_step is not None
        self._from_step = watch.from_step
        self._last_recorded = -1  # number of finished steps when the present record began

    def start(self) -> None:
        super().start()
        self._record_if_due()

    def before_backward(self, outputs: Sequence[Tensor], is_step: bool = True) -> bool:
        goes_on = super().before_backward(outputs, is_step)
        if not goes_on:
            self._record_if_due()
        return goes_on

    def after_backward(self, *args: Any) -> None:
        super().after_backward(*args)
        self._record_if_due()

    def _record_if_due(self) -> None:
        ended = self.watch.step
        if self._running and not self._rehearsing and ended + 1 >= self._from_step and ended != self._last_recorded:
            self._last_recorded = ended
            self._record()

    def stop_recording(self) -> None:
        super().stop_recording()
        self._last_recorded = -1
        self._record_if_due()  # if a second run has ended, but not the watch
