"""Condensing large graphs: each run of operations becomes one box.

A run is taken from the order in which the operations were recorded, so that replacing it by one box never makes a
cycle. First the repetitions go (the same few operations over and over, as a loop records them), all but the first and
the last; if that is not enough, the middle of the whole is cut into equal runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from retrograd.autograd.graph.drawing.diagram import Box, Diagram

_LONGEST_PERIOD = 64
_FEWEST_REPETITIONS = 4
_LINE = 34  # characters
_TIMES = "\N{MULTIPLICATION SIGN}"

# A run of operations from one position to another, and how long its repeated part is (0: nothing repeats).
Run = tuple[int, int, int]


def group(diagram: Diagram, limit: int) -> Diagram:
    """Return the same graph in about ``limit`` boxes."""
    operations = [position for position, box in enumerate(diagram.boxes) if box.kind != "leaf"]
    runs = _without_repetitions([diagram.boxes[position] for position in operations])
    if len(runs) > limit:
        runs = _without_middle(runs, limit)
    members = [operations[start:stop] for start, stop, _ in runs]
    run_of = {position: number for number, positions in enumerate(members) for position in positions}
    parts = [(float(number), positions, runs[number][2]) for number, positions in enumerate(members)]
    for consumers, leaves in _leaves_by_consumers(diagram, run_of).items():
        first = min(consumers)
        if len(consumers) == 1 and len(members[first]) > 1:
            members[first] += leaves  # nothing else uses them: they vanish in the run
        else:
            together = [leaves] if len(leaves) > limit // 10 else [[leaf] for leaf in leaves]
            parts += [(first - 0.5, some, 0) for some in together]
    parts.sort(key=lambda part: part[0])
    boxes = [
        diagram.boxes[positions[0]]
        if len(positions) == 1
        else _summary([diagram.boxes[position] for position in positions], period)
        for _, positions, period in parts
    ]
    box_of = {position: number for number, (_, positions, _) in enumerate(parts) for position in positions}
    edges: list[tuple[int, int]] = []
    drawn = set()  # of the edges to and from groups, one of each
    for source, target in diagram.edges:
        edge = box_of[source], box_of[target]
        if len(parts[edge[0]][1]) == len(parts[edge[1]][1]) == 1:
            edges.append(edge)
        elif edge[0] != edge[1] and edge not in drawn:
            drawn.add(edge)
            edges.append(edge)
    return Diagram(boxes, edges, diagram.saved_bytes)


def _without_repetitions(boxes: Sequence[Box]) -> list[Run]:
    """Cut operations into runs of one, and a longer one for all repetitions of a part but its first and last."""
    numbers: dict[tuple[str, ...], int] = {}
    kinds = np.array([numbers.setdefault((box.title, *box.outputs), len(numbers)) for box in boxes])
    lengths = {period: _matching(kinds, period) for period in range(1, min(_LONGEST_PERIOD, len(kinds) // 2) + 1)}
    runs: list[Run] = []
    start = 0
    while start < len(kinds):
        period, covered = 0, 0
        for candidate, length in lengths.items():
            reach = int(length[start]) + candidate if start < len(length) else 0
            # a longer period must be worth it: twice the period of something covers as much again
            if reach >= _FEWEST_REPETITIONS * candidate and reach > covered + candidate:
                period, covered = candidate, reach
        if not period:
            runs.append((start, start + 1, 0))
            start += 1
            continue
        stop = start + covered // period * period
        runs += [(k, k + 1, 0) for k in range(start, start + period)]
        runs.append((start + period, stop - period, period))
        runs += [(k, k + 1, 0) for k in range(stop - period, stop)]
        start = stop
    return runs


def _matching(kinds: np.ndarray, period: int) -> np.ndarray:
    """From every position, for how long each element equals the one a period later."""
    same = kinds[:-period] == kinds[period:]
    ends = np.where(same, len(same), np.arange(len(same)))
    return np.minimum.accumulate(ends[::-1])[::-1] - np.arange(len(same))


def _without_middle(runs: list[Run], limit: int) -> list[Run]:
    """Keep the first and the last runs, and unite those in between into a few."""
    kept = max(limit // 3, 1)
    middle = runs[kept:-kept]
    size = -(-len(middle) // max(limit // 10, 1))
    united = [
        (middle[k][0], middle[min(k + size, len(middle)) - 1][1], 0 if size > 1 else middle[k][2])
        for k in range(0, len(middle), size)
    ]
    return runs[:kept] + united + runs[-kept:]


def _leaves_by_consumers(diagram: Diagram, run_of: dict[int, int]) -> dict[frozenset[int], list[int]]:
    """The leaves that the same runs use."""
    consumers: dict[int, set[int]] = {}
    for source, target in diagram.edges:
        if source not in run_of:
            consumers.setdefault(source, set()).add(run_of[target])
    alike: dict[frozenset[int], list[int]] = {}
    for leaf, numbers in consumers.items():
        alike.setdefault(frozenset(numbers), []).append(leaf)
    return alike


def _summary(boxes: Sequence[Box], period: int) -> Box:
    """A box that stands for several."""
    operations = [box for box in boxes if box.kind != "leaf"]
    leaves = len(boxes) - len(operations)
    if not operations:
        shapes = Counter(line for box in boxes for line in box.outputs)
        return Box("group", f"… {leaves:,} leaves", [_list(_counted(shapes))], leaves=leaves)
    counts = Counter(box.title for box in operations)
    if period:
        part = [box.title for box in operations[:period]]
        lines = [f"{len(operations) // period:,} {_TIMES} ({_list(part)})"]
    else:
        lines = [_list(_counted(counts))]
    if leaves:
        lines.append(f"with {leaves:,} {'leaf' if leaves == 1 else 'leaves'}")
    tooltip = "\n".join(f"{count:,} {name}" for name, count in counts.most_common())
    return Box(
        "group",
        f"… {len(operations):,} operations",
        lines,
        tooltip=tooltip,
        is_result=any(box.is_result for box in boxes),
        operations=len(operations),
        leaves=leaves,
    )


def _counted(counts: Counter[str]) -> list[str]:
    return [f"{name} {_TIMES}{count:,}" for name, count in counts.most_common()]


def _list(items: Sequence[str]) -> str:
    """As many items as go into a line."""
    text = items[0]
    for item in items[1:]:
        if len(text) + len(item) > _LINE:
            return f"{text}, …"
        text += f", {item}"
    return text
