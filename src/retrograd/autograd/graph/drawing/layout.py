"""Where the boxes of a picture go: in layers from top to bottom, as Sugiyama, Tagawa and Toda have it.

K. Sugiyama, S. Tagawa, M. Toda: Methods for visual understanding of hierarchical system structures. IEEE Transactions
on Systems, Man, and Cybernetics 11 (1981). The steps are theirs: layers by the longest path, points in between for
edges that span several layers, the order in a layer by barycenters, then coordinates. All edges from one box share the
points in between, like a bus from which they branch off, so that a weight that every step of a loop uses takes one
line. Horizontal coordinates are the least-squares ones that keep order and distances: an isotonic regression in every
layer, where what lies on a longest path is stiff, so that it forms straight columns.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

GAP = 26.0  # between boxes of a layer
LANE = 12.0  # between a line and its neighbour
ROW = 28.0  # between layers, at least
ORDERING_SWEEPS = 16
PLACING_SWEEPS = 40

Point = tuple[float, float]


@dataclasses.dataclass
class Layout:
    """The result of :func:`arrange`.

    Attributes
    ----------
    centers
        The middle of each box.
    routes
        For each edge the points through which it goes, from the lower side of one box to the upper side of another.
    width, height
        Of the whole.
    """

    centers: list[Point]
    routes: list[list[Point]]
    width: float
    height: float


def arrange(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], leaves: set[int]) -> Layout:
    """Place boxes and edges.

    Parameters
    ----------
    sizes
        Width and height of each box, every box after those that lead to it.
    edges
        Pairs of boxes, possibly the same pair several times.
    leaves
        Which boxes are leaves; they stand beside what uses them first.
    """
    return _Arrangement(sizes, edges, leaves).layout()


class _Arrangement:
    """Boxes are numbered as given; points in between, and their layers, follow behind them."""

    def __init__(
        self, sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], leaves: set[int]
    ) -> None:
        self.count = len(sizes)
        self.edges = edges
        self.widths = [width for width, _ in sizes]
        self.heights = [height for _, height in sizes]
        self.depth, self.layer = _layers(self.count, edges, leaves)
        self.above: list[list[int]] = [[] for _ in sizes]
        self.below: list[list[int]] = [[] for _ in sizes]
        self.upward: list[list[tuple[int, float]]] = [[] for _ in sizes]
        self.downward: list[list[tuple[int, float]]] = [[] for _ in sizes]
        self.paths = self._add_points()
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for item, layer in enumerate(self.layer):
            self.rows[layer].append(item)
        self.offsets: list[list[float]] = []  # of every layer: the least distances from its first item
        self.x = [0.0] * len(self.layer)

    def _add_points(self) -> list[list[int]]:
        """Give every layer that an edge crosses a point; return what each edge passes, from box to box."""
        lanes: dict[tuple[int, int], int] = {}  # by source and layer
        paths = []
        joined = set()
        for source, target in self.edges:
            path = [source]
            for layer in range(self.layer[source] + 1, self.layer[target]):
                if (source, layer) not in lanes:
                    lanes[source, layer] = len(self.layer)
                    self.layer.append(layer)
                    self.widths.append(0.0)
                    self.heights.append(0.0)
                    self.above.append([])
                    self.below.append([])
                    self.upward.append([])
                    self.downward.append([])
                path.append(lanes[source, layer])
            path.append(target)
            for upper, lower in itertools.pairwise(path):
                if (upper, lower) not in joined:
                    joined.add((upper, lower))
                    self.below[upper].append(lower)
                    self.above[lower].append(upper)
                    self._tie(source, upper, lower)
            paths.append(path)
        return paths

    def _tie(self, source: int, upper: int, lower: int) -> None:
        """Set how two items joined by a line pull each other sideways.

        What lies on a longest path forms straight columns: other inputs of an operation stand beside it and follow it,
        and do not pull it. Lines between points in between are stiff.
        """
        if lower >= self.count:
            stiff = upper >= self.count
            self.upward[lower].append((upper, 1.0 if stiff else 0.2))
            self.downward[upper].append((lower, 1.0 if stiff else 0.01))
            return
        main = self.depth[source] + 1 == self.depth[lower]
        self.upward[lower].append((upper, 4.0 if main else 0.01))
        self.downward[upper].append((lower, 4.0 if main else 0.02))

    def layout(self) -> Layout:
        self._order()
        self._place()
        self._straighten()
        tops, bottoms = self._rows_y()
        left = min((self.x[item] - self.widths[item] / 2 for item in range(len(self.x))), default=0.0)
        right = max((self.x[item] + self.widths[item] / 2 for item in range(len(self.x))), default=0.0)
        self.x = [x - left for x in self.x]
        middle = [(top + bottom) / 2 for top, bottom in zip(tops, bottoms, strict=True)]
        centers = [(self.x[box], middle[self.layer[box]]) for box in range(self.count)]
        return Layout(centers, self._routes(centers, tops, bottoms), right - left, bottoms[-1] if bottoms else 0.0)

    # --- order ----------------------------------------------------------------------------------------------------

    def _order(self) -> None:
        """Sort every layer by the barycenters of its neighbours, down and up; keep the order with fewest crossings."""
        best, fewest = [list(row) for row in self.rows], self._crossings()
        for sweep in range(ORDERING_SWEEPS):
            if fewest == 0:
                break
            down = sweep % 2 == 0
            neighbours = self.above if down else self.below
            place = {item: spot for row in self.rows for item, spot in _spots(row)}
            for row in self.rows if down else self.rows[::-1]:
                row.sort(key={item: _mean(place, neighbours[item], place[item]) for item in row}.__getitem__)
                place.update(_spots(row))
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
        self.rows = best

    def _crossings(self) -> int:
        total = 0
        for upper, lower in itertools.pairwise(self.rows):
            place = {item: k for k, item in enumerate(lower)}
            seen: list[int] = []
            for item in upper:
                ends = sorted(place[other] for other in self.below[item])
                total += sum(len(seen) - bisect.bisect_right(seen, end) for end in ends)
                for end in ends:
                    bisect.insort(seen, end)
        return total

    # --- coordinates ----------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Move every layer to where its neighbours want it, down and up, several times."""
        for row in self.rows:
            offset = [0.0]
            for left, right in itertools.pairwise(row):
                lane = left >= self.count or right >= self.count
                offset.append(offset[-1] + (self.widths[left] + self.widths[right]) / 2 + (LANE if lane else GAP))
            self.offsets.append(offset)
            for item, x in zip(row, offset, strict=True):
                self.x[item] = x - offset[-1] / 2
        numbers = range(len(self.rows))
        for sweep in range(PLACING_SWEEPS):
            down = sweep % 2 == 0
            for number in numbers if down else numbers[::-1]:
                row, offset = self.rows[number], self.offsets[number]
                wanted, weights = [], []
                for item, distance in zip(row, offset, strict=True):
                    x, weight = self._wanted(item, down, sweep >= PLACING_SWEEPS - 4)
                    wanted.append(x - distance)
                    weights.append(weight)
                for item, distance, x in zip(row, offset, _isotonic(wanted, weights), strict=True):
                    self.x[item] = x + distance

    def _wanted(self, item: int, down: bool, both: bool) -> tuple[float, float]:
        """Where the neighbours of ``item`` pull it, and how hard."""
        ties = self.upward[item] if down else self.downward[item]
        if both:
            ties = self.upward[item] + self.downward[item]
        total = sum(weight for _, weight in ties)
        if not total:
            return self.x[item], 0.001
        return sum(weight * self.x[other] for other, weight in ties) / total, total

    def _straighten(self) -> None:
        """Let long lines run straight down for as long as their neighbours leave room."""
        room = {}
        for row, offset in zip(self.rows, self.offsets, strict=True):
            for k, item in enumerate(row):
                room[item] = (
                    (row[k - 1], offset[k] - offset[k - 1]) if k else None,
                    ((row[k + 1], offset[k + 1] - offset[k]) if k + 1 < len(row) else None),
                )
        for first in range(self.count, len(self.x)):
            if self.above[first][0] < self.count:  # the highest point of a line
                self._straighten_line(first, room)

    def _straighten_line(self, item: int, room: dict[int, Any]) -> None:
        run: list[int] = []
        low, high = -math.inf, math.inf
        while True:
            left, right = room[item]
            least = -math.inf if left is None else self.x[left[0]] + left[1]
            most = math.inf if right is None else self.x[right[0]] - right[1]
            if max(low, least) > min(high, most) + 1e-9:
                self._align(run, low, high)
                run, low, high = [], -math.inf, math.inf
            run.append(item)
            low, high = max(low, least), min(high, most)
            following = [other for other in self.below[item] if other >= self.count]
            if not following:
                break
            item = following[0]
        self._align(run, low, high)

    def _align(self, run: list[int], low: float, high: float) -> None:
        x = min(max(sum(self.x[item] for item in run) / len(run), low), high)
        for item in run:
            self.x[item] = x

    def _rows_y(self) -> tuple[list[float], list[float]]:
        """Upper and lower end of every layer; where lines go far to the side there is more space between layers."""
        tops, bottoms = [], []
        y = 0.0
        for number, row in enumerate(self.rows):
            if number:
                reach = max(
                    (abs(self.x[item] - self.x[other]) for item in self.rows[number - 1] for other in self.below[item]),
                    default=0.0,
                )
                y += ROW + min(0.08 * reach, 48.0)
            tops.append(y)
            y += max(self.heights[item] for item in row)
            bottoms.append(y)
        return tops, bottoms

    def _ports(self) -> dict[int, float]:
        """Where each edge arrives, in the order from which they come; one of them straight from above, if it can."""
        arriving: dict[int, list[int]] = {}
        for number, path in enumerate(self.paths):
            arriving.setdefault(path[-1], []).append(number)
        ports: dict[int, float] = {}
        for target, numbers in arriving.items():
            origin = {number: self.x[self.paths[number][-2]] for number in numbers}
            numbers.sort(key=origin.__getitem__)
            step = min(16.0, 0.6 * self.widths[target] / len(numbers))
            places = [self.x[target] + (k - (len(numbers) - 1) / 2) * step for k in range(len(numbers))]
            shifts = sorted((origin[number] - place for number, place in zip(numbers, places, strict=True)), key=abs)
            spare = (self.widths[target] - (len(numbers) - 1) * step) / 2 - 8.0
            alone = len(shifts) == 1 or abs(shifts[0]) < abs(shifts[1]) - 0.1
            shift = shifts[0] if alone and abs(shifts[0]) <= spare else 0.0
            ports.update((number, place + shift) for number, place in zip(numbers, places, strict=True))
        return ports

    def _routes(self, centers: list[Point], tops: list[float], bottoms: list[float]) -> list[list[Point]]:
        ports = self._ports()
        routes = []
        for number, path in enumerate(self.paths):
            source, target = path[0], path[-1]
            x, y = centers[source]
            points = [(x, y + self.heights[source] / 2), (x, bottoms[self.layer[source]])]
            for item in path[1:-1]:
                points += [(self.x[item], tops[self.layer[item]]), (self.x[item], bottoms[self.layer[item]])]
            x, y = ports[number], centers[target][1]
            points += [(x, tops[self.layer[target]]), (x, y - self.heights[target] / 2)]
            routes.append(points)
        return routes


