"""Computing an expression of the program once more, step by step, from the variables that it reads."""

from __future__ import annotations

import ast
import cmath
import contextlib
import inspect
import itertools
import linecache
import math
import operator
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, EllipsisType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from retrograd.anomaly.adapters.program.straight_functions import PlainFunction, StraightFunction, plain
from retrograd.anomaly.adapters.program.syntax import COMPARISONS
from retrograd.anomaly.adapters.torch.postmortem.pure_functions import (
    CONSTRUCTORS,
    FUNCTIONS,
    LAYERS,
    LINEAR_ALGEBRA,
    LOSSES,
)
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, has_nan, is_bad
from retrograd.anomaly.adapters.torch.second_run.module_calls import output_again
from retrograd.anomaly.warning_filters import Filter

LARGEST = 1 << 22  # elements
DEPTH = 4  # of a chain of lines, each of which made what the next one reads
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
_OF_OBJECTS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda value, among: value in among,
    ast.NotIn: lambda value, among: value not in among,
}
_QUESTIONS = frozenset(("dim", "numel", "size"))  # whose answers are numbers
_NAMES = {  # parameters of functions that do not call theirs (input, other)
    "pow": ("input", "exponent"),
    "masked_fill": ("input", "mask", "value"),
    "where": ("condition", "input", "other"),
    **dict.fromkeys(LOSSES, ("input", "target")),
}
_MEMBERS = frozenset(("T", "mT", "values", "indices", "shape", "ndim", "dtype", "device", "real", "imag", "min", "max"))
_POINTWISE = ("add", "sub", "mul", "div", "pow", "abs", "exp", "log", "sqrt", "rsqrt", "reciprocal", "square", "clamp")


