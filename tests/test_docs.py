"""The examples in the README, the pages and the docstrings work as shown."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import itertools
import pkgutil
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.registry import composites, operations

ROOT = Path(__file__).parent.parent
HAS_TORCH = find_spec("torch") is not None


def documented() -> dict[str, str]:
    """Return every docstring with an example by name."""
    found: dict[str, str] = {}

    def add(name: str, thing: Any) -> None:
        text = getattr(thing, "__doc__", None)
        if text == type(thing).__doc__:
            return  # the docstring of a plain value, such as the __firstlineno__ of a class, is that of its type
        if isinstance(text, str) and ">>>" in text:
            found[name] = text

    for name, op in operations.items():
        add(name, op)
    for name, function in composites.items():
        add(name, function)
    for info in pkgutil.walk_packages(rg.__path__, "retrograd."):
        if info.name.endswith("__main__"):
            continue
        if not HAS_TORCH and re.match(r"retrograd\.anomaly\.adapters\.(?!retrograd|learning_rates)", info.name):
            continue  # the adapters to torch and to libraries built on it
        library = info.name.removeprefix("retrograd.anomaly.adapters.")
        if library in ("accelerate", "lightning", "transformers") and find_spec(library) is None:
            continue  # an adapter to a library that is not installed
        module = import_module(info.name)
        add(info.name, module)
        for name, thing in vars(module).items():
            if getattr(thing, "__module__", None) != info.name:
                continue
            add(f"{info.name}.{name}", thing)
            if inspect.isclass(thing):
                for member, value in vars(thing).items():
                    add(f"{info.name}.{name}.{member}", value)
    return found


DOCUMENTED = documented()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_in_docstrings(name: str) -> None:
    assert_examples_hold(DOCUMENTED[name], name)


def assert_examples_hold(text: str, name: str) -> None:
    test = doctest.DocTestParser().get_doctest(text, {"rg": rg, "np": np}, name, name, 0)
    assert test.examples
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    output = io.StringIO()
    runner.run(test, out=output.write)
    assert runner.failures == 0, output.getvalue()


PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if ">>>" in page.read_text()]


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES])
def test_examples_in_pages(page: Path) -> None:
    """The blocks of a page share their names."""
    if not HAS_TORCH and ">>> import torch" in page.read_text():
        pytest.skip("torch is not installed")
    assert_examples_hold(code_blocks(page.read_text()), page.name)


def code_blocks(text: str) -> str:
    """Return the fenced blocks with examples; other lines become blank, which keeps the line numbers of the page."""
    parts = re.split(r"^```.*$", text, flags=re.MULTILINE)
    return "".join(
        part if inside and ">>>" in part else "\n" * part.count("\n")
        for part, inside in zip(parts, itertools.cycle((False, True)), strict=False)
    )


def test_files_named_in_the_architecture_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    named = re.findall(r"[\w*]+\.py\b", text)
    assert len(named) > 80
    assert [name for name in named if not any(file.match(name) for file in files)] == []


def test_architecture_names_every_package() -> None:
    words = set(re.findall(r"\w+", (ROOT / "docs" / "architecture.md").read_text()))
    packages = [path.parent for path in (ROOT / "src" / "retrograd").rglob("__init__.py")]
    assert [package.name for package in packages if package.name not in words] == []


@pytest.mark.parametrize("files", ["*.py", "anomaly/**/*.py", "batching/*.py", "core/*.py", "gpu/*.py", "ops/_*.py"])
def test_architecture_names_every_file_whose_name_does_not_explain_it(files: str) -> None:
    """The files of layers, optimizers and families of operations are left out: their names say enough."""
    words = set(re.findall(r"\w+", (ROOT / "docs" / "architecture.md").read_text()))
    found = {path.stem for path in (ROOT / "src" / "retrograd").glob(files)} - {"__init__", "__main__"}
    assert found
    assert sorted(found - words) == []


def test_links_between_documents_have_targets() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())]
    assert len(links) > 50
    assert [(page.name, link) for page, link in links if "://" not in link and not leads_somewhere(page, link)] == []


def leads_somewhere(page: Path, link: str) -> bool:
    """Whether the file exists and has the heading under the name that GitHub gives it."""
    name, _, heading = link.partition("#")
    target = page.parent / name if name else page
    if not target.exists() or not heading:
        return target.exists()
    titles = re.findall(r"^#+ (.*)$", target.read_text(), flags=re.MULTILINE)
    return heading in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_readme_example_prints_the_shown_output() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    expected = re.findall(r"print\(.*?\)\s+# (.*)", block)
    assert expected
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block, "README.md", "exec"), {})
    assert output.getvalue().splitlines() == expected


def test_every_public_function_has_a_docstring() -> None:
    public = {**operations, **composites}
    assert not [name for name, function in public.items() if not (function.__doc__ or "").strip()]
