"""Profiles as tables, in the layout of torch's profiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_WIDTH = 12
_SPACING = "  "


def format_time(time_us: float) -> str:
    """Return microseconds as ``1.234us``, ``1.234ms`` or ``1.234s``."""
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if time_us >= size:
            return f"{time_us / size:.3f}{unit}"
    return f"{time_us:.3f}us"


def format_memory(nbytes: int) -> str:
    """Return a number of bytes as ``1.50 KB`` and the like."""
    for exponent, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if abs(nbytes) >= 1024**exponent:
            return f"{nbytes / 1024**exponent:.2f} {unit}"
    return f"{nbytes} B"


class _Column(NamedTuple):
    header: str
    cell: Callable[[Any], str]
    width: int = _WIDTH
    align: str = ">"


def build_table(
    events: Sequence[Any],
    *,
    sort_by: str | None,
    row_limit: int,
    max_src_column_width: int | None,
    max_name_column_width: int | None,
    max_shapes_column_width: int | None,
    header: str | None,
    profile_memory: bool,
    with_flops: bool,
    top_level_events_only: bool,
    time_unit: str | None,
) -> str:
    """Return events, or averages of them, as text; see ``EventList.table`` for the parameters."""
    if not events:
        return ""
    time = _time_formatter(time_unit)
    columns = [_name_column(events, max_name_column_width), *_time_columns(events, time)]
    if profile_memory:
        columns.append(_Column("CPU Mem", lambda event: format_memory(event.cpu_memory_usage)))
        columns.append(_Column("Self CPU Mem", lambda event: format_memory(event.self_cpu_memory_usage)))
    columns.append(_Column("# of Calls", lambda event: str(event.count)))
    if any(event.input_shapes for event in events):
        columns.append(_shapes_column(events, max_shapes_column_width))
    source = _source_column(events, max_src_column_width)
    if source is not None:
        columns.append(source)
    if with_flops and any(event.flops > 0 for event in events):
        columns.append(_flops_column(events))

    rule = "".join("-" * column.width + _SPACING for column in columns)
    double_rule = "=" * (len(rule) - len(_SPACING))
    lines = [double_rule, header] if header is not None else []
    if top_level_events_only:
        lines += [double_rule, "This report only display top-level ops statistics"]
    lines += [rule, _row(columns, [column.header for column in columns]), rule]
    shown = _sorted(events, sort_by)
    if top_level_events_only:
        shown = [event for event in shown if event.cpu_parent is None]
    for event in shown if row_limit < 0 else shown[:row_limit]:
        lines.append(_row(columns, [column.cell(event) for column in columns]))
        if source is not None:
            lines += _further_places(columns, source, event)
    lines.append(rule)
    lines.append(f"Self CPU time total: {time(sum(event.self_cpu_time_total for event in events))}")
    device_total = sum(event.self_device_time_total for event in events)
    if device_total > 0:
        lines.append(f"Self {_device(events)} time total: {time(device_total)}")
    return "\n".join(lines) + "\n"


def _row(columns: Sequence[_Column], cells: Sequence[str]) -> str:
    return "".join(
        f"{cell:{column.align}{column.width}}{_SPACING}" for column, cell in zip(columns, cells, strict=True)
    )


def _sorted(events: Sequence[Any], sort_by: str | None) -> list[Any]:
    if sort_by is None:
        return list(events)
    attribute = sort_by.replace("cuda", "device")
    if not hasattr(events[0], attribute):
        raise AttributeError(
            f"'{type(events[0]).__name__}' object has no attribute '{sort_by}'; sort_by must be cpu_time, "
            "cpu_time_total, self_cpu_time_total, cpu_memory_usage, self_cpu_memory_usage, one of these with cuda for "
            "cpu, count or flops"
        )
    return sorted(events, key=lambda event: getattr(event, attribute), reverse=True)


def _time_formatter(unit: str | None) -> Callable[[float], str]:
    if unit is None:
        return format_time
    sizes = {"s": 1e6, "ms": 1e3, "us": 1.0}
    if unit not in sizes:
        raise ValueError(f"time_unit must be 's', 'ms', 'us' or None, but got {unit!r}")
    return lambda time_us: f"{time_us / sizes[unit]:.3f}{unit}"


def _share(part: float, whole: float) -> str:
    return "NaN" if whole == 0 else f"{100 * part / whole:.2f}%"


def _fitting(longest: int, most: int | None) -> int:
    return longest + 4 if most is None else min(longest + 4, most)


def _name_column(events: Sequence[Any], most: int | None) -> _Column:
    def cell(event: Any) -> str:
        name = event.key
        return name if most is None or len(name) < most - 3 else name[: most - 3] + "..."

    return _Column("Name", cell, _fitting(max(len(event.key) for event in events), most))


def _time_columns(events: Sequence[Any], time: Callable[[float], str]) -> list[_Column]:
    whole = sum(event.self_cpu_time_total for event in events)
    columns = [
        _Column("Self CPU %", lambda event: _share(event.self_cpu_time_total, whole)),
        _Column("Self CPU", lambda event: time(event.self_cpu_time_total)),
        _Column("CPU total %", lambda event: _share(event.cpu_time_total, whole)),
        _Column("CPU total", lambda event: time(event.cpu_time_total)),
        _Column("CPU time avg", lambda event: time(event.cpu_time)),
    ]
    device_whole = sum(event.self_device_time_total for event in events)
    if device_whole > 0:
        device = _device(events)
        columns += [
            _Column(f"Self {device}", lambda event: time(event.self_device_time_total)),
            _Column(f"Self {device} %", lambda event: _share(event.self_device_time_total, device_whole)),
            _Column(f"{device} total", lambda event: time(event.device_time_total)),
            _Column(f"{device} time avg", lambda event: time(event.device_time)),
        ]
    return columns


def _device(events: Sequence[Any]) -> str:
    return next(event.use_device for event in events if event.use_device).upper()


def _shapes_column(events: Sequence[Any], most: int | None) -> _Column:
    width = _fitting(max(len(str(event.input_shapes)) for event in events), most)

    def cell(event: Any) -> str:
        shapes = str(event.input_shapes)
        return shapes if len(shapes) <= width else shapes[: width - 3] + "..."

    return _Column("Input Shapes", cell, width)


def _source_column(events: Sequence[Any], most: int | None) -> _Column | None:
    longest = max((len(place) for event in events for place in event.stack or ()), default=0)
    if longest == 0:
        return None
    width = _fitting(longest, most)
    return _Column("Source Location", lambda event: _place(event, 0, width), width, "<")


def _place(event: Any, number: int, width: int) -> str:
    if number >= len(event.stack):
        return ""
    place = event.stack[number]
    return place if len(place) <= width else "..." + place[len(place) - width + 3 :]


def _further_places(columns: Sequence[_Column], source: _Column, event: Any) -> list[str]:
    """Lines for the call stack beyond its first place, and an empty one after it."""
    lines = []
    for number in range(1, len(event.stack) + 1):
        cells = [_place(event, number, source.width) if column is source else "" for column in columns]
        lines.append(_row(columns, cells))
    return lines or [_row(columns, [""] * len(columns))]


def _flops_column(events: Sequence[Any]) -> _Column:
    least = min(event.flops for event in events if event.flops > 0)
    exponent = next((k for k in range(5, 0, -1) if least >= 1000**k), 0)
    return _Column(
        f"Total {('', 'K', 'M', 'G', 'T', 'P')[exponent]}FLOPs",
        lambda event: f"{event.flops / 1000**exponent:8.3f}" if event.flops > 0 else "--",
    )
