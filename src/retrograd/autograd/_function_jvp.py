"""The tangents of what a user-written Function returns: calling its ``jvp``, and checking what that gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retrograd.core import state
from retrograd.core.forward_mode import Level, fit_tangent, step_back, zeros_like
from retrograd.core.tensor import Tensor

if TYPE_CHECKING:
    from retrograd.autograd._function_node import FunctionNode


def propagate(
    node: FunctionNode, args: Sequence[Any], raw: Sequence[Any], outputs: Sequence[Any], level: Level
) -> None:
    """Give the outputs of a Function their tangents.

    Parameters
    ----------
    args
        What ``forward`` was given.
    raw, outputs
        What it returned, and the outputs made from that.
    """
    before = level.step_out()
    try:
        if level.outer is not None:
            propagate(node, args, raw, outputs, level.outer)
        tangents = [level.tangent(arg) if isinstance(arg, Tensor) else None for arg in args]
        if any(tangent is not None for tangent in tangents):
            _Outputs(node, args, tangents, level).take(raw, outputs)
    finally:
        step_back(before)


class _Outputs:
    """One call of ``jvp``, and how its results must relate to the tangents passed to it."""

    def __init__(self, node: FunctionNode, args: Sequence[Any], tangents: list[Tensor | None], level: Level) -> None:
        self.node = node
        self.ctx = node.ctx
        self.args = args
        self.tangents = tangents
        self.level = level
        self.versions = [None if tangent is None else tangent._version for tangent in tangents]

    def take(self, raw: Sequence[Any], outputs: Sequence[Any]) -> None:
        made = self._call()
        if len(made) != len(outputs):
            raise RuntimeError(
                "Function's jvp returned an invalid number of forward gradients "
                f"(expected {len(outputs)} but got {len(made)}): jvp of {self.node.function.__name__} must return one "
                "for each output of forward"
            )
        for nr, (before, output, tangent) in enumerate(zip(raw, outputs, made, strict=True)):
            if not self._is_differentiable(nr, before, tangent):
                if isinstance(output, Tensor):
                    self.level.set(output, None)
            elif any(before is dirty for dirty in self.ctx.dirty_tensors):
                self._overwrite(before, tangent)
            else:
                self._set(output, tangent)
            if tangent is not None:
                self.level.keep(self.node, nr, tangent)

    def _call(self) -> tuple[Any, ...]:
        tangents = [
            zeros_like(arg)
            if tangent is None
            and self.ctx.materialize_grads
            and isinstance(arg, Tensor)
            and arg._data.dtype.kind in "fc"
            else tangent
            for arg, tangent in zip(self.args, self.tangents, strict=True)
        ]
        made = self.node.function.jvp(self.ctx, *tangents)
        return made if isinstance(made, tuple) else (made,)

    def _is_differentiable(self, nr: int, output: Any, tangent: Any) -> bool:
        if tangent is not None and not isinstance(tangent, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(tangent).__name__}) for grad output {nr}.")
        if (
            not isinstance(output, Tensor)
            or output._data.dtype.kind not in "fc"
            or any(output is other for other in self.ctx.non_differentiable)
        ):
            if tangent is not None:
                raise RuntimeError(
                    f"Function's jvp returned a gradient at position {nr}, but the corresponding forward output is not "
                    "a differentiable Tensor. You should return None at that position instead."
                )
            return False
        name = self.node.function.__name__
        if tangent is None:
            raise RuntimeError(
                f"Function's jvp returned None at position {nr}, but the corresponding forward output of {name} is "
                "differentiable. Return zeros there, or mark the output with ctx.mark_non_differentiable()."
            )
        if tangent._data.dtype.kind not in "fc":
            raise RuntimeError(
                f"Expected both tensor and its forward grad to be floating point or complex, but jvp of {name} "
                f"returned {tangent.dtype} at position {nr}"
            )
        if tangent._data.shape != output._data.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
                f"not supported. Tensor is of size {list(output.shape)} while the given forward gradient is of size "
                f"{list(tangent.shape)}: jvp of {name}, position {nr}."
            )
        return True

    def _overwrite(self, written: Tensor, tangent: Tensor) -> None:
        """Take the tangent of an input that was written to, and which may not be what the call returns."""
        nr = next((k for k, arg in enumerate(self.args) if arg is written), None)
        if nr is None:
            raise RuntimeError(
                "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an input, there is no need "
                "to pass it to mark_dirty()."
            )
        given = self.tangents[nr]
        if given is None:
            self.level.write(written, tangent)
            return
        if tangent._version == self.versions[nr]:
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
            )
        if tangent is not given:
            raise RuntimeError(
                "An inplace custom Function is not returning the forward mode gradients as-is. If the forward is "
                "modifying an input inplace, then the jvp function must modify the gradient inplace and return it "
                "as-is."
            )

    def _set(self, output: Tensor, tangent: Tensor) -> None:
        """Take the tangent of a new output, which is a view of an input's where the output is a view of the input."""
        for arg, given in zip(self.args, self.tangents, strict=True):
            if not output._is_view() or not isinstance(arg, Tensor) or _root(arg) is not _root(output):
                continue
            if given is None:
                self.level.write(output, tangent)
                return
            is_its_view = tangent._is_view() and _root(tangent) is _root(given)
            if state.local.transforms and not is_its_view:  # whose levels end with the call: torch takes any tensor
                break
            if not tangent._is_view():
                raise RuntimeError(
                    "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning "
                    "a view. Return the same view of the tangent (tangent.view_as(tangent), for an input as-is)."
                )
            if not is_its_view:
                raise RuntimeError(
                    "A custom Function is returning a view but the jvp is not returning a view of the given grad input."
                )
            self.level.set(output, tangent)
            return
        self.level.set(output, fit_tangent(tangent, output))


def _root(tensor: Tensor) -> Tensor:
    return tensor if tensor._base is None else _root(tensor._base)
