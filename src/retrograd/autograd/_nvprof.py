"""Reading what NVIDIA's nvprof recorded: an SQLite file of ranges, CUDA calls and kernels; times are nanoseconds."""

from __future__ import annotations

from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd.autograd.profiler_util import EventList, FunctionEvent, StringTable

if TYPE_CHECKING:
    import sqlite3

# A range is a pair of markers with one id; the one that begins it has a name.
_RANGES = """
    SELECT start.id, start.name, start.timestamp, stop.timestamp
    FROM CUPTI_ACTIVITY_KIND_MARKER AS start JOIN CUPTI_ACTIVITY_KIND_MARKER AS stop ON start.id = stop.id
    WHERE start.name != 0 AND stop.name = 0
"""

# Kernels, and when the CUDA runtime was called to launch them.
_KERNELS = """
    SELECT runtime.start, runtime.end, kernel.name, kernel.end - kernel.start
    FROM CUPTI_ACTIVITY_KIND_RUNTIME AS runtime
    JOIN CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL AS kernel ON kernel.correlationId = runtime.correlationId
    ORDER BY runtime.start
"""


class EnforceUnique:
    """Raises if a key is seen twice."""

    def __init__(self) -> None:
        self.seen: set[tuple[Any, ...]] = set()

    def see(self, *key: Any) -> None:
        """Note a key.

        Raises
        ------
        RuntimeError
            If it was seen before.
        """
        if key in self.seen:
            raise RuntimeError(f"duplicate key: {key}")
        self.seen.add(key)


def parse_nvprof_trace(path: str | PathLike[str]) -> list[FunctionEvent]:
    """Return the ranges of an nvprof file as events, in the order in which they began; see :func:`load_nvprof`."""
    import sqlite3  # some builds of Python lack it

    path = Path(path)
    if not path.exists():  # sqlite3 would make an empty one
        raise FileNotFoundError(f"no nvprof file at '{path}'")
    try:
        with closing(sqlite3.connect(path)) as connection:
            return _parse(connection)
    except sqlite3.DatabaseError as error:
        raise ValueError(
            f"'{path}' was not written by nvprof ({error}); create one with `nvprof -o FILE -- python SCRIPT`"
        ) from error


def _parse(connection: sqlite3.Connection) -> list[FunctionEvent]:
    mangled = StringTable()
    strings = {key: mangled[value] for key, value in connection.execute("SELECT _id_, value FROM StringTable")}
    unique = EnforceUnique()
    events = []
    for key, name, start, stop in connection.execute(_RANGES):
        unique.see(key)
        events.append(FunctionEvent(key, strings[name], 0, start / 1000, stop / 1000, use_device="cuda"))
    events.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL" in tables:  # nothing ran on the GPU otherwise
        launches = [
            (start / 1000, stop / 1000, strings.get(name, str(name)), duration / 1000)
            for start, stop, name, duration in connection.execute(_KERNELS)
        ]
        _give_kernels(events, launches)
    return events


def _give_kernels(events: list[FunctionEvent], launches: list[tuple[float, float, str, float]]) -> None:
    """Give each kernel to the innermost range that it was launched in. Both are in order of their starts."""
    around: list[FunctionEvent] = []
    begun = 0
    for start, stop, name, duration in launches:
        while begun < len(events) and events[begun].time_range.start < start:
            around.append(events[begun])
            begun += 1
        around = [event for event in around if event.time_range.end > start]
        inside = [event for event in around if event.time_range.end > stop]
        if inside:
            inside[-1].append_kernel(name, 0, duration)


def load_nvprof(path: str | PathLike[str]) -> EventList:
    """Read a file that nvprof or the NVIDIA Visual Profiler wrote while :class:`emit_nvtx` was on.

    Parameters
    ----------
    path
        The SQLite file, from ``nvprof -o path -- python script.py``.

    Returns
    -------
    EventList
        One event for each range. Each kernel belongs to the innermost range that it was launched in.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file; if nvprof did not write it.
    """
    events = EventList(parse_nvprof_trace(path), use_device="cuda")
    events._build_tree()
    return events


load_nvvp = load_nvprof  # the Visual Profiler keeps the same tables
