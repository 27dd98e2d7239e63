"""Reports of anomalies: text for a terminal, lines of JSON that survive a killed process, a page for a browser."""

from retrograd.anomaly.report.directory import Report
from retrograd.anomaly.report.jsonl import Entry, Recorder, ReportError, Run, read_latest, read_runs
from retrograd.anomaly.report.terminal import (
    format_event,
    format_events,
    format_run,
    print_event,
    print_events,
    print_run,
)

__all__ = [
    "Entry",
    "Recorder",
    "Report",
    "ReportError",
    "Run",
    "format_event",
    "format_events",
    "format_run",
    "print_event",
    "print_events",
    "print_run",
    "read_latest",
    "read_runs",
]
