"""Writing over a tensor: what is allowed, and what becomes of the history."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np

from retrograd.batching import has_room, with_room
from retrograd.core.array_interface import storage_of, storage_offset_of
from retrograd.core.errors import no_tensor
from retrograd.core.layout import copy_in_memory_order, in_memory_order, memory_order
from retrograd.core.node import Node
from retrograd.core.sites import warn_user
from retrograd.core.state import local
from retrograd.core.tensor import Edge, Meta, Tensor, bump, wrap
from retrograd.core.views import Step, move_retained, replay
from retrograd.dtypes import can_cast, from_numpy_dtype


class _InferenceCell(list[int]):
    """The version cell of inference tensors, which count no versions."""

    def __getitem__(self, index: Any) -> Any:
        if local.untracked:
            return 0
        raise RuntimeError(
            "Inference tensors cannot be saved for backward and do not track version counter. "
            "To work around you can make a clone to get a normal tensor and use it in autograd."
        )

    def __setitem__(self, index: Any, value: Any) -> None: ...


INFERENCE_CELL = _InferenceCell([0])


def mark_inference(tensor: Tensor) -> None:
    """Make a new tensor an inference tensor."""
    tensor._own_meta().inference = True
    tensor._cell = INFERENCE_CELL


def check_writable(target: Any, name: str, elements: bool = True, history: bool = True) -> None:
    """Raise, before anything is changed, if ``target`` may not be written to now.

    Parameters
    ----------
    elements
        Whether its elements are written to, and not just its shape.
    history
        Whether the write is recorded if gradients are.
    """
    if not isinstance(target, Tensor):
        raise no_tensor(name, "argument 'input' (position 1)", target)
    data = target._data  # for an uninitialized tensor, this raises before anything else
    if target._meta is not None:
        _check_history(target, target._meta, name, history and local.grad_enabled)
    if elements and not data.flags.writeable:
        writable = _writable(data)
        if writable is None:
            raise RuntimeError(
                f"{name}: unsupported operation: more than one element of the written-to tensor refers to a single "
                "memory location, or its memory is read-only. "
                "Please clone() the tensor before performing the operation."
            )
        target._data = writable
    if local.before_write is not None:
        local.before_write(target)


def _check_history(target: Tensor, meta: Meta, name: str, is_recorded: bool) -> None:
    """Raise if recording a write to ``target`` would be ambiguous or lose a gradient."""
    if meta.inference and not local.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. "
            "You can make a clone to get a normal tensor before doing inplace update."
        )
    if not is_recorded:
        return
    if meta.view is not None:
        base = meta.view.base
        if base.requires_grad or target.requires_grad:
            meta.view.check_inplace()
            if base.is_leaf or _requires_grad_itself(base):
                raise RuntimeError(
                    "a view of a leaf Variable that requires grad is being used in an in-place operation. "
                    f"({name} on a view of shape {list(target.shape)} of {_kind(base)} of shape {list(base.shape)}; "
                    f"{_instead(base, 'a view of ')})"
                )
    if meta.requires_grad:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation. "
            f"({name} on {_kind(target, 'a tensor')} of shape {list(target.shape)}; {_instead(target)})"
        )


def _kind(tensor: Tensor, leaf: str = "a leaf") -> str:
    return leaf if tensor.is_leaf else "an argument of the function that is differentiated"


def _instead(tensor: Tensor, view: str = "") -> str:
    if tensor.is_leaf:
        return f"write inside `with retrograd.no_grad():`, or to {view}a clone()"
    return "write to a copy made in the function, x = x.clone()"


def _requires_grad_itself(tensor: Tensor) -> bool:
    """Whether gradients are asked for at ``tensor``: it is a leaf, or an argument of a function being transformed."""
    return tensor._meta is not None and tensor._meta.requires_grad


def _writable(data: Any) -> Any:
    """An expanded array, or a part of one, in writable form; None if some of its elements share memory."""
    extent = data.itemsize
    for step, length in sorted(zip(data.strides, data.shape, strict=True)):
        if length > 1:
            if step < extent:
                return None
            extent = step * length
    return writable_everywhere(data)


def writable_everywhere(data: Any) -> Any:
    """An array in a form to fill with one value, even if some of its elements share memory; None if not possible."""
    storage = storage_of(data)
    if type(data) is not np.ndarray or not storage.flags.writeable or not storage.flags.forc:
        return None
    start = storage_offset_of(data) * data.itemsize
    return np.ndarray(data.shape, data.dtype, storage, start, data.strides)


def overwrite(name: str, target: Tensor, result: Any) -> None:
    """Copy a result over the elements of ``target``."""
    data = target._data
    check_shape(name, target, np.shape(result))
    check_castable(np.asarray(result).dtype if not hasattr(result, "dtype") else result.dtype, data.dtype)
    data[...] = result


def check_shape(name: str, target: Tensor, shape: tuple[int, ...]) -> None:
    """Raise as torch does if a result of another shape is to be written over ``target``."""
    if target._data.shape != shape:
        raise RuntimeError(
            f"{name}: output with shape {list(target.shape)} doesn't match the broadcast shape {list(shape)}"
        )


def check_castable(source: np.dtype, target: np.dtype) -> None:
    """Raise as torch does if a result cannot be cast to the dtype of the tensor written to."""
    if source != target and not can_cast(from_numpy_dtype(source), from_numpy_dtype(target)):
        raise RuntimeError(
            f"result type {from_numpy_dtype(source)} can't be cast to the desired output type "
            f"{from_numpy_dtype(target)}"
        )


def check_out(name: str, out: Any, recorded: bool) -> None:
    """Raise if a result that is to be put into ``out`` has a history, or if ``out`` needs one.

    Raises
    ------
    RuntimeError
        With torch's words.
    """
    outs = out if isinstance(out, (tuple, list)) else (out,)
    if recorded or (local.grad_enabled and any(getattr(item, "requires_grad", False) for item in outs)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )


def write_out(name: str, out: Any, result: Any) -> Any:
    """Put a result into the tensors given as ``out=``."""
    if type(result) in (tuple, list):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(f"{name}(): argument 'out' must be a tuple of {len(result)} Tensors, one for each result")
        written = [write_out(name, item, value) for item, value in zip(out, result, strict=True)]
        return out._make(written) if hasattr(out, "_make") else type(out)(written)
    if not isinstance(out, Tensor):
        raise no_tensor(name, "argument 'out'", out)
    shape = np.shape(result)
    fits = out._data.shape == shape
    check_writable(out, f"{name}(out=)", elements=fits)
    if not fits:
        check_castable(np.asarray(result).dtype, out._data.dtype)
        if out.numel():
            warn_user(
                f"{name}(): out= has shape {list(out.shape)}, but the result has shape {list(shape)}; out was resized. "
                "That is deprecated: pass an out of the result's shape, or an empty one (out.resize_(0))."
            )
        change_shape(out, shape)
    overwrite(f"{name}(out=)", out, result)
    bump(out)
    return out


def change_shape(target: Tensor, shape: tuple[int, ...]) -> None:
    """Give a tensor without history another shape: on the same memory if that is large enough, else on new memory."""
    flat = _from_first_element(target._data)
    count = math.prod(shape)
    if count > flat.size:
        known = flat
        flat = np.empty_like(known, shape=count)
        flat[: known.size] = known
    lie_in(target, flat[:count].reshape(shape))


def _from_first_element(data: Any) -> Any:
    """The memory from the first element of ``data`` on, in one dimension; a copy of ``data`` if there are gaps."""
    storage = storage_of(data)
    if type(storage) is not np.ndarray or not storage.flags.forc:
        return data.reshape(-1)
    offset = storage_offset_of(data) * data.itemsize
    length = (storage.nbytes - offset) // data.itemsize
    return np.ndarray((length,), data.dtype, storage if storage.flags.c_contiguous else storage.T, offset)


def lie_in(tensor: Tensor, data: Any) -> None:
    """Replace the array of a tensor that has no history."""
    tensor._data = data
    if tensor._meta is not None:
        tensor._meta.view = tensor._meta.moved = tensor._meta.accumulator = None


def rebase(target: Tensor, node: Node) -> None:
    """Make ``node`` the origin of ``target``'s new value; for a view, by way of its base."""
    meta = target._meta
    view = None if meta is None else meta.view
    if view is None:
        move_retained(target, target._edge, (node, 0))
        target._edge = (node, 0)
        if meta is not None:
            meta.requires_grad = False
        return
    base = view.base
    slices = CopySlices(base._resolve_edge(), base, view.steps_from_base(), node)
    base_meta = base._meta
    move_retained(base, base._edge, (slices, 0))
    base._edge = (slices, 0)
    if base_meta is not None:
        base_meta.requires_grad = False
    meta.requires_grad = False  # type: ignore[union-attr]
    former = view.edge
    view.edge = (slices, 0)  # not None, so that the edge is made anew
    view.version = -1
    if former is not None and former[0].extras is not None and former[0].extras.retained:
        move_retained(target, former, view.current_edge(target))


