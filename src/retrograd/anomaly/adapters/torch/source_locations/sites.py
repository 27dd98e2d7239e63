"""Where operations were called, noted in some steps and reused for all steps with the same operations.

Every node of an autograd graph has a sequence number, counted per thread. Noting them, by torch function mode or by
instruction events, slows each call down, so that after the first steps it is done only as often as the budget allows,
and never within backward, an optimizer, or another thread than that of the watch. A step in between is looked up, by
the names of its nodes, in the latest noted ones whose backward was called at the same place, from the same callers: in
one with the same names in the same order (several kinds of steps may take turns); or else, for instance if a loop does
not always run equally often, at all places with the same names for some distance before and after, if they agree; or
else at its place from the beginning or the end of the latest one, as far as the names there are the same. The step
after the first one from a new place is noted.
"""

from __future__ import annotations

import contextlib
import sys
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from operator import itemgetter
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, NamedTuple, Protocol

import torch

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.torch.records.calls import Call, next_seq, seq_of
from retrograd.anomaly.adapters.torch.records.graph import SiteOf, nodes_behind, nodes_made
from retrograd.anomaly.adapters.torch.runtime.compilation import in_use
from retrograd.anomaly.adapters.torch.runtime.frames import within_backward
from retrograd.anomaly.adapters.torch.source_locations import autograd_threads
from retrograd.anomaly.adapters.torch.source_locations.function_mode import MOST, FunctionNotes, Noted, Place, place_at
from retrograd.anomaly.adapters.torch.source_locations.instruction_events import InstructionNotes
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.stack_frames import Position, is_between, user_frame
from retrograd.core.sites import line_of

_FIRST = 3  # steps at the beginning that are all noted
_LONGEST_PAUSE = 1000  # steps
_KINDS = 8  # kinds of steps for which notes are kept
_PLACES = 64  # callers of backward, for each of which a step is noted at any cost
_REMEMBERED = 64  # past steps that may still be asked about
_DERIVATIVES = 1 << 12  # backward passes that were recorded and may be asked about
_LEAST_ALIKE = 3  # nodes with which a step begins or ends as another one does, so that this is no chance
_ALIKE = 8  # nodes before and after one that must have the same names as around its counterpart

# The user's instructions on the call stack, from the inside out: file, first line of the code, position.
Calling = tuple[tuple[str, int, int], ...]


class Notes(Protocol):
    """One way to note where nodes are made.

    Attributes
    ----------
    noted
        Pairs of a sequence number and the instruction that made the nodes from there on, in ascending order.
    on
        Whether it notes now.
    seconds
        What noting has cost since the last :meth:`clear`, estimated.
    """

    noted: list[Noted]
    on: bool

    @property
    def seconds(self) -> float: ...

    def start(self) -> None:
        """Prepare; may be called again after :meth:`stop`."""

    def stop(self) -> None:
        """Leave everything as it was before."""

    def enter(self) -> None:
        """Note from here on."""

    def leave(self) -> None:
        """Note nothing until :meth:`enter`."""

    def pause(self) -> None:
        """Suspend noting at no cost for some steps, until :meth:`enter`."""

    def clear(self) -> None:
        """Begin a new step."""


class _Step(NamedTuple):
    """A step that was noted completely.

    Attributes
    ----------
    called
        Where its backward was called.
    names
        The names of the nodes that lead to its loss, in the order of creation.
    seqs
        Their sequence numbers, and those in ``noted``, counted from the first node of the step.
    """

    called: Calling
    names: tuple[str, ...]
    seqs: list[float]
    noted: list[Noted]

    def place(self, index: int) -> Place:
        """Where a node was made."""
        return _found(self.noted, self.seqs[index])

    def is_on_one_line(self, index: int) -> bool:
        """Whether a node and the next one were made by the same line."""
        one, other = ([line_of(*position) for position in self.place(number)] for number in (index, index + 1))
        return one == other


class _Derivative(NamedTuple):
    """The nodes that a backward pass made, as with ``create_graph=True``, and the instruction that called it."""

    begin: float
    end: float
    code: CodeType
    at: int

    def has_called(self, call: Call) -> bool:
        """Whether an operation was called by the engine itself, not by a user's function that the engine called."""
        if call.seq is None or not self.begin <= call.seq < self.end or call.code is not self.code:
            return False
        return line_of(call.code, call.at) == line_of(self.code, self.at)


