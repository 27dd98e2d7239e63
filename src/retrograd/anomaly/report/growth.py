"""The last steps before the event, as a table and as a line of blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from retrograd.anomaly.event import NaNEvent, context_of

History = Sequence[Mapping[str, float]]

BLOCKS = "▁▂▃▄▅▆▇█"
NOT_FINITE = "!"
SPARKS = 24  # points of a sparkline


_IN_CONTEXT = {"loss": "loss_history", "grad_norm": "grad_norm_history", "scale": "scale_history"}


def remembered(event: NaNEvent) -> History:
    """The history that an event brings along: what the monitor knew, counted back from the event's step."""
    context = context_of(event)
    series = {name: list(context.get(key) or ()) for name, key in _IN_CONTEXT.items()}
    length = max(map(len, series.values()))
    rows: list[dict[str, float]] = [{} for _ in range(length)]
    for back in range(1, length + 1):
        if event.step is not None:
            rows[-back]["step"] = event.step + 1 - back
        known = {name: values[-back] for name, values in series.items() if len(values) >= back}
        rows[-back].update({name: value for name, value in known.items() if value is not None})
    return rows


def quantities(history: History) -> list[str]:
    """What a history follows besides the step, in the order in which it turns up."""
    return list(dict.fromkeys(name for row in history for name in row if name != "step"))


def table(history: History, width: int) -> list[str]:
    """Lines of ``step``, if known, and each quantity, aligned, for as many of the last steps as fit into ``width``."""
    names = [*(["step"] if any("step" in row for row in history) else []), *quantities(history)]
    first = max(map(len, names))
    lines = [name.ljust(first) for name in names]
    columns: list[list[str]] = []
    room = width - first
    for row in reversed(history):
        cells = [_cell(name, row.get(name)) for name in names]
        taken = 2 + max(map(len, cells))
        if taken > room:
            break
        room -= taken
        columns.append([cell.rjust(taken) for cell in cells])
    return [line + "".join(cells) for line, cells in zip(lines, zip(*reversed(columns), strict=True), strict=True)]


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if name == "step" else f"{value:.4g}"


def sparkline(values: Sequence[float | None]) -> str:
    """One block for each of the last values, an exclamation mark for what is not finite."""
    values = values[-SPARKS:]
    return "".join(
        " " if value is None else NOT_FINITE if height is None else BLOCKS[round(height * (len(BLOCKS) - 1))]
        for value, height in zip(values, heights(values), strict=True)
    )


def heights(values: Sequence[float | None]) -> list[float | None]:
    """Values on a scale from 0 to 1; None for what is missing or not finite.

    The scale is logarithmic where all values are positive and the largest is more than ten times the smallest.
    """
    finite = [v for v in values if v is not None and math.isfinite(v)]
    if not finite:
        return [None] * len(values)
    transform = math.log if is_logarithmic(values) else float
    bottom, top = transform(min(finite)), transform(max(finite))
    span = top - bottom

    def height(value: float | None) -> float | None:
        if value is None or not math.isfinite(value):
            return None
        return (transform(value) - bottom) / span if 0 < span < math.inf else 0.0

    return [height(v) for v in values]


def is_logarithmic(values: Sequence[float | None]) -> bool:
    """Whether ``heights`` uses a logarithmic scale."""
    finite = [v for v in values if v is not None and math.isfinite(v)]
    return bool(finite) and min(finite) > 0 and max(finite) / 10 > min(finite)
