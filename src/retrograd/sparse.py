"""SciPy's sparse matrices with tensors, under the names of ``torch.sparse``: products and systems of equations."""

from __future__ import annotations

from retrograd.ops.sparse import mm, spsolve

__all__ = ["mm", "spsolve"]
