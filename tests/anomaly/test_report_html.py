"""The page for a browser."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from pathlib import Path

from retrograd.anomaly.report import Entry, Report, Run, format_run
from retrograd.anomaly.report.html import format_html
from retrograd.anomaly.report.jsonl import Start
from tests.anomaly.samples import BACKWARD, EVENT, HISTORY, SPIKE, event


class Page(HTMLParser):
    """The text of each element by tag and class, and whether tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        name = ".".join((tag, *(value or "" for key, value in attributes if key == "class")))
        self.texts.setdefault(name, []).append("")
        if tag != "meta":
            self.open.append(name)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().split(".")[0] == tag

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_data(self, data: str) -> None:
        for name in self.open:
            self.texts[name][-1] += data


def page(*entries: Entry) -> Page:
    return Page(format_html(Run(entries=list(entries))))


def test_the_page_shows_all_parts_of_an_event() -> None:
    shown = page(Entry(event=EVENT, outcome="update withheld", history=HISTORY)).texts
    assert shown["h1"] == ["-Inf born in log, train.py:41, step 47,012"]
    assert shown["p.outcome"] == ["update withheld"]
    assert shown["mark"] == ["rg.log(p)"]
    assert shown["pre.good"] == [EVENT.remedy]
    assert shown["ol.path"] == ["logmulsumnegdivloss"]
    assert "0.0" in shown["table.facts"][0]
    assert len(shown["svg"]) == 2
    assert EVENT.cause in " ".join(shown["p"])


def test_the_page_shows_the_caller_of_a_package() -> None:
    led = {"filename": "/home/me/main.py", "lineno": 9, "code_line": "loss = model(ids)"}
    shown = page(Entry(event=event(callers=(led,)))).texts
    assert shown["p.place"][-1] == "called at /home/me/main.py:9  loss = model(ids)"


def test_the_page_loads_nothing_and_adapts_to_the_screen() -> None:
    text = format_html(Run(entries=[Entry(event=EVENT, history=HISTORY)]))
    assert not re.search(r"https?:|src=|@import|url\(|<script|<link", text)
    assert "prefers-color-scheme: dark" in text
    assert "width=device-width" in text


def test_charts_mark_values_that_are_not_finite() -> None:
    text = format_html(Run(entries=[Entry(event=EVENT, history=HISTORY)]))
    assert text.count('class="cross"') == 2
    assert "nan" not in "".join(re.findall(r' d="([^"]*)"', text))
    assert text.count("<circle") == 2 * (len(HISTORY) - 1)


def test_a_cross_before_the_end_is_explained() -> None:
    last = format_html(Run(entries=[Entry(event=EVENT, history=HISTORY)]))
    assert "not finite" not in last
    earlier = format_html(Run(entries=[Entry(event=EVENT, history=[*HISTORY, *HISTORY])]))
    assert "last nan; \N{MULTIPLICATION SIGN} not finite</span>" in earlier


def test_code_in_a_sentence_is_set_as_code() -> None:
    assert page(Entry(event=EVENT)).texts["code"][-1] == 'with retrograd.anomaly.expect_nonfinite("why"):'


def test_a_report_of_large_gradients_alone_says_what_to_do() -> None:
    run = Run(entries=[Entry(event=SPIKE)])
    assert "clip the gradient norm" in " ".join(format_html(run).split())
    assert "clip the gradient norm" in " ".join(format_run(run).split())
    assert "clip the gradient norm" not in " ".join(format_run(Run(entries=[*run.entries, Entry(event=EVENT)])).split())


def test_a_chart_of_one_value_shows_it_once() -> None:
    text = format_html(Run(entries=[Entry(event=EVENT, history=HISTORY[-2:])]))
    assert "<span>loss: 0.04167; last nan</span>" in text


def test_the_command_is_quoted_for_a_shell() -> None:
    run = Run(Start(command=("python", "my script.py"), time="2026-01-01T00:00:00Z"))
    assert "python &#x27;my script.py&#x27; · started" in format_html(run)


def test_the_page_lists_every_birthplace() -> None:
    shown = page(Entry(event=SPIKE), *[Entry(event=EVENT)] * 5, Entry(event=BACKWARD)).texts
    assert shown["h1"] == ["-Inf born in log, train.py:41, step 47,012"], "a birth before a mere warning"
    assert shown["summary"] == ["NaN born in the backward of sqrt, model.py:7, step 47,020"]
    (table,) = shown["table.events"]
    assert "gradient norm of fc.weight" in table
    assert "5" in table


def test_text_of_the_program_is_escaped() -> None:
    evil = "<script>alert('x')</script> & \"y\""
    text = format_html(Run(entries=[Entry(event=event(code_line=evil, cause=evil, remedy=evil, harmed=evil, op=evil))]))
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    Page(text)


def test_the_page_says_if_nothing_was_found_or_read() -> None:
    assert page().texts["h1.none"] == ["No anomaly was recorded"]
    torn = Run(torn=1)
    assert "<h1>No event can be read</h1>" in format_html(torn)
    assert "No event can be read.\n" in format_run(torn)
    assert page(Entry(event=SPIKE)).texts["h1"] == ["Large gradients"]


def test_a_file_name_that_is_no_unicode_is_escaped(tmp_path: Path) -> None:
    with Report(tmp_path) as report:
        report.write(event(filename=os.fsdecode(b"/home/me/train\xff.py")))
    assert r"train\udcff.py:41" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_is_written_when_the_report_closes(tmp_path: Path) -> None:
    with Report(tmp_path) as report:
        report.write(EVENT)
        assert not (tmp_path / "report.html").exists()
    assert report.files == (tmp_path / "events.jsonl", tmp_path / "report.html")
    assert Page((tmp_path / "report.html").read_text(encoding="utf-8")).texts["mark"] == ["rg.log(p)"]
