"""Errors about numbers that are not finite, as events."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

import torch

from retrograd.anomaly.adapters.program.failed_calls import FailedCall
from retrograd.anomaly.adapters.program.source_location import line_fields, place_fields, variables_read
from retrograd.anomaly.adapters.program.variables import members_of, named_variables, variables_left_by
from retrograd.anomaly.adapters.torch.boundaries.distribution_parameters import refused_parameter
from retrograd.anomaly.adapters.torch.postmortem.analysis import Analysis
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, has_nan, is_bad, node_of
from retrograd.anomaly.adapters.torch.runtime.frames import MODULE_CALL
from retrograd.anomaly.adapters.torch.tensor_names import Names
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.monitor import Watch
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.stack_frames import callers_of, is_between, package_of, trace_of, with_causes
from retrograd.anomaly.surroundings import Operation, Surroundings

_FACTORISES = re.compile(r"not (?:be )?positive[- ]definite|not p\.?[ds]\.?d?\b", re.IGNORECASE)
_SAID = re.compile(r"(?:torch\.)?(?P<op>[\w.]+): (?:\(Batch element (?P<element>\d+)\))?")


def explanation(
    error: BaseException,
    watch: Watch,
    model: Any,
    context: dict[str, Any],
    analysis_at: Callable[[FrameType], Analysis],
) -> NaNEvent | None:
    """The event of an error about numbers that are not finite; None for any other.

    Parameters
    ----------
    error
        The error as caught, with its traceback.
    watch
        The watch that has caught it.
    model
        For the names of modules; None if there is none.
    context
        What is known about the training besides its operations.
    analysis_at
        Makes the analysis for the variables that a frame sees.
    """
    for each in with_causes(error):
        if _is_about_matrix(each):
            event = _refused_matrix(each, analysis_at) or _failure(each, model, context)
        else:
            event = _refused_loss(each, watch, analysis_at) or _refused_argument(each, error, analysis_at)
            event = event or _failure(each, model, context)
        if event is not None:
            return event
    return watch.left_out.met if _is_of_package(error) else None


def _is_about_matrix(error: BaseException) -> bool:
    """Whether linear algebra has refused a matrix because of its values."""
    of_lu = str(error).startswith("torch.linalg.lu_factor: ")  # a RuntimeError without a class of its own
    return of_lu or isinstance(error, torch.linalg.LinAlgError)


def _is_of_package(error: BaseException) -> bool:
    """Whether an installed package itself raised an error."""
    user, frame, _ = _places_of(error)
    return user is not None and user[0] is frame and package_of(frame.f_code.co_filename) is not None


def _refused_loss(error: BaseException, watch: Watch, analysis_at: Callable[[FrameType], Analysis]) -> NaNEvent | None:
    """The event of a non-finite loss if the program itself raised an error, as programs do when they check it.

    None if there is no such loss among the variables of the traceback, or if nothing is known about it.
    """
    for frame, value in variables_left_by(error, is_between):
        if _is_bad_loss(value):
            if value.is_floating_point():
                watch.loss_history[-1] = value.item()
            return born_before(value, analysis_at(frame))
    return None


def _is_bad_loss(value: Any) -> bool:
    """Whether something is a loss that is not finite."""
    return has_history(value) and value.numel() == 1 and is_bad(value)


def has_history(value: Any) -> bool:
    """Whether it is a tensor with a history; a proxy is not resolved, as what it stands for may be gone."""
    return issubclass(type(value), torch.Tensor) and node_of(value) is not None


def _refused_argument(
    error: BaseException, caught: BaseException, analysis_at: Callable[[FrameType], Analysis]
) -> NaNEvent | None:
    """The event of a NaN in an argument of a torch function that raised an error; None if there is none."""
    refused = FailedCall(error, is_between, lambda value: isinstance(value, torch.Tensor) and has_nan(value), caught)
    nan, frame = refused.nan(), refused.frame
    violation = refused.violation() if nan is None else None
    if violation is not None and isinstance(violation.value, torch.Tensor) and has_nan(violation.value):
        nan, violation = violation.value, None  # which the distribution itself has made of what it was given
    if frame is None or (nan is None and violation is None):
        return None
    analysis = analysis_at(frame)
    event = refused_parameter(violation, analysis) if violation is not None else born_before(nan, analysis)
    held = refused.first_held() if event is None else None
    if event is None and held is None and nan is not None:  # a package may have made it of an infinity
        held = FailedCall(error, is_between, lambda value: _is_bad_alike(value, nan), caught).first_held()
    if held is not None:
        call = Call("leaf", [Argument(held.name, held.value.detach(), original=held.value)], [None], 0)
        call.code, call.at = held.frame.f_code, held.at
        call.callers = callers_of(held.frame)
        event = analysis_at(held.frame).of_argument(call)
    return None if event is None else replace(event, harmed=f"an argument of the call that raised {_kind_of(error)}")


def _is_bad_alike(value: Any, nan: torch.Tensor) -> bool:
    """Whether it is a tensor with infinities from which one with NaN may have been made, element by element."""
    return isinstance(value, torch.Tensor) and value.shape == nan.shape and is_bad(value)


def _refused_matrix(error: BaseException, analysis_at: Callable[[FrameType], Analysis]) -> NaNEvent | None:
    """The event of a number that is not finite in a matrix which linear algebra has refused; None if it is finite."""
    user, _, _ = _places_of(error)
    if user is None:
        return None
    frame, at = user
    read = variables_read(frame.f_code, at)
    for name, value in _tensors(frame) if read else ():
        if name in read and is_bad(value):
            analysis = analysis_at(frame)
            call = Call(_operation_of(error), [Argument(name, value.detach())], [None], 0, code=frame.f_code, at=at)
            event = born_before(value, analysis) or analysis.of_argument(call)
            return replace(event, harmed=f"an argument of the call that raised {_kind_of(error)}")
    return None


def _tensors(frame: FrameType) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors among the variables of a frame, those of modules included, with their names."""
    for name, value in named_variables(frame):
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, torch.nn.Module):
            yield from ((f"{name}.{path}", member) for path, member in members_of(value))


