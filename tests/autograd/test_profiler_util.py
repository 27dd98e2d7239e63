"""Event lists, averages and tables, made from the same events here and in torch."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch.autograd.profiler_util as theirs
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd.autograd.profiler_util as ours
from retrograd.autograd._profiler_table import format_memory, format_time

Fields = dict[str, Any]

NAMES = ["aten::mul", "aten::add", "MulBackward0", "block " + "x" * 60]
SHAPES = [[], [[2, 3]], [[2, 3], []], [[1234567]] * 5]
STACKS = [[], ["a.py(1): f"], ["a.py(1): f", "long/" * 20 + "b.py(20): g"]]


@st.composite
def spans(
    draw: Any, start: int = 0, end: int = 3_000_000, depth: int = 0, unnumbered: str | None = None
) -> list[Fields]:
    """Draw events within an interval, each with further events inside.

    Here, unlike in torch, an event takes over the sequence number of a nested event of the same name; so an event
    without a number gets no nested event of its name.
    """
    found: list[Fields] = []
    for _ in range(draw(st.integers(0, 3))):
        begin = draw(st.integers(start, end))
        stop = draw(st.integers(begin, min(end, begin + draw(st.sampled_from([1, 500, 50_000, 2_000_000])))))
        scope = draw(st.sampled_from([0, 0, 1]))
        name = draw(st.sampled_from([name for name in NAMES if name != unnumbered]))
        sequence_nr = draw(st.sampled_from([3, 4] if scope == 1 else [-1, 3, 4]))
        found.append(
            {
                "name": name,
                "start_us": begin,
                "end_us": stop,
                "scope": scope,
                "input_shapes": draw(st.sampled_from(SHAPES)),
                "stack": draw(st.sampled_from(STACKS)),
                "cpu_memory_usage": draw(st.sampled_from([0, 400, -400, 3_000_000, 5 * 1024**3])),
                "sequence_nr": sequence_nr,
            }
        )
        if stop - begin > 2 and depth < 2:
            found += draw(spans(begin, stop, depth + 1, name if sequence_nr < 0 else None))
        start = max(stop, begin + 1)  # an event of zero duration would lie inside the next one with the same start
        if start > end:
            break
    return found


def events_from(library: Any, fields: list[Fields], **options: Any) -> Any:
    events = [
        library.FunctionEvent(id=number, thread=1, fwd_thread=1, flops=0, **each) for number, each in enumerate(fields)
    ]
    return library.EventList(events, **options)


def in_both(fields: list[Fields], **options: Any) -> tuple[Any, Any]:
    mine, reference = events_from(ours, fields, **options), events_from(theirs, fields, **options)
    mine._build_tree()
    reference._build_tree()
    return mine, reference


COMPARED = ["id", "name", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "stack"]


@settings(deadline=None, max_examples=50)
@given(spans())
def test_nesting_of_events(fields: list[Fields]) -> None:
    mine, reference = in_both(fields)
    for name in COMPARED:
        assert [getattr(event, name) for event in mine] == [getattr(event, name) for event in reference], name
    for links in ("cpu_parent", "cpu_children"):
        assert [_ids(getattr(event, links)) for event in mine] == [_ids(getattr(event, links)) for event in reference]


def _ids(linked: Any) -> Any:
    return None if linked is None else [event.id for event in linked] if isinstance(linked, list) else linked.id


AVERAGED = ["key", "count", "cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "stack", "scope"]


@settings(deadline=None, max_examples=50)
@given(spans(), st.booleans(), st.integers(0, 2))
def test_averages_of_events(fields: list[Fields], by_shape: bool, by_stack: int) -> None:
    mine, reference = (events.key_averages(by_shape, by_stack) for events in in_both(fields))
    for name in [*AVERAGED, "input_shapes", "self_cpu_memory_usage"]:
        assert [getattr(event, name) for event in mine] == [getattr(event, name) for event in reference], name


@settings(deadline=None, max_examples=50)
@given(spans())
def test_totals_of_events(fields: list[Fields]) -> None:
    mine, reference = in_both(fields)
    for name in AVERAGED[:-2]:
        assert getattr(mine.total_average(), name) == getattr(reference.total_average(), name)
    assert mine.self_cpu_time_total == reference.self_cpu_time_total


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "sort_by": st.sampled_from(["cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "count"]),
        "row_limit": st.sampled_from([-1, 0, 1, 3]),
        "header": st.just("The header"),
        "max_name_column_width": st.sampled_from([None, 20]),
        "max_src_column_width": st.sampled_from([None, 30]),
        "max_shapes_column_width": st.sampled_from([None, 200]),
        "top_level_events_only": st.booleans(),
        "time_unit": st.sampled_from(["s", "ms", "us"]),
    },
)


@settings(deadline=None, max_examples=50)
@given(spans(), OPTIONS, st.booleans())
def test_tables_of_events(fields: list[Fields], options: dict[str, Any], memory: bool) -> None:
    mine, reference = in_both(fields, profile_memory=memory)
    assert mine.table(**options) == reference.table(**options)
    assert mine.key_averages(True, 1).table(**options) == reference.key_averages(True, 1).table(**options)
    assert str(mine.key_averages()) == str(reference.key_averages())


@settings(deadline=None, max_examples=50)
@given(st.floats(0, 1e8), st.integers(-(2**40), 2**40))
def test_formatted_times_and_sizes(time: float, size: int) -> None:
    assert format_time(time) == theirs._format_time(time)
    assert format_memory(size) == theirs._format_memory(size)


@settings(deadline=None, max_examples=50)
@given(spans())
def test_exported_stacks(fields: list[Fields]) -> None:
    mine, reference = in_both(fields)
    assert exported(mine) == exported(reference)


def exported(events: Any) -> str:
    with TemporaryDirectory() as folder:  # hypothesis would share a fixture's folder among its examples
        path = Path(folder) / "stacks"
        events.export_stacks(str(path), "self_cpu_time_total")
        return path.read_text()


# --- differences from torch -------------------------------------------------------------------------------------------


def one_event(**fields: Any) -> ours.EventList:
    defaults = {"id": 1, "name": "aten::mul", "thread": 1, "start_us": 0.0, "end_us": 5.0}
    return ours.EventList([ours.FunctionEvent(**(defaults | fields))])


def test_long_shapes_are_cut_with_dots() -> None:
    table = one_event(input_shapes=[[1234567]] * 12).table(max_shapes_column_width=20)
    assert "[[1234567], [1234..." in table


def test_wrong_table_options_list_the_valid_ones() -> None:
    with pytest.raises(AttributeError, match="no attribute 'hours'; sort_by must be cpu_time, cpu_time_total"):
        one_event().table(sort_by="hours")
    with pytest.raises(ValueError, match="time_unit must be 's', 'ms', 'us' or None, but got 'h'"):
        one_event().table(time_unit="h")


def test_kernels_add_gpu_columns() -> None:
    events = one_event(use_device="cuda")
    events += one_event(id=2, start_us=1.0, end_us=2.0, use_device="cuda")
    events[1].append_kernel("gemm", 0, 1500.0)
    events._build_tree()
    (average,) = events.key_averages()
    assert (average.self_device_time_total, average.count) == (1500.0, 1)  # nested events of one name are shown once
    table = events.table(sort_by="self_cuda_time_total")
    for text in ("Self CUDA", "CUDA time avg", "1.500ms", "Self CUDA time total: 1.500ms"):
        assert text in table
    with pytest.warns(FutureWarning, match="`cuda_time_total` is deprecated, please use `device_time_total`"):
        assert events[0].cuda_time_total == 1500.0


def test_average_refuses_events_of_another_key() -> None:
    average = ours.FunctionEventAvg()
    average += one_event()[0]
    with pytest.raises(ValueError, match="cannot add 'aten::add' to the sums over 'aten::mul'"):
        average += one_event(name="aten::add")[0]


def test_memory_records_in_an_interval() -> None:
    class Record:
        def __init__(self, time: int) -> None:
            self.time = time

        def start_ns(self) -> int:
            return self.time

    records = [[Record(time), False] for time in (30, 10, 20, 40)]
    for library in (ours, theirs):
        found = list(library.MemRecordsAcc(records).in_interval(15, 30))
        assert [record.time for record, _ in found] == [20, 30]
        assert list(library.MemRecordsAcc([]).in_interval(0, 100)) == []


@pytest.mark.parametrize("name", ["_ZN2at3addERKNS_6TensorES2_", "not mangled", "t", "_Z"])
def test_string_table_demangles_names_as_torch_does(name: str) -> None:
    assert ours.StringTable()[name] == theirs.StringTable()[name]
