"""Functions whose body runs in a context, including generators and coroutines, which run after the call."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
Enter = Callable[[], AbstractContextManager[Any]]


def while_it_runs(function: F, enter: Enter) -> F:
    """A function whose own code runs in a context; while a generator or coroutine is suspended, it is left."""
    return _within(function, nullcontext, enter)


def from_begin_to_end(function: F, enter: Enter) -> F:
    """A function each call of which is in a context, from beginning to end."""
    return _within(function, enter, nullcontext)


def _within(function: F, around: Enter, inside: Enter) -> F:
    """A function with a context around the whole call, and one that is re-entered whenever it resumes."""

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
    """The same generator, in a context that is re-entered whenever it resumes."""
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
    """The same for awaitables."""

    def __init__(self, awaited: Awaitable[Any], inside: Enter) -> None:
        self._awaited = awaited
        self._inside = inside

    def __await__(self) -> Generator[Any, Any, Any]:
        return _driven(self._awaited.__await__(), self._inside)
