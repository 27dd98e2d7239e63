"""Calling an operation in full generality: arguments to arrays, the plain function, the record of it.

:func:`apply` is the reference for what a call does. The short paths in :mod:`retrograd.core.calls` do the same
for plain tensors in less time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from retrograd.array_methods import ArrayMethods
from retrograd.batching import compute_per_sample, holds_batch
from retrograd.core import in_place as _inplace
from retrograd.core import state
from retrograd.core.errors import (
    check_plain,
    explain,
    is_torchs,
    kind_name,
    no_derivative,
    no_tensor,
    not_differentiable,
)
from retrograd.core.finite_checks import show
from retrograd.core.half import HALF, SINGLE, computes_in_single, exact_numbers, rounded
from retrograd.core.kinds import PLAIN
from retrograd.core.layout import dense_copy
from retrograd.core.observer import observed_operation
from retrograd.core.sites import caller_of, note
from retrograd.core.state import NO_GRAD, WATCHED, local, next_sequence_nr
from retrograd.core.tensor import Edge, Tensor, wrap
from retrograd.core.views import new_view, new_views
from retrograd.dtypes import as_dtype, default_float, from_numpy_dtype, result_dtype
from retrograd.gpu import DeviceArray

if TYPE_CHECKING:
    from retrograd.core.op import Op


def settle(result: Any) -> Any:
    """An array again, where NumPy turned a 0-d result into a scalar."""
    return np.asarray(result) if isinstance(result, (np.generic, int, float, complex)) else result


def holds_tensor(values: Any) -> bool:
    # a loop: any() with a generator costs twice as much on the short tuples that come here
    for value in values:  # noqa: SIM110
        if type(value) not in PLAIN and isinstance(value, Tensor):
            return True
    return False


def to_arrays(op: Op, bound: list[Any]) -> tuple[list[Any], bool]:
    """The arguments with arrays for Tensors, also inside lists, and whether there was any Tensor."""
    arrays = list(bound)
    found = False
    fitting = op.fitting_types
    for position, value in enumerate(bound):
        kind = type(value)
        if kind in fitting[position]:
            continue
        if kind is Tensor or isinstance(value, Tensor):
            data = arrays[position] = value._data
            found = True
            if position in op.kinds:
                arrays[position] = _number_in(op, position, value)
                if type(arrays[position]) in PLAIN:  # as an array, it would take part in promotion
                    bound[position] = arrays[position]
            if type(data) is DeviceArray:
                check_one_device(bound)
        elif (kind is list or kind is tuple) and position not in op.number_positions and holds_tensor(value):
            arrays[position] = [item._data if isinstance(item, Tensor) else _plain(item) for item in value]
            found = True
        elif position in op.kinds and not is_torchs(value):
            # a NumPy scalar would take part in promotion, in the function and in rules
            bound[position] = arrays[position] = op.kinds[position].checked(op.name, _argument(op, position), value)
        elif kind is not ndarray and (isinstance(value, ndarray) or _is_array_of_others(value)):
            bound[position] = arrays[position] = _plain(np.asanyarray(value))
        elif isinstance(value, np.generic):
            if (op.kind == "elementwise" or op.params[position] in op.plain_params) and value.dtype.kind in "biufc":
                bound[position] = arrays[position] = value.item()
        elif is_torchs(value) and (value.ndim or position in op.operand_positions):
            raise no_tensor(op.name, _argument(op, position), value)
    return arrays, found


def _argument(op: Op, position: int) -> str:
    """Which argument it is, for errors."""
    return f"argument '{op.params[position]}' (position {position + 1})"


def _number_in(op: Op, position: int, value: Tensor) -> Any:
    """The plain argument that was given as a tensor: its number if it has no dimensions, or else its array."""
    data = value._data
    if position in op.number_positions:
        _check_constant(op, position, value)
    if type(data) is not ndarray:
        return data
    return op.kinds[position].in_tensor(op.name, _argument(op, position), data)


def _check_constant(op: Op, position: int, value: Tensor) -> None:
    """Raise for a tensor that requires grad in place of a number, or of several, that has no derivative."""
    if not value.requires_grad:
        return
    if not op.kinds[position].tensors:
        raise no_derivative(op.name, _argument(op, position))
    if local.grad_enabled:
        raise not_differentiable(op.label, op.params[position])


def _is_array_of_others(value: Any) -> bool:
    """Whether it is an array container, like the columns of a data frame: results would be of its class."""
    return (
        not isinstance(value, (np.generic, ArrayMethods))
        and isinstance(getattr(value, "dtype", None), np.dtype)
        and hasattr(value, "__array__")
        and not hasattr(value, "__cuda_array_interface__")
    )


def _plain(value: Any) -> Any:
    """Memory-mapped files, records and the like as plain arrays, so that results are of no other class."""
    if type(value) is ndarray or not isinstance(value, ndarray):
        return value
    check_plain(value)
    return value.view(ndarray)


def check_one_device(values: Iterable[Any]) -> None:
    """Raise if tensors are on several devices; a number in a tensor without dimensions may be anywhere.

    Raises
    ------
    RuntimeError
        With torch's words.
    """
    devices = dict.fromkeys(str(value.device) for value in values if isinstance(value, Tensor) and value._data.ndim)
    if len(devices) > 1:
        first, second, *_ = devices
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}! "
            "Move them to one with .to(device)"
        )


def apply(op: Op, bound: list[Any], out: Tensor | None = None) -> Any:
    """Run an operation on bound arguments and record it."""
    observer = local.observer
    if observer is not None:
        token = observer.forward_begin(op.label, bound)
        if out is None:
            return observed_operation(observer, token, op.call, bound)
        observer.forward_writes(token, out)
        return observed_operation(observer, token, functools.partial(op.call, out=out), bound)
    if out is not None:
        bound = _in_dtype_of(out, op, bound)
        if local.tangents is not None:
            local.tangents.refuse_out(op, [*bound, out])
    if op.sequence is not None:
        _check_is_sequence(op, bound[op.sequence_position])
    arrays, found = to_arrays(op, bound)
    if not found:
        if op.arrays_too:
            return run_forward(op, arrays)
        given = None if op.sequence is None else bound[op.sequence_position]
        if isinstance(given, (list, tuple)) and not given:
            return op.forward(*arrays)  # it explains what is wrong without operands
        raise _no_tensor_given(op, bound[0])
    if op.sequence is not None:
        _check_sequence(op, bound[op.sequence_position])
    forward, operands = prepare(op, arrays, op.in_blocks)
    try:
        result = forward(*operands)
    except Exception:
        result = run_forward(op, operands, forward)  # run again, to explain the error
    if state.monitor is not None and state.monitor.looks:
        show(arrays, result)
    if forward is not op.in_blocks:
        bound = exact_numbers(bound)
    made = finish(op, bound, arrays, result, out)
    if local.tangents is not None and op.rules:
        local.tangents.propagate(op, bound, made)
    return made


def _in_dtype_of(out: Any, op: Op, bound: list[Any]) -> list[Any]:
    """The arguments, with the dtype of ``out`` to compute in if the operation has such a parameter."""
    position = op.positions.get("dtype")
    if position is None or not isinstance(out, Tensor):
        return bound
    wanted = bound[position]
    if wanted is not None and as_dtype(wanted) != out.dtype:
        raise RuntimeError(
            f"{op.name}(): Expected out tensor to have dtype {as_dtype(wanted)}, but got {out.dtype} instead; omit "
            "dtype= to compute in the dtype of out"
        )
    return [*bound[:position], out.dtype, *bound[position + 1 :]]


def run_forward(op: Op, operands: Sequence[Any], function: Callable[..., Any] | None = None) -> Any:
    """Run the plain function on arrays, and translate its errors into torch's classes and the user's terms."""
    function = op.forward if function is None else function
    try:
        return function(*operands)
    except RuntimeWarning:
        # the user may have turned warnings into errors; that concerns their code, not what happens in here
        with np.errstate(all="ignore"):
            return function(*operands)
    except Exception as error:
        if not holds_batch(operands):
            raise _explained(op, operands, error)  # noqa: B904 (it may have a cause)
        try:
            return compute_per_sample(op.name, function, operands, writes=function is op.write)
        except Exception as of_samples:
            raise _explained(op, operands, of_samples)  # noqa: B904


def _explained(op: Op, operands: Sequence[Any], error: Exception) -> Exception:
    """What to raise for an error in the plain function.

    The frame that raises it must not hold it in a variable: a cycle would keep the operands alive until collected.
    """
    ours = not isinstance(error, (ValueError, TypeError, AttributeError, np.linalg.LinAlgError))
    explained = error if ours else explain(op.name, operands, error, op.params)
    # the callers tried already; their error had the same text, so another traceback would add nothing
    explained.__suppress_context__ = True
    return explained


def prepare(op: Op, arrays: list[Any], function: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
    """The function to call for an operation's ``function``, and its arguments: elementwise operands are promoted."""
    if op.kind != "elementwise":
        return function, arrays
    usual = _float_operands(op, op.operand_positions, arrays)
    if usual is not None:
        return function, usual
    target = _common_dtype(op, arrays)
    if target is HALF and computes_in_single(op, [arrays[position] for position in op.operand_positions]):
        return rounded(function), _cast(op, arrays, SINGLE)
    return function, _cast(op, arrays, target)


