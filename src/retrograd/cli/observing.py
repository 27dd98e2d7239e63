"""A program, or a process that it has started, under a watch."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable

from retrograd.anomaly import AnomalyError, Watch
from retrograd.anomaly.adapters.framework_loops import steps_run_again
from retrograd.anomaly.event import GradEvent, NaNEvent, context_of
from retrograd.anomaly.messages import outcome_of
from retrograd.anomaly.report import Report
from retrograd.anomaly.report.summary import birthplace, step_of
from retrograd.anomaly.skipped_batches import SkippedBatches

ON_OTHER_RANK = "retrograd: {}; it happened on rank {}, whose report says more"
HEAD_START = 2.0  # seconds for that report: torchrun ends all processes once one has failed


def observed(
    observer: Watch, report: Report, program: Callable[[], None]
) -> tuple[BaseException | None, AnomalyError | None]:
    """Run a program under a watch whose findings go to a report.

    Returns
    -------
    failure : BaseException or None
        What the program, or the watch within it, has raised.
    left : AnomalyError or None
        The error about a loss because of which the program ended by itself, without an error of its own.
    """
    failure: BaseException | None = None
    observer.rerun_loaders = True
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
    _write_left_out(report, observer.left_out)
    return failure, left


def found_on_other_rank(report: Report, failure: BaseException | None) -> bool:
    """Say so if all findings are those of another process, which reports them, and nothing else failed here."""
    elsewhere = _elsewhere(report)
    if elsewhere is None or not (failure is None or isinstance(failure, AnomalyError)):
        return False
    say(elsewhere)
    time.sleep(0.0 if failure is None else HEAD_START)
    return True


def _elsewhere(report: Report) -> str | None:
    """What to say about findings that other processes report and all agreed on; None if there are any of its own."""
    events = [each for each in report.run.events if isinstance(each, NaNEvent)]
    if not events or not all(context_of(each).get("elsewhere") for each in events):
        return None
    return ON_OTHER_RANK.format(events[0], context_of(events[0])["rank"])


def say(text: str) -> None:
    if sys.stderr is not None:  # with None, print() would use the standard output
        with contextlib.suppress(OSError, ValueError):  # full, or closed by the program
            print(text, file=sys.stderr)


def _end(observer: Watch, failure: BaseException | None) -> AnomalyError | None:
    """Stop the watch; return what it raises about a loss because of which the program ended without an error."""
    try:
        observer.stop()
    except AnomalyError as error:
        return error
    except Exception:
        if failure is None:
            raise
    return None


def _write_if_missing(report: Report, event: NaNEvent | GradEvent) -> None:
    """Write the finding of a watch that the program started itself."""
    if event not in report.run.events:
        is_harmful = isinstance(event, GradEvent) or event.harmed
        report.write(event, outcome=outcome_of("nan" if is_harmful else "overflow", event, "raise"))


def _write_left_out(report: Report, left_out: SkippedBatches) -> None:
    """Write where a loss whose batch the program skipped became bad, unless it is among the other findings."""
    first, told = left_out.first, report.run.events
    if first is None or first.step in map(step_of, told) or birthplace(first) in map(birthplace, told):
        return
    report.write(first, outcome=left_out.outcome)
