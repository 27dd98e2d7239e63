"""A birth, as the Python stack shows it at the moment when the processor raised a flag.

Values in the engine's frames are read by the names of their local variables: passing them explicitly would cost time in
every operation and every node. These names are a contract, which ``tests/anomaly/test_frames.py`` enforces.
"""

from __future__ import annotations

import os.path
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.program.failed_calls import arguments_in
from retrograd.anomaly.adapters.program.variables import variables_at
from retrograd.anomaly.operation_names import canonical, is_normalisation
from retrograd.anomaly.stack_frames import Position, callers_of, frames_between, is_between, outwards, trace_of
from retrograd.autograd import function as _function
from retrograd.batching import BatchedArray
from retrograd.batching.array import levels_of
from retrograd.batching.ufuncs import aligned
from retrograd.core import blocks, calls, engine, jvp, record, registry, sites
from retrograd.core.in_place import CopySlices
from retrograd.core.node import AccumulateGrad, Node, OpNode
from retrograd.core.op import Op
from retrograd.core.record import edges_of
from retrograd.core.state import local, next_sequence_nr
from retrograd.core.tensor import Tensor
from retrograd.gpu import DeviceArray


class Pushed(NamedTuple):
    """What the tangents of the results of an operation are derived from."""

    op: Op
    bound: list[Any]
    results: list[Tensor]
    tangents: Any


