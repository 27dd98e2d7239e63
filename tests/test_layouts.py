"""How results lie in memory, where it decides what views they allow; compared with torch."""

from __future__ import annotations

from typing import Any

from tests.parity import parity


@parity
def test_joined_tensors_lie_row_by_row(lib: Any) -> Any:
    x = lib.arange(6.0).reshape(2, 3).t()
    return [lib.cat([x, x]).view(-1), lib.stack([x, x], 1).view(-1), lib.hstack([x, x]).view(12)]
