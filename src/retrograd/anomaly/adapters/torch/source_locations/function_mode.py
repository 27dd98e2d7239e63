"""Noting where nodes are made, by a torch function mode, which sees every call of torch."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode,
    _get_current_function_mode_stack,
    _pop_mode,
    _push_mode,
)

from retrograd.anomaly.adapters.torch.records.calls import next_seq
from retrograd.anomaly.stack_frames import Position, callers_of, position_of, user_frame

MOST = 1 << 17  # notes per step
_COST = 5e-6  # seconds added to a call

# The user's instruction that made a node, and the program's own callers of it; empty if unknown.
Place = tuple[Position, ...]

# A sequence number, and where the nodes from there on were made.
Noted = tuple[float, Place]


def place_at(frame: FrameType) -> Place:
    """The place of a frame that makes nodes."""
    return (position_of(frame), *callers_of(frame))


class FunctionNotes(TorchFunctionMode):
    """Notes the calls that make nodes while it is the current mode; see :class:`~.sites.Notes`."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Noted] = []
        self._count = 0
        self._end = 0  # of what is known
        self.on = False  # on the stack of modes
        self._is_over = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._is_over:  # stopped by another thread, which cannot remove it from this one's stack
            return func(*args, **kwargs or {})
        before = next_seq()
        result = func(*args, **kwargs) if kwargs else func(*args)
        self._count += 1
        after = next_seq()
        if after != before and len(self.noted) < MOST:
            frame = user_frame(sys._getframe(1))
            if before != self._end:  # nodes made outside of torch's functions, such as those of the user's Functions
                self.noted.append((self._end, ()))
            if frame is not None:
                self.noted.append((before, place_at(frame)))
            self._end = after
        return result

    @property
    def seconds(self) -> float:
        return self._count * _COST

    def start(self) -> None:
        self.clear()
        present = _get_current_function_mode_stack()
        _take_off(*(each for each in present if isinstance(each, FunctionNotes) and each._is_over))

    def stop(self) -> None:
        """Leave the stack of modes, even from below the modes of others."""
        _take_off(self)
        self.on, self._is_over = False, True
        self.clear()

    def enter(self) -> None:
        if not self.on:
            self.__enter__()
            self.on = True

    def leave(self) -> None:
        """Note nothing until :meth:`enter`, unless another mode has been entered above this one."""
        if self.on and _get_current_function_mode() is self:
            self.__exit__(None, None, None)
            self.on = False

    def pause(self) -> None:
        """The same as :meth:`leave`."""

    def clear(self) -> None:
        self.noted = []
        self._count = 0
        self._end = next_seq()


def _take_off(*modes: TorchFunctionMode) -> None:
    """Remove modes from this thread's stack, even from below the modes of others."""
    while modes and not set(modes).isdisjoint(_get_current_function_mode_stack()):
        above = []
        while (mode := _pop_mode()) not in modes:
            above.append(mode)
        for mode in reversed(above):
            _push_mode(mode)
