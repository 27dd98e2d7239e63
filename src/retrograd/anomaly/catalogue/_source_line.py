"""Reading the user's source line: the operations in it, the names of their arguments, how to rewrite it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

from retrograd.anomaly.catalogue._imports import is_module, module_called, names_of_modules
from retrograd.anomaly.catalogue._scopes import names_are_kept, names_read, written_by
from retrograd.anomaly.operation_names import KNOWN, TRANSPARENT, canonical
from retrograd.anomaly.parsing import expression_of, module_of, parameters_of
from retrograd.anomaly.surroundings import Place

_Node = TypeVar("_Node", bound=ast.AST)
_OPERATORS: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Mod: "remainder",
    ast.FloorDiv: "floor_divide",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.USub: "neg",
}

_ONE_ARGUMENT = frozenset(
    ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "rsqrt", "sigmoid", "tanh", "acos", "asin", "atanh")
)
_OBJECT = ("self", "cls")
_LOOSE = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.NamedExpr, ast.Starred, ast.Await)


@dataclass(frozen=True, eq=False)
class Written:
    """An operation as written in a line: ``torch.log(x)``, ``x.log()``, ``a / b``.

    ``form`` is ``"function"``, ``"method"`` or ``"operator"``; ``prefix`` is the module that a function is called
    from (``"torch.linalg"``), or empty.
    """

    line: Line
    node: ast.AST
    op: str
    arguments: tuple[ast.expr, ...]
    keywords: Mapping[str, ast.expr]
    form: str
    prefix: str = ""

    def __bool__(self) -> bool:
        """Whether it is one: what stands for an operation that is not written has no arguments."""
        return bool(self.op)

    def argument(self, position: int, *names: str) -> ast.expr | None:
        """The argument passed by one of these names or at a position (0 is the receiver of a method)."""
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return self.arguments[position] if position < len(self.arguments) else None

    def given(self, op: str, params: Sequence[str], param: str) -> ast.expr | None:
        """The argument for one of an operation's parameters; if this is another function, only one passed by name."""
        if param in self.keywords or self.op != op:
            return self.keywords.get(param)
        if op == "where" and self.form == "method":  # input.where(condition, other)
            params = (params[1], params[0], *params[2:])
        return self.argument(list(params).index(param))

    def text(self, position: int, *names: str) -> str | None:
        """The source text of :meth:`argument`."""
        node = self.argument(position, *names)
        return None if node is None else self.line.text(node)

    @property
    def changed(self) -> ast.expr | None:
        """The target that the operation changes in place, if it does."""
        if isinstance(self.node, ast.AugAssign):
            return self.node.target
        return next((each for each in self.arguments[:1] if self.line.is_written_to(each)), None)

    def parts(self) -> tuple[ast.expr, ...]:
        """All arguments."""
        return (*self.arguments, *self.keywords.values())

    def rest(self) -> list[str]:
        """The texts of all arguments except the first, keywords with their names."""
        rest = [self.line.text(argument) for argument in self.arguments[1:]]
        return rest + [f"{name}={self.line.text(value)}" for name, value in self.keywords.items() if name != "input"]

    def of_first(self, new: str) -> str:
        """The same call with another first argument."""
        node = self.argument(0, "input")
        return self.line.text(self.node, {} if node is None else {node: new})

    def renamed(self, name: str, *more: str) -> str:
        """The same call, but of another function and with more arguments at the end."""
        first, rest = self.text(0, "input") or "", [*self.rest(), *more]
        if self.form == "method":
            return f"{atom(first)}.{name}({', '.join(rest)})"
        return f"{self.prefix}{'.' if self.prefix else ''}{name}({', '.join([first, *rest])})"

    def with_keyword(self, name: str, value: str) -> str:
        """The text of the call with one keyword argument set."""
        if name in self.keywords:
            return self.line.text(self.node, {self.keywords[name]: value})
        unpacked = [each.value for each in getattr(self.node, "keywords", ()) if each.arg is None]
        if unpacked:  # ``**options``, which may hold it already
            options = f'({self.line.text(unpacked[-1])} | {{"{name}": {value}}})'
            return self.line.text(self.node, {unpacked[-1]: options})
        text = self.line.text(self.node).rstrip()[:-1].rstrip().rstrip(",")
        return f"{text}, {name}={value})" if self.parts() else f"{text}{name}={value})"


