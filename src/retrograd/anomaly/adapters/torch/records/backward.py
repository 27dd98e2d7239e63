"""Recording the work of the nodes in one backward pass."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, is_bad
from retrograd.anomaly.adapters.torch.records.graph import is_checkpoint, is_python, saved_by, spent
from retrograd.anomaly.adapters.torch.records.partial_writes import Part, node_within, writes_to_part
from retrograd.anomaly.adapters.torch.records.recording import Recorder
from retrograd.anomaly.adapters.torch.runtime.modes import unseen


def _unrecorded(hook: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(hook)
    def quiet(*args: Any) -> None:
        with unseen():
            hook(*args)

    return quiet


def harmed_by_backward(
    recorder: Recorder, roots: Sequence[Tensor], gradients: Any = None, inputs: Any = None
) -> list[tuple[Call, int]]:
    """Run backward with everything recorded, and return what made the bad gradients of leaves."""
    with recorder, Backward(recorder, roots):
        torch.autograd.backward(roots, gradients, inputs=inputs)
    return recorder.harmed_leaves()


class Backward:
    """One backward pass, observed by hooks on all its nodes, which are removed at its end.

    A context manager, within which the work of every node is recorded.

    Parameters
    ----------
    recorder
        The recorder that stores it.
    roots
        The tensors from which the pass starts.
    """

    def __init__(self, recorder: Recorder, roots: Iterable[Tensor]) -> None:
        self._recorder = recorder
        self._nodes: list[Any] = []
        self._handles: list[Any] = []
        self._arriving: dict[tuple[Any, int], list[tuple[Call, int]]] = {}
        seen = {root.grad_fn for root in roots if root.grad_fn is not None}
        stack: list[Any] = list(seen)
        while stack:
            node = stack.pop()
            self._nodes.append(node)
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    stack.append(following)

    def __enter__(self) -> Backward:
        for number, node in enumerate(self._nodes):
            if hasattr(node, "variable"):
                self._handles.append(node.register_prehook(self._at_leaf(number)))
            else:
                self._handles.append(node.register_hook(self._at_node(number)))
        self._recorder.begin_backward()
        return self

    def __exit__(self, *exc: object) -> None:
        self._recorder.end_backward()
        for handle in self._handles:  # the hooks hold this object, which holds the nodes
            handle.remove()
        self._nodes, self._handles, self._arriving = [], [], {}
        if self._recorder.is_over:
            self._recorder.end()

    def _at_leaf(self, number: int) -> Any:
        @_unrecorded
        def hook(grads: Any) -> None:
            node = self._nodes[number]
            if grads and grads[0] is not None:
                argument = self._arrived(node, 0, grads[0])
                self._recorder.leaves.append((node.variable, argument))

        return hook

    def _at_node(self, number: int) -> Any:
        @_unrecorded
        def hook(made: Any, arrived: Any) -> None:
            node = self._nodes[number]
            first = self._recorder.call_of(node)
            forward = None if is_python(node) else first
            args = [self._arrived(node, nr, grad) for nr, grad in enumerate(arrived) if grad is not None]
            inside = self._on_part(node, first, made, args) if writes_to_part(node) else None
            if inside is not None:
                args.append(Argument("part", inside.outputs[0], inside, 0))
            call = Call(
                node.name(),
                args + saved_arguments(saved_by(node), forward) + _read_no_more(node, forward),
                list(made),
                self._recorder.next_order(),
                pointwise=forward is not None and forward.pointwise,
                forward=forward,
                is_backward=True,
                thread=self._recorder.thread.name,
                inside=self._recorder.born_inside if is_python(node) else None,
                node=node if is_checkpoint(node) else None,
            )
            _place(call, first, node)
            self._recorder.born_inside = None
            self._recorder.add(call)
            for nr, (following, place) in enumerate(node.next_functions):
                if following is not None and nr < len(made) and made[nr] is not None:
                    maker = call if nr == 0 or inside is None else inside
                    self._arriving.setdefault((following, place), []).append((maker, nr))

        return hook

    def _on_part(self, node: Any, write: Call | None, made: Sequence[Any], arrived: list[Argument]) -> Call | None:
        """The work of the node hidden in that of a tensor to a part of which an operation has written."""
        view = write.args[0].itself if write is not None and write.args else None
        part = None if view is None else Part.written(view, view._base, node._input_metadata[0].shape)
        hidden = None if write is None or part is None else node_within(write)
        if write is None or part is None or hidden is None or not arrived:
            return None
        grad = replace(arrived[0], value=part.of(arrived[0].tensor))
        call = Call(
            hidden.name(),
            [grad, *saved_arguments(saved_by(hidden), write)],
            [part.of(made[0]), *made[1:]],
            self._recorder.next_order(),
            pointwise=write.pointwise,
            forward=write,
            is_backward=True,
            thread=self._recorder.thread.name,
        )
        _place(call, write, node)
        self._recorder.add(call)
        return call

    def _arrived(self, node: Any, nr: int, grad: Tensor) -> Argument:
        """A gradient that arrived at a node, and its origin: one node, or the sum over several."""
        sources = self._arriving.pop((node, nr), [])
        parts = [Argument("grad", call.outputs[output], call, output) for call, output in sources]
        wrong = is_bad(grad)
        if not parts or (len(parts) == 1 and (not wrong or is_bad(parts[0].value))):
            return Argument("grad", grad, *(sources[0] if sources else (None, 0)))
        name = "accumulate_grad" if len(parts) > 1 else "gradient_hook"
        total = Call(name, parts, [grad], self._recorder.next_order(), pointwise=True, is_backward=True)
        _place(total, self._recorder.call_of(node), node)
        inside = self._recorder.born_inside
        if name == "gradient_hook" and inside is not None:
            total.inside, total.code, total.at, total.callers = inside, inside.code, inside.at, inside.callers
        self._recorder.add(total)
        return Argument("grad", grad, total, 0)


def _place(call: Call, first: Call | None, node: Any) -> None:
    """Give a node's work the place of the first operation after the node was made."""
    if first is None:
        return
    call.modules = first.modules
    call.code, call.at, call.callers = first.code, first.at, first.callers
    if is_python(node) and first.applied is not None:
        (call.code, call.at), call.callers = first.applied, ()


def _read_no_more(node: Any, forward: Call | None) -> list[Argument]:
    """The values a node used that cannot be read from it twice, as under a checkpoint, if its call knows them."""
    names = {"input" if name == "self" else name for name in spent(node)}
    return [] if forward is None else [replace(each) for each in forward.args if each.name in names]


def saved_arguments(saved: Mapping[str, Any], forward: Call | None) -> list[Argument]:
    """The values a node saved from the forward pass, by name, with the calls that made them."""
    found = []
    for name, value in saved.items():
        name = "input" if name == "self" else name
        if not isinstance(value, Tensor):
            continue
        same = None if forward is None else next((each for each in forward.args if each.name == name), None)
        if same is not None:
            found.append(Argument(name, value, same.made_by, same.output, same.leaf))
        elif forward is not None and name.startswith(("result", "output")):
            found.append(Argument(name, value, forward, 0))
        else:
            found.append(Argument(name, value))
    return found
