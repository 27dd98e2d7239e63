"""The operations that lead to the loss, whose work in backward is kept until the gradients have been looked at.

Backward frees what they saved, and a loss function cannot be run again. They are few, and their tensors are small
compared to the model's activations, so that references to them cost little.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from torch import Tensor

from retrograd.anomaly.adapters.torch.records.backward import saved_arguments
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, bytes_of, is_bad, seq_of
from retrograd.anomaly.adapters.torch.records.graph import (
    SiteOf,
    body_of,
    calls_of,
    is_checkpoint,
    is_python,
    tensors_saved_by,
    with_numbers,
)
from retrograd.anomaly.adapters.torch.records.partial_writes import work_on_line, writes_to_part
from retrograd.anomaly.stack_frames import is_between

# Returns, for some nodes, a lookup from the sequence numbers of nodes behind them to the places of the calls.
SitesBehind = Callable[[Sequence[Any]], SiteOf]

_MOST_NODES = 64
_MOST_IN_MODEL = 16  # if it is not known where the model ends
_MOST_BYTES = 64 << 20  # of tensors that are kept for a tail


class Tail:
    """The last operations of one step, seen in backward.

    Parameters
    ----------
    roots
        The tensors from which backward starts.
    until
        The sequence numbers of the nodes of models' outputs: these nodes and those behind them no longer belong to
        the tail.
    site_of
        A lookup of where the operations were called, if it is final; otherwise it is requested when they are read.

    Attributes
    ----------
    roots
        The same.
    """

    def __init__(self, roots: Sequence[Tensor], until: set[float], site_of: SiteOf | None = None) -> None:
        self._site_of = site_of
        self.roots = list(roots)  # kept, as up to torch 2.12 the node of a user's Function goes with their graph
        self._known = {(root.grad_fn, root.output_nr): root.detach() for root in roots}
        self._saved: dict[Any, dict[str, Any]] = {}
        self._work: list[tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = []  # in backward, in the order of execution
        self._bytes = 0
        self._handles: list[Any] = []
        most = _MOST_NODES if until else _MOST_IN_MODEL
        queue = deque(root.grad_fn for root in roots if root.grad_fn is not None)
        while queue and len(self._saved) < most:
            node = queue.popleft()
            if node in self._saved or self._is_outside(node, until):
                continue
            saved = tensors_saved_by(node, unpacked=False)
            if not self._affords(saved.values()):
                break
            self._saved[node] = saved
            has_saved = any(isinstance(each, Tensor) for each in saved.values())
            if has_saved or is_python(node) or writes_to_part(node):  # others are linear
                self._handles.append(node.register_hook(self._at(node)))
            queue += [following for following, _ in node.next_functions if following is not None]
        # Of those just before, only the operation and its result are known, if the next one saved that.
        self._saved |= {node: {} for node in queue if node not in self._saved and not self._is_outside(node, until)}

    @staticmethod
    def _is_outside(node: Any, until: set[float]) -> bool:
        return hasattr(node, "variable") or seq_of(node) in until

    def _affords(self, values: Any) -> bool:
        for each in values:
            if isinstance(each, Tensor):
                self._bytes += bytes_of(each)
        return self._bytes <= _MOST_BYTES

    def _at(self, node: Any) -> Any:
        def hook(made: tuple[Any, ...], arrived: tuple[Any, ...]) -> None:
            if self._affords(made):
                self._work.append((node, made, arrived))

        return hook

    def backward_ended(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def losses(self, sites_behind: SitesBehind, frame: FrameType | None) -> list[tuple[Call, int]]:
        """The calls that made non-finite losses; ``frame`` is as for :meth:`births`."""
        calls = self._calls(sites_behind, frame)
        return [(calls[node], output) for (node, output), loss in self._known.items() if node in calls and is_bad(loss)]

    def births(self, sites_behind: SitesBehind, frame: FrameType | None) -> Iterator[list[tuple[Call, int]]]:
        """The work of operations whose incoming gradients were finite and outgoing ones were not, the first one first.

        ``frame`` is where to begin to look for variables.
        """
        for node, made, arrived in self._work:
            if any(map(is_bad, made)) and not any(map(is_bad, arrived)) and self._goes_on(node, made):
                forward = self._calls(sites_behind, frame)[node]
                work = work_on_line(node, forward, made, arrived, frame) if writes_to_part(node) else None
                call = work or self._call(node, forward, made, arrived)
                yield [(call, number) for number, each in enumerate(call.outputs) if is_bad(each)]

    def _goes_on(self, node: Any, made: Sequence[Any]) -> bool:
        """Whether bad gradients have come from a node to a leaf, or out of the part that was observed."""
        passed_on = {each: passed for each, passed, _ in self._work}
        queue = [each for (each, _), grad in zip(node.next_functions, made, strict=False) if is_bad(grad)]
        for each in queue:
            if each not in self._saved:
                return True
            passed = passed_on.get(each)  # None for a linear operation
            for nr, (following, _) in enumerate(each.next_functions):
                if following is not None and (passed is None or is_bad(passed[nr])):
                    queue.append(following)
        return False

    def _calls(self, sites_behind: SitesBehind, frame: FrameType | None) -> dict[Any, Call]:
        nodes = {node: with_numbers(node, self._saved[node]) for node in sorted(self._saved, key=seq_of)}
        site_of = self._site_of or sites_behind([root.grad_fn for root in self.roots])
        return calls_of(nodes, self._known, site_of, frame)

    def _call(self, node: Any, forward: Call, made: tuple[Any, ...], arrived: tuple[Any, ...]) -> Call:
        grads = [Argument("grad", each) for each in arrived if each is not None]
        code, at, callers = forward.code, forward.at, forward.callers
        applied = body_of(node, "backward") if is_python(node) else None
        is_noted = code is not None and (applied is None or (code, at) != body_of(node, "forward"))
        if not is_noted and applied is not None and not is_between(applied[0]):  # as a checkpoint's is
            (code, at), callers = applied, ()
        return Call(
            node.name(),
            grads + saved_arguments(with_numbers(node, self._saved[node]), forward),
            list(made),
            forward.order + 1,
            pointwise=forward.pointwise,
            forward=None if is_python(node) else forward,
            code=code,
            at=at,
            callers=callers,
            applied=applied,
            is_backward=True,
            thread=forward.thread,
            node=node if is_checkpoint(node) else None,
        )