def compute(op: Op, arguments: list[Any]) -> Any:
    """Repeat the computation of a call on arrays: nothing is recorded, explained or checked."""
    function, operands = prepare(op, arguments, op.function if op.ufunc is None else op.ufunc)
    return function(*operands)


def _common_dtype(op: Op, arrays: list[Any]) -> np.dtype:
    """The dtype that the operands of an elementwise operation promote to."""
    positions = op.operand_positions
    operands = [arrays[position] for position in positions]
    for position, operand in zip(positions, operands, strict=True):
        absent = operand is None and op.defaults[position] is None
        if not absent and not _is_number(operand):
            raise TypeError(
                f"{op.name}(): argument '{op.params[position]}' (position {position + 1}) must be Tensor or number, "
                f"not {type(operand).__name__}"
            )
    kinds = [
        operand.item() if isinstance(operand, np.generic) else operand for operand in operands if operand is not None
    ]
    target = result_dtype(*kinds)
    if op.int_to_float and target.kind in "biu":
        target = default_float()
    return target


def _cast(op: Op, arrays: list[Any], target: np.dtype) -> list[Any]:
    """The arguments with the operands in ``target``."""
    promoted = list(arrays)
    for position in op.operand_positions:
        operand = arrays[position]
        if operand is None:
            continue
        if hasattr(operand, "dtype") and not isinstance(operand, np.generic):
            promoted[position] = operand if operand.dtype == target else dense_copy(operand, target)
        else:
            if op.fitting is not None:
                op.fitting(op.name, op.params[position], operand, target)
            promoted[position] = np.asarray(operand).astype(target)
    return promoted


