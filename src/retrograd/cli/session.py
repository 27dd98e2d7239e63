"""Running a program under the watch, and what is printed when it ends."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator
from itertools import groupby
from types import FrameType, TracebackType

from retrograd.anomaly import AnomalyError, watch
from retrograd.anomaly.report import Report
from retrograd.anomaly.stack_frames import is_own, package_of
from retrograd.cli.again import Command, set_seeds
from retrograd.cli.observing import found_on_other_rank, observed, say
from retrograd.cli.program import ProgramNotFoundError, show_only_own_frames
from retrograd.cli.spawned import Children

LIBRARIES = ("retrograd", "torch")
NOTHING_WATCHED = (
    "retrograd: this process computed no derivative, so there was nothing to watch. For a model that is only "
    "evaluated, use retrograd.anomaly.NaNDetector(model). Child processes are watched only if multiprocessing or "
    "torchrun starts them: torchrun --no-python retrograd run SCRIPT"
)
NOTHING_RECORDED = "retrograd: the program ended with step {}, but the recording was to begin with step {}"
LEFT_OUT = (
    "retrograd: the program itself skipped {} of {} batches because their loss was not finite; where the first of "
    "these losses was born is not known"
)
MISPLACED = "retrograd: put retrograd's options before the script: {}"
ELSEWHERE = (
    "retrograd: the program was run by {}, whose environment has no {!r}; if it is installed in another environment, "
    "install retrograd there as well"
)
OPTIONS = ("--policy", "--report", "--from-step", "--seed")
NOTHING_FOUND = "retrograd: every operation of steps {} to {} was recorded, and no NaN or infinity did harm"
NOTHING_REACHED = (
    "retrograd: every operation was recorded from step {} on, and no NaN or infinity had reached a loss, a gradient or "
    "a parameter when the program failed"
)


def run_watched(
    program: Callable[[], None], policy: str, report: Report, again: Command, from_step: int | None = None
) -> int:
    """Run a program under the watch, show the findings on the standard error and return the exit code.

    The program's own exit is left alone: SystemExit and KeyboardInterrupt propagate, and an exception of its own shows
    the traceback that it would have without the watch.
    """
    observer = watch(policy=policy, recorder=report, from_step=from_step)
    observer.again = again
    set_seeds(again.seed)
    with Children(policy, report, again, from_step) as children:
        failure, left = observed(observer, report, program)
    if isinstance(failure, ProgramNotFoundError):
        say(f"retrograd: {failure}")
        return 2
    report.close()
    if sys.stdout is not None:
        # the script's output comes before ours; if it cannot be written, Python says so
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
    if found_on_other_rank(report, failure):
        return 0 if failure is None and left is None else 1
    if failure is not None and not isinstance(failure, SystemExit):
        _show(failure)
    if not getattr(sys.stderr, "closed", False):
        with contextlib.suppress(OSError):  # as in say()
            report.print()
    if observer.left_out.total and not report.run.entries:
        say(LEFT_OUT.format(observer.left_out.total, observer.left_out.total + observer.step))
    began = report.run.entries or observer.step or observer.derives or children.started
    instead = again.with_options_in_front(OPTIONS) if not began and _refuses_options(failure) else None
    if instead is not None:
        say(MISPLACED.format(instead))
    elif not began and (package := _package_missing(failure)) is not None:
        say(ELSEWHERE.format(sys.executable, package))
    elif not began and (failure is None or isinstance(failure, SystemExit)):
        say(NOTHING_WATCHED)
    elif not (report.run.entries or children.started) and from_step is not None:
        failed = failure is not None and not isinstance(failure, SystemExit | KeyboardInterrupt)
        if failed and observer.step + 1 >= from_step:  # within a step that has not ended
            say(NOTHING_REACHED.format(from_step))
        else:
            text = NOTHING_FOUND if observer.step >= from_step else NOTHING_RECORDED
            say(text.format(*sorted((from_step, observer.step))))
    if isinstance(failure, KeyboardInterrupt):
        sys.excepthook = _silent  # it has been shown; Python ends the process as after any Ctrl-C
    if isinstance(failure, SystemExit | KeyboardInterrupt):
        raise failure.with_traceback(None)
    return 0 if failure is None and left is None else 1


def _refuses_options(failure: BaseException | None) -> bool:
    """Whether a program ended the way one does when given an unknown option."""
    if isinstance(failure, SystemExit) and failure.code == 2:  # as argparse and similar parsers do
        return True
    return failure is not None and any(name in str(failure) for name in OPTIONS)


def _package_missing(failure: BaseException | None) -> str | None:
    """The package whose failed import ended a program."""
    name = failure.name if isinstance(failure, ModuleNotFoundError) else None
    return None if name is None or "." in name else name  # for a missing submodule, the package itself exists


def _show(failure: BaseException) -> None:
    """Print the traceback that the program would have by itself; for an AnomalyError, the program's own frames."""
    show_only_own_frames(failure)
    if not isinstance(failure, AnomalyError):
        sys.excepthook(type(failure), failure, failure.__traceback__)
        return
    first_line = str(failure).partition("\n")[0]
    lines = ["Traceback (most recent call last):\n", *_frames(failure.__traceback__)]
    say("".join(lines) + f"{type(failure).__qualname__}: {first_line}")


def _frames(trace: TracebackType | None) -> Iterator[str]:
    """The frames outside the libraries; if any is the program's own, frames of installed packages become one line."""
    frames = [
        (frame, lineno)
        for frame, lineno in traceback.walk_tb(trace)
        if frame.f_globals.get("__name__", "").split(".")[0] not in LIBRARIES
    ]
    has_own = any(is_own(frame.f_code) for frame, _ in frames)
    for package, group in groupby(frames, lambda each: _left_out(each[0]) if has_own else None):
        yield from [f"  ... in {package}\n"] if package else traceback.StackSummary.extract(group).format()


def _left_out(frame: FrameType) -> str | None:
    """The package that a frame belongs to, if it is not the program's own."""
    return None if is_own(frame.f_code) else package_of(frame.f_code.co_filename) or "Python"


def _silent(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print nothing."""
