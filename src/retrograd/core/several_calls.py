"""Calling an operation that differentiates several tensors, such as ``linear`` or ``conv2d``: the short path.

It does what :func:`retrograd.core.record.apply` does for plain tensors on the CPU while nothing observes, in one
function; see :mod:`retrograd.core.leading_calls`, which does it for operations that differentiate one tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy import generic, ndarray

from retrograd.core.kinds import PLAIN
from retrograd.core.record import holds_only_ints, holds_tensor, settle
from retrograd.core.sites import LAST, caller_of, note
from retrograd.core.slots import (
    ARGUMENT,
    BYPRODUCT,
    RESULTS,
    SHAPE,
    meaning,
    save_argument,
    shape_of,
)
from retrograd.core.state import NO_GRAD, WATCHED, local, next_sequence_nr
from retrograd.core.tensor import Tensor

if TYPE_CHECKING:
    from retrograd.core.op import Op

_new = Tensor.__new__
_new_node = object.__new__


def several_caller(op: Op, general: Callable[..., Any]) -> Callable[..., Any]:
    """The public function of an operation; ``general`` handles everything unusual."""
    if (
        op.kind == "elementwise"
        or op.outputs is not None
        or op.view
        or op.multi_view
        or op.sequence is not None
        or op.arrays_too
        or len(op.differentiable) < 2
    ):
        return general
    forward, bind = op.in_blocks, op.bind
    node_class: Any = None  # the class of the first node, and of all nodes unless it depends on arguments
    required, most, keepdim = op.required, len(op.params), op.keepdim_position
    defaults = [op.defaults[given:] for given in range(most + 1)]
    gathers, has_byproducts = op.variadic is not None, bool(op.byproducts)
    edge_positions, fitting = op.edge_positions, op.fitting_types
    single = frozenset(position for position, kind in op.kinds.items() if not kind.several)
    meanings = [meaning(op, slot) for slot in op.slots]
    plans: dict[int, list[tuple[int, int] | None]] = {}  # by which tensors need a gradient

    def call(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Any:
        nonlocal node_class
        mode = local.mode
        if mode == WATCHED or out is not None:
            return general(*args, out=out, **kwargs)
        given = len(args)
        if kwargs or gathers or given > keepdim or not required <= given <= most:
            bound = bind(args, kwargs)
        else:
            bound = [*args, *defaults[given]]
        arrays = bound.copy()
        found = False
        for place, value in enumerate(bound):
            kind = type(value)
            if kind is Tensor:
                data = arrays[place] = value._data
                if (
                    place in op.kinds
                    or type(data) is not ndarray
                    or (value._meta is not None and value._meta.inference)
                ):
                    return general(*args, **kwargs)
                found = True
            elif kind in fitting[place] or (kind is ndarray and place not in op.kinds):
                continue
            elif (
                place in single
                or kind in PLAIN
                or isinstance(value, (Tensor, ndarray, generic))
                or (
                    (kind is tuple or kind is list)
                    and (holds_tensor(value) if place not in op.kinds else not holds_only_ints(value))
                )
            ):
                return general(*args, **kwargs)
        if not found:
            return general(*args, **kwargs)
        try:
            result = forward(*arrays)
        except Exception:
            return general(*args, **kwargs)
        if has_byproducts:
            result, *byproducts = result
        if type(result) is not ndarray:
            result = settle(result)
            if type(result) is tuple or type(result) is list:
                return general(*args, **kwargs)

        tensor = _new(Tensor)
        tensor._data = result
        tensor._edge = tensor._cell = tensor._meta = tensor._grad = None
        if mode == NO_GRAD or result.dtype.kind not in "fc":
            return tensor
        edges: list[Any] = []
        mask, bit = 0, 1
        for place in edge_positions:
            value = bound[place]
            edge = None
            if type(value) is Tensor:
                edge = value._edge
                if edge is None and value._meta is not None:
                    edge = value._resolve_edge()
                if edge is not None:
                    mask |= bit
            edges.append(edge)
            bit += bit
        if not mask:
            return tensor
        if node_class is not None:
            node = _new_node(node_class)
        else:
            node = _new_node(op.class_for(bound))
            if op.naming is None:
                node_class = type(node)
        node.next = tuple(edges)
        node.shape = result.shape
        node.dtype = result.dtype
        node.seq = next_sequence_nr()
        node.extras = None
        if mode > WATCHED:
            frame = caller_of(1)
            if frame is LAST[0]:
                node.at = frame.f_lasti
            else:
                note(node, frame)
        plan = plans.get(mask)
        if plan is None:
            pairs = zip(meanings, op.plan(mask), strict=True)
            plan = plans[mask] = [kept if wanted else None for kept, wanted in pairs]
        saved: list[Any] = []
        for kept in plan:
            if kept is None:
                saved.append(None)
                continue
            what, place = kept
            if what == ARGUMENT:
                value = bound[place]
                saved.append(value if type(value) is Tensor and value._cell is None else save_argument(value))
            elif what == SHAPE:
                saved.append(shape_of(arrays[place]))
            elif what == BYPRODUCT:
                saved.append(byproducts[place])
            elif what == RESULTS:
                tensor._cell = [0]
                saved.append((result, tensor._cell, 0))
            else:
                saved.append(tuple([edge is not None for edge in edges]))
        node.saved = tuple(saved)
        tensor._edge = (node, 0)
        return tensor

    return call
