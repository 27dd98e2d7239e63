"""What the engine reports to a monitor of all threads: ``state.monitor``, see :mod:`retrograd.anomaly`.

An observer (:mod:`retrograd.core.observer`) is notified of every operation of a thread, which takes time. A monitor is
only notified at the boundaries, and of operations whose floating-point flags NumPy does not read.
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
    """Hooks at the boundaries of a training step; the default of every method is the behaviour without a monitor.

    Attributes
    ----------
    looks : bool
        Whether to show it every result and every gradient that is not finite, because flags are unavailable.
    """

    looks = False

    def before_backward(self, outputs: Sequence[Tensor], is_step: bool = True) -> bool:
        """Check what a backward starts from, and return whether it may start.

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
        """Check the gradients, in the leaves that it reached or returned, before the caller sees them.

        The returned gradients may be replaced.
        ``inputs`` are the tensors that they belong to.
        """

    def after_forward(self, outputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> None:
        """Check the tangents of outputs, before the caller sees them."""

    def read(self, tensor: Tensor, value: Any) -> None:
        """Take note of a number or truth value that is read from a tensor."""

    def scaling(self, loss: Tensor | None) -> None:
        """Take note that a gradient scaler multiplies a loss and then checks the gradients; None when it is done."""

    def before_step(self, optimizer: Any) -> bool:
        """Return whether an optimizer may change its parameters."""
        return True

    def run_step(self, optimizer: Any, step: Callable[[], Any]) -> Any:
        """Run the step of an optimizer and return what it returns."""
        return step()

    def may_average(self, statistics: Sequence[Tensor]) -> bool:
        """Return whether a layer may include the statistics of a batch in its running averages."""
        return True

    def enter_thread(self) -> None:
        """Start observing a thread that runs its first operation."""

    def look(self, operands: Sequence[Any], result: Any) -> None:
        """Check the result of a function that sets no flags; called within the operation."""

    def look_backward(self, node: Node, g: Any, grads: Any) -> None:
        """Check the gradients of a node whose rules set no flags."""

    def look_at_gradient(self, node: Node, g: Any, gi: Any) -> None:
        """Handle a gradient that is not finite, which a rule of ``node`` made from ``g``."""

    def look_at_sum(self, node: Node, old: Any, new: Any, total: Any) -> None:
        """Handle the sum of two gradients of an output of ``node``."""

    def flag(self, kind: str) -> None:
        """Take note of a floating-point flag that was raised where NumPy does not check."""

    def collect(self) -> None:
        """Take over the flags that helper threads saw while the calling thread ran an operation."""


def looked_at(function: F) -> F:
    """Have a monitor check what a function on arrays returns."""
    silent = silenced(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = silent(*args, **kwargs)
        if state.monitor is not None and not state.monitor.looks:  # otherwise the caller shows it
            state.monitor.look(args, result)
        return result

    return call  # type: ignore[return-value]


def silenced(function: F) -> F:
    """Hide warnings raised in NumPy's own Python code from users; a monitor reads the flags by itself.

    The filter for this package's warnings goes by the module that calls a ufunc, which is one of NumPy's here.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if state.monitor is not None:
            return function(*args, **kwargs)
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]
