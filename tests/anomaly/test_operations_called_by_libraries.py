"""Operations that something between the user and the library has called: the line is the user's all the same."""

from __future__ import annotations

import pytest

from tests.anomaly.both import libraries, line, only_event, run, runs
from tests.anomaly.disguises import HERE

DISPATCH = f"""
import functools
x = torch.tensor([4.0, 0.0], requires_grad=True)
def fails(value):
    raise TypeError(value)
f = functools.singledispatch(fails)
f.register(torch.Tensor, torch.OPERATION)
y = f(x)  {HERE}
y.sum().backward()
"""

AT_THE_END = f"""
import contextlib
x = torch.tensor([-1.0, 4.0], requires_grad=True)
y = x * 1
stack = contextlib.ExitStack()
stack.callback(y.log_)
stack.close()  {HERE}
y.sum().backward()
"""


@libraries
@runs
@pytest.mark.parametrize("operation", ["log", "sqrt"])  # born in forward, in backward
def test_an_operation_called_by_a_dispatching_function_has_the_users_line(
    library: str, steps: bool, operation: str
) -> None:
    text = DISPATCH.replace("OPERATION", operation)
    event = only_event(run(library, text, steps))
    assert (event.index, event.lineno) == ((1,), line(text))


@libraries
@runs
def test_an_operation_at_the_end_of_a_with_block_has_the_users_line(library: str, steps: bool) -> None:
    event = only_event(run(library, AT_THE_END, steps))
    assert (event.op, event.index, event.lineno) == ("log", (0,), line(AT_THE_END))
