"""Calling an operation."""

from retrograd.core.calls.operands import add_operators, apply_inplace, caller, inplace

__all__ = ["add_operators", "apply_inplace", "caller", "inplace"]
