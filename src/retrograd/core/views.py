"""Views: tensors that share storage, version and history with a base."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy import ndarray

from retrograd.core.state import local, refresh, set_grad_enabled
from retrograd.core.tensor import Edge, Meta, Tensor, cell_of, wrap

if TYPE_CHECKING:
    from retrograd.core.op import Op

# A step from a tensor (or an array) to a view of it.
Step = tuple["Op", list[Any], "int | None"]


class Moves(NamedTuple):
    """What in-place forms such as ``t_`` did to a base: its views' steps start from its earlier dimensions."""

    there: tuple[Step, ...]
    back: tuple[Step, ...]

    @classmethod
    def of(cls, base: Tensor) -> Moves:
        """The moves of a tensor; usually there are none."""
        return (None if base._meta is None else base._meta.moved) or _NO_MOVES

    def then(self, there: Step, back: Step) -> Moves:
        """These moves, followed by one more."""
        return Moves((*self.there, there), (back, *self.back))


_NO_MOVES = Moves((), ())


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

    def __init__(self, base: Tensor, steps: tuple[Step, ...], forbidden: str | None, version: int) -> None:
        self.base = base
        self.steps = steps
        self.forbidden = forbidden
        self.edge: Edge | None = None
        self.version = version  # the version at which ``edge`` was valid

    def set_edge(self, tensor: Tensor, edge: Edge | None) -> None:
        self.edge = edge
        self.version = tensor._version

    def current_edge(self, tensor: Tensor) -> Edge | None:
        """The edge of the view; made anew from the base's history if the storage was written to meanwhile."""
        if self.version != tensor._version:
            if self.is_lost(tensor):
                if local.grad_enabled and self.forbidden is not None:
                    raise RuntimeError(self.forbidden.replace("is being", _INDIRECTLY, 1))
                return self.edge
            base_edge = self.base._resolve_edge()
            edge = self.edge
            if base_edge is None and edge is None:
                return None  # the write still counts if the base is made to require grad later
            if base_edge is None:
                edge = None
            elif edge is not None or self.forbidden is None or not self.base.is_leaf:
                before = local.grad_enabled, local.mode
                try:
                    set_grad_enabled(True)  # independent of the caller's mode, as the answer is kept
                    fresh = replay(self.base, self.steps_from_base())
                finally:
                    local.grad_enabled, local.mode = before
                    refresh()
                meta = fresh._meta
                edge = fresh._edge if meta is None or meta.view is None else meta.view.edge
                move_retained(tensor, self.edge, edge)
            self.set_edge(tensor, edge)
        return self.edge

    def steps_from_base(self) -> tuple[Step, ...]:
        """The steps that lead here from the base as it is now."""
        there, back = Moves.of(self.base)
        if there and len(self.steps) >= len(there) and all(map(operator.is_, self.steps, there)):
            return self.steps[len(there) :]  # made from the base in its current form
        return back + self.steps

    def last_edge(self, tensor: Tensor) -> Edge | None:
        """The edge of the view: if it is lost, the last one it had."""
        return self.edge if self.is_lost(tensor) else self.current_edge(tensor)

    def is_lost(self, tensor: Tensor) -> bool:
        """Whether the storage was written to since, which leaves a view like this without a correct history."""
        return (
            self.forbidden is not None
            and self.version != tensor._version
            and (self.edge is not None or not self.base.is_leaf)
        )

    def check_inplace(self) -> None:
        """Raise if torch would not allow an in-place operation on this view."""
        if self.forbidden is not None:
            raise RuntimeError(self.forbidden)


def move_retained(tensor: Tensor, old: Edge | None, new: Edge | None) -> None:
    """``retain_grad`` follows a tensor to the node of its new value."""
    if old is not None and new is not None and old[0].extras is not None:
        ref = old[0].extras.retained.get(old[1])
        if ref is not None and ref() is tensor:
            del old[0].extras.retained[old[1]]
            new[0].own_extras().retained[new[1]] = ref


