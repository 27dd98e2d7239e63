"""A program under the watch, and what is said when it ends."""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import groupby
from types import FrameType, TracebackType

from retrograd.anomaly import AnomalyError, Watch, watch
from retrograd.anomaly.adapters.frameworks import steps_run_again
from retrograd.anomaly.event import GradEvent, NaNEvent, context_of
from retrograd.anomaly.left_out import LeftOut
from retrograd.anomaly.libraries import is_own, package_of
from retrograd.anomaly.messages import outcome_of
from retrograd.anomaly.report import Report
from retrograd.anomaly.report.summary import birthplace, step_of
from retrograd.cli.again import Command, set_seeds
from retrograd.cli.program import ProgramNotFoundError, show_only_own_frames

LIBRARIES = ("retrograd", "torch")
NOTHING_WATCHED = (
    "retrograd: no derivative was asked for in this process, so there was nothing to watch; for a model that is only "
    "evaluated there is retrograd.anomaly.NaNDetector(model), and processes that the program starts by itself are "
    "watched if torchrun starts them: torchrun --no-python retrograd run SCRIPT"
)
NOTHING_RECORDED = "retrograd: the program ended with step {}, before step {}, from which on it was to be recorded"
ON_OTHER_RANK = "retrograd: {}; it happened on rank {}, whose report says more"
LEFT_OUT = (
    "retrograd: the program left out {} of {} batches by itself, because their loss was not finite; where that was "
    "born is not known"
)
HEAD_START = 2.0  # seconds for that report: torchrun ends all processes once one has failed
MISPLACED = "retrograd: options that are meant for retrograd go before the script: {}"
ELSEWHERE = (
    "retrograd: the program was run by {}, whose environment has no {!r}; if that is installed in another one, install "
    "retrograd there, too"
)
OPTIONS = ("--policy", "--report", "--from-step", "--seed")
NOTHING_FOUND = "retrograd: every operation of steps {} to {} was recorded, and no NaN or infinity has done harm"
NOTHING_REACHED = (
    "retrograd: every operation was recorded from step {} on, and no NaN or infinity had reached a loss, a gradient or "
    "a parameter when the program failed"
)


def run_watched(
    program: Callable[[], None], policy: str, report: Report, again: Command, from_step: int | None = None
) -> int:
    """Run a program under the watch, show the findings on the standard error and return the exit code.

    Its own exit is its own affair: SystemExit and KeyboardInterrupt leave through here, and an exception of its own
    shows the traceback that it has without the watch.
    """
    failure: BaseException | None = None
    observer = watch(policy=policy, recorder=report, from_step=from_step)
    observer.again = again
    observer.rerun_loaders = True
    set_seeds(again.seed)
    observer.start()
    try:
        with steps_run_again(observer):
            program()
    except BaseException as error:
        failure = error
        if isinstance(error, AnomalyError):
            _write_if_missing(report, error.event)
        observer.explain(error)
    left = _end(observer, failure)
    if isinstance(failure, ProgramNotFoundError):
        _say(f"retrograd: {failure}")
        return 2
    _write_left_out(report, observer.left_out)
    report.close()
    if sys.stdout is not None:
        # what the script has printed comes before what is said about it; where that cannot be written, Python says so
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
    elsewhere = _found_on_other_rank(report)
    if elsewhere is not None and (failure is None or isinstance(failure, AnomalyError)):
        _say(elsewhere)
        time.sleep(0.0 if failure is None else HEAD_START)
        return 0 if failure is None and left is None else 1
    if failure is not None and not isinstance(failure, SystemExit):
        _show(failure)
    if not getattr(sys.stderr, "closed", False):
        with contextlib.suppress(OSError):  # as of _say()
            report.print()
    if observer.left_out.total and not report.run.entries:
        _say(LEFT_OUT.format(observer.left_out.total, observer.left_out.total + observer.step))
    began = report.run.entries or observer.step or observer.derives
    instead = again.with_options_in_front(OPTIONS) if not began and _refuses_options(failure) else None
    if instead is not None:
        _say(MISPLACED.format(instead))
    elif not began and (package := _package_missing(failure)) is not None:
        _say(ELSEWHERE.format(sys.executable, package))
    elif not began and (failure is None or isinstance(failure, SystemExit)):
        _say(NOTHING_WATCHED)
    elif not report.run.entries and from_step is not None:
        failed = failure is not None and not isinstance(failure, SystemExit | KeyboardInterrupt)
        if failed and observer.step + 1 >= from_step:  # within a step that has not ended
            _say(NOTHING_REACHED.format(from_step))
        else:
            text = NOTHING_FOUND if observer.step >= from_step else NOTHING_RECORDED
            _say(text.format(*sorted((from_step, observer.step))))
    if isinstance(failure, KeyboardInterrupt):
        sys.excepthook = _silent  # it has been shown; Python ends the process as after any Ctrl-C
    if isinstance(failure, SystemExit | KeyboardInterrupt):
        raise failure.with_traceback(None)
    return 0 if failure is None and left is None else 1


