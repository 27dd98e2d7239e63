"""Observers of every operation of a thread: the profiler, and adapters that pass operations on to other profilers.

``local.observer`` is None or one :class:`Observer`; several are served by one that passes everything on. While it is
None, the short call paths and the engine's loop run as if this module did not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from retrograd.core.state import WATCHED, local, refresh

if TYPE_CHECKING:
    from retrograd.core.node import Node


class Observer:
    """Notifications about a thread's operations. Every method does nothing; subclasses override what they need.

    Each ``*_begin`` returns a token of the observer's own choice, which comes back with the matching ``*_end`` or
    ``*_failed``. An observer must not change what it is shown. What an operation does inside (in a hook that packs what
    it saves, say) is not reported.
    """

    def forward_begin(self, name: str, bound: Sequence[Any]) -> Any:
        """Tell that an operation starts: ``mul``, ``mul_`` in place, ``linalg_inv``, with its arguments in order."""

    def forward_writes(self, token: Any, out: Any) -> None:
        """Tell that it is going to write its results to the tensors given as ``out=``."""

    def forward_end(self, token: Any, made: Any) -> None:
        """Tell that it is done; ``made`` is its result, a Tensor or a tuple of some."""

    def forward_failed(self, token: Any, error: BaseException) -> None:
        """Tell that it raised instead."""

    def function_begin(self, name: str, args: Sequence[Any]) -> Any:
        """Tell that a user-written Function starts, by the name of its class; it ends as an operation does."""
        return self.forward_begin(name, args)

    def region_begin(self, name: str, arguments: Sequence[Any], user: bool) -> Any:
        """Tell that operations follow which belong together: a composite one, or a block that the user named."""

    def region_end(self, token: Any) -> None:
        """Tell that it is left, by whatever way."""

    def evaluate_begin(self, node: Node) -> Any:
        """Tell that backward turns to a node: hooks, the node itself, delivery of what it computed."""

    def evaluate_end(self, token: Any, node: Node) -> None:
        """Tell that it turns away again; not called if something in between raised."""

    def backward_begin(self, node: Node, g: Any) -> Any:
        """Tell that a node's rules run on what arrived: an array (a Tensor with ``create_graph``), a list, or None."""

    def backward_end(self, token: Any, node: Node, grads: Any) -> None:
        """Tell what they gave: one gradient, or None, for each edge; nothing, for an AccumulateGrad."""

    def backward_failed(self, token: Any, error: BaseException) -> None:
        """Tell that one of them raised instead."""


class _Several(Observer):
    """Passes everything on to several observers; the last to be notified of a beginning is the first at the end."""

    def __init__(self, members: tuple[Observer, ...]) -> None:
        self.members = members

    def _ending(self, tokens: list[Any]) -> Any:
        return zip(reversed(self.members), reversed(tokens), strict=True)

    def forward_begin(self, name: str, bound: Sequence[Any]) -> Any:
        return [member.forward_begin(name, bound) for member in self.members]

    def forward_writes(self, token: Any, out: Any) -> None:
        for member, own in zip(self.members, token, strict=True):
            member.forward_writes(own, out)

    def forward_end(self, token: Any, made: Any) -> None:
        for member, own in self._ending(token):
            member.forward_end(own, made)

    def forward_failed(self, token: Any, error: BaseException) -> None:
        for member, own in self._ending(token):
            member.forward_failed(own, error)

    def function_begin(self, name: str, args: Sequence[Any]) -> Any:
        return [member.function_begin(name, args) for member in self.members]

    def region_begin(self, name: str, arguments: Sequence[Any], user: bool) -> Any:
        return [member.region_begin(name, arguments, user) for member in self.members]

    def region_end(self, token: Any) -> None:
        for member, own in self._ending(token):
            member.region_end(own)

    def evaluate_begin(self, node: Node) -> Any:
        return [member.evaluate_begin(node) for member in self.members]

    def evaluate_end(self, token: Any, node: Node) -> None:
        for member, own in self._ending(token):
            member.evaluate_end(own, node)

    def backward_begin(self, node: Node, g: Any) -> Any:
        return [member.backward_begin(node, g) for member in self.members]

    def backward_end(self, token: Any, node: Node, grads: Any) -> None:
        for member, own in self._ending(token):
            member.backward_end(own, node, grads)

    def backward_failed(self, token: Any, error: BaseException) -> None:
        for member, own in self._ending(token):
            member.backward_failed(own, error)


def active() -> tuple[Observer, ...]:
    """The observers of this thread, the latest last."""
    observer = local.observer
    if observer is None:
        return ()
    return observer.members if type(observer) is _Several else (observer,)


def push(observer: Observer) -> None:
    """Notify ``observer`` of what this thread does from now on."""
    _set((*active(), observer))


def pop(observer: Observer) -> None:
    """Stop notifying it.

    Raises
    ------
    RuntimeError
        If it does not observe this thread.
    """
    members = active()
    if not any(member is observer for member in members):
        raise RuntimeError(
            f"{type(observer).__name__} does not observe this thread: it was exited twice, or entered in another thread"
        )
    _set(tuple(member for member in members if member is not observer))


def _set(members: tuple[Observer, ...]) -> None:
    local.observer = None if not members else members[0] if len(members) == 1 else _Several(members)
    refresh()


def observed_operation(observer: Observer, token: Any, run: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Run what began as ``token`` unobserved, so that it can take its short path, and report how it ended."""
    try:
        local.observer = None
        refresh()
        made = run(*arguments)
    except BaseException as error:
        _resume(observer)
        observer.forward_failed(token, error)
        raise
    _resume(observer)
    observer.forward_end(token, made)
    return made


def _resume(observer: Observer) -> None:
    local.observer = observer
    local.mode = WATCHED


def observed_function(observer: Observer, token: Any, run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a Function that began as ``token``, whose own operations are observed too, and report how it ended."""
    try:
        made = run(*args, **kwargs)
    except BaseException as error:
        observer.forward_failed(token, error)
        raise
    observer.forward_end(token, made)
    return made


def observed_node(observer: Observer, node: Node, g: Any, run: Callable[..., Any], *args: Any) -> Any:
    """Run a node's rules between ``backward_begin`` and ``backward_end``."""
    token = observer.backward_begin(node, g)
    try:
        grads = run(*args)
    except BaseException as error:
        observer.backward_failed(token, error)
        raise
    observer.backward_end(token, node, grads)
    return grads