class SiteLog:
    """Maps the sequence number of a node to the place where its operation was called.

    Parameters
    ----------
    budget
        The share of the running time that noting may take.

    Attributes
    ----------
    spent
        The seconds that noting took in the last step.
    """

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.spent = 0.0
        self._thread = 0  # in which calls are noted; each thread numbers its nodes separately
        self._notes: Notes = FunctionNotes()
        self._wanted = True  # in the present step
        self._base = 0
        self._noted: list[_Step] = []  # the latest of each kind
        self._called: Calling = ()  # the last backward
        self._places: set[Calling] = set()  # from which backward was called
        self._ended: deque[int] = deque(maxlen=_REMEMBERED)  # the first nodes of steps, the latest first
        self._derivatives: deque[_Derivative] = deque(maxlen=_DERIVATIVES)  # the latest last
        self._steps = 0
        self._pause = 0
        self._began = 0.0
        self._usual = 0.0  # seconds of a step that was not noted

    def start(self, patches: Patches) -> None:
        self._notes = InstructionNotes.if_possible() or FunctionNotes()
        self._notes.start()
        patches.wrap(torch.Tensor, "backward", self._without_notes)
        patches.wrap(torch.autograd, "backward", self._backward)
        patches.wrap(torch, "compile", self._without_notes)
        patches.wrap(torch.autograd, "grad", self._grad)
        patches.wrap(torch.autograd, "_engine_run_backward", self._run_backward)
        self._thread = get_ident()
        self._base = next_seq()
        self._began = time.perf_counter()
        self.enter()

    def stop(self) -> None:
        self._notes.stop()
        self._thread = 0  # it may be stopped in the middle of a step, by a policy or a hook
        self._noted = []
        self._places.clear()
        self._derivatives.clear()

    def enter(self) -> None:
        """Note the calls from here on, if those of this step are wanted; never in a program that uses
        ``torch.compile``, because a change of modes makes it compile anew."""
        if not self._is_here:
            return
        if in_use():
            self._notes.pause()
        elif self._wanted and len(self._notes.noted) < MOST:
            self._notes.enter()

    def note(self) -> None:
        """Note the calls of the present step, whatever that costs."""
        self._wanted = True
        self.enter()

    def rest(self) -> None:
        """Note nothing more in the present step."""
        if self._is_here:
            self._wanted = False
            self._notes.leave()
            self._notes.pause()

    def noted(self) -> SiteOf:
        """A lookup, to be used later, of where the present step's operations were called."""
        noted = list(self._notes.noted) if self._is_here else []
        return lambda seq: _found(noted, seq)

    def leave(self) -> None:
        """Note nothing until :meth:`enter`."""
        if self._is_here:
            self._notes.leave()

    @contextlib.contextmanager
    def within_update(self) -> Iterator[None]:
        """A context in which calls are noted although an optimizer is stepping: for the user's closure."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    @property
    def _is_here(self) -> bool:
        return get_ident() == self._thread

    def backward_begins(self) -> None:
        """Called when backward begins, which ends the step."""
        if self._is_here:
            self._called = _calling(sys._getframe(1))

    def _without_notes(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """``Tensor.backward`` would reach a torch-function mode before us, and compiled code must not meet one."""
        self.leave()
        return original(*args, **kwargs)

    def _backward(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """A backward pass that fails, for instance in a hook of the program, ends the step as well."""
        try:
            return original(*args, **kwargs)
        except BaseException:
            if not within_backward():
                self._wanted = True
                self.begin_anew()
            raise

    def begin_anew(self) -> None:
        """Drop an unfinished step: what is noted from here on belongs to the next one."""
        if self._is_here:
            self._forget()
            self.enter()

    def _forget(self) -> None:
        self._ended.appendleft(self._base)
        self._notes.clear()
        self._base = next_seq()

    def _grad(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Like backward, ``autograd.grad`` may end a step, unless it is asked to create a graph."""
        makes_nodes = kwargs.get("create_graph", len(args) > 4 and args[4])
        if makes_nodes or not self._is_here or within_backward():
            return original(*args, **kwargs)
        self.backward_begins()
        was_on = self._notes.on
        self.leave()
        try:
            return original(*args, **kwargs)
        finally:
            if was_on:
                self.enter()

    def _run_backward(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Every backward pass, including that of a transform: the nodes that it makes belong to a derivative."""
        begin = next_seq()
        autograd_threads.begin(begin)
        try:
            returned = original(*args, **kwargs)
            if next_seq() == begin and _is_to_be_differentiated(*args, **kwargs):
                self._find_elsewhere(begin, nodes_made(returned or (), *args), user_frame(sys._getframe(1)))
            return returned
        finally:
            autograd_threads.end()
            frame = user_frame(sys._getframe(1)) if next_seq() != begin and self._is_here else None
            if frame is not None:
                self._derivatives.append(_Derivative(begin, next_seq(), frame.f_code, frame.f_lasti))

    def _find_elsewhere(self, begin: int, nodes: list[Any], frame: FrameType | None) -> None:
        """Give nodes from autograd's own thread their places, and note where backward was called."""
        autograd_threads.put_between(nodes, begin)
        if not nodes or frame is None or not self._is_here:
            return
        place = autograd_threads.first_place(begin)
        self._derivatives.append(_Derivative(place, begin, frame.f_code, frame.f_lasti))
        if self._notes.on:
            noted = self._notes.noted
            noted.insert(bisect_right(noted, place, key=itemgetter(0)), (place, place_at(frame)))

    def is_looked_up(self, call: Call) -> bool:
        """Whether the line of an operation was taken from another, noted step with the same operations."""
        present = self._notes.noted
        return call.code is not None and call.seq is not None and not (present and present[0][0] <= call.seq)

    def is_derived(self, call: Call) -> bool:
        """Whether a derivative called an operation, so that the line attributed to it does not contain it."""
        return any(each.has_called(call) for each in self._derivatives)

    @property
    def on(self) -> bool:
        """Whether calls are noted now."""
        return self._notes.on

    def step_ended(self, roots: Iterable[Any]) -> None:
        """Called when a backward pass that began at these nodes has ended."""
        if not self._is_here:
            return
        now = time.perf_counter()
        elapsed, self._began = now - self._began, now
        self._steps += 1
        self.spent = self._notes.seconds
        if self._wanted:
            if self._notes.noted:
                self._keep(roots)
                self.spent += time.perf_counter() - now
            affordable = self.budget * max(self._usual or elapsed, 1e-9)
            self._pause = min(_LONGEST_PAUSE, int(self.spent / affordable))
        else:
            self._usual = elapsed if self._usual == 0 else min(elapsed, 0.9 * self._usual + 0.1 * elapsed)
            self._pause -= 1
        self._forget()
        self._wanted = self._is_new(self._called) or self._steps < _FIRST or self._pause <= 0
        if not self._wanted:
            self._notes.pause()

    def _is_new(self, called: Calling) -> bool:
        """Whether backward is called from there for the first time; false once enough places are known."""
        if called in self._places or len(self._places) == _PLACES:
            return False
        self._places.add(called)
        return True

    def _keep(self, roots: Iterable[Any]) -> None:
        """Keep the notes of the step that has ended."""
        names, seqs = _named(roots)
        noted = [(seq - self._base, place) for seq, place in self._notes.noted]
        others = [each for each in self._noted if (each.called, each.names) != (self._called, names)]
        self._noted = [*others[1 - _KINDS :], _Step(self._called, names, [seq - self._base for seq in seqs], noted)]

    def steps_since(self, seq: float) -> int:
        """How many remembered steps have ended since the operation with a sequence number was called."""
        if not self._is_here:
            return 0
        begun = [self._base, *self._ended]  # the steps, the latest first
        return next((age for age, base in enumerate(begun) if base <= seq), len(self._ended))

    def sites_behind(self, roots: Iterable[Any], unfinished: bool = False) -> SiteOf:
        """Return a lookup from sequence numbers to places, for the nodes behind some nodes.

        An ``unfinished`` step, which has no loss yet, is looked up as a part of another step at the same places.
        """
        if not self._is_here:
            return lambda seq: ()
        names, seqs = _named(roots)
        present = self._notes.noted
        part = _part(names, [seq - self._base for seq in seqs], self._noted) if unfinished else None
        known = part or _places(names, [step for step in self._noted if unfinished or step.called == self._called])
        numbers = {seq: number for number, seq in enumerate(seqs)}

        def site_of(seq: float) -> Place:
            if present and present[0][0] <= seq:
                return _found(present, seq)
            return known[numbers[seq]] if seq in numbers else ()

        return site_of

    def lines_noted(self, op: str, filename: str) -> set[int]:
        """The lines of a file that have called an operation in a noted step."""
        places = (
            step.place(number)[:1]
            for step in self._noted
            for number, name in enumerate(step.names)
            if canonical(name) == canonical(op)
        )
        return {line_of(*position) for place in places for position in place if position[0].co_filename == filename}

    def noted_around(self, roots: Iterable[Any], seq: float) -> tuple[list[tuple[str, Position]], ...]:
        """The operations with known places behind some nodes, before and after a sequence number.

        Each is given by its name and the instruction that called it; the nearest come first.
        """
        roots = list(roots)
        site_of = self.sites_behind(roots)
        named = [(each, name, site_of(each)) for name, each in zip(*_named(roots), strict=True)]
        before = [(name, site[0]) for each, name, site in reversed(named) if each < seq and site]
        return before, [(name, site[0]) for each, name, site in named if each > seq and site]


def _is_to_be_differentiated(
    outputs: Any, grads: Any = (), retain_graph: bool = False, create_graph: bool = False, *args: Any, **kwargs: Any
) -> bool:
    """Whether a backward pass was asked to make a graph of its own."""
    return create_graph


def _calling(frame: FrameType | None) -> Calling:
    """The callers of a frame; code is identified by file and line, as notebook cells are compiled on every run."""
    places = []
    while frame is not None:
        code = frame.f_code
        if not is_between(code):
            places.append((code.co_filename, code.co_firstlineno, frame.f_lasti))
        frame = frame.f_back
    return tuple(places)


def _named(roots: Iterable[Any]) -> tuple[tuple[str, ...], list[float]]:
    """The names and the sequence numbers of the operations behind some nodes."""
    nodes = [node for node in nodes_behind(roots) if not hasattr(node, "variable")]
    return tuple(sys.intern(node.name()) for node in nodes), [seq_of(node) for node in nodes]


def _places(names: tuple[str, ...], steps: Sequence[_Step]) -> Sequence[Place]:
    """Where the nodes of an unnoted step were made, according to noted steps, as far as these agree."""
    same = next((step for step in steps if step.names == names), None)
    if same is not None:
        return [same.place(number) for number in range(len(names))]
    known: dict[tuple[str, ...], Place] = {}
    for step in steps:
        for number, around in enumerate(_surroundings(step.names)):
            place = step.place(number)
            known[around] = _common(known.get(around, place), place)
    found = [known.get(around, ()) for around in _surroundings(names)]
    aligned = _aligned(names, steps[-1]) if steps else {}
    return [place or aligned.get(number, ()) for number, place in enumerate(found)]


def _aligned(names: tuple[str, ...], step: _Step) -> dict[int, Place]:
    """The places of the nodes that a step begins or ends with as a noted one does, which differs in between.

    Where something was put in or left out, equal neighbours could be either: these are left unknown. So are those on
    a line that is not the same to its end.
    """
    shorter = min(len(names), len(step.names))
    begin, end = _alike(names, step.names), _alike(names[::-1], step.names[::-1])
    ambiguous = max(begin + end - shorter, 0)
    begin, end, longer = begin - ambiguous, end - ambiguous, len(step.names) - len(names)
    while 0 < begin < len(step.names) and step.is_on_one_line(begin - 1):
        begin -= 1
    while 0 < end < len(step.names) and step.is_on_one_line(len(step.names) - end - 1):
        end -= 1
    found = {number: step.place(number) for number in range(begin)} if begin >= _LEAST_ALIKE else {}
    last = range(len(names) - end, len(names)) if end >= _LEAST_ALIKE else range(0)
    return found | {number: step.place(number + longer) for number in last}


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many names two sequences begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _common(one: Place, other: Place) -> Place:
    """The common part of two places, from the inside out."""
    if one == other:
        return one
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return tuple(position for position, _ in alike)


def _part(names: tuple[str, ...], seqs: Sequence[float], steps: Sequence[_Step]) -> Sequence[Place] | None:
    """The places of nodes that form a part of a noted step; None if there is no such step."""
    for step in reversed(steps):
        there = {seq: (name, number) for number, (seq, name) in enumerate(zip(step.seqs, step.names, strict=True))}
        found = [there.get(seq, ("", 0)) for seq in seqs]
        if tuple(name for name, _ in found) == names:
            return [step.place(number) for _, number in found]
    return None


def _surroundings(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Each name with its neighbours before and after; the ends of the step count as neighbours."""
    padded = ("",) * _ALIKE + names + ("",) * _ALIKE
    return [padded[start : start + 2 * _ALIKE + 1] for start in range(len(names))]


def _found(calls: list[Noted], seq: float) -> Place:
    number = bisect_right(calls, seq, key=itemgetter(0))
    return calls[number - 1][1] if number else ()
