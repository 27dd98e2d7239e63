"""Calling an operation that differentiates its first parameter only: the short path for a plain tensor.

It does what :func:`retrograd.core.record.apply` does, in one function: between large matrix products the interpreter's
own code is cold, and what counts is how little of it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy import generic, ndarray

from retrograd.core.half import HALF
from retrograd.core.kinds import PLAIN
from retrograd.core.record import holds_only_ints, holds_tensor, settle
from retrograd.core.saved import save_tensor
from retrograd.core.sites import LAST, caller_of, note
from retrograd.core.state import NO_GRAD, WATCHED, local, next_sequence_nr
from retrograd.core.tensor import Meta, Tensor
from retrograd.core.views import NO_GRAD_VIEW, View, shares_memory
from retrograd.gpu import DeviceArray

if TYPE_CHECKING:
    from retrograd.core.op import Op

_new = Tensor.__new__
_new_node = object.__new__
_new_view = object.__new__

# What a slot keeps, if not the argument at that position.
_INPUT, _RESULT, _INPUT_SHAPE = -1, -2, -3
_BYPRODUCT = -4  # the first one; the others are below


def leading_caller(op: Op, general: Callable[..., Any]) -> Callable[..., Any]:
    """The public function of an operation; ``general`` handles everything unusual."""
    source, *others = op.params
    if (
        op.differentiable not in ((source,), ())
        or op.outputs is not None
        or op.multi_view
        or op.sequence is not None
        or (op.kind == "elementwise" and op.operand_positions != (0,))
        or len(op.naming_positions) > 1
    ):
        return general
    known = {
        source: _INPUT,
        "result": _RESULT,
        f"{source}_shape": _INPUT_SHAPE,
        **{name: place for place, name in enumerate(others)},
        **{name: _BYPRODUCT - nr for nr, name in enumerate(op.byproducts)},
    }
    if not known.keys() >= set(op.slots):
        return general
    forward, bind = op.in_blocks, op.bind
    node_class: Any = None  # made for the first node, unless its name depends on an argument's class, at this position
    named_by = op.naming_positions[0] - 1 if op.naming else 0
    classes: dict[type, Any] = {}
    plan = op.plan(1) if op.rules else ()
    places: list[int | None] = [known[slot] if wanted else None for slot, wanted in zip(op.slots, plan, strict=True)]
    differentiable, is_view, is_elementwise = bool(op.rules), op.view, op.kind == "elementwise"
    required, most, keepdim = op.required, len(op.params), op.keepdim_position
    defaults = [op.defaults[given:] for given in range(most + 1)]
    gathers = op.variadic is not None
    has_byproducts = bool(op.byproducts)
    # parameters for one plain value, or for several integers
    single = frozenset(position - 1 for position, kind in op.kinds.items() if not kind.several)
    several = frozenset(position - 1 for position in op.kinds).difference(single)
    fitting = op.fitting_types[1:]

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
                if operands is arguments:
                    operands = arguments.copy()
                operands[place] = value._data
            elif kind in PLAIN or isinstance(value, (Tensor, generic)):
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
        edge = input._edge
        if edge is None and meta is not None and differentiable:
            edge = input._resolve_edge()
        if mode == NO_GRAD or not differentiable or result.dtype.kind not in "fc":
            edge = None
        if edge is not None:
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
            node.next = (edge,)
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
            for kept in places:
                if kept is None:
                    saved.append(None)
                elif kept >= 0:
                    value = arguments[kept]
                    saved.append(save_tensor(value) if type(value) is Tensor else value)
                elif kept == _INPUT:
                    saved.append(input if input._cell is None else save_tensor(input))
                elif kept == _RESULT:
                    tensor._cell = [0]
                    saved.append((result, tensor._cell, 0))
                elif kept <= _BYPRODUCT:
                    saved.append(byproducts[_BYPRODUCT - kept])
                else:
                    saved.append(data.shape)
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
