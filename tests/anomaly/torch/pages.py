"""The programs that docs/pytorch.md shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "pytorch.md"


def example(adapter: str) -> Any:
    """The program that uses an adapter, to be executed."""
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (program,) = [each for each in programs if f"from retrograd.anomaly.adapters.{adapter} import" in each]
    return compile(program, PAGE.name, "exec")
