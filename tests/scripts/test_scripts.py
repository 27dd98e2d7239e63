"""Training scripts written for torch print the same here after their import lines are changed."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.scripts.shared_chance import share

torch.set_num_threads(1)

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))

PAGE = Path(__file__).parent.parent.parent / "docs" / "from-torch.md"

_NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)(?!\w)")


def changed_imports(text: str) -> str:
    """Return the script after the change that docs/from-torch.md describes, which affects only import lines."""
    text = re.sub(r"^( *import (.*, *)?)torch( *([,;#].*)?)$", r"\1retrograd as torch\3", text, flags=re.MULTILINE)
    text = re.sub(r"^( *)(import|from) torch([. ])", r"\1\2 retrograd\3", text, flags=re.MULTILINE)
    return re.sub(
        r"^ *import .*$", lambda line: re.sub(r", *torch\.", ", retrograd.", line.group()), text, flags=re.MULTILINE
    )


def command_of_the_page() -> str:
    """Return the shell command for the same change."""
    (command,) = re.findall(r"<!-- import-command -->\n```\n(.*)\n```", PAGE.read_text())
    return command


def run(path: Path, text: str) -> str:
    """Return what a script prints; warnings are errors."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), warnings.catch_warnings():
        # torch warns about its own internals
        for words in (r"`torch\.jit", "Support for mismatched", "The given NumPy array is not writable"):
            warnings.filterwarnings("ignore", words)
        exec(compile(text, path.name, "exec"), {"__name__": "__main__"})
    return output.getvalue()


def numbers(text: str) -> np.ndarray:
    return np.array([float(number) for number in _NUMBER.findall(text)])


def words(text: str) -> str:
    """Return the printed text without decimal numbers, which NumPy may pad."""
    text = re.sub(r"[\s,]+", " ", _NUMBER.sub("#", text)).replace("[ ", "[").replace(" ]", "]")
    return text.replace("retrograd.", "torch.")


@pytest.fixture
def defaults() -> Iterator[None]:
    yield
    rg.set_default_dtype(rg.float32)
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.deterministic = False
    torch.backends.cudnn.benchmark = False
    torch.multiprocessing.set_sharing_strategy("file_descriptor")
    torch._dynamo.reset()  # otherwise this program would try to compile


@pytest.mark.usefixtures("defaults")
@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in PROGRAMS])
def test_script_prints_the_same_as_with_torch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text()
    double = re.search(r"float64|\.double\(\)", text) is not None
    got = run(path, changed_imports(text))
    share(monkeypatch)
    expected = run(path, text)
    assert words(got) == words(expected)
    assert len(numbers(expected)) > 5, "the script reports nothing to compare"
    tolerance = 1e-9 if double else 1e-4
    np.testing.assert_allclose(numbers(got), numbers(expected), rtol=tolerance, atol=tolerance)


@pytest.mark.skipif(shutil.which("sed") is None, reason="there is no sed")
def test_command_of_the_page_changes_the_imports(tmp_path: Path) -> None:
    for path in PROGRAMS:
        (tmp_path / "train.py").write_text(path.read_text())
        subprocess.run(command_of_the_page(), shell=True, cwd=tmp_path, check=True)
        assert (tmp_path / "train_rg.py").read_text() == changed_imports(path.read_text())


def test_changed_script_differs_only_in_import_lines() -> None:
    for path in PROGRAMS:
        text = path.read_text()
        pairs = zip(text.splitlines(), changed_imports(text).splitlines(), strict=True)
        assert {before.split()[0] for before, after in pairs if before != after} <= {"import", "from"}


def test_page_states_the_number_of_scripts() -> None:
    assert f"[{len(PROGRAMS)} scripts](../tests/scripts/programs)" in PAGE.read_text()


IMPORTS = {
    "import torch": "import retrograd as torch",
    "    import torch": "    import retrograd as torch",
    "import torch  # the library": "import retrograd as torch  # the library",
    "import torch; import os": "import retrograd as torch; import os",
    "import torch, math": "import retrograd as torch, math",
    "import os, torch": "import os, retrograd as torch",
    "import numpy as np, torch, torch.nn as nn": "import numpy as np, retrograd as torch, retrograd.nn as nn",
    "import torch.nn as nn, torch.nn.functional as F": "import retrograd.nn as nn, retrograd.nn.functional as F",
    "import torch as th": "import retrograd as th",
    "from torch import nn, optim": "from retrograd import nn, optim",
    "from torch.nn import functional as F": "from retrograd.nn import functional as F",
    "import torchvision": "import torchvision",
    "from torchvision import transforms": "from torchvision import transforms",
    "import torchmetrics, torch": "import torchmetrics, retrograd as torch",
    "print('import torch')": "print('import torch')",
}


def test_all_kinds_of_import_lines_are_changed() -> None:
    assert changed_imports("\n".join(IMPORTS)).splitlines() == list(IMPORTS.values())


@pytest.mark.skipif(shutil.which("sed") is None, reason="there is no sed")
def test_command_of_the_page_changes_all_kinds_of_import_lines(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("\n".join(IMPORTS))
    subprocess.run(command_of_the_page(), shell=True, cwd=tmp_path, check=True)
    assert (tmp_path / "train_rg.py").read_text().splitlines() == list(IMPORTS.values())
