"""Recording the second run of a step: every operation with its line, its module, its operands and results."""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Container, Sequence
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack, _pop_mode

from retrograd.anomaly.adapters.program.variables import name_of, variables_at
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, is_bad, next_seq
from retrograd.anomaly.adapters.torch.records.custom_ops import kernel_of
from retrograd.anomaly.adapters.torch.records.graph import is_python
from retrograd.anomaly.adapters.torch.records.partial_writes import Part, writes_to_part
from retrograd.anomaly.adapters.torch.runtime.frames import frame_in_backward, landmarks
from retrograd.anomaly.adapters.torch.runtime.graph_capture import capturing
from retrograd.anomaly.adapters.torch.runtime.modes import above
from retrograd.anomaly.adapters.torch.source_locations.autograd_threads import place_of, present_place
from retrograd.anomaly.stack_frames import Position, callers_of, position_of

MOST_BYTES = 1 << 30  # of tensors that the record keeps alive
MOST_CALLS = 1 << 17
_NEW = torch.ops.aten.lift_fresh.default  # what torch.tensor() ends with
_COPY = torch.ops.aten.copy_.default
_CLONE = str(torch.ops.aten.clone.default)
_DETACH = torch.ops.aten.detach.default
_NUMBER = torch.ops.aten.scalar_tensor.default  # how functions composed of others write one
_MOST_LEVELS = 4  # of gradients of gradients
_MOST_PARTS = 64  # of tensors, written to by one operation
_MOST_NAMED = 64
_COPIED = 1 << 24  # elements up to which a tensor is copied before it is overwritten in place


