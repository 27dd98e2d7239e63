"""Non-finite Python numbers: written in the line itself, or held by a variable."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import replace

from retrograd.anomaly.catalogue._expression import named, normal
from retrograd.anomaly.catalogue._line_inference import completed
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.catalogue._source_line import Line, is_name
from retrograd.anomaly.surroundings import Operand, Operation

_BY_MASKS = ("masked_fill", "where")  # whose infinities have a row of their own
_SHOWN = {math.inf: "Inf", -math.inf: "-Inf"}
_WRITES = ("clone", "copy_slices", "fill", "index_fill", "index_put", "setitem")
_MISSING = (
    "A NaN that marks missing elements turns every sum, mean and gradient they enter into NaN. Write a number there, "
    "or leave such elements out before computing anything from them."
)
_FROM_ELSEWHERE = (
    "It was computed earlier in Python or NumPy, or read in: the mean of an empty list, a statistic or a schedule "
    "divided by 0, a missing entry."
)


@cause(None, "number that is NaN")
def nan_number(scene: Scene) -> Finding | None:
    found = _taken(scene) if _is_number(scene) else _given(scene, math.isnan)
    if found is None:
        return None
    op, given = found
    text, literal = _written(scene, op, given)
    if literal:
        return Finding(
            f"This line itself {_does(op.op, f'NaN ({text})')}: no operation made it. {_MISSING}",
            _with(op, text, "0.0"),
            None,
            op.place,
        )
    if (made := _made_nan(scene)) is not None:
        return made
    if scene.context.get("untraced") and not is_name(text):
        return Finding(
            f"{op.op} was given NaN ({text}). Whether an operation of this step made it is not known, because nothing "
            "is recorded of what is computed without a gradient. Look at that expression, or at where it got its "
            "value.",
        )
    return Finding(
        f"{_was_given(op.op)} the number NaN ({text}); no operation of this step made it. {_origin(scene)}",
        None,
        f"assert {text} == {text}, {text}" if is_name(text) and not scene.context.get("inferred") else None,
        op.place,
    )


@cause(None, "number that is infinite")
def infinite_number(scene: Scene) -> Finding | None:
    found = None if scene.op in _BY_MASKS or scene.event.nan_count else _given(scene, math.isinf)
    if found is None:
        return None
    op, given = found
    text, literal = _written(scene, op, given)
    if literal:
        return Finding(
            f"This line itself {_does(op.op, f'{_SHOWN[given.value]} ({text})')}: no operation made it. Write the "
            "largest sensible number there instead, or use a condition for what the infinity was meant to decide.",
            None,
            None,
        )
    return Finding(
        f"{_was_given(op.op)} the number {_SHOWN[given.value]} ({text}); no operation of this step made it. "
        f"{_origin(scene)}",
        None,
        f'assert abs({text}) < float("inf"), {text}' if is_name(text) else None,
        op.place,
    )


@cause(None, "NaN written into the data")
def nan_in_data(scene: Scene) -> Finding | None:
    is_data = scene.kind == "leaf" and scene.context.get("leaf") in ("batch", "target") and scene.event.nan_count
    return _made_nan(scene) if is_data else None


def _made_nan(scene: Scene) -> Finding | None:
    """The finding if the line that assigned a variable writes NaN itself."""
    assigned = scene.context.get("assigned")
    line = Line.parse(assigned[0] if assigned else None)
    numbers = [node for node, known in line.constants() if known != known]
    text = next((line.text(node) for node in numbers if not line.is_item(node)), None)
    if assigned is None or text is None:
        return None
    made = replace(scene.birth, op="full", args=(), col=None, code_line=assigned[0], lineno=assigned[1])
    doubt = ", if it has run" if scene.context.get("in_branch") else ""
    return Finding(
        f"Line {assigned[1]}, `{assigned[0]}`, itself writes NaN ({text}){doubt}: no operation made it. {_MISSING}",
        _with(made, text, "0.0"),
        None,
        made.place,
    )


def _is_number(scene: Scene) -> bool:
    """Whether the NaN came in as a single number without a name."""
    is_data = scene.kind == "leaf" and scene.context.get("leaf") == "batch" and not scene.context.get("name")
    return is_data and scene.event.output_shape == () and scene.event.nan_count > 0


def _taken(scene: Scene) -> tuple[Operation, Operand] | None:
    """The operation that took a nameless number, and the number."""
    user = next((each for each in scene.surroundings.consumers if isinstance(each, Operation)), Operation(op=scene.op))
    op = completed(normal(user))
    name = next(iter(scene.event.operands), "other")
    return op, named(op, name) or Operand(name=name)


def _given(scene: Scene, is_such: Callable[[float], bool]) -> tuple[Operation, Operand] | None:
    """The birth, and the Python number among its operands for which ``is_such`` is true."""
    if scene.backward or scene.kind == "leaf":
        return None
    numbers = ((each, each.value) for each in scene.birth.args if each.constant and isinstance(each.value, float))
    return next(((scene.birth, each) for each, known in numbers if is_such(known)), None)


def _written(scene: Scene, op: Operation, given: Operand) -> tuple[str, bool]:
    """The source of a number, and whether it is a literal; the name of the parameter, if the line cannot be read."""
    text = given.text or Line.parse(op.code_line).text_given(given.name)
    if text is None:
        return scene.called(given, given.name), False
    written = Line.parse(text)
    return text, any(written.text(node) == text for node, _ in written.constants())


def _does(op: str, number: str) -> str:
    """What the line does with a number."""
    return f"writes {number}" if op in _WRITES else f"passes {number} to {op}"


def _was_given(op: str) -> str:
    return "This line writes" if op in _WRITES else f"{op} was given"


def _with(op: Operation, old: str, new: str) -> str | None:
    """The line with one expression replaced wherever it is written."""
    line = Line.parse(op.code_line)
    edits: dict[ast.AST, str] = {node: new for node, _ in line.constants() if line.text(node) == old}
    return line.replaced(edits) if edits else None


def _origin(scene: Scene) -> str:
    assigned = scene.context.get("assigned")
    if assigned:
        return f"It got its value at line {assigned[1]}, `{assigned[0]}`: look there."
    return f"{_FROM_ELSEWHERE} Look at where it got its value."


CAUSES = (nan_number, infinite_number, nan_in_data)
