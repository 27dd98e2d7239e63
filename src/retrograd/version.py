"""The version, under the names of ``torch.version``."""

from __future__ import annotations

from retrograd import __version__

__all__ = ["__version__", "cuda", "debug", "hip"]

cuda: str | None = None  # CuPy, if installed, has its own version
hip: str | None = None
debug = False
