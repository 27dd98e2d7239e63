"""The graph node of a user-written Function, as the engine sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.autograd._function_gradients import gradients_of
from retrograd.core.node import FREED, Node
from retrograd.core.record import settle
from retrograd.core.saved import Packed, SavedTensor
from retrograd.core.tensor import Edge, Tensor, wrap

if TYPE_CHECKING:
    from retrograd.autograd._function_saving import Entry
    from retrograd.autograd.function import Function, FunctionCtx

_READ = (
    "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the autograd.Function, "
    "and they have been. Read saved_tensors once and keep the result, or set clear_saved_tensors_on_access=False."
)


class FunctionNode(Node):
    """The node in the graph of a :class:`Function`.

    What users keep for ``backward`` is on its ``ctx``, an object of its own: they call it ``shape`` or ``next`` as they
    like. Beside what a node is, ``grad_fn`` shows that, too.

    Attributes
    ----------
    ctx
        What ``forward`` and ``backward`` are given.
    entries
        What was passed to ``save_for_backward``; None once it has been freed.
    are_tensors
        For every argument of ``forward``, whether it is a tensor.
    """

    __slots__ = ("are_tensors", "ctx", "entries", "outputs")

    takes_undefined = True
    function: type[Function]
    ctx_class: type[FunctionCtx]
    entries: list[Entry | None] | None
    outputs: int

    def __init__(self, are_tensors: tuple[bool, ...]) -> None:
        super().__init__((), (), None)
        self.outputs = 1
        self.entries = []
        self.are_tensors = are_tensors
        self.ctx = self.ctx_class(self)

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:
            raise AttributeError(name)
        return getattr(self.ctx, name)

    def apply(self, *grads: Tensor) -> Any:
        """Call ``backward`` alone on gradients of the outputs and return its result, as ``grad_fn.apply(g)``."""
        return self(*grads)

    def release(self) -> None:
        if self.entries:
            self.entries = None

    def backward(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        results = self._run([None if grad is None else wrap(settle(grad)) for grad in self.each(g)])
        return [None if result is None else result._data for result in results]

    def backward_recorded(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        return self._run(self.each(g))

    def _run(self, grads: Sequence[Any]) -> list[Any]:
        """Call the user's ``backward`` and check what it returns."""
        if self.ctx.materialize_grads:
            shapes = [self.shape] if self.outputs == 1 else self.shape
            dtypes = [self.dtype] if self.outputs == 1 else self.dtype
            arrived = next((grad._data for grad in grads if grad is not None), None)  # says CPU or GPU
            grads = [
                wrap(np.zeros(shape, dtype, like=arrived)) if grad is None and shape is not None else grad
                for grad, shape, dtype in zip(grads, shapes, dtypes, strict=True)
            ]
        returned = (
            self.function.backward(self.ctx, list(grads))
            if self.function.boxed_grads_call
            else self.function.backward(self.ctx, *grads)
        )
        return gradients_of(self.name(), returned, self.are_tensors, self.next)

    # --- what was saved, and hooks on it: see SavedTensor -----------------------------------------------------------

    def saved_tensors_of_backward(self) -> tuple[Any, ...]:
        """What :meth:`FunctionCtx.save_for_backward` kept."""
        tensors = tuple(
            None if entry is None else entry.tensor(self, position) for position, entry in enumerate(self._kept())
        )
        if self.function.clear_saved_tensors_on_access:
            self.entries = None
        return tensors

    def _kept(self) -> list[Entry | None]:
        """The saved entries; an error if they have been freed."""
        if self.entries is None:
            raise RuntimeError(_READ if self.function.clear_saved_tensors_on_access else FREED)
        return self.entries

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        return tuple(SavedTensor.of(self, position) for position in range(len(self._kept())))

    def raw_entry(self, slot: int) -> Any:
        entry = self._kept()[slot]
        return None if entry is None else entry.kept

    def raw_value(self, slot: int, entry: Any) -> Any:
        saved = self._kept()[slot]
        return None if saved is None else saved.tensor(self, slot)._data

    def keep_packed(self, slot: int, packed: Packed) -> None:
        entries: Any = self.entries
        entries[slot] = entries[slot]._replace(kept=packed)


# Attributes of the node, some of them not set yet: attributes of the same names on ``ctx`` must not replace them.
_OWN = frozenset((*Node.__slots__, *FunctionNode.__slots__))
