"""Wrappers around modules for several processes, compiling, sharding or checkpointing; programs do not name them."""

from __future__ import annotations

from typing import Any

import torch

_PARALLEL = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)
_ATTRIBUTES = frozenset(("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"))


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The model that the program wrote, within wrappers for several processes or compiling."""
    while isinstance(model, _PARALLEL) or "_orig_mod" in model._modules:
        model = model._modules["module" if isinstance(model, _PARALLEL) else "_orig_mod"]  # type: ignore[assignment]
    return model


def name_written(model: torch.nn.Module, name: str) -> str:
    """The name of a module, parameter or buffer in a model, without the wrappers on the way."""
    written = []
    owner: torch.nn.Module | None = model
    for part in name.split("."):
        if part not in _ATTRIBUTES and not (part == "module" and isinstance(owner, _PARALLEL)):
            written.append(part)
        # a ScriptModule's are no dict, and have no ``get``
        owner = owner._modules[part] if owner is not None and part in owner._modules else None
    return ".".join(written)


def is_usable(value: Any) -> bool:
    """Whether it is a module whose constructor has run and that lists its parameters, as a wrapper may refuse to."""
    if not isinstance(value, torch.nn.Module) or not hasattr(value, "_modules"):
        return False
    try:
        next(value.parameters(), None)
    except Exception:
        return False
    return True
