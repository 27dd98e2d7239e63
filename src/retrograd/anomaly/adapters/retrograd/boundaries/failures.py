"""Errors about numbers that are not finite, as events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

from retrograd.anomaly.adapters.program.failed_calls import FailedCall
from retrograd.anomaly.adapters.program.variables import variables_left_by
from retrograd.anomaly.adapters.retrograd.births import arguments_of, birth_of
from retrograd.anomaly.adapters.retrograd.boundaries.distribution_parameters import refused_parameter
from retrograd.anomaly.adapters.retrograd.elements import holds_nan, is_bad
from retrograd.anomaly.adapters.retrograd.gradient_checks import loss_of
from retrograd.anomaly.adapters.retrograd.postmortem.tangents import TangentAnalysis
from retrograd.anomaly.adapters.retrograd.tensor_names import Names
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.monitor import Watch
from retrograd.anomaly.stack_frames import with_causes
from retrograd.core import sites
from retrograd.core.errors import LinAlgError
from retrograd.core.tensor import Tensor

Analyse = Callable[..., TangentAnalysis]  # analyses edges, names and births, as a monitor does


def explanation(error: BaseException, watch: Watch, analysis: Analyse) -> NaNEvent | None:
    """The event of an error about numbers that are not finite; None for any other.

    Parameters
    ----------
    error
        The error as caught, with its traceback.
    watch
        The watch that has caught it.
    analysis
        Makes an analysis.
    """
    return next(filter(None, (_explained(each, watch, analysis) for each in with_causes(error))), None)


def _explained(error: BaseException, watch: Watch, analysis: Analyse) -> NaNEvent | None:
    """The same for one error of a chain."""
    tensor = next((each for each in arguments_of(error) if holds_nan(each._data)), None)
    if tensor is not None and (event := _refused_argument(error, tensor, watch, analysis)) is not None:
        return replace(event, harmed=f"an argument of the call that raised {type(error).__name__}")
    birth = birth_of(error) if isinstance(error, LinAlgError) else None
    if birth is not None:
        return analysis([], births=[]).describer.failure(birth, error)
    return _refused_loss(error, watch, analysis) or refused_parameter(error, watch.model, analysis)


def _refused_argument(error: BaseException, tensor: Tensor, watch: Watch, analysis: Analyse) -> NaNEvent | None:
    """The event of a NaN in an argument of a function of ours that raised an error."""
    refused = FailedCall(error, sites.is_internal, lambda value: isinstance(value, Tensor) and holds_nan(value._data))
    edge = tensor._resolve_edge()
    event = analysis([] if edge is None else [edge], Names(watch.model, refused.frame)).of_loss(tensor._data)
    held = refused.first_held() if event.op == "unknown" else None
    if held is not None:
        names = Names(watch.model, held.frame)
        event = analysis([], names).of_held(held.name, held.value._data, held.frame.f_code, held.at)
    return None if event.op == "unknown" else event


def _refused_loss(error: BaseException, watch: Watch, analysis: Analyse) -> NaNEvent | None:
    """The event of a non-finite loss if the program itself raised an error, as programs do when they check it."""
    for frame, value in variables_left_by(error, sites.is_internal):
        if _is_bad_loss(value):
            watch.loss_history[-1] = loss_of(value._data)
            return event_of_loss(value, frame, watch, analysis)
    return None


def _is_bad_loss(value: Any) -> bool:
    """Whether something is a loss that is not finite."""
    return has_history(value) and value.numel() == 1 and is_bad(value._data)


def has_history(value: Any) -> bool:
    """Whether it is a tensor with a history; a proxy is not resolved, as what it stands for may be gone."""
    edge = value._resolve_edge() if issubclass(type(value), Tensor) else None
    return edge is not None and not edge[0].is_leaf


def event_of_loss(loss: Tensor, frame: FrameType, watch: Watch, analysis: Analyse) -> NaNEvent | None:
    """The event of a non-finite loss; None if nothing is known about it."""
    event = analysis([loss._resolve_edge()], Names(watch.model, frame)).of_loss(loss._data)
    return None if event.op == "unknown" else event
