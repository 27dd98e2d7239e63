"""Recomputing lines that made a variable without a gradient, from the variables that they read.

Nothing records how data was made. But what a line reads is often still available: then the birth is found by
computing the line once more. The result counts only if it equals, bit for bit, what the variable holds.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import itertools
import linecache
import math
import operator
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from retrograd.anomaly.adapters.program.assignments import exclude_each_other, is_sure_before
from retrograd.anomaly.adapters.program.attribute_writes import Write, writes_to
from retrograd.anomaly.adapters.program.source_location import assignment_above, place_fields, written_at
from retrograd.anomaly.adapters.program.straight_functions import StraightFunction, straight
from retrograd.anomaly.adapters.program.variables import local_variables, under_way
from retrograd.anomaly.adapters.torch.postmortem.pure_functions import CONSTRUCTORS, FUNCTIONS, LAYERS, LINEAR_ALGEBRA
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, has_nan, is_bad
from retrograd.anomaly.adapters.torch.records.dispatcher_entries import arguments_for
from retrograd.anomaly.parsing import module_of, names_in
from retrograd.anomaly.stack_frames import is_own
from retrograd.anomaly.warning_filters import Filter

_LARGEST = 1 << 22  # elements
_DEPTH = 4  # of a chain of lines, each of which made what the next one reads
_BINARY: dict[type, tuple[str, str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", "other", operator.add),
    ast.Sub: ("sub", "other", operator.sub),
    ast.Mult: ("mul", "other", operator.mul),
    ast.Div: ("div", "other", operator.truediv),
    ast.Pow: ("pow", "exponent", operator.pow),
    ast.MatMult: ("matmul", "other", operator.matmul),
    ast.Mod: ("remainder", "other", operator.mod),
    ast.FloorDiv: ("floor_divide", "other", operator.floordiv),
}
_OF_MASKS: dict[type, Callable[[Any, Any], Any]] = {
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_QUESTIONS = frozenset(("dim", "numel", "size"))  # whose answers are numbers
_NAMES = {  # parameters of functions that do not call theirs (input, other)
    "pow": ("input", "exponent"),
    "masked_fill": ("input", "mask", "value"),
    "where": ("condition", "input", "other"),
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_CONDITIONS = 3  # per line, for which both outcomes are tried
_MEMBERS = frozenset(("T", "mT", "values", "indices", "shape", "ndim", "dtype", "device", "real", "imag", "min", "max"))
_POINTWISE = ("add", "sub", "mul", "div", "pow", "abs", "exp", "log", "sqrt", "rsqrt", "reciprocal", "square", "clamp")


class UnknownError(Exception):
    """An expression that cannot be computed again."""


UNKNOWN = object()
_QUIET = Filter("ignore", module="")


@dataclass
class Made:
    """The operation that gave birth, in the line that called it.

    ``start`` and ``end`` are the bytes of the expression in ``line``, whose number is ``lineno``. If the line is that
    of another function than the one whose variables were read, ``code`` is this other function, and ``callers`` are
    the lines that led there, as an event has them, the innermost first.
    """

    call: Call
    line: str
    lineno: int
    start: int
    end: int
    code: CodeType | None = None
    callers: tuple[dict[str, Any], ...] = ()


@dataclass
class Step:
    """An operation computed again, and the functions inside which it was, the innermost first, with their calls."""

    node: ast.expr
    op: str
    arguments: list[Argument]
    output: Tensor
    inside: tuple[tuple[CodeType, ast.expr], ...] = ()


@dataclass
class Recomputation:
    """A line being computed again."""

    variables: Mapping[str, Any]
    outcomes: Mapping[int, bool] = field(default_factory=dict)
    birth: Step | None = None
    turn: Step | None = None  # of an infinity that came in into a NaN
    came_in: list[str] = field(default_factory=list)  # the variables that were already bad
    depth: int = 0  # of functions of the program

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() | bool() | str() | None):
                return node.value
            case ast.Call(func=func, args=args, keywords=keywords) if (own := self.function_of(func)) is not None:
                return self._returned(node, own, args, keywords)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self._made(node, "neg", operator.neg, [("input", self.value(inner))])
            case ast.IfExp(test=test, body=chosen, orelse=other, col_offset=col):
                is_chosen = self.outcomes[col] if col in self.outcomes else bool(self.value(test))
                return self.value(chosen if is_chosen else other)
            case ast.UnaryOp(op=ast.Invert(), operand=inner):
                return ~self.value(inner)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OF_MASKS:
                return _OF_MASKS[type(op)](self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                return _COMPARISONS[type(op)](self.value(left), self.value(right))
            case ast.Name(id=name) if name in self.variables:
                value = self.variables[name]
                if isinstance(value, Tensor) and value.numel() > _LARGEST:
                    raise UnknownError
                if isinstance(value, Tensor):
                    self.came_in += [name] if is_bad(value) else []
                    return value.detach()
                if isinstance(value, (int, float)):
                    return value
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if _is_object(self.variables.get(owner)):
                return self._member(self.variables[owner], name)
            case ast.Call(func=ast.Name(id="len"), args=[of], keywords=[]):
                return len(self.value(of))
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=[]) if name in _QUESTIONS:
                return getattr(Tensor, name)(self.value(owner), *map(self.value, args))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                name, second, function = _BINARY[type(op)]
                return self._made(node, name, function, [("input", self.value(left)), (second, self.value(right))])
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if self.variables.get(owner) is math:
                return getattr(math, name)
            case ast.Attribute(value=ast.Name(id=owner), attr="inf" | "nan" | "pi" as name) if self.variables.get(
                owner
            ) in (torch, np):
                return getattr(math, name)
            case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)]):
                return float(text)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name), args=args, keywords=[]) if (
                self.variables.get(owner) is math
            ):
                return getattr(math, name)(*map(self.value, args))
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=owner), attr="cat" | "stack" as name),
                args=[ast.List(elts=parts) | ast.Tuple(elts=parts), *rest],
                keywords=keywords,
            ) if self.variables.get(owner) is torch:
                named = {str(each.arg): self.value(each.value) for each in keywords}
                return getattr(torch, name)([*map(self.value, parts)], *map(self.value, rest), **named)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=owner), attr="tensor" | "as_tensor"),
                args=[given],
                keywords=keywords,
            ) if self.variables.get(owner) is torch:
                return torch.tensor(self._numbers(given), **self._named(keywords))
            case ast.Call(func=ast.Attribute(value=owner, attr="requires_grad_")):
                return self.value(owner)
            case ast.Attribute(value=owner, attr=name) if name in _MEMBERS:
                return getattr(self.value(owner), name)
            case ast.Subscript(value=owner, slice=index):
                return self.value(owner)[self._index(index)]
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if self.variables.get(
                owner
            ) is torch and isinstance(getattr(torch, name, None), torch.dtype):
                return getattr(torch, name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name), args=args, keywords=keywords) if (
                name in CONSTRUCTORS and self.variables.get(owner) is torch
            ):
                return getattr(torch, name)(*map(self.value, args), **self._named(keywords))
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner), attr="linalg"), attr=name), args=args
            ) if name in LINEAR_ALGEBRA and self.variables.get(owner) is torch:
                return self._called(node, getattr(torch.linalg, name), name, args, node.keywords)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name), args=args) if (
                name in LAYERS and self.variables.get(owner) is torch.nn.functional
            ):
                return self._called(node, getattr(torch.nn.functional, name), name, args, node.keywords)
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args) if name in FUNCTIONS:
                if isinstance(owner, ast.Name) and self.variables.get(owner.id) is torch:  # however it was imported
                    return self._called(node, getattr(torch, name), name, args, node.keywords)
                return self._called(node, getattr(Tensor, name), name, [owner, *args], node.keywords)
        raise UnknownError

    def made(self, text: str, number: int, shift: int = 0) -> Made | None:
        """The birth, given the line's text and number; ``shift`` is where the expression begins in the text."""
        known = self.birth or self.turn
        if known is None:
            return None
        node = known.node
        call = Call(f"aten.{known.op}.default", known.arguments, [known.output], 0, pointwise=known.op in _POINTWISE)
        if not known.inside:
            return Made(call, text, number, node.col_offset + shift, (node.end_col_offset or 0) + shift)
        if node.lineno != node.end_lineno:  # part of a statement of several lines
            return None
        code, lines = known.inside[0][0], [{"code_line": text, "lineno": number}]
        for (_, called), (outer, _) in reversed(list(itertools.pairwise(known.inside))):
            lines.insert(0, _line_at(outer, called))
        own = linecache.getline(code.co_filename, node.lineno)
        before = len(own.encode()) - len(own.lstrip().encode())
        start, end = node.col_offset - before, (node.end_col_offset or 0) - before
        return Made(call, own.strip(), node.lineno, start, end, code, tuple(lines))

    def function_of(self, node: ast.expr) -> StraightFunction | None:
        """The function of the program that a call calls, if it can be computed step by step."""
        match node:
            case ast.Name(id=name):
                return _straight(self.variables.get(name))
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if _is_object(self.variables.get(owner)):
                held = self.variables[owner]
                member = {**vars(held), **(vars(held).get("_modules") or {})}.get(name)
                if isinstance(member, torch.nn.Module):
                    return _straight(member)
                found = inspect.getattr_static(type(held), name, None)
                if isinstance(found, staticmethod):
                    return straight(found.__func__)
                return straight(MethodType(found, held)) if isinstance(found, FunctionType) else None
        return None

    def _returned(
        self, node: ast.expr, function: StraightFunction, args: Sequence[ast.expr], keywords: Sequence[ast.keyword]
    ) -> Any:
        """The result of a function of the program."""
        if self.depth >= _DEPTH or any(each.arg is None for each in keywords):
            raise UnknownError
        named = {str(each.arg): self.value(each.value) for each in keywords}
        variables = function.bound([self.value(each) for each in args], named)
        if variables is None:
            raise UnknownError
        line = Recomputation(ChainMap(variables, *function.outside.maps), depth=self.depth + 1)
        for name, expression in function.assigned:
            variables[name] = line.value(expression)
        result = line.value(function.result)
        inside = function.code, node
        if self.birth is None and line.birth is not None:
            self.birth = replace(line.birth, inside=(*line.birth.inside, inside))
        if self.turn is None and line.turn is not None:
            self.turn = replace(line.turn, inside=(*line.turn.inside, inside))
        return result

    def _member(self, held: Any, name: str) -> Any:
        """A tensor or number that an object has as an attribute of its own."""
        own = getattr(held, "__dict__", {})
        for members in (own, own.get("_buffers") or {}, own.get("_parameters") or {}):
            value = members.get(name)
            if isinstance(value, Tensor) and value.numel() <= _LARGEST:
                return value.detach()
            if isinstance(value, (int, float)):
                return value
        raise UnknownError

    def _numbers(self, node: ast.expr) -> Any:
        """What a tensor is made from: numbers that a variable holds, or that are written there."""
        numbers = self.variables.get(node.id) if isinstance(node, ast.Name) else ast.literal_eval(node)
        if isinstance(node, ast.Name) and not _holds_numbers(numbers):
            raise UnknownError
        return numbers

    def _named(self, keywords: Sequence[ast.keyword]) -> dict[str, Any]:
        """The keyword arguments of a call: numbers and tensors, or options."""
        named = {}
        for each in keywords:
            if each.arg in (None, "inplace", "out"):  # the last two write
                raise UnknownError
            try:
                named[each.arg] = self.value(each.value)
            except UnknownError:
                named[each.arg] = self._option(each)
        return named

    def _option(self, given: ast.keyword) -> Any:
        """A keyword argument that says which type or device to use."""
        match given.value:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if self.variables.get(owner) is torch:
                return getattr(torch, name)
            case ast.Name(id=name) if isinstance(self.variables.get(name), (str, torch.device, torch.dtype)):
                return self.variables[name]
            case ast.Constant(value=str() | bool() as value):
                return value
        raise UnknownError

    def _index(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name) if isinstance(self.variables.get(name), np.ndarray):
                return self.variables[name]
            case ast.Tuple(elts=parts):
                return tuple(map(self._index, parts))
            case ast.Slice(lower=lower, upper=upper, step=step):
                return slice(*(None if each is None else self.value(each) for each in (lower, upper, step)))
        return self.value(node)

    def _called(
        self, node: ast.expr, function: Any, name: str, args: Sequence[ast.expr], keywords: Sequence[ast.keyword]
    ) -> Any:
        if not args:
            raise UnknownError
        values = [self.value(each) for each in args]
        named = self._named(keywords)
        if name in LAYERS and True in [each for each in values if isinstance(each, bool)]:  # in place
            raise UnknownError
        dim = {"dim": values[1]} if len(values) == 2 and isinstance(values[1], int) else {}
        known = {**dim, **named}
        given = [
            pair
            for pair in zip(_NAMES.get(name, ("input", "other")), values, strict=False)
            if pair[0] == "input" or name in _NAMES or isinstance(pair[1], Tensor)
        ]
        given += [(key, each) for key, each in known.items() if all(key != other for other, _ in given)]
        return self._made(node, name, lambda *_: function(*values, **named), given)

    def _made(self, node: ast.expr, name: str, function: Callable[..., Any], given: list[tuple[str, Any]]) -> Any:
        _QUIET.put()  # the program's own call has warned already
        try:
            result = function(*(each for _, each in given))
        finally:
            _QUIET.remove()
        made = Step(node, name, [Argument(key, each) for key, each in given], result)
        if self.birth is None and is_bad(result) and not any(is_bad(each) for _, each in given):
            self.birth = made
        elif self.turn is None and has_nan(result) and not any(has_nan(each) for _, each in given):
            self.turn = made
        return result


