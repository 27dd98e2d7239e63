"""Numbers and truth values that the program reads from its tensors: it checks its loss, or evaluates a model."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from retrograd import core
from retrograd.anomaly.adapters.evaluations import (
    HARMED,
    ReadingPlaces,
    first_bad,
    is_meant,
    is_ours,
    kind_of,
)
from retrograd.anomaly.adapters.program.loss_checks import checked_loss, may_tell_of_one
from retrograd.anomaly.adapters.program.source_location import place_fields
from retrograd.anomaly.adapters.retrograd.births import as_array
from retrograd.anomaly.adapters.retrograd.boundaries.failures import event_of_loss, has_history
from retrograd.anomaly.adapters.retrograd.elements import harm_of, is_bad
from retrograd.anomaly.adapters.retrograd.gradient_checks import loss_of
from retrograd.anomaly.adapters.retrograd.tensor_names import Names
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.skipped_batches import CheckedLoss
from retrograd.core import sites, state
from retrograd.core.tensor import Tensor

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.retrograd.monitor import RetrogradMonitor

_CORE = f"{core.__name__}."


class Reads:
    """Reports a non-finite loss that the program checks, as it may stop because of it; and those of evaluations.

    Parameters
    ----------
    monitor
        Supplies the watch and the explanations.
    """

    def __init__(self, monitor: RetrogradMonitor) -> None:
        self._monitor = monitor
        self._places = ReadingPlaces()

    def read(self, frame: FrameType | None, tensor: Tensor, value: Any) -> None:
        """The program reads a value in a frame."""
        if not may_tell_of_one(value) or self._monitor.watch.is_quiet:
            return
        around = sites.user_frame(frame)
        found = self._checked(around) if state.local.grad_enabled else None
        if found is not None:
            self._of_checked(found, value)
        elif (kind := kind_of(value)) is not None and around is not None and not is_ours(_out_of_the_core(frame)):
            self._evaluated(around, tensor, kind)

    def _checked(self, frame: FrameType | None) -> CheckedLoss | None:
        return checked_loss(frame, sites.is_internal, has_history, _is_bad, self._monitor.watch.left_out)

    def _of_checked(self, found: CheckedLoss, value: Any) -> None:
        watch, analysis = self._monitor.watch, self._monitor.analysis
        seen = watch.left_out
        if not (found.is_own or found.replaces):
            return
        loss = found.loss
        in_vain = found.is_own and found.leaves_out and seen.note(found, type(value) is float)
        if in_vain or (not watch.is_silent and (seen.may_end(found) or seen.is_new(found))):
            with watch.with_loss(loss_of(loss._data)):
                event = event_of_loss(loss, found.frame, watch, analysis)
            if event is not None and event.op not in watch.allow:
                watch.checked(harm_of([loss._data]), event, found, in_vain=in_vain)

    def _evaluated(self, frame: FrameType, tensor: Tensor, kind: str) -> None:
        """Such a number is read: with gradients on it is an evaluation only if all models are in evaluation mode."""
        watch = self._monitor.watch
        if not watch.listens_to(kind) or not self._places.is_worth_a_look(frame):
            return
        event, names = None, Names(watch.model, frame)
        if state.local.grad_enabled and not names.are_evaluated():
            return
        with suppress(Exception):  # an error of ours is no reason to end an evaluation
            event = self._of_evaluation(frame, tensor, names)
        if event is not None and not is_meant(event, kind):
            self._places.is_told(frame)
            watch.warned(kind, replace(event, harmed=HARMED))

    def _of_evaluation(self, frame: FrameType, tensor: Tensor, names: Names) -> NaNEvent | None:
        if has_history(tensor):
            return event_of_loss(tensor, frame, self._monitor.watch, self._monitor.analysis)
        analysis = self._monitor.analysis([], names)
        event = analysis.of_held("input", as_array(tensor), frame.f_code, frame.f_lasti)
        if event.kind != "leaf" and event.op != "unknown":
            return replace(event, path=event.path or (event.op,))
        for role, data in analysis.names.nan_in_state():
            leaf = analysis.describer.leaf(data, role, None, [])
            return replace(leaf, **place_fields(frame.f_code, frame.f_lasti))
        came_in = first_bad(frame, _is_bad_data)
        if came_in is None:
            return None
        return analysis.of_held(came_in[0], as_array(came_in[1]), frame.f_code, frame.f_lasti)


def _out_of_the_core(frame: FrameType | None) -> FrameType | None:
    """The first frame outside the engine, whose methods read numbers through one another."""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_CORE):
        frame = frame.f_back
    return frame


def _is_bad_data(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.requires_grad and bool(_is_bad(value))


def _is_bad(value: Any) -> bool | None:
    """Whether a tensor has a non-finite number; None for anything but a floating-point tensor."""
    if not issubclass(type(value), Tensor) or value._data.dtype.kind not in "fc":
        return None
    return is_bad(value._data)
