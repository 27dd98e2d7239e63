"""Interrupts (Ctrl-C) at every place in this package where CPython may raise one.

That is where a function begins, where one that is not written in Python has ended, and where a loop goes back: never
between two stores. What a ``with`` statement calls at its end may be interrupted before it begins, and nothing helps
against that; so these places are left out. And CPython raises an interrupt behind such an instruction, a test before
the next one: a place where another handler answers for that is left out as well.
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

# A function, the instruction before which it is interrupted, and how often that instruction ran before.
Place = tuple[CodeType, int, int]


@cache
def _positions(code: CodeType) -> frozenset[int]:
    """Return the instructions of a function of this package before which an interrupt may come on every path."""
    found = set()
    if code.co_filename.startswith(_SOURCE) and code.co_name != "<module>":
        before = ""
        bytecode = dis.Bytecode(code)
        handlers = [(range(entry.start, entry.end), entry.target) for entry in bytecode.exception_entries]
        for each in bytecode:
            is_called = before.startswith("CALL") and "INTRINSIC" not in before
            if is_called or (before == "RESUME" and code.co_name != "__exit__"):
                found.add(each.offset)
            before = each.opname if each.opname != "CACHE" else before
        found = {at for at in found if _handler(handlers, at - 2) == _handler(handlers, at)}
    return frozenset(found)


@cache
def _jumps_back(code: CodeType) -> dict[int, int]:
    """Return the jumps back in a function and their targets; an interrupt may come after such a jump."""
    return {
        each.offset: each.argval
        for each in dis.get_instructions(code)
        if "BACKWARD" in each.opname and "NO_INTERRUPT" not in each.opname
    }


def _handler(handlers: list[tuple[range, int]], at: int) -> int | None:
    return next((target for span, target in handlers if at in span), None)


@contextmanager
def _tracing(tell: Callable[[FrameType], None], only: CodeType | None = None) -> Iterator[None]:
    """Report each such instruction before it runs, inside a context."""
    calling: set[FrameType] = set()  # functions written in Python

    def called(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_back is not None and frame.f_back.f_trace is not None:
            calling.add(frame.f_back)
        if only is not None and frame.f_code is not only:
            return None
        positions, jumps_back = _positions(frame.f_code), _jumps_back(frame.f_code)
        if not positions:
            return None
        jumped_to: int | None = None

        def inside(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal jumped_to
            if event == "opcode":
                at = frame.f_lasti
                has_called = frame in calling
                calling.discard(frame)
                has_jumped = jumped_to == at
                jumped_to = jumps_back.get(at)
                if has_jumped or (not has_called and at in positions):
                    tell(frame)
            return inside

        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return inside

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # nobody would see an interrupt in code left from an earlier run, such as a generator that is closed
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()


def places_in(run: Callable[[], object], most: int, first: tuple[str, ...] = ()) -> list[Place]:
    """Return places that ``run`` reaches, at most so many, and as many again in the functions named in ``first``."""
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
    """Interrupt ``run`` at a place and return whether it got there; the interrupt must come through."""
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
