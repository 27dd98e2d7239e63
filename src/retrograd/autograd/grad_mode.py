"""Switching recording on and off, as ``torch.autograd.grad_mode`` does."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from retrograd.core import state

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """A context manager that also decorates functions, generator functions and classes."""

    def clone(self) -> _Mode:
        """Return a fresh one of the same kind, for one entry."""
        return type(self)()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            return self._decorate_class(function)
        if inspect.isgeneratorfunction(function):
            return self._decorate_generator(function)  # type: ignore[return-value]

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    def _decorate_class(self, cls: Any) -> Any:
        import warnings

        warnings.warn(
            "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
            "functions or methods. To preserve the current behavior of class decoration, you can directly decorate the "
            "`__init__` method and nothing else.",
            FutureWarning,
            stacklevel=3,
        )
        cls.__init__ = self(cls.__init__)
        return cls

    def _decorate_generator(self, function: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Any]:
        """The mode holds while the generator runs, and not while its consumer does."""

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator = function(*args, **kwargs)
            try:
                with self.clone():
                    item = next(generator)
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        with self.clone():
                            generator.close()
                        raise
                    except BaseException as error:
                        with self.clone():
                            item = generator.throw(error)
                    else:
                        with self.clone():
                            item = generator.send(sent)
            except StopIteration as stop:
                return stop.value

        return wrapper


class _DecoratesWithoutCall(_Mode):
    """Lets ``@no_grad`` mean ``@no_grad()``."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        if function is None:
            return super().__new__(cls)
        return cls()(function)


class no_grad(_DecoratesWithoutCall):  # noqa: N801 (torch's name)
    """Record nothing in this thread: results do not require grad, whatever their inputs do.

    A context manager and a decorator of functions, generator functions and classes.
    """

    def __enter__(self) -> None:
        self._previous = state.set_grad_enabled(False)

    def __exit__(self, *exc: object) -> None:
        state.set_grad_enabled(self._previous)


class enable_grad(_DecoratesWithoutCall):  # noqa: N801 (torch's name)
    """Record in this thread, also inside :class:`no_grad`. A context manager and a decorator."""

    def __enter__(self) -> None:
        self._previous = state.set_grad_enabled(True)

    def __exit__(self, *exc: object) -> None:
        state.set_grad_enabled(self._previous)


class set_grad_enabled(_Mode):  # noqa: N801 (torch's name)
    """Switch recording by a flag: at once as a plain call, for a block as a context manager, or as a decorator."""

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._previous = state.set_grad_enabled(self.mode)

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)

    def __call__(self, function: F) -> F:
        state.set_grad_enabled(self._previous)  # as a decorator it acts on the function only
        return super().__call__(function)

    def __enter__(self) -> None:
        state.set_grad_enabled(self.mode)

    def __exit__(self, *exc: object) -> None:
        state.set_grad_enabled(self._previous)


class inference_mode(_Mode):  # noqa: N801 (torch's name)
    """Record nothing and count no versions: the results can never take part in a graph.

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
        self._previous = local.inference, local.grad_enabled
        local.inference = self.mode
        local.grad_enabled = not self.mode
        state.refresh()

    def __exit__(self, *exc: object) -> None:
        state.local.inference, state.local.grad_enabled = self._previous
        state.refresh()


def is_grad_enabled() -> bool:
    """Whether this thread records."""
    return state.local.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return state.local.inference


__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]
