"""A table of the magnitudes that the layers put out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from retrograd.anomaly.event import NaNEvent, context_of

Rows = Sequence[Mapping[str, Any]]
"""For each layer its name, ``absmin`` and ``absmax`` of what it put out, and ``before``, the latter earlier."""

LONGEST, SHORTEST = 32, 16  # characters of a name
HEADER = ("layer", "abs min", "abs max", "before")


def layers_of(event: NaNEvent) -> Rows:
    """The layers of the last call of the model, up to the first that put out something bad."""
    return context_of(event).get("layers", ())


def cells(rows: Rows) -> list[tuple[str, ...]]:
    """The table as text, with its header and without columns that are empty."""
    texts = [
        (
            row["layer"] or "the model",
            "" if math.isnan(row["absmin"]) else f"{row['absmin']:.3g}",
            "NaN" if math.isnan(row["absmax"]) else f"{row['absmax']:.3g}",
            ", ".join(f"{number:.3g}" for number in row["before"]),
        )
        for row in rows
    ]
    kept = [column for column in range(len(HEADER)) if any(text[column] for text in texts)]
    return [tuple(text[column] for column in kept) for text in (HEADER, *texts)]


def table(rows: Rows, width: int) -> list[str]:
    """Lines of the table. Names lose their beginning where there is no room; what still does not fit is left out."""
    texts = cells(rows) if rows else []
    sizes = [min(LONGEST, max(map(len, column))) for column in zip(*texts, strict=True)]
    if rows:
        sizes[0] = max(min(sizes[0], SHORTEST), sizes[0] - max(0, sum(sizes) + 2 * len(sizes) - 2 - width))
    lines = []
    for name, *numbers in texts:
        shown = name if len(name) <= sizes[0] else "..." + name[3 - sizes[0] :]
        columns = [number.rjust(size) for number, size in zip(numbers, sizes[1:], strict=True)]
        if len(texts[0]) > 2 and texts[0][-1] == HEADER[-1]:
            columns[-1] = numbers[-1]
        line = "  ".join((shown.ljust(sizes[0]), *columns))
        if len(line) > width:
            line = line[: width + 1].rpartition(" ")[0]  # never cut a number
        lines.append(line.rstrip(" ,"))
    return lines
