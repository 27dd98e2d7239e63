"""Reports of anomalies for a terminal."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograd.anomaly.catalogue import diagnose
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.report import (
    Entry,
    Run,
    format_event,
    format_events,
    format_run,
    print_event,
    print_events,
    print_run,
)
from retrograd.anomaly.report.source import display_width
from retrograd.anomaly.report.style import style_of
from retrograd.anomaly.report.training_history import sparkline
from retrograd.anomaly.shell import command_line
from retrograd.anomaly.surroundings import Surroundings
from tests.anomaly.samples import BACKWARD, EVENT, HISTORY, SPIKE, event

ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def row(text: str, start: str) -> str:
    """Return the only line that starts with a text."""
    (found,) = [line for line in text.splitlines() if line.startswith(start)]
    return found


def marked(text: str) -> str:
    """Return the text above the carets."""
    lines = text.splitlines()
    (below,) = [n for n, line in enumerate(lines) if set(line.partition("|")[2].strip()) == {"^"}]
    first, last = lines[below].index("^"), lines[below].rindex("^")
    return lines[below - 1][first : last + 1]


def test_a_report_fits_a_screen() -> None:
    lines = format_event(EVENT, history=HISTORY, outcome="update withheld, weights are clean").splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_the_first_line_says_what_where_when_and_the_outcome() -> None:
    lines = format_event(EVENT, outcome="update withheld, weights are clean").splitlines()
    assert lines[1] == "-Inf born in log, train.py:41, step 47,012 - update withheld, weights are clean"


def test_a_report_lists_operands_result_path_and_remedy() -> None:
    text = format_event(EVENT)
    assert row(text, "operands").split(maxsplit=1)[1] == "input = 0.0 at [3, 7]"
    assert row(text, "result").split(maxsplit=1)[1] == "(32, 10) float32, 12 -Inf of 320; the others: -103.3 to -0.5"
    assert row(text, "path").split(maxsplit=1)[1] == "log -> mul -> sum -> neg -> div -> loss"
    assert row(text, "instead").split(maxsplit=1)[1] == EVENT.remedy
    assert "Change line 41" in row(text, "next")


def test_a_birth_in_backward_is_called_one() -> None:
    text = format_event(BACKWARD)
    assert "NaN born in the backward of sqrt, model.py:7" in text
    assert "SqrtBackward0 -> AccumulateGrad -> the gradient of fc.weight" in text
    assert marked(text) == "rg.sqrt(s)"


def test_equal_finite_elements_are_shown_as_one_number() -> None:
    assert "the others: 2.5\n" in format_event(event(output_stats={"min": 2.5, "mean": 2.5, "max": 2.5}))
    assert "the others" not in format_event(event(output_stats={"min": None, "mean": 2.5, "max": 2.5}))


def test_a_leaf_is_shown_with_its_kind_and_name() -> None:
    context = {"leaf": "parameter", "name": "encoder.0.weight"}
    leaf = NaNEvent(kind="leaf", op="leaf", nan_count=1, surroundings=Surroundings(context=context))
    assert "NaN came in with the parameter encoder.0.weight" in format_event(leaf)
    on_its_way = replace(leaf, path=("AccumulateGrad", "MulBackward0"), harmed="loss")
    shown = row(format_event(on_its_way), "path").split(maxsplit=1)[1]
    assert shown == "the parameter encoder.0.weight -> mul -> loss"


@pytest.mark.parametrize(
    ("op", "line", "guilty"),
    [
        ("log", "return -(target * rg.log(p)).sum()", "rg.log(p)"),
        ("log", "        loss = p.log().sum()", "p.log()"),
        ("div", "y = a + b / c", "b / c"),
        ("true_divide", "y = np.divide(a, b)", "np.divide(a, b)"),
        ("pow", "\tz = x ** 0.5", "x ** 0.5"),
        ("matmul", "h = w @ x", "w @ x"),
        ("exp", "größe = größer + rg.exp(länge)", "rg.exp(länge)"),
        ("log", "if rg.log(x).sum() > 0:", "rg.log(x)"),
        ("sqrt", "with rg.no_grad(): y = rg.sqrt(x)", "rg.sqrt(x)"),
        ("log", "elif rg.log(x).sum() > 0:", "rg.log(x)"),
    ],
)
def test_the_carets_mark_the_guilty_call(op: str, line: str, guilty: str) -> None:
    assert marked(format_event(event(op=op, code_line=line))) == guilty


def test_the_carets_mark_the_columns_of_the_event() -> None:
    line = "    y = rg.log(a) + rg.log(b)"
    first = line.index("rg.log(b)")
    assert marked(format_event(event(code_line=line, col=first, end_col=len(line)))) == "rg.log(b)"
    assert "^" not in format_event(event(code_line=line)), "either may be guilty"


def test_a_long_line_is_cut_around_the_carets() -> None:
    line = f"y = {'a + ' * 60}rg.log(b) + {'c + ' * 60}d"
    text = format_event(event(code_line=line, remedy=None), width=60)
    assert marked(text) == "rg.log(b)"
    assert max(map(len, text.splitlines())) <= 60


def test_wide_code_goes_below_its_label() -> None:
    code = f"y = {'a + ' * 30}b"
    lines = format_event(event(remedy=code)).splitlines()
    assert lines[lines.index("instead") + 1] == code


def test_wide_characters_count_twice_in_a_long_line() -> None:
    for width in range(40, 100):
        line = f"重み = {'数値 + ' * 30}rg.log(対数) + {'größe + 数 + ' * 20}d"
        text = format_event(event(code_line=line, remedy=None), width=width)
        lines = text.splitlines()
        assert max(map(display_width, lines)) <= width
        below = next(number for number, each in enumerate(lines) if "^" in each)
        start, end = lines[below].index("^"), lines[below].rindex("^") + 1
        before = lines[below - 1].partition("rg.log(対数)")[0]
        assert (display_width(before), end - start) == (start, display_width("rg.log(対数)"))


def test_the_carets_stand_below_wide_characters() -> None:
    text = format_event(event(code_line="y = f('数値') + rg.log(b)"))
    lines = text.splitlines()
    below = next(line for line in lines if "^" in line)
    above = lines[lines.index(below) - 1]
    assert display_width(above[: above.index("rg.log")]) == below.index("^")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("loss", 4),
        ("\u540d\u524d", 4),  # a name in Japanese
        ("e\u0301", 1),
        ("\u0e17\u0e35\u0e48", 1),  # a syllable in Thai
        ("\u0915\u0941", 1),  # in Hindi
        ("\U0001f468\u200d\U0001f469", 4),  # joined, in terminals that know how to
        ("so\xadft", 5),
    ],
)
def test_display_width_counts_columns(text: str, columns: int) -> None:
    assert display_width(text) == columns


def test_source_is_shown_with_the_line_before(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("def f(x):\n    y = x - 1\n    return rg.log(y)\n")
    text = format_event(event(filename=str(path), lineno=3, code_line="return rg.log(y)"))
    assert "  2 | y = x - 1\n> 3 | return rg.log(y)\n" in text


def test_changed_source_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("# a new first line\ndef f(x):\n    return rg.log(x)\n")
    text = format_event(event(filename=str(path), lineno=2, code_line="return rg.log(x)"))
    assert "> 2 | return rg.log(x)" in text
    assert "new first line" not in text
    assert "def f" not in text


def test_history_is_aligned_and_ends_with_the_event() -> None:
    text = format_event(EVENT, history=HISTORY)
    step, loss, norm = (row(text, "before"), *text.splitlines()[text.splitlines().index(row(text, "before")) + 1 :][:2])
    assert step.split()[-1] == "47,012"
    assert loss.split()[-1] == "nan"
    assert norm.split()[-1] == "inf"
    assert len(step) == len(loss) == len(norm)


def test_a_history_of_the_bad_step_alone_is_not_shown() -> None:
    assert "before" not in format_event(EVENT, history=HISTORY[-1:])
    assert "before" in format_event(EVENT, history=HISTORY[-2:-1])


def test_a_single_gradient_norm_beside_several_losses_is_not_shown() -> None:
    losses = [{"step": step, "loss": 0.5} for step in range(30)]
    one, two = [dict(row) for row in losses], [dict(row) for row in losses]
    one[-3]["grad_norm"] = two[-3]["grad_norm"] = two[-2]["grad_norm"] = 1.25
    assert format_event(EVENT, history=one) == format_event(EVENT, history=losses)
    assert "grad_norm" in format_event(EVENT, history=two)
    assert "1.25" in format_event(EVENT, history=[{"step": 7, "grad_norm": 1.25}])  # where nothing else is known


def test_the_history_is_taken_from_the_surroundings() -> None:
    remembered = event(surroundings=Surroundings(context={"loss_history": (0.25, 0.125)}))
    text = format_event(remembered)
    assert row(text, "before").split()[1:] == ["step", "47,011", "47,012"]
    assert "0.25" in text


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([1.0, 2.0, 3.0], "▁▅█"),
        ([1.0, 10.0, 100.0], "▁▅█"),
        ([0.0, 1.0, float("nan")], "▁█!"),
        ([5.0, 5.0], "▁▁"),
        ([1.0, None, 2.0], "▁ █"),
        ([float("inf")], "!"),
        ([-1e308, 1e308], "▁▁"),
    ],
)
def test_a_sparkline_shows_the_order_of_magnitude(values: list[float | None], drawn: str) -> None:
    assert sparkline(values) == drawn


def test_a_long_path_keeps_its_ends() -> None:
    text = format_event(event(path=tuple(f"node{n}" for n in range(50))))
    assert row(text, "path").split(maxsplit=1)[1] == "node0 -> node1 -> node2 -> (45 more) -> node48 -> node49 -> loss"


def test_an_event_with_few_facts_is_shown_without_none() -> None:
    text = format_event(NaNEvent(kind="invalid", op="custom"))
    assert text.splitlines()[1] == "NaN born in custom"
    assert "None" not in text


def test_the_report_says_if_the_second_run_did_not_reproduce_the_birth() -> None:
    assert "run again and did not reproduce it" in " ".join(format_event(event(reproducible=False)).split())


def test_a_list_has_one_line_for_each_birthplace() -> None:
    later = [event(step=step) for step in range(47013, 47023)]
    lines = format_events([SPIKE, EVENT, *later, BACKWARD], width=100).splitlines()[2:-1]
    assert lines[0].split()[:2] == ["1.", "1x"]
    assert "gradient norm of fc.weight" in lines[0]
    assert lines[1].split()[:2] == ["2.", "11x"]
    assert "the last at 47,022" in lines[1]
    assert "model.py:7" in lines[2]
    assert len(lines) == 3


def test_a_run_shows_the_first_birth_and_lists_the_others() -> None:
    run = Run(entries=[Entry(event=e) for e in (SPIKE, EVENT, BACKWARD)])
    text = format_run(run)
    assert text.count("\noperands") == 1
    assert "3 birthplaces, 3 events" in text
    assert format_run(run, everything=True).count("\noperands") == 2
    assert "No anomaly" in format_run(Run())


def test_a_long_list_is_cut_so_that_the_first_birth_stays_on_the_screen() -> None:
    run = Run(entries=[Entry(event=event(lineno=number)) for number in range(1, 31)])
    text = format_run(run)
    assert "30 birthplaces, 30 events" in text
    assert "train.py:10, step" in text
    assert "train.py:11" not in text
    assert "and 20 more\n" in text
    assert "train.py:30" in format_run(run, everything=True)
    stream = io.StringIO()
    print_run(run, files=[Path("runs 7", "events.jsonl")], file=stream)
    assert f"and 20 more: {command_line(('retrograd', 'report', '--all', 'runs 7'))}\n" in stream.getvalue()
    assert "     and" not in format_run(Run(entries=run.entries[:11])), "a line that is as long as what it leaves out"


def test_output_without_a_terminal_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    stream = io.StringIO()
    print_event(EVENT, history=HISTORY, file=stream)
    assert stream.getvalue().isascii()
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_output_is_plain_on_request(monkeypatch: pytest.MonkeyPatch, variable: tuple[str, str]) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert style_of(Terminal()).color
    monkeypatch.setenv(*variable)
    stream = Terminal()
    print_event(EVENT, file=stream)
    assert stream.getvalue().isascii()


def test_a_terminal_gets_colours_and_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "78")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    print_event(EVENT, history=HISTORY, file=stream)
    text = stream.getvalue()
    assert "─" in text
    assert "█" in text
    assert ANSI.search(text)
    assert max(map(display_width, ANSI.sub("", text).splitlines())) == 78
    assert text.count("\x1b[0m") * 2 == len(ANSI.findall(text)), "every colour is switched off again"


@pytest.mark.parametrize(
    ("mode", "settable", "colored"), [(7, False, True), (3, True, True), (3, False, False), (None, True, False)]
)
def test_a_windows_console_gets_colours_if_it_understands_escapes(
    monkeypatch: pytest.MonkeyPatch, mode: int | None, settable: bool, colored: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    asked: list[int] = []

    def get_mode(handle: Any, reference: Any) -> int:
        assert handle.value == 1234
        reference._obj.value = mode or 0
        return mode is not None  # the null device is no console

    def set_mode(handle: Any, wanted: int) -> int:
        asked.append(wanted)
        return settable

    kernel = SimpleNamespace(GetConsoleMode=get_mode, SetConsoleMode=set_mode)
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setattr("ctypes.windll", SimpleNamespace(kernel32=kernel), raising=False)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(get_osfhandle={2: 1234}.get))
    monkeypatch.setattr(Terminal, "fileno", lambda self: 2)
    assert style_of(Terminal()).color is colored
    assert asked == ([7] if mode == 3 else [])
    monkeypatch.delattr(Terminal, "fileno")
    assert not style_of(Terminal()).color, "a window that is no console"


def test_without_a_console_printing_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)  # as under pythonw.exe
    monkeypatch.setattr("sys.stdout", None)
    print_event(EVENT)
    print_events([EVENT])
    print_run(Run(entries=[Entry(event=EVENT)]))


def test_a_stream_needs_only_a_method_write() -> None:
    class Log:
        text = ""

        def write(self, text: str) -> None:
            self.text += text

    log: Any = Log()
    print_event(EVENT, file=log)
    assert "born in log" in log.text


def test_a_report_starts_on_a_new_line() -> None:
    stream = io.StringIO("epoch 3:  41%|####   ")
    stream.seek(0, io.SEEK_END)
    print_event(EVENT, file=stream)
    assert stream.getvalue().splitlines()[0] == "epoch 3:  41%|####   "
    assert stream.getvalue().endswith("-\n")


def test_values_other_than_events_are_refused() -> None:
    with pytest.raises(TypeError, match="but got NoneType; the event of a watch that found nothing is None"):
        print_event(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="but got NoneType; the event of a watch that found nothing is None"):
        diagnose(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected a NaNEvent, but got GradEvent$"):
        format_event(SPIKE)  # type: ignore[arg-type]


def test_characters_that_the_stream_cannot_encode_are_escaped() -> None:
    binary = io.BytesIO()
    stream = io.TextIOWrapper(binary, encoding="ascii")
    print_event(event(code_line="größe = rg.log(p)"), file=stream)
    assert b"gr\\xf6\\xdfe" in binary.getvalue()


words = st.text(st.characters(codec="ascii", categories=("L", "N", "Zs")), max_size=60)


@given(
    width=st.integers(40, 100),
    cause=words,
    code=words,
    path=st.lists(words, max_size=20),
    operands=st.dictionaries(words, st.floats() | st.integers() | st.complex_numbers() | words, max_size=4),
)
def test_any_event_keeps_to_the_width(
    width: int, cause: str, code: str, path: list[str], operands: dict[str, object]
) -> None:
    some = event(cause=cause, code_line=code, path=tuple(path), operands=operands, remedy=None)
    lines = format_event(some, width=width, history=HISTORY).splitlines()
    assert max(map(len, lines)) <= width


_OWN_LINE = str(EVENT.code_line).strip()


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"remedy": _OWN_LINE}, "Change line 41 as above"),
        ({"remedy": "p = probabilities(x)", "remedy_lineno": 30}, "Change line 30 as above"),
        ({"remedy": f"norm.eps = 1e-5; {_OWN_LINE}"}, "where that object is created"),
        ({"remedy": "norm = torch.nn.LayerNorm(8, eps=1e-3)"}, "Create the layer as above, where it is created now"),
        (
            {"remedy": "m = nn.Linear(3, 1); o = SGD(m.parameters(), 1.0)", "remedy_lineno": 4},
            "Change line 4 as above",
        ),
        ({"remedy": "optimizer = Adam(model.parameters(), eps=1e-4)"}, "Create the optimizer as above"),
        ({"remedy": "lr = lr / 10"}, "Make the update steps smaller, as above"),
        ({"remedy": 'model.get_buffer("mask").zero_()'}, "Run the line above once, after whatever wrote"),
        ({"remedy": "y = x.clamp(min=0)"}, "Write what line 41 computes in the form above"),
        ({"remedy": "y = x.clamp(min=0)", "lineno": None}, "Change the code as above"),
        ({"remedy": "assert x == x, x"}, "Put the line above before line 41, where the value is used"),
        ({"remedy": "x = x[:1]", "kind": "leaf", "lineno": None}, "put the line above after the model is created"),
    ],
)
def test_the_last_row_says_what_to_change(facts: dict[str, Any], said: str) -> None:
    text = " ".join(format_event(replace(EVENT, **facts)).split())
    assert said in text
    assert "then run again." in text


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"kind": "error"}, "error in log"),
        ({"kind": "error", "is_backward": True}, "error in the backward of log"),
        ({"kind": "underflow"}, "underflow in log"),
        ({"op": "unknown", "harmed": "loss"}, "-Inf of unknown birth in loss"),
    ],
)
def test_errors_and_other_kinds_of_events_are_not_called_births(facts: dict[str, Any], said: str) -> None:
    assert format_event(replace(EVENT, **facts)).splitlines()[1].startswith(said)


def test_a_note_does_not_hide_that_the_birth_was_not_reproduced() -> None:
    text = " ".join(format_event(event(reproducible=False, note="The line was not noted.")).split())
    assert "The line was not noted." in text
    assert "run again and did not reproduce it" in text


def test_a_line_to_write_and_a_command_to_run_are_distinguished() -> None:
    known = event(remedy="assert x == x, x", rerun="retrograd run --from-step 4 train.py")
    shown = " ".join(format_event(known).split())
    assert 'Put the line at "instead" before line 41, where the value is used, then run again.' in shown
    assert "line above" not in shown