@dataclass(frozen=True, eq=False)
class Site:
    """An operation's position in a line: spelled out, or as a name that an earlier line assigned.

    If spelled out, ``node`` is ``written.node``. ``place`` is the place of the line, ``made`` that of the line with
    ``written``, if it is a different line. :data:`NOWHERE`, which is false, stands for an unknown one.
    """

    line: Line
    node: ast.AST
    written: Written
    place: Place | None
    made: Place | None = None

    def __bool__(self) -> bool:
        return bool(self.line)

    def replaced(self, new: str) -> str | None:
        """The line with this operation replaced; None if the position is unknown."""
        return self.line.replaced({self.node: new})

    def text(self, position: int, *names: str) -> str | None:
        """The text of an argument, as usable in the line; None if its names mean something else there."""
        return self.written.text(position, *names) if self.can_be_moved else None

    @property
    def can_be_moved(self) -> bool:
        """Whether the code of an earlier line means the same in this one: ``x`` in ``x = exp(x)`` does not."""
        if self.made is None:
            return True
        names = set().union(*map(names_read, self.written.parts()))
        return self.keeps(names, self.written.line, self.written.node, self.made)

    def keeps(self, names: Collection[str], line: Line, node: ast.AST, made: Place | None) -> bool:
        """Whether names mean the same at this site as in a node of a line that is executed before."""
        _, own, since = line.written_around(node)
        before = set() if line is self.line else self.line.written_around(self.node)[0]
        return not (own | since | before).intersection(names) and names_are_kept(names, made, self.place)


_RECEIVER = "..."  # stands for the lines above, in a chain of calls with one on each line
_ABOVE = "lines_above "  # stands for the lines before an operator that continues an expression
_OPERATOR = re.compile(r"(?:[-+*/@%&|^]|(?:and|or)\b)")
_CLOSED = re.compile(r"\s*[\])},]\s*(?:#[^'\"]*)?$")  # the end of a line that closes brackets of earlier lines
_MOST_CLOSED = 6
_ADDED = re.compile(r"^\(\.\.\. \+ ([\w.-]+)\)")

# The beginning of a line that is a clause of a compound statement; the rest is a complete statement.
_HEAD = re.compile(r"el(?=if\b)|(else|try|finally|except\b[^:]*|case\b[^:]*):\s*(?=[^\s#])")