@dataclass(eq=False)
class Birth:
    """What was running when a flag was raised. Arrays are kept by reference until the next boundary.

    Attributes
    ----------
    kinds
        The flags: "invalid", "divide", "overflow", "underflow". Empty if only the result revealed it.
    name
        The operation's name.
    op, operands
        The operation and its arguments as arrays, in the order of its parameters; None if it is no operation.
    copies
        The operands as they were at that moment, if known: later writes in place change the others.
    result
        The result array, if known: written in place, or found by a look at the result.
    made, call
        The node that a forward birth led to, or the call that will provide it, if known.
    sources
        The sources of its operands, to identify that node; None if no gradient is wanted.
    node, rule, g, saved, grads
        In backward, the node that ran, the rule (None if unknown), what arrived, what the node had saved, and what it
        passed on, if that is known.
    before
        In backward, the saved values of the nodes before it, which backward is about to free.
    seq
        The last sequence number before the operation was recorded.
    code, at
        The user's line.
    callers
        The program's own instructions that led there, the innermost first; see :func:`.stack_frames.callers_of`.
    places
        That line, and those from which the functions around it were called.
    modules
        The modules it happened in, innermost first.
    samples
        Under vmap, the operands with the samples hidden in them.
    pushed
        In forward mode, what the tangents of its results were derived from.
    inside
        In the backward of a user-written Function, what was called there.
    variables
        In the user's own Function, the variables that the line there reads.
    clipping
        The bound and the norm, if it happened while gradients were clipped.
    excused
        Whether the user has declared it as intended.
    """

    kinds: list[str]
    name: str
    op: Op | None = None
    operands: Sequence[Any] = ()
    copies: Sequence[Any] = ()
    result: Any = None
    inplace: bool = False
    made: Callable[[], Node | None] | None = None
    call: Any = None
    sources: tuple[Any, ...] | None = None
    node: Node | None = None
    rule: Any = None
    g: Any = None
    saved: Any = None
    grads: list[Any] | None = None
    before: dict[Node, Any] = field(default_factory=dict)
    seq: int = field(default_factory=next_sequence_nr)
    code: CodeType | None = None
    at: int = 0
    callers: tuple[Position, ...] = ()
    places: tuple[tuple[CodeType, int], ...] = ()
    modules: tuple[Any, ...] = ()
    samples: Sequence[Any] = ()
    pushed: Pushed | None = None
    inside: Birth | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    clipping: dict[str, float] | None = None
    excused: bool = False
    thread: threading.Thread = field(default_factory=threading.current_thread)
    is_of_arrays = False  # in an expression of plain arrays, where nothing of ours ran

    @property
    def is_stale(self) -> bool:
        """Whether no graph has kept its result."""
        if self.node is not None or self.inplace:
            return False
        if self.call is None and self.made is None:
            refs = [source for source in self.sources or () if isinstance(source, weakref.ref)]
            return self.sources is None or any(ref() is None for ref in refs)
        return self.made_node(()) is None

    @property
    def is_unrecorded(self) -> bool:
        """Whether the operation needed no gradient, so that no graph recorded it."""
        return self.node is None and self.call is None and self.made is None and self.sources is None

    @property
    def hidden(self) -> int:
        """How many axes of its result are those of samples under vmap."""
        return hidden_axes(self.samples) if self.call is None else self.call.hidden

    @property
    def is_known(self) -> bool:
        """Whether its result is available."""
        return self.result is not None or self.grads is not None

    @property
    def is_backward(self) -> bool:
        return self.node is not None

    def absorbs(self, later: Birth) -> bool:
        """Merge another birth into this one if both are from one call, which works in blocks or passes."""
        if (
            (self.name, self.excused) != (later.name, later.excused)
            or self.node is not later.node
            or (self.node is None and later.seq != self.seq + 1)  # otherwise something was recorded in between
            or (self.code, self.at) != (later.code, later.at)
            or not _are_same(self.operands, later.operands)
        ):
            return False
        self.seq = later.seq
        self.kinds += [kind for kind in later.kinds if kind not in self.kinds]
        if self.rule is not later.rule:
            self.rule = None
        return True

    def is_of_call(self, other: Birth) -> bool:
        """Whether another birth, about which more is known, was reported in the same call."""
        if (self.name, self.node, self.op) != (other.name, other.node, other.op):
            return False
        if self.op is None:  # a Function, whose node is made before it runs, or what runs in backward
            return _node_of(self.made) is _node_of(other.made)
        return _are_same(self.samples or self.operands, other.samples or other.operands)

    def copy_operands(self) -> None:
        """Copy the operands as they are now, except the one being written to."""
        self.copies = [
            each.copy() if isinstance(each, ndarray) and each is not self.result else each for each in self.operands
        ]

    def restore_operands(self) -> None:
        """Take the copies of those operands that were written to since; the others are known by their identity."""
        if self.copies and not self.samples:
            self.operands = [
                copy if copy is not each and not np.array_equal(copy, each, equal_nan=each.dtype.kind in "fc") else each
                for each, copy in zip(self.operands, self.copies, strict=True)
            ]
        self.copies = ()

    def made_node(self, nodes: Iterable[Node]) -> Node | None:
        """Which of some nodes, in the order of creation, the call gave rise to."""
        if self.call is not None:
            return self.call.recorded
        if self.made is not None:
            return self.made()
        if self.op is None or self.sources is None:
            return None
        return next(
            (
                node
                for node in nodes
                if getattr(node, "op", None) is self.op and node.seq > self.seq and _comes_from(node, self.sources)
            ),
            None,
        )


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def _node_of(made: Callable[[], Node | None] | None) -> Node | None:
    return None if made is None else made()


def birth_at(kind: str, frame: FrameType) -> Birth | None:
    """Read from the stack what raised a flag; None if it was not one of our operations.

    A flag raised in the user's own NumPy code is ours inside a user-written Function only.
    """
    return _birth([kind], _landmarks((each, each.f_lasti) for each in outwards(frame)))


def birth_of(error: BaseException) -> Birth | None:
    """Read from its traceback in which operation an exception was raised; None if in none."""
    steps = [(each.tb_frame, each.tb_lasti) for each in trace_of(error)]
    return _birth(["invalid"], _landmarks(reversed(steps)))


def arguments_of(error: BaseException) -> list[Tensor]:
    """Read from its traceback what tensors the user gave to the function of ours that raised an exception."""
    called: FrameType | None = None
    by_user = False
    for each in trace_of(error):
        code = each.tb_frame.f_code
        if not sites.is_internal(code):
            by_user = not is_between(code)
        elif by_user:
            called, by_user = each.tb_frame, False
    return [value for value in arguments_in(called) if isinstance(value, Tensor)]