def replay(base: Any, steps: tuple[Step, ...]) -> Any:
    """Apply view operations to a Tensor, or to an array of the same shape as the base."""
    from retrograd.core.record import apply

    for op, arguments, output in steps:
        base = apply(op, [base, *arguments]) if isinstance(base, Tensor) else op.forward(base, *arguments)
        if output is not None:
            base = base[output]
    return base


_INDIRECTLY = "its base or another view of its base has been"

NO_GRAD_VIEW = (
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case "
    "is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace "
    "either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want "
    "the inplace to be tracked)."
)

INFERENCE_VIEW = (
    NO_GRAD_VIEW.replace("no_grad mode", "inference mode")
    .replace("with grad mode enabled", "in normal mode")
    .replace("no_grad block", "inference_mode block")
)


def _of_multi_view(node_name: str) -> str:
    """Why the views that an operation returned together are not written to, after "Output 0 of "."""
    return (
        f"{node_name.removesuffix('Backward0')} is a view and is being modified inplace. This view is the output of a "
        "function that returns multiple views. Such functions do not allow the output views to be modified inplace. "
        "You should replace the inplace operation by an out-of-place one."
    )


def shares_memory(result: Any, data: Any) -> bool:
    """Whether ``result`` was made as a view of ``data``, or both of the same array."""
    base = result.base if type(result) is ndarray and type(data) is ndarray else None
    if base is not None and (base is data or base is data.base):  # as nearly always
        return True
    return _owner(result) is _owner(data)


def _owner(array: Any) -> Any:
    while (base := getattr(array, "base", None)) is not None:
        array = base
    return array


def new_view(op: Op, bound: list[Any], arrays: list[Any], result: Any) -> Tensor:
    """Wrap the result of a view operation, tied to its base if NumPy actually made a view."""
    return _new_views(op, bound, arrays, [result], [None])[0]


def new_views(op: Op, bound: list[Any], arrays: list[Any], results: list[Any]) -> list[Tensor]:
    """The same for an operation with several results."""
    return _new_views(op, bound, arrays, results, range(len(results)))


def _new_views(
    op: Op, bound: list[Any], arrays: list[Any], results: list[Any], numbers: Iterable[int | None]
) -> list[Tensor]:
    source, data, arguments = bound[0], arrays[0], bound[1:]
    if not isinstance(source, Tensor):
        return [wrap(result) for result in results]
    base, steps = source, Moves.of(source).there
    forbidden = None if local.grad_enabled else INFERENCE_VIEW if local.inference else NO_GRAD_VIEW
    origin = source._meta.view if source._meta is not None else None
    if origin is not None:
        base, steps, forbidden = origin.base, origin.steps + steps, origin.forbidden or forbidden
    in_inference = source.is_inference()
    version = 0 if in_inference else base._version  # inference tensors have none
    of_multi_view = _of_multi_view(op.class_for(bound).__name__) if op.multi_view else ""
    tensors = []
    for nr, result in zip(numbers, results, strict=True):
        if not shares_memory(result, data):
            tensors.append(wrap(result))
            continue
        tensor = wrap(result.view() if result is data else result, None, cell_of(source))
        tensor._meta = meta = Meta()
        if in_inference:
            meta.inference = True
        else:
            why = f"Output {nr or 0} of {of_multi_view}" if op.multi_view else forbidden
            meta.view = View(base, (*steps, (op, arguments, nr)), why, version)
        tensors.append(tensor)
    return tensors


def alias_of(tensor: Tensor, forbidden: str) -> Tensor:
    """A view of all of ``tensor``, on which in-place operations are forbidden for the reason given."""
    alias = wrap(tensor._data, None, cell_of(tensor))
    origin = None if tensor._meta is None else tensor._meta.view
    base, steps = (tensor, Moves.of(tensor).there) if origin is None else (origin.base, origin.steps)
    alias._own_meta().view = View(base, steps, forbidden, base._version)
    return alias
