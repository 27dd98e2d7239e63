"""Calling functions before and after each step of an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.optim.optimizer import (
    _global_optimizer_post_hooks,
    _global_optimizer_pre_hooks,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from retrograd.anomaly.adapters.patches import Patches


def call_around_steps(
    patches: Patches, handles: list[Any], before: Callable[..., Any], after: Callable[..., Any]
) -> None:
    """Have functions called around each step of any optimizer, until patches are undone and handles removed.

    The functions may do that themselves, as when a policy ends the watch: torch iterates over a copy of its hooks.
    """
    for hooks in (_global_optimizer_pre_hooks, _global_optimizer_post_hooks):
        patches.wrap(hooks, "values", lambda original: list(original()))
    handles.append(register_optimizer_step_pre_hook(before))
    handles.append(register_optimizer_step_post_hook(after))
