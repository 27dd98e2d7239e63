"""The table: one row per operation, from the files of the families."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from tests.ops.harness import Row

ROWS: list[Row] = []
# Names that need no row, with the reason.
WITHOUT_ROW: dict[str, str] = {}

for _module in pkgutil.iter_modules([str(Path(__file__).parent)]):
    if _module.name.startswith("rows_"):
        _family = importlib.import_module(f"tests.ops.{_module.name}")
        ROWS.extend(_family.ROWS)
        WITHOUT_ROW.update(getattr(_family, "WITHOUT_ROW", {}))
