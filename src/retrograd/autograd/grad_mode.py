"""Switching recording on and off, as ``torch.autograd.grad_mode`` does."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

from retrograd.context_decorators import while_it_runs
from retrograd.core import state
from retrograd.core.renamed_functions import own_methods
from retrograd.core.sites import warn_user

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """A context manager that also decorates functions, generator functions and classes."""

    def clone(self) -> _Mode:
        """Return a new context manager of the same kind, for one entry."""
        return type(self)()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            return self._decorate_class(function)
        if inspect.isgeneratorfunction(function):
            return while_it_runs(function, self.clone)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    def _decorate_class(self, cls: Any) -> Any:
        warn_user(
            "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
            "functions or methods. To preserve the current behavior of class decoration, you can directly decorate the "
            "`__init__` method and nothing else.",
            FutureWarning,
        )
        cls.__init__ = self(cls.__init__)
        return cls


class _GradMode(_Mode):
    """Switches recording for a block."""

    def _switch(self, enabled: bool) -> None:
        self._mode = state.local.mode
        self._previous = state.set_grad_enabled(enabled)

    def __exit__(self, *exc: object) -> None:
        # assignments first, since an interrupt can only arrive at a call
        state.local.grad_enabled, state.local.mode = self._previous and not state.local.inference, self._mode
        state.refresh()  # the block may have switched another mode on or off


class _DecoratesWithoutCall(_GradMode):
    """Lets ``@no_grad`` mean ``@no_grad()``."""

    @overload
    def __new__(cls) -> Self: ...

    @overload
    def __new__(cls, function: Callable[..., Any]) -> Any: ...

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        if function is None:
            return super().__new__(cls)
        return cls()(function)


class no_grad(_DecoratesWithoutCall):  # noqa: N801 (torch's name)
    """Record nothing in this thread: results do not require grad, whatever their inputs do.

    A context manager and a decorator of functions, generator functions and classes.
    """

    def __enter__(self) -> None:
        self._switch(False)


class enable_grad(_DecoratesWithoutCall):  # noqa: N801 (torch's name)
    """Record in this thread, also inside :class:`no_grad`, but not in :class:`inference_mode`.

    A context manager and a decorator.
    """

    def __enter__(self) -> None:
        self._switch(True)


class set_grad_enabled(_GradMode):  # noqa: N801 (torch's name)
    """Switch recording by a flag: at once as a plain call, for a block as a context manager, or as a decorator."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self.mode = mode
        self._switch(mode)

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)

    def __call__(self, function: F) -> F:
        state.set_grad_enabled(self._previous)  # as a decorator it acts on the function only
        return super().__call__(function)

    def __enter__(self) -> None:
        state.set_grad_enabled(self.mode)


class inference_mode(_Mode):  # noqa: N801 (torch's name)
    """Record nothing and count no versions in this thread: the results can never take part in a graph.

    A context manager and a decorator.

    Parameters
    ----------
    mode
        False leaves inference mode for the block.
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def clone(self) -> inference_mode:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        local = state.local
        self._previous = local.inference, local.grad_enabled, local.mode
        try:
            local.inference, local.grad_enabled = self.mode, not self.mode
            state.refresh()
        except BaseException:  # an interrupt
            local.inference, local.grad_enabled, local.mode = self._previous
            raise

    def __exit__(self, *exc: object) -> None:
        local = state.local
        local.inference, local.grad_enabled, local.mode = self._previous
        state.refresh()


class _Switch(_Mode):
    """A flag of this thread: switched at once as a plain call, for a block, or for a function."""

    _field: str  # an attribute of state.local

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"{type(self).__name__}(): argument (position 1) must be bool, not {type(mode).__name__}")
        self.mode = mode
        self.prev = getattr(state.local, self._field)
        self._set(mode)

    def _set(self, mode: bool) -> None:
        setattr(state.local, self._field, mode)
        state.refresh()

    def clone(self) -> _Switch:
        return type(self)(self.mode)

    def __call__(self, function: F) -> F:
        self._set(self.prev)  # as a decorator it acts on the function only
        return super().__call__(function)

    def __enter__(self) -> None:
        self._set(self.mode)

    def __exit__(self, *exc: object) -> None:
        self._set(self.prev)


class set_multithreading_enabled(_Switch):  # noqa: N801 (torch's name)
    """Remember in this thread whether backward may use threads of its own: as a call, a block, or a decorator.

    It never does (large arrays are worked on in parallel all the same, see :func:`retrograd.set_num_threads`), so that
    the setting is accepted and reported by :func:`is_multithreading_enabled`, and changes nothing.
    """

    _field = "multithreading"


class enforce_grad_layout_policy(_Switch):  # noqa: N801 (torch's name)
    """Say in this thread whether a new ``.grad`` must lie in memory as its leaf does: a call, a block, or a decorator.

    It must, by default, which saves optimizers from working on two arrays of different strides. With False a gradient
    that lies otherwise, and that nothing else holds, is taken over as it is, which saves a copy.

    Parameters
    ----------
    enable : bool
        Whether to enforce it.

    Examples
    --------
    >>> p = rg.ones(2, 3).requires_grad_()
    >>> with rg.autograd.enforce_grad_layout_policy(False):
    ...     (p * rg.ones(3, 2).t()).sum().backward()
    >>> p.stride(), p.grad.stride()
    ((3, 1), (1, 2))
    """

    _field = "grad_layout"

    def __init__(self, enable: bool = True) -> None:
        super().__init__(enable)


def is_multithreading_enabled() -> bool:
    """The last setting of :class:`set_multithreading_enabled` in this thread; True by default."""
    return state.local.multithreading


def is_grad_enabled() -> bool:
    """Whether this thread records."""
    return state.local.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return state.local.inference


__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

own_methods(globals(), "__init__")
