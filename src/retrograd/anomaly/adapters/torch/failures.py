"""Errors that an operation raised about the numbers it was given, as events."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import torch

from retrograd.anomaly.adapters.place import place_fields
from retrograd.anomaly.adapters.torch.calls import is_bad
from retrograd.anomaly.adapters.torch.findings import Findings
from retrograd.anomaly.adapters.torch.frames import MODULE_CALL, is_internal
from retrograd.anomaly.adapters.torch.names import Names
from retrograd.anomaly.adapters.variables import variables_left_by
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.monitor import Watch
from retrograd.anomaly.names import canonical
from retrograd.anomaly.surroundings import Operation, Surroundings

_SAID = re.compile(r"(?:torch\.)?(?P<op>[\w.]+): (?:\(Batch element (?P<element>\d+)\))?")


def refused_loss(error: BaseException, watch: Watch, findings_at: Callable[[FrameType], Findings]) -> NaNEvent | None:
    """The event of a loss that is not finite, where the program itself has raised an error, as it does on seeing that.

    None if there is no such loss among the variables that the error has left behind, or if nothing is known of it.
    """
    for frame, value in variables_left_by(error, is_internal):
        if isinstance(value, torch.Tensor) and value.grad_fn is not None and value.numel() == 1 and is_bad(value):
            if value.is_floating_point():
                watch.loss_history.append(value.item())
            event = findings_at(frame).in_forward([value])
            return None if event.op == "unknown" else replace(event, step=watch.step + 1)
    return None


def failure(error: BaseException, model: Any, context: dict[str, Any]) -> NaNEvent | None:
    """The event of a ``torch.linalg.LinAlgError``; None for any other error.

    Parameters
    ----------
    error
        As it was caught, with its traceback.
    model
        For the names of modules; None if there is none.
    context
        What is known of the training beyond operations.
    """
    said = _SAID.match(str(error))
    if not isinstance(error, torch.linalg.LinAlgError) or said is None:
        return None
    op = canonical(said["op"])
    user: tuple[FrameType, int] | None = None
    modules: list[Any] = []
    trace = error.__traceback__
    frame = None
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code is MODULE_CALL:
            modules.insert(0, frame.f_locals["self"])
        elif not is_internal(frame.f_code):
            user = frame, trace.tb_lasti
        trace = trace.tb_next
    place = {} if user is None else place_fields(user[0].f_code, user[1])
    operation = Operation(op=op, code_line=place.get("code_line"), lineno=place.get("lineno"))
    return NaNEvent(
        kind="error",
        op=op,
        is_backward=frame is not None and frame.f_globals.get("__name__") == "torch.autograd.graph",
        index=None if said["element"] is None else (int(said["element"]),),
        note=f"{type(error).__name__.lstrip('_')}: {error}",
        surroundings=Surroundings(operation=operation, library="torch", context={**context, "error": str(error)}),
        **Names(model or (modules[-1] if modules else None), frame).layer(modules),
        **place,
    )
