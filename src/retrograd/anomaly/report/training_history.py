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
    """The quantities in a history besides the step, in order of first appearance."""
    return list(dict.fromkeys(name for row in history for name in row if name != "step"))


def table(history: History, width: int) -> dict[str, str]:
    """A line of ``step``, if known, and of each quantity, aligned, for as many of the last steps as fit into ``width``.

    A quantity with a single value in these steps, where another has several, shows no development and is left out, such
    as gradient norms, which are known only for steps that were checked.
    """
    names = [*(["step"] if any("step" in row for row in history) else []), *quantities(history)]
    cells = _cells(history, names, width)
    known = {name: sum(map(bool, row)) for name, row in cells.items() if name != "step"}
    telling = min(2, max(known.values(), default=0))
    dropped = {name for name, count in known.items() if count < telling}
    if dropped:  # it may have taken the width of a step
        names = [name for name in names if name not in dropped]
        cells = _cells(history, names, width)
    first = max(map(len, names))
    columns = [2 + max(map(len, column)) for column in zip(*cells.values(), strict=True)]
    return {
        name: name.ljust(first) + "".join(cell.rjust(column) for cell, column in zip(row, columns, strict=True))
        for name, row in cells.items()
    }


def _cells(history: History, names: Sequence[str], width: int) -> dict[str, list[str]]:
    """For each name the texts of the last steps, as many as fit beside the names."""
    steps: list[list[str]] = []
    room = width - max(map(len, names))
    for row in reversed(history):
        texts = [_cell(name, row.get(name)) for name in names]
        room -= 2 + max(map(len, texts))
        if room < 0:
            break
        steps.insert(0, texts)
    return {name: [texts[position] for texts in steps] for position, name in enumerate(names)}


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