@dataclass
class _Landmarks:
    """The relevant parts of a stack: our frames, the user's innermost one, and the modules being called."""

    call: FrameType | None = None  # of an operation
    added: FrameType | None = None  # where gradients are added
    rule: FrameType | None = None  # the innermost frame of the engine that knows what arrived
    loop: FrameType | None = None  # the engine's loop
    function: FrameType | None = None  # of a user-written Function's forward
    clip: FrameType | None = None  # where gradients are clipped
    push: FrameType | None = None  # where the tangents of an operation are derived
    user: FrameType | None = None
    at: int = 0
    places: list[tuple[CodeType, int]] = field(default_factory=list)  # in the user's functions
    modules: list[Any] = field(default_factory=list)


def _landmarks(stack: Iterable[tuple[FrameType, int]]) -> _Landmarks:
    """Read a stack from the inside out, up to the engine's loop."""
    found = _Landmarks()
    for frame, at in stack:
        code = frame.f_code
        if not sites.is_internal(code):
            if is_between(code):
                continue
            found.places.append((code, at))
            if found.user is None:
                found.user, found.at = frame, at
        elif code.co_filename == engine.__file__ or code in _LEAF:
            if found.user is None:
                if code in _ADDING:
                    found.added = found.added or frame
                elif found.rule is None and "g" in frame.f_locals:
                    found.rule = frame
            if code is _LOOP:
                found.loop = frame
                break
        elif code is _APPLY_FUNCTION:
            found.function = found.function or frame
        elif found.user is None and _arguments(frame) is not None:
            found.call = frame
        elif found.user is None and code is _PUSH:
            found.push = frame
        elif code.co_name == _CLIP and code.co_filename == _CLIP_FILE and found.user is None:
            found.clip = frame
        elif code.co_name == "__call__" and code.co_filename == _MODULE_FILE:
            found.modules.append(frame.f_locals["self"])
    return found


_LOOP = engine._loop.__code__
_LEAF = (AccumulateGrad.accumulate.__code__, AccumulateGrad.accumulate_recorded.__code__)
_ADDING = (engine._add.__code__, engine._add_to_output.__code__, *_LEAF)
_PUSH = jvp.jvp.__code__
_APPLY_FUNCTION = _function.Function.__dict__["_apply"].__func__.__code__
_MODULE_FILE = sites.PACKAGE + "nn/modules/module.py"
_CLIP, _CLIP_FILE = "clip_grads_with_norm_", sites.PACKAGE + "nn/utils/clip_grad.py"
_CALLS = (os.path.join(os.path.dirname(calls.__file__), ""), record.__file__)


def _arguments(frame: FrameType) -> list[Any] | None:
    """The arguments of an operation, if it is a frame of one of the functions that run operations."""
    if not frame.f_code.co_filename.startswith(_CALLS):
        return None
    values = frame.f_locals
    op = values.get("op")
    if not isinstance(op, Op):
        return None
    if "bound" in values:
        return list(values["bound"])
    if "target" in values and "other" in values:
        return [values["target"], values["other"]]
    if "input" in values and "arguments" in values:
        return [values["input"], *values["arguments"]]
    if "input" in values and "other" in values:
        return [values["input"], values["other"]]
    return [values["input"]] if op.params == ("input",) and "input" in values and "args" not in values else None


def operation_at(frame: FrameType | None) -> Op | None:
    """The operation that is being run by the innermost frames, all of ours."""
    for each in frames_between(frame):
        if each.f_code is _APPLY_FUNCTION:
            break
        if _arguments(each) is not None:
            return each.f_locals["op"]
    return None


def derives_tangents(frame: FrameType | None) -> bool:
    """Whether the innermost frames, all of ours, derive the tangents of an operation."""
    return any(each.f_code is _PUSH for each in frames_between(frame))


def backward_at(frame: FrameType | None) -> Node | None:
    """The node that backward is running; None outside of backward."""
    return next((each.f_locals["node"] for each in outwards(frame) if each.f_code is _LOOP), None)