def born_before(value: torch.Tensor, analysis: Analysis) -> NaNEvent | None:
    """The event of the operation that made a tensor non-finite; None if unknown."""
    event = analysis.in_forward([value], unfinished=True)
    return None if event.op == "unknown" else event


def _operation_of(error: BaseException) -> str:
    """The operation that raised an error, according to the message."""
    said = _SAID.match(str(error))
    return "linalg" if said is None else said["op"]


def _kind_of(error: BaseException) -> str:
    return type(error).__name__.lstrip("_")  # torch's class is _LinAlgError


def _places_of(error: BaseException) -> tuple[tuple[FrameType, int] | None, FrameType | None, list[Any]]:
    """The user's innermost frame with its instruction, the innermost frame of all, and the modules being called."""
    user: tuple[FrameType, int] | None = None
    modules: list[Any] = []
    frame = None
    for each in trace_of(error):
        frame = each.tb_frame
        if frame.f_code is MODULE_CALL:
            modules.insert(0, frame.f_locals["self"])
        elif not is_between(frame.f_code):
            user = frame, each.tb_lasti
    return user, frame, modules


def _failure(error: BaseException, model: Any, context: dict[str, Any]) -> NaNEvent | None:
    """The event of a matrix that linear algebra, or a package that factorises, refused because of its values."""
    user, frame, modules = _places_of(error)
    place = {} if user is None else place_fields(user[0].f_code, user[1], callers_of(user[0])[:1])
    said = _SAID.match(str(error)) if _is_about_matrix(error) else None
    if said is None and not (_is_of_package(error) and _FACTORISES.search(str(error))):
        return None
    op = "cholesky" if said is None else canonical(said["op"])
    operation = Operation(op=op, **line_fields(place))
    return NaNEvent(
        kind="error",
        op=op,
        is_backward=frame is not None and frame.f_globals.get("__name__") == "torch.autograd.graph",
        index=None if said is None or said["element"] is None else (int(said["element"]),),
        note=f"{_kind_of(error)}: {error}",
        surroundings=Surroundings(operation=operation, library="torch", context={**context, "error": str(error)}),
        **Names(model or (modules[-1] if modules else None), frame).layer(modules),
        **place,
    )
