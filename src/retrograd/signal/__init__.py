"""Signal processing under torch's names: :mod:`retrograd.signal.windows`."""

from __future__ import annotations

from retrograd.signal import windows

__all__ = ["windows"]
