"""Backward passes in a thread of their own, in which no Python is under way: as autograd runs them on a GPU.

Functions of the interpreter and of torch call one another there, so that a hook has no frame around it.
"""

from __future__ import annotations

import _thread
import contextlib
import operator
import sys
import types
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.autograd import Variable
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack


def _run_elsewhere(self: _Engine, *args: Any, **kwargs: Any) -> Any:
    run = partial(self.engine.run_backward, *args, **kwargs)
    if torch._C._current_graph_task_id() != -1:  # one within another stays in its thread
        return run()
    modes = _get_current_dispatch_mode_stack()
    leaf = torch.ones((), requires_grad=True)
    work = [
        # nodes have sequence numbers by thread: here there are some already, which ends with the same numbers as there
        *[partial(torch.mul, leaf, 1.0)] * max(torch.autograd._get_sequence_nr() - 4, 0),
        *(partial(torch._C._push_on_torch_dispatch_stack, mode) for mode in modes),
        partial(torch.set_grad_enabled, torch.is_grad_enabled()),
        run,
        *(partial(torch._C._pop_torch_dispatch_stack, None) for _ in modes),
    ]
    made: deque[Any] = deque()
    raised: list[Any] = []
    under_way = _thread.allocate_lock()
    under_way.acquire()

    def failed(problem: Any) -> None:
        raised.append(problem.exc_value)
        under_way.release()

    before, sys.unraisablehook = sys.unraisablehook, failed
    try:
        _thread.start_new_thread(made.extend, (map(operator.call, [*work, under_way.release]),))
        under_way.acquire()
    finally:
        sys.unraisablehook = before
    if raised:
        raise raised[0]
    return made[work.index(run)]


class _Engine:
    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    # the thread that waits does so in torch
    run_backward = types.FunctionType(
        _run_elsewhere.__code__.replace(co_filename=torch.autograd.graph.__file__), globals()
    )


@contextlib.contextmanager
def backward_elsewhere() -> Iterator[None]:
    engine = Variable._execution_engine
    Variable._execution_engine = _Engine(engine)
    try:
        yield
    finally:
        Variable._execution_engine = engine