def _layers(count: int, edges: Sequence[tuple[int, int]], leaves: set[int]) -> tuple[list[int], list[int]]:
    """The lengths of the longest paths to the boxes, and layers.

    Those are the lengths, but everything goes as far down as that does not make the edges longer; leaves are just above
    their first use.
    """
    above: list[set[int]] = [set() for _ in range(count)]
    below: list[set[int]] = [set() for _ in range(count)]
    for source, target in edges:
        above[target].add(source)
        below[source].add(target)
    depth = [0] * count
    for box in range(count):
        depth[box] = max((depth[other] + 1 for other in above[box]), default=0)
    layer = list(depth)
    for box in reversed(range(count)):
        if below[box] and len(above[box] - leaves) <= len(below[box]):
            layer[box] = min(layer[other] for other in below[box]) - 1
    first = min(layer, default=0)
    return depth, [number - first for number in layer]


def _spots(row: Sequence[int]) -> Iterator[tuple[int, float]]:
    """Where each item stands in its layer, from 0 to 1."""
    return ((item, (k + 0.5) / len(row)) for k, item in enumerate(row))


def _mean(place: dict[int, float], items: Sequence[int], otherwise: float) -> float:
    return sum(place[item] for item in items) / len(items) if items else otherwise


def _isotonic(values: Iterable[float], weights: Iterable[float]) -> list[float]:
    """The non-decreasing sequence closest to ``values`` in weighted least squares, by pooling adjacent violators."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, length
    for value, weight in zip(values, weights, strict=True):
        mean, total, length = value, weight, 1
        while pools and pools[-1][0] > mean:
            other, other_total, other_length = pools.pop()
            mean = (mean * total + other * other_total) / (total + other_total)
            total += other_total
            length += other_length
        pools.append((mean, total, length))
    return [mean for mean, _, length in pools for _ in range(length)]