def _straight(called: Any) -> StraightFunction | None:
    """What a function of the program computes, or a module of its own that has no hooks."""
    if not isinstance(called, torch.nn.Module):
        return straight(called)
    if called._forward_hooks or called._forward_pre_hooks:
        return None
    return straight(MethodType(type(called).forward, called))


def _is_object(value: Any) -> bool:
    """Whether it is a module, or an object of one of the program's own classes."""
    functions = (each for each in vars(type(value)).values() if isinstance(each, FunctionType))
    return isinstance(value, torch.nn.Module) or any(is_own(each.__code__) for each in functions)


def _line_at(code: CodeType, node: ast.expr) -> dict[str, Any]:
    """The line of a call in a function, as an event has it."""
    line = linecache.getline(code.co_filename, node.lineno).strip()
    return {"filename": code.co_filename, "lineno": node.lineno, "function": code.co_qualname, "code_line": line}


def _holds_numbers(value: Any) -> bool:
    """Whether it is a list or an array of numbers, as rewards are collected in."""
    if isinstance(value, np.ndarray):
        return value.size <= _LARGEST
    return isinstance(value, (list, tuple)) and all(isinstance(each, (int, float)) for each in value)


def variables_of(frame: FrameType | None, code: CodeType | None) -> Mapping[str, Any]:
    """The variables of a function and its module, if the function is running in a frame or in one of its callers."""
    frame = under_way(frame, code)
    return {} if frame is None else _variables(frame)


