"""Anomaly mode: what the engine checks after every node while ``detect_anomaly`` is on, and what it reports."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.batching import unbatched
from retrograd.core.finite_checks import is_finite
from retrograd.core.sites import format_trace, parent_of, warn_user
from retrograd.core.tensor import Tensor

if TYPE_CHECKING:
    from retrograd.core.node import AccumulateGrad, Node


class Anomaly:
    """The settings of one ``detect_anomaly``, and the infinities seen on the way during one backward.

    Attributes
    ----------
    infinite
        The nodes that returned an infinity from a finite gradient, with the number of the output, oldest first. An
        infinity is legal until it reaches a leaf.
    """

    __slots__ = ("check_inf", "check_nan", "infinite")

    def __init__(self, check_nan: bool, check_inf: bool) -> None:
        self.check_nan = check_nan
        self.check_inf = check_inf
        self.infinite: list[tuple[Node, int]] = []

    def check(self, node: Node, g: Any, gi: Any, rule: Any) -> None:
        """Check the gradient that a rule of ``node`` made from ``g``, as it is delivered."""
        if not is_finite(gi):
            self._look(node, g, _array(gi), [each for each, _ in node.rules].index(rule))  # type: ignore[attr-defined]

    def check_step(self, node: Node, g: Any, grads: Any) -> None:
        """Check all gradients that ``node`` made, or what a leaf has accumulated."""
        if node.is_leaf:
            self.check_leaf(node)  # type: ignore[arg-type]
        for index, gi in enumerate(grads or ()):
            if gi is not None and not is_finite(_array(gi)):
                self._look(node, g, _array(gi), index)

    def _look(self, node: Node, g: Any, gi: Any, index: int) -> None:
        """Handle a gradient that is not finite.

        Raises
        ------
        RuntimeError
            If it holds a NaN.
        """
        if self.check_nan and np.isnan(gi).any():
            said = f"returned nan values in its {index}th output."
            if any(np.isnan(each).any() for each in _arrays(g)):
                said += _ARRIVED
            raise _of_node(node, said, gi)
        if self.check_inf and len(self.infinite) < _MOST and all(map(is_finite, _arrays(g))):
            self.infinite.append((node, index))

    def check_leaf(self, node: AccumulateGrad) -> None:
        """Check the gradient that a leaf has accumulated.

        Raises
        ------
        RuntimeError
            If it holds a NaN, or with ``check_inf`` an infinity.
        """
        grad = node.variable._grad
        if grad is None or is_finite(grad._data):
            return
        data = grad._data
        nan = bool(np.isnan(data).any())
        if not (self.check_nan if nan else self.check_inf):
            return
        what = "nan" if nan else "inf"
        for origin, index in self.infinite:
            if _leads_to(origin, node):
                raise _of_node(
                    origin,
                    f"returned inf values in its {index}th output, which made the accumulated gradient of a leaf of "
                    f"shape {list(data.shape)} {what}.",
                    data,
                )
        raise _AnomalyError(
            f"The gradient accumulated in a leaf of shape {list(data.shape)} has {what} values{_first(data)}. No node "
            "of this backward pass made them: they came from the gradient that backward started with, from a hook, "
            "from adding infinities of opposite signs, or were already in .grad."
        )

    def explain(self, node: Node | None, error: Exception) -> None:
        """Add a note to an error raised in a backward that says where the forward call was."""
        if node is not None and not isinstance(error, _AnomalyError) and not hasattr(error, "__notes__"):
            text = _trace_of(node)
            error.add_note(text)
            _warn(text)


class _AnomalyError(RuntimeError):
    """What anomaly mode raises; users see a RuntimeError."""


_AnomalyError.__name__ = _AnomalyError.__qualname__ = "RuntimeError"
_AnomalyError.__module__ = "builtins"

_MOST = 1000  # infinities remembered

# Every node is checked, so no other node can have made it.
_ARRIVED = (
    "\nIts incoming gradient already held a NaN: from the gradient that backward started with, from a hook, or from "
    "adding up the gradients of several uses of its output, infinities of opposite signs."
)


def _array(value: Any) -> Any:
    return unbatched(value._data if isinstance(value, Tensor) else value)


def _arrays(g: Any) -> list[Any]:
    return [_array(value) for value in (g if isinstance(g, list) else [g]) if value is not None]


def _leads_to(origin: Node, leaf: Node) -> bool:
    """Whether gradients pass from ``origin`` to ``leaf``."""
    seen = {origin}
    stack = [origin]
    while stack:
        node = stack.pop()
        if node is leaf:
            return True
        for edge in node.next:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    return False


def _first(array: Any) -> str:
    """The first NaN, or else the first infinity, in words."""
    bad = ~np.isfinite(array)
    nan = np.isnan(array)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(nan if nan.any() else bad)), array.shape))
    return f": {array[index]} at index {index}, {bad.sum()} of {array.size} elements are not finite"


def _of_node(node: Node, what: str, array: Any) -> RuntimeError:
    text = _trace_of(node)
    _warn(text)
    return _AnomalyError(f"Function '{node.name()}' {what}\nThe first is{_first(array)[1:]}.\n{text}")


def _trace_of(node: Node) -> str:
    """Torch's words for where a node comes from, and for where those that made it in a backward come from."""
    trace = format_trace(node)
    if trace:
        text = f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{trace}"
    else:
        text = (
            f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during "
            "forward pass for more information."
        )
    while (node := parent_of(node)) is not None:
        trace = format_trace(node)
        text += f"\n\nPrevious calculation was induced by {node.name()}. "
        if trace:
            text += f"Traceback of forward call that induced the previous calculation:\n{trace}"
        else:
            text += "No forward pass information available."
    return text


def _warn(text: str) -> None:
    """Give the text as a warning, too, where users of torch expect it; it must not replace the exception."""
    with contextlib.suppress(UserWarning):
        warn_user(text)
