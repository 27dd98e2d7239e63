"""Noting where nodes are made by instruction events (``sys.monitoring``, Python 3.12): only the user's code is slowed.

The interpreter sends an event before each instruction of the user's code that can reach an operation: calls, operators,
subscripts. All nodes made from then until the next such instruction belong to it. When a user's function returns to
torch's code, or a module imported by torch has run, the operations that follow there belong to the user's instruction
that called torch.
"""

from __future__ import annotations

import atexit
import dis
import sys
from functools import partial
from sysconfig import get_paths
from threading import get_ident
from types import CodeType
from typing import Any
from weakref import ref

from retrograd.anomaly.adapters.torch.records.calls import next_seq
from retrograd.anomaly.adapters.torch.source_locations.function_mode import MOST, Noted, place_at
from retrograd.anomaly.stack_frames import callers_of, is_between, outwards

_COST = 1.5e-6  # seconds for an event, at most
_TOOL_IDS = (3, 4)  # ids without a predefined purpose in sys.monitoring
_NAME = "retrograd"
_CALLING = ("CALL", "BINARY_", "UNARY_", "STORE_SUBSCR", "STORE_SLICE", "GET_ITER", "UNPACK_", "LIST_EXTEND")
_LEAVING = ("RETURN_", "YIELD_VALUE")
_ATTRIBUTES = ("T", "mT", "H", "mH", "real", "imag")  # of a tensor, which make nodes
_LIBRARY = tuple(f"{get_paths()[name]}/" for name in ("purelib", "platlib"))
_STANDARD_LIBRARY = tuple(f"{get_paths()[name]}/" for name in ("stdlib", "platstdlib"))

_monitoring: Any = getattr(sys, "monitoring", None)


class InstructionNotes:
    """Notes the instructions that make nodes in the thread that started it; see :class:`~.sites.Notes`.

    Parameters
    ----------
    tool_id
        Its id in ``sys.monitoring``.
    """

    @classmethod
    def if_possible(cls) -> InstructionNotes | None:
        """An instance with a free id; None before Python 3.12, or if all ids are taken."""
        if _monitoring is None:
            return None
        free = [each for each in _TOOL_IDS if _monitoring.get_tool(each) is None]
        return cls(free[0]) if free else None

    def __init__(self, tool_id: int) -> None:
        self.noted: list[Noted] = []
        self._id = tool_id
        self.on = False
        self._thread = 0
        self._count = 0
        self._told = False  # whether the interpreter sends instruction events
        # the user's code by id, because equal code objects may be distinct; and which instructions leave it
        self._codes: dict[int, tuple[ref[CodeType], dict[int, bool]]] = {}

    @property
    def seconds(self) -> float:
        return self._count * _COST

    def start(self) -> None:
        self.clear()
        self._thread = get_ident()
        self._told = True
        _monitoring.use_tool_id(self._id, _NAME)
        _monitoring.register_callback(self._id, _monitoring.events.PY_START, self._function_starts)
        _monitoring.register_callback(self._id, _monitoring.events.INSTRUCTION, self._instruction)
        for frame in outwards(sys._getframe(1)):  # what has started already
            self._function_starts(frame.f_code, 0)
        _monitoring.set_events(self._id, _monitoring.events.PY_START)
        _monitoring.restart_events()  # which an earlier watch under this id may have disabled
        atexit.register(self.stop)

    def stop(self) -> None:
        atexit.unregister(self.stop)
        self.pause()
        if _monitoring.get_tool(self._id) == _NAME:
            _monitoring.set_events(self._id, 0)
            _monitoring.register_callback(self._id, _monitoring.events.PY_START, None)
            _monitoring.register_callback(self._id, _monitoring.events.INSTRUCTION, None)
            _monitoring.free_tool_id(self._id)
        self._codes.clear()
        self.clear()

    def enter(self) -> None:
        self.on = True
        self._tell(True)

    def leave(self) -> None:
        self.on = False

    def pause(self) -> None:
        self.leave()
        self._tell(False)

    def clear(self) -> None:
        self.noted = []
        self._count = 0

    def _tell(self, told: bool) -> None:
        """Switch the events for the instructions of the user's code on or off."""
        if self._told == told:
            return
        self._told = told
        for kept, _ in tuple(self._codes.values()):
            if (code := kept()) is not None:
                self._set_events(code)

    def _set_events(self, code: CodeType) -> None:
        _monitoring.set_local_events(self._id, code, _monitoring.events.INSTRUCTION if self._told else 0)

    def _function_starts(self, code: CodeType, at: int) -> object:
        if id(code) not in self._codes and not _is_library(code):
            key = id(code)
            self._codes[key] = ref(code, partial(self._codes.pop, key)), _instructions(code)
            self._set_events(code)
        return _monitoring.DISABLE

    def _instruction(self, code: CodeType, at: int) -> object:
        leaving = self._codes[id(code)][1].get(at)
        if leaving is None:
            return _monitoring.DISABLE
        if not self.on or get_ident() != self._thread:
            return None
        self._count += 1
        frame = sys._getframe(1)
        if leaving:
            outer = next((each for each in outwards(frame.f_back) if not _is_library(each.f_code)), None)
            if outer is None:
                return None
            place = place_at(outer)
        else:
            place = (code, at), *callers_of(frame)
        seq = next_seq()
        if self.noted and self.noted[-1][0] == seq:
            self.noted[-1] = seq, place
        elif len(self.noted) < MOST:
            self.noted.append((seq, place))
        return None


def _instructions(code: CodeType) -> dict[int, bool]:
    """The offsets of instructions that can reach an operation; true for those that leave the function."""
    found: dict[int, bool] = {}
    prefixes: list[int] = []
    for each in dis.get_instructions(code):
        if each.opname == "EXTENDED_ARG":
            prefixes.append(each.offset)
            continue
        leaving = each.opname.startswith(_LEAVING)
        if leaving or each.opname.startswith(_CALLING) or (each.opname == "LOAD_ATTR" and each.argval in _ATTRIBUTES):
            found |= dict.fromkeys((*prefixes, each.offset), leaving)
        prefixes.clear()
    return found


def _is_library(code: CodeType) -> bool:
    """Whether it is code of torch, of this package or of Python's standard library."""
    path = code.co_filename
    return is_between(code) or (path.startswith(_STANDARD_LIBRARY) and not path.startswith(_LIBRARY))
