"""Neural networks: for now the functions of :mod:`retrograd.nn.functional`."""

from __future__ import annotations

from retrograd.nn import functional

__all__ = ["functional"]
