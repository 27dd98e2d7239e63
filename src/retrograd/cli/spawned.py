"""Processes that a program starts by ``multiprocessing`` or ``torch.multiprocessing``: each gets its own watch."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any, Self

from retrograd.anomaly import watch
from retrograd.anomaly.adapters.import_hook import ImportHook
from retrograd.anomaly.adapters.patches import replaced
from retrograd.anomaly.monitor import current
from retrograd.anomaly.report import Report
from retrograd.anomaly.stack_frames import is_own
from retrograd.cli.again import Command
from retrograd.cli.observing import found_on_other_rank, observed
from retrograd.cli.program import show_only_own_frames

_MODULE = "torch.multiprocessing.spawn"
_STARTS = "start_processes"


class Children:
    """A context in which the processes that a program starts are watched like the program itself.

    These are the processes of ``torch.multiprocessing.spawn`` and every ``Process`` that runs the program's own code,
    but not the workers of loaders and pools.

    Parameters
    ----------
    policy, again, from_step
        As for the program itself.
    report
        The report of the program; those of the processes are written beside it.

    Attributes
    ----------
    started
        Whether there were any.
    """

    def __init__(self, policy: str, report: Report, again: Command, from_step: int | None) -> None:
        self.started = False
        self._report = report
        directory = report.files[0].absolute().parent if report.files else None
        self._settings = _Settings(policy, directory, again.in_other_process(), from_step)
        self._numbers = itertools.count()  # numbers of processes, in the order in which they are started
        self._process = os.getpid()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(replaced(BaseProcess, "start", self._start))
        hook = ImportHook(_MODULE, self._attach)
        self._stack.callback(hook.remove)
        if _MODULE in sys.modules:
            self._attach(sys.modules[_MODULE])
        else:
            hook.put()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _attach(self, module: ModuleType) -> None:
        package = sys.modules["torch.multiprocessing"]  # it has its own reference, once it is loaded
        for owner in (module, package):
            if hasattr(owner, _STARTS):
                self._stack.enter_context(replaced(owner, _STARTS, self._spawn))

    def _spawn(self, original: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if isinstance(fn, Watched) or not self._looks_after():
            return original(fn, *args, **kwargs)
        self.started = True
        return original(Watched(fn, self._settings), *args, **kwargs)

    def _start(self, original: Any, process: Any) -> None:
        code = _code_of(process)
        if code is None or not is_own(code) or not self._looks_after():
            original(process)
            return
        self.started = True
        process.run = Watched(process.run, self._settings, next(self._numbers))
        try:
            original(process)
        finally:
            del process.run

    def _looks_after(self) -> bool:
        """Whether a process started now is ours to watch: not if a forked process starts it, nor if a watch of the
        program's own may continue in it.
        """
        present = current()
        return os.getpid() == self._process and (present is None or present.recorder is self._report)


def _code_of(process: BaseProcess) -> CodeType | None:
    """The code that a process is to run: its target, or its class's own ``run`` instead."""
    run = type(process).run
    function = process._target if run is BaseProcess.run else run  # type: ignore[attr-defined]
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(getattr(function, "__func__", function))
    called = function if hasattr(function, "__code__") else vars(type(function)).get("__call__")
    return getattr(called, "__code__", None)


class _Settings:
    """What a process needs to know of the watch."""

    def __init__(self, policy: str, directory: Path | None, again: Command, from_step: int | None) -> None:
        self.policy, self.directory, self.again, self.from_step = policy, directory, again, from_step


class Watched:
    """A function that is watched in the process that runs it.

    Parameters
    ----------
    function, settings
        What is run, and how it is watched.
    number
        Of the process; None if that is the first argument of the function.
    """

    def __init__(self, function: Callable[..., Any], settings: _Settings, number: int | None = None) -> None:
        self._function = function
        self._settings = settings
        self._number = number

    def __call__(self, *args: Any) -> None:
        settings = self._settings
        _end_inherited()
        report = Report(settings.directory, rank=args[0] if self._number is None else self._number)
        observer = watch(policy=settings.policy, recorder=report, from_step=settings.from_step)
        observer.again = settings.again
        failure, left = observed(observer, report, lambda: self._function(*args))
        report.close()
        if not found_on_other_rank(report, failure):
            report.print()
        if failure is not None:
            show_only_own_frames(failure)
        if failure is not None or left is not None:
            raise failure or left  # type: ignore[misc]


def _end_inherited() -> None:
    """End the copy of the watch that a forked process inherited: its findings are for the parent to report."""
    inherited = current()
    if inherited is not None:
        inherited.recorder = None
        inherited.policies = dict.fromkeys(inherited.policies, "ignore")
        inherited.stop()
