"""What the engine tells a monitor of all threads: ``state.monitor``, see :mod:`retrograd.anomaly`.

An observer (:mod:`retrograd.core.observer`) hears of every operation of a thread, which costs. A monitor hears of the
boundaries only, and of operations whose floating-point flags NumPy does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from retrograd.core import state

if TYPE_CHECKING:
    from retrograd.core.node import Node
    from retrograd.core.tensor import Edge, Tensor

F = TypeVar("F", bound=Callable[..., Any])


class Monitor:
    """What may be done at the boundaries of a training step; every method does nothing."""

    def before_backward(self, outputs: Sequence[Tensor]) -> bool:
        """Look at what a backward starts from, and say whether it may start."""
        return True

    def errstate(self) -> AbstractContextManager[Any]:
        """Return the floating-point error state in which a backward runs."""
        raise NotImplementedError

    def after_backward(self, roots: Sequence[tuple[Edge, Tensor]], results: Sequence[Tensor | None] | None) -> None:
        """Look at the gradients, in the leaves or returned, before the caller sees them."""

    def before_step(self, optimizer: Any) -> bool:
        """Say whether an optimizer may change its parameters."""
        return True

    def look(self, operands: Sequence[Any], result: Any) -> None:
        """Look at the result of a function that sets no flags; called within the operation."""

    def look_backward(self, node: Node, g: Any, grads: Any) -> None:
        """Look at the gradients of a node whose rules set no flags."""

    def collect(self) -> None:
        """Take over the flags that helper threads saw while the calling thread ran an operation."""


def looked_at(function: F) -> F:
    """Have a monitor look at what a function on arrays returns."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if state.monitor is not None:
            state.monitor.look(args, result)
        return result

    return call  # type: ignore[return-value]
