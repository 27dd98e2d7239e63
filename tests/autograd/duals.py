"""Dual tensors in either library."""

from __future__ import annotations

import importlib
from typing import Any


def module(lib: Any) -> Any:
    """Return ``autograd.forward_ad`` of the library."""
    return importlib.import_module(f"{lib.__name__}.autograd.forward_ad")


def vector(lib: Any, *values: float, requires_grad: bool = False) -> Any:
    """Return a float64 vector."""
    return lib.tensor(list(values), dtype=lib.float64, requires_grad=requires_grad)


def tangent(lib: Any, value: Any) -> Any:
    """Return the tangent of a tensor at the current level, or None."""
    return module(lib).unpack_dual(value).tangent
