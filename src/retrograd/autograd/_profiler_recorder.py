"""What a profile records while it runs: as little as possible, in one list. Events are built from it on demand."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from time import perf_counter_ns as now
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from retrograd.autograd._profiler_names import BACKWARD, BLOCK, COMPOSITE, EVALUATE, FUNCTION, OPERATION
from retrograd.core.node import AccumulateGrad, Node
from retrograd.core.observer import Observer
from retrograd.core.record import PLAIN, holds_tensor
from retrograd.core.sites import is_internal
from retrograd.core.tensor import Tensor

END = -1  # the kind of an entry that says that something ended


# Code objects and positions in their bytecode; lines are looked up later.
Stack = tuple[tuple[CodeType, int], ...]


class Detail(NamedTuple):
    """What is recorded at the beginning of an event only if the profile asks for it."""

    shapes: Sequence[Any]  # of each argument, see shape_of()
    values: Sequence[Any]  # each argument that is a number, a string or the like; None for the others
    stack: Stack  # where in the program it began, from the inside out


class Recorder(Observer):
    """Notes names and times.

    Attributes
    ----------
    entries : list of tuple
        For a beginning its kind, name, time and :class:`Detail` (or None); for an end END, the position of the
        beginning, the time, and the sequence number of the node that was recorded (or -1). Times are nanoseconds.
    """

    def __init__(self) -> None:
        self.entries: list[tuple[int, Any, int, Any]] = []

    def forward_begin(self, name: str, bound: Sequence[Any]) -> int:
        entries = self.entries
        entries.append((OPERATION, name, now(), None))
        return len(entries) - 1

    def function_begin(self, name: str, args: Sequence[Any]) -> int:
        self.entries.append((FUNCTION, name, now(), None))
        return len(self.entries) - 1

    def forward_end(self, token: int, made: Any) -> None:
        time = now()
        if type(made) is Tensor and made._edge is not None:
            self.entries.append((END, token, time, made._edge[0].seq))
        else:
            self.entries.append((END, token, time, _sequence_nr(made)))

    def region_begin(self, name: str, arguments: Sequence[Any], user: bool) -> int:
        self.entries.append((BLOCK if user else COMPOSITE, name, now(), None))
        return len(self.entries) - 1

    def evaluate_begin(self, node: Node) -> int:
        entries = self.entries
        entries.append((EVALUATE, node.name(), now(), None))
        return len(entries) - 1

    def backward_begin(self, node: Node, g: Any) -> int:
        entries = self.entries
        entries.append((BACKWARD, node.name(), now(), None))
        return len(entries) - 1

    def evaluate_end(self, token: int, node: Node) -> None:
        self.entries.append((END, token, now(), node.seq))

    def backward_end(self, token: int, node: Node, grads: Any) -> None:
        self.entries.append((END, token, now(), node.seq))

    def _end(self, token: int, error: BaseException | None = None) -> None:
        self.entries.append((END, token, now(), -1))

    forward_failed = backward_failed = region_end = _end


def _sequence_nr(made: Any) -> int:
    """The number of the node that computed a result of an operation, or -1."""
    for tensor in made if isinstance(made, (tuple, list)) else (made,):
        if not isinstance(tensor, Tensor):
            continue
        edge = tensor._edge
        if edge is None and tensor._meta is not None and tensor._meta.view is not None:
            edge = tensor._meta.view.edge  # the node as it is: bringing it up to date would be a further operation
        if edge is not None:
            return edge[0].seq
    return -1


class DetailedRecorder(Recorder):
    """Also records shapes, call stacks and memory, whichever are asked for."""

    def __init__(self, shapes: bool, stack: bool, memory: bool) -> None:
        super().__init__()
        self._shapes = shapes
        self._stack = stack
        self._memory = Memory() if memory else None

    def _begin(self, kind: int, name: str, arguments: Sequence[Any]) -> int:
        shapes = [shape_of(value) for value in arguments] if self._shapes else ()
        values = [_value(value) for value in arguments] if self._shapes else ()
        stack = _stack_of(sys._getframe(2)) if self._stack else ()
        if self._memory is not None:
            self._memory.see(arguments)
        self.entries.append((kind, name, now(), Detail(shapes, values, stack)))
        return len(self.entries) - 1

    def forward_begin(self, name: str, bound: Sequence[Any]) -> int:
        return self._begin(OPERATION, name, bound)

    def function_begin(self, name: str, args: Sequence[Any]) -> int:
        return self._begin(FUNCTION, name, args)

    def region_begin(self, name: str, arguments: Sequence[Any], user: bool) -> int:
        return self._begin(BLOCK if user else COMPOSITE, name, arguments)

    def backward_begin(self, node: Node, g: Any) -> int:
        grads = g if isinstance(g, list) else [g]
        if self._memory is not None:
            self._memory.count(grads, now())  # the first of all, and sums of several, made since the last node ran
        return self._begin(BACKWARD, node.name(), grads)

    def forward_end(self, token: int, made: Any) -> None:
        super().forward_end(token, made)
        if self._memory is not None:
            self._memory.count([made], self.entries[-1][2])

    def backward_end(self, token: int, node: Node, grads: Any) -> None:
        super().backward_end(token, node, grads)
        if self._memory is not None:
            made = [node.variable._grad] if isinstance(node, AccumulateGrad) else grads or ()
            self._memory.count(made, self.entries[-1][2])

    def stop_following(self) -> list[tuple[int, int]]:
        """The times and sizes of what was allocated (positive) and freed (negative), which is not followed further."""
        return [] if self._memory is None else self._memory.stop()


def shape_of(value: Any) -> Any:
    """The shape of a tensor or array, a list of shapes for a list of tensors, None for anything else."""
    kind = type(value)
    if kind is Tensor:
        return value._data.shape
    if kind in PLAIN:
        return None
    if isinstance(value, (Tensor, np.ndarray)):
        return tuple(value.shape)
    if isinstance(value, (tuple, list)) and holds_tensor(value):
        return [shape_of(item) or () for item in value]
    return None


def listed(shape: Any) -> list[Any]:
    """What :func:`shape_of` gave as torch's profiler shows it: lists, an empty one for what has no shape."""
    return [] if shape is None else [listed(item) if isinstance(item, tuple) else item for item in shape]


