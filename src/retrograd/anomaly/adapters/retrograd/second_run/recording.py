"""The observer that records every operation of a step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import CodeType
from typing import Any

from numpy import ndarray

from retrograd.anomaly.adapters.retrograd.births import (
    ADDITION,
    Birth,
    all_samples,
    arrays_at,
    arrays_of,
    as_array,
    backward_at,
    data_of,
    derives_tangents,
    hidden_axes,
    operation_at,
    public_name,
    ran_by,
)
from retrograd.anomaly.adapters.retrograd.elements import are_born_of, flat, is_bad, is_born, named
from retrograd.anomaly.stack_frames import Position, callers_of, user_frame
from retrograd.autograd.function import BackwardCFunction
from retrograd.core.in_place import CopySlices
from retrograd.core.node import Node
from retrograd.core.observer import Observer, pop
from retrograd.core.op import Op
from retrograd.core.state import local
from retrograd.core.tensor import Tensor


@dataclass(eq=False)
class Call:
    """A call of an operation or user-written Function, with its arguments and results.

    Attributes
    ----------
    within
        The Function whose ``forward`` made it.
    is_backward, is_function
        Whether it is a node's run in backward, and that of a user-written Function.
    g
        The gradient that arrived at the node, with the samples of vmap hidden in it.
    flags
        The kinds of flags raised in it.
    callers, inside, variables
        See :class:`Birth`.
    writes
        Whether it writes to an existing tensor, its first operand or one passed as ``out=``.
    hidden
        How many axes of its results are those of samples under vmap.
    order
        The number of the call, in the order in which they ended.
    """

    name: str
    op: Op | None
    operands: list[Any]
    code: CodeType | None = None
    at: int = 0
    callers: tuple[Position, ...] = ()
    module: Any = None
    within: Call | None = None
    is_backward: bool = False
    is_function: bool = False
    g: Any = None
    flags: list[str] = field(default_factory=list)
    inside: Birth | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    results: list[ndarray] = field(default_factory=list)
    node: Node | None = None
    writes: bool = False
    hidden: int = 0
    order: int = 0

    @property
    def arguments(self) -> dict[str, Any]:
        """The operands by name, as the operation takes them: lists are tensors, dimensions and indices are tuples."""
        arguments = named(self.op, self.operands)
        if self.op is None:
            return arguments
        sequence = self.op.sequence
        return {
            name: tuple(value) if isinstance(value, list) and name != sequence else value
            for name, value in arguments.items()
        }

    @property
    def recorded(self) -> Node | None:
        """The node that passes gradients through it."""
        return self.node if self.node is not None or self.within is None else self.within.recorded


def _is_given_in_a_hook(call: Call) -> bool:
    """Whether a hook has called it with a non-finite plain number, which no graph shows, as the only bad operand."""
    arrays = [each for each in call.operands if isinstance(each, ndarray)]
    return not is_bad(arrays) and backward_at(sys._getframe(2)) is not None


class Recorder(Observer):
    """Keeps every call of a step.

    Parameters
    ----------
    excuses
        Tells whether a birth is intended.
    looks
        Whether to check results because flags are not available.

    Attributes
    ----------
    calls, births
        In order; the calls that gave birth to something non-finite among them.
    by_node
        The calls that were recorded for backward.
    by_result
        The calls by the id of the arrays they made; the last one that wrote to an array.
    gradients, saved
        The gradients a node passed on, and its saved values.
    """

    def __init__(self, excuses: Callable[[Birth], bool], looks: bool = False) -> None:
        self.births: list[Birth] = []
        self._is_over = False
        self._looks = looks
        self._excuses = excuses
        self.calls: list[Call] = []
        self.saved: dict[Node, Any] = {}
        self.by_node: dict[Node, Call] = {}
        self.by_result: dict[int, Call] = {}
        self.gradients: dict[Node, list[Any]] = {}
        self._under_way: list[Call] = []
        # by the identity of memory, the calls that are over and the births which know arrays in it
        self._knowing: dict[int, list[Call | Birth]] = {}
        self._writers: dict[int, tuple[Any, Call]] = {}  # by the identity of memory: it, and who last wrote to it
        self._originals: dict[int, tuple[ndarray, ndarray]] = {}  # by the identity of a copy, both of them

    def leave(self) -> None:
        """Stop recording; if another thread is recorded, that happens at its next operation."""
        self._is_over = True
        with suppress(RuntimeError):
            pop(self)

    def flag(self, birth: Birth) -> None:
        """Note a flag raised in the current call, or outside of any, where gradients are delivered."""
        if birth.name == ADDITION or birth.pushed is not None or not self._under_way:
            self._add_birth(birth)
            return
        call = self._under_way[-1]
        call.flags += [kind for kind in birth.kinds if kind not in call.flags]
        if call.op is None and birth.code is not None:  # the line inside of a Function
            call.code, call.at, call.inside, call.variables = birth.code, birth.at, birth.inside, birth.variables

    def forward_begin(self, name: str, bound: Sequence[Any]) -> Any:
        frame = sys._getframe(1)
        op = operation_at(frame)
        operands = self._arrays_of(op, bound)
        writes = name.endswith("_") and bool(bound) and isinstance(bound[0], Tensor)
        if writes:
            operands = self._preserved(operands[0], operands)
        module = None if local.within is None else local.within.trace.module()
        call = Call(name if op is None else public_name(op), op, operands, module=module, writes=writes)
        call.within = self._under_way[-1] if self._under_way else None
        user = user_frame(frame)
        if user is not None:
            call.code, call.at = user.f_code, user.f_lasti
            call.callers = callers_of(user)
        self._under_way.append(call)
        return call

    def _arrays_of(self, op: Op | None, bound: Sequence[Any]) -> list[Any]:
        """The operands as arrays; one in another shape than the call that made it has seen is known as its result."""
        data = data_of(bound)
        operands = arrays_of(op, data)
        for given, array in zip(data, operands, strict=True):
            made = None if array is given else self.by_result.get(id(all_samples(given)))
            if made is not None:
                self.by_result[id(array)] = made
        return operands

    def forward_writes(self, token: Any, out: Any) -> None:
        for each in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(each, Tensor):
                token.writes = True
                self._preserved(as_array(each), [])

    def forward_end(self, token: Any, made: Any) -> None:
        call = self._under_way.pop()
        if self._is_over:
            self.leave()
            return
        tensors = [each for each in (made if isinstance(made, (tuple, list)) else (made,)) if isinstance(each, Tensor)]
        call.results = [as_array(tensor) for tensor in tensors]
        call.hidden = hidden_axes(data_of(tensors))
        nodes = (_writer_of(each) if call.writes else each.grad_fn for each in tensors)
        call.node = next(filter(None, nodes), None)
        call.order = len(self.calls)
        self.calls.append(call)
        self._note_memory(call, [call.operands, call.results])
        self.by_result.update({id(result): call for result in call.results})
        if call.node is not None:
            self.by_node[call.node] = call
        bad = next(filter(is_bad, call.results), None)
        if call.writes and bad is not None:
            memory = _memory(bad)
            self._writers[id(memory)] = memory, call
        if bad is None:
            return
        flags = ["invalid"] if self._looks else call.flags
        if not (is_born(call.op, bad, call.operands, flags) or _is_given_in_a_hook(call)):
            return
        if call.within is not None and call.within.is_backward:  # of a node, whose birth it will be
            if not call.within.is_function:
                call.within.flags += call.flags
            elif call.within.inside is None:
                call.within.inside = birth_of_call(call, bad)
                call.within.flags += call.flags
                call.within.code, call.within.at = call.code, call.at
                user = user_frame(sys._getframe(1))
                call.within.variables = {} if user is None else arrays_at(user)
            return
        if local.tangents is not None and derives_tangents(sys._getframe(1)):
            return  # a flag has reported it
        birth = birth_of_call(call, bad)
        birth.modules = () if call.module is None else (call.module,)
        birth.node = backward_at(sys._getframe(1))  # in a hook
        birth.excused = self._excuses(birth)
        self._add_birth(birth)

    def _add_birth(self, birth: Birth) -> None:
        self.births.append(birth)
        self._note_memory(birth, [*birth.operands, birth.result])

    def _note_memory(self, known_to: Call | Birth, arrays: Iterable[Any]) -> None:
        for array in flat(arrays):
            if isinstance(array, ndarray):
                self._knowing.setdefault(id(_memory(array)), []).append(known_to)

    def forward_failed(self, token: Any, error: BaseException) -> None:
        self._under_way.pop()

    def backward_begin(self, node: Node, g: Any) -> Any:
        is_function = isinstance(node, BackwardCFunction)
        self._under_way.append(Call(node.name(), None, [as_array(g)], g=g, is_backward=True, is_function=is_function))
        ran = ran_by(node)
        saved = self.saved[ran] = getattr(ran, "saved", None)
        return saved

    def backward_end(self, token: Any, node: Any, grads: Any) -> None:
        call = self._under_way.pop()
        # copies of the bad ones, to which others may be added in place
        grads = [each.copy() if is_bad(each) else each for each in map(as_array, grads or ())]
        self.gradients[node] = grads
        is_born_here = call.flags or not is_bad(call.operands) or (self._looks and are_born_of(call.operands, grads))
        if is_bad(grads) and is_born_here:
            birth = Birth(call.flags, ran_by(node).name(), node=node, g=call.g, saved=token, grads=grads)
            birth.code, birth.at, birth.inside, birth.variables = call.code, call.at, call.inside, call.variables
            birth.excused = self._excuses(birth)
            self._add_birth(birth)

    def backward_failed(self, token: Any, error: BaseException) -> None:
        self._under_way.pop()

    def _preserved(self, target: ndarray, operands: list[Any]) -> list[Any]:
        """The operands of a call that is about to write to ``target``: with copies, as earlier calls know them then."""
        memory = _memory(target)
        copies: dict[int, ndarray] = {}
        kept = partial(self._kept, memory, copies)
        for each in (*self._knowing.pop(id(memory), ()), *self._under_way):
            each.operands = list(map(kept, each.operands))
            if isinstance(each, Birth):
                each.result = kept(each.result)
                continue
            for place, result in enumerate(each.results):
                each.results[place] = copy = kept(result)
                if copy is not result:
                    self.by_result[id(copy)] = each
        return [kept(value) for value in operands]

    def _kept(self, memory: Any, copies: dict[int, ndarray], value: Any) -> Any:
        """A value in which each array that lies in some memory is replaced by a copy, the same every time."""
        if isinstance(value, list):
            return [self._kept(memory, copies, item) for item in value]
        if not isinstance(value, ndarray) or _memory(value) is not memory:
            return value
        if id(value) not in copies:
            copy = copies[id(value)] = value.copy()
            self._originals[id(copy)] = copy, value  # whose identities no other arrays get, then
            maker = self.maker(value)
            if maker is not None:
                self.by_result[id(copy)] = maker
        return copies[id(value)]

    def original(self, array: ndarray) -> ndarray:
        """The program's array, if the given one is a copy of what it held before it was written to."""
        return self._originals.get(id(array), (array, array))[1]

    def maker(self, array: Any) -> Call | None:
        """The last call that made an array, or wrote something bad to its memory, through whatever view."""
        made = self.by_result.get(id(array))
        _, writer = self._writers.get(id(_memory(array)), (None, None))
        return writer if made is None or (writer is not None and writer.order > made.order) else made

    def users(self, call: Call, nodes: Container[Node]) -> Iterator[Node]:
        """The nodes that used the result of an unrecorded call, directly or through other such calls."""
        makers = {call}
        bad = {id(result) for result in call.results}
        for later in self.calls[call.order + 1 :]:
            given = [each for each in flat(later.operands) if isinstance(each, ndarray)]
            takes = not bad.isdisjoint(map(id, given)) or any(self.maker(each) in makers for each in given)
            if takes and is_bad(later.results):
                if later.recorded in nodes:
                    yield later.recorded  # type: ignore[misc]
                makers.add(later)
                bad.update(map(id, later.results))

    def passes(self, node: Node, nr: int) -> bool:
        """Whether the gradient that a node passed on along an edge may have been non-finite."""
        grads = self.gradients.get(node)
        return not grads or nr >= len(grads) or is_bad(grads[nr])


def birth_of_call(call: Call, bad: ndarray) -> Birth:
    """The birth of a result of a call."""
    birth = Birth(call.flags, call.name, op=call.op, operands=tuple(call.operands), result=bad, call=call)
    birth.code, birth.at, birth.callers, birth.variables = call.code, call.at, call.callers, call.variables
    return birth


def _writer_of(tensor: Tensor) -> Node | None:
    """The node of the operation that has just written to a tensor."""
    base = tensor._base
    written = None if base is None else base.grad_fn
    return written.fn if isinstance(written, CopySlices) else tensor.grad_fn


def _memory(array: Any) -> Any:
    """The array that owns the memory; anything but an array as it is."""
    while isinstance(array, ndarray) and isinstance(array.base, ndarray):
        array = array.base
    return array
