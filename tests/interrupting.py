"""An interrupt (Ctrl-C) at any place of this package at which CPython may raise it.

That is where a function begins, where one that is not written in Python has ended, and where a loop goes back: never
between two stores. What a ``with`` statement calls at its end may be interrupted before it begins, and nothing helps
against that; so these places are left out.
"""

from __future__ import annotations

import dis
import gc
import os.path
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any

import retrograd as rg

_SOURCE = os.path.dirname(rg.__file__) + os.sep

# A function, the instruction before which it is interrupted, and how often that comes before.
Place = tuple[CodeType, int, int]


@cache
def _positions(code: CodeType) -> frozenset[int]:
    """The instructions of a function of ours before which an interrupt may come, wherever one has come from."""
    found = set()
    if code.co_filename.startswith(_SOURCE) and code.co_name != "<module>":
        before = ""
        for each in dis.get_instructions(code):
            is_called = before.startswith("CALL") and "INTRINSIC" not in before
            if is_called or (before == "RESUME" and code.co_name != "__exit__"):
                found.add(each.offset)
            before = each.opname if each.opname != "CACHE" else before
    return frozenset(found)


@cache
def _jumps_back(code: CodeType) -> dict[int, int]:
    """The instructions of a function after which an interrupt may come, if it goes on where they lead to."""
    return {
        each.offset: each.argval
        for each in dis.get_instructions(code)
        if "BACKWARD" in each.opname and "NO_INTERRUPT" not in each.opname
    }


@contextmanager
def _tracing(tell: Callable[[FrameType], None], only: CodeType | None = None) -> Iterator[None]:
    """A context in which each such instruction is told of before it runs."""
    calling: set[FrameType] = set()  # functions written in Python
    jumping: dict[FrameType, int | None] = {}  # back, to where

    def called(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_back is not None and _positions(frame.f_back.f_code):
            calling.add(frame.f_back)
        if not _positions(frame.f_code) or (only is not None and frame.f_code is not only):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return inside

    def inside(frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode":
            has_called = frame in calling
            calling.discard(frame)
            has_jumped = jumping.get(frame) == frame.f_lasti
            jumping[frame] = _jumps_back(frame.f_code).get(frame.f_lasti)
            if has_jumped or (not has_called and frame.f_lasti in _positions(frame.f_code)):
                tell(frame)
        return inside

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # an interrupt of what an earlier run has left, as a generator that is closed, would come to nobody
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()


def places_in(run: Callable[[], object], most: int, first: tuple[str, ...] = ()) -> list[Place]:
    """Places that ``run`` comes to: at most so many, and as many again in functions with the names of ``first``."""
    times: dict[tuple[CodeType, int], int] = {}

    def note(frame: FrameType) -> None:
        key = frame.f_code, frame.f_lasti
        times[key] = times.get(key, 0) + 1

    with _tracing(note):
        run()
    rnd = random.Random(0)
    preferred = [(*key, nr) for key in times if key[0].co_name in first for nr in range(times[key])]
    others = [(*key, rnd.randrange(times[key])) for key in times if key[0].co_name not in first]
    return [place for places in (preferred, others) for place in rnd.sample(places, min(most, len(places)))]


def interrupted(run: Callable[[], object], place: Place) -> bool:
    """Interrupt ``run`` at a place, and say whether it has come there; the interrupt must come through."""
    code, at, left = place
    came = False

    def interrupt(frame: FrameType) -> None:
        nonlocal left, came
        if frame.f_lasti == at and not came:
            left -= 1
            if left < 0:
                came = True
                raise KeyboardInterrupt("a test's")

    try:
        with _tracing(interrupt, code):
            run()
    except KeyboardInterrupt:
        return True
    assert not came, f"lost in {name_of(place)}"
    return False


def name_of(place: Place) -> str:
    code, at, nr = place
    line = next((line for start, end, line in code.co_lines() if start <= at < end), None)
    return f"{code.co_qualname}, line {line} of {code.co_filename[len(_SOURCE) :]}, time {nr + 1}"
