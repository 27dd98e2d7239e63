"""Beside autograd: recomputing instead of keeping, and loading data."""

from retrograd.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
