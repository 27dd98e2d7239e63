"""Views: tensors that share storage, version and history with a base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrograd.core.state import local
from retrograd.core.tensor import Edge, Tensor, cell_of, wrap

if TYPE_CHECKING:
    from retrograd.core.op import Op

# A step from a tensor (or an array) to a view of it.
Step = tuple["Op", list[Any], "int | None"]


class View:
    """How a view comes from its base, and the edge that follows from that.

    Parameters
    ----------
    base
        The tensor at the root of all views of this storage.
    steps
        The view operations that lead from the base here.
    forbidden
        Why in-place operations are not allowed on it while recording, or None.
    """

    __slots__ = ("base", "edge", "forbidden", "steps", "version")

    def __init__(self, base: Tensor, steps: tuple[Step, ...], forbidden: str | None) -> None:
        self.base = base
        self.steps = steps
        self.forbidden = forbidden
        self.edge: Edge | None = None
        self.version = base._version  # the version at which ``edge`` was right

    def set_edge(self, tensor: Tensor, edge: Edge | None) -> None:
        self.edge = edge
        self.version = tensor._version

    def current_edge(self, tensor: Tensor) -> Edge | None:
        """The edge of the view; made anew from the base's history if the storage was written to meanwhile."""
        if self.version != tensor._version:
            base_edge = self.base._resolve_edge()
            edge = self.edge
            if base_edge is None:
                edge = None
            elif edge is not None or not self.base.is_leaf:
                previous, local.grad_enabled = local.grad_enabled, True
                try:
                    fresh = replay(self.base, self.steps)
                finally:
                    local.grad_enabled = previous
                meta = fresh._meta
                edge = fresh._edge if meta is None or meta.view is None else meta.view.edge
            self.set_edge(tensor, edge)
        return self.edge

    def check_inplace(self, name: str) -> None:
        """Raise if torch would not allow an in-place operation on this view."""
        if self.forbidden is not None:
            raise RuntimeError(self.forbidden)


def replay(base: Any, steps: tuple[Step, ...]) -> Any:
    """Apply view operations to a Tensor, or to an array of the same shape as the base."""
    from retrograd.core.record import apply

    for op, arguments, output in steps:
        base = apply(op, [base, *arguments]) if isinstance(base, Tensor) else op.forward(base, *arguments)
        if output is not None:
            base = base[output]
    return base


NO_GRAD_VIEW = (
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case "
    "is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace "
    "either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want "
    "the inplace to be tracked)."
)


def _multi_view_message(op: Op, nr: int) -> str:
    return (
        f"Output {nr} of {op.node_name} is a view and is being modified inplace. This view is the output of a function "
        "that returns multiple views. Such functions do not allow the output views to be modified inplace. You should "
        "replace the inplace operation by an out-of-place one."
    )


def shares_memory(result: Any, data: Any) -> bool:
    """Whether ``result`` was made as a view of ``data``, or both of the same array."""
    return _owner(result) is _owner(data)


def _owner(array: Any) -> Any:
    while (base := getattr(array, "base", None)) is not None:
        array = base
    return array


def new_view(op: Op, bound: list[Any], arrays: list[Any], result: Any, nr: int | None = None) -> Tensor:
    """Wrap the result of a view operation, tied to its base if NumPy made it a view indeed."""
    source = bound[0]
    if not shares_memory(result, arrays[0]) or not isinstance(source, Tensor):
        return wrap(result)
    if result is arrays[0]:
        result = result.view()
    tensor = wrap(result, None, cell_of(source))
    if source.is_inference():
        tensor._own_meta().inference = True
        return tensor
    origin = source._meta.view if source._meta is not None else None
    steps: tuple[Step, ...] = ((op, bound[1:], nr),)
    forbidden = None if local.grad_enabled else NO_GRAD_VIEW
    base = source
    if origin is not None:
        base, steps, forbidden = origin.base, origin.steps + steps, origin.forbidden or forbidden
    if op.multi_view:
        forbidden = _multi_view_message(op, nr or 0)
    tensor._own_meta().view = View(base, steps, forbidden)
    return tensor


def alias_of(tensor: Tensor, forbidden: str) -> Tensor:
    """A view of all of ``tensor``, on which in-place operations are forbidden for the reason given."""
    alias = wrap(tensor._data, None, cell_of(tensor))
    alias._own_meta().view = View(tensor, (), forbidden)
    return alias