def _birth(kinds: list[str], found: _Landmarks) -> Birth | None:
    if found.loop is not None and found.push is None and (found.user is None or _is_function(found.loop)):
        birth = _in_backward(kinds, found)
        if found.user is not None:
            birth.inside = Birth(kinds, "") if found.call is None else _in_operation(kinds, found.call)
            birth.inside.code, birth.inside.at = found.user.f_code, found.at
            birth.variables = arrays_at(found.user)
    elif found.call is not None:
        birth = _in_operation(kinds, found.call)
        if found.push is not None:
            values = found.push.f_locals
            birth.pushed = Pushed(values["op"], values["bound"], values["results"], values["tangents"])
            if found.user is None and found.loop is not None:  # of what a rule has called
                birth.code, birth.at = sites.position_of(ran_by(found.loop.f_locals["node"]))
        elif found.loop is not None:  # in a hook
            birth.node = found.loop.f_locals["node"]
        elif found.function is not None:
            birth.made = weakref.ref(found.function.f_locals["node"])
    elif found.function is not None and found.loop is None:
        values = found.function.f_locals
        birth = Birth(kinds, values["cls"].__name__, operands=tuple(as_array(value) for value in values["args"]))
        birth.made = weakref.ref(values["node"]) if "node" in values else None
        birth.variables = {} if found.user is None else arrays_at(found.user)
    else:
        return None
    birth.modules = tuple(found.modules)
    birth.places = tuple(found.places)
    if found.clip is not None:
        values = found.clip.f_locals
        birth.clipping = {"total_norm": float(values["total_norm"]), "max_norm": float(values["max_norm"])}
    if found.user is not None:
        birth.code, birth.at = found.user.f_code, found.at
        birth.callers = callers_of(found.user)
    return birth


def arrays_at(frame: FrameType) -> dict[str, Any]:
    """The numbers, and tensors as arrays, among the variables read by the expression that a frame is running."""
    found = {name: as_array(value) for name, value in variables_at(frame).items()}
    return {name: value for name, value in found.items() if isinstance(value, (ndarray, int, float))}


def _is_function(loop: FrameType) -> bool:
    return isinstance(loop.f_locals["node"], _function.BackwardCFunction)


def _in_backward(kinds: list[str], found: _Landmarks) -> Birth:
    assert found.loop is not None
    node = found.loop.f_locals["node"]
    if found.added is not None:
        return _in_addition(kinds, found.added, node)
    birth = Birth(kinds, ran_by(node).name(), node=node)
    birth.g = (found.rule or found.loop).f_locals.get("g")
    birth.saved = getattr(ran_by(node), "saved", None)
    birth.before = saved_before(node)
    birth.rule = found.loop.f_locals.get("rule") if node.plain and found.rule is found.loop else None
    return birth


def _in_addition(kinds: list[str], frame: FrameType, node: Node) -> Birth:
    """Two gradients of one tensor were added, on delivery by ``node`` or in a leaf."""
    values = frame.f_locals
    if frame.f_code in _LEAF:
        target = values["self"]
        old, new = target.variable._grad, values["g"]
        in_place = frame.f_code is _LEAF[0] and old._edge is None
    else:
        target, new = values["node"], values["gi"]
        old = values["old"] if "old" in values else values["grads"][values["nr"]]
        in_place = target in values.get("owned", ()) and type(old) is type(new) is ndarray
    old, new = as_array(old), as_array(new)
    birth = Birth(kinds, ADDITION, node=target, operands=(old, new))
    birth.before = saved_before(node)
    with np.errstate(all="ignore"):
        birth.result = old if in_place else old + new
        if in_place and "invalid" in kinds:  # the old one is overwritten by now; it was the opposite infinity
            birth.operands = np.where(np.isinf(new), -new, old - new), new
            birth.result = old.copy()  # more is added to it
    return birth


ADDITION = "AccumulateGrad"


def ran_by(node: Node) -> Node:
    """The node whose rules a node runs: its own, or those of the operation that wrote to a view."""
    return node.fn if isinstance(node, CopySlices) else node


def _in_operation(kinds: list[str], frame: FrameType) -> Birth:
    values = frame.f_locals
    op, bound = values["op"], _arguments(frame)
    assert bound is not None
    data = data_of(bound)
    birth = Birth(kinds, public_name(op), op=op, operands=tuple(arrays_of(op, data)))
    birth.samples = data if any(type(each) is BatchedArray for each in data) else ()
    birth.inplace = "target" in values
    if birth.inplace:
        birth.result = as_array(values["target"])
        node = values.get("node")
        birth.made = None if node is None else weakref.ref(node)
    elif op.rules and local.grad_enabled:
        edges = edges_of(op, bound)
        birth.sources = None if edges is None else tuple(map(_source, edges))
    return birth


