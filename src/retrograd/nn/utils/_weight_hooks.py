"""Hooks that compute a weight before every call of a module."""

from __future__ import annotations

from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.nn.modules.module import Module


def parameter_of(module: Module, name: str) -> Tensor:
    """The parameter of a name.

    Raises
    ------
    TypeError
        If that is something else, such as the bias of a layer that has none.
    """
    found = getattr(module, name)
    if not isinstance(found, Tensor):
        raise TypeError(f"'{name}' of {module!r} is {found!r}, not a parameter")
    return found


def hooks_of(module: Module, kind: type) -> dict[int, Any]:
    """The forward pre-hooks of a kind, by the number that they are registered under."""
    return {number: hook for number, hook in module._forward_pre_hooks.items() if isinstance(hook, kind)}


def hook_for(module: Module, kind: type, name: str, attribute: str = "name") -> tuple[int, Any] | None:
    """The hook of a kind that computes the weight of a name, with its number; its ``attribute`` says which that is."""
    found = hooks_of(module, kind).items()
    return next(((number, hook) for number, hook in found if getattr(hook, attribute) == name), None)


def take_hook(module: Module, kind: type, name: str, function: str) -> Any:
    """Remove the hook that a function registered, and return it."""
    found = hook_for(module, kind, name)
    if found is None:
        raise ValueError(f"{function} of '{name}' not found in {module}")
    del module._forward_pre_hooks[found[0]]
    return found[1]
