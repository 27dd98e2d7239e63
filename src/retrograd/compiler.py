"""Names of ``torch.compiler``: nothing is compiled here, so functions stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.settings import compile

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "reset",
]


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return ``fn`` as it is; without it, a decorator that does so.

    Examples
    --------
    >>> @rg.compiler.disable
    ... def step(x):
    ...     return x + 1
    >>> step(rg.zeros(2))
    tensor([1., 1.])
    """
    return fn if fn is not None else lambda fn: fn


def allow_in_graph(fn: Any) -> Any:
    """Return ``fn`` as it is."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Return ``fn`` as it is."""
    return fn


def is_compiling() -> bool:
    """Whether this is being compiled: no."""
    return False


def is_dynamo_compiling() -> bool:
    """Whether this is being compiled: no."""
    return False


def is_exporting() -> bool:
    """Whether this is being exported: no."""
    return False


def cudagraph_mark_step_begin() -> None:
    """Do nothing."""


def reset() -> None:
    """Do nothing."""