_PURE: dict[ModuleType | None, frozenset[str]] = {
    torch: FUNCTIONS,
    torch.linalg: LINEAR_ALGEBRA,
    torch.nn.functional: LAYERS,
}


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
            case ast.Call(func=func) if (module := self._module(func)) is not None:
                return self._of_module(node, module)
            case ast.Call() if (own := self.function_of(node)) is not None:
                return self._returned(node, own)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return [*map(self.value, parts)]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self._made(node, "neg", operator.neg, [("input", self.value(inner))])
            case ast.IfExp(test=test, body=chosen, orelse=other, col_offset=col):
                is_chosen = self.outcomes[col] if col in self.outcomes else bool(self.value(test))
                return self.value(chosen if is_chosen else other)
            case ast.UnaryOp(op=ast.Invert(), operand=inner):
                return ~self.value(inner)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OF_MASKS:
                return _OF_MASKS[type(op)](self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                return COMPARISONS[type(op)](self.value(left), self.value(right))
            case ast.Name(id=name) if name in self.variables:
                value = self.variables[name]
                if isinstance(value, Tensor) and value.numel() > LARGEST:
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
                args=[parts, *rest],
                keywords=keywords,
            ) if self.variables.get(owner) is torch:
                named = {str(each.arg): self.value(each.value) for each in keywords}
                return getattr(torch, name)(self._parts(parts), *map(self.value, rest), **named)
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
            case ast.Subscript(value=ast.Call() as called, slice=ast.Constant(value=int() as number)) if (
                own := self._part_of(called, number)
            ) is not None:
                return self._returned(called, own)
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=key)) if isinstance(
                self.variables.get(owner), (dict, list, tuple)
            ):
                return self._item(self.variables[owner][key])
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
            case ast.Call(func=func, args=args) if (known := self._pure(func)) is not None:
                return self._called(node, *known, args, node.keywords)
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args) if name in FUNCTIONS:
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

    def function_of(self, call: ast.Call) -> StraightFunction | None:
        """What a call of one of the program's functions computes; None if that cannot be done step by step."""
        function = self._plain(call.func)
        if function is None or self.depth >= DEPTH:
            return None
        if not function.has_branches:
            return function.taken()
        variables = dict.fromkeys(function.parameters, UNKNOWN) | self.known_arguments(call, function)
        inner = Recomputation(ChainMap(variables, *function.outside.maps), depth=self.depth + 1)
        try:
            return function.taken(_Conditions(variables, inner))
        except Exception:  # a condition that cannot be computed
            return None

    def _plain(self, node: ast.expr) -> PlainFunction | None:
        """The function of the program that a call calls, or that of a module without hooks."""
        module = self._module(node)
        if module is not None:
            has_hooks = module._forward_hooks or module._forward_pre_hooks
            forward = inspect.getattr_static(type(module), "forward")
            return None if has_hooks or not isinstance(forward, FunctionType) else plain(MethodType(forward, module))
        match node:
            case ast.Name(id=name):
                return plain(self.variables.get(name))
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if _is_object(self.variables.get(owner)):
                held = self.variables[owner]
                found = inspect.getattr_static(type(held), name, None)
                if isinstance(found, staticmethod):
                    return plain(found.__func__)
                return plain(MethodType(found, held)) if isinstance(found, FunctionType) else None
        return None

    def known_arguments(self, call: ast.Call, function: PlainFunction) -> dict[str, Any]:
        """The parameters of a call of a function whose values are known."""
        if any(each.arg is None for each in call.keywords):
            return {}
        named = {str(each.arg): self._known(each.value) for each in call.keywords}
        given = function.bound([self._known(each) for each in call.args], named)
        return {name: value for name, value in (given or {}).items() if value is not UNKNOWN}

    def _known(self, node: ast.expr) -> Any:
        try:
            return self.passed(node)
        except Exception:
            return UNKNOWN

    def _module(self, node: ast.expr) -> torch.nn.Module | None:
        """The module that a call calls."""
        held = None
        match node:
            case ast.Name(id=name):
                held = self.variables.get(name)
            case ast.Attribute():
                with contextlib.suppress(UnknownError):
                    held = self._object(node)
        return held if isinstance(held, torch.nn.Module) else None

    def _of_module(self, call: ast.Call, module: torch.nn.Module) -> Any:
        """What a module returns: step by step, or as a whole if that is finite."""
        own = self.function_of(call)
        if own is not None:
            with contextlib.suppress(UnknownError):
                return self._returned(call, own)
        result = output_again(module, [self.value(each) for each in call.args], self._named(call.keywords))
        if any(isinstance(each, Tensor) and is_bad(each) for each in tree_leaves(result)):
            raise UnknownError  # born in the module: not for this line to tell
        return result

    def _pure(self, node: ast.expr) -> tuple[Callable[..., Any], str] | None:
        """The function of torch without side effects that a call calls, however it was imported, and its name."""
        match node:
            case ast.Name(id=name):
                held = self.variables.get(name)
                known = any(name in names and getattr(owner, name, None) is held for owner, names in _PURE.items())
                return (held, name) if known and held is not None else None
            case ast.Attribute(value=value, attr=name):
                owner = self._part_of_torch(value)
                return (getattr(owner, name), name) if name in _PURE.get(owner, ()) and hasattr(owner, name) else None
        return None

    def _part_of_torch(self, node: ast.expr) -> ModuleType | None:
        """The module of torch that is written there."""
        match node:
            case ast.Name(id=name):
                held = self.variables.get(name)
            case ast.Attribute(value=value, attr=name):
                held = getattr(self._part_of_torch(value), name, None)
            case _:
                return None
        return held if isinstance(held, ModuleType) and (held is torch.nn or held in _PURE) else None

    def _part_of(self, called: ast.Call, number: int) -> StraightFunction | None:
        """The function that computes one of the results of a call of a function of the program."""
        own = self.function_of(called)
        return None if own is None else own.part(number)

    def _returned(self, call: ast.Call, computed: StraightFunction) -> Any:
        """The result of a function of the program."""
        if any(each.arg is None for each in call.keywords):
            raise UnknownError
        function = computed.function
        named = {str(each.arg): self.passed(each.value) for each in call.keywords}
        variables = function.bound([self.passed(each) for each in call.args], named)
        if variables is None:
            raise UnknownError
        line = Recomputation(ChainMap(variables, *function.outside.maps), depth=self.depth + 1)
        for name, expression in computed.assigned:
            variables[name] = line.value(expression)
        result = line.value(computed.result)
        inside = function.code, call
        if self.birth is None and line.birth is not None:
            self.birth = replace(line.birth, inside=(*line.birth.inside, inside))
        if self.turn is None and line.turn is not None:
            self.turn = replace(line.turn, inside=(*line.turn.inside, inside))
        return result

    def holds(self, test: ast.expr) -> bool:
        """Whether a condition holds."""
        match test:
            case ast.BoolOp(op=ast.And(), values=values):
                return all(map(self.holds, values))
            case ast.BoolOp(op=ast.Or(), values=values):
                return any(map(self.holds, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.holds(operand)
            case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
                return self._object(left) is None
            case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
                return self._object(left) is not None
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OF_OBJECTS:
                with contextlib.suppress(UnknownError):
                    return _OF_OBJECTS[type(op)](self._held(left), self._held(right))
            case ast.Name() | ast.Attribute():
                with contextlib.suppress(UnknownError):
                    return bool(self._held(test))
        return bool(self.value(test))

    def _held(self, node: ast.expr) -> Any:
        """A number, a text, None, or several of these."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                return [self._held(each) for each in parts]
        value = self._object(node)
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise UnknownError

    def _object(self, node: ast.expr) -> Any:
        """What a variable or an attribute holds."""
        match node:
            case ast.Name(id=name) if self.variables.get(name, UNKNOWN) is not UNKNOWN:
                return self.variables[name]
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if _is_object(self.variables.get(owner)):
                return _attribute(self.variables[owner], name)
        raise UnknownError

    def passed(self, node: ast.expr) -> Any:
        """An argument of a function of the program: a value, or an object of which the function may use members."""
        held = self.variables.get(node.id) if isinstance(node, ast.Name) else None
        return held if _is_object(held) else self.value(node)

    def _member(self, held: Any, name: str) -> Any:
        """A tensor or number that an object has as an attribute."""
        value = _attribute(held, name)
        if isinstance(value, Tensor) and value.numel() <= LARGEST:
            return value.detach()
        if isinstance(value, (int, float)):
            return value
        raise UnknownError

    def _item(self, value: Any) -> Any:
        """A tensor or number in a batch, unless it is bad already: only variables are looked into further."""
        if isinstance(value, Tensor) and value.numel() <= LARGEST and not is_bad(value):
            return value.detach()
        if isinstance(value, (int, float)):
            return value
        raise UnknownError

    def _parts(self, node: ast.expr) -> list[Any]:
        """The tensors that are written as a list, or that a variable holds a list of."""
        match node:
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [*map(self.value, parts)]
            case ast.Name(id=name):
                held = self.variables.get(name)
                if isinstance(held, list) and held and all(isinstance(each, Tensor) for each in held):
                    self.came_in += [name] if any(map(is_bad, held)) else []
                    return [each.detach() for each in held]
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
            case ast.Constant(value=EllipsisType()):
                return ...
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
            if pair[0] == "input" or name in _NAMES or isinstance(pair[1], Tensor) or Argument(*pair).is_bad_number
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
        is_given = any(_gives(each, result) for each in made.arguments)
        if self.birth is None and is_bad(result) and not is_given:
            self.birth = made
        elif self.turn is None and has_nan(result) and not any(has_nan(each) for _, each in given):
            self.turn = made
        return result


def _gives(argument: Argument, result: Any) -> bool:
    """Whether a bad result may have been given to the operation, as infinite numbers are that masks are made of."""
    if argument.is_bad_number:
        return cmath.isnan(argument.value) or not has_nan(result)
    return is_bad(argument.value)


class _Conditions:
    """Computes a call of a function as far as its conditions need it."""

    def __init__(self, variables: dict[str, Any], line: Recomputation) -> None:
        self._variables, self._line = variables, line

    def assign(self, name: str, value: ast.expr) -> None:
        try:
            self._variables[name] = self._line.value(value)
        except Exception:
            self._variables[name] = UNKNOWN

    def holds(self, test: ast.expr) -> bool:
        return self._line.holds(test)


def _is_object(value: Any) -> bool:
    """Whether it is an object with attributes, such as a module or a program's options."""
    return hasattr(value, "__dict__") and not isinstance(value, (Tensor, ModuleType, FunctionType, type))


def _attribute(held: Any, name: str) -> Any:
    """What an object has as an attribute, or its class as a plain value; properties are not computed."""
    own = vars(held)
    for members in (own, own.get("_parameters"), own.get("_buffers"), own.get("_modules")):
        if members and name in members:
            return members[name]
    value = inspect.getattr_static(type(held), name, UNKNOWN)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise UnknownError


def _line_at(code: CodeType, node: ast.expr) -> dict[str, Any]:
    """The line of a call in a function, as an event has it."""
    line = linecache.getline(code.co_filename, node.lineno).strip()
    return {"filename": code.co_filename, "lineno": node.lineno, "function": code.co_qualname, "code_line": line}


def _holds_numbers(value: Any) -> bool:
    """Whether it is a list or an array of numbers, as rewards are collected in."""
    if isinstance(value, np.ndarray):
        return value.size <= LARGEST
    return isinstance(value, (list, tuple)) and all(isinstance(each, (int, float)) for each in value)
