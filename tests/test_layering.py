"""The code follows docs/architecture.md: layers, no cycles, small files, a light import."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src"
PACKAGE = SOURCE / "retrograd"

PAGE = (SOURCE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")


def layers() -> list[tuple[str, ...]]:
    """Return the layers in the order of the page, lowest first; modules in none of them belong to the last."""
    *listed, everything_else = re.findall(r"^\d+\. (.*)$", PAGE, flags=re.MULTILINE)
    assert everything_else.startswith("everything else")
    return [*(tuple(f"retrograd.{name}" for name in re.findall(r"`(\w+)`", line)) for line in listed), ("retrograd",)]


LAYERS = layers()


def layer_of(module: str) -> int:
    return next(number for number, packages in enumerate(LAYERS) if any(is_in(module, each) for each in packages))


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


class Import(NamedTuple):
    """What an import statement says of one module."""

    module: str
    for_types: bool  # only a type checker executes it
    late: bool  # within a function
    star: bool


BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")  # of a statement; expressions contain no import


@functools.cache  # several tests ask about each module, and parsing it takes longest
def all_imports(module: str) -> list[Import]:
    found: list[Import] = []

    def visit(block: Iterable[ast.AST], for_types: bool, late: bool) -> None:
        for node in block:
            if isinstance(node, ast.Import):
                found.extend(Import(alias.name, for_types, late, False) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    name = whole if whole in MODULES else node.module or ""
                    found.append(Import(name, for_types, late, alias.name == "*"))
            checks_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            for name in BLOCKS:
                visit(getattr(node, name, ()), for_types or checks_types, late or is_function)

    visit(ast.parse(MODULES[module].read_text(encoding="utf-8")).body, False, False)
    return found


def imports(module: str, *, at_import: bool = False, root: str = "retrograd") -> list[str]:
    """Return the modules under ``root`` that a module imports; with ``at_import``, only those imported with it."""
    return [
        each.module
        for each in all_imports(module)
        if not each.for_types and not (at_import and each.late) and is_in(each.module, root)
    ]


@pytest.mark.parametrize("module", MODULES)
def test_modules_import_only_from_lower_layers(module: str) -> None:
    too_high = {name for name in imports(module) if layer_of(name) > layer_of(module)}
    assert not too_high


def test_every_layer_has_modules() -> None:
    assert len(LAYERS) == 10
    names = [name for layer in LAYERS for name in layer]
    assert [name for name in names if not any(is_in(module, name) for module in MODULES)] == []


WITHOUT_TENSORS = ("retrograd.anomaly", "retrograd.batching", "retrograd.gpu", "retrograd.conjugate_views")
ADAPTERS = "retrograd.anomaly.adapters"


@pytest.mark.parametrize(
    "module",
    [name for name in MODULES if any(is_in(name, each) for each in WITHOUT_TENSORS) and not is_in(name, ADAPTERS)],
)
def test_modules_without_tensors_import_none(module: str) -> None:
    """These are the parts that the page lists, and all of the watch except its adapters."""
    allowed = (*WITHOUT_TENSORS, "retrograd.array_methods", "retrograd.context_decorators")
    assert [name for name in imports(module) if not any(is_in(name, each) for each in allowed)] == []
    assert imports(module, root="torch") == []


def test_imports_have_no_cycles() -> None:
    graph = {module: set(imports(module, at_import=True)) - {module} for module in MODULES}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if module not in done:
            for name in sorted(graph.get(module, ())):
                visit(name, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("module", MODULES)
def test_files_are_small(module: str) -> None:
    assert len(MODULES[module].read_text().splitlines()) <= 600


@pytest.mark.parametrize("module", MODULES)
def test_no_star_imports(module: str) -> None:
    assert not [each.module for each in all_imports(module) if each.star]


def output(code: str) -> str:
    """Return the output of a fresh process."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def printed(code: str) -> list[str]:
    return output(code).split()


