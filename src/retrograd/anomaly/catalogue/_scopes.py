"""What names mean in the lines of a program, according to its file.

Code from one line may mean something else in another one, as its names may have been reassigned in between; and a
remedy may use only names that have a value where it is written.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from retrograd.anomaly.catalogue._imports import is_module
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.parsing import module_of, names_in, tree_of
from retrograd.anomaly.surroundings import Place

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Scopes:
    """The statements that bind names in a program: the names, with the first and last line of each statement."""

    written: tuple[tuple[str, int, int], ...] = ()
    functions: tuple[tuple[int, int], ...] = ()

    def keep(self, names: Collection[str], made: int, used: int) -> bool:
        """Whether names mean in the line ``used`` what they did in the line ``made``, which comes before it."""
        if not made <= used or self._around(made) - self._around(used):
            return False
        return not any(name in names and made < start and end < used for name, start, end in self.written)

    def _around(self, lineno: int) -> set[tuple[int, int]]:
        """The functions that contain a line."""
        return {(start, end) for start, end in self.functions if start < lineno <= end}


_END = sys.maxsize  # a line behind all others


def names_are_kept(names: Collection[str], made: Place | None, used: Place | None) -> bool:
    """Whether names mean the same in two lines, as far as the program can be read."""
    if made is None or used is None:
        return True
    scopes = _scopes_in(tree_of(made.filename or used.filename))
    if not used.is_in_file_of(made):  # another cell of a notebook, which was run before
        others = _scopes_in(tree_of(used.filename))
        return used.sees(made) and scopes.keep(names, made.lineno, _END) and others.keep(names, 0, used.lineno)
    return used.sees(made) and scopes.keep(names, made.lineno, used.lineno)


def written_by(statement: ast.AST) -> Iterator[str]:
    """The names that a statement gives a value, or changes in place by a method: ``x`` in ``x.mul_(2)``."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield node.id
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield from _parts(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
            yield from _parts(node.func.value)


def definition_of(name: str, place: Place) -> ast.FunctionDef | ast.Lambda | None:
    """The function that a name means in a line, if its program defines it once."""
    for scope in reversed(_scopes_at(place)):
        bound = [each for each in (scope, *_inside(scope)) if name in _names_bound(each, scope)]
        if len(bound) > 1:
            return None
        for node in bound:
            if isinstance(node, ast.FunctionDef) and node is not scope:
                return None if node.decorator_list else node
            made = (each for each in _inside(scope) if isinstance(each, ast.Assign) and node in each.targets)
            value = next((each.value for each in made), None)
            return value if isinstance(value, ast.Lambda) else None
    return None


def assignments_to(name: str, place: Place | None) -> list[ast.Assign]:
    """The statements that give a variable, or an attribute such as ``self.name``, the value that it has in a line."""
    scopes = _scopes_at(place)
    for scope in reversed(scopes[:1] if "." in name else scopes):
        every = ast.walk(scope) if "." in name else _inside(scope)
        found = [each for each in every if isinstance(each, ast.Assign) and name in targets_of(each)]
        if found or any(name in _names_bound(each, scope) for each in (scope, *_inside(scope))):
            return found
    return []


def assignments_before(place: Place | None) -> Iterator[ast.Assign]:
    """The assignments above a line in the function that it stands in, or in the program, nearest first."""
    found = [each for each in _assignments_around(place) if place is not None and each.lineno < place.lineno]
    yield from sorted(found, key=lambda each: -each.lineno)


def _assignments_around(place: Place | None) -> Iterator[ast.Assign]:
    """The assignments in the function that a line stands in, or in the program."""
    return (each for scope in _scopes_at(place)[-1:] for each in _inside(scope) if isinstance(each, ast.Assign))


def reads_of(name: str, place: Place | None) -> list[ast.Name]:
    """Where the function that a line stands in reads a variable that it makes in one place; empty if in several."""
    for scope in _scopes_at(place)[-1:]:
        found = [each for each in ast.walk(scope) if isinstance(each, ast.Name) and each.id == name]
        made = [each for each in found if isinstance(each.ctx, ast.Store)]
        if len(made) == 1 and name not in _names_bound(scope, scope):
            return [each for each in found if isinstance(each.ctx, ast.Load)]
    return []


def targets_of(statement: ast.Assign) -> set[str]:
    """What a statement gives a value by itself: ``x = y``, and ``(x,) = y``."""
    targets = (
        each.elts if isinstance(each, ast.Tuple) and len(each.elts) == 1 else [each] for each in statement.targets
    )
    return {ast.unparse(each) for target in targets for each in target if isinstance(each, (ast.Name, ast.Attribute))}


def is_global_at(name: str, place: Place) -> bool:
    """Whether a name means in a line what it does in the whole program: a module, a builtin or a global variable."""
    scopes = _scopes_at(place)
    if not scopes:
        return False
    tree, *functions = scopes
    inner = any(name in _names_bound(each, scope) for scope in functions for each in (scope, *_inside(scope)))
    known = (
        is_module(name) or hasattr(builtins, name) or any(name in _names_bound(each, tree) for each in _inside(tree))
    )
    return known and not inner


def is_put_into_part(name: str, place: Place | None) -> bool:
    """Whether the function that a line stands in assigns a variable to a part of another one: ``y[0:2] = name``."""
    assignments = _assignments_around(place)
    into = (each for each in assignments if any(isinstance(target, ast.Subscript) for target in each.targets))
    return any(isinstance(each.value, ast.Name) and each.value.id == name for each in into)


def is_given_to(functions: Collection[str], name: str, place: Place | None) -> bool:
    """Whether one of these functions is called with a variable, or a multiple of it, where a line stands."""
    for call in (node for scope in _scopes_at(place)[-1:] for node in ast.walk(scope)):
        if isinstance(call, ast.Call) and isinstance(call.func, (ast.Name, ast.Attribute)):
            called = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
            given = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
            while isinstance(given, ast.BinOp) and isinstance(given.op, (ast.Mult, ast.Div)):
                given = given.right if isinstance(given.left, ast.Constant) else given.left
            if canonical(called) in functions and isinstance(given, ast.Name) and given.id == name:
                return True
    return False


def _parts(node: ast.expr) -> Iterator[str]:
    """The name at the beginning of what an expression is a part of, and the attributes on the way."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)
        node = node.value
    if isinstance(node, ast.Name) and node.id not in ("self", "cls"):
        yield node.id


def names_read(node: ast.AST) -> set[str]:
    """The names and attributes that an expression depends on."""
    read = (each for each in ast.walk(node) if isinstance(each, (ast.Name, ast.Attribute)))
    return {each.id if isinstance(each, ast.Name) else ast.unparse(each) for each in read}


@lru_cache(maxsize=8)
def _scopes_in(tree: ast.Module) -> Scopes:
    written: list[tuple[str, int, int]] = []
    functions = []
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            functions.append((node.lineno, node.end_lineno or node.lineno))
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            written += ((name, node.lineno, node.lineno) for name in written_by(node.target))
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            targets = (each.optional_vars for each in node.items if each.optional_vars is not None)
            written += ((name, node.lineno, node.lineno) for target in targets for name in written_by(target))
        elif isinstance(node, (ast.If, ast.While)):
            written += ((name, node.lineno, node.lineno) for name in written_by(node.test))
        elif isinstance(node, ast.stmt) and not hasattr(node, "body"):
            written += ((name, node.lineno, node.end_lineno or node.lineno) for name in written_by(node))
    return Scopes(tuple(written), tuple(functions))


# --- which variables have a value in a line --------------------------------------------------------------------------


def may_stand_at(text: str, others: Iterable[str], place: Place) -> bool:
    """Whether all that a line reads has a value in a place, as far as the file tells.

    What ``others`` read that stand there or before has one, and so have modules and builtins; to other variables one is
    to be given in the lines before, or outside of the function.
    """
    read, scopes = _read_by(text), _scopes_at(place)
    if read is None or not scopes:
        return True
    there = set().union(*filter(None, map(_read_by, others)))
    return all(
        name in there or is_module(name) or hasattr(builtins, name) or _is_bound(name, scopes, place.lineno)
        for name in read
    )


def _read_by(text: str) -> set[str] | None:
    """The variables that a line reads and does not make itself; None if it is no statement by itself."""
    try:
        tree = module_of(text.strip())
    except (SyntaxError, ValueError):
        return None
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    inner = (ast.comprehension, ast.NamedExpr, ast.Lambda)
    made = {each for node in ast.walk(tree) if isinstance(node, inner) for each in _names_bound(node)}
    return {node.id for node in names if isinstance(node.ctx, ast.Load)} - made


def _scopes_at(place: Place | None) -> list[ast.AST]:
    """The module and the functions that a line stands in, from the outside in; none if its file cannot be read."""
    tree = tree_of(None if place is None else place.filename)
    return list(_around(tree, place.lineno)) if place is not None and tree.body else []


def _around(tree: ast.AST, lineno: int) -> Iterator[ast.AST]:
    """The scopes of :func:`_scopes_at` within a tree."""
    yield tree
    inner = (node for node in _inside(tree) if isinstance(node, _SCOPES))
    scope = next((node for node in inner if node.lineno <= lineno <= (node.end_lineno or node.lineno)), None)
    if scope is not None:
        yield from _around(scope, lineno)


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """What stands in a scope, but for what stands in those inside of it."""
    queue = list(ast.iter_child_nodes(scope))
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, (*_SCOPES, *_COMPREHENSIONS)):
            queue += ast.iter_child_nodes(node)


def _is_bound(name: str, scopes: list[ast.AST], lineno: int) -> bool:
    """Whether a variable has a value in the innermost of some scopes: one of its own, or else one from further out."""
    for scope in reversed(scopes):
        lines = [getattr(node, "lineno", 0) for node in (scope, *_inside(scope)) if name in _names_bound(node, scope)]
        if not lines or (isinstance(scope, ast.ClassDef) and scope is not scopes[-1]):
            continue
        return scope is not scopes[-1] or min(lines) < lineno
    return False


def _names_bound(node: ast.AST, scope: ast.AST | None = None) -> set[str]:
    """The variables that a node gives values to; of a function the parameters, where it is the ``scope`` itself."""
    if isinstance(node, _FUNCTIONS) and (node is scope or scope is None):
        given = node.args
        every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
        return {each.arg for each in every if each is not None}
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node is not scope:
        return {node.name}
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(each.asname or each.name).partition(".")[0] for each in node.names}
    if isinstance(node, (ast.comprehension, ast.NamedExpr)):
        return names_in(node.target)
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name is not None:
        return {node.name}
    return set()
