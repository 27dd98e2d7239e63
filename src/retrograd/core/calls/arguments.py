"""Operations with any arguments, such as ``sum``, ``reshape`` and ``linear``: the path of most, and how it is bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy import generic, ndarray

from retrograd.core.half import HALF
from retrograd.core.kinds import PLAIN, holds_only_ints
from retrograd.core.record import apply, holds_tensor, settle
from retrograd.core.saved import save_tensor
from retrograd.core.sites import LAST, caller_of, note
from retrograd.core.slots import ARGUMENT, BYPRODUCT, RESULTS, SHAPE, meaning, shape_of
from retrograd.core.state import NO_GRAD, WATCHED, local, next_sequence_nr
from retrograd.core.tensor import Meta, Tensor
from retrograd.core.views import NO_GRAD_VIEW, View, shares_memory
from retrograd.gpu import DeviceArray

if TYPE_CHECKING:
    from retrograd.core.op import Op

_new = Tensor.__new__
_new_node = object.__new__
_new_view = object.__new__

# What a slot keeps of a call, as one number, which is compared faster than a pair: from 0 on, the argument with that
# position after the first one; from _SHAPE downwards, the shape of that argument; then, from _BYPRODUCT, byproducts.
_INPUT, _RESULT, _INPUT_SHAPE, _NEEDS, _SHAPE, _BYPRODUCT = -1, -2, -3, -4, -5, -(1 << 10)


def argument_caller(op: Op) -> Callable[..., Any]:
    """The public function of an operation with any number of arguments."""
    general = _general_caller(op)
    return _short_caller(op, general) if _has_short_path(op) else general


def _has_short_path(op: Op) -> bool:
    """Whether it has one result, promotes no operands, and every tensor with a derivative is an argument of its own.

    The first argument must be one of these, unless there are none.
    """
    return (
        op.outputs is None
        and not op.multi_view
        and op.sequence is None
        and not (op.kind == "elementwise" and op.operand_positions != (0,))
        and len(op.naming_positions) < 2
        and op.edge_positions[:1] in ((), (0,))
    )


def _most_by_position(op: Op) -> int:
    """How many arguments, given by position, are surely in the order of the parameters."""
    return op.required if op.numbers_first else len(op.params)


def _general_caller(op: Op) -> Callable[..., Any]:
    """The public function of an operation without a short path, and what handles everything unusual in one with it."""
    bind = op.bind
    required, most = op.required, _most_by_position(op)
    # the defaults that follow when that many arguments were given by position
    rest = [op.defaults[given:] for given in range(most + 1)]
    gathers, keepdim = op.variadic is not None, op.keepdim_position
    forward = op.forward if op.arrays_too else None

    def call(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Any:
        given = len(args)
        if forward is not None and args and type(args[0]) is ndarray and not kwargs and Tensor not in map(type, args):
            try:
                return forward(*args)  # a kernel in an ordinary backward
            except Exception:
                pass  # below, the error is explained, or the operation run for every sample of a batch
        if kwargs or gathers or given > keepdim or not required <= given <= most:
            return apply(op, bind(args, kwargs), out)
        return apply(op, [*args, *rest[given]], out)

    return call


def _short_caller(op: Op, general: Callable[..., Any]) -> Callable[..., Any]:
    """The public function of an operation that has a short path; ``general`` handles everything unusual."""
    forward, bind = op.in_blocks, op.bind
    node_class: Any = None  # made for the first node, unless its name depends on an argument's class, at this position
    named_by = op.naming_positions[0] - 1 if op.naming else 0
    classes: dict[type, Any] = {}
    differentiable, is_view, is_elementwise = bool(op.rules), op.view, op.kind == "elementwise"
    others = [position - 1 for position in op.edge_positions[1:]]  # the other arguments that have derivatives
    required, most, keepdim = op.required, _most_by_position(op), op.keepdim_position
    defaults = [op.defaults[given:] for given in range(most + 1)]
    gathers = op.variadic is not None
    has_byproducts = bool(op.byproducts)
    # parameters for one plain value, or for several integers
    single = frozenset(position - 1 for position, kind in op.kinds.items() if not kind.several)
    several = frozenset(position - 1 for position in op.kinds).difference(single)
    fitting = op.fitting_types[1:]
    kept_by_slot = [_kept(op, slot) for slot in op.slots]

    def planned(mask: int) -> list[int | None]:
        """For each slot what it keeps, if those differentiable arguments need a gradient."""
        pairs = zip(kept_by_slot, op.plan(mask), strict=True)
        return [kept if wanted else None for kept, wanted in pairs]

    only_input = planned(1) if differentiable else []
    plans: dict[int, list[int | None]] = {}

    def call(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Any:
        nonlocal node_class
        mode = local.mode
        if mode == WATCHED or out is not None or not args or type(args[0]) is not Tensor:
            return general(*args, out=out, **kwargs)
        given = len(args)
        if kwargs or gathers or not required <= given <= most:
            input, *arguments = bind(args, kwargs)
        else:
            if given > keepdim and type(args[keepdim]) is not bool:
                return general(*args)  # it may be meant for another dimension
            input, *arguments = args
            arguments += defaults[given]
        data = input._data
        meta = input._meta
        operands = arguments
        for place, value in enumerate(arguments):
            kind = type(value)
            if kind in fitting[place]:
                continue
            if kind is tuple or kind is list:
                if place in single or (holds_tensor(value) if place not in several else not holds_only_ints(value)):
                    return general(*args, **kwargs)
            elif place in single or place in several:
                return general(*args, **kwargs)
            elif kind is Tensor:
                if others and type(value._data) is not type(data):
                    return general(*args, **kwargs)
                if operands is arguments:
                    operands = arguments.copy()
                operands[place] = value._data
            elif kind is not ndarray and (kind in PLAIN or isinstance(value, (Tensor, ndarray, generic))):
                return general(*args, **kwargs)
        if (is_elementwise and (data.dtype.kind not in "fc" or data.dtype is HALF)) or (
            meta is not None and meta.inference
        ):
            return general(*args, **kwargs)
        try:
            result = forward(data, *operands)
        except Exception:
            return general(*args, **kwargs)
        if has_byproducts:
            result, *byproducts = result
        if type(result) is not ndarray:
            if type(result) is DeviceArray and ndarray in map(type, operands):
                return general(*args, **kwargs)  # two devices, perhaps
            result = settle(result)
            if type(result) is tuple or type(result) is list:
                return general(*args, **kwargs)

        tensor = _new(Tensor)
        tensor._data = result
        tensor._cell = tensor._meta = tensor._grad = None
        edge = None
        edges: Any = None
        plan: Any
        if differentiable and mode != NO_GRAD and result.dtype.kind in "fc":
            edge = input._edge
            if edge is None and meta is not None:
                edge = input._resolve_edge()
            if others:
                edges = [edge]
                mask, bit = 0 if edge is None else 1, 1
                for place in others:
                    value = arguments[place]
                    edge = None
                    if type(value) is Tensor:
                        edge = value._edge
                        if edge is None and value._meta is not None:
                            edge = value._resolve_edge()
                    bit += bit
                    if edge is not None:
                        mask |= bit
                    edges.append(edge)
                edges = tuple(edges) if mask else None
                plan = plans.get(mask)
                if plan is None:
                    plan = plans[mask] = planned(mask)
            elif edge is not None:
                edges = (edge,)
                plan = only_input
        if edges is not None:
            if node_class is not None:
                node = _new_node(node_class)
            elif op.naming is None:
                node_class = op.node_class
                node = _new_node(node_class)
            else:
                kind = type(arguments[named_by])
                chosen = classes.get(kind)
                if chosen is None:
                    chosen = classes[kind] = op.class_for((input, *arguments))
                node = _new_node(chosen)
            node.next = edges
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
            saved: list[Any] = []
            for kept in plan:
                if kept is None:
                    saved.append(None)
                elif kept >= 0:
                    value = arguments[kept]
                    saved.append(value if type(value) is not Tensor or value._cell is None else save_tensor(value))
                elif kept == _INPUT:
                    saved.append(input if input._cell is None else save_tensor(input))
                elif kept == _INPUT_SHAPE:
                    saved.append(data.shape)
                elif kept == _RESULT:
                    tensor._cell = [0]
                    saved.append((result, tensor._cell, 0))
                elif kept == _NEEDS:
                    saved.append(tuple([each is not None for each in edges]))
                elif kept > _BYPRODUCT:
                    saved.append(shape_of(operands[_SHAPE - kept]))
                else:
                    saved.append(byproducts[_BYPRODUCT - kept])
            node.saved = tuple(saved)
            edge = (node, 0)
        tensor._edge = edge
        if is_view:
            if result is data:
                tensor._data = result = data.view()
            base = result.base
            if base is data or (base is not None and base is data.base) or shares_memory(result, data):
                _make_view(tensor, input, edge, (op, arguments, None), mode)
        return tensor

    return call


def _kept(op: Op, slot: str) -> int:
    """What a slot keeps of a call, as a number; see above."""
    known = meaning(op, slot)
    assert known is not None  # Op has asked already
    what, number = known
    if what == RESULTS:
        return _RESULT
    if what == ARGUMENT:
        return number - 1 if number else _INPUT
    if what == SHAPE:
        return _SHAPE - (number - 1) if number else _INPUT_SHAPE
    return _BYPRODUCT - number if what == BYPRODUCT else _NEEDS


def _make_view(tensor: Tensor, input: Tensor, edge: Any, step: Any, mode: int) -> None:
    """Tie a new tensor to the base of the tensor whose memory it shares."""
    cell = input._cell
    if cell is None:
        cell = input._cell = [0]
    tensor._cell = cell
    tensor._edge = None
    tensor._meta = Meta()
    tensor._meta.view = view = _new_view(View)
    meta = input._meta
    origin = None if meta is None else meta.view
    if origin is None:
        view.base = input
        view.steps = (step,) if meta is None or meta.moved is None else (*meta.moved.there, step)
        view.forbidden = NO_GRAD_VIEW if mode == NO_GRAD else None
    else:
        view.base = origin.base
        view.steps = (*origin.steps, step)
        view.forbidden = origin.forbidden or (NO_GRAD_VIEW if mode == NO_GRAD else None)
    view.edge = edge
    view.version = cell[0]
