"""Backward passes in a thread of their own, in which no Python is under way: as autograd runs them on a GPU.

Functions of the interpreter and of torch call one another there, so that a hook has no frame around it.
"""

from __future__ import annotations

import _thread
import contextlib
import operator
import sys
import threading
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.autograd import Variable
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack


class _Engine:
    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        modes = _get_current_dispatch_mode_stack()
        run = partial(self._engine.run_backward, *args, **kwargs)
        if torch._C._current_graph_task_id() != -1:  # one within another stays in its thread
            return run()
        work = [
            *(partial(torch._C._push_on_torch_dispatch_stack, mode) for mode in modes),
            partial(torch.set_grad_enabled, torch.is_grad_enabled()),
            run,
            *(torch._C._pop_torch_dispatch_stack for _ in modes),
        ]
        made: deque[Any] = deque()
        raised: list[BaseException] = []
        ended = threading.Event()
        before = sys.unraisablehook
        sys.unraisablehook = lambda problem: (raised.append(problem.exc_value), ended.set())[0]  # type: ignore[func-returns-value, arg-type, return-value]
        try:
            _thread.start_new_thread(made.extend, (map(operator.call, [*work, ended.set]),))
            ended.wait()
        finally:
            sys.unraisablehook = before
        if raised:
            raise raised[0]
        return made[len(modes) + 1]


@contextlib.contextmanager
def backward_elsewhere() -> Iterator[None]:
    engine = Variable._execution_engine
    Variable._execution_engine = _Engine(engine)
    try:
        yield
    finally:
        Variable._execution_engine = engine
