"""Modules without initial values."""

from __future__ import annotations

from typing import Any

from retrograd.core.signatures import signature_of
from retrograd.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Make a module whose parameters will be set anyway, such as from a state dict: their values are arbitrary.

    Parameters
    ----------
    module_cls
        The class of the module, which takes a ``device``.
    *args, **kwargs
        What it is made with.

    Raises
    ------
    RuntimeError
        If it is not a module, or takes no ``device``.

    Examples
    --------
    >>> rg.nn.utils.skip_init(rg.nn.Linear, 5, 1).weight.shape
    retrograd.Size([1, 5])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in signature_of(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    return module_cls(*args, **kwargs)
