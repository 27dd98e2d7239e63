"""Where a number was made that a distribution refused as a parameter."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from retrograd.anomaly.adapters.program.failed_calls import Violation, kind_of
from retrograd.anomaly.adapters.program.source_location import place_fields
from retrograd.anomaly.adapters.torch.postmortem.analysis import Analysis
from retrograd.anomaly.adapters.torch.postmortem.origin import Origin
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, dense, node_of
from retrograd.anomaly.event import NaNEvent, with_context
from retrograd.anomaly.operation_names import TRANSPARENT, canonical


def refused_parameter(violation: Violation, analysis: Analysis) -> NaNEvent | None:
    """The event of a refused parameter, at the operation that made it; None if that is unknown."""
    value = violation.value
    if not isinstance(value, Tensor):
        return None
    if value.is_leaf and value.requires_grad:
        return _of_leaf(violation, Argument("input", value.detach(), leaf=value), analysis)
    made = analysis.made(value) if node_of(value) is not None else None
    if made is None:
        return None
    call, output = made
    leaf = None
    while canonical(call.name) in TRANSPARENT and call.args:
        argument = call.args[0]
        if argument.made_by is None:
            leaf = argument
            break
        call, output = argument.made_by, argument.output
    if leaf is not None:
        return _of_leaf(violation, leaf, analysis)
    result = call.outputs[output]
    if "value" in violation.told and (result is None or not bool(_at(result, violation).any())):
        return None
    where = _at(result, violation) if "value" in violation.told else None
    event = analysis.described(Origin(call, output, where))
    if where is None:
        event = replace(event, index=None, operands={})
    kind = kind_of(violation.told, event.op, event.operands.values())
    return with_context(replace(event, kind=kind), refused=violation.told)


def _at(result: Tensor, violation: Violation) -> Tensor:
    """Where a result equals the number that was refused."""
    values = dense(result)
    return values == torch.as_tensor(violation.told["value"], dtype=values.dtype)


def _of_leaf(violation: Violation, leaf: Argument, analysis: Analysis) -> NaNEvent:
    """The event of a leaf of the program that was passed to the distribution unchanged."""
    call = Call("leaf", [leaf], [None], 0, code=violation.code, at=violation.at)
    event = analysis.described(Origin(call, leaf=leaf))
    place = place_fields(violation.code, violation.at)
    operands = dict.fromkeys(event.operands, violation.told.get("value"))
    event = replace(event, kind="error", index=violation.element, operands=operands, **place)
    return with_context(event, refused=violation.told)
