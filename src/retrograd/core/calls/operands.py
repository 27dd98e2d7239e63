"""The short paths of operations with one operand or two: elementwise ones, and products like ``matmul``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from retrograd.core.blocks import run_blocked
from retrograd.core.foreign_operands import is_foreign, left_to
from retrograd.core.half import HALF
from retrograd.core.record import apply, settle
from retrograd.core.saved import save_tensor
from retrograd.core.sites import LAST, caller_of, note
from retrograd.core.slots import save_argument
from retrograd.core.state import NO_GRAD, WATCHED, local, next_sequence_nr
from retrograd.core.tensor import Tensor
from retrograd.gpu import DeviceArray

if TYPE_CHECKING:
    from retrograd.core.op import Op

_new = Tensor.__new__
_new_node = object.__new__
SCALARS = frozenset((int, float, complex, bool))


def unary_caller(op: Op) -> Callable[..., Any]:
    forward = op.forward
    node_class: Any = None  # made for the first node
    saves_input, saves_result = op.plan(1) or (False, False)
    differentiable = bool(op.rules)
    composed, large = op.ufunc is None, op.large

    def call(input: Any, *, out: Tensor | None = None) -> Any:
        nonlocal node_class
        mode = local.mode
        if type(input) is not Tensor or mode == WATCHED or out is not None:
            return apply(op, [input], out)
        data = input._data
        dtype = data.dtype
        if composed and dtype is HALF:
            return apply(op, [input], None)
        try:
            result = forward(data) if data.size < large else run_blocked(forward, data)
        except Exception:
            return apply(op, [input], None)
        if result.dtype is not dtype:  # promotion, or a result of another kind
            return apply(op, [input], None)
        if type(result) is not ndarray:
            result = settle(result)
        edge = input._edge
        if edge is None and input._meta is not None and differentiable:
            edge = input._resolve_edge()
        tensor = _new(Tensor)
        tensor._data = result
        tensor._cell = tensor._meta = tensor._grad = None
        if edge is None or mode == NO_GRAD or not differentiable:
            tensor._edge = None
            return tensor
        if node_class is None:
            node_class = op.node_class
        node = _new_node(node_class)
        node.next = (edge,)
        node.shape = result.shape
        node.dtype = dtype
        node.seq = next_sequence_nr()
        node.extras = None
        if mode > WATCHED:
            frame = caller_of(1)
            if frame is LAST[0]:
                node.at = frame.f_lasti
            else:
                note(node, frame)
        if saves_result:
            tensor._cell = cell = [0]
            node.saved = (save_tensor(input) if saves_input else None, (result, cell, 0))
        elif saves_input:
            node.saved = (input if input._cell is None else save_tensor(input),)
        else:
            node.saved = ()
        tensor._edge = (node, 0)
        return tensor

    return call


def binary_caller(op: Op, operator: str) -> Callable[..., Any]:
    """The public function of a two-operand operation, or the method ``operator``, which declines foreign operands."""
    forward = op.forward
    node_class: Any = None  # the class of the first node, and of all nodes unless it depends on arguments
    classes: dict[type, Any] = {}  # if it does: by the class of the other operand, a tensor or a number
    differentiable = bool(op.rules)
    composed, large = op.ufunc is None, op.large
    checks_dtype = differentiable or op.int_to_float
    # which of input, other, result to save when the first, the second or both need a gradient
    masks = {name: 1 << op.differentiable.index(name) for name in op.differentiable}
    both = [masks.get("input", 0), masks.get("other", 0)]
    plans = [op.plan(mask) or (False, False, False) for mask in (0, both[0], both[1], both[0] | both[1])]
    has_input, has_other = "input" in masks, "other" in masks

    def call(input: Any, other: Any, *, out: Tensor | None = None) -> Any:
        nonlocal node_class
        mode = local.mode
        if type(input) is not Tensor or mode == WATCHED or out is not None:
            if operator and is_foreign(other):
                return left_to(other, input, operator)
            return apply(op, [input, other], out)
        a = input._data
        dtype = a.dtype
        edge = input._edge
        if edge is None and input._meta is not None and differentiable:
            edge = input._resolve_edge()
        if type(other) is Tensor:
            b = other._data
            if dtype is not b.dtype or (composed and dtype is HALF):
                return apply(op, [input, other], None)
            other_edge = other._edge
            if other_edge is None and other._meta is not None and differentiable:
                other_edge = other._resolve_edge()
        elif type(other) in SCALARS and dtype is not HALF:
            b = other
            other_edge = None
        else:
            if operator and is_foreign(other):
                return left_to(other, input, operator)
            return apply(op, [input, other], None)
        try:
            result = forward(a, b) if a.size < large else run_blocked(forward, a, b)
        except Exception:
            return apply(op, [input, other], None)
        # dtypes are promoted, unless it is a comparison, which gives bool
        if result.dtype is not dtype and (checks_dtype or (type(other) is not Tensor and dtype.kind != "f")):
            return apply(op, [input, other], None)
        if type(result) is not ndarray:
            if type(result) is DeviceArray and type(other) is Tensor and type(a) is not type(b):
                return apply(op, [input, other], None)  # two devices
            result = settle(result)
        tensor = _new(Tensor)
        tensor._data = result
        tensor._cell = tensor._meta = tensor._grad = None
        if (edge is None and other_edge is None) or mode == NO_GRAD or not differentiable:
            tensor._edge = None
            return tensor
        if node_class is not None:
            node = _new_node(node_class)
        else:
            chosen = classes.get(type(other))
            if chosen is None:
                chosen = classes[type(other)] = op.class_for((input, other))
                if op.naming is None:
                    node_class = chosen
            node = _new_node(chosen)
        if edge is None:
            plan = plans[2]
        elif other_edge is None:
            plan = plans[1]
        else:
            plan = plans[3]
        node.next = (edge, other_edge) if has_other and has_input else (edge,) if has_input else (other_edge,)
        node.shape = result.shape
        node.dtype = dtype
        node.seq = next_sequence_nr()
        node.extras = None
        if mode > WATCHED:
            frame = caller_of(1)
            if frame is LAST[0]:
                node.at = frame.f_lasti
            else:
                note(node, frame)
        saves_input, saves_other, saves_result = plan
        if saves_result:
            tensor._cell = cell = [0]
            node.saved = (
                save_tensor(input) if saves_input else None,
                save_argument(other) if saves_other else None,
                (result, cell, 0),
            )
        else:
            # a tensor without a version cell is saved as itself; see save_tensor
            node.saved = (
                None if not saves_input else input if input._cell is None else save_tensor(input),
                None
                if not saves_other
                else other
                if type(other) is Tensor and other._cell is None
                else save_argument(other),
            )
        tensor._edge = (node, 0)
        return tensor

    return call


def is_product(op: Op) -> bool:
    """Whether it is like ``matmul``: two tensors of one dtype, neither promoted nor broadcast elementwise."""
    return (
        op.kind == "general"
        and op.naming is None
        and op.params == op.differentiable == ("input", "other")
        and op.outputs is None
        and set(op.slots) <= {"input", "other", "input_shape", "other_shape"}
    )


def product_caller(op: Op, operator: str) -> Callable[..., Any]:
    """The public function of an operation like ``matmul``, or the method ``operator``, which declines foreign operands.

    It declines NumPy's arrays too: their own operator comes back by NumPy's function, which promotes.
    """
    forward = op.forward
    node_class: Any = None  # made for the first node
    plans = [op.plan(mask) for mask in range(4)]
    # for every slot: which operand, and whether only its shape
    kept = [(slot.startswith("other"), slot.endswith("_shape")) for slot in op.slots]

    def call(input: Any, other: Any, *, out: Tensor | None = None) -> Any:
        nonlocal node_class
        mode = local.mode
        if type(input) is not Tensor or type(other) is not Tensor or mode == WATCHED or out is not None:
            if operator and (is_foreign(other) or isinstance(other, ndarray)):
                return left_to(other, input, operator)
            return apply(op, [input, other], out)
        try:
            result = forward(input._data, other._data)
        except Exception:
            return apply(op, [input, other], None)
        if type(result) is not ndarray:
            if type(result) is DeviceArray and type(input._data) is not type(other._data):
                return apply(op, [input, other], None)  # two devices
            result = settle(result)
        tensor = _new(Tensor)
        tensor._data = result
        tensor._edge = tensor._cell = tensor._meta = tensor._grad = None
        edge, other_edge = input._edge, other._edge
        if edge is None and input._meta is not None:
            edge = input._resolve_edge()
        if other_edge is None and other._meta is not None:
            other_edge = other._resolve_edge()
        if mode == NO_GRAD or (edge is None and other_edge is None):
            return tensor
        if node_class is None:
            node_class = op.node_class
        node = _new_node(node_class)
        node.next = (edge, other_edge)
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
        for wanted, (is_other, is_shape) in zip(plans[(edge is not None) + 2 * (other_edge is not None)], kept):  # noqa: B905
            operand = other if is_other else input
            if not wanted:
                saved.append(None)
            elif is_shape:
                saved.append(operand._data.shape)
            else:
                saved.append(operand if operand._cell is None else save_tensor(operand))
        node.saved = tuple(saved)
        tensor._edge = (node, 0)
        return tensor

    return call
