"""NaN and infinity that the program reads where it computes no gradients: of a model, a weight, or its own lines."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.evaluations import (
    HARMED,
    ReadingPlaces,
    first_bad,
    is_meant,
    is_ours,
    kind_of,
)
from retrograd.anomaly.adapters.torch.boundaries.failures import born_before, has_history
from retrograd.anomaly.adapters.torch.models import modules_around, outermost
from retrograd.anomaly.adapters.torch.postmortem.analysis import Analysis
from retrograd.anomaly.adapters.torch.postmortem.origin import Origin, met_at, origin_of
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, has_nan, is_bad
from retrograd.anomaly.adapters.torch.runtime.compilation import in_use
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.stack_frames import callers_of, user_frame

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.torch.monitor import TorchMonitor


class Evaluations:
    """Warns of such a number, once for each instruction that reads one.

    Parameters
    ----------
    monitor
        Supplies the watch, the calls of models and the explanations.
    """

    def __init__(self, monitor: TorchMonitor) -> None:
        self._monitor: TorchMonitor = weakref.proxy(monitor)
        self._places = ReadingPlaces()

    def read(self, frame: FrameType | None, tensor: Tensor, value: Any) -> None:
        """Something reads a number in a frame: not this package, nor an optimizer, whose updates are checked anyway.

        With gradients on it belongs to an evaluation only if all models are in evaluation mode, or if it has no
        gradient and no model was called with gradients since.
        """
        monitor, kind = self._monitor, kind_of(value)
        if kind is None or is_ours(frame) or monitor.now.steps.any or not monitor.watch.listens_to(kind):
            return
        frame = user_frame(frame)
        if frame is None or not self._places.is_worth_a_look(frame):
            return
        is_over = monitor.calls.are_without_gradients and not tensor.requires_grad
        needs_modes = torch.is_grad_enabled() and not is_over
        with monitor.at_work():
            models = dict.fromkeys((*monitor.models.present(), *modules_around(frame)))
            if needs_modes and not _are_evaluated(models):
                if not tensor.requires_grad:  # perhaps of an evaluation that is over: the next one will tell
                    self._look_next_time(models, is_known=True)
                return
            event, is_known = None, False
            with suppress(Exception):  # an error of ours is no reason to end an evaluation
                event = self._event(frame, tensor, models)
                is_known = event is not None
                event = None if event is None or is_meant(event, kind) else event
            if event is None:
                self._look_next_time(models, is_known)
        if event is not None:
            self._places.is_told(frame)
            monitor.watch.warned(kind, replace(event, harmed=HARMED))

    def _look_next_time(self, models: Iterable[torch.nn.Module], is_known: bool) -> None:
        """Have the models' outputs looked at from now on: this number may come from an earlier call than the latest.

        If nothing is known about it, have the next evaluation recorded as well.
        """
        calls = self._monitor.calls
        if in_use():
            return
        calls.looks_at_evaluations = True
        for each in outermost(models):
            calls.follow(each)
        if not is_known:
            calls.evaluation.request()

    def _event(self, frame: FrameType, value: Tensor, models: Iterable[torch.nn.Module]) -> NaNEvent | None:
        monitor = self._monitor
        recorded = monitor.calls.evaluation.made_by(value)
        analysis = monitor.analysis_at(frame, None if recorded is None else recorded[0])
        if has_history(value):
            return born_before(value, analysis)
        if recorded is not None:
            origin = origin_of([recorded[1]], monitor.is_meant)
            if origin is not None and origin.leaf is not None:  # a model's output is
                origin = origin_of(monitor.calls.evaluate_again(), monitor.is_meant) or origin
            return None if origin is None else analysis.described(origin)
        origin = self._origin(frame, value, models)
        return _of_lines(analysis, frame, value) if origin is None else analysis.described(origin, is_rerun=True)

    def _origin(self, frame: FrameType, value: Tensor, models: Iterable[torch.nn.Module]) -> Origin | None:
        monitor = self._monitor
        if monitor.recorder is not None:
            made = monitor.recorder.made_by(value)
            return None if made is None else origin_of([made], monitor.is_meant)
        return origin_of(monitor.calls.evaluate_again(), monitor.is_meant) or _bad_member(frame, models)


def _are_evaluated(models: Iterable[torch.nn.Module]) -> bool:
    """Whether there are models to be trained, and all are in evaluation mode."""
    trained = [each for each in models if any(weight.requires_grad for weight in each.parameters())]
    return bool(trained) and not any(each.training for each in trained)


def _bad_member(frame: FrameType, models: Iterable[torch.nn.Module]) -> Origin | None:
    """A weight or a buffer that holds NaN."""
    for model in models:
        for weight in filter(has_nan, model.parameters()):
            return met_at(frame, Argument("weight", weight.detach(), leaf=weight))
        for buffer in filter(has_nan, model.buffers()):
            return met_at(frame, Argument("buffer", buffer.detach(), original=buffer))
    return None


def _of_lines(analysis: Analysis, frame: FrameType, value: Tensor) -> NaNEvent | None:
    """The event of the birth in the lines of the function that reads a value, or of the data that it was given."""
    event = _of_data(analysis, frame, "input", value)
    came_in = first_bad(frame, _is_bad_data) if event.kind == "leaf" else None
    if came_in is not None:
        return _of_data(analysis, frame, *came_in)
    return None if event.kind == "leaf" else event


def _of_data(analysis: Analysis, frame: FrameType, name: str, value: Tensor) -> NaNEvent:
    call = Call("leaf", [Argument(name, value.detach(), original=value)], [None], 0)
    call.code, call.at, call.callers = frame.f_code, frame.f_lasti, callers_of(frame)
    return analysis.of_argument(call)


def _is_bad_data(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.requires_grad and is_bad(value)
