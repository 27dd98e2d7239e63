"""The table of operation tests as a program for type checkers: every call that torch accepts, and its result type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import retrograd as rg
from tests.ops.harness import Bound, Make, Row, to_ours
from tests.ops.table import ROWS

HEAD = """\
from typing import Literal, assert_type

import numpy as np

import retrograd as rg
from retrograd import Tensor

inf = float("inf")
nan = float("nan")
x: Tensor = rg.ones(2)
array = np.ones(2)
"""


class NoLiteralError(Exception):
    """An argument is neither a literal nor a tensor nor an array."""


def program() -> str:
    """Return every sample of the table as calls of a function and a method, if its arguments can be written down."""
    lines = dict.fromkeys(line for row in ROWS for line in lines_of(row))
    return HEAD + "\n".join(lines) + "\n"


def lines_of(row: Row) -> Iterator[str]:
    """Return the calls of one row with assertions about their result types."""
    dtype = "float64" if "float64" in row.dtypes else row.dtypes[0]
    for sample in row.samples(Make(dtype)):
        bound = Bound(row, sample, to_ours, rg, False)
        result = row.function(*bound.args, **bound.kwargs)
        try:
            positional = [written(each) for each in bound.args]
            keywords = [f"{name}={written(value)}" for name, value in bound.kwargs.items()]
        except NoLiteralError:
            continue
        place = place_of(row.name)
        if place is not None:
            yield asserted(f"{place}.{row.name}({', '.join(positional + keywords)})", result)
        if positional[:1] == ["x"] and row.method and hasattr(rg.Tensor, row.name):
            rest = ", ".join(positional[1:] + keywords)
            yield asserted(f"x.{row.name}({rest})", result)
            if row.inplace:
                yield asserted(f"x.{row.name}_({rest})", bound.args[0])


def place_of(name: str) -> str | None:
    """Return the namespace of a function, or None if it is only a method."""
    first = name.split(".")[0]
    if first in rg.__all__ or hasattr(rg, first):
        return "rg"
    return "rg.nn.functional" if hasattr(rg.nn.functional, name) else None


def asserted(call: str, result: Any) -> str:
    """Return a statement that a type checker accepts if it knows the result type of the call."""
    name = type(result).__name__
    if isinstance(result, rg.Tensor):
        return f"assert_type({call}, Tensor)"
    if hasattr(result, "_fields"):
        return f"assert_type({call}, rg.return_types.{name})"
    if isinstance(result, rg.Size):
        return f"assert_type({call}, rg.Size)"
    if isinstance(result, tuple):
        return f"for item in {call}: assert_type(item, Tensor)"
    return f"assert_type({call}, {name})"


def written(value: Any) -> str:
    """Return the source code of an argument."""
    if isinstance(value, rg.Tensor):
        return "x"
    if isinstance(value, np.ndarray):
        return "array"
    if isinstance(value, (rg.dtype, rg.device)):
        return repr(value).replace("retrograd.", "rg.").replace("device(", "rg.device(")
    if value is ...:
        return "..."
    if value is None or isinstance(value, (str, bool, int)):
        return repr(value)
    if isinstance(value, (float, complex)) and type(value).__module__ == "builtins":
        return repr(value)
    if isinstance(value, slice):
        return f"slice({written(value.start)}, {written(value.stop)}, {written(value.step)})"
    if type(value) is list:
        return f"[{', '.join(map(written, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(written, value))}{',' if len(value) == 1 else ''})"
    raise NoLiteralError(value)