def _source(edge: Any) -> Any:
    """An identifier of an edge that does not keep its graph alive."""
    if edge is None:
        return None
    node = edge[0]
    return node.variable._data if isinstance(node, AccumulateGrad) else weakref.ref(node)


def _comes_from(node: Node, sources: tuple[Any, ...]) -> bool:
    """Whether a node's operands come from there."""
    if len(node.next) != len(sources):
        return False
    for edge, source in zip(map(_not_lifted, node.next), sources, strict=True):
        if edge is None or source is None:
            same = edge is source
        elif isinstance(edge[0], AccumulateGrad):
            same = edge[0].variable._data is source
        else:
            same = isinstance(source, weakref.ref) and source() is edge[0]
        if not same:
            return False
    return True


def _not_lifted(edge: Any) -> Any:
    """An edge, or the one behind vmap's lifting: the same for all samples."""
    while edge is not None and isinstance(edge[0], OpNode) and edge[0].op.name == "lift":
        edge = edge[0].next[0]
    return edge


def public_name(op: Op) -> str:
    """The user's name for an operation: derived from the node's name, if it has no public name of its own."""
    if any(op is each for each in registry.operations.values()):
        return op.label
    stem = op.node_name.partition("Backward")[0]
    name = re.sub("(?<![0-9])([A-Z])", r"_\1", stem).lower().lstrip("_")  # MaxPool2D is max_pool2d
    return canonical(name) if is_normalisation(name) else name


_BEFORE = 64  # nodes whose saved values are kept for an explanation


def saved_before(node: Node) -> dict[Node, Any]:
    """The saved values of a node and those before it."""
    found: dict[Node, Any] = {}
    queue = [node]
    for each in queue:
        owner = ran_by(each)
        if isinstance(owner, OpNode) and owner not in found:
            found[owner] = owner.saved
        queue += [edge[0] for edge in each.next if edge is not None and edge[0] not in found]
        if len(found) >= _BEFORE or len(queue) > 4 * _BEFORE:
            break
    return found


def all_samples(data: Any) -> Any:
    """The array, or under vmap the array of all samples; other values as they are."""
    return data.array if type(data) is BatchedArray else data


def data_of(values: Sequence[Any]) -> list[Any]:
    """The data of tensors, under vmap with the samples hidden in it; other things as they are."""
    return [value._data if isinstance(value, Tensor) else value for value in values]


def hidden_axes(data: Iterable[Any]) -> int:
    """The number of sample axes hidden in some data together."""
    return len(levels_of(data))


def arrays_of(op: Op | None, data: Sequence[Any]) -> list[Any]:
    """Data as arrays of all samples; for an elementwise operation, in shapes that broadcast as the samples do."""
    if op is not None and op.kind == "elementwise" and any(type(each) is BatchedArray for each in data):
        data, _ = aligned(data)
    return [as_array(each) for each in data]


def as_array(value: Any) -> Any:
    """The array of a tensor, also inside a list; other things as they are."""
    if isinstance(value, Tensor):
        value = value._data
    value = all_samples(value)
    if type(value) is DeviceArray:  # the analysis runs on the CPU
        return value.get()
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):  # a named tuple is an argument of its own
        return [as_array(item) for item in value]
    return np.asarray(value) if isinstance(value, np.generic) else value


def size_of(birth: Birth) -> int:
    """The bytes that a birth keeps alive at most."""
    held = [*birth.operands, *birth.variables.values(), birth.g, birth.result, *(birth.grads or ())]
    return sum(item.nbytes for item in held if isinstance(item, ndarray))


def in_helper_thread(frame: FrameType) -> bool:
    """Whether a flag was raised in one of the threads that share the work of an operation."""
    codes = (each.f_code for each in frames_between(frame))
    return any(code.co_name == "take" and code.co_filename == blocks.__file__ for code in codes)
