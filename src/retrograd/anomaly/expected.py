"""Saying that numbers which are not finite are meant."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from retrograd.decorating import while_it_runs

F = TypeVar("F", bound=Callable[..., Any])


class _Expected(threading.local):
    depth = 0


expected = _Expected()


class expect_nonfinite:  # noqa: N801 (a function, for whoever uses it)
    """Say that NaN or infinities made in this block, in this thread, are meant; a watch does not suspect them.

    It decorates functions, too. A generator or a coroutine says so for its own code: not for whoever takes its items,
    or runs while it waits.

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
            raise ValueError("expect_nonfinite() needs a reason, in words, for whoever reads this line later")
        self.reason = reason

    def __enter__(self) -> None:
        expected.depth += 1

    def __exit__(self, *exc: object) -> None:
        expected.depth -= 1

    def __call__(self, function: F) -> F:
        return while_it_runs(function, lambda: self)
