"""Where in the user's program an operation was called, noted so cheaply that it can be done for every one.

A node remembers the code object and the position in its bytecode (``code`` and ``at``); they become a file and a line
only when somebody asks. The short paths note just the position if the calling frame is the one they saw last, which is
the usual case in a loop, and leave the code object to ``_runs``; all other cases go through :func:`note`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os.path
import sys
import warnings
import weakref
from bisect import bisect_right
from collections import deque
from collections.abc import Collection
from itertools import islice
from operator import itemgetter
from threading import get_ident
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from retrograd.core.notebooks import runs_cells, shown_name
from retrograd.core.state import local

if TYPE_CHECKING:
    from retrograd.core.node import Node

PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")

# where code lies that is not the user's: ours, and Python's own modules that call functions on users' behalf
_INTERNAL = (PACKAGE, contextlib.__file__, functools.__file__)


class Trace(NamedTuple):
    """What is kept in addition to the caller's own position."""

    outer: Stack | None = None  # the frames around the caller's, in anomaly mode
    parent: Any = None  # a weak reference to the node whose backward made this one, in anomaly mode
    module: Any = None  # a weak reference to the module that was being called
    derived: bool = False  # whether a rule made the call, for double backward


_DERIVED = Trace(derived=True)


class Stack(NamedTuple):
    """A call stack from the inside out; neighbouring stacks share their outer part."""

    code: CodeType
    at: int
    outer: Stack | None


_internal: dict[str, bool] = {}


# The frame that called the last operation, in a list so that the short paths see it change; see forget().
LAST: list[FrameType | None] = [None]

# For nodes that have only a position: which code called from which sequence number on, and what is kept in addition.
_runs: deque[tuple[int, CodeType, Trace | None]] = deque(maxlen=1 << 14)

# The thread whose calls are in ``_runs``. Once a second thread calls, every node keeps its own code object.
_only_thread: list[int | None] = [None]
_SEVERAL = -1


def is_internal(code: CodeType) -> bool:
    """Whether it is code of this package, or code of Python's own that calls functions for others.

    Reports skip more than that, see :func:`retrograd.anomaly.stack_frames.is_between`.
    """
    filename = code.co_filename
    known = _internal.get(filename)
    if known is None:
        known = _internal[filename] = filename.startswith(_INTERNAL)
    return known


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is not internal, from ``frame`` outwards."""
    while frame is not None and is_internal(frame.f_code):
        frame = frame.f_back
    return frame


def warn_user(message: str, category: type[Warning] = UserWarning, through: Collection[str] = ()) -> None:
    """Warn with the location of the user's line that led here, also ``through`` other libraries."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and (is_internal(frame.f_code) or package_of(frame) in through):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def package_of(frame: FrameType) -> str:
    """The package whose code a frame runs, such as ``numpy``."""
    return str(frame.f_globals.get("__name__") or "").partition(".")[0]


def note(node: Node, frame: FrameType) -> None:
    """Remember who called, where ``frame`` is the caller or something of ours that it called."""
    within, anomaly = local.within, local.anomaly
    code = frame.f_code
    if within is None and anomaly is None and _internal.get(code.co_filename) is False:  # nearly always
        node.code, node.at = code, frame.f_lasti
        _expect(node.seq, code, None, frame)
        return
    caller: FrameType | None = frame
    while caller is not None:
        code = caller.f_code
        if within is not None and code is within.forward and anomaly is None:
            node.code, node.at = within.code, within.place
            return
        if not is_internal(code):
            break
        caller = caller.f_back
    if caller is None:  # a thread of ours
        return
    parent = local.evaluating
    if parent is not None and caller is not frame and anomaly is None:
        _inherit(node, parent)
        return
    node.code = code
    trace = None
    if anomaly is not None:
        trace = Trace(_stack(caller.f_back), None if parent is None else weakref.ref(parent))
    elif within is not None:
        trace = within.trace
    node.at = caller.f_lasti if trace is None else (caller.f_lasti, trace)
    if caller is frame:
        _expect(node.seq, code, trace, caller)


def _expect(seq: int, code: CodeType, trace: Trace | None, caller: FrameType) -> None:
    """Have the short paths note only the position, from here on and as long as the same frame calls."""
    this = get_ident()
    if _only_thread[0] == this:
        if not code.co_flags & _RESUMED:
            _runs.append((seq, code, trace))
            LAST[0] = caller
    elif _only_thread[0] is None:
        _only_thread[0] = this
        _expect(seq, code, trace, caller)
    else:
        _only_thread[0] = _SEVERAL
        LAST[0] = None


class Within(NamedTuple):
    """The call of a module that is under way.

    Operations in the ``forward`` of one of our own modules belong to the line where the user called the module, or the
    outermost of our modules around it. Noting that line here saves walking the frames in between.
    """

    trace: Trace  # the trace that names the module
    forward: CodeType | None = None  # of the module, if it is ours
    code: CodeType | None = None  # where the user called it
    at: int = 0
    place: tuple[int, Trace] | None = None  # what nodes keep beside the code


_latest: dict[int, Within] = {}  # by the identity of the module; most are called in one place, again and again


