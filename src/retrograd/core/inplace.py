"""Writing over a tensor: what is allowed, and what becomes of the history."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.node import Node
from retrograd.core.state import local
from retrograd.core.tensor import Edge, Tensor, bump, wrap
from retrograd.core.views import Step, replay
from retrograd.dtypes import can_cast, from_numpy_dtype


class _InferenceCell(list[int]):
    """The version cell of inference tensors, which count no versions."""

    def __getitem__(self, index: Any) -> Any:
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


def check_writable(target: Any, name: str) -> None:
    """Raise, before anything is changed, if ``target`` may not be written to now."""
    if not isinstance(target, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(target).__name__}")
    meta = target._meta
    if not target._data.flags.writeable:
        base = target._base
        writable = None if base is None else _writable(target._data, base._data)
        if writable is None:
            raise RuntimeError(
                f"{name}: unsupported operation: more than one element of the written-to tensor refers to a single "
                "memory location, or its memory is read-only. "
                "Please clone() the tensor before performing the operation."
            )
        target._data = writable
    if local.before_write is not None:
        local.before_write(target)
    if meta is None:
        return
    if meta.inference and not local.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. "
            "You can make a clone to get a normal tensor before doing inplace update."
        )
    if not local.grad_enabled:
        return
    if meta.view is not None:
        base = meta.view.base
        if base._edge is None and base._meta is not None and base._meta.requires_grad:
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
        if meta.view.forbidden is not None and (base.requires_grad or meta.view.edge is not None):
            raise RuntimeError(meta.view.forbidden)
    if meta.requires_grad and target._edge is None:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation. "
            f"({name} on a tensor of shape {list(target.shape)}; write inside `with retrograd.no_grad():`, "
            "or to a clone())"
        )


def _writable(data: Any, base: Any) -> Any:
    """A part of an expanded view of ``base``, such that it may be written to; None if elements of it are the same."""
    if type(data) is not np.ndarray or not base.flags.writeable:
        return None
    extent = data.itemsize
    for step, length in sorted(zip(data.strides, data.shape, strict=True)):
        if length > 1:
            if step < extent:
                return None
            extent = step * length
    while isinstance(base.base, np.ndarray):
        base = base.base
    start = data.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(data.shape, data.dtype, base, start, data.strides) if base.flags.forc else None


def overwrite(name: str, target: Tensor, result: Any) -> None:
    """Copy a result over the elements of ``target``."""
    data = target._data
    if np.shape(result) != data.shape:
        raise RuntimeError(
            f"{name}: output with shape {list(data.shape)} doesn't match the broadcast shape {list(np.shape(result))}"
        )
    check_castable(np.asarray(result).dtype if not hasattr(result, "dtype") else result.dtype, data.dtype)
    data[...] = result


def check_castable(source: np.dtype, target: np.dtype) -> None:
    """Raise as torch does where a result does not fit the kind of the tensor written to."""
    if source != target and not can_cast(from_numpy_dtype(source), from_numpy_dtype(target)):
        raise RuntimeError(
            f"result type {from_numpy_dtype(source)} can't be cast to the desired output type "
            f"{from_numpy_dtype(target)}"
        )


def write_out(name: str, out: Any, result: Any) -> Any:
    """Put a result into the tensors given as ``out=``."""
    if type(result) in (tuple, list):
        written = [write_out(name, item, value) for item, value in zip(out, result, strict=True)]
        return out._make(written) if hasattr(out, "_make") else type(out)(written)
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if local.before_write is not None:
        local.before_write(out)
    if out.numel() == 0 and out._data.shape != np.shape(result) and not out._is_view():
        check_castable(np.asarray(result).dtype, out._data.dtype)
        out._data = np.array(result, dtype=out._data.dtype)
    else:
        overwrite(f"{name}(out=)", out, result)
    bump(out)
    return out


def rebase(target: Tensor, node: Node) -> None:
    """Make ``node`` the origin of ``target``'s new value; through its base, if it is a view."""
    meta = target._meta
    view = None if meta is None else meta.view
    if view is None:
        move_retained(target, (node, 0))
        target._edge = (node, 0)
        if meta is not None:
            meta.requires_grad = False
        return
    base = view.base
    slices = CopySlices(base._resolve_edge(), base, view.steps, node)
    base_meta = base._meta
    move_retained(base, (slices, 0))
    base._edge = (slices, 0)
    if base_meta is not None:
        base_meta.requires_grad = False
    meta.requires_grad = False  # type: ignore[union-attr]
    view.edge = (slices, 0)  # not None, so that the edge is made anew
    view.version = -1


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


def move_retained(tensor: Tensor, edge: Edge) -> None:
    """``retain_grad`` follows the tensor to the node of its new value."""
    old = tensor._edge
    if old is not None and old[0].extras is not None:
        ref = old[0].extras.retained.get(old[1])
        if ref is not None and ref() is tensor:
            del old[0].extras.retained[old[1]]
            edge[0].own_extras().retained[edge[1]] = ref


class CopySlices(Node):
    """The history of a base one of whose views was written to.

    The gradient of the old base is the incoming one with the written part replaced by what the operation passes back.
    """

    __slots__ = ("fn", "steps")

    def __init__(self, base_edge: Edge | None, base: Tensor, steps: tuple[Step, ...], fn: Node) -> None:
        # the first edge of fn leads to the view's old history, whose gradient goes to the base instead
        super().__init__((base_edge, *fn.next[1:]), base._data.shape, base._data.dtype)
        self.fn = fn
        self.steps = steps

    def backward(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        part = replay(g, self.steps)
        first, *others = self._passed(self.fn.backward(part, edges))
        if edges[0] is None:
            return [None, *others]
        rest = np.array(g) if isinstance(g, np.generic) else g.copy()
        written = replay(rest, self.steps)
        if not written.flags.writeable:
            written = _writable(written, rest)
        written[...] = 0 if first is None else first
        return [rest, *others]

    def backward_recorded(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        part = replay(g, self.steps)
        first, *others = self._passed(self.fn.backward_recorded(part, edges))
        if edges[0] is None:
            return [None, *others]
        rest = g.clone()
        replay(rest, self.steps).copy_(wrap(np.zeros_like(part._data)) if first is None else first)
        return [rest, *others]

    def _passed(self, grads: Any) -> Any:
        return [None] * len(self.next) if grads is None else grads

    def release(self) -> None:
        self.fn.release()
