"""Where the arguments of a transformed function begin, and what may leave it with its history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from retrograd.core import state
from retrograd.core.errors import is_torchs, to_be_made
from retrograd.core.node import Node
from retrograd.core.tensor import Edge, Tensor, wrap
from retrograd.tree import tree_map
from retrograd.vectorize import as_tensor_leaf


class Argument(Node):
    """Where a function's argument begins: gradients are taken here, and pass on to what the argument was made of."""

    __slots__ = ("array", "scope")

    array: Any  # the tensor passed there
    scope: Scope

    def backward(self, g: Any, edges: tuple[Edge | None, ...]) -> list[Any]:
        return [g]

    backward_recorded = backward


class Scope:
    """One call of a transform: a block in which gradients are recorded, with arguments to differentiate by.

    Attributes
    ----------
    recording : bool
        Whether gradients are recorded outside of it.
    running : bool
        Whether the transformed function is running, so that other transforms inside must keep histories for this one.

    Notes
    -----
    Inference mode outside is left for the block: it would keep the gradients from being recorded. What was made in it
    may be saved then, as the graph goes with the transform.
    """

    def __init__(self) -> None:
        self.recording = state.local.grad_enabled
        self.running = False

    def __enter__(self) -> Scope:
        local = state.local
        self.recording = local.grad_enabled
        self._inference, self._untracked = local.inference, local.untracked
        local.inference, local.untracked = False, local.untracked or not self.recording
        state.set_grad_enabled(True)
        local.transforms += 1
        self.running = True
        return self

    def __exit__(self, *exc: object) -> None:
        local = state.local
        self.running = False
        local.transforms -= 1
        local.inference, local.untracked = self._inference, self._untracked
        local.grad_enabled = self.recording and not local.inference
        state.refresh()

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """A block that goes back through the graph of this scope, recording if gradients are recorded now."""
        local = state.local
        previous, self.recording = self.recording, local.grad_enabled
        untracked, local.untracked = local.untracked, local.untracked or not previous
        try:
            yield
        finally:
            self.recording, local.untracked = previous, untracked

    def argument(self, tensor: Any) -> Tensor:
        """A stand-in for an argument to differentiate with respect to: the same values, with its own node.

        Raises
        ------
        ValueError
            If it is not a tensor.
        RuntimeError
            If it is not of a floating or complex dtype.
        """
        if not isinstance(tensor, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(tensor)}{to_be_array(tensor)}")
        data = tensor._data
        if data.dtype.kind not in "fc":
            raise RuntimeError(
                "only Tensors of floating point dtype can require gradients, but an argument to differentiate has "
                f"dtype {tensor.dtype}; convert it first, an array with .astype(float), "
                "a tensor with .to(retrograd.float32)"
            )
        node = Argument((tensor._resolve_edge(),), data.shape, data.dtype)
        node.scope = self
        node.array = data
        alias = wrap(data, (node, 0), None if tensor.is_inference() else tensor._cell)
        alias._own_meta().requires_grad = True  # so that, like a leaf, it cannot be written to
        if state.local.dual_level is not None:
            state.local.dual_level.move(tensor, alias)
        return alias

    def depends_on_outside(self, tensors: Sequence[Tensor]) -> bool:
        """Whether gradients of ``tensors`` are recorded outside, so that their history is of use."""
        return self.recording and self.reaches_outside(tensors)

    def reaches_outside(self, tensors: Sequence[Tensor]) -> bool:
        """Whether the history of ``tensors``, or of their tangents, leads to anything but the arguments."""
        level = state.local.dual_level
        if level is not None:
            tensors = [each for tensor in tensors for each in level.with_tangents(tensor)]
        return self._leads_outside(tensors)

    def _leads_outside(self, tensors: Sequence[Tensor]) -> bool:
        stack = [edge[0] for edge in (tensor._resolve_edge() for tensor in tensors) if edge is not None]
        seen = set(stack)
        while stack:
            node = stack.pop()
            if node.is_leaf or (type(node) is Argument and node.scope is not self and node.scope.running):
                return True
            for edge in node.next:
                if edge is not None and (source := edge[0]) not in seen:
                    seen.add(source)
                    stack.append(source)
        return False

    def released(self, value: Any, recorded: bool = False) -> Any:
        """The tensor to return: without its history, if that leads to the arguments only. Tangents likewise.

        A history is kept only if gradients are recorded outside, or if it is ``recorded`` in any case.
        """
        if not isinstance(value, Tensor):
            return value
        innermost = state.local.dual_level
        found = () if innermost is None else innermost.tangents(value)
        tangents = [(level, each, self.released(each, level.recorded)) for level, each in found]
        keeps = not value.requires_grad or ((self.recording or recorded) and self._leads_outside([value]))
        if keeps and all(each is handed_out for _, each, handed_out in tangents):
            return value
        alone = wrap(value._data, value._resolve_edge() if keeps else None, value._cell)
        for level, _, tangent in tangents:
            level.set(alone, tangent)
        return alone

    def released_tree(self, tree: Any) -> Any:
        return tree_map(self.released, tree)