class Line:
    """A line (or whole statement) of the user's program; empty, and false, if it cannot be read."""

    def __init__(self, source: str, tree: ast.Module, head: str = "", tail: str = "") -> None:
        self._encoded = source.encode()
        self._above = _ABOVE if source.startswith(_ABOVE) else ""
        self._head = head
        self._tail = tail
        self._tree = tree
        self._starts = [0]
        for row in self._encoded.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(row))
        self._parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}

    def __bool__(self) -> bool:
        return bool(self._encoded)

    @staticmethod
    def parse(source: str | None) -> Line:
        """The parsed line, empty if it is not complete Python. The header of a block counts as complete."""
        return Line._parse(source, names_of_modules())

    @staticmethod
    @lru_cache(maxsize=256)
    def _parse(source: str | None, modules: frozenset[str]) -> Line:
        """The cached :meth:`parse`; by the names of modules functions are distinguished from methods."""
        text = (source or "").strip()
        if not text:
            return _UNREADABLE
        head = match[0] if (match := _HEAD.match(text)) else ""
        rest = text[len(head) :]
        tail = " \\" if rest.endswith("\\") else ""  # the statement continues in the next line
        rest = rest.removesuffix("\\").rstrip()
        if rest.startswith("."):  # the next method of a chain
            rest = _RECEIVER + rest
        elif _OPERATOR.match(rest):
            rest = _ABOVE + rest
        for _ in range(_MOST_CLOSED):
            code = rest.split("#")[0].rstrip() if "'" not in rest and '"' not in rest else rest
            for candidate in (rest, rest + " pass" if code.endswith(":") else rest):
                try:
                    return Line(rest, module_of(candidate), head, tail)
                except (SyntaxError, ValueError):
                    continue
            closed = _CLOSED.search(rest)
            if closed is None or tail == " \\":
                return _UNREADABLE
            rest, tail = rest[: closed.start()], closed[0] + tail
        return _UNREADABLE

    # Text

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def text(self, node: ast.AST, edits: Mapping[ast.AST, str] | None = None) -> str:
        """The source text of a node, with nodes inside it (or itself) replaced; for ``a -= b``, ``a - b``."""
        if edits and node in edits:  # the parentheses around it are not the node's
            return edits[node]
        if isinstance(node, ast.AugAssign):
            operator = self._encoded[self._span(node.target)[1] : self._span(node.value)[0]].decode().partition("=")[0]
            return f"{self.text(node.target, edits)}{operator} {atom(self.text(node.value, edits))}"
        return self._spliced(*self._span(node), edits or {})

    def replaced(self, edits: Mapping[ast.AST, str]) -> str | None:
        """The whole line with nodes replaced; None if it is empty, or what stands for the lines above had to move."""
        if not self:
            return None
        text = self._spliced(0, len(self._encoded), edits)
        if self._above:
            rest = text.removeprefix(self._above)
            return self._head + rest + self._tail if rest != text and _ABOVE.strip() not in rest else None
        if _RECEIVER.encode() + b"." == self._encoded[: len(_RECEIVER) + 1]:
            rest = _ADDED.sub(r".add(\1)", text).removeprefix(_RECEIVER)
            return rest if rest.startswith(".") and _RECEIVER not in rest else None
        return self._head + text + self._tail

    def _spliced(self, start: int, end: int, edits: Mapping[ast.AST, str]) -> str:
        pieces, position = [], start
        for (first, last), new in sorted(self._fitted(node, new) for node, new in edits.items()):
            if position <= first and last <= end:
                pieces += [self._encoded[position:first], new.encode()]
                position = last
        return b"".join((*pieces, self._encoded[position:end])).decode()

    def _fitted(self, node: ast.AST, new: str) -> tuple[tuple[int, int], str]:
        """The span that a new text replaces, and the text, with parentheses if needed there."""
        first, last = self._span(node)
        if isinstance(node, ast.AugAssign):
            return (first, last), f"{self.text(node.target)} = {new}"
        parent = self._parents.get(node)
        if self.is_written_to(node):  # the tensor itself must be changed, not something made from it
            new = _in_place(self.text(node), new)
        tight = (
            isinstance(parent, (*_LOOSE, ast.Attribute))
            or (isinstance(parent, ast.Subscript) and parent.value is node)
            or (isinstance(parent, ast.Call) and parent.func is node)
        )
        if not tight:
            return (first, last), new
        opened, closed = self._encoded[:first].rstrip(), self._encoded[last:].lstrip()
        if opened.endswith(b"(") and closed.startswith(b")"):  # its own parentheses are replaced, too
            first, last = len(opened) - 1, len(self._encoded) - len(closed) + 1
        return (first, last), atom(new)

    def is_written_to(self, node: ast.AST) -> bool:
        """Whether an in-place function or method changes the node, as in ``x.log_()`` or ``torch.log_(x[0])``."""
        parent = self._parents.get(node)
        call = self._parents.get(parent) if isinstance(parent, ast.Attribute) and parent.value is node else parent
        may_be_seen = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) or _may_give_view(node)
        if not may_be_seen or not isinstance(call, ast.Call):
            return False
        name = dotted(call.func) or f".{getattr(call.func, 'attr', '')}"
        is_function = "." not in name or is_module(name.split(".")[0])
        is_target = call.args[:1] == [node] if is_function else call.func is parent
        return is_target and name.endswith("_") and not name.endswith("__")

    # Structure

    def inside(self, node: ast.AST, outer: ast.AST) -> bool:
        """Whether ``node`` is ``outer`` or within it."""
        step: ast.AST | None = node
        while step is not None and step is not outer:
            step = self._parents.get(step)
        return step is outer

    def column(self, node: ast.AST) -> int:
        """The column, in characters, where a node begins in its (stripped) line."""
        return len(self._head) + len(self._encoded[: self._span(node)[0]].decode()) - len(self._above)

    def given_at(
        self, columns: tuple[int, int], op: str, params: Sequence[str], param: str
    ) -> tuple[ast.expr | None, bool]:
        """The argument written for a parameter of the operation at these columns, which may be an assignment.

        ``params`` are the operation's parameters, in the order of its operands. The second result tells whether the
        operation itself is written there, rather than a function that calls it.
        """
        for written in self.operations:
            if self._columns(written.node) == columns:
                return written.given(op, params, param), written.op == op
        for statement in self._nodes(ast.Assign) if param in params[1:] else ():
            if any(self._columns(each) == columns for each in statement.targets):
                return statement.value, True
        return None, False

    def _nodes(self, kind: type[_Node]) -> Iterator[_Node]:
        """All nodes of a kind, also inside others: the assignment in ``if condition: x[0] = 1``."""
        return (each for each in ast.walk(self._tree) if isinstance(each, kind))

    def written_in_place(self, columns: tuple[int, int]) -> tuple[str, ast.expr] | None:
        """The in-place operation at these columns, by its method's name, and its target."""
        for each in self.operations:
            if self._columns(each.node) == columns and each.changed is not None:
                function = each.node.func if isinstance(each.node, ast.Call) else None
                return getattr(function, "attr", getattr(function, "id", f"{each.op}_")), each.changed
        return None

    def text_given(self, name: str) -> str | None:
        """The text of the only argument passed by this name, or of the only value assigned to an item."""
        given = [each.value for each in self.keywords() if each.arg == name]
        given += [each.value for each in self._nodes(ast.Assign) if isinstance(each.targets[0], ast.Subscript)]
        filled = [each for each in self.operations if each.op in ("fill", "masked_fill") and name == "value"]
        given += [each.arguments[-1] for each in filled if not given and each.arguments]
        return self.text(given[0]) if len(given) == 1 else None

    def _columns(self, node: ast.AST) -> tuple[int, int]:
        start, end = self._span(node)
        return self.column(node), self.column(node) + len(self._encoded[start:end].decode())

    def operation_at(self, node: ast.AST | None) -> Written:
        """The operation that an expression consists of; :data:`NOTHING` if it is none."""
        return next((written for written in self.operations if written.node is node), NOTHING)

    def only(self, op: str) -> Written:
        """The only operation of this name; :data:`NOTHING` if the line has none or several."""
        found = [written for written in self.operations if written.op == op]
        return found[0] if len(found) == 1 else NOTHING

    def called_at(self, column: int) -> str | None:
        """The name of the function or layer whose call begins at a column, dots included."""
        return next((name for name, node in self.calls() if self.column(node) == column), None)

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        """The calls of named functions, dots included: ``self.act(x)``."""
        return ((name, node) for node in self._nodes(ast.Call) if (name := dotted(node.func)) is not None)

    def used_by(self, node: ast.AST, op: str) -> bool:
        """Whether a node is within the arguments of an operation."""
        return any(w.op == op and w.node is not node and self.inside(node, w.node) for w in self.operations)

    def same(self, node: ast.expr) -> list[ast.expr]:
        """Every expression in the line that is written like ``node``."""
        wanted = ast.dump(node)
        return [other for other in self._nodes(ast.expr) if ast.dump(other) == wanted]

    @cached_property
    def written(self) -> frozenset[str]:
        """The names that the line assigns."""
        return frozenset(name for statement in self._tree.body for name in written_by(statement))

    def names(self) -> Iterator[ast.Name]:
        """The names that the line reads, including ``x`` of ``x /= y``, which it also writes."""
        changed = {each.target for each in self._nodes(ast.AugAssign)}
        return (node for node in self._nodes(ast.Name) if isinstance(node.ctx, ast.Load) or node in changed)

    def parameters(self) -> set[str]:
        """The names of the parameters of lambdas in the line."""
        return {node.arg for node in self._nodes(ast.arg)}

    def default_of(self, parameter: str) -> ast.expr | None:
        """The default of a parameter of a lambda in the line; None if it has none."""
        every = map(parameters_of, self._nodes(ast.arguments))
        return next((known[parameter] for known in every if parameter in known), None)

    def constants(self) -> Iterator[tuple[ast.expr, float]]:
        """The numbers written in the line, with their values by :func:`number_written`."""
        return ((node, known) for node in self._nodes(ast.expr) if (known := number_written(node)) is not None)

    def is_item(self, node: ast.AST) -> bool:
        """Whether an expression is an item of a list or tuple, as literal data are."""
        parent = self._parents.get(node)
        return isinstance(parent, (ast.List, ast.Tuple)) or (isinstance(parent, ast.UnaryOp) and self.is_item(parent))

    def is_picked(self, node: ast.AST) -> bool:
        """Whether an expression is subscripted."""
        parent = self._parents.get(node)
        return isinstance(parent, ast.Subscript) and parent.value is node

    def keywords(self) -> Iterator[ast.keyword]:
        """The keyword arguments of its calls."""
        return self._nodes(ast.keyword)

    def own_calls(self) -> Iterator[ast.Call]:
        """The calls of the object's own methods and layers: ``self.head(x)``."""
        calls = self._nodes(ast.Call)
        return (each for each in calls if isinstance(each.func, ast.Attribute) and dotted(each.func.value) in _OBJECT)

    def modules(self) -> Iterator[str]:
        """The modules that the line calls functions from."""
        owners = (name for name in self.names() if isinstance(self._parents[name], ast.Attribute))
        return (name.id for name in owners if is_module(name.id))

    @property
    def is_simple(self) -> bool:
        """Whether another statement may be put before it on the line: it is neither a block's header nor a fragment."""
        kinds = (ast.Assign, ast.Expr, ast.Return)
        return (
            bool(self) and not (self._head or self._above) and all(isinstance(each, kinds) for each in self._tree.body)
        )

    @property
    def _statement(self) -> ast.stmt | None:
        """The statement in the line, if there is just one."""
        return self._tree.body[0] if len(self._tree.body) == 1 else None

    @property
    def assignment(self) -> tuple[str, ast.expr] | None:
        """The name and the value, if the line is an assignment to a name."""
        return _assignment(self._statement)

    @property
    def value(self) -> ast.expr | None:
        """The expression that makes up the whole line, if there is one."""
        statement = self._statement
        return statement.value if isinstance(statement, ast.Expr) else None

    def assigned(self) -> Iterator[tuple[str, ast.expr]]:
        """The names that the line assigns with their values, as far as these pair up: ``a, b = x, y``."""
        for statement in self._tree.body:
            if (single := _assignment(statement)) is not None:
                yield single
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Tuple):
                values = statement.value.elts
                for target in statement.targets:
                    names = target.elts if isinstance(target, ast.Tuple) and len(target.elts) == len(values) else []
                    pairs = zip(names, values, strict=False)
                    yield from ((name.id, value) for name, value in pairs if isinstance(name, ast.Name))

    def _number_of(self, node: ast.AST) -> int:
        """The index of the statement that contains a node, in a line such as ``a = b; c = a``."""
        return next(place for place, each in enumerate(self._tree.body) if self.inside(node, each))

    def comes_before(self, node: ast.AST, other: ast.AST) -> bool:
        """Whether a node is in an earlier statement of the line than another one."""
        return self._number_of(node) < self._number_of(other)

    def written_around(self, node: ast.AST) -> tuple[set[str], set[str], set[str]]:
        """The names assigned by the statements before that of a node, by that statement, and by those after it."""
        body, own = self._tree.body, self._number_of(node)
        parts = body[:own], body[own : own + 1], body[own + 1 :]
        before, its, behind = ({name for each in part for name in written_by(each)} for part in parts)
        return before, its, behind

    @property
    def is_increment(self) -> bool:
        """Whether the line adds to a variable or subtracts from it: ``u += v`` or ``u = u - v``."""
        statement = self._statement
        if isinstance(statement, ast.AugAssign):
            return isinstance(statement.op, (ast.Add, ast.Sub))
        name, sum_ = self.assignment or (None, None)
        terms = [] if sum_ is None else [sum_]
        for term in terms:
            if isinstance(term, ast.BinOp) and isinstance(term.op, (ast.Add, ast.Sub)):
                terms += [term.left, term.right] if isinstance(term.op, ast.Add) else [term.left]
        return len(terms) > 1 and any(isinstance(term, ast.Name) and term.id == name for term in terms)

    @cached_property
    def operations(self) -> list[Written]:
        """Every operation in the line, outermost and leftmost first."""
        return [written for node in ast.walk(self._tree) if (written := self._written(node))]

    def _written(self, node: ast.AST) -> Written | None:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return Written(self, node, _OPERATORS[type(node.op)], (node.left, node.right), {}, "operator")
        if isinstance(node, ast.AugAssign) and type(node.op) in _OPERATORS:
            return Written(self, node, _OPERATORS[type(node.op)], (node.target, node.value), {}, "operator")
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            return Written(self, node, _OPERATORS[type(node.op)], (node.operand,), {}, "operator")
        if not isinstance(node, ast.Call):
            return None
        keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
        arguments = tuple(node.args)
        if isinstance(node.func, ast.Name):
            return Written(self, node, canonical(node.func.id), arguments, keywords, "function")
        if not isinstance(node.func, ast.Attribute):
            return None
        op, base = canonical(node.func.attr), node.func.value
        prefix = dotted(base)
        if prefix in _OBJECT:
            return None  # the user's own method
        alone = prefix is not None and "." not in prefix and op in _ONE_ARGUMENT and len(arguments) == 1
        if prefix is not None and (is_module(prefix.split(".")[0]) or alone):
            return Written(self, node, op, arguments, keywords, "function", prefix)
        return Written(self, node, op, (base, *arguments), keywords, "method")