def _variables(frame: FrameType) -> ChainMap[str, Any]:
    return ChainMap(local_variables(frame), frame.f_globals)


def worth(expression: ast.expr, variables: Mapping[str, Any]) -> Any:
    """The value of an expression, detached from autograd; None if it is of a kind that cannot be computed again."""
    try:
        return Recomputation(variables).value(expression)
    except Exception:
        return None


def made_again(frame: FrameType | None, name: str, value: Tensor, lineno: int, depth: int = _DEPTH) -> Made | None:
    """The operation that made a variable of a function non-finite; None if that cannot be known for certain.

    Parameters
    ----------
    frame
        The function's.
    name, value
        The variable's.
    lineno
        The line that read it.
    """
    if frame is None or value.numel() > _LARGEST:
        return None
    found: list[Made | None] = []
    for assigned in _assignments(frame.f_code, lineno, name):
        for chosen in _outcomes(assigned[0]):
            try:
                result, made = _given_by(frame, assigned, name, lineno, depth, chosen)
            except Exception:  # a part of a statement, another operation, or variables that have changed since
                continue
            if same(result, value):
                found.append(made)
    return found[0] if len(found) == 1 else None  # either of two branches may have been taken


def _outcomes(text: str) -> Iterator[Mapping[int, bool]]:
    """The possible outcomes of the conditions in a line's conditional expressions, keyed by column."""
    try:
        nodes = list(ast.walk(module_of(text)))
    except SyntaxError:  # a part of a statement
        return
    places = [each.col_offset for each in nodes if isinstance(each, ast.IfExp)]
    for outcome in itertools.product((True, False), repeat=len(places)) if len(places) <= _CONDITIONS else ():
        yield dict(zip(places, outcome, strict=True))