def _float_operands(op: Op, positions: tuple[int, ...], arrays: list[Any]) -> list[Any] | None:
    """The usual case of :func:`prepare`: arrays of one floating dtype, and real numbers; None if it is another one."""
    dtype = None
    ready = True
    for position in positions:
        value = arrays[position]
        if type(value) is ndarray:
            if dtype is None:
                dtype = value.dtype
                if dtype.kind not in "fc":
                    return None
            elif value.dtype is not dtype:
                return None
        elif type(value) is float or type(value) is int:
            ready = False
        elif value is not None or op.defaults[position] is not None:
            return None
    if dtype is None or dtype is HALF:
        return None
    if ready:
        return arrays
    promoted = list(arrays)
    for position in positions:
        if type(promoted[position]) in (float, int):
            promoted[position] = np.array(promoted[position], dtype)
    return promoted


def _is_number(value: Any) -> bool:
    if hasattr(value, "dtype"):
        from_numpy_dtype(value.dtype)
        return True
    return isinstance(value, (int, float, complex))


def _no_tensor_given(op: Op, value: Any) -> TypeError:
    """The error about a call without any tensor, whose first argument is ``value``."""
    first = op.params[0]
    argument = f"argument '{first}' (position 1)"
    if op.sequence == first:
        if isinstance(value, (list, tuple)):
            return no_tensor(op.name, argument, value[0], listed=True)
        return TypeError(f"{op.name}(): {argument} must be tuple of Tensors, not {kind_name(value)}")
    return no_tensor(op.name, argument, value)


