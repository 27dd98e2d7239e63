"""The report that docs/pytorch.md shows is what its script gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.anomaly.torch.pages import PAGE
from tests.test_cli import retrograd

pytest.importorskip("torch", reason="torch is not installed")  # the script imports it


def test_the_report_of_the_page_is_what_its_script_gives(tmp_path: Path) -> None:
    found = re.search(r"```python\n(import torch\n.*?)```.*?```\n(NaN born in .*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    (tmp_path / "train.py").write_text(found[1])
    done = retrograd("run", "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "\n".join(exact(found[2])) in "\n".join(exact(done.stderr))


def exact(text: str) -> list[str]:
    """The lines but for losses and norms, whose last digits are the processor's own."""
    return [line for line in text.splitlines() if not re.match(r"(before)?\s+(loss|grad_norm)  ", line)]
