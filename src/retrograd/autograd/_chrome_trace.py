"""A profile as a trace in Chrome's JSON format, which Perfetto opens too.

The format is described in the Chromium project's "Trace Event Format" document: complete events (``"ph": "X"``), flows
(``"s"`` and ``"f"``) and metadata (``"M"``).
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrograd.autograd._function_event import FunctionEvent

_BACKWARD_SCOPE = 1


def this_thread() -> int:
    """The system's number for the current thread, or Python's where the system has none."""
    return getattr(threading, "get_native_id", threading.get_ident)()


def write_chrome_trace(events: Iterable[FunctionEvent], path: str | PathLike[str]) -> None:
    """Write events as they are; one entry a line, so that large traces need no memory."""
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": [\n')
        separator = ""
        for entry in _entries(list(events)):
            file.write(separator + json.dumps(entry))
            separator = ",\n"
        file.write("\n]}\n")


def _entries(events: list[FunctionEvent]) -> Iterator[dict[str, Any]]:
    pid = os.getpid()
    yield _metadata("process_name", pid, 0, "retrograd")
    names = {getattr(thread, "native_id", thread.ident): thread.name for thread in threading.enumerate()}
    for number in sorted({event.thread for event in events}):
        yield _metadata("thread_name", pid, number, f"thread {number} ({names.get(number, 'ended')})")
    recorded: dict[int, FunctionEvent] = {}  # by the number of the node, the operation that recorded it
    arrows = 0
    for event in events:
        if event.trace_name is None:
            continue
        yield _complete(event, pid)
        number = event.sequence_nr
        if number < 0:
            continue
        if not event.fwd_thread:
            recorded.setdefault(number, event)
        elif event.scope == _BACKWARD_SCOPE and number in recorded:
            arrows += 1
            yield _flow("s", arrows, recorded[number], pid)
            yield {**_flow("f", arrows, event, pid), "bp": "e"}  # bind to the enclosing event, not to the next one


def _metadata(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _complete(event: FunctionEvent, pid: int) -> dict[str, Any]:
    arguments: dict[str, Any] = {"External id": event.id}
    if event.sequence_nr >= 0:
        arguments["Sequence number"] = event.sequence_nr
        arguments["Fwd thread id"] = event.fwd_thread or 0
    if event.input_shapes:
        arguments["Input Dims"] = event.structured_input_shapes
    if event.concrete_inputs:
        arguments["Concrete Inputs"] = ["" if value is None else str(value) for value in event.concrete_inputs]
    if event.cpu_memory_usage:
        arguments["Bytes"] = event.cpu_memory_usage
    if event.stack:
        arguments["Call stack"] = ";".join(event.stack)
    return {
        "ph": "X",
        "cat": "user_annotation" if event.is_user_annotation else "cpu_op",
        "name": event.trace_name,
        "pid": pid,
        "tid": event.thread,
        "ts": round(event.time_range.start, 3),  # nanoseconds, the precision of the measurement
        "dur": round(event.time_range.elapsed_us(), 3),
        "args": arguments,
    }


def _flow(phase: str, number: int, event: FunctionEvent, pid: int) -> dict[str, Any]:
    return {
        "ph": phase,
        "id": number,
        "cat": "fwdbwd",
        "name": "fwdbwd",
        "pid": pid,
        "tid": event.thread,
        "ts": round(event.time_range.start, 3),
    }