def _check_is_sequence(op: Op, value: Any) -> None:
    if isinstance(value, (Tensor, ndarray)):
        raise TypeError(
            f"{op.name}(): argument '{op.sequence}' must be tuple of Tensors, not {type(value).__name__}; put several "
            f"in a list, as in {op.name}([a, b]), or split one with unbind()"
        )


def _check_sequence(op: Op, value: Any) -> None:
    if any(isinstance(item, Tensor) and type(item._data) is DeviceArray for item in value):
        check_one_device(value)
    for k, item in enumerate(value):
        if not isinstance(item, (Tensor, ndarray)):
            raise TypeError(f"expected Tensor as element {k} in argument 0 of {op.name}(), but got {kind_name(item)}")


def finish(op: Op, bound: list[Any], arrays: list[Any], result: Any, out: Tensor | None = None) -> Any:
    """Wrap what the plain function returned and record the operation if a gradient is wanted."""
    if op.byproducts:
        result, *kept = result
        arrays = [*arrays, *kept]
    mode = local.mode
    edges = None
    if op.rules and mode != NO_GRAD and (mode != WATCHED or local.grad_enabled):
        if local.lift is not None:
            bound = local.lift(op, bound, result)
        edges = edges_of(op, bound)
    if out is not None:
        _inplace.check_out(op.name, out, edges is not None)
        if op.kind == "elementwise" and any(value is out for value in bound):
            _inplace.check_shape(op.name, out, np.shape(result))  # ``out`` is not resized if it is an operand
        written = _inplace.write_out(op.name, out, settle(result))  # a number would have to fit its dtype
        return written if isinstance(written, Tensor) else op.output_type(written)
    if type(result) in (tuple, list):
        return _finish_several(op, bound, arrays, [settle(item) for item in result], edges)
    if type(result) is not ndarray:
        result = settle(result)
    tensor = new_view(op, bound, arrays, result) if op.view else wrap(result)
    if mode == WATCHED and local.inference and not tensor._is_view():  # a view inherits this from its base
        _inplace.mark_inference(tensor)
    if edges is not None and result.dtype.kind in "fc":
        edge = new_node(op, bound, arrays, edges, tensor), 0
        if tensor._meta is None:
            tensor._edge = edge
        else:
            set_edge(tensor, edge)
    return tensor


def _finish_several(
    op: Op, bound: list[Any], arrays: list[Any], results: list[Any], edges: tuple[Edge | None, ...] | None
) -> tuple[Tensor, ...]:
    tensors = new_views(op, bound, arrays, results) if op.view or op.multi_view else [wrap(item) for item in results]
    if local.inference:
        for tensor in tensors:
            if not tensor._is_view():
                _inplace.mark_inference(tensor)
    if edges is not None and any(item.dtype.kind in "fc" for item in results):
        node = new_multi_node(op, bound, arrays, edges, tensors)
        for nr, tensor in enumerate(tensors):
            if tensor._data.dtype.kind in "fc" and (
                op.differentiable_outputs is None or nr in op.differentiable_outputs
            ):
                set_edge(tensor, (node, nr))
    return op.output_type(tensors)


