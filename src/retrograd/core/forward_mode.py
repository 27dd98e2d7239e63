"""Forward mode: the tangents of one dual level, and how they follow every operation, write and view."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from retrograd.batching import has_room, with_room
from retrograd.core.jvp import Tangents, jvp, zeros_like
from retrograd.core.layout import copy_in_memory_order, in_memory_order, memory_order
from retrograd.core.node import Node, OpNode
from retrograd.core.record import apply
from retrograd.core.saved import Packed
from retrograd.core.state import local, set_dual_level, set_grad_enabled
from retrograd.core.tensor import Edge, Tensor, wrap
from retrograd.core.views import Step, replay, shares_memory

if TYPE_CHECKING:
    from retrograd.core.op import Op


class Written(NamedTuple):
    """What becomes of the tangents of a tensor that is about to be written to."""

    old: Tensor  # the value before, with its tangents
    tangents: list[tuple[Level, Tensor]]  # the new ones, of the outermost level first


Origin = tuple[Tensor, tuple[Step, ...]]


class _Entry(NamedTuple):
    """What a level knows about a tensor."""

    ref: weakref.ref[Tensor]  # removes the entry when the tensor goes
    tangent: Tensor | None  # None: not made yet, if there is an origin that has one
    origin: Origin | None  # the tensor whose tangent this tangent is a view of, whatever its base is


class Level:
    """The tangents of one dual level.

    They are kept here, by tensor, rather than on the tensors: leaving the level forgets them all. Tangents are Tensors;
    what happens to them is recorded, so that they can be differentiated in turn.

    Parameters
    ----------
    outer
        The level around this one, whose tangents the tangents of this one carry.
    recorded
        Whether operations on tangents are always recorded, even under ``no_grad``, which does not apply to tangents.
    """

    __slots__ = ("_of_saved", "_of_tensors", "outer", "recorded")

    def __init__(self, outer: Level | None = None, recorded: bool = False) -> None:
        self.outer = outer
        self.recorded = recorded
        self._of_tensors: dict[int, _Entry] = {}  # by id
        # of what was saved for backward, but not as the tensor itself: results, by node and number, and packed tensors
        self._of_saved: weakref.WeakKeyDictionary[Node | Packed, dict[int, Tensor]] = weakref.WeakKeyDictionary()

    def leave(self) -> None:
        """Forget all tangents."""
        self._of_tensors.clear()
        self._of_saved.clear()

    def step_out(self) -> tuple[Level | None, bool]:
        """Go on in the level around this one, where its tangents are computed; return what :func:`step_back` takes."""
        before = local.dual_level, local.grad_enabled
        if self.recorded:
            set_grad_enabled(True)
        set_dual_level(self.outer)
        return before

    # --- who has which --------------------------------------------------------------------------------------------

    def tangent(self, tensor: Any) -> Tensor | None:
        """The tangent of ``tensor``. For a view it is the view of its base's tangent, made when first requested."""
        entry = self._of_tensors.get(id(tensor))
        if entry is not None and entry.tangent is not None:
            return entry.tangent
        origin = self._origin(tensor)
        if origin is None:
            return None
        base, steps = origin
        of_base = self.tangent(base)
        if of_base is None:
            return None
        before = self.step_out()
        try:
            tangent = replay(of_base, steps)
        finally:
            step_back(before)
        self.set(tensor, tangent, origin)
        return tangent

    def tangents(self, tensor: Tensor) -> Iterator[tuple[Level, Tensor]]:
        """The tangents of ``tensor`` in this level, which is the innermost one, and in those around it.

        While one is handled, only the levels around its own are active.
        """
        level: Level | None = self
        try:
            while level is not None:
                tangent = level.tangent(tensor)
                if tangent is not None:
                    set_dual_level(level.outer)
                    yield level, tangent
                level = level.outer
        finally:
            set_dual_level(self)

    def with_tangents(self, tensor: Tensor) -> Iterator[Tensor]:
        """``tensor``, its tangents, theirs, and so on."""
        yield tensor
        for level, tangent in self.tangents(tensor):
            if level.outer is None:
                yield tangent
            else:
                yield from level.outer.with_tangents(tangent)

    def _origin(self, tensor: Any) -> Origin | None:
        """The tensor whose tangent ``tensor``'s tangent is a view of, and how."""
        entry = self._of_tensors.get(id(tensor))
        if entry is not None:
            return entry.origin
        meta = getattr(tensor, "_meta", None)
        return None if meta is None or meta.view is None else (meta.view.base, meta.view.steps)

    def set(self, tensor: Tensor, tangent: Tensor | None, origin: Origin | None = None) -> None:
        """Set the tangent of ``tensor``; None means that it has none, whatever its base has."""
        key, entries = id(tensor), self._of_tensors
        entries[key] = _Entry(weakref.ref(tensor, partial(entries.pop, key)), tangent, origin)

    def drop(self, tensor: Tensor) -> None:
        """Forget the tangent of ``tensor``, in this level and those around it."""
        self.set(tensor, None)
        if self.outer is not None:
            self.outer.drop(tensor)

    def move(self, source: Tensor, target: Tensor) -> None:
        """Let ``target``, which has taken on the shape and the elements of ``source``, have its tangents too."""
        tangent = self.tangent(source)
        if tangent is not None:
            self.set(target, tangent)
        if self.outer is not None:
            self.outer.move(source, target)

    def _of_operands(self, op: Op, bound: list[Any]) -> Tangents | None:
        tangents: Tangents = []
        found = False
        for position in op.edge_positions:
            value = bound[position]
            if position == op.sequence_position:
                of_items = [self.tangent(item) for item in value]
                tangents.append(of_items)
                found = found or any(tangent is not None for tangent in of_items)
            else:
                tangent = self.tangent(value) if isinstance(value, Tensor) else None
                tangents.append(tangent)
                found = found or tangent is not None
        return tangents if found else None

    # --- operations -----------------------------------------------------------------------------------------------

    def propagate(self, op: Op, bound: list[Any], made: Any) -> None:
        """Give the results of an operation their tangents."""
        before = self.step_out()
        try:
            if self.outer is not None:
                self.outer.propagate(op, bound, made)
            results = [made] if isinstance(made, Tensor) else list(made)
            is_view = op.view or op.multi_view
            tangents = self._of_operands(op, bound)
            if tangents is None:
                if is_view and id(bound[0]) in self._of_tensors:
                    self._follow(bound[0], results)
                return
            for result, tangent in zip(results, jvp(op, bound, results, tangents), strict=True):
                if tangent is not None:
                    if is_view and result._is_view():
                        self.set(result, tangent, self._origin_of_view(bound[0], result))
                    else:
                        tangent = tangent if is_view else _settled(tangent, result, tangents)
                        self.set(result, tangent)
                    edge = result._resolve_edge()
                    if edge is not None:
                        self._keep_result(edge, tangent)
        finally:
            step_back(before)

    def _follow(self, source: Tensor, views: list[Tensor]) -> None:
        """Note that views of ``source``, which has no tangent although its base may have one, belong to ``source``."""
        for view in views:
            if view._is_view():
                self.set(view, None, self._origin_of_view(source, view))

    def _origin_of_view(self, source: Tensor, view: Tensor) -> Origin:
        base, steps = self._origin(source) or (source, ())
        return base, (*steps, view._meta.view.steps[-1])  # type: ignore[union-attr]

    def _keep_result(self, edge: Edge, tangent: Tensor) -> None:
        node, nr = edge
        if isinstance(node, OpNode) and node.result_slots:
            # what hooks packed survives a write to the result, which also writes to its tangent
            self.keep(node, nr, tangent if local.saved_hooks is None else tangent.clone())

    def keep(self, saved: Node | Packed, nr: int, tangent: Tensor) -> None:
        """Remember the tangent of a result that a node may have saved as array and version, or of a packed tensor."""
        self._of_saved.setdefault(saved, {})[nr] = tangent

    def keep_packed(self, packed: Packed, tensor: Tensor) -> None:
        """Remember the tangents of a tensor that a hook has packed."""
        tangent = self.tangent(tensor)
        if tangent is not None:
            before = self.step_out()
            try:
                self.keep(packed, 0, tangent.clone())  # as in _keep_result
            finally:
                step_back(before)
        if self.outer is not None:
            self.outer.keep_packed(packed, tensor)

    def restore(self, saved: Node | Packed, nr: int, tensor: Tensor) -> None:
        """Give a saved value, restored as a new tensor, the tangents it had."""
        tangent = self._of_saved.get(saved, {}).get(nr)
        if tangent is not None:
            self.set(tensor, tangent)
        if self.outer is not None:
            self.outer.restore(saved, nr, tensor)

    def refuse_out(self, op: Op, values: list[Any]) -> None:
        """Raise if one of ``values`` has a tangent: there is no forward mode with ``out=``."""
        if self.is_dual_at_any_level(values):
            raise NotImplementedError(
                f"Trying to use forward AD with {op.name}_out that does not support it because it is an out= function; "
                "leave out= out, or unpack_dual() the operands first"
            )

    def is_dual(self, value: Any) -> bool:
        """Whether ``value``, or anything in it if it is a list, has a tangent."""
        if isinstance(value, Tensor):
            return self.tangent(value) is not None
        return isinstance(value, (list, tuple)) and any(map(self.is_dual, value))

    def is_dual_at_any_level(self, value: Any) -> bool:
        """The same for this level and those around it."""
        return any(level.is_dual(value) for level in self._and_outer())

    def _and_outer(self) -> list[Level]:
        """The levels, the outermost first."""
        return [*([] if self.outer is None else self.outer._and_outer()), self]

    # --- writes ---------------------------------------------------------------------------------------------------

    def before_write(self, op: Op, bound: list[Any]) -> Written | None:
        """Derive the new tangents of ``bound[0]``, which an operation is about to overwrite."""
        target = bound[0]
        if target._data.dtype.kind not in "fc":
            return None
        levels = self._and_outer()
        if not any(level.is_dual(bound) for level in levels):
            return None
        old = wrap(target._data.copy(), target._resolve_edge())
        operands = [old if value is target else value for value in bound]
        written = Written(old, [])
        for level in levels:
            before = level.step_out()
            try:
                tangent = level._of_written(op, bound, operands)
            finally:
                step_back(before)
            if tangent is not None:
                written.tangents.append((level, tangent))
        return written

    def _of_written(self, op: Op, bound: list[Any], operands: list[Any]) -> Tensor | None:
        """The new tangent of ``bound[0]``; ``operands[0]`` is a copy of its old value, and gets one of its tangent."""
        own = self.tangent(bound[0])
        if own is not None:
            self.set(operands[0], own.clone())
        if not op.rules:
            return None if own is None else zeros_like(bound[0])
        tangents = self._of_operands(op, operands)
        return None if tangents is None else jvp(op, operands, [apply(op, operands)], tangents)[0]

    def after_write(self, target: Tensor, node: Node | None, written: Written) -> None:
        """Write the new tangents over the old ones."""
        for level, tangent in written.tangents:
            before = level.step_out()
            try:
                level.write(target, tangent)
                now = level.tangent(target)
                if node is not None and now is not None:
                    level._keep_result((node, 0), now)
            finally:
                step_back(before)

    def write(self, target: Tensor, tangent: Tensor) -> None:
        """Make ``tangent`` that of ``target``: over the one it has, or as a part of its base's."""
        current = self.tangent(target)
        origin = self._origin(target)
        owner = target if origin is None else origin[0]
        if current is None and origin is not None:
            self.set(owner, zeros_like(owner))
            current = self.tangent(target)
        if current is None:
            self.set(target, _settled(tangent, target, [tangent]))
            return
        if not has_room(current._data, [tangent._data]):
            self._make_room(owner, current._data, tangent._data)
            current = self.tangent(target)
        current.copy_(tangent)  # type: ignore[union-attr]

    def _make_room(self, owner: Tensor, target: Any, written: Any) -> None:
        """Give ``owner`` a tangent in which every sample can be written to, and have those of its views made anew."""
        tangent = self.tangent(owner)
        assert tangent is not None
        made = copy_in_memory_order(with_room(tangent._data, target, written), memory_order(owner._data))
        self.set(owner, wrap(made).copy_(tangent))
        for key, entry in self._of_tensors.items():
            if entry.origin is not None and entry.origin[0] is owner:
                self._of_tensors[key] = entry._replace(tangent=None)


