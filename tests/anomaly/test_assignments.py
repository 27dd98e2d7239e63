"""Which statements of a function have given a variable its value."""

from __future__ import annotations

import linecache
from types import CodeType

import pytest

from retrograd.anomaly.adapters.program.assignments import made, statement_at, unpacked_with
from retrograd.core.sites import line_of

# Every line that gives a variable its value ends with a mark.
PROGRAM = """\
import functools

@functools.cache
def train(self, batch, rate):
    scale = rate * 2  # scale
    unused = batch + 1  # unused

    def inner(scale):
        weight = scale  # of another function
        return weight

    parts = []  # parts
    for part, (_, weight) in enumerate(batch):  # loop
        parts.append(part)  # parts
    while (left := scale) > 0:  # walrus
        weight *= left  # weight
    with open(
        "x"
    ) as self.file:
        text: str = self.file.read()  # text
    weight, *rest = (  # several
        weight,  # several
        parts,  # several
    )  # several
    for (
        features,
        labels,
    ) in batch:
        features = features.float()
    one, self.two = rest
    self.tell(unused)
    kept = self.rows[0]  # kept
    return features, labels, one
"""
FILENAME = "<program of test_assignments>"


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> CodeType:
    """The code of the function."""
    entry = (len(PROGRAM), None, PROGRAM.splitlines(keepends=True), FILENAME)
    monkeypatch.setitem(linecache.cache, FILENAME, entry)
    module = compile(PROGRAM, FILENAME, "exec")
    return next(each for each in module.co_consts if isinstance(each, CodeType))


def lines(*marks: str) -> set[int]:
    """The numbers of the lines with one of some marks."""
    return {n for n, each in enumerate(PROGRAM.splitlines(), 1) if each.partition("# ")[2] in marks and "# " in each}


WEIGHT = ("parts", "loop", "weight", "several", "walrus", "scale")


@pytest.mark.parametrize(
    ("name", "marks", "variables"),
    [
        ("unused", ("unused",), {"batch"}),
        ("scale", ("scale",), {"rate"}),
        ("left", ("walrus", "scale"), {"scale", "rate"}),
        (
            "weight",
            WEIGHT,
            {"batch", "enumerate", "left", "part", "parts", "parts.append", "rate", "scale"},
        ),
        ("parts[0]", ("parts", "loop"), None),
        ("kept", ("kept",), {"self", "self.rows"}),
        ("batch", (), set()),
        ("nobody", (), set()),
    ],
)
def test_made_gives_the_statements_that_gave_a_variable_its_value(
    train: CodeType, name: str, marks: tuple[str, ...], variables: set[str] | None
) -> None:
    found = made(train, name)
    assert found.lines == lines(*marks)
    assert variables is None or found.variables == variables


def test_made_includes_the_lines_of_a_context_manager(train: CodeType) -> None:
    head = next(n for n, each in enumerate(PROGRAM.splitlines(), 1) if "with open" in each)
    assert made(train, "text").lines == lines("text") | {head, head + 1, head + 2}


def test_statement_at_gives_all_lines_of_a_statement(train: CodeType) -> None:
    several = lines("several")
    assert [set(statement_at(train, each)) for each in several] == [several] * 4


@pytest.mark.parametrize(
    ("name", "together"),
    [
        ("features", ("features", "labels")),  # given something else since, but made of itself
        ("labels", ("features", "labels")),
        ("one", ()),  # together with what is no variable
        ("scale", ()),
        ("nobody", ()),
    ],
)
def test_unpacked_with_gives_the_names_of_the_same_unpacking(
    train: CodeType, name: str, together: tuple[str, ...]
) -> None:
    end = max(range(0, len(train.co_code), 2), key=lambda at: line_of(train, at))  # of what is written
    assert unpacked_with(train, end, name) == together