def _stack_of(frame: FrameType | None) -> Stack:
    places = []
    while frame is not None:
        if not is_internal(frame.f_code):
            places.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(places)


def _value(value: Any) -> Any:
    kind = type(value)
    if kind in PLAIN or ((kind is tuple or kind is list) and all(type(item) in PLAIN for item in value)):
        return value
    return None


class Memory:
    """Follows the arrays that operations work on: their sizes when they are made, and again when they are freed.

    What an operation allocates and frees within itself is not seen; in a sum over its duration it would cancel.
    """

    def __init__(self) -> None:
        self._records: list[tuple[int, int]] = []
        self._known: dict[int, _Followed] = {}

    def see(self, values: Sequence[Any]) -> None:
        """Follow arrays that existed before."""
        for value in values:
            if type(value) not in PLAIN:
                self._follow(value, None)

    def count(self, values: Sequence[Any], time: int) -> None:
        """Follow arrays that an operation returned, which are new unless already known."""
        for value in values:
            self._follow(value, time)

    def _follow(self, value: Any, time: int | None) -> None:
        if isinstance(value, (tuple, list)):
            for item in value:
                self._follow(item, time)
            return
        array = value._data if isinstance(value, Tensor) else value
        if not isinstance(array, np.ndarray):
            return
        while isinstance(array.base, np.ndarray):
            array = array.base
        if array.base is not None or id(array) in self._known:  # memory owned by another object, or already known
            return
        followed = self._known[id(array)] = _Followed(array, self._freed)
        followed.place, followed.size = id(array), array.nbytes
        if time is not None:
            self._records.append((time, array.nbytes))

    def _freed(self, followed: Any) -> None:
        if self._known.pop(followed.place, None) is not None:
            self._records.append((now(), -followed.size))

    def stop(self) -> list[tuple[int, int]]:
        self._known.clear()
        records, self._records = self._records, []
        return records


class _Followed(weakref.ref[np.ndarray]):
    __slots__ = ("place", "size")
    place: int
    size: int
