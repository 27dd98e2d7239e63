"""The picture in words: DOT, Mermaid, and a list for the terminal."""

from __future__ import annotations

from html import escape

from retrograd.autograd.graph.drawing.diagram import Box, Diagram

_DOT_STYLES = {
    "leaf": 'style="rounded,filled", fillcolor="#e6f6ea", color="#5fb878"',
    "operation": 'style=filled, fillcolor="#f6f8fa", color="#c4ccd4"',
    "group": 'style=dashed, color="#8b949e"',
    "result": 'style=filled, fillcolor="#e3f1ff", color="#3b8eea", penwidth=2',
}


def _lines(box: Box) -> list[str]:
    return [line for line in (box.title, *box.outputs, box.saved_line()) if line]


def _style(box: Box) -> str:
    return "result" if box.is_result else box.kind


def to_dot(diagram: Diagram) -> str:
    """Write a diagram in the language of Graphviz."""
    lines = ["digraph graph_of_operations {", '  node [shape=box, fontname="monospace", fontsize=11];']
    for number, box in enumerate(diagram.boxes):
        label = "\\n".join(_dot_escape(line) for line in _lines(box))
        lines.append(f'  n{number} [label="{label}", {_DOT_STYLES[_style(box)]}];')
    lines += [f"  n{source} -> n{target};" for source, target in diagram.edges]
    return "\n".join([*lines, "}", ""])


def _dot_escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def to_mermaid(diagram: Diagram) -> str:
    """Write a diagram in the language of Mermaid, which Markdown pages show."""
    lines = ["flowchart TD"]
    for number, box in enumerate(diagram.boxes):
        label = "<br/>".join(_mermaid_escape(line) for line in _lines(box))
        left, right = ("([", "])") if box.kind == "leaf" else ("[", "]")
        lines.append(f'  n{number}{left}"{label}"{right}:::{_style(box)}')
    lines += [f"  n{source} --> n{target}" for source, target in diagram.edges]
    lines += [
        "  classDef leaf fill:#e6f6ea,stroke:#5fb878,color:#1f2328",
        "  classDef operation fill:#f6f8fa,stroke:#c4ccd4,color:#1f2328",
        "  classDef group fill:#ffffff,stroke:#8b949e,color:#1f2328,stroke-dasharray:5 4",
        "  classDef result fill:#e3f1ff,stroke:#3b8eea,color:#1f2328,stroke-width:2px",
    ]
    return "\n".join([*lines, ""])


def _mermaid_escape(text: str) -> str:
    # Mermaid has # where HTML has &
    return (
        escape(text.replace("#", "&#35;").replace("\n", " "), quote=False)
        .replace("&amp;#35;", "#35;")
        .replace('"', "#quot;")
    )


def to_list(diagram: Diagram) -> str:
    """Write a diagram as a list, every operation after what it is computed from."""
    inputs: list[list[int]] = [[] for _ in diagram.boxes]
    for source, target in diagram.edges:
        inputs[target].append(source)
    rows = []
    for number, box in enumerate(diagram.boxes):
        call = box.title
        if box.operations:
            call += f"({', '.join(f'n{source}' for source in inputs[number])})"
        rows.append((f"n{number}", call, "; ".join(box.outputs), box.saved_line()))
    widths = [min(max((len(row[k]) for row in rows), default=0), 48) for k in range(3)]
    lines = [f"{row[0]:>{widths[0]}} = {row[1]:{widths[1]}}  {row[2]:{widths[2]}}  {row[3]}".rstrip() for row in rows]
    return "\n".join([*lines, diagram.caption()])
