"""Nodes of the graph: what was done, to what, and how a gradient passes back through it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core import state
from retrograd.core.blocks import LARGE, run_blocked
from retrograd.core.finite_checks import show_sum
from retrograd.core.hooks import Hooks, RemovableHandle
from retrograd.core.saved import Packed, SavedList, SavedTensor, Versioned, as_given, as_variable, saved_value
from retrograd.core.sites import caller_of, note
from retrograd.core.state import local, next_sequence_nr
from retrograd.core.tensor import Edge, Tensor, bump, leaf_lock, set_accumulator, wrap

if TYPE_CHECKING:
    from retrograd.core.op import Op

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward. In a loop, compute everything that the loss depends on anew in every step, and take what "
    "is carried over from the step before with detach()."
)

# kinds of saved entries that are neither tensors nor lists of them
_AS_IT_IS = frozenset((np.ndarray, int, float, bool, str, type(None)))

# AccumulateGrad runs as soon as it can, so it sorts behind every recorded operation; of several, the oldest runs first
_LAST = 1 << 62


class Extras:
    """What few nodes have: hooks and metadata."""

    __slots__ = ("metadata", "posthooks", "prehooks", "retained", "tensor_hooks")

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, Hooks] = {}  # by output
        self.retained: dict[int, weakref.ref[Tensor]] = {}  # by output; whose .grad to fill
        self.prehooks: Hooks = Hooks()
        self.posthooks: Hooks = Hooks()
        self.metadata: dict[Any, Any] = {}

    def tensor_hooks_of(self, output_nr: int) -> Hooks:
        return self.tensor_hooks.setdefault(output_nr, Hooks())


class Node:
    """A step of the recorded computation.

    Attributes
    ----------
    next : tuple of (Node, int) or None
        For every differentiable input, the node that computed it and which of its outputs it was.
    shape, dtype
        Of the output (of every output, in a list, where ``outputs`` is not 1): gradients that arrive are made to fit.
    seq : int
        Position in the order of creation.
    code, at
        Where in the user's program, if that was noted; see :mod:`retrograd.core.sites`.
    """

    __slots__ = ("__weakref__", "at", "code", "dtype", "extras", "next", "seq", "shape")

    outputs = 1
    releases = False  # whether backward frees anything here
    is_leaf = False  # whether it is an AccumulateGrad
    plain = False  # whether it is an operation with one output, whose rules the engine may run directly
    blocked = False  # whether its rules are elementwise, so that large gradients are worked on in blocks
    large = LARGE  # from how many elements on a gradient is large
    aside = False  # whether large gradients take the general path: for blocks, or so that a monitor can look at them
    takes_undefined = False  # whether it runs even if no gradient arrived

    next: tuple[Edge | None, ...]
    shape: Any
    dtype: Any
    seq: int
    extras: Extras | None
    code: CodeType
    at: Any

    def __init__(self, next: tuple[Edge | None, ...], shape: Any, dtype: Any) -> None:
        self.next = next
        self.shape = shape
        self.dtype = dtype
        self.seq = next_sequence_nr()
        self.extras = None
        if state.monitor is not None or local.anomaly is not None:
            note(self, caller_of(1))

    def backward(self, g: Any, edges: tuple[Edge | None, ...]) -> Any:
        """Gradients of the inputs from raw gradients of the outputs; None where the edge is None."""
        raise NotImplementedError

    def backward_recorded(self, g: Any, edges: tuple[Edge | None, ...]) -> Any:
        """The same on Tensors with recording on, for ``create_graph=True``."""
        raise NotImplementedError

    def release(self) -> None:
        """Free what was saved for backward."""

    def shape_and_dtype(self, nr: int) -> tuple[tuple[int, ...], np.dtype]:
        """The shape and dtype of output ``nr``."""
        return (self.shape, self.dtype) if self.outputs == 1 else (self.shape[nr], self.dtype[nr])

    def each(self, g: Any) -> list[Any]:
        """The gradients that have arrived, as a list with one entry per output; None where there is none."""
        return [g] if self.outputs == 1 else [None] * self.outputs if g is None else g

    # --- torch's interface ----------------------------------------------------------------------------------------

    def __call__(self, *grads: Tensor | None) -> Any:
        """Return the gradients of the inputs from those of the outputs: one, or a tuple.

        Only this node runs, without hooks, and keeps what it saved. With recording on, the result has a history.
        """
        from retrograd.core.engine import evaluate

        return evaluate(self, grads)

    def name(self) -> str:
        """Return the name of the node, for example ``MulBackward0``."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For every differentiable input, the node behind it and which of its outputs it was."""
        return tuple((None, 0) if edge is None else edge for edge in self.next)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes."""
        return self.own_extras().metadata

    def _sequence_nr(self) -> int:
        return self.seq

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after this node ran; what it returns replaces ``grad_inputs``."""
        return self.own_extras().posthooks.register(hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before this node runs; what it returns replaces ``grad_outputs``."""
        return self.own_extras().prehooks.register(hook)

    def own_extras(self) -> Extras:
        """Hooks and the like; made when first asked for."""
        extras = self.extras
        if extras is None:
            extras = self.extras = Extras()
        return extras

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class OpNode(Node):
    """A recorded operation; every operation has a subclass of its own that names it.

    Attributes
    ----------
    saved : tuple or None
        One entry for each of the operation's slots; None after release. A tensor argument is kept as
        :func:`save_tensor` says, a result as :func:`save_result` does, anything else as it is.
    """

    __slots__ = ("saved",)

    plain = True

    op: Op
    rules: tuple[tuple[Callable[..., Any], tuple[int, ...]], ...]
    result_slots: tuple[int, ...]  # those that keep a result
    saved: tuple[Any, ...] | None

    def backward(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        if self.saved is None:
            raise RuntimeError(FREED)
        large = self.blocked and g.size >= self.large
        value = self.value if self.extras is None else cache(self.value)
        return [
            None
            if edge is None
            else run_blocked(rule, g, *map(value, slots))
            if large and slots
            else rule(g, *map(value, slots))
            for (rule, slots), edge in zip(self.rules, edges, strict=True)
        ]

    def backward_recorded(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        if self.saved is None:
            raise RuntimeError(FREED)
        variable = self.variable if self.extras is None else cache(self.variable)
        return [
            None if edge is None else rule(g, *map(variable, slots))
            for (rule, slots), edge in zip(self.rules, edges, strict=True)
        ]

    def value(self, slot: int) -> Any:
        """What was saved in ``slot``, as an array or plain value, if nobody wrote to it since."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        entry = saved[slot]
        # the usual kinds of entries, in order; saved_value knows all
        kind = type(entry)
        if kind is Tensor:
            if entry._cell is None:
                return entry._data
        elif kind is Versioned:
            if entry[0]._cell[0] == entry[1]:
                return entry[0]._data
        elif kind in _AS_IT_IS:
            return entry
        elif kind is tuple:
            if slot not in self.result_slots:
                return entry  # a shape
            if entry[1][0] == entry[2]:
                return entry[0]
        return saved_value(entry, self, slot)

    def values(self, slots: tuple[int, ...]) -> list[Any]:
        """What was saved in several slots, for a rule that wants them together."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        found = []
        for slot in slots:
            entry = saved[slot]
            kind = type(entry)
            if kind is Tensor and entry._cell is None:
                found.append(entry._data)
            else:
                found.append(entry if kind in _AS_IT_IS else self.value(slot))
        return found

    def variable(self, slot: int) -> Any:
        """What was saved in ``slot``, as a Tensor in its old place in the graph; plain values as they are."""
        if self.saved is None:
            raise RuntimeError(FREED)
        entry = self.saved[slot]
        name = self.op.slots[slot]
        if name in self.op.byproducts:
            return None  # a byproduct has no history: the rule computes it again, from tensors that have one
        value = self.value(slot)
        if name == "result":
            return self._result_variable(entry, value)
        if name in self.op.results:
            return self._own_result(self.op.results.index(name) - 1, entry, value)
        position = self.op.edge_of(name)
        if position is None:
            return value
        if type(entry) is SavedList:
            return [
                as_variable(item, array, self.next[position + k])
                for k, (item, array) in enumerate(zip(entry, value, strict=True))
            ]
        return as_variable(entry, value, self.next[position])

    def _result_variable(self, entry: Any, value: Any) -> Any:
        return self._own_result(0, entry, value)

    def _own_result(self, nr: int, entry: Any, value: Any) -> Tensor:
        """A saved result, as a new tensor in the old place in the graph, with the tangent it had."""
        edge = (self, nr) if value.dtype.kind in "fc" else None
        result = wrap(value, edge, entry.cell if type(entry) is Packed else entry[1])
        if local.tangents is not None:
            local.tangents.restore(self, nr, result)
        return result

    def release(self) -> None:
        if self.releases:
            self.saved = None

    def raw_entry(self, slot: int) -> Any:
        if self.saved is None:
            raise RuntimeError(f"Calling register_hooks on a saved tensor after it has been freed. {FREED}")
        return self.saved[slot] if slot < len(self.saved) else None

    def raw_value(self, slot: int, entry: Any) -> Any:
        return saved_value(entry, self, slot)

    def keep_packed(self, slot: int, packed: Packed) -> None:
        self.saved = (*self.saved[:slot], packed, *self.saved[slot + 1 :])  # type: ignore[index]
        self.own_extras()  # see record.new_node


def raw_saved_property(slot: int) -> property:
    """``node._raw_saved_result`` and the like."""
    return property(lambda node: SavedTensor.of(node, slot))


def saved_property(slot: int) -> property:
    """``node._saved_result`` and the like, as torch's nodes have them.

    Properties, one per slot and operation: a ``__getattr__`` would slow down every other attribute of the node.
    """
    return property(lambda node: _shown(node, slot) if node.saved is None or slot < len(node.saved) else None)


def _shown(node: OpNode, slot: int) -> Any:
    """What was saved in ``slot``; rules get indices and masks as arrays, users get the tensors that they passed."""
    value = node.variable(slot)
    entry = node.saved[slot]  # type: ignore[index]  # it is not freed
    if type(entry) is SavedList:
        return [as_given(item, each) for item, each in zip(entry, value, strict=True)]
    return as_given(entry, value)


class MultiOpNode(OpNode):
    """A recorded operation with several outputs; ``g`` is the list of their gradients, without gaps."""

    __slots__ = ("outputs",)

    plain = False
    outputs: int

    def backward(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        return super().backward([g] if self.outputs == 1 else g, edges)

    def backward_recorded(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        return super().backward_recorded([g] if self.outputs == 1 else g, edges)

    def _result_variable(self, entry: Any, value: Any) -> Any:
        return [self._own_result(nr, item, array) for nr, (item, array) in enumerate(zip(entry, value, strict=True))]


class SequenceOpNode(OpNode):
    """A recorded operation whose first rule answers for a list of tensors, such as ``cat``."""

    __slots__ = ()

    plain = False

    def backward(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        if self.saved is None:
            raise RuntimeError(FREED)
        return self._spread(g, edges, self.value if self.extras is None else cache(self.value))

    def backward_recorded(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        if self.saved is None:
            raise RuntimeError(FREED)
        return self._spread(g, edges, self.variable if self.extras is None else cache(self.variable))

    def _spread(self, g: Any, edges: tuple[Edge | None, ...], value: Callable[[int], Any]) -> list[Any]:
        (rule, slots), *others = self.rules
        length = len(edges) - len(others)
        if any(edge is not None for edge in edges[:length]):
            grads = list(rule(g, *[value(slot) for slot in slots]))
        else:
            grads = [None] * length
        for (other, other_slots), edge in zip(others, edges[length:], strict=True):
            grads.append(None if edge is None else other(g, *[value(slot) for slot in other_slots]))
        return grads


class MultiSequenceOpNode(MultiOpNode, SequenceOpNode):
    """A recorded operation with several outputs whose first rule answers for a list of tensors, such as ``lstm``."""

    __slots__ = ()


class AccumulateGrad(Node):
    """Where a gradient reaches a leaf and is added to its ``.grad``."""

    __slots__ = ("variable",)

    is_leaf = True

    def __init__(self, variable: Tensor) -> None:
        # one for every parameter and step: Node.__init__, written out
        data = variable._data
        self.next = ()
        self.shape = data.shape
        self.dtype = data.dtype
        self.seq = _LAST - next_sequence_nr()
        self.extras = None
        self.variable = variable

    def _sequence_nr(self) -> int:
        return 2**64 - 1

    def accumulate(self, g: Any, owned: bool) -> None:
        """Add a raw gradient to the leaf's; take it over as it is if it is ``owned`` by nobody else.

        A new gradient has the memory layout of its leaf, or index order if the leaf has gaps; see
        :class:`retrograd.autograd.enforce_grad_layout_policy`.
        """
        variable = self.variable
        if not variable._meta.requires_grad:  # type: ignore[union-attr]
            return  # it has been frozen since
        if local.reached is not None:
            local.reached.append(variable)
        with leaf_lock:
            grad = variable._grad
            if grad is None:
                if type(g) is not np.ndarray and isinstance(g, np.generic):  # a 0-d array that went through a ufunc
                    g = np.array(g)
                elif not owned or (local.grad_layout and g.strides != variable._data.strides):
                    g = _copy_laid_out_as(variable._data, g)
                variable._grad = wrap(g)
            else:
                if local.before_write is not None:
                    local.before_write(grad)
                looks = state.monitor is not None and state.monitor.looks
                before = grad._data.copy() if looks else None
                try:
                    if type(g) is not np.ndarray or g.size < LARGE:
                        grad._data += g
                    else:
                        run_blocked(np.add, grad._data, g, out=grad._data)
                except ValueError:
                    if grad._data.shape != g.shape:
                        raise RuntimeError(
                            f"a gradient of shape {list(g.shape)} arrived at a leaf of shape {list(variable.shape)} "
                            f"whose .grad has shape {list(grad.shape)}; set .grad to None when you change the leaf's "
                            "shape"
                        ) from None
                    from retrograd.core.in_place import check_writable

                    check_writable(grad, "adding to .grad")
                    grad._data += g
                bump(grad)
                if looks:
                    show_sum(self, before, g, grad._data)

    def accumulate_recorded(self, g: Tensor) -> None:
        """Add a gradient that is a Tensor, because it has a graph of its own or a tangent.

        With a graph, it is added out of place, so that the sum has one too.
        """
        variable = self.variable
        if not variable._meta.requires_grad:  # type: ignore[union-attr]
            return
        if local.reached is not None:
            local.reached.append(variable)
        with leaf_lock:
            grad = variable._grad
            if grad is None:
                variable._grad = _clone_laid_out_as(variable._data, g)
            elif local.grad_enabled:
                variable._grad = grad + g
            else:
                grad += g


def _copy_laid_out_as(like: Any, g: Any) -> Any:
    if type(like) is not np.ndarray or type(g) is not np.ndarray:
        return g.copy()
    copy = _empty_laid_out_as(like, g)
    copy[...] = g
    return copy


def _clone_laid_out_as(like: Any, g: Tensor) -> Tensor:
    """The same for a Tensor, with a history."""
    data = g._data
    if type(like) is not np.ndarray or type(data) is not np.ndarray:
        return g.clone()
    if like.shape == data.shape and not _strides_matter(like, data):
        return g.clone()
    return wrap(_empty_laid_out_as(like, g._data)).copy_(g)


def _empty_laid_out_as(like: np.ndarray, g: np.ndarray) -> np.ndarray:
    if like.shape != g.shape:
        raise RuntimeError(
            f"a gradient of shape {list(g.shape)} arrived at a leaf of shape {list(like.shape)}, whose shape was "
            "changed since its value was used; change .data after backward, or recompute the result"
        )
    empty = np.empty_like(like, g.dtype, subok=False)
    if empty.strides != like.strides and _strides_matter(empty, like):  # a leaf with gaps has no layout to follow
        return np.empty(like.shape, g.dtype)
    return empty


def _strides_matter(a: Any, b: Any) -> bool:
    """Whether arrays of one shape differ in a stride that is actually used."""
    return any(length > 1 and s != t for length, s, t in zip(a.shape, a.strides, b.strides, strict=True))


set_accumulator(AccumulateGrad)
