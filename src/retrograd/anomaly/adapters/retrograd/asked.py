"""Gradients that the program has asked for, as by ``autograd.grad``, which nothing is written to."""

from __future__ import annotations

import sys
from typing import Any

from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.libraries import is_library, outwards
from retrograd.anomaly.monitor import Watch
from retrograd.core.node import AccumulateGrad, Node


class Asked:
    """What is told of them, and how often they were returned.

    An optimizer of SciPy's may leave the point at which they are not finite: the program is not stopped there.

    Parameters
    ----------
    watch
        Whose policies hold.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._is_told = False  # that SciPy was given some that are not finite
        self.returned = 0

    def context(self) -> dict[str, Any]:
        """What an event says of it."""
        return {} if _by_scipy() else {"asked": True}

    def is_left_alone(self) -> bool:
        """Whether it is SciPy that asks, and all has been said."""
        return self._is_told and _by_scipy()

    def found(self, kind: str, event: NaNEvent, exact: bool) -> str:
        """Take over the event of some that are not finite and say what is to be done, as a watch does."""
        if not _by_scipy():
            return self._watch.found(kind, event, exact=exact)
        self._is_told = True
        self._watch.in_vain(kind, event, _LEFT)
        return "go on"


def all_leaves(nodes: list[Node]) -> list[AccumulateGrad]:
    """The leaves that gradients belong to; none, if one belongs to something else."""
    leaves = [node for node in nodes if isinstance(node, AccumulateGrad)]
    return leaves if len(leaves) == len(nodes) else []


def _by_scipy() -> bool:
    return any(is_library(each.f_code.co_filename, "scipy") for each in outwards(sys._getframe(1)))


_LEFT = (
    "SciPy was given this and goes on where it likes. Most of its optimizers find no way back from such a point, so "
    "make the function finite there, or give bounds. This is told once."
)
