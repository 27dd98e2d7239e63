"""The value of an expression of NumPy's functions on arrays, computed once more from the variables that it reads.

Only what has no effect but its result is computed: arithmetic, items, NumPy's functions and a few methods of arrays.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from retrograd.anomaly.adapters.program.source_location import written_at
from retrograd.anomaly.adapters.program.syntax import COMPARISONS
from retrograd.anomaly.adapters.program.variables import local_variables

_UFUNCS: dict[type[ast.operator], np.ufunc] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.remainder,
    ast.Pow: np.power,
    ast.MatMult: np.matmul,
}
_SIGNS: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_ATTRIBUTES = frozenset(("T", "mT", "real", "imag", "shape", "size", "ndim", "dtype"))
_METHODS = frozenset(
    (
        *("sum", "mean", "std", "var", "max", "min", "prod", "cumsum", "cumprod", "dot", "clip", "round", "conj"),
        *("reshape", "ravel", "flatten", "transpose", "swapaxes", "squeeze", "repeat", "astype", "copy", "item"),
    )
)
# how the names of NumPy's functions begin that write, read files or call functions of the program
_WITH_EFFECTS = ("apply", "copyto", "fill", "from", "gen", "load", "memmap", "place", "put", "save", "set", "vectorize")
_MODULES = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft}


class Computed(NamedTuple):
    """An operation of an expression: a function of NumPy, its operands, and their result."""

    function: Any
    operands: tuple[Any, ...]
    result: Any


def arrays_read(frame: FrameType) -> dict[str, Any]:
    """The variables read by the expression that a frame is at, and attributes of these that are arrays or numbers.

    Arrays, numbers, and NumPy's or SciPy's modules and functions count. Small arrays are copied, as they may be
    overwritten.
    """
    names = _names_read(frame.f_code, frame.f_lasti)
    local = local_variables(frame) if names else {}
    found: dict[str, Any] = {}
    for name, *attributes in names:
        value = local[name] if name in local else frame.f_globals.get(name)
        for attribute in attributes:
            value = getattr(value, "__dict__", {}).get(attribute)
        if isinstance(value, np.ndarray) and value.nbytes <= _COPIED:
            value = value.copy()
        if _is_plain(value):
            found[".".join((name, *attributes))] = value
    return found


@lru_cache(maxsize=256)
def _names_read(code: CodeType, at: int) -> tuple[tuple[str, ...], ...]:
    """The variables in the expression that an instruction belongs to, and their attributes: ``("self", "counts")``."""
    written = written_at(code, at)
    nodes = [] if written is None else ast.walk(written)
    names = (ast.unparse(each).split(".") for each in nodes if isinstance(each, (ast.Name, ast.Attribute)))
    return tuple(dict.fromkeys(tuple(each) for each in names if all(map(str.isidentifier, each))))


_COPIED = 1 << 16  # bytes


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(isinstance(each, (int, float, complex)) for each in value)
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] in ("numpy", "scipy")
    return isinstance(value, (np.ndarray, np.generic, int, float, complex, np.dtype)) or _is_numpys(value)


def _is_numpys(value: Any) -> bool:
    """Whether it is a function or type of NumPy's that has no effect but its result."""
    if isinstance(value, np.ufunc):
        return True
    name = str(getattr(value, "__name__", ""))
    module = _MODULES.get(str(getattr(value, "__module__", "")))
    return module is not None and getattr(module, name, None) is value and not name.startswith(_WITH_EFFECTS)


def operation(written: ast.expr, variables: Mapping[str, Any]) -> Computed | None:
    """The outermost operation of an expression, computed once more; None if that is not possible."""
    try:
        with np.errstate(all="ignore"):
            return _operation(written, variables)
    except Exception:  # an expression of another kind, or variables that have changed since
        return None


def _operation(written: ast.expr, variables: Mapping[str, Any]) -> Computed:
    match written:
        case ast.BinOp(left=left, op=op, right=right):
            function, operands = _UFUNCS[type(op)], (_value(left, variables), _value(right, variables))
            return Computed(function, operands, function(*operands))
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _METHODS and _is_array(owner, variables):
            function = getattr(_value(owner, variables), name)
        case ast.Call(func=func):
            function = _value(func, variables)
        case _:
            raise TypeError("not an operation")
    operands = tuple(_value(each, variables) for each in written.args)
    options = {str(each.arg): _value(each.value, variables) for each in written.keywords}
    if "out" in options or (isinstance(function, np.ufunc) and len(operands) > function.nin):
        raise TypeError("it writes to an array of the program's")
    return Computed(function, operands, function(*operands, **options))


def _is_array(node: ast.expr, variables: Mapping[str, Any]) -> bool:
    return not isinstance(variables.get(ast.unparse(node)), ModuleType)


def _value(node: ast.expr | None, variables: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name() | ast.Attribute() if (text := ast.unparse(node)) in variables:
            return variables[text]
        case ast.Attribute(value=owner, attr=name):
            value = _value(owner, variables)
            member = getattr(value, name)
            if isinstance(value, ModuleType) and _is_plain(member):
                return member
            if isinstance(value, (np.ndarray, np.generic)) and name in _ATTRIBUTES:
                return member
        case ast.Subscript(value=owner, slice=index):
            return _value(owner, variables)[_value(index, variables)]
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(*(None if each is None else _value(each, variables) for each in (lower, upper, step)))
        case ast.Tuple(elts=items):
            return tuple(_value(each, variables) for each in items)
        case ast.List(elts=items):
            return [_value(each, variables) for each in items]
        case ast.UnaryOp(op=op, operand=operand):
            return _SIGNS[type(op)](_value(operand, variables))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return COMPARISONS[type(op)](_value(left, variables), _value(right, variables))
        case ast.BinOp() | ast.Call():
            return _operation(node, variables).result
    raise TypeError("of a kind that is not computed once more")
