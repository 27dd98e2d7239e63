"""The record of an evaluation, made after an earlier one has read a number that could not be explained.

Nothing is recorded where no gradients are computed. But what an evaluation reads will most likely be read by the next
one again. Its models are left out: most operations are theirs, and they can be run again.
"""

from __future__ import annotations

from torch import Tensor

from retrograd.anomaly.adapters.torch.records.calls import Call
from retrograd.anomaly.adapters.torch.records.recording import Recorder
from retrograd.anomaly.adapters.torch.runtime.compilation import in_use
from retrograd.anomaly.adapters.torch.runtime.modes import above

_MOST_ATTEMPTS = 2
_MOST_BYTES = 1 << 28  # of results that are kept alive
_MOST_OPERATIONS = 1 << 14  # outside models: a few seconds


class RecordedEvaluation:
    """Records the program's operations from a call of a model without gradients to the next one with them."""

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._attempts = 0  # at whole evaluations
        self._is_due = False
        self._is_within = False  # an evaluation that has read such a number
        self._is_part = False  # what is recorded is the rest of one

    def request(self) -> None:
        """Record the rest of this evaluation, or the next one if nothing in it is read again."""
        self._is_within = True
        self._is_due = self._recorder is None and self._attempts < _MOST_ATTEMPTS and not in_use()

    def model_is_called(self) -> None:
        """A model is called without gradients."""
        if self._is_due:
            self._is_due, self._is_part = False, self._is_within
            self._attempts += not self._is_part
            self._recorder = Recorder(_MOST_BYTES)
            with above():  # below the program's modes, which the program will leave in its own order
                self._recorder.__enter__()
        if self._recorder is not None:
            self._recorder.paused = True

    def model_has_returned(self) -> None:
        """That call is over."""
        if self._recorder is not None:
            self._recorder.paused = self._recorder.next_order() > _MOST_OPERATIONS

    def made_by(self, tensor: Tensor) -> tuple[Recorder, tuple[Call, int]] | None:
        """The record, and the operation in it that made a tensor."""
        made = None if self._recorder is None else self._recorder.made_by(tensor)
        if self._recorder is None or made is None:
            return None
        self._is_part = False  # it was enough
        return self._recorder, made

    def end(self) -> None:
        """The program computes gradients again."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.end()
            self._is_due = self._is_part and self._attempts < _MOST_ATTEMPTS
        self._is_within = False

    def stop(self) -> None:
        """Forget everything."""
        self.end()
        self._attempts, self._is_due = 0, False
