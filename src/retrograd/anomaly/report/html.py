"""Events as one page for a browser, light or dark, for any width; it loads nothing."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from retrograd.anomaly.event import GradEvent, NaNEvent
from retrograd.anomaly.report import layers, training_history
from retrograd.anomaly.report.contents import Contents, contents_of, number, verdict
from retrograd.anomaly.report.jsonl import Entry, Run
from retrograd.anomaly.report.summary import Group, group, step_of
from retrograd.anomaly.report.training_history import History
from retrograd.anomaly.shell import command_line

CHART_WIDTH, CHART_HEIGHT, CHART_MARGIN = 320, 90, 8
MOST_IN_FULL = 20  # births that are shown in full; the table has them all
_CROSS = "\N{MULTIPLICATION SIGN}"
_CODE = re.compile("`([^`]+)`")


def format_html(run: Run) -> str:
    """Return the page of one run, as text."""
    groups = group(run.events)
    births = [entry for entry in run.first_entries() if isinstance(entry.event, NaNEvent)]
    title = verdict(births[0].event) if births else "Large gradients" if groups else run.nothing
    body = [
        f'<p class="run">{escape(_heading(run))}</p>',
        f"<h1>{escape(title)}</h1>" if groups or run.torn else f'<h1 class="none">{escape(title)}</h1>',
        _event(births[0]) if births else "",
        *(_folded(entry, number) for number, entry in enumerate(births[1:MOST_IN_FULL], 2)),
        _table(groups) if len(run.events) > len(births[:1]) else "",
        *(f'<p class="note">{escape(note)}</p>' for note in run.remarks),
    ]
    style = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def write_html(path: str | Path, run: Run) -> None:
    """Write the page of one run to a file."""
    # a file name need not be valid text
    Path(path).write_text(format_html(run), encoding="utf-8", errors="backslashreplace")


def _heading(run: Run) -> str:
    """What ran and when."""
    if run.start is None:
        return ""
    rank = () if run.start.rank is None else (f"rank {run.start.rank}",)
    return " · ".join((command_line(run.start.command), *rank, f"started {run.start.time.replace('T', ' ')}"))


def _folded(entry: Entry, number: int) -> str:
    """A later birth, collapsed until it is opened."""
    summary = escape(verdict(entry.event))
    return f'<details id="birth{number}">\n<summary>{summary}</summary>\n{_event(entry)}\n</details>'


def _event(entry: Entry) -> str:
    assert isinstance(entry.event, NaNEvent)
    contents = contents_of(entry.event, entry.outcome, entry.history, entry.lines)
    where = f" at {contents.element}" if contents.element else ""
    parts = [
        f'<p class="outcome">{escape(contents.outcome)}</p>' if contents.outcome else "",
        _source(contents),
        _section("Why", _paragraphs([contents.why])),
        _section("Write instead", _code(contents.instead)),
        _section("Also in this step", _further(contents)),
        _section("Run again like this", _code(contents.again)),
        _section("What to do next", _paragraphs(contents.advice)),
        _section(f"Operands{where}", _operands(contents)),
        _section("From birth to harm", _path(contents)),
        _section("The last steps", _charts(contents.history)),
        _section("Layer outputs", _layers(contents.layers)),
    ]
    return "\n".join(part for part in parts if part)


def _section(title: str, content: str) -> str:
    return f"<h2>{escape(title)}</h2>\n{content}" if content else ""


def _paragraphs(texts: Iterable[str]) -> str:
    return "".join("<p>" + _CODE.sub(r"<code>\1</code>", escape(text)) + "</p>" for text in texts if text)


def _code(code: str) -> str:
    return f'<pre class="good"><code>{escape(textwrap.dedent(code))}</code></pre>' if code else ""


def _further(contents: Contents) -> str:
    """The further births of the step, each with what to write instead or the line that it is in."""
    parts = []
    for each in contents.also:
        mended = ": the code above fixes it as well" if each.is_mended and not each.code else ""
        parts.append(_paragraphs([each.birth + mended, each.why]))
        parts.append(_code(each.code) if each.is_mended else _paragraphs([f"`{each.code}`" if each.code else ""]))
    return "".join([*parts, _paragraphs([f"and {contents.more} more"]) if contents.more else ""])


def _source(contents: Contents) -> str:
    called = "".join(f'\n<p class="place">called at {escape(caller)}</p>' for caller in contents.callers)
    if not contents.lines:
        return f'<p class="place">{escape(contents.place)}</p>{called}' if contents.place else ""
    rows = []
    for line in contents.lines:
        text = escape(line.text)
        if line.lineno == contents.lineno and contents.span:
            start, end = contents.span
            parts = (escape(part) for part in (line.text[:start], line.text[start:end], line.text[end:]))
            text = "{}<mark>{}</mark>{}".format(*parts)
        guilty = ' class="guilty"' if line.lineno == contents.lineno else ""
        rows.append(f"<span{guilty}><i>{line.lineno}</i>{text}</span>")
    return (
        f'<p class="place">{escape(contents.place)}</p>\n<pre class="source"><code>{"".join(rows)}</code></pre>{called}'
    )


def _operands(contents: Contents) -> str:
    facts = [
        *contents.operands,
        *(("made by", made) for made in contents.made),
        *(("used by", used) for used in contents.used),
        (contents.result_name, contents.result),
        ("layer", contents.layer),
    ]
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts if text)
    return f'<table class="facts">{rows}</table>' if rows else ""


def _path(contents: Contents) -> str:
    steps = "".join(f"<li>{escape(node)}</li>" for node in contents.path)
    return f'<ol class="path">{steps}</ol>' if steps else ""


def _layers(rows: layers.Rows) -> str:
    if not rows:
        return ""
    header, *texts = layers.cells(rows)
    lines = [f"<tr>{''.join(f'<th>{escape(text)}</th>' for text in header)}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in text)}</tr>" for text in texts]
    return f"<table>{''.join(lines)}</table>"


def _charts(history: History) -> str:
    charts = "\n".join(_chart(name, history) for name in training_history.quantities(history))
    return f'<div class="charts">{charts}</div>' if charts.strip() else ""


def _chart(name: str, history: History) -> str:
    """A line over the steps; a cross at the top wherever the value is not finite."""
    values = [row.get(name) for row in history]
    finite = [v for v in values if v is not None and math.isfinite(v)]
    if not finite:
        return ""
    inner_width, inner_height = CHART_WIDTH - 2 * CHART_MARGIN, CHART_HEIGHT - 2 * CHART_MARGIN
    line, dots, crosses, pen = "", "", "", "M"
    for position, (value, height) in enumerate(zip(values, training_history.heights(values), strict=True)):
        x = CHART_MARGIN + inner_width * position / max(1, len(values) - 1)
        if height is None:
            if value is not None:
                crosses += f'<path class="cross" d="M{x - 4:.1f} 4l8 8m0 -8l-8 8"><title>{value}</title></path>'
            pen = "M"
            continue
        y = CHART_MARGIN + inner_height * (1 - height)
        step = history[position].get("step")
        at = "" if step is None else f"step {step:,}: "
        dots += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"><title>{at}{number(value)}</title></circle>'
        line += f"{pen}{x:.1f} {y:.1f}"
        pen = "L"
    steps = [f"{row['step']:,}" for row in (history[0], history[-1]) if "step" in row]
    scale = ", logarithmic" if training_history.is_logarithmic(values) else ""
    last = "" if values[-1] is None else f"; last {values[-1]:.4g}"
    extent = " to ".join(dict.fromkeys(f"{value:.4g}" for value in (min(finite), max(finite))))
    legend = f"; {_CROSS} not finite" if any(v is not None and not math.isfinite(v) for v in values[:-1]) else ""
    caption = f"{name}: {extent}{scale}{last}{legend}"
    between = f"<span>step {' to '.join(dict.fromkeys(steps))}</span>" if steps else ""
    return (
        f"<figure><figcaption><span>{escape(caption)}</span>{between}</figcaption>"
        f'<svg viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" role="img" aria-label="{escape(caption)}">'
        f'<path class="line" d="{line}"/>{dots}{crosses}</svg></figure>'
    )


def _table(groups: Sequence[Group]) -> str:
    rows = "".join(
        f"<tr><td>{g.count:,}</td><td>{_step(g.first)}</td><td>{_step(g.last)}</td><td>{escape(verdict(g.first))}</td></tr>"
        for g in groups
    )
    total = sum(g.count for g in groups)
    title = f"All {total:,} events" if total > 1 else "The event"
    heads = "<tr><th>times</th><th>first step</th><th>last step</th><th>what</th></tr>"
    return f'<h2>{title}</h2>\n<table class="events">{heads}{rows}</table>'


def _step(event: NaNEvent | GradEvent) -> str:
    step = step_of(event)
    return "" if step is None else f"{step:,}"
