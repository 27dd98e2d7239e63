"""The kinds of profiled events, and torch's names for them."""

from __future__ import annotations

OPERATION, FUNCTION, COMPOSITE, BLOCK, EVALUATE, BACKWARD = range(6)

ACCUMULATE = "AccumulateGrad"
_STEP = "ProfilerStep#"  # and its number


def shared_name(name: str) -> str:
    """The name under which events are counted together: steps have numbers in traces only."""
    return "ProfilerStep*" if name.startswith(_STEP) else name


def full_name(kind: int, name: str) -> str:
    """Return torch's name for what is reported to an observer as ``name``."""
    if kind in (OPERATION, COMPOSITE):
        return f"aten::{name}"
    if kind in (FUNCTION, BLOCK):
        return name
    if name == ACCUMULATE:
        name = f"torch::autograd::{name}"
    return name if kind == BACKWARD else f"autograd::engine::evaluate_function: {name}"
