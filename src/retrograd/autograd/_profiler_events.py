"""Builds events from the entries that a profile recorded."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import Any

from retrograd.autograd import _profiler_names as names
from retrograd.autograd._flops import flops_of
from retrograd.autograd._profiler_recorder import END, Stack, listed
from retrograd.autograd.profiler_util import MEMORY_EVENT_NAME, FunctionEvent, MemRecordsAcc
from retrograd.core.sites import line_of

# at::RecordScope, which torch's events carry
_FORWARD, _BACKWARD, _USER = 0, 1, 7


class MemoryRecord:
    """A number of bytes allocated (freed, if negative) at a time."""

    def __init__(self, time: int, nbytes: int) -> None:
        self._time = time
        self.nbytes = nbytes

    def start_ns(self) -> int:
        return self._time


def make_events(
    entries: list[tuple[int, Any, int, Any]],
    memory: list[tuple[int, int]],
    *,
    start: int,
    stop: int,
    thread: int,
    with_flops: bool,
) -> list[FunctionEvent]:
    """The events of a profile, in the order in which they began.

    Parameters
    ----------
    entries, memory
        As :class:`~retrograd.autograd._profiler_recorder.DetailedRecorder` notes them.
    start, stop
        When the profile began and ended. Times of events are microseconds since ``start``.
    thread
        The thread that was profiled.
    with_flops
        Whether to estimate floating-point operations from the shapes noted.
    """
    events: list[FunctionEvent] = []
    records: list[list[Any]] = [[MemoryRecord(*record), False] for record in memory]  # and if it is in an event
    by_time = MemRecordsAcc(records)
    places = _Places()
    created: set[int] = set()
    for number, (kind, name, begin, detail, end, sequence_nr) in enumerate(_spans(entries, stop), 1):
        backward = kind in (names.EVALUATE, names.BACKWARD)
        if name == names.ACCUMULATE or (not backward and sequence_nr in created):
            sequence_nr = -1  # a leaf's node was not recorded by an operation, nor by one that returned what was there
        created.add(sequence_nr)
        full_name = names.full_name(kind, name)
        event = FunctionEvent(
            id=number,
            name=names.shared_name(full_name),
            trace_name=full_name,
            thread=thread,
            start_us=(begin - start) / 1000,
            end_us=(end - start) / 1000,
            fwd_thread=thread if backward and sequence_nr >= 0 else 0,
            input_shapes=[],
            stack=[],
            scope=_USER if kind == names.BLOCK else _BACKWARD if kind == names.BACKWARD else _FORWARD,
            sequence_nr=sequence_nr,
            is_user_annotation=kind == names.BLOCK,
        )
        if detail is not None:
            event.structured_input_shapes = [listed(shape) for shape in detail.shapes]
            event.input_shapes = [list(shape) if isinstance(shape, tuple) else [] for shape in detail.shapes]
            event.concrete_inputs = detail.values
            event.stack = places.format(detail.stack)
            if with_flops and kind == names.OPERATION:
                event.flops = flops_of(name, event.structured_input_shapes, detail.values)
        for record in by_time.in_interval(begin, end):
            event.cpu_memory_usage += record[0].nbytes
            record[1] = True
        events.append(event)
    for record, attributed in records:
        if not attributed:
            time = (record.start_ns() - start) / 1000
            outside = FunctionEvent(
                len(events) + 1, MEMORY_EVENT_NAME, thread, time, time, cpu_memory_usage=record.nbytes
            )
            outside.trace_name = None
            events.append(outside)
    events.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
    return events


def _spans(entries: list[tuple[int, Any, int, Any]], stop: int) -> Iterator[tuple[int, str, int, Any, int, int]]:
    """Kind, name, beginning, detail, end and sequence number of each thing that began.

    Events that an exception left open end with the enclosing event; those still running end with the profile.
    """
    ends: dict[int, tuple[int, int]] = {}
    going_on: list[int] = []
    for position, (kind, began, time, sequence_nr) in enumerate(entries):
        if kind != END:
            going_on.append(position)
            continue
        while began not in ends:
            inner = going_on.pop()
            ends[inner] = time, sequence_nr if inner == began else -1
    for position, (kind, name, time, detail) in enumerate(entries):
        if kind != END:
            end, sequence_nr = ends.get(position, (stop, -1))
            yield kind, name, time, detail, end, sequence_nr


class _Places:
    """Places in the program as text. Cached, because they recur and looking up a line is slow."""

    def __init__(self) -> None:
        self._known: dict[tuple[CodeType, int], str] = {}

    def format(self, stack: Stack) -> list[str]:
        known = self._known
        for place in stack:
            if place not in known:
                code, at = place
                known[place] = f"{code.co_filename}({line_of(code, at)}): {code.co_name}"
        return [known[place] for place in stack]
