"""The picture as SVG."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Sequence
from xml.sax.saxutils import escape

from retrograd.autograd.graph.drawing.diagram import Box, Diagram
from retrograd.autograd.graph.drawing.layout import Point, arrange

_TITLE, _TEXT, _SMALL = 13.0, 11.0, 10.0  # sizes of type
_ADVANCE = 0.61  # width of a character of a monospaced font, in terms of its size: that of the usual ones, or more
_LEADING = 1.35
_PADDING = 10.0
_MARGIN = 24.0
_CAPTION = 28.0
_LONGEST = 44  # characters in a line
_SMALLEST = 0.6  # to what share of its size a picture may shrink to fit a page, so that its text stays legible

_STYLE = """
.rg-graph{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace}
.rg-graph .page{fill:#fff}
.rg-graph .box rect{fill:#f6f8fa;stroke:#c4ccd4}
.rg-graph .leaf rect{fill:#e6f6ea;stroke:#5fb878}
.rg-graph .group rect{fill:#fff;stroke:#8b949e;stroke-dasharray:5 4}
.rg-graph .result rect{fill:#e3f1ff;stroke:#3b8eea;stroke-width:2}
.rg-graph text{fill:#59636e;text-anchor:middle}
.rg-graph .title{fill:#1f2328;font-weight:600}
.rg-graph .saved{fill:#8a5a00}
.rg-graph .caption{text-anchor:start}
.rg-graph .edge{fill:none;stroke:#8b949e;stroke-width:1.3}
.rg-graph .heads{fill:#8b949e}
@media (prefers-color-scheme:dark){
.rg-graph .page{fill:#0d1117}
.rg-graph .box rect{fill:#1a2029;stroke:#444c56}
.rg-graph .leaf rect{fill:#12291b;stroke:#3b9b5a}
.rg-graph .group rect{fill:#0d1117;stroke:#768390}
.rg-graph .result rect{fill:#10294a;stroke:#539bf5}
.rg-graph text{fill:#9aa4ae}
.rg-graph .title{fill:#e6edf3}
.rg-graph .saved{fill:#d9a53f}
.rg-graph .edge{stroke:#768390}
.rg-graph .heads{fill:#768390}
}
"""

# A line of text: its content, class, and size of type.
_Line = tuple[str, str, float]


def to_svg(diagram: Diagram) -> str:
    """Write a diagram as SVG."""
    texts = [_lines(box) for box in diagram.boxes]
    sizes = [_size(lines) for lines in texts]
    leaves = {number for number, box in enumerate(diagram.boxes) if box.leaves and not box.operations}
    layout = arrange(sizes, diagram.edges, leaves)
    caption = diagram.caption()
    width = max(layout.width, _width(caption, _TEXT)) + 2 * _MARGIN
    height = layout.height + 2 * _MARGIN + _CAPTION
    dx, dy = (width - layout.width) / 2, _MARGIN + _CAPTION
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rg-graph" role="img" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" style="max-width:100%;'
        f'min-width:{_SMALLEST * width:.0f}px;height:auto">',
        f"<title>{escape(caption)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{width:.0f}" height="{height:.0f}" rx="6"/>',
        f'<text class="caption" x="{_MARGIN:.0f}" y="{_MARGIN + _TEXT:.0f}" font-size="{_TEXT:.0f}">'
        f"{escape(caption)}</text>",
    ]
    heads = []
    drawn: dict[int, set[Point]] = {}  # the points through which edges from a box go already
    for (source, target), route in zip(diagram.edges, layout.routes, strict=True):
        moved = [(x + dx, y + dy) for x, y in route]
        known = drawn.setdefault(source, set())
        branch = max((k for k, point in enumerate(moved) if point in known), default=0)
        known.update(moved)
        path = _curve(moved[branch:])
        parts.append(f'<path class="edge" data-from="n{source}" data-to="n{target}" d="{path}"/>')
        x, y = moved[-1]
        heads.append(f"M{x:.1f} {y:.1f}l-3.5-7h7z")
    if heads:
        parts.append(f'<path class="heads" d="{"".join(heads)}"/>')
    for number, box in enumerate(diagram.boxes):
        x, y = layout.centers[number]
        parts.append(_box(number, box, texts[number], (x + dx, y + dy), sizes[number]))
    parts.append("</svg>")
    return "\n".join(parts)


def _lines(box: Box) -> list[_Line]:
    lines = [(_shorten(box.title), "title", _TITLE)]
    lines += [(_shorten(line), "kind", _TEXT) for line in box.outputs]
    lines += [(line, "saved", _SMALL) for line in _wrap(box)]
    return lines


def _wrap(box: Box) -> list[str]:
    """What is saved, wrapped into lines of limited length."""
    whole = box.saved_line()
    if len(whole) <= _LONGEST - 8:
        return [whole] if whole else []
    lines = [[f"saves {box.saved[0]}"]]
    for item in box.saved[1:]:
        if len(", ".join(lines[-1])) + len(item) > _LONGEST - 12:
            lines.append([item])
        else:
            lines[-1].append(item)
    if len(lines) > 3:
        lines[2:] = [[f"and {sum(map(len, lines[2:]))} more"]]
    return [_shorten(", ".join(line)) for line in lines]


def _shorten(text: str) -> str:
    """Leave out the middle of a long line."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2 - 1]}…{text[-_LONGEST // 2 + 1 :]}"


def _width(text: str, size: float) -> float:
    columns = sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
    return columns * _ADVANCE * size


def _size(lines: Sequence[_Line]) -> tuple[float, float]:
    width = max(_width(text, size) for text, _, size in lines) + 2 * _PADDING
    return max(width, 64.0), sum(size * _LEADING for _, _, size in lines) + _PADDING


def _curve(points: Sequence[Point]) -> str:
    """A path: straight down within a layer, curved from layer to layer."""
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if y0 == y1 and x0 == x1:
            continue
        if abs(x1 - x0) < 0.5:
            path.append(f"L{x1:.1f} {y1:.1f}")
        else:
            middle = (y0 + y1) / 2
            path.append(f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}")
    return "".join(path)


def _box(number: int, box: Box, lines: Sequence[_Line], center: Point, size: tuple[float, float]) -> str:
    (x, y), (width, height) = center, size
    kind = f"box {box.kind}" + (" result" if box.is_result else "")
    radius = height / 2 if box.kind == "leaf" else 6.0
    parts = [
        f'<g class="{kind}" id="n{number}">',
        f"<title>{escape(box.tooltip)}</title>" if box.tooltip else "",
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="{min(radius, 14.0):.1f}"/>',
    ]
    baseline = y - height / 2 + _PADDING / 2
    for text, style, type_size in lines:
        baseline += type_size * _LEADING
        parts.append(
            f'<text class="{style}" x="{x:.1f}" y="{baseline - 0.3 * type_size:.1f}" font-size="{type_size:.0f}">'
            f"{escape(text)}</text>"
        )
    parts.append("</g>")
    return "".join(parts)
