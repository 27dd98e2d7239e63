"""Processes that a program starts by ``torch.multiprocessing.spawn``: each is watched by itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

from retrograd.anomaly import watch
from retrograd.anomaly.adapters.import_hook import ImportHook
from retrograd.anomaly.adapters.loops import replaced
from retrograd.anomaly.report import Report
from retrograd.cli.again import Command
from retrograd.cli.observing import found_on_other_rank, observed
from retrograd.cli.program import show_only_own_frames

_MODULE = "torch.multiprocessing.spawn"
_STARTS = "start_processes"


class Children:
    """A context in which the processes that a program spawns are watched as the program is.

    Parameters
    ----------
    policy, again, from_step
        As for the program itself.
    report
        That of the program; those of the processes lie beside it.

    Attributes
    ----------
    started
        Whether there were any.
    """

    def __init__(self, policy: str, report: Report, again: Command, from_step: int | None) -> None:
        self.started = False
        directory = report.files[0].absolute().parent if report.files else None
        self._settings = _Settings(policy, directory, again.in_other_process(), from_step)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
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
        package = sys.modules["torch.multiprocessing"]  # which has it, too, once it is loaded
        for owner in (module, package):
            if hasattr(owner, _STARTS):
                self._stack.enter_context(replaced(owner, _STARTS, self._start))

    def _start(self, original: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if isinstance(fn, Watched) or "fork" in (*args, *kwargs.values()):  # those go on under this watch
            return original(fn, *args, **kwargs)
        self.started = True
        return original(Watched(fn, self._settings), *args, **kwargs)


class _Settings:
    """What a process needs to know of the watch."""

    def __init__(self, policy: str, directory: Path | None, again: Command, from_step: int | None) -> None:
        self.policy, self.directory, self.again, self.from_step = policy, directory, again, from_step


class Watched:
    """A function that is watched in the process that runs it."""

    def __init__(self, function: Callable[..., Any], settings: _Settings) -> None:
        self._function = function
        self._settings = settings

    def __call__(self, index: int, *args: Any) -> None:
        settings = self._settings
        report = Report(settings.directory, rank=index)
        observer = watch(policy=settings.policy, recorder=report, from_step=settings.from_step)
        observer.again = settings.again
        failure, left = observed(observer, report, lambda: self._function(index, *args))
        report.close()
        if not found_on_other_rank(report, failure):
            report.print()
        if failure is not None:
            show_only_own_frames(failure)
        if failure is not None or left is not None:
            raise failure or left  # type: ignore[misc]
