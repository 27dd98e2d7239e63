"""What a profile is made of: events, lists of events and averages, as ``torch.autograd.profiler_util`` has them."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from os import PathLike
from typing import Any

from retrograd.autograd._chrome_trace import write_chrome_trace
from retrograd.autograd._demangle import demangle
from retrograd.autograd._function_event import FormattedTimesMixin, FunctionEvent, FunctionEventAvg, Interval, Kernel
from retrograd.autograd._profiler_table import build_table

MEMORY_EVENT_NAME = "[memory]"  # what was allocated or freed outside all events

_BACKWARD_SCOPE = 1


class EventList(list[Any]):
    """A list of :class:`FunctionEvent` or :class:`FunctionEventAvg` that prints as a table."""

    def __init__(
        self,
        events: Iterable[Any] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(events)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops

    def _like(self, events: Iterable[Any]) -> EventList:
        return EventList(
            events, use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops
        )

    def _build_tree(self) -> None:
        """Find out from their times which events are parts of others."""
        self._set_parents()
        self._remove_dup_nodes()
        self._set_backward_stacks()

    def _set_parents(self) -> None:
        for _, of_thread in groupby(sorted(self, key=attrgetter("thread")), key=attrgetter("thread")):
            around: list[FunctionEvent] = []
            for event in sorted(of_thread, key=lambda event: (event.time_range.start, -event.time_range.end)):
                start, end = event.time_range.start, event.time_range.end
                while around and (start >= around[-1].time_range.end or end > around[-1].time_range.end):
                    around.pop()
                if around:
                    around[-1].append_cpu_child(event)
                    event.set_cpu_parent(around[-1])
                around.append(event)

    def _remove_dup_nodes(self) -> None:
        """Show an event that consists of one other of the same name once: a function that forwards to its namesake."""
        doubled: set[int] = set()
        for event in self:
            parent = event.cpu_parent
            if parent is not None and parent.name == event.name and len(parent.cpu_children) == 1:
                parent.cpu_children = event.cpu_children
                for child in event.cpu_children:
                    child.cpu_parent = parent
                parent.kernels = parent.kernels + event.kernels
                parent.flops = parent.flops or event.flops
                if parent.sequence_nr < 0:
                    parent.sequence_nr = event.sequence_nr
                doubled.add(id(event))
        if doubled:
            self[:] = [event for event in self if id(event) not in doubled]

    def _set_backward_stacks(self) -> None:
        """Give events in backward the call stack of their forward operation."""
        forward: dict[int, list[str]] = {}
        backward: list[tuple[FunctionEvent, int]] = []
        for event in self:
            of_node: FunctionEvent | None = event
            while of_node is not None and of_node.scope != _BACKWARD_SCOPE:
                of_node = of_node.cpu_parent
            if of_node is not None:
                backward.append((event, of_node.sequence_nr))
            else:
                forward.setdefault(event.sequence_nr, event.stack)
        for event, sequence_nr in backward:
            event.stack = forward.get(sequence_nr, []) if sequence_nr >= 0 else []

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds that the events took, each counted once."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Return the events as a table.

        Parameters
        ----------
        sort_by
            Attribute to sort by, largest first: ``cpu_time``, ``cpu_time_total``, ``self_cpu_time_total``,
            ``cpu_memory_usage``, ``self_cpu_memory_usage``, ``count``, or the same with ``cuda`` for ``cpu``. In the
            order of the list by default.
        row_limit
            Greatest number of rows; -1 for all.
        max_src_column_width, max_name_column_width, max_shapes_column_width
            Greatest widths of columns; None for no limit. Longer names and shapes end in ``...``, longer source
            locations begin with it.
        header
            A line to print above.
        top_level_events_only
            Leave out events that are part of another one.
        time_unit
            ``"s"``, ``"ms"`` or ``"us"`` for all times; by default each has the unit that suits it.

        Raises
        ------
        AttributeError
            If events have no attribute ``sort_by``.
        """
        return build_table(
            self,
            sort_by=sort_by,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
        )

    def __str__(self) -> str:
        return self.table()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show IPython and notebooks the table."""
        printer.text(str(self))

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return one :class:`FunctionEventAvg` for all events of a name.

        Parameters
        ----------
        group_by_input_shapes
            One for each combination of name and input shapes instead.
        group_by_stack_n
            One for each combination of name and the innermost so many places of the call stack instead.
        group_by_overload_name
            Accepted; operations have no overloads here.
        """
        groups: dict[tuple[Any, ...], FunctionEventAvg] = {}
        for event in self:
            shapes = str(event.input_shapes) if group_by_input_shapes else ""
            key = (event.key, event.node_id, event.is_user_annotation, shapes, *event.stack[:group_by_stack_n])
            groups.setdefault(key, FunctionEventAvg()).add(event)
        for average in groups.values():
            average.stack = (average.stack or [])[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
        return self._like(groups.values())

    def total_average(self) -> FunctionEventAvg:
        """Return the sums over all events, under the key ``Total``."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
            total.key = None
        total.key = "Total"
        return total

    def export_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the events as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

        Arrows lead from an operation to the node of the graph that it recorded, where that runs in backward.
        """
        write_chrome_trace(self, path)

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return what :meth:`export_stacks` takes for ``metric``."""
        return ["self_cpu_time_total", "self_cuda_time_total"]

    def export_stacks(self, path: str | PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write call stacks and their costs, a line each, from the outside in: what flame graphs are drawn from.

        Parameters
        ----------
        path
            The file to write.
        metric
            ``"self_cpu_time_total"`` or ``"self_cuda_time_total"``, in microseconds.

        Raises
        ------
        ValueError
            If ``metric`` is something else.
        """
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}, but got {metric!r}")
        attribute = metric.replace("cuda", "device")
        separators = str.maketrans(" ;\t\n", "____")
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            for event in self:
                cost = int(getattr(event, attribute))
                if event.stack and cost > 0:
                    places = ";".join(place.translate(separators) for place in reversed(event.stack))
                    file.write(f"{places} {cost}\n")


class StringTable(dict[str, str]):
    """Names by their mangled form, as C++ compilers and nvprof write it."""

    def __missing__(self, key: str) -> str:
        # a single letter could be a type: 't' is unsigned short
        name = self[key] = demangle(key) if len(key) > 1 else key
        return name


class MemRecordsAcc:
    """Finds the memory records between two times; the record is the first item of each list."""

    def __init__(self, mem_records: Sequence[Any]) -> None:
        self._records = sorted(mem_records, key=lambda record: record[0].start_ns())
        self._times = [record[0].start_ns() for record in self._records]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """Yield the records from ``start_ns`` to ``end_ns``, both included."""
        first, last = bisect.bisect_left(self._times, start_ns), bisect.bisect_right(self._times, end_ns)
        yield from self._records[first:last]


__all__ = [
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MemRecordsAcc",
    "StringTable",
]
