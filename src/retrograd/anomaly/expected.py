"""Declaring that non-finite numbers are intended."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

from retrograd.context_decorators import while_it_runs

F = TypeVar("F", bound=Callable[..., Any])


_depth: ContextVar[int] = ContextVar("depth", default=0)


class _Expected:
    """How many such blocks this thread or asyncio task is in; another task may run while it waits inside one."""

    @property
    def depth(self) -> int:
        return _depth.get()

    def enter(self) -> None:
        _depth.set(_depth.get() + 1)

    def leave(self) -> None:
        _depth.set(max(_depth.get() - 1, 0))  # an asynchronous generator may be closed by another task


expected = _Expected()


class expect_nonfinite:  # noqa: N801 (a function, for whoever uses it)
    """Say that NaN or infinities made in this block, by this thread or task, are meant; a watch does not suspect them.

    It decorates functions, too. For a generator or a coroutine it covers that function's own code, but not the code
    that consumes its items or that runs while it waits.

    Parameters
    ----------
    reason : str
        For the reader of the program; a ValueError if it is empty.

    Examples
    --------
    >>> scores = rg.zeros(3)
    >>> with rg.anomaly.expect_nonfinite("the log of a zero probability is masked below"):
    ...     logp = rg.log(scores)
    """

    def __init__(self, reason: str) -> None:
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError("expect_nonfinite() needs a reason, as a non-empty str, for whoever reads this line later")
        self.reason = reason

    def __enter__(self) -> None:
        expected.enter()

    def __exit__(self, *exc: object) -> None:
        expected.leave()

    def __call__(self, function: F) -> F:
        return while_it_runs(function, lambda: self)