def _assignments(code: CodeType, lineno: int, name: str) -> Iterator[tuple[str, int]]:
    """The lines above a given one that last assigned a variable; several if they are in different branches."""
    last = None
    while (assigned := assignment_above(code, lineno, name)) is not None:
        lineno = assigned[1]
        if last is None or exclude_each_other(code, lineno, last):
            yield assigned
        last = last or lineno


def _given_by(
    frame: FrameType,
    assigned: tuple[str, int],
    name: str,
    lineno: int,
    depth: int,
    outcomes: Mapping[int, bool] | None = None,
) -> tuple[Any, Made | None]:
    """The value a line assigns to a variable, and the operation that made it non-finite, if found.

    The earlier value of a variable that has been reassigned since is recomputed from the line that assigned it.
    ``outcomes`` fixes the results of conditions in the line, which are then not evaluated.
    """
    text, number = assigned
    statement = module_of(text).body[0]
    if not isinstance(statement, ast.Assign) or not _gives(statement, name) or depth == 0:
        raise UnknownError
    before: dict[str, tuple[Any, Made | None]] = {}
    for each in names_in(statement.value):
        latest = assignment_above(frame.f_code, lineno, each)
        if latest is not None and latest[1] >= number:
            before[each] = UNKNOWN, None  # an error only if it is read; in a branch that was not taken it is not
            with contextlib.suppress(UnknownError, TypeError):
                earlier = _assignment_before(frame.f_code, number, each)
                before[each] = _given_by(frame, earlier, each, lineno, depth - 1)
    earlier_values = {each: value for each, (value, _) in before.items()}
    line = Recomputation(_variables(frame).new_child(earlier_values), outcomes or {})
    result = line.value(statement.value)
    if line.birth is not None:
        return result, line.made(text, number)
    for each in line.came_in:
        value = line.variables[each]
        found = before[each][1] if each in before else made_again(frame, each, value, number, depth - 1)
        if found is not None:
            return result, found
    return result, line.made(text, number)


