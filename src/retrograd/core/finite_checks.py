"""Showing results and gradients that are not finite to a monitor, where no floating-point flags report births.

See :mod:`retrograd.processor`. Calls are shown by the functions that run them, whose frames say what was called.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.batching import unbatched
from retrograd.core import state

if TYPE_CHECKING:
    from retrograd.core.node import AccumulateGrad, Node


def is_finite(array: Any) -> bool:
    """Whether every element is finite; one pass without a temporary in the usual case."""
    # a sum of squares is finite only if every term is; if it is not, it may just have overflowed
    suits = array.dtype.kind == "f" and array.dtype.itemsize > 2 and type(array) is np.ndarray
    if array.dtype.kind not in "fc":
        return True
    return (suits and math.isfinite(np.vdot(array, array))) or bool(np.isfinite(unbatched(array)).all())


def show(operands: Sequence[Any], result: Any) -> None:
    """Show a result, or several, with what it was made from."""
    # the usual case first: this is called for every operation
    if type(result) is np.ndarray and result.dtype.char in "fd" and math.isfinite(np.vdot(result, result)):
        return
    monitor = state.monitor
    if monitor is None or not monitor.looks:
        return
    for each in result if isinstance(result, (tuple, list)) else (result,):
        if hasattr(each, "dtype") and not is_finite(each):
            monitor.look(operands, result)
            return


def copied(array: Any) -> Any:
    """A copy of an array about to be written to if a monitor checks results, else None."""
    return array.copy() if state.monitor is not None and state.monitor.looks else None


def show_sum(node: Node, old: Any, new: Any, total: Any) -> None:
    """Show the sum of two gradients of an output of ``node``."""
    if not is_finite(total):
        state.monitor.look_at_sum(node, old, new, total)


class Looks:
    """Shows gradients to a monitor, and has anomaly mode check them if it is on."""

    __slots__ = ("_anomaly", "_monitor")

    def __init__(self, monitor: Any, anomaly: Any) -> None:
        self._monitor = monitor
        self._anomaly = anomaly

    def check(self, node: Node, g: Any, gi: Any, rule: Any) -> None:
        """Check the gradient that a rule of ``node`` made from ``g``, as it is delivered."""
        plain = type(gi) is np.ndarray and gi.dtype.char in "fd"
        if not (plain and math.isfinite(np.vdot(gi, gi))) and not is_finite(gi):
            self._monitor.look_at_gradient(node, g, gi)
        if self._anomaly is not None:
            self._anomaly.check(node, g, gi, rule)

    def check_step(self, node: Node, g: Any, grads: Any) -> None:
        """Check all gradients that ``node`` made; the engine has shown them to the monitor."""
        if self._anomaly is not None:
            self._anomaly.check_step(node, g, grads)

    def check_leaf(self, node: AccumulateGrad) -> None:
        """Check the gradient that a leaf has accumulated."""
        if self._anomaly is not None:
            self._anomaly.check_leaf(node)


def checks() -> Any:
    """What checks the gradients of a backward: anomaly mode's settings, a :class:`Looks` for a monitor, or None."""
    anomaly, monitor = state.local.anomaly, state.monitor
    return anomaly if monitor is None or not monitor.looks else Looks(monitor, anomaly)
