"""The in-place forms of operations, ``x.exp_()`` and ``x += y``: a short path, and the general one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from retrograd.batching import BatchedArray
from retrograd.conjugate_views import UnresolvedArray
from retrograd.core import in_place as _inplace
from retrograd.core.blocks import LARGE, run_blocked
from retrograd.core.finite_checks import copied, show
from retrograd.core.half import HALF, exact_numbers
from retrograd.core.node import Node, OpNode
from retrograd.core.observer import observed_operation
from retrograd.core.record import edges_of, mask_of, new_node, prepare, run_forward, to_arrays
from retrograd.core.saved import save_result
from retrograd.core.state import NO_GRAD, WATCHED, local
from retrograd.core.tensor import Tensor, bump, wrap

if TYPE_CHECKING:
    from retrograd.core.op import Op


def inplace(op: Op, name: str) -> Callable[..., Any]:
    """The in-place form of an operation, ``x.exp_()`` for ``exp``."""
    bind = op.bind
    short = op.ufunc is not None and op.params == ("input", "other")

    def call(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if short and len(args) == 1 and not kwargs and write_unrecorded(op, input, args[0]):
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


def write_unrecorded(op: Op, target: Any, other: Any) -> bool:
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