class Recorder(TorchDispatchMode):
    """Records the operations of a step while it is the current mode.

    Attributes
    ----------
    calls
        The kept calls, including those of backward, in the order in which they happened.
    leaves
        What arrived at leaves in backward: pairs of the leaf and an argument that tells where its gradient came from.
    named
        Data that came in bad, with the program's names at that time: the functions with these names may have ended.
    paused
        Whether recording is suspended.
    is_over
        Whether recording has ended.
    thread
        The thread that computes.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        super().__init__()
        self._most_bytes = most_bytes
        self.calls: deque[Call] = deque()
        self.leaves: list[tuple[Tensor, Argument]] = []
        self.named: deque[tuple[str, Tensor]] = deque(maxlen=_MOST_NAMED)
        self._number = itertools.count()
        self._made: dict[int, tuple[Call, int]] = {}
        self._numbers: dict[int, tuple[Tensor, Any]] = {}
        self._writers: dict[int, Call] = {}
        self._holders: dict[int, list[Call]] = {}  # by storage, the calls that refer to its contents
        self._by_seq: dict[int, Call] = {}
        self._by_seq_elsewhere: dict[int, Call] = {}
        self._bytes: dict[int, int] = {}
        self._held = 0
        self._in_backward = 0
        self._spared: list[Call] = []  # no longer among the calls, but still with their results, which were bad
        self.born_inside: Call | None = None
        self.paused = self.is_over = False
        self.thread = threading.current_thread()
        # While a model is rerun for an earlier call: the user's present frame, and the line that made that call.
        self.called_from: tuple[FrameType | None, Position] | None = None
        _recorders.add(self)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """True, as nothing is compiled meanwhile; torch's own way would import its compiler, which takes seconds."""
        return False

    def __enter__(self) -> Recorder:
        self.thread = threading.current_thread()
        return super().__enter__()

    def end(self) -> None:
        """Stop recording, and leave this thread's stack of modes; that of another recording thread stays as it is.

        In a hook the stack is that of the backward pass, so this is called again after it.
        """
        is_again, self.is_over = self.is_over, True
        if self in _get_current_dispatch_mode_stack():
            with above(self):
                if is_again:
                    _pop_mode()
                else:
                    self.__exit__(None, None, None)
        elif threading.current_thread() is not self.thread:
            self.forget(self.next_order())

    # --- forward --------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is _NEW or self.paused or self.is_over or _only_asks(func) or capturing():
            return func(*args, **kwargs)
        if self._in_backward and not torch.is_grad_enabled():
            return self._inside_backward(func, args, kwargs)
        arguments = self._arguments(func, args, kwargs)
        part, whole = self._part(func, args)
        kernel, began = kernel_of(func, args), next(self._number)
        if kernel is None:
            result = func(*args, **kwargs)
        else:
            with self:
                result = kernel(*args, **kwargs)
        if func is _NUMBER:
            self._numbers[id(result)] = result, args[0]
            return result
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        if not any(isinstance(output, Tensor) for output in outputs):
            return result
        made = [self._made.get(id(each)) for each in outputs]
        if kernel is not None and all(each is not None and each[0].order > began for each in made):
            return result  # made by operations that are recorded
        call = self._note(func, arguments, [each if isinstance(each, Tensor) else None for each in outputs])
        call.part, call.whole = part, whole
        return result

    def _note(self, func: Any, arguments: list[Argument], outputs: list[Any]) -> Call:
        frame = sys._getframe(1)
        elsewhere = frame.f_back is None  # in a thread of autograd's
        around = landmarks(self._frame_around(frame))
        number = next_seq() - 1
        call = Call(
            str(func),
            arguments,
            outputs,
            next(self._number),
            pointwise=torch.Tag.pointwise in func.tags and len(outputs) == 1,
            seq=present_place() if elsewhere else number,
            modules=around.modules,
            thread=self.thread.name,
            entry=func,
        )
        if around.user is not None:
            call.code, call.at = self._position(around.user)
            call.callers = callers_of(around.user, self._position)
        if around.applied is not None:
            call.applied = around.applied.f_code, around.applied.f_lasti
        self._put_into_node(call)
        self._note_seq(call, self._by_seq_elsewhere if elsewhere else self._by_seq, number, func._schema.is_mutable)
        for number, output in enumerate(outputs):
            if output is not None:
                self._made[id(output)] = (call, number)
        self.add(call)
        if func._schema.is_mutable and call.bad:
            self._writers[memory_of(outputs[0])] = call
        return call

    def _frame_around(self, frame: FrameType) -> FrameType | None:
        """The caller of ``frame``; if autograd runs in a thread of its own, as on a GPU, from the waiting thread."""
        return frame.f_back or sys._current_frames().get(self.thread.ident or 0)

    def _note_seq(self, call: Call, noted: dict[int, Call], number: int, writes: bool) -> None:
        """Note the first operation that was called after a node was made."""
        first = noted.setdefault(number, call)
        if writes and first.name == _CLONE and (first.code, first.at) == (call.code, call.at):
            noted[number] = call  # what it overwrites is saved by its node before, and has a node itself

    def _position(self, frame: FrameType) -> Position:
        """Where a frame is, or was when it made the call for which a model is being rerun."""
        if self.called_from is not None and frame is self.called_from[0]:
            return self.called_from[1]
        return position_of(frame)

    def _put_into_node(self, call: Call) -> None:
        """If the forward pass computes a gradient, attribute an operation to the node that called it."""
        node: Any = None if self._in_backward else torch._C._current_autograd_node()
        first = None if node is None else self.call_of(node)
        frame = self._frame_around(sys._getframe(2))
        if first is None or is_python(node) or frame_in_backward(frame) is not None:
            return  # operations that a user's function calls in backward have lines of their own
        call.name, call.is_backward, call.forward, call.applied = node.name(), True, first, None
        call.code, call.at, call.callers = first.code, first.at, first.callers
        call.modules = first.modules

    def _arguments(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Argument]:
        schema = func._schema.arguments
        given = [
            *zip(schema, args, strict=False),
            *((each, kwargs[each.name]) for each in schema if each.name in kwargs),
        ]
        written = {
            memory_of(value)
            for argument, value in given
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, Tensor)
        }
        for storage in written:
            self._preserve(storage)
        found: list[Argument] = []
        for argument, value in given:
            name = "input" if argument.name == "self" else argument.name
            if argument.is_out or (func is _COPY and name == "input"):
                continue  # what was in it goes nowhere
            if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
                found += [self._argument(f"{name}[{k}]", item, written) for k, item in enumerate(value)]
            else:
                found.append(self._argument(name, value, written))
        return found

    def _part(self, func: Any, args: Sequence[Any]) -> tuple[Part | None, Argument | None]:
        """The part of a tensor that an operation is about to write to, and that tensor with what made it so far."""
        view = args[0] if args and func._schema.is_mutable else None
        base = view._base if isinstance(view, Tensor) else None
        part = None if base is None else Part.written(view, base, base.shape)
        return part, None if part is None else self._argument("whole", base)

    def _argument(self, name: str, value: Any, written: Container[int] = ()) -> Argument:
        """An argument of an operation that is about to write to the storages ``written``."""
        if id(value) in self._numbers:
            value = self._numbers[id(value)][1]
        if not isinstance(value, Tensor):
            return Argument(name, value)
        original = None
        made = self._made.get(id(value))
        writer = self._writers.get(memory_of(value))
        if writer is not None and (made is None or made[0].order < writer.order):
            made = (writer, 0)
        leaf = value if _is_leaf(value) else None
        if written and memory_of(value) in written and value.numel() <= _COPIED:
            value, original = _copy(value), value
        if made is None:
            self._came_in(value if original is None else original)
            return Argument(name, value, leaf=leaf, original=original)
        return Argument(name, value, made[0], made[1], leaf=leaf, original=original)

    def _came_in(self, tensor: Tensor) -> None:
        """Note the program's name for non-finite data from outside."""
        if tensor.requires_grad or isinstance(tensor, torch.nn.Parameter):
            return  # frozen weights have their own names
        if any(tensor is each for _, each in self.named) or not is_bad(tensor):
            return
        place, shape = memory_of(tensor), tensor.shape

        def is_it(value: Any) -> bool:
            return isinstance(value, Tensor) and memory_of(value) == place and value.shape == shape

        name = name_of(sys._getframe(1), is_it)
        if name is not None:
            self.named.append((name, tensor))

    def _preserve(self, storage: int) -> None:
        """Copy the tensors of calls whose memory is about to be written to."""
        copies: dict[int, Tensor] = {}

        def kept(tensor: Tensor) -> Tensor:
            if memory_of(tensor) != storage or tensor.numel() > _COPIED:
                return tensor
            if id(tensor) not in copies:
                copies[id(tensor)] = _copy(tensor)
            return copies[id(tensor)]

        for call in self._holders.pop(storage, ()):
            for argument in call.args:
                tensor = argument.tensor
                if tensor is not None and (copy := kept(tensor)) is not tensor:
                    argument.value, argument.original = copy, tensor
            for number, output in enumerate(call.outputs):
                if output is not None and (copy := kept(output)) is not output:
                    call.outputs[number] = copy
                    call.overwritten.append(output)
                    self._hold(copy)

    def add(self, call: Call) -> None:
        """Add a call to the record. If that keeps too much alive, the oldest calls release their tensors, except those
        with bad results."""
        call.bad = any(map(is_bad, call.outputs))
        self.calls.append(call)
        for argument in call.args:
            if argument.tensor is not None:
                storage = memory_of(argument.tensor)
                self._holders.setdefault(storage, []).append(call)
                if argument.made_by is None:
                    self._bytes.setdefault(storage, 0)  # it is alive regardless of us
        for output in call.outputs:
            if output is not None:
                self._holders.setdefault(memory_of(output), []).append(call)
                self._hold(output)
        while (self._held > self._most_bytes or len(self.calls) > MOST_CALLS) and len(self.calls) > 1:
            oldest = self.calls.popleft()
            if oldest.bad:
                self._spared.append(oldest)
            else:
                self._let_go(oldest)

    def _hold(self, output: Tensor) -> None:
        """Count the memory of a result."""
        storage = memory_of(output)
        if storage not in self._bytes:
            self._bytes[storage] = _size(output)
            self._held += self._bytes[storage]

    def forget(self, before: int) -> None:
        """Forget all calls before a number; from now on their results count as data from outside."""
        old = [call for call in self._spared if call.order < before]
        self._spared = self._spared[len(old) :]
        while self.calls and self.calls[0].order < before:
            old.append(self.calls.popleft())
        for call in old:
            self._let_go(call)
            call.args = []  # which also releases the calls before it
        self.leaves = [
            (leaf, each) for leaf, each in self.leaves if each.made_by is not None and each.made_by.order >= before
        ]
        self._writers = {place: call for place, call in self._writers.items() if call.order >= before}
        for noted in (self._by_seq, self._by_seq_elsewhere):
            for seq in [seq for seq, call in noted.items() if call.order < before]:
                del noted[seq]
        holders = {place: [call for call in calls if call.kept] for place, calls in self._holders.items()}
        self._holders = {place: calls for place, calls in holders.items() if calls}
        self._bytes = {place: size for place, size in self._bytes.items() if size}
        self._numbers.clear()

    def _let_go(self, call: Call) -> None:
        outputs = [output for output in call.outputs if output is not None]
        for output in outputs:
            self._held -= self._bytes.pop(memory_of(output), 0)
        for output in (*outputs, *call.overwritten):
            if self._made.get(id(output), (None,))[0] is call:
                del self._made[id(output)]
        call.let_go()

    # --- backward -------------------------------------------------------------------------------------------------

    def call_of(self, node: Any) -> Call | None:
        """The first operation after a node was made: the one that made it, unless that is a user's Function.

        Within transforms, as of ``torch.func``, an operation makes a node for each of them before it is called.
        """
        seq = node._sequence_nr()
        noted = self._by_seq if place_of(node) is None else self._by_seq_elsewhere
        after = range(seq, seq + _MOST_LEVELS)
        if writes_to_part(node):  # it hides the node of the operation, which precedes it
            after = range(seq - 1, seq - _MOST_PARTS, -1)
        return next((noted[each] for each in after if each in noted), None)

    def next_order(self) -> int:
        return next(self._number)

    def made_by(self, tensor: Tensor) -> tuple[Call, int] | None:
        """The call that made a tensor in its present state."""
        argument = self._argument("", tensor)
        return None if argument.made_by is None else (argument.made_by, argument.output)

    def makers_of_bad(self, tensors: Sequence[Tensor]) -> list[tuple[Call, int]]:
        """The calls that made those tensors that are not finite."""
        return [made for each in tensors if is_bad(each) and (made := self.made_by(each)) is not None]

    def harmed_leaves(self) -> list[tuple[Call, int]]:
        """The calls that made the non-finite gradients that arrived at leaves."""
        return [
            (argument.made_by, argument.output)
            for _, argument in self.leaves
            if argument.made_by is not None and is_bad(argument.value)
        ]

    def begin_backward(self) -> None:
        self._in_backward += 1
        self.born_inside = None

    def end_backward(self) -> None:
        self._in_backward -= 1

    def _inside_backward(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operation that a node runs; the first birth in a user's hook or backward function is noted."""
        result = func(*args, **kwargs)
        if func is _DETACH and (made := self._made.get(id(args[0]))) is not None:
            self._made[id(result)] = made  # as in a checkpoint that recomputes its forward pass
            made[0].overwritten.append(result)
        if self.born_inside is None and isinstance(result, Tensor) and is_bad(result):
            flat = [each for each in args if isinstance(each, Tensor)]
            if not any(map(is_bad, flat)):
                frame = frame_in_backward(sys._getframe(1))
                if frame is not None:
                    self.born_inside = Call(
                        str(func),
                        self._arguments(func, args, kwargs),
                        [result],
                        next(self._number),
                        pointwise=torch.Tag.pointwise in func.tags,
                        code=frame.f_code,
                        at=frame.f_lasti,
                        variables=variables_at(frame),
                    )
        return result


@functools.cache
def _only_asks(func: Any) -> bool:
    """Whether an operation neither makes nor changes a tensor, such as a query for the size of a subclass.

    torch makes such queries while it determines whether a nested tensor is a leaf, and must not be asked that then.
    """
    schema = func._schema
    return not schema.is_mutable and not any("Tensor" in str(each.type) for each in schema.returns)


def _copy(tensor: Tensor) -> Tensor:
    """A copy of a tensor as it is now; the tensor itself if its class refuses to be copied."""
    try:
        return tensor.detach().clone()
    except (NotImplementedError, TypeError):
        return tensor


def _is_leaf(tensor: Tensor) -> bool:
    """Whether gradients are accumulated in a tensor."""
    try:
        return tensor.requires_grad and tensor.is_leaf
    except RuntimeError:  # torch does not tell for a view of a parameter, made without gradients, that was written to
        return False


_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _pause_all() -> None:
    """Suspend all recorders in a forked process, such as a loader's, whose copy of the record nobody would read."""
    for recorder in list(_recorders):
        recorder.paused = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pause_all)


def _size(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes() if tensor.layout is torch.strided else 0


def memory_of(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else id(tensor)