_UNREADABLE = Line("", ast.Module([], []))
NOTHING = Written(_UNREADABLE, ast.Pass(), "", (), {}, "")
"""Stands for an operation that is not written in a line."""
NOWHERE = Site(_UNREADABLE, NOTHING.node, NOTHING, None)
"""Stands for an operation's position where that is not known."""


def _assignment(statement: ast.stmt | None) -> tuple[str, ast.expr] | None:
    """The name and the value, if a statement is an assignment to a name."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return name, value
    return None


def number_written(node: ast.AST | None) -> float | None:
    """The number that an expression is: ``-1``, or infinity or NaN by any of their names, ``-math.inf``."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            known = number_written(inner)
            return None if known is None else -known
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module_called(module) in _HAVE_INF:
            return _ODD.get(name)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text), *_]):
            return _ODD.get(text.strip().lower())
    return None


_HAVE_INF = frozenset(("math", "numpy", "retrograd", "torch"))
_ODD = {f"{sign}{name}": float(f"{sign}{name}") for sign in ("", "+", "-") for name in ("inf", "infinity", "nan")}


def dotted(node: ast.expr) -> str | None:
    """The expression as a name, dots included; None if it is not one."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None


def is_name(text: str) -> bool:
    """Whether a text is a name, dots included."""
    return text.replace(".", "").isidentifier()


def atom(text: str) -> str:
    """The expression, in parentheses unless it binds as tightly as a name."""
    try:
        body = expression_of(text)
    except SyntaxError:
        return f"({text})"
    is_enclosed = text.startswith("(") and body.col_offset > 0
    return f"({text})" if isinstance(body, (*_LOOSE, ast.Tuple)) and not is_enclosed else text


def _in_place(target: str, new: str) -> str:
    """Code that assigns the expression ``new`` to ``target`` in place."""
    name = re.escape(target)
    if match := re.fullmatch(rf"(?:\w+\.)*clamp\({name}, (.*)\)|{name}\.clamp\((.*)\)", new):
        return f"{target}.clamp_({match[1] or match[2]})"
    if match := re.fullmatch(rf"{name} \+ ([\w.-]+)", new):
        return f"{target}.add_({match[1]})"
    return f"{target}.copy_({new})"


def _may_give_view(node: ast.AST) -> bool:
    """Whether a node is a call of anything but an operation that makes a new tensor."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func) or ""
    op = canonical(name)
    return name.endswith("_") or op not in KNOWN or (op in TRANSPARENT and op not in _COPYING)


_COPYING = frozenset(("clone", "getitem", "to"))


def bare(node: ast.AST) -> ast.AST:
    """The expression without operations that merely pass it on: indexing, reshaping, ``.T``."""
    while True:
        match node:
            case ast.Subscript(value=inner) | ast.Attribute(value=inner):
                node = inner
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args) if canonical(name) in TRANSPARENT:
                base = dotted(owner)
                node = args[0] if base is not None and is_module(base) and args else owner
            case _:
                return node
