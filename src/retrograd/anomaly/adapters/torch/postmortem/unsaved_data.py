"""Finding data that the graph has not kept among the variables of the program."""

from __future__ import annotations

from dataclasses import replace
from types import FrameType

import torch
from torch import Tensor

from retrograd.anomaly.adapters.elements.shapes import broadcasts
from retrograd.anomaly.adapters.program.source_location import variables_read
from retrograd.anomaly.adapters.program.variables import named_variables, under_way, variables_around
from retrograd.anomaly.adapters.torch.postmortem.origin import Origin
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, has_nan, is_bad
from retrograd.anomaly.adapters.torch.tensor_names import Names, key_of

_TO = str(torch.ops.aten._to_copy.default)


def unsaved_data(names: Names, call: Call) -> Tensor | None:
    """The variable that may have been the argument of an operation, if nothing has kept that argument.

    It holds non-finite numbers, and its shape fits. A variable that the operation's line reads comes before all
    others; another one counts only if it is the only candidate and not a single number.
    """
    output = call.outputs[0]
    shape = call.shape if output is None else tuple(output.shape)
    suspects = [
        (name, value)
        for name, value in names.data()
        if shape is None or not call.pointwise or broadcasts(value.shape, shape)
    ]
    read = variables_read(call.code, call.at)
    named = [value for name, value in suspects if name in read]
    if named:
        return named[0]
    others = {key_of(value): value for _, value in suspects if value.dim()}
    tells = output is not None or (call.pointwise and shape is not None)
    return next(iter(others.values())) if len(others) == 1 and tells else None


def converted(names: Names, origin: Origin) -> Origin:
    """An origin moved to the conversion that made infinities of unnamed data which a variable still holds unconverted.

    Autocast converts the inputs of a layer, and the graph does not keep that for data without a gradient.
    """
    data = None if origin.leaf is None else origin.leaf.itself
    if data is None or data.requires_grad or not data.is_floating_point() or has_nan(data) or names.tensor(data):
        return origin
    for _, value in variables_around(names.frame):
        if not isinstance(value, Tensor) or value.shape != data.shape or not value.is_floating_point():
            continue
        if value.dtype != data.dtype and not is_bad(value) and torch.equal(value.to(data.dtype), data):
            met = origin.call
            given = Argument("input", value.detach(), original=value)
            call = Call(_TO, [given], [data], met.order, pointwise=True, code=met.code, at=met.at)
            call.modules, call.callers, call.thread = met.modules, met.callers, met.thread
            return replace(origin, call=call, output=0, leaf=None, path=(call, *origin.path))
    return origin


def given(frame: FrameType | None, call: Call, data: Tensor) -> tuple[FrameType, Call, Tensor] | None:
    """The variable in the program's own line from which a package made non-finite data, as it is, itself non-finite.

    Parameters
    ----------
    frame
        Where the program is; that line is running in it or in one of its callers.
    call
        The operation that met the data, in the package.
    data
        What it met.

    Returns
    -------
    tuple or None
        The frame of the line, the operation attributed to that line, and what the variable holds.
    """
    for number, (code, at) in enumerate(call.callers):
        around = under_way(frame, code)
        if around is not None:
            read = variables_read(code, at)
            held = {
                key_of(value): value
                for name, value in named_variables(around)
                if name in read and isinstance(value, Tensor) and not value.requires_grad and is_bad(value)
            }
            if len(held) != 1 or has_nan(data) > has_nan(value := next(iter(held.values()))):
                return None
            return around, replace(call, code=code, at=at, callers=call.callers[number + 1 :]), value
    return None