def as_tensors(tree: Any) -> Any:
    """The tree with tensors for arrays."""
    return tree_map(as_tensor_leaf, tree)


# --- which arguments --------------------------------------------------------------------------------------------------

Argnums = int | tuple[int, ...]


def chosen(argnums: Argnums, args: tuple[Any, ...]) -> Any:
    """The arguments to differentiate: one, or a tuple.

    Raises
    ------
    RuntimeError
        If a position is out of range, given twice, or not an int.
    """
    if isinstance(argnums, int):
        return args[_position(argnums, len(args))]
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {argnums!r}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    positions = [_position(argnum, len(args)) for argnum in argnums]
    if len(set(positions)) != len(positions):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return tuple([args[position] for position in positions])


def _position(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnum must be int, got: {argnum!r}")
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def replaced(argnums: Argnums, args: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
    """The arguments with new ones in the chosen places."""
    arguments = list(args)
    if isinstance(argnums, int):
        arguments[argnums] = new
    else:
        for argnum, argument in zip(argnums, new, strict=True):
            arguments[argnum] = argument
    return tuple(arguments)


def split_aux(output: Any, has_aux: bool, transform: str) -> tuple[Any, Any]:
    """The output and the auxiliary values."""
    if not has_aux:
        return output, None
    if not isinstance(output, tuple) or len(output) != 2:
        raise RuntimeError(f"{transform}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return output


def check_differentiable(leaves: Sequence[Tensor], transform: str) -> None:
    """Raise unless a function returned tensors that can have gradients."""
    for leaf in leaves:
        if leaf._data.dtype.kind not in "fc":
            raise RuntimeError(
                f"{transform}: All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                f"{leaf.dtype}; return it as the second result, with has_aux=True"
            )


def check_real(leaves: Sequence[Any], transform: str, what: str) -> None:
    """Raise if a tensor is complex: a Jacobian would have to say which of its parts is meant."""
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor) and leaf._data.dtype.kind == "c":
            raise RuntimeError(
                f"{transform}: Expected all {what} to be real but received complex tensor at flattened input idx: "
                f"{position}; pass the real and imaginary parts, for example with view_as_real(), or use vjp or jvp"
            )


def check_tensors(leaves: Sequence[Any], transform: str) -> None:
    """Raise unless a function returned tensors only."""
    if not leaves:
        raise RuntimeError(f"{transform}: Expected f to be a function that has non-empty output (got output = ())")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"{transform}: expected f(*args) to return only tensors, got unsupported type {type(leaf)}"
                f"{without_history(leaf)}"
            )


def to_be_array(value: Any) -> str:
    """How to convert an argument that cannot be differentiated, for the end of an error message."""
    if is_torchs(value):
        return to_be_made(value)
    return (
        "; convert a number to an array, np.array(1.0), or a list of them, np.array([1.0, 2.0]), and exclude arguments "
        "without a derivative from argnums"
    )


def without_history(value: Any, has_aux: bool = False) -> str:
    """What was returned in place of a tensor, for the end of an error message."""
    if isinstance(value, tuple) and not has_aux:
        return "; with has_aux=True, the function may return a second result beside the value"
    if not isinstance(value, (int, float, complex, np.generic, np.ndarray)):
        return ""
    return (
        "; values computed from the arguments are tensors, unless something on the way takes only numbers (math.sin, "
        "float(), item()); a value that does not depend on the arguments has no derivative"
    )
