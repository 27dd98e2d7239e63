"""Names of ``torch.jit`` that leave a program as it is: nothing is compiled here, as with :func:`retrograd.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from retrograd.missing_names import missing

__all__ = ["Final", "export", "ignore", "is_scripting", "is_tracing", "script", "script_if_tracing", "unused"]

__path__: list[str] = []  # a package, so that imports from it get advice


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Return ``obj``, a function, a class or a module, as it is.

    Examples
    --------
    >>> @rg.jit.script
    ... def swish(x):
    ...     return x * x.sigmoid()
    >>> swish(rg.zeros(2))
    tensor([0., 0.])
    """
    if not callable(obj):
        raise TypeError(f"jit.script: expected a function, a class or a module, not {type(obj).__name__}")
    return obj


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``fn`` as it is."""
    return fn


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``fn`` as it is."""
    return fn


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``fn`` as it is."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return a function as it is, or a decorator that does: both ``@ignore`` and ``@ignore(drop=True)`` are in use."""
    return drop if callable(drop) else lambda fn: fn


def is_scripting() -> bool:
    """Whether this is being compiled: no."""
    return False


def is_tracing() -> bool:
    """Whether this is being recorded in order to be compiled: no."""
    return False


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)
