"""What a user-written Function saves for its ``backward``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from retrograd.core.saved import restore, save_result, save_tensor
from retrograd.core.state import local
from retrograd.core.tensor import Edge, Tensor

if TYPE_CHECKING:
    from retrograd.autograd._function_node import FunctionNode


class Entry(NamedTuple):
    """One tensor given to ``save_for_backward``: what is kept of it, and where it was in the graph."""

    kept: Any
    edge: Edge | None
    own_nr: int | None  # its position among the outputs of the Function, if it is one

    def tensor(self, node: FunctionNode, position: int) -> Tensor:
        """The tensor again, in its old place in the graph."""
        edge = self.edge if self.own_nr is None else (node, self.own_nr)
        tensor = restore(self.kept, node.name(), f"saved_tensors[{position}]", edge)
        if self.own_nr is not None and local.tangents is not None:
            local.tangents.restore(node, self.own_nr, tensor)
        return tensor


def save(node: FunctionNode, wrapped: list[Any]) -> list[Entry | None]:
    """Turn what was given to ``save_for_backward`` into entries; an output is saved without its node.

    Parameters
    ----------
    wrapped
        The tensors made from the outputs of ``forward``.
    """
    entries: list[Entry | None] = []
    ctx = node.ctx
    # if a pack hook raises, as a checkpoint's does to stop early, an output would be kept alive by its own node
    to_save, ctx.to_save = ctx.to_save, ()
    for position, tensor in enumerate(to_save):
        if tensor is None:
            entries.append(None)
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {position} is of type {type(tensor).__name__}"
            )
        # an input that is returned as it is comes out as another tensor; what is saved is the input
        nr = next((k for k in reversed(range(len(wrapped))) if wrapped[k] is tensor), None)  # its output_nr
        out: Any = None if nr is None else wrapped[nr]
        is_result = out is not None and out.requires_grad
        if is_result and (out._resolve_edge()[0] is node or any(out is dirty for dirty in ctx.dirty_tensors)):
            entries.append(Entry(save_result(out), None, nr))  # an edge to the node itself would be a cycle
        else:
            entries.append(Entry(save_tensor(tensor), tensor._resolve_edge(), None))
    return entries
