"""Functions whose body runs in a context: also such as run after they were called, generators and coroutines."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
Enter = Callable[[], AbstractContextManager[Any]]


def while_it_runs(function: F, enter: Enter) -> F:
    """A function whose own code runs in a context: one that waits, for whoever takes its items, has left it then."""
    return _within(function, nullcontext, enter)


def from_begin_to_end(function: F, enter: Enter) -> F:
    """A function of which each call is in a context, from its first line to its last."""
    return _within(function, enter, nullcontext)


def _within(function: F, around: Enter, inside: Enter) -> F:
    """A function with one context around all, and one that is entered anew whenever it goes on."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with around(), inside():
            return function(*args, **kwargs)

    def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with around():
            return (yield from _driven(function(*args, **kwargs), inside))

    async def wait(*args: Any, **kwargs: Any) -> Any:
        with around():
            return await _Driven(function(*args, **kwargs), inside)

    async def generate_later(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        with around():
            try:
                item = await _Driven(generator.__anext__(), inside)
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        await _Driven(generator.aclose(), inside)
                        raise
                    except BaseException as error:
                        item = await _Driven(generator.athrow(error), inside)
                    else:
                        item = await _Driven(generator.asend(sent), inside)
            except StopAsyncIteration:
                return

    kinds = ((isgeneratorfunction, generate), (iscoroutinefunction, wait), (isasyncgenfunction, generate_later))
    wrapper = next((wrapper for is_one, wrapper in kinds if is_one(function)), call)
    return functools.wraps(function)(wrapper)  # type: ignore[return-value]


def _driven(generator: Generator[Any, Any, Any], inside: Enter) -> Generator[Any, Any, Any]:
    """The same generator, in a context that is entered anew whenever it goes on."""
    try:
        with inside():
            item = next(generator)
        while True:
            try:
                sent = yield item
            except GeneratorExit:
                with inside():
                    generator.close()
                raise
            except BaseException as error:
                with inside():
                    item = generator.throw(error)
            else:
                with inside():
                    item = generator.send(sent)
    except StopIteration as stop:
        return stop.value


class _Driven:
    """The same for what is waited for."""

    def __init__(self, awaited: Awaitable[Any], inside: Enter) -> None:
        self._awaited = awaited
        self._inside = inside

    def __await__(self) -> Generator[Any, Any, Any]:
        return _driven(self._awaited.__await__(), self._inside)