def enter_module(module: Any) -> Within | None:
    """Take note that a module is called, and return the value to restore in ``local.within`` when the call has ended.

    For ``Module.__call__``, whose caller is the relevant one.
    """
    outer: Within | None = local.within
    latest = _latest.get(id(module))
    if latest is not None and latest.trace.module() is module:
        forward = latest.forward
        if forward is None:
            local.within = latest
            return outer
        frame: FrameType | None = sys._getframe(2)
        code = frame.f_code  # type: ignore[union-attr]  # somebody has called
        if outer is not None and code is outer.forward:
            if latest.code is outer.code and latest.at == outer.at:
                local.within = latest
                return outer
        elif code is latest.code and frame.f_lasti == latest.at:  # type: ignore[union-attr]
            local.within = latest
            return outer
    else:
        key = id(module)
        latest = Within(Trace(None, None, weakref.ref(module, lambda _: _latest.pop(key, None))))
        frame, forward = sys._getframe(2), getattr(type(module).forward, "__code__", None)
    code, at = None, 0
    if forward is not None and is_internal(forward):
        code, at = _called_by_user(frame, outer)
    new = Within(latest.trace)
    if code is not None:
        new = Within(latest.trace, forward, code, at, (at, latest.trace))
    local.within = _latest[id(module)] = new
    return outer


def _called_by_user(frame: FrameType | None, within: Within | None) -> tuple[CodeType | None, int]:
    """Where the user is, from ``frame`` outwards."""
    while frame is not None and is_internal(code := frame.f_code):
        if within is not None and code is within.forward:
            return within.code, within.at
        frame = frame.f_back
    return (None, 0) if frame is None else (code, frame.f_lasti)


def _inherit(node: Node, parent: Node) -> None:
    """A node made by a rule, for double backward, belongs to the line of the operation whose rule it is."""
    found = _found(parent)
    if found is not None:
        node.code = found[0]
        trace = found[2]
        if trace is None:
            trace = _DERIVED
        elif not trace.derived:
            trace = trace._replace(derived=True)
        node.at = found[1], trace


# generators and coroutines: the same frame may continue at another place in the stack
_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def forget() -> None:
    """Release the last caller's frame, which keeps its variables alive."""
    LAST[0] = None
    local.outside = None


def _stack(frame: FrameType | None) -> Stack | None:
    """The stack from ``frame`` outwards; frames that have not moved since the last call in this thread are reused."""
    if frame is None:
        return None
    # a suspended frame at the same instruction has the same frames around it
    known = local.outside
    if known is not None and known[0] is frame and known[1].at == frame.f_lasti:
        return known[1]
    frames = [frame]
    while (outside := frames[-1].f_back) is not None:
        frames.append(outside)
    stack = None
    for each in reversed(frames):
        stack = Stack(each.f_code, each.f_lasti, stack)
    local.outside = (frame, stack)
    return stack


def _found(node: Any) -> tuple[CodeType, int, Trace | None] | None:
    """What was noted for a node; None if nothing was, or if it has been dropped since."""
    if not hasattr(node, "at"):
        return None
    at, trace = node.at if type(node.at) is tuple else (node.at, None)
    if hasattr(node, "code"):
        return node.code, at, trace
    place = bisect_right(_runs, node.seq, key=itemgetter(0))
    if place == 0:
        return None
    _, code, trace = _runs[place - 1]
    return code, at, trace


def line_of(code: CodeType, at: int) -> int:
    """The line of an instruction."""
    line = _position(code, at)[0]
    return code.co_firstlineno if line is None else line


def _position(code: CodeType, at: int) -> tuple[int | None, int | None, int | None, int | None]:
    return next(islice(code.co_positions(), at // 2, None), (None, None, None, None))


class Site(NamedTuple):
    """A place in the user's program; columns count bytes of UTF-8 from 0 and are None where Python kept none."""

    filename: str
    lineno: int
    end_lineno: int | None
    col: int | None
    end_col: int | None
    function: str


def site(code: CodeType, at: int) -> Site:
    """The file, line and columns of an instruction."""
    line, end_line, col, end_col = _position(code, at)
    return Site(shown_name(code.co_filename), line or code.co_firstlineno, end_line, col, end_col, code.co_qualname)


def site_of(node: Any) -> Site | None:
    """Where the operation of ``node`` was called, if that was noted."""
    found = _found(node)
    return None if found is None else site(found[0], found[1])


def position_of(node: Any) -> tuple[CodeType | None, int]:
    """The code object and the position in its bytecode where ``node`` was called; (None, 0) if that was not noted."""
    found = _found(node)
    return (None, 0) if found is None else found[:2]


def parent_of(node: Any) -> Any:
    """The node in whose backward ``node`` was made, if anomaly mode noted it."""
    found = _found(node)
    if found is None or found[2] is None or found[2].parent is None:
        return None
    return found[2].parent()


def module_of(node: Any) -> Any:
    """The module in whose call ``node`` was made, if a monitor noted it."""
    found = _found(node)
    if found is None or found[2] is None or found[2].module is None:
        return None
    return found[2].module()


def is_derived(node: Any) -> bool:
    """Whether an operation's rule made ``node``, for double backward, and not the line that it is attributed to."""
    found = _found(node)
    return found is not None and found[2] is not None and found[2].derived


def format_trace(node: Any) -> str:
    """The call that made ``node``, as Python prints a traceback: the whole stack if it was kept, else its last line.

    In a notebook, what runs the cells is left out.
    """
    import traceback  # slow to import, and rarely needed

    found = _found(node)
    if found is None:
        return ""
    code, at, trace = found
    places = [(code, at)]
    stack = None if trace is None else trace.outer
    while stack is not None and not runs_cells(stack.code):
        if not is_internal(stack.code):
            places.append((stack.code, stack.at))
        stack = stack.outer
    frames = [
        traceback.FrameSummary(shown_name(code.co_filename), line_of(code, at), code.co_name)
        for code, at in reversed(places)
    ]
    return "".join(traceback.StackSummary.from_list(frames).format())


caller_of = sys._getframe
