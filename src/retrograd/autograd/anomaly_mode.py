"""Anomaly mode, with the names of ``torch.autograd.anomaly_mode``.

Where it differs from torch's: infinities in leaf gradients count as well, the forward traceback is in the exception,
and it costs so little that it does not warn about being on. To find where a value was born in the *forward* pass, at no
cost, see :mod:`retrograd.anomaly`.
"""

from __future__ import annotations

from typing import Any

from retrograd.autograd.grad_mode import _Mode
from retrograd.core import state
from retrograd.core.anomaly import Anomaly
from retrograd.core.sites import forget
from retrograd.core.state import local


def _switch(new: Anomaly | None) -> Anomaly | None:
    previous: Anomaly | None = local.anomaly
    local.anomaly = new
    forget()
    state.refresh()
    return previous


class detect_anomaly(_Mode):  # noqa: N801 (torch's name)
    """Check every gradient, and remember where every operation was called.

    A context manager and a decorator. While it is on in this thread:

    * a node of the backward pass that returns NaN raises, and names the call that created it;
    * a gradient accumulated in a leaf that holds NaN or an infinity raises, and names the node where the infinity
      appeared;
    * an exception raised in a backward (a hook's, or that of a user-written Function) carries the traceback of the
      forward call as a note.

    Operations recorded before it was entered are checked too, but their traceback is not known.

    Parameters
    ----------
    check_nan : bool
        False enters the mode without raising for NaN; tracebacks are still kept, and infinities checked if
        ``check_inf`` is given.
    check_inf : bool, optional
        Whether an infinity in a leaf's gradient raises. By default as ``check_nan``; torch never checks it.

    Attributes
    ----------
    check_nan, check_inf : bool
        What was asked for.

    Raises
    ------
    RuntimeError
        In ``backward``, beginning with "Function 'SqrtBackward0' returned nan values in its 0th output." The traceback
        of the forward call follows; the same text is given as a warning, where torch puts it.

    Examples
    --------
    >>> x = rg.tensor([4.0, 0.0], requires_grad=True)
    >>> with rg.autograd.detect_anomaly():
    ...     y = rg.where(x > 0, rg.sqrt(x), 0.0)
    ...     y.sum().backward()
    Traceback (most recent call last):
    RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.
    ...
    """

    def __init__(self, check_nan: bool = True, check_inf: bool | None = None) -> None:
        self.check_nan = check_nan
        self.check_inf = check_nan if check_inf is None else check_inf
        self._outer: list[Anomaly | None] = []

    def clone(self) -> detect_anomaly:
        return type(self)(self.check_nan, self.check_inf)

    def __enter__(self) -> detect_anomaly:
        self._outer.append(_switch(Anomaly(self.check_nan, self.check_inf)))
        return self

    def __exit__(self, *exc: object) -> None:
        _switch(self._outer.pop())


class set_detect_anomaly:  # noqa: N801 (torch's name)
    """Switch anomaly mode on or off in this thread, as a function or as a context manager.

    Parameters
    ----------
    mode : bool
        On or off.
    check_nan : bool
        See :class:`detect_anomaly`.
    check_inf : bool, optional
        See :class:`detect_anomaly`.

    Examples
    --------
    >>> with rg.autograd.set_detect_anomaly(True):
    ...     rg.is_anomaly_enabled()
    True
    >>> rg.is_anomaly_enabled()
    False
    """

    def __init__(self, mode: bool, check_nan: bool = True, check_inf: bool | None = None) -> None:
        self.prev = is_anomaly_enabled()
        self.prev_check_nan = is_anomaly_check_nan_enabled()
        self._outer = set_anomaly_enabled(mode, check_nan, check_inf)

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: Any) -> None:
        _switch(self._outer)


def set_anomaly_enabled(enabled: bool, check_nan: bool = True, check_inf: bool | None = None) -> Any:
    """Switch anomaly mode on or off in this thread; see :class:`set_detect_anomaly`."""
    if not isinstance(enabled, bool):
        raise TypeError(
            f"set_anomaly_enabled(): argument 'enabled' (position 1) must be bool, not {type(enabled).__name__}"
        )
    return _switch(Anomaly(check_nan, check_nan if check_inf is None else check_inf) if enabled else None)


def is_anomaly_enabled() -> bool:
    """Return whether anomaly mode is on in this thread."""
    return local.anomaly is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly mode is on in this thread and raises for NaN; True when it is off, as in torch."""
    return local.anomaly is None or local.anomaly.check_nan