def step_back(before: tuple[Level | None, bool]) -> None:
    """Undo :meth:`Level.step_out`."""
    level, recording = before
    if local.grad_enabled is not recording:
        set_grad_enabled(recording)
    set_dual_level(level)


def check_dual(primal: Any, tangent: Any) -> None:
    """Raise unless ``tangent`` can be that of ``primal``: of the same shape, and complex only if that is.

    Raises
    ------
    ValueError
        If a dtype is neither floating point nor complex, or ``tangent`` complex where ``primal`` is real.
    RuntimeError
        If the shapes differ.
    """
    for name, tensor in (("primal", primal), ("tangent", tangent)):
        if tensor._data.dtype.kind not in "fc":
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {tensor.dtype}; convert it first, an array "
                "with .astype(float), a tensor with .to(retrograd.float32)"
            )
    if tangent._data.dtype.kind == "c" and primal._data.dtype.kind != "c":
        raise ValueError(f"Expected tangent to be real, as the primal of {primal.dtype} is, but got: {tangent.dtype}")
    if primal._data.shape != tangent._data.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(primal.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )


def fit_tangent(tangent: Tensor, primal: Tensor) -> Tensor:
    """``tangent`` in the dtype and the order in memory of ``primal``, so that a view of one is a view of the other."""
    data, like = tangent._data, primal._data
    if data.dtype != like.dtype:
        tangent = tangent.to(primal.dtype)
        data = tangent._data
    if type(data) is not np.ndarray or type(like) is not np.ndarray:
        return in_memory_order(tangent, memory_order(like))
    if data.strides == like.strides:
        return tangent
    if all(n < 2 or a == b for n, a, b in zip(data.shape, data.strides, like.strides, strict=True)):
        return tangent
    return wrap(np.empty_like(like)).copy_(tangent)


def _settled(tangent: Any, result: Tensor, others: Tangents) -> Tensor:
    """A tangent of the shape, dtype and layout of ``result``, on memory that belongs to none of the ``others``."""
    if tangent._data.shape != result._data.shape:
        tangent = np.broadcast_to(tangent, result._data.shape)
    settled = fit_tangent(tangent, result)
    if settled is not tangent:
        return settled
    for other in others:
        for each in other if isinstance(other, list) else [other]:
            if each is not None and (each is settled or shares_memory(settled._data, each._data)):
                return settled.clone()
    return settled
