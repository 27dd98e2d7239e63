"""The user's line in an event and its report, however the file is written and whatever has become of it since."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

import retrograd as rg
from retrograd.anomaly import watch
from retrograd.anomaly.adapters.program.source_location import _is_code
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.report import format_event
from tests.anomaly.both import executed, libraries, line, mended, only_event, run


def event_of(path: Path, program: str, edited: str | None = None) -> NaNEvent:
    """Return the event of a program whose file may be edited while it runs."""

    def edit() -> None:
        path.write_text(edited or program, encoding="utf-8")

    path.write_text(program, encoding="utf-8")
    linecache.checkcache(str(path))
    with watch(policy="record") as w:
        exec(compile(program, str(path), "exec"), {"rg": rg, "edit": edit})
    return only_event(w)


BACKSLASHES = """
x = torch.tensor([0.0, 4.0], requires_grad=True)
y = x \\
    / x \\
    + 1
y.sum().backward()
"""


@libraries
def test_a_statement_with_backslashes_is_mended_in_one_line(library: str) -> None:
    """The lines are joined without it, else they would be no Python; at the end of the line it stays."""
    event = only_event(run(library, BACKSLASHES))
    assert event.code_line == "y = x / x \\"
    assert event.code_line[event.col : event.end_col] == "x / x"
    assert (event.remedy or "").replace("rg.", "torch.") == (
        "y = torch.where(x == 0, 1, x / torch.where(x == 0, 1.0, x)) \\"
    )


def test_comments_after_an_open_parenthesis_are_left_out() -> None:
    """Parentheses that nothing closes in it do not hide where the comments are."""
    text = """
x = torch.tensor([0.0, 4.0], requires_grad=True)
y = torch.exp(x /  # the first (of two
              x  # and the second
              * 1.0)
y.sum().backward()
"""
    event = only_event(run("retrograd", text))
    assert event.code_line is not None
    assert event.code_line[event.col : event.end_col] == "x / x"


@pytest.mark.parametrize("character", ["\f", "\x1c", "\x85", "\u2028"])
def test_characters_that_do_not_end_a_line_of_python_are_kept(tmp_path: Path, character: str) -> None:
    statement = f"y = {{'a{character}b': rg.log(x)}}"
    text = f"x = rg.tensor([0.0], requires_grad=True)\n{statement}\ny['a{character}b'].sum().backward()\n"
    shown = format_event(event_of(tmp_path / "train.py", text)).split("\n")
    assert f"> 2 | {statement}" in shown
    assert any(line.endswith(statement.replace("(x)", "(rg.clamp(x, min=1e-12))")) for line in shown)


PROGRAM = """
x = rg.tensor([0.0, 4.0], requires_grad=True)
edit()
loss = rg.log(x).sum()
loss.backward()
"""

EDITED = {
    "a comment": "# much of what stood here is gone\n" * 8,
    "a shorter file": "import this\n",
    "short lines": "y = 0\n" * 8,
    "within a character": ("# " + "\N{LATIN SMALL LETTER E WITH ACUTE}" * 20 + "\n") * 8,
    "wide characters": ("x" + "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 8 + "\n") * 8,
    "further lines": PROGRAM.replace("\n", "\n    # what comes next is as it was\n", 3),
}


@pytest.mark.parametrize("text", EDITED.values(), ids=EDITED)
def test_the_line_of_an_edited_file_has_its_number_and_no_code(tmp_path: Path, text: str) -> None:
    """The number of the line still says where it was; another text in its place would be wrong."""
    path = tmp_path / "train.py"
    event = event_of(path, PROGRAM, text)
    assert (event.op, event.lineno, event.code_line, event.col) == ("log", 4, None, None)
    shown = format_event(event)
    assert f"{path}:4\n\noperands" in shown
    assert "Change line" not in shown


@pytest.mark.parametrize(
    "text",
    ["log(x)", "x / x", "x -= rg.log(x)", "{x!r}", "{x:>{width}}", "{x, 1}", "{}", "yield x", "*x, y", "[a, *_]"],
)
def test_code_that_an_instruction_may_belong_to_is_recognised(text: str) -> None:
    """From Python 3.12 on, a part of an f-string as well."""
    assert _is_code(text)
    assert not _is_code(f"{text} (")


def test_the_code_is_shown_if_the_file_is_edited_elsewhere(tmp_path: Path) -> None:
    event = event_of(tmp_path / "train.py", PROGRAM, PROGRAM + "# the end\n")
    assert (event.lineno, event.code_line) == (4, "loss = rg.log(x).sum()")


GOES_ON = """
x = torch.tensor([0.0, 2.0], requires_grad=True)
y = (
    torch.exp(-x)
    {}  # born here
    + x
)
y.sum().backward()
"""
LAST = """
x = torch.tensor([0.0, 2.0], requires_grad=True)
y = (torch.exp(-x)
     {})  # born here
y.sum().backward()
"""


@libraries
@pytest.mark.parametrize("text", [GOES_ON, LAST])
@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("- torch.sin(x) / x", 0.0),
        ("+ torch.sin(x) / x", 2.0),
        ("- torch.sqrt(x**2)", 1.0),
        ("- torch.log(x) * x", 1.0),
        ("- x * torch.log(x) * 2", 1.0),
        ("+ torch.sqrt(x) * 0", 1.0),
    ],
)
def test_the_remedy_keeps_the_operator_that_begins_a_line(library: str, text: str, term: str, value: float) -> None:
    """The operator stays, with its sign; so do parentheses that the line closes and another one has opened."""
    program = text.format(term)
    event = only_event(run(library, program, True))
    assert event.lineno == line(program)
    assert (event.remedy or "").startswith(term[0])
    found = executed(library, mended(program, event))
    assert found["y"][0].item() == pytest.approx(value, abs=1e-5)
    assert found["x"].grad.isfinite().all()
    before = executed(library, program)
    assert found["y"][1].item() == pytest.approx(before["y"][1].item())


WITHOUT_NAMES = """from retrograd.nn import Parameter
{}
x = Parameter(ones(2))
y = (x / (x * 0)).sum()
y.backward()
"""


@pytest.mark.parametrize(
    ("imports", "missing"),
    [
        ("from retrograd import ones", "(The file lacks `import retrograd as rg`.)"),
        ("from retrograd import ones; import retrograd as rg", None),
        ("import retrograd; ones = retrograd.ones", None),
        ("from retrograd import ones; rg = __import__('retrograd')", None),
    ],
)
def test_the_remedy_says_which_import_the_file_lacks(tmp_path: Path, imports: str, missing: str | None) -> None:
    event = event_of(tmp_path / "train.py", WITHOUT_NAMES.format(imports))
    assert ("retrograd.where(" if "import retrograd;" in imports else "rg.where(") in (event.remedy or "")
    assert (event.cause or "").endswith(missing or "at 0.")