def printed_by_each(beginning: str, programs: Iterable[str]) -> dict[str, list[str]]:
    """Return what each program prints in a process of its own, forked from one that has run only the beginning."""
    if not hasattr(os, "fork"):
        return {program: printed(f"{beginning}\n{program}") for program in programs}
    programs = list(programs)
    code = f"""if True:
        import os, sys
        {beginning}
        for program in {programs!r}:
            print("|", flush=True)
            child = os.fork()
            if child == 0:
                exec(program)
                sys.stdout.flush()
                os._exit(0)
            os.waitpid(child, 0)
        """
    return {program: words.split() for program, words in zip(programs, output(code).split("|")[1:], strict=True)}


def test_import_is_light() -> None:
    """It imports only NumPy and the standard library, and no module before its first use."""
    loaded = printed(
        "import sys, numpy; before = set(sys.modules); import retrograd; print(*sorted(set(sys.modules) - before))"
    )
    roots = {name.split(".")[0] for name in loaded}
    assert not roots & {"scipy", "torch", "cupy", "logging", "asyncio", "unittest", "concurrent", "multiprocessing"}
    assert "retrograd" in roots
    late = ["anomaly", "autograd.forward_ad", "autograd.graph", "core.jvp", "func", "nn", "optim", "utils"]
    late += ["fft", "linalg", "ops.conv", "ops.fft", "ops.linalg", "ops.numpy_functions", "ops.pool", "printing"]
    assert not {f"retrograd.{name}" for name in late} & set(loaded)


def test_node_and_result_classes_are_made_on_first_use() -> None:
    """Making hundreds of classes would take most of the import time."""
    made = printed(
        """if True:
        from retrograd.core.named_results import kinds
        from retrograd.core.registry import operations
        print(*[name for name, op in operations.items() if "node_class" in vars(op)])
        print(*[name for name, results in kinds.items() if "type" in vars(results)])
        """
    )
    assert made == []


LATE_METHODS = printed(
    """if True:
    import retrograd
    from retrograd.core.registry import LateMethod
    print(*[name for name, member in vars(retrograd.Tensor).items() if type(member) is LateMethod])
    """
)


KINDS_OF_METHODS = {
    name: f"print(type(rg.eye(2).{name}).__name__, type(vars(rg.Tensor)['{name}']).__name__)" for name in LATE_METHODS
}


@functools.cache
def printed_about_methods() -> dict[str, list[str]]:
    return printed_by_each("import retrograd as rg", KINDS_OF_METHODS.values())


@pytest.mark.parametrize("name", LATE_METHODS)
def test_late_methods_replace_themselves_on_first_use(name: str) -> None:
    """Each is the first of its module that a process uses."""
    assert printed_about_methods()[KINDS_OF_METHODS[name]] == ["method", "function"]


def test_late_methods_include_known_ones() -> None:
    assert {"det", "svd", "stft"} <= set(LATE_METHODS)


FIRST_CALLS = (
    "np.take(x, [0])",
    "np.add.reduce(x)",
    "np.fft.fft(x)",
    "np.linalg.norm(x)",
    "np.zeros(2, like=x)",
    "x.compress([True, False])",
    "np.sinc(x)",
)
KINDS_OF_RESULTS = {
    call: f"result = {call}; print(type(result).__name__, result.requires_grad or 'like' in {call!r})"
    for call in FIRST_CALLS
}


@functools.cache
def printed_about_results() -> dict[str, list[str]]:
    beginning = "import numpy as np; import retrograd as rg; x = rg.ones(2, requires_grad=True)"
    return printed_by_each(beginning, KINDS_OF_RESULTS.values())


@pytest.mark.parametrize("call", FIRST_CALLS)
def test_numpy_function_can_be_the_first_call_of_a_process(call: str) -> None:
    """Implementations are registered at the first call of a function that has none yet."""
    assert printed_about_results()[KINDS_OF_RESULTS[call]] == ["Tensor", "True"]


def test_reason_for_refusing_is_known_before_the_first_call() -> None:
    printed(
        """if True:
        import numpy as np
        from retrograd.core.numpy_protocols import reason_for_refusing
        assert "x.numpy()" in reason_for_refusing(np.busday_count)
        """
    )
