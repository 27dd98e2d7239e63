"""Where a program constructs its optimizer, and where it writes the learning rate."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType, FunctionType, ModuleType
from typing import Any

from retrograd.anomaly.adapters.program.syntax import body, lines_of
from retrograd.anomaly.adapters.program.variables import local_variables, named_variables
from retrograd.anomaly.catalogue._source_line import dotted, number_written
from retrograd.anomaly.parsing import indentation_of, parameters_of, tree_of
from retrograd.anomaly.stack_frames import is_own, is_own_file, outwards
from retrograd.core.notebooks import cells, shown_name

_PARTS = (ast.expr, ast.keyword, ast.withitem, ast.arguments)
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)
_RATE = re.compile(r"(?i)(.*_)?(lr|learning_?rate)")


@dataclass(frozen=True)
class Construction:
    """A statement that constructs an object, and the constructor call within it."""

    filename: str
    statement: ast.stmt
    call: ast.Call

    def is_given_to(self, names: set[str]) -> bool:
        """Whether the statement assigns the object to one of these names."""
        targets = self.statement.targets if isinstance(self.statement, ast.Assign) else []
        return any(ast.unparse(each) in names for each in targets)

    def context(self) -> dict[str, Any]:
        """Its line, or its several lines joined into one, for the context of an event."""
        if not isinstance(self.statement, _SIMPLE):
            return {}
        lines = (linecache.getline(self.filename, number).strip() for number in lines_of(self.statement))
        text = " ".join(lines) if len(lines_of(self.statement)) == 1 else ast.unparse(self.statement)
        return {"code_line": text, "lineno": self.statement.lineno, "filename": self.filename}

    def has_not_run(self, frames: Iterable[FrameType]) -> bool:
        """Whether one of these running functions contains it, but lacks the variable that it would have assigned."""
        targets = self.statement.targets if isinstance(self.statement, ast.Assign) else []
        wanted = {each.id for each in targets if isinstance(each, ast.Name)}
        own = [each for each in frames if shown_name(each.f_code.co_filename) == self.filename]
        around = [each for each in own if any(node is self.statement for node in body(each.f_code))]
        return any(not wanted <= local_variables(each).keys() for each in around)

    def may_have(self, options: Mapping[str, Any]) -> bool:
        """Whether the numbers passed agree with an optimizer's options, present or initial."""
        given = {each.arg: number_written(each.value) for each in self.call.keywords}
        if (rate := self.rate()) is not None:
            given["lr"] = number_written(rate)
        begun = {"lr": options.get("initial_lr")}
        return all(each in (None, options.get(str(name)), begun.get(str(name))) for name, each in given.items())

    def rate(self) -> ast.expr | None:
        """The learning rate passed, by keyword or as every optimizer's second argument."""
        named = next((each.value for each in self.call.keywords if each.arg == "lr"), None)
        return self.call.args[1] if named is None and len(self.call.args) > 1 else named


def construction_of(frame: FrameType, optimizer: Any, options: Mapping[str, Any]) -> Construction | None:
    """Where the program constructed an optimizer: by the variable that holds it, or the only possible place.

    Parameters
    ----------
    frame
        The user's frame from which the search for the variable goes outwards.
    optimizer
        The optimizer.
    options
        The options of one of its groups.
    """
    kind = type(optimizer).__name__
    own = [each for each in outwards(frame) if is_own(each.f_code)]
    for walked in own:
        names = {name for name, value in named_variables(walked) if value is optimizer}
        filename = shown_name(walked.f_code.co_filename)
        made = [each for each in _constructions(filename, kind) if each.is_given_to(names)]
        above = [each for each in made if walked.f_code.co_firstlineno <= each.statement.lineno <= walked.f_lineno]
        if above or len(made) == 1:  # else a call passed it under this name, and it has another further out
            return (above or made)[-1]
    everywhere = [each for filename in _files(frame) for each in _constructions(filename, kind)]
    possible = [each for each in everywhere if each.may_have(options) and not each.has_not_run(own)]
    if len(possible) > 1 and {each.filename for each in possible} <= set(cells()):
        return possible[-1]  # a cell that was changed is rerun
    return possible[0] if len(possible) == 1 else None


