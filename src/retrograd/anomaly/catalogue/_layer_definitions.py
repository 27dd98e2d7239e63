"""Where a program makes the layers that one of its lines calls."""

from __future__ import annotations

import ast
import linecache

from retrograd.anomaly.catalogue._scopes import assignments_to
from retrograd.anomaly.catalogue._source_line import Line
from retrograd.anomaly.surroundings import Operation, Place

_OF_SHAPES = frozenset(("Dropout", "Flatten", "Identity", "Unflatten"))


def last_layer(operation: Operation, kind: str, other: str) -> tuple[str, Place] | None:
    """The statement that makes the layer which called an operation, with that layer replaced by one of another kind.

    For a sequence of layers that is the last one. None unless it is found, and is of the ``kind``.
    """
    place, names = operation.place, {name for name, _ in Line.parse(operation.code_line).calls()}
    made = [statements[0] for name in names if len(statements := assignments_to(name, place)) == 1]
    texts = [(_with_another(_text(each, place), kind, other), each.lineno) for each in made]
    found = [(text, lineno) for text, lineno in texts if text is not None]
    if len(found) != 1 or place is None:
        return None
    text, lineno = found[0]
    return text, Place(lineno, place.filename)


def layer_with(name: str, kind: str, option: str, place: Place | None) -> tuple[str, Place] | None:
    """The statement that makes a layer of some kind, by what the program calls it, with one more option; or None.

    ``option`` is written as in ``"bias=False"``.
    """
    statements = assignments_to(name, place)
    if place is None or len(statements) != 1:
        return None
    line = Line.parse(_text(statements[0], place))
    calls = [node for called, node in line.calls() if called.rpartition(".")[2] == kind]
    if len(calls) != 1 or any(each.arg == option.partition("=")[0] for each in calls[0].keywords):
        return None
    given = line.text(calls[0])[:-1].rstrip().rstrip(",")
    new = line.replaced({calls[0]: f"{given}{'' if given.endswith('(') else ', '}{option})"})
    return None if new is None else (new, Place(statements[0].lineno, place.filename))


def _text(statement: ast.Assign, place: Place | None) -> str:
    """A statement as it is written, of several lines in one."""
    if place is None or place.filename is None or statement.end_lineno != statement.lineno:
        return ast.unparse(statement)
    return linecache.getline(place.filename, statement.lineno).strip()


def _with_another(text: str, kind: str, other: str) -> str | None:
    line = Line.parse(text)
    calls = sorted(line.calls(), key=lambda each: line.column(each[1]))
    layers = [each for each in calls if each[0].rpartition(".")[2] not in _OF_SHAPES]
    if not layers or layers[-1][0].rpartition(".")[2] != kind:
        return None
    name, node = layers[-1]
    return line.replaced({node: f"{name.removesuffix(kind)}{other}()"})