class Overwritten(Node):
    """The history of a tensor whose content was replaced by something without a derivative: its gradient is zero."""

    __slots__ = ("label",)

    def __init__(self, label: str, edge: Edge, target: Tensor) -> None:
        super().__init__((edge,), target._data.shape, target._data.dtype)
        self.label = label

    def name(self) -> str:
        return self.label

    def backward(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        return [np.zeros_like(g)]

    def backward_recorded(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        return [wrap(np.zeros_like(g._data))]


class CopySlices(Node):
    """The history of a base after one of its views was written to.

    The gradient of the old base is the incoming one with the written part replaced by what the operation passes back.
    """

    __slots__ = ("fn", "order", "shared", "steps")

    def __init__(self, base_edge: Edge | None, base: Tensor, steps: tuple[Step, ...], fn: Node) -> None:
        # the first edge of fn leads to the view's old history, whose gradient goes to the base instead
        super().__init__((base_edge, *fn.next[1:]), base._data.shape, base._data.dtype)
        self.fn = fn
        self.shared = False
        self.steps = steps
        self.order = memory_order(base._data)  # whether a step, a reshape say, gives a view depends on it

    def backward(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        # a 0-d array that went through a ufunc is a number
        g = np.array(g) if isinstance(g, np.generic) else in_memory_order(g, self.order)
        part = replay(g, self.steps)
        first, *others = self._passed(self.fn.backward(part, edges))
        if edges[0] is None:
            return [None, *others]
        if first is not None and not has_room(g, [first]):  # a row of a Jacobian: one array for all samples of a batch
            g = with_room(g, g, first)
        rest = copy_in_memory_order(g, self.order)
        written = replay(rest, self.steps)
        if not written.flags.writeable:
            written = _writable(written)
        written[...] = 0 if first is None else first
        return [rest, *others]

    def backward_recorded(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        g = in_memory_order(g, self.order)
        part = replay(g, self.steps)
        self.shared = True  # a result that fn has saved becomes a tensor that fn has computed
        first, *others = self._passed(self.fn.backward_recorded(part, edges))
        if edges[0] is None:
            return [None, *others]
        if first is None or has_room(g._data, [first._data]):
            rest = copy_in_memory_order(g, self.order)
        else:
            rest = wrap(copy_in_memory_order(with_room(g._data, g._data, first._data), self.order)).copy_(g)
        replay(rest, self.steps).copy_(wrap(np.zeros_like(part._data)) if first is None else first)
        return [rest, *others]

    def _passed(self, grads: Any) -> Any:
        return [None] * len(self.next) if grads is None else grads

    def release(self) -> None:
        if self.shared:
            self.fn = copy(self.fn)  # the original runs, and frees what it saved, independently
            self.shared = False
        self.fn.release()