def rate_given(frame: FrameType, rate: float) -> dict[str, Any]:
    """The only number in the program named as a learning rate that equals this one, for the context of an event."""
    found = [
        (filename, node)
        for filename in _files(frame)
        for name, node in _named(tree_of(filename))
        if _RATE.fullmatch(name) and number_written(node) == rate
    ]
    return told(*found[0]) if len(found) == 1 else {}


def rate_set(frame: FrameType) -> dict[str, Any]:
    """The only learning rate that the program assigns in an optimizer's groups, for the context of an event."""
    found = [
        (filename, node.value)
        for filename in _files(frame)
        for node in ast.walk(tree_of(filename))
        if isinstance(node, ast.Assign) and any(_is_rate_of_group(each) for each in node.targets)
    ]
    return told(*found[0]) if len(found) == 1 else {}


def _is_rate_of_group(target: ast.expr) -> bool:
    """Whether it is ``group["lr"]``."""
    return isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and target.slice.value == "lr"


def told(filename: str, node: ast.expr) -> dict[str, Any]:
    """A ``"rate"`` in an event's context: an expression, its line and its columns; empty unless it is on one line."""
    text = linecache.getline(filename, node.lineno)
    if node.end_lineno != node.lineno or not text:
        return {}
    indent = indentation_of(text)
    first, last = (len(text.encode()[:each].decode()) - indent for each in (node.col_offset, node.end_col_offset or 0))
    known = number_written(node)
    number = {} if known is None else {"lr": float(known)}
    where = {"code_line": text.strip(), "lineno": node.lineno, "filename": filename, "col": first, "end_col": last}
    return {"name": ast.unparse(node), **number, **where}


def _constructions(filename: str, kind: str) -> Iterator[Construction]:
    """The calls of a class in a file."""
    if not any(kind in line for line in linecache.getlines(filename)):
        return
    for statement in ast.walk(tree_of(filename)):
        if isinstance(statement, ast.stmt):
            parts = (each for each in ast.iter_child_nodes(statement) if isinstance(each, _PARTS))
            for node in (each for part in parts for each in ast.walk(part)):
                if isinstance(node, ast.Call) and (dotted(node.func) or "").rpartition(".")[2] == kind:
                    yield Construction(filename, statement, node)


def _files(frame: FrameType) -> list[str]:
    """The program's files: those of its running functions, of what these import, and the cells of a notebook."""
    own = [each for each in outwards(frame) if is_own(each.f_code)]
    files = dict.fromkeys((*(shown_name(each.f_code.co_filename) for each in own), *cells()))
    waiting = [each.f_globals for each in own]
    for variables in waiting:
        for value in list(variables.values()):
            name = _module_of(value)
            filename = getattr(sys.modules.get(name), "__file__", None)
            if filename and filename not in files and is_own_file(filename):
                files[filename] = None
                waiting.append(vars(sys.modules[name]))
    return list(files)


def _module_of(value: Any) -> str:
    """The name of the module that a value is, or, for a class or function, comes from."""
    if isinstance(value, ModuleType):
        return value.__name__
    return str(value.__module__) if isinstance(value, (type, FunctionType)) else ""


def _named(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The named expressions of a file: arguments, variables, entries of dictionaries, command-line options."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from ((each.arg, each.value) for each in node.keywords if each.arg)
            options = [
                str(each.value).lstrip("-").replace("-", "_") for each in node.args if isinstance(each, ast.Constant)
            ]
            yield from ((options[-1], each.value) for each in node.keywords if options and each.arg == "default")
        elif isinstance(node, ast.Assign):
            yield from ((ast.unparse(each).rpartition(".")[2], node.value) for each in node.targets)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield ast.unparse(node.target).rpartition(".")[2], node.value
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from ((str(key.value), value) for key, value in pairs if isinstance(key, ast.Constant))
        elif isinstance(node, ast.arguments):
            yield from ((name, value) for name, value in parameters_of(node).items() if value is not None)
