"""The code follows docs/architecture.md: layers, no cycles, small files, a light import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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


def imports(path: Path, *, at_import: bool = False, root: str = "retrograd") -> Iterator[str]:
    """Return the modules under ``root`` that a file imports; with ``at_import``, only those imported at import time."""

    def visit(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if at_import and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                continue
            if isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                for alias in child.names:
                    whole = f"{child.module}.{alias.name}"
                    yield whole if whole in MODULES else child.module
            yield from visit(child)

    yield from (name for name in visit(ast.parse(path.read_text())) if is_in(name, root))


@pytest.mark.parametrize("module", MODULES)
def test_modules_import_only_from_lower_layers(module: str) -> None:
    too_high = {name for name in imports(MODULES[module]) if layer_of(name) > layer_of(module)}
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
    assert [name for name in imports(MODULES[module]) if not any(is_in(name, each) for each in allowed)] == []
    assert list(imports(MODULES[module], root="torch")) == []


def test_imports_have_no_cycles() -> None:
    graph = {module: set(imports(path, at_import=True)) - {module} for module, path in MODULES.items()}
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
    tree = ast.parse(MODULES[module].read_text())
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]


def printed(code: str) -> list[str]:
    """Return the output of a fresh process."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


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


@pytest.mark.parametrize("name", LATE_METHODS)
def test_late_methods_replace_themselves_on_first_use(name: str) -> None:
    """Each is the first of its module that a process uses."""
    kinds = printed(
        f"""if True:
        import retrograd as rg
        print(type(rg.eye(2).{name}).__name__, type(vars(rg.Tensor)["{name}"]).__name__)
        """
    )
    assert kinds == ["method", "function"]


def test_late_methods_include_known_ones() -> None:
    assert {"det", "svd", "stft"} <= set(LATE_METHODS)


@pytest.mark.parametrize(
    "call",
    [
        "np.take(x, [0])",
        "np.add.reduce(x)",
        "np.fft.fft(x)",
        "np.linalg.norm(x)",
        "np.zeros(2, like=x)",
        "x.compress([True, False])",
        "np.sinc(x)",
    ],
)
def test_numpy_function_can_be_the_first_call_of_a_process(call: str) -> None:
    """Implementations are registered at the first call of a function that has none yet."""
    kinds = printed(
        f"""if True:
        import numpy as np
        import retrograd as rg
        x = rg.ones(2, requires_grad=True)
        result = {call}
        print(type(result).__name__, result.requires_grad or "like" in "{call}")
        """
    )
    assert kinds == ["Tensor", "True"]


def test_reason_for_refusing_is_known_before_the_first_call() -> None:
    printed(
        """if True:
        import numpy as np
        from retrograd.core.numpy_protocols import reason_for_refusing
        assert "x.numpy()" in reason_for_refusing(np.busday_count)
        """
    )
