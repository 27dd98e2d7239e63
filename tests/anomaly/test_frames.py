"""The local variables of the engine that a watch reads by name: those who rename one learn it here."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from retrograd.anomaly.adapters.retrograd import births
from retrograd.autograd.function import Function
from retrograd.core import engine, record
from retrograd.core.calls import arguments, in_place, operands
from retrograd.core.jvp import jvp
from retrograd.core.node import AccumulateGrad
from retrograd.nn.modules.module import Module
from retrograd.nn.utils.clip_grad import clip_grads_with_norm_

# By the functions that have them; of one that makes the function of an operation, those of what it makes.
READ: dict[Callable[..., Any], tuple[str, ...]] = {
    engine._loop: ("node", "g", "rule"),
    engine._step: ("g",),
    engine._gradients: ("g",),
    engine._add: ("node", "gi", "old", "owned"),
    engine._add_to_output: ("node", "gi", "grads", "nr"),
    AccumulateGrad.accumulate: ("self", "g"),
    AccumulateGrad.accumulate_recorded: ("self", "g"),
    Function.__dict__["_apply"].__func__: ("cls", "args", "ctx"),
    operands.unary_caller: ("op", "input"),
    operands.binary_caller: ("op", "input", "other"),
    operands.product_caller: ("op", "input", "other"),
    arguments._short_caller: ("op", "input", "arguments"),
    in_place.write_unrecorded: ("op", "target", "other"),
    in_place.apply_inplace: ("op", "bound", "target", "node"),
    record.apply: ("op", "bound"),
    record.finish: ("op", "bound"),
    jvp: ("op", "bound", "results", "tangents"),
    Module.__call__: ("self",),
    clip_grads_with_norm_: ("total_norm", "max_norm"),
}


@pytest.mark.parametrize("function", READ, ids=lambda function: function.__qualname__)
def test_the_variables_that_the_watch_reads_exist(function: Callable[..., Any]) -> None:
    code = inspect.unwrap(function).__code__
    made = [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == "call"]
    code = made[0] if made else code
    assert set(READ[function]) <= {*code.co_varnames, *code.co_cellvars, *code.co_freevars}


def read_in(path: Path) -> Iterator[str]:
    """The names by which variables of frames are read: ``frame.f_locals["g"]``, ``values.get("rule")``."""

    def is_of_variables(node: ast.AST) -> bool:
        return ast.unparse(node).rpartition(".")[2] in ("f_locals", "values")

    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Subscript) and is_of_variables(node.value):
            yield ast.literal_eval(node.slice)
        elif isinstance(node, ast.Compare) and is_of_variables(node.comparators[0]):
            yield ast.literal_eval(node.left)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("f_locals.get", "values.get")):
            yield ast.literal_eval(node.args[0])


def test_the_watch_reads_no_other_variables() -> None:
    names = set(read_in(Path(births.__file__)))
    assert "rule" in names and "op" in names
    assert names <= {name for some in READ.values() for name in some}