def _end(observer: Watch, failure: BaseException | None) -> AnomalyError | None:
    """Stop the watch; what it raises of a loss for which the program has ended by itself, without an error."""
    try:
        observer.stop()
    except AnomalyError as error:
        return error
    except Exception:
        if failure is None:
            raise
    return None


def _found_on_other_rank(report: Report) -> str | None:
    """What is said of findings that other processes report, which all have agreed on; None for any of its own."""
    events = [each for each in report.run.events if isinstance(each, NaNEvent)]
    ranks = [context_of(each).get("rank") for each in events]
    here = None if report.run.start is None else report.run.start.rank
    own = [rank for rank in ranks if rank is None or str(rank) == here]
    return ON_OTHER_RANK.format(events[0], ranks[0]) if events and not own else None


def _say(text: str) -> None:
    if sys.stderr is not None:  # print() would take the standard output in its place
        with contextlib.suppress(OSError, ValueError):  # full, or closed by the program
            print(text, file=sys.stderr)


def _refuses_options(failure: BaseException | None) -> bool:
    """Whether a program has ended as one does that was given an option which it does not know."""
    if isinstance(failure, SystemExit) and failure.code == 2:  # as argparse and its like say it
        return True
    return failure is not None and any(name in str(failure) for name in OPTIONS)


def _package_missing(failure: BaseException | None) -> str | None:
    """The package that a program has asked for in vain, and ended for it."""
    name = failure.name if isinstance(failure, ModuleNotFoundError) else None
    return None if name is None or "." in name else name  # of a module in a package, the package is there


def _write_if_missing(report: Report, event: NaNEvent | GradEvent) -> None:
    """Write what a watch found that the program has of its own."""
    if event not in report.run.events:
        is_harmful = isinstance(event, GradEvent) or event.harmed
        report.write(event, outcome=outcome_of("nan" if is_harmful else "overflow", event, "raise"))


def _write_left_out(report: Report, left_out: LeftOut) -> None:
    """Write where a loss came to be bad for which the program has left out its batch, unless it is among the rest."""
    first, told = left_out.first, report.run.events
    if first is None or first.step in map(step_of, told) or birthplace(first) in map(birthplace, told):
        return
    report.write(first, outcome=left_out.outcome)


def _show(failure: BaseException) -> None:
    """Print the traceback that the program has by itself; of an AnomalyError, the program's own frames."""
    show_only_own_frames(failure)
    if not isinstance(failure, AnomalyError):
        sys.excepthook(type(failure), failure, failure.__traceback__)
        return
    first_line = str(failure).partition("\n")[0]
    lines = ["Traceback (most recent call last):\n", *_frames(failure.__traceback__)]
    _say("".join(lines) + f"{type(failure).__qualname__}: {first_line}")


def _frames(trace: TracebackType | None) -> Iterator[str]:
    """The frames outside the libraries; of installed packages, which are deep, a line where the program has its own."""
    frames = [
        (frame, lineno)
        for frame, lineno in traceback.walk_tb(trace)
        if frame.f_globals.get("__name__", "").split(".")[0] not in LIBRARIES
    ]
    has_own = any(is_own(frame.f_code) for frame, _ in frames)
    for package, group in groupby(frames, lambda each: _left_out(each[0]) if has_own else None):
        yield from [f"  ... in {package}\n"] if package else traceback.StackSummary.extract(group).format()


def _left_out(frame: FrameType) -> str | None:
    """The package that a frame belongs to, if it is none of the program's own."""
    return None if is_own(frame.f_code) else package_of(frame.f_code.co_filename) or "Python"


def _silent(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print nothing."""