def _assignment_before(code: CodeType, lineno: int, name: str) -> tuple[str, int]:
    """The line that assigned the value a variable had when another line began to run."""
    above = lineno
    while (assigned := assignment_above(code, above, name)) is not None:
        above = assigned[1]
        if is_sure_before(code, above, lineno):
            return assigned
        if not exclude_each_other(code, above, lineno):
            break
    raise UnknownError


def made_in_line(frame: FrameType, code: CodeType, at: int, value: Tensor) -> tuple[Made | None, Tensor | None]:
    """How a line made unnamed data that it passed to an operation, as in ``-advantages * ratio``.

    Either the birth, in this line or an earlier one, or the variable that already held such numbers.

    Parameters
    ----------
    frame
        The function's, which is still running.
    code, at
        The instruction of the operation.
    value
        The data.
    """
    written, place = written_at(code, at), place_fields(code, at)
    if written is None or value.numel() > _LARGEST:
        return None, None
    variables = _variables(frame)
    for part in ast.walk(written):
        line = Recomputation(variables)
        if part is written or not isinstance(part, (ast.UnaryOp, ast.BinOp, ast.Call, ast.Subscript, ast.Attribute)):
            continue
        try:
            result = line.value(part)
        except Exception:
            continue
        if not same(result, value):
            continue
        if line.birth is not None:
            before = len(place["code_line"][: place["col"]].encode()) - written.col_offset
            return line.made(place["code_line"], place["lineno"], before), None
        for each in line.came_in:
            held = variables[each]
            return made_again(frame, each, held, place["lineno"]), held
    return None, None


