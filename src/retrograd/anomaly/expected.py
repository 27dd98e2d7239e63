"""Saying that numbers which are not finite are meant."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Expected(threading.local):
    depth = 0


expected = _Expected()


@contextmanager
def expect_nonfinite(reason: str) -> Iterator[None]:
    """Say that NaN or infinities made in this block, in this thread, are meant; a watch does not suspect them.

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
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError("expect_nonfinite() needs a reason, in words, for whoever reads this line later")
    expected.depth += 1
    try:
        yield
    finally:
        expected.depth -= 1
