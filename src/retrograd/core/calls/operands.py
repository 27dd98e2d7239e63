"""Calling an operation: two short paths for one and two operands, in-place forms, operators.

The short paths serve plain tensors of one dtype while nothing observes. They leave everything else to
:func:`retrograd.core.record.apply`.

A watch reads the operation and its arguments from the frames of these functions when the processor has raised a flag,
by the names that they have here; ``tests/anomaly/test_frames.py`` says which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from retrograd.batching import BatchedArray
from retrograd.core import inplace as _inplace
from retrograd.core.blocks import LARGE, run_blocked
from retrograd.core.calls.arguments import leading_caller
from retrograd.core.calls.several import several_caller
from retrograd.core.foreign import is_foreign, left_to
from retrograd.core.half import HALF, exact_numbers
from retrograd.core.looking import copied, show
from retrograd.core.node import Node, OpNode
from retrograd.core.observer import observed_operation
from retrograd.core.record import (
    apply,
    edges_of,
    mask_of,
    new_node,
    prepare,
    run_forward,
    settle,
    to_arrays,
)
from retrograd.core.registry import add_method
from retrograd.core.saved import save_result, save_tensor
from retrograd.core.sites import LAST, caller_of, note
from retrograd.core.slots import save_argument
from retrograd.core.state import NO_GRAD, WATCHED, local, next_sequence_nr
from retrograd.core.tensor import Tensor, bump, wrap
from retrograd.gpu import DeviceArray
from retrograd.unresolved import UnresolvedArray

if TYPE_CHECKING:
    from retrograd.core.op import Op

_new = Tensor.__new__
_new_node = object.__new__
_SCALARS = frozenset((int, float, complex, bool))


def caller(op: Op) -> Callable[..., Any]:
    """The public function of an operation."""
    if op.kind == "elementwise" and op.outputs is None:
        if op.params == ("input",) and op.naming is None:
            return _unary(op)
        if op.params == ("input", "other"):
            return _binary(op, operator="")
    if _is_product(op):
        return _product(op, operator="")
    return several_caller(op, leading_caller(op, _general(op)))


def _is_product(op: Op) -> bool:
    """Whether it is like ``matmul``: two tensors of one dtype, neither promoted nor broadcast elementwise."""
    return (
        op.kind == "general"
        and op.naming is None
        and op.params == op.differentiable == ("input", "other")
        and op.outputs is None
        and set(op.slots) <= {"input", "other", "input_shape", "other_shape"}
    )


def _product(op: Op, operator: str) -> Callable[..., Any]:
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


def _general(op: Op) -> Callable[..., Any]:
    bind = op.bind
    required, most = op.required, len(op.params)
    # the defaults that follow when that many arguments were given by position
    rest = [op.defaults[given:] for given in range(most + 1)]
    gathers, keepdim = op.variadic is not None, op.keepdim_position
    forward = op.forward if op.arrays_too else None

    def call(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Any:
        given = len(args)
        if forward is not None and not kwargs and type(args[0]) is ndarray and Tensor not in map(type, args):
            try:
                return forward(*args)  # a kernel in an ordinary backward
            except Exception:
                pass  # below, the error is explained, or the operation run for every sample of a batch
        if kwargs or gathers or given > keepdim or not required <= given <= most:
            return apply(op, bind(args, kwargs), out)
        return apply(op, [*args, *rest[given]], out)

    return call


def _unary(op: Op) -> Callable[..., Any]:
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


def _binary(op: Op, operator: str) -> Callable[..., Any]:
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
        elif type(other) in _SCALARS and dtype is not HALF:
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


# --- in-place and operator forms --------------------------------------------------------------------------------------


def inplace(op: Op, name: str) -> Callable[..., Any]:
    """The in-place form of an operation, ``x.exp_()`` for ``exp``."""
    bind = op.bind
    short = op.ufunc is not None and op.params == ("input", "other")

    def call(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if short and len(args) == 1 and not kwargs and _write_unrecorded(op, input, args[0]):
            return input
        return apply_inplace(op, name, bind((input, *args), kwargs, name))

    call.__name__ = call.__qualname__ = name
    call.__module__ = op.module
    call.__doc__ = f"In-place form of :func:`retrograd.{op.name}`."
    return call


def _needs_no_cast(number: Any, dtype: Any) -> bool:
    """Whether NumPy may add the number to a dtype as it is: a float, or an integer that fits every integer dtype."""
    if type(number) is float:
        return dtype.kind == "f" and dtype is not HALF
    return type(number) is int and dtype.kind == "i" and 0 < number < 128


def _write_unrecorded(op: Op, target: Any, other: Any) -> bool:
    """The short path of ``parameter -= step``: one ufunc call, if nothing needs recording, checking or promoting."""
    mode = local.mode
    if type(target) is not Tensor or mode == WATCHED:
        return False
    data = target._data
    if type(other) is Tensor:
        b: Any = other._data
        if b.dtype is not data.dtype or type(b) is not type(data):
            return False
    elif _needs_no_cast(other, data.dtype):
        b = other
    else:
        return False
    meta = target._meta
    if mode == NO_GRAD:
        if meta is not None and meta.inference:
            return False
    elif target._edge is not None or meta is not None or (b is not other and other.requires_grad):
        return False
    try:
        if data.size < LARGE:
            op.forward(data, b, out=data)
        else:
            run_blocked(op.forward, data, b, out=data)
    except RuntimeWarning:
        pass  # see apply_inplace
    except (TypeError, ValueError):  # read-only memory, shapes: apply_inplace raises a clear error
        return False
    bump(target)
    return True


def apply_inplace(op: Op, name: str, bound: list[Any]) -> Tensor:
    """Run an operation and write its result over its first argument, with the history that follows from that."""
    observer = local.observer
    if observer is not None:
        token = observer.forward_begin(f"{op.label}_", bound)
        return observed_operation(observer, token, apply_inplace, (op, name, bound))
    target = bound[0]
    _inplace.check_writable(target, name)
    tangents = local.tangents
    written = None if tangents is None else tangents.before_write(op, bound)
    arrays, _ = to_arrays(op, bound)
    forward, operands = prepare(op, arrays, op.forward)
    if forward is not op.forward:
        bound = exact_numbers(bound)
    old = None if written is None else written.old
    node = _inplace_node(op, bound, arrays, old) if local.grad_enabled else None
    if node is not None and local.before_write is not None:
        local.before_write(target)  # again: the node may have saved it just now, as another operand
    before = copied(target._data)
    _write(op, name, target, forward, operands)
    bump(target)
    if before is not None:
        show([before if each is target._data else each for each in arrays], target._data)
    if node is not None:
        if op.result_slot is not None and isinstance(node, OpNode) and node.saved:
            # arguments were saved before the write; the result can be saved only now
            node.saved = tuple(
                save_result(target) if kept is not None and slot == op.result_slot else kept
                for slot, kept in enumerate(node.saved)
            )
        _inplace.rebase(target, node)
    if written is not None:
        tangents.after_write(target, node, written)
    return target


def _inplace_node(op: Op, bound: list[Any], arrays: list[Any], old: Tensor | None) -> Node | None:
    """The record of an in-place operation, made while the target has its old value; ``old``, if given, is a copy."""
    target = bound[0]
    if not op.rules:
        edge = target._resolve_edge()
        return None if edge is None else _inplace.Overwritten(op.node_name, edge, target)
    if local.lift is not None:
        bound = local.lift(op, bound, target._data)
    edges = edges_of(op, bound)
    if edges is None or target._data.dtype.kind not in "fc":
        return None
    if target._meta is not None and target._meta.view is not None:
        target._meta.view.check_inplace()
    if op.input_slot is not None and op.plan(mask_of(op, bound, edges))[op.input_slot]:
        # a rule needs what is about to be overwritten
        bound = [wrap(target._data.copy()) if old is None else old, *bound[1:]]
    return new_node(op, bound, arrays, edges, target, written=False)


def _write(op: Op, name: str, target: Tensor, forward: Callable[..., Any], operands: list[Any]) -> None:
    data = target._data
    ufunc = op.ufunc
    if op.write is not None and type(data) not in (BatchedArray, UnresolvedArray):
        run_forward(op, operands, op.write)
    elif ufunc is not None and ufunc.nout == 1 and operands[0] is data:
        try:
            if data.size < LARGE:
                ufunc(*operands, out=data)
            else:
                run_blocked(ufunc, *operands, out=data)
            return
        except RuntimeWarning:
            return  # warnings were turned into errors; NumPy checks its flags after it has written everything
        except (TypeError, ValueError):
            pass  # before it has written anything: casting, broadcasting
        _inplace.overwrite(name, target, run_forward(op, operands))
    else:
        _inplace.overwrite(name, target, run_forward(op, operands, op.in_blocks if forward is op.forward else forward))


_REFLECTED = frozenset(
    ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]
)


def add_operators(op: Op, operator: str, with_inplace: bool) -> None:
    """Make an operation a Python operator: ``__mul__``, ``__rmul__`` and ``__imul__`` for ``"mul"``."""
    if op.params == ("input",):
        add_method(f"__{operator}__", caller(op))
        return
    forward = _binary(op, f"__{operator}__") if op.kind == "elementwise" else _product(op, f"__{operator}__")
    add_method(f"__{operator}__", forward)
    if operator in _REFLECTED:
        commutes = operator in ("add", "mul")

        def reflected(self: Tensor, other: Any) -> Any:
            if commutes and type(other) in _SCALARS:
                return forward(self, other)
            if is_foreign(other):
                return left_to(other, self, f"__r{operator}__")
            return apply(op, [other, self])

        add_method(f"__r{operator}__", reflected)
        if with_inplace:
            short = op.ufunc is not None

            def augmented(self: Tensor, other: Any) -> Any:
                if short and _write_unrecorded(op, self, other):
                    return self
                if is_foreign(other):
                    return left_to(other, self, f"__i{operator}__")
                return apply_inplace(op, f"__i{operator}__", [self, other])

            add_method(f"__i{operator}__", augmented)


__all__ = ["add_operators", "apply", "apply_inplace", "caller", "inplace", "settle"]
