"""The contents of each stub file."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import retrograd
from retrograd._lazy_names import NAMES, PACKAGES
from retrograd.core import registry
from retrograd.core.annotations import Operand, TensorOrArray
from retrograd.core.array_interface import ArrayInterface
from retrograd.core.named_results import kinds
from retrograd.core.tensor import Tensor
from retrograd.core.tensor_types import CPU_TYPES
from retrograd.ops.in_place import IN_PLACE
from tools.stubs.annotations import Names, hints
from tools.stubs.signatures import EMPTY, Parameter, Signature, as_method, in_place_of, is_composite, signatures

SOURCE = Path(__file__).parents[2] / "src"
PACKAGE = SOURCE / "retrograd"

NAMESPACES = ("retrograd", "retrograd.fft", "retrograd.linalg", "retrograd.nn.functional", "retrograd.special")

HEAD = '"""{} Written by ``python -m tools.stubs``; do not edit."""\n'


def stubs() -> dict[Path, str]:
    """The contents of all stub files, by path."""
    for info in pkgutil.walk_packages(retrograd.ops.__path__, "retrograd.ops."):
        importlib.import_module(info.name)
    results: set[str] = set()
    written = {path_of(module): namespace(module, results) for module in map(importlib.import_module, NAMESPACES)}
    written[PACKAGE / "core" / "methods.pyi"] = methods(results)
    written[PACKAGE / "return_types.pyi"] = return_types(results)
    return {path: formatted(path, text) for path, text in written.items()}


def path_of(module: ModuleType) -> Path:
    """The stub beside a module."""
    assert module.__file__ is not None
    return Path(module.__file__).with_suffix(".pyi")


def formatted(path: Path, text: str) -> str:
    """The text after the formatter, with sorted imports."""
    for command in (["check", "--select=I", "--fix", "--quiet"], ["format", "--quiet"]):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, f"--stdin-filename={path}", "-"],
            input=text, stdout=subprocess.PIPE, check=True, text=True, cwd=SOURCE.parent,
        ).stdout  # fmt: skip
    return text


# --- functions ----------------------------------------------------------------------------------------------------


def namespace(module: ModuleType, results: set[str]) -> str:
    """The stub of a public namespace: its operations with their signatures, and everything else imported."""
    found = imports_of(module)
    own = {name for name in found if is_typed_here(getattr(module, name))}
    if module is retrograd:
        own |= IN_PLACE
    types = CPU_TYPES if module is retrograd else ()
    names = Names({**found, **dict.fromkeys((*own, *types))})
    defined = [definition(name, signatures(getattr(module, name)), names) for name in sorted(own)]
    lines = [f"from {origin[0]} import {origin[1]} as {name}" for name, origin in found.items() if name not in own]
    if module is retrograd:
        tensor_type = names.name("retrograd.core.tensor_types", "TensorType")
        lines += [f"{name}: {tensor_type}" for name in CPU_TYPES]
        lines += [f"__version__: {names.name('builtins', 'str')}", "newaxis: None"]
    lines.append(f"__all__ = {module.__all__!r}")
    results |= names.results
    summary = (module.__doc__ or "").split("\n")[0]
    return "\n".join([HEAD.format(summary), *names.imports(), *lines, *defined])


def imports_of(module: ModuleType) -> dict[str, tuple[str, str]]:
    """The public names that a module imports, also those that it imports later."""
    assert module.__file__ is not None
    found = {}
    for statement in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ImportFrom) and statement.module != "__future__":
            for alias in statement.names:
                found[alias.asname or alias.name] = (str(statement.module), alias.name)
    if module is retrograd:
        found |= {name: ("retrograd", name) for name in PACKAGES}
        found |= {name: (f"retrograd.{where}", name) for name, where in NAMES.items()}
    return {name: origin for name, origin in found.items() if not name.startswith("_") or name in NAMES}


def is_typed_here(member: Any) -> bool:
    """Whether type checkers need its signature from a stub, because decorators hide it."""
    return hasattr(member, "op") or in_place_of(member) is not None or is_composite(member)


def definition(name: str, found: list[Signature], names: Names, doc: str | None = None) -> str:
    """A function, or all its overloads, of which the first has the docstring."""
    mark = f"@{names.name('typing', 'overload')}\n" if len(found) > 1 else ""
    bodies = ["..." if doc is None else f"\n{doc}", *["..."] * (len(found) - 1)]
    return "\n".join(
        f"{mark}def {name}{signature_text(each, names)}: {body}" for each, body in zip(found, bodies, strict=True)
    )


def signature_text(signature: Signature, names: Names) -> str:
    """Parameters and result as text."""
    parts = []
    bare = False  # whether a star stands before the keywords
    before = None
    for each in signature.parameters.values():
        if before is each.POSITIONAL_ONLY is not each.kind:
            parts.append("/")
        before = each.kind
        if each.kind is each.KEYWORD_ONLY and not bare:
            parts.append("*")
            bare = True
        bare = bare or each.kind is each.VAR_POSITIONAL
        stars = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        taken = "" if each.annotation is EMPTY else f": {names.text(each.annotation)}"
        default = "" if each.default is EMPTY else f" = {default_text(each.default)}"
        parts.append(f"{stars}{each.name}{taken}{default}")
    if before is Parameter.POSITIONAL_ONLY:
        parts.append("/")
    return f"({', '.join(parts)}) -> {names.text(signature.return_annotation)}"


def default_text(value: Any) -> str:
    """A default as text; an ellipsis for anything but a number, a string or a tuple of these."""
    return repr(value) if isinstance(value, (int, float, complex, str, tuple, type(None))) else "..."


# --- operators ----------------------------------------------------------------------------------------------------

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_UNARY = ("neg", "pos", "abs", "invert")


def operator_text(name: str, names: Names) -> str | None:
    """The text of an operator method; None for anything else."""
    bare = name.strip("_")
    tensor = names.text(Tensor)
    if bare in _UNARY:
        return f"def {name}(self) -> {tensor}: ..."
    if bare not in (*_COMPARISONS, *(kind + each for kind in ("", "r", "i") for each in _BINARY)):
        return None
    other = names.text(TensorOrArray if bare.endswith("matmul") else Operand)
    if name in ("__eq__", "__ne__"):
        return f"def {name}(self, other: {other}) -> {tensor}: ...  # type: ignore[override]"
    return f"def {name}(self, other: {other}) -> {tensor}: ..."


# --- methods ------------------------------------------------------------------------------------------------------


def methods(results: set[str]) -> str:
    """The methods that operations add to the class of tensors."""
    members = dict(registered_members())
    names = Names(dict.fromkeys(("Methods", *members)))
    blocks = [block for name, member in sorted(members.items()) for block in member_text(name, member, names)]
    results |= names.results
    base = names.name("retrograd.core.array_interface", "ArrayInterface")
    body = indented("\n".join(blocks))
    head = HEAD.format("The methods and operators of tensors that operations add.")
    return "\n".join([head, *names.imports(), f"class Methods({base}):", body])


def registered_members() -> Iterator[tuple[str, Any]]:
    """The public members of Tensor that are not written in its class."""
    tensor = retrograd.eye(2)
    inherited = {name for base in (ArrayInterface, object) for name in vars(base)}
    written = written_members()
    for name, member in list(vars(Tensor).items()):
        if name in written or (name in inherited and name.strip("_") not in _COMPARISONS):
            continue
        if isinstance(member, registry.LateMethod):
            getattr(tensor, name)
            member = vars(Tensor)[name]
        if isinstance(member, property) or inspect.isfunction(member):
            yield name, member


def written_members() -> set[str]:
    """The names that the class body of Tensor binds."""
    tree = ast.parse((PACKAGE / "core" / "tensor.py").read_text(encoding="utf-8"))
    (body,) = (each.body for each in tree.body if isinstance(each, ast.ClassDef) and each.name == "Tensor")
    found = {each.name for each in body if isinstance(each, ast.FunctionDef)}
    for each in body:
        if isinstance(each, ast.Assign):
            found |= {target.id for target in each.targets if isinstance(target, ast.Name)}
    return found


def member_text(name: str, member: Any, names: Names) -> Iterator[str]:
    """A property, a method, or all its overloads."""
    operator = operator_text(name, names) if name.startswith("__") else None
    if operator is not None:
        yield operator
        return
    if isinstance(member, property):
        returns = hints(inspect.unwrap(member.fget)).get("return", Any)  # type: ignore[arg-type]
        shown = names.text(Tensor if returns is Any else returns)
        yield f"@property\ndef {name}(self) -> {shown}:\n{doc_of(member)}"
        if member.fset is not None:
            taken = hints(member.fset)["value"]
            yield f"@{name}.setter\ndef {name}(self, value: {names.text(taken)}) -> None: ..."
        return
    yield definition(name, [as_method(each) for each in signatures(member)], names, doc_of(member))


def doc_of(member: Any) -> str:
    """The docstring of an object as the body of a stub."""
    doc = inspect.getdoc(member)
    if not doc:
        return "    ..."
    return indented(f'"""{doc}\n"""' if "\n" in doc else f'"""{doc}"""')


def indented(text: str) -> str:
    """The text indented as a block."""
    return "\n".join(f"    {line}" if line else line for line in text.split("\n"))


# --- results ------------------------------------------------------------------------------------------------------


def return_types(results: set[str]) -> str:
    """The classes of several results."""
    classes = [
        f"class {name}(NamedTuple):\n" + "\n".join(f"    {field}: Tensor" for field in kinds[name].fields)
        for name in sorted(results)
    ]
    head = HEAD.format("The classes of several results under names.")
    return "\n\n".join([head, "from typing import NamedTuple\n\nfrom retrograd.core.tensor import Tensor", *classes])