def set_edge(tensor: Tensor, edge: Edge) -> None:
    """Set which node computed a new tensor."""
    meta = tensor._meta
    if meta is not None and meta.view is not None:
        meta.view.set_edge(tensor, edge)
    else:
        tensor._edge = edge


def edges_of(op: Op, bound: list[Any]) -> tuple[Edge | None, ...] | None:
    """Where the gradients of the differentiable arguments go; None if no argument needs one."""
    edges: list[Edge | None] = []
    wanted = False
    for position in op.edge_positions:
        value = bound[position]
        edge = None
        if type(value) is Tensor or isinstance(value, Tensor):
            edge = value._edge
            if edge is None and value._meta is not None:
                edge = value._resolve_edge()
            if edge is not None:
                wanted = True
        elif position == op.sequence_position:
            of_items = [item._resolve_edge() if isinstance(item, Tensor) else None for item in value]
            edges += of_items
            wanted = wanted or any(item is not None for item in of_items)
            continue
        edges.append(edge)
    return tuple(edges) if wanted else None


def mask_of(op: Op, bound: list[Any], edges: tuple[Edge | None, ...]) -> int:
    """Which differentiable arguments need a gradient, as bits."""
    mask = 0
    if op.sequence_position < 0:  # an edge for each of them
        bit = 1
        for edge in edges:
            if edge is not None:
                mask |= bit
            bit += bit
        return mask
    start = 0
    for bit, position in enumerate(op.edge_positions):
        length = len(bound[position]) if position == op.sequence_position else 1
        if any(edge is not None for edge in edges[start : start + length]):
            mask |= 1 << bit
        start += length
    return mask


def new_node(
    op: Op, bound: list[Any], arrays: list[Any], edges: tuple[Edge | None, ...], tensor: Tensor, written: bool = True
) -> Any:
    """Record an operation with one result: its edges, and what its live rules name.

    If the result is not ``written`` to ``tensor`` yet, its slot is left empty: ().
    """
    if op.node_class.outputs != 1:  # has several results in general, but one in this call
        return new_multi_node(op, bound, arrays, edges, [tensor])
    data = tensor._data
    dtype = data.dtype
    node = object.__new__(op.class_for(bound, dtype is HALF, not written))
    node.next = edges
    node.shape = data.shape
    node.dtype = dtype
    node.seq = next_sequence_nr()
    node.extras = None
    if state.monitor is not None or local.anomaly is not None:
        note(node, caller_of(1))
    savers = op.savers_for(1 if len(op.edge_positions) == 1 else mask_of(op, bound, edges))
    if not written and op.result_slot is not None and savers[op.result_slot] is not None:
        savers = [_later if slot == op.result_slot else saver for slot, saver in enumerate(savers)]
    node.saved = tuple([None if saver is None else saver(bound, arrays, edges, tensor) for saver in savers])
    if local.saved_hooks is not None:
        node.own_extras()  # sends backward to OpNode.backward, where each packed value is unpacked once
    return node


def _later(bound: list[Any], arrays: list[Any], edges: Any, result: Tensor) -> tuple[()]:
    return ()


def new_multi_node(
    op: Op, bound: list[Any], arrays: list[Any], edges: tuple[Edge | None, ...], tensors: list[Tensor]
) -> Any:
    """Record an operation with several results."""
    shapes, dtypes = [t._data.shape for t in tensors], [t._data.dtype for t in tensors]
    # the engine carries the gradient of a single output as it is
    node = op.class_for(bound)(edges, *((shapes[0], dtypes[0]) if len(tensors) == 1 else (shapes, dtypes)))
    node.outputs = len(tensors)  # type: ignore[misc]
    savers = op.savers_for(mask_of(op, bound, edges))
    node.saved = tuple([None if saver is None else saver(bound, arrays, edges, tensors) for saver in savers])
    if local.saved_hooks is not None:
        node.own_extras()  # sends backward to OpNode.backward, where each packed value is unpacked once
    return node
