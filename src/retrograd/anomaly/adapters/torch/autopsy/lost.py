"""Data that the graph has not kept: it is looked for among the variables of the program."""

from __future__ import annotations

from torch import Tensor

from retrograd.anomaly.adapters.elements.shapes import broadcasts
from retrograd.anomaly.adapters.program.place import variables_read
from retrograd.anomaly.adapters.torch.autopsy.names import Names, key_of
from retrograd.anomaly.adapters.torch.records.calls import Call


def lost_data(names: Names, call: Call) -> Tensor | None:
    """The variable that an operation may have been given where nothing has kept what that was.

    It holds numbers that are not finite, and its shape fits. One that the line of the operation reads comes before all
    others; among these only one counts that is the only one, and no single number.
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