def made_of_operand(frame: FrameType | None, call: Call) -> tuple[Made | None, Tensor | None]:
    """How a line made the only argument of an operation in it that nothing has kept.

    Either the birth, in this line or an earlier one, or the variable that already held such numbers; neither unless
    the operation, computed once more with that argument, gives the result that is known.
    """
    written, place, output = written_at(call.code, call.at), place_fields(call.code, call.at), call.outputs[0]
    lacking = [number for number, each in enumerate(call.args) if each.missing]
    if frame is None or written is None or output is None or call.entry is None or len(lacking) != 1:
        return None, None
    parts = _operands(written)
    line = Recomputation(_variables(frame))
    try:
        value = line.value(parts[lacking[0]])
        args = [replace(each, value=value) if each.missing else each for each in call.args]
        with torch.no_grad():
            result = call.entry(**arguments_for(call.entry, args))
    except Exception:
        return None, None
    if not is_bad(value) or not same(result, output) or output.isnan().any() > value.isnan().any():
        return None, None
    if line.birth is not None:
        before = len(place["code_line"][: place["col"]].encode()) - written.col_offset
        return line.made(place["code_line"], place["lineno"], before), None
    for each in line.came_in:
        held = line.variables[each]
        return made_again(frame, each, held, place["lineno"]), held
    return None, None


def _operands(written: ast.expr) -> list[ast.expr]:
    """The operands of an operation as it is written: an operator's sides, or a call's arguments."""
    match written:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Call(func=ast.Attribute(value=owner), args=args):
            return list(args) if isinstance(owner, ast.Name) and owner.id in ("torch", "F") else [owner, *args]
    return []


def _gives(statement: ast.Assign, name: str) -> bool:
    target = statement.targets[0]
    return len(statement.targets) == 1 and isinstance(target, ast.Name) and target.id == name


def made_by_write(module: torch.nn.Module, attribute: str) -> tuple[Write | None, Made | None]:
    """The line that writes to a buffer of a module, if there is just one, and the birth in it as it stands now.

    The buffers that the line reads may have changed since it wrote. But it would give the same numbers again.
    """
    writes = list(writes_to(type(module), attribute))
    if len(writes) != 1 or not isinstance(writes[0].statement, (ast.Assign, ast.AugAssign, ast.Expr)):
        return None, None
    write, line = writes[0], Recomputation({writes[0].owner: module, "torch": torch})
    text = linecache.getline(write.code.co_filename, write.statement.lineno)
    if write.value is None or write.statement.lineno != write.statement.end_lineno:
        return write, None
    try:
        line.value(write.value)
    except Exception:
        return write, None
    before = len(text.encode()) - len(text.lstrip().encode())
    return write, None if line.came_in else line.made(text.strip(), write.statement.lineno, -before)


def same(one: Any, other: Tensor) -> bool:
    if not isinstance(one, Tensor) or (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    return bool(torch.eq(one, other.detach()).logical_or(one.isnan() & other.isnan()).all())
