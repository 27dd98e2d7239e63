"""A checkpointed call whose saved tensors are computed again when backward asks for them.

While the function runs, every tensor saved for backward is replaced by an empty :class:`Slot`, in order. When backward
wants the first of them, the function runs again, and what it saves this time, in the same order, belongs to the slots.
Nested calls need nothing more: the arguments of an inner call are saved tensors of the outer one.
"""

from __future__ import annotations

import contextlib
import linecache
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from retrograd.autograd.grad_mode import enable_grad
from retrograd.autograd.graph.hooks import saved_tensors_hooks
from retrograd.batching import BatchedArray, Level
from retrograd.core import state
from retrograd.core.observer import Observer, pop, push
from retrograd.core.saved import restore, save_tensor
from retrograd.core.sites import user_frame
from retrograd.core.tensor import Tensor, wrap
from retrograd.random import fork_rng, get_rng_state, set_rng_state
from retrograd.vectorize import mapping_again

Facts = Callable[[Tensor], Any]


class CheckpointError(RuntimeError):
    """The recomputation of a checkpointed call did not save what the call itself had saved."""


class GraphExecGroup:
    """Inside this block, several backwards recompute each checkpointed call at most once, all together.

    They must need different saved tensors: what one of them has used is gone for the others, even with
    ``retain_graph=True``. Concerns ``use_reentrant=False`` only.

    Raises
    ------
    RuntimeError
        If blocks are nested.
    """

    def __enter__(self) -> GraphExecGroup:
        if _group.get() is not None:
            raise RuntimeError(f"GraphExecGroup contexts cannot be nested. Already inside group {_group.get()}")
        _group.set(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _group.set(None)


_group: ContextVar[GraphExecGroup | None] = ContextVar("_group", default=None)


class Slot:
    """The place of a saved tensor that will be recomputed. Only the graph holds it."""

    __slots__ = ("__weakref__",)


class _Access:
    """Stands for an access to a saved tensor outside of any backward."""


class _Enough(BaseException):
    """Everything that is needed has been recomputed. (Not an error, and not to be caught by the function.)"""


def _levels_since(start: int, tensor: Tensor) -> list[Level]:
    """The calls of vmap that a tensor has samples of, without those that began before level number ``start``."""
    data = tensor._data
    return [level for level in data.levels if level.number > start] if type(data) is BatchedArray else []


class _Run:
    """One recomputation: what was saved so far, by slot, with its version then."""

    def __init__(self) -> None:
        self.count = 0
        self.start = Level(0).number
        self.checked = True
        self.values: weakref.WeakKeyDictionary[Slot, tuple[Tensor, int]] = weakref.WeakKeyDictionary()


class Region:
    """One checkpointed call.

    Parameters
    ----------
    function, args, kwargs
        The call.
    contexts
        Context managers for the call and for its recomputation.
    preserve_rng_state
        Whether recomputation draws the same random numbers.
    facts
        What is compared between a tensor saved in the call and in the recomputation.
    early_stop
        Whether recomputation ends with the last tensor saved.
    debug
        Whether to keep a list of the operations, for error messages.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        contexts: tuple[AbstractContextManager[Any], AbstractContextManager[Any]],
        preserve_rng_state: bool,
        facts: Facts,
        early_stop: bool,
        debug: bool,
    ) -> None:
        self.function = function
        self.kwargs = kwargs
        self.forward_context, self.again_context = contexts
        self.vmaps = state.local.vmaps
        self.rng_state = get_rng_state() if preserve_rng_state else None
        self.facts = facts
        self.early_stop = early_stop
        self.logs = (OperationLog(), OperationLog()) if debug else None
        # kept as an operation keeps its inputs: checked for writes, and by an outer checkpoint's hooks if there is one
        self.inputs = [
            (arg, None, False) if not isinstance(arg, Tensor) else (save_tensor(arg), arg._resolve_edge(), True)
            for arg in args
        ]
        self.slots: list[weakref.ref[Slot]] = []
        self.saved_facts: list[Any] = []
        self.start = Level(0).number
        self.saved_levels: list[list[Level]] = []  # levels of the calls of vmap in the function
        self.complete = False
        self.runs: weakref.WeakKeyDictionary[Any, _Run] = weakref.WeakKeyDictionary()

    def call(self, args: tuple[Any, ...]) -> Any:
        """Call the function for the first time."""
        with saved_tensors_hooks(self._reserve, self._fetch), self.forward_context, self._logged(0):
            outputs = self.function(*args, **self.kwargs)
            self.complete = True
        if not self.complete:
            raise RuntimeError(
                "the forward context provided by context_fn suppressed an exception raised in the checkpointed "
                "function. Let it propagate: a failed call has no result to return."
            )
        return outputs

    def _logged(self, which: int) -> AbstractContextManager[Any]:
        return contextlib.nullcontext() if self.logs is None else self.logs[which]

    def _reserve(self, tensor: Tensor) -> Slot:
        slot = Slot()
        self.slots.append(weakref.ref(slot))
        self.saved_facts.append(self.facts(tensor))
        self.saved_levels.append(_levels_since(self.start, tensor))
        return slot

    def _fetch(self, slot: Slot) -> Tensor:
        key = _group.get() or state.local.graph_task or _Access()
        run = self.runs.get(key)
        if run is None:
            run = self.runs[key] = _Run()
            try:
                self._recompute(run)
            except CheckpointError as error:
                del self.runs[key]
                raise CheckpointError(f"{error}\n{self._explanation()}") from None
            except BaseException:
                del self.runs[key]
                raise
        entry = run.values.pop(slot, None)
        if entry is None:
            raise CheckpointError(
                "retrograd.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If "
                "you use ctx.saved_tensors in backward, do so only once and keep the result; inside a GraphExecGroup, "
                "no two backwards may need the same saved tensor."
            )
        tensor, version = entry
        if tensor._version != version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{tensor.dtype} {list(tensor.shape)}], saved in a checkpointed function, is at version "
                f"{tensor._version}; expected version {version} instead. Write out of place in that function."
            )
        return tensor

    def _recompute(self, run: _Run) -> None:
        """Call the function again, and give what it saves to the slots."""

        def pack(tensor: Tensor) -> Tensor:
            return self._fill(run, tensor)

        args = [
            restore(value, "checkpoint", f"args[{position}]", edge) if is_tensor else value
            for position, (value, edge, is_tensor) in enumerate(self.inputs)
        ]
        with (
            contextlib.suppress(_Enough),
            saved_tensors_hooks(pack, lambda tensor: tensor),
            enable_grad(),
            fork_rng(enabled=self.rng_state is not None),
            mapping_again(self.vmaps),  # or random numbers would be the same for all samples
        ):
            if self.rng_state is not None:
                set_rng_state(self.rng_state)
            with self.again_context, self._logged(1):
                self.function(*args, **self.kwargs)
        if run.checked:
            self._check(run)

    def _fill(self, run: _Run, tensor: Tensor) -> Tensor:
        position = run.count
        run.count += 1
        if tensor.requires_grad:
            tensor = tensor.detach()
        if position >= len(self.slots):
            if self.complete:
                raise CheckpointError(
                    "retrograd.utils.checkpoint: trying to save more tensors during recomputation than during the "
                    f"original forward pass, which saved {len(self.slots)}."
                )
            run.checked = False  # a backward inside the function, which has not saved everything yet
            return tensor
        slot = self.slots[position]()
        if slot is not None:  # a backward inside the function may have freed it
            run.values[slot] = self._as_first(run, tensor, position), tensor._version
        if self.early_stop and run.count == len(self.slots):
            raise _Enough
        return tensor

    def _as_first(self, run: _Run, tensor: Tensor, position: int) -> Tensor:
        """A recomputed tensor as the graph expects it: with the first call's levels for the vmaps in the function."""
        first = dict(zip(_levels_since(run.start, tensor), self.saved_levels[position], strict=False))
        data: Any = tensor._data
        if not first:
            return tensor
        levels = tuple([first.get(level, level) for level in data.levels])
        return wrap(BatchedArray(data.array, levels), None, tensor._cell)

    def _check(self, run: _Run) -> None:
        """Raise if the recomputation saved other tensors than the call."""
        if run.count != len(self.slots):
            raise CheckpointError(
                "retrograd.utils.checkpoint: A different number of tensors was saved during the original forward and "
                "recomputation.\n"
                f"Number of tensors saved during forward: {len(self.slots)}\n"
                f"Number of tensors saved during recomputation: {run.count}."
            )
        different = []
        for position, (ref, expected) in enumerate(zip(self.slots, self.saved_facts, strict=True)):
            slot = ref()
            if slot is not None:
                found = self.facts(run.values[slot][0])
                if found != expected:
                    different.append(
                        f"tensor at position {position}:\nsaved metadata: {expected}\nrecomputed metadata: {found}"
                    )
        if different:
            raise CheckpointError(
                "retrograd.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                "during the forward pass.\n" + "\n".join(different)
            )

    def _explanation(self) -> str:
        if self.logs is None:
            return (
                "The function behaved differently when it was called again: does it depend on a global, a counter, or "
                "a random number from elsewhere? To see where the two calls diverge, pass debug=True to checkpoint, or "
                "run it inside `with retrograd.utils.checkpoint.set_checkpoint_debug_enabled(True):`."
            )
        return compare(self.logs[0].lines, self.logs[1].lines)


class OperationLog(Observer):
    """Inside this block, a list of this thread's operations: name, shapes of the tensors, and the user's line."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __enter__(self) -> None:
        self.lines.clear()
        push(self)

    def __exit__(self, *exc: object) -> None:
        pop(self)

    def forward_begin(self, name: str, bound: Sequence[Any]) -> None:
        shapes = ", ".join(str(list(arg.shape)) for arg in bound if isinstance(arg, Tensor))
        frame = user_frame(sys._getframe(1))
        place = ""
        if frame is not None:
            filename, line = frame.f_code.co_filename, frame.f_lineno
            place = f"{filename}:{line}: {linecache.getline(filename, line).strip()}"
        self.lines.append((f"{name}({shapes})", place))


def compare(forward: list[tuple[str, str]], again: list[tuple[str, str]]) -> str:
    """Say where two lists of operations diverge, with a few operations before and after."""
    same = next(
        (k for k, (one, other) in enumerate(zip(forward, again, strict=False)) if one != other),
        min(len(forward), len(again)),
    )
    if same < len(again):
        where = f"The two calls diverge at operation {same}."
    else:
        where = f"The recomputation ended after {_count(same)}, all as in the forward pass."

    def excerpt(title: str, lines: list[tuple[str, str]]) -> list[str]:
        first, last = max(same - 3, 0), same + 5
        shown = [f"{title}, {_count(len(lines))}:"]
        if first:
            shown.append(f"     ... {first} before")
        for number, (call, place) in enumerate(lines[first:last], first):
            shown.append(f"{'  >' if number == same else '   '} {number:3}  {call:32} {place}".rstrip())
        if len(lines) > last:
            shown.append(f"     ... {len(lines) - last} more")
        return shown

    return "\n".join([where, *excerpt("Forward pass", forward), *excerpt("Recomputation", again)])


def _count(operations: int) -> str:
    return f"{operations} operation{'' if operations == 1 else 's'}"
