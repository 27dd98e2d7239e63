"""Births in the program's own NumPy code, which computes data from plain arrays, outside of every operation on tensors.

NumPy raises the same flags there. A birth is of interest only if such data do harm later, so at the flag no more is
done than to note the variables that the expression reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from retrograd.anomaly.adapters.program.array_expressions import arrays_read, operation
from retrograd.anomaly.adapters.program.source_location import written_at
from retrograd.anomaly.adapters.retrograd.births import Birth, as_array
from retrograd.anomaly.stack_frames import OURS, callers_of, frames_between, is_own_file, user_frame, user_frames
from retrograd.core import registry
from retrograd.core.op import Op


@dataclass(eq=False)
class ArrayBirth(Birth):
    """A birth in an expression of plain arrays; ``variables`` are those that it reads, until it has been computed."""

    is_of_arrays = True

    def restore_operands(self) -> None:
        """Find out from the source which operation it was, its operands and its result."""
        written = written_at(self.code, self.at)
        computed = None if written is None or not self.variables else operation(written, self.variables)
        self.variables = {}
        if computed is None:
            return
        op = _operation_of(computed.function)
        if op is not None and len(op.params) >= len(computed.operands):
            self.op, self.name = op, op.label
            self.operands = tuple(as_array(each) for each in computed.operands)
        else:
            self.name = getattr(computed.function, "__name__", self.name)
        self.result = np.asarray(computed.result)


def array_birth_at(kind: str, frame: FrameType) -> ArrayBirth | None:
    """The birth in the program's own code that has called a function of NumPy; None if other code has."""
    user = user_frame(frame)
    if user is None or not is_own_file(user.f_code.co_filename):
        return None
    if any(each.f_code.co_filename.startswith(OURS) for each in frames_between(frame)):
        return None
    variables = arrays_read(user)
    if not variables:
        return None
    birth = ArrayBirth([kind], "", code=user.f_code, at=user.f_lasti, variables=variables, seq=0)
    birth.callers = callers_of(user)
    birth.places = tuple((each.f_code, each.f_lasti) for each in user_frames(user))
    return birth


def _operation_of(function: Any) -> Op | None:
    """Our operation for one of NumPy's elementwise functions."""
    found = registry.numpy_functions.get(function) if isinstance(function, np.ufunc) else None
    op = getattr(found, "op", None)
    return op if isinstance(op, Op) else None
