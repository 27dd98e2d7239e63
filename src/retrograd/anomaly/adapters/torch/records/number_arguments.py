"""Python numbers passed to an operation that nothing keeps: read from the user's line, or from a variable."""

from __future__ import annotations

import math
from types import FrameType
from typing import Any

import torch

from retrograd.anomaly.adapters.program.literals import assigned_to, odd_number, odd_number_put, plain_number
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call
from retrograd.anomaly.operation_names import canonical


def read_numbers(call: Call, frame: FrameType | None) -> None:
    """Fill in numbers that nothing keeps, if the line contains them or reads them from a non-finite variable.

    A number written to a part of a tensor has no parameter in the graph, and often no place.
    """
    if call.name.endswith("CopySlices"):
        number = odd_number_put(call.code, call.at, frame)
        if number is not None:
            call.args = [each for each in call.args if each.made_by is not None]
            call.args.append(Argument("value", torch.tensor(number)))
        return
    op, params = _as_written(call)
    for argument in call.args:
        # a parameter with a default has that, for want of better
        if argument.missing or (argument.made_by is None and isinstance(argument.value, (int, float, type(None)))):
            number = odd_number(call.code, call.at, op, params, argument.name, frame)
            if number is None and argument.missing:
                number = plain_number(call.code, call.at, op, params, argument.name)
            if number is not None:
                argument.value, argument.missing = number, False


def assignment_of_number(call: Call, leaf: Argument | None = None) -> dict[str, Any]:
    """The line that assigned a non-finite number, which a call was passed, to a variable, as a context.

    ``leaf`` is the argument if it is a tensor that torch made from a number.
    """
    floats = [each.name for each in call.args if isinstance(each.value, float) and not math.isfinite(each.value)]
    odd = floats if leaf is None else [leaf.name]
    return assigned_to(call.code, call.at, *_as_written(call), odd) if odd else {}


def _as_written(call: Call) -> tuple[str, tuple[str, ...]]:
    """The canonical name of an operation, and its parameters in the order in which an operator has its operands."""
    op, params = canonical(call.name), tuple(each.name for each in call.args)
    return ("sub", (params[1], params[0], *params[2:])) if op == "rsub" else (op, params)
