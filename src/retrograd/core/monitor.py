"""What the engine tells a monitor of all threads: ``state.monitor``, see :mod:`retrograd.anomaly`.

An observer (:mod:`retrograd.core.observer`) hears of every operation of a thread, which costs. A monitor hears of the
boundaries only, and of operations whose floating-point flags NumPy does not read.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from retrograd.core import state

if TYPE_CHECKING:
    from retrograd.core.node import Node
    from retrograd.core.tensor import Edge, Tensor

F = TypeVar("F", bound=Callable[..., Any])


class Monitor:
    """What may be done at the boundaries of a training step; every method does what is done without a monitor.

    Attributes
    ----------
    looks : bool
        Whether to show it every result and every gradient that is not finite, because there are no flags to hear of.
    """

    looks = False

    def before_backward(self, outputs: Sequence[Tensor], is_step: bool = True) -> bool:
        """Look at what a backward starts from, and say whether it may start.

        ``is_step`` is False for one that returns gradients and leaves every ``.grad`` alone.
        """
        return True

    def leaves(self) -> list[Tensor]:
        """Return a new list, to which a backward appends every leaf before it adds a gradient to it."""
        return []

    def errstate(self) -> AbstractContextManager[Any]:
        """Return the floating-point error state in which a backward runs."""
        return np.errstate(all="ignore")

    def after_backward(
        self,
        roots: Sequence[tuple[Edge, Tensor]],
        results: MutableSequence[Tensor | None] | None,
        leaves: Sequence[Tensor],
        inputs: Sequence[Edge] = (),
    ) -> None:
        """Look at the gradients, in the leaves that it reached or returned, before the caller sees them.

        Others may be put in the place of those that are returned.
        ``inputs`` are what those that are returned belong to.
        """

    def after_forward(self, outputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> None:
        """Look at the tangents of outputs, before the caller sees them."""

    def read(self, value: Any) -> None:
        """Take note of a number or truth value that is read from a tensor."""

    def scaling(self, loss: Tensor | None) -> None:
        """Take note that a gradient scaler multiplies a loss, and looks at the gradients until it is done: None."""

    def before_step(self, optimizer: Any) -> bool:
        """Say whether an optimizer may change its parameters."""
        return True

    def run_step(self, optimizer: Any, step: Callable[[], Any]) -> Any:
        """Run the step of an optimizer and return what it returns."""
        return step()

    def may_average(self, statistics: Sequence[Tensor]) -> bool:
        """Say whether a layer may take the statistics of a batch into its running averages."""
        return True

    def enter_thread(self) -> None:
        """Begin to observe a thread that runs its first operation."""

    def look(self, operands: Sequence[Any], result: Any) -> None:
        """Look at the result of a function that sets no flags; called within the operation."""

    def look_backward(self, node: Node, g: Any, grads: Any) -> None:
        """Look at the gradients of a node whose rules set no flags."""

    def look_at_gradient(self, node: Node, g: Any, gi: Any) -> None:
        """Look at a gradient that is not finite, which a rule of ``node`` made from ``g``."""

    def look_at_sum(self, node: Node, old: Any, new: Any, total: Any) -> None:
        """Look at the sum of two gradients of what ``node`` has made."""

    def flag(self, kind: str) -> None:
        """Take note of a floating-point flag that was raised where NumPy does not look."""

    def collect(self) -> None:
        """Take over the flags that helper threads saw while the calling thread ran an operation."""


def looked_at(function: F) -> F:
    """Have a monitor look at what a function on arrays returns."""
    silent = silenced(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = silent(*args, **kwargs)
        if state.monitor is not None and not state.monitor.looks:  # else whoever runs the operation shows it
            state.monitor.look(args, result)
        return result

    return call  # type: ignore[return-value]


def silenced(function: F) -> F:
    """Keep what NumPy's own Python code warns of from users; a monitor reads the flags by itself.

    The filter for this package's warnings goes by the module that calls a ufunc, which is one of NumPy's here.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if state.monitor is not None:
            return function(*args, **kwargs)
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]
