"""Forward-mode differentiation, as ``torch.autograd.forward_ad`` has it: tangents travel along with the values.

The tangent of an operation's result is its Jacobian times the tangents of its operands. A rule gives the transposed
product (the gradient of the operands for one of the result), which is linear in that gradient; its own transpose, taken
by differentiating it once more, is the product wanted. So every operation that can be differentiated twice has a
forward mode, and so has every :class:`~retrograd.autograd.Function` with a ``jvp``.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np

from retrograd.core import state
from retrograd.core.op import Op
from retrograd.core.record import apply
from retrograd.core.tensor import Tensor, wrap

_GRADIENT_FREE = "biu"


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent, which is None if it has none."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Enter a level in which tensors can have tangents; there is one at a time.

    Raises
    ------
    RuntimeError
        If a level is active already: nested forward mode is not supported.
    """
    if state.local.tangents is not None:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment: leave the dual level before entering another one"
        )
    state.local.tangents = propagate
    state.local.duals = []
    state.refresh()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Leave the level; its tangents are gone.

    Raises
    ------
    RuntimeError
        If no level is active, or another one than ``level``.
    """
    if state.local.tangents is None:
        raise RuntimeError("Trying to exit a forward AD level but no level is active: call enter_dual_level() first")
    if level not in (None, 0):
        raise RuntimeError(f"Trying to exit a forward AD level that was not the last one that was created: {level}")
    state.local.tangents = None
    state.refresh()
    for ref in state.local.duals:
        tensor = ref()
        if tensor is not None and tensor._meta is not None:
            tensor._meta.tangent = None
    state.local.duals = []


class dual_level:  # noqa: N801 (torch's name)
    """A block in which tensors can have tangents.

    Examples
    --------
    >>> import retrograd.autograd.forward_ad as fwAD
    >>> x, v = rg.tensor([1.0, 2.0]), rg.tensor([1.0, 0.5])
    >>> with fwAD.dual_level():
    ...     y = fwAD.make_dual(x, v) ** 3
    ...     fwAD.unpack_dual(y).tangent
    tensor([3., 6.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a tensor with the values and history of ``tensor`` that carries ``tangent``.

    Raises
    ------
    RuntimeError
        If no level is active, or if the shapes differ.
    ValueError
        If the dtype of ``tensor`` or ``tangent`` is neither floating point nor complex.
    """
    if state.local.tangents is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if value._data.dtype.kind in _GRADIENT_FREE:
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {value.dtype}")
    if tensor._data.shape != tangent._data.shape:
        raise RuntimeError(
            f"Trying to set a forward gradient of shape {list(tangent.shape)} on a tensor of shape "
            f"{list(tensor.shape)}; they must be equal"
        )
    dual = tensor.view_as(tensor)
    _attach(dual, tangent)
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the value, without the tangent, and the tangent of a tensor."""
    tangent = tangent_of(tensor)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    previous, state.local.tangents = state.local.tangents, None
    try:
        return UnpackedDualTensor(tensor.view_as(tensor), tangent)
    finally:
        state.local.tangents = previous


def tangent_of(value: Any) -> Tensor | None:
    """The tangent that a value carries in the current level."""
    return value._meta.tangent if isinstance(value, Tensor) and value._meta is not None else None


def _attach(tensor: Tensor, tangent: Tensor) -> None:
    tensor._own_meta().tangent = tangent
    state.local.duals.append(weakref.ref(tensor))


def _zeros(tensor: Tensor) -> Tensor:
    return wrap(np.zeros_like(tensor._data))


def propagate(op: Op, bound: list[Any], results: Any) -> None:
    """Give the results of an operation their tangents; called after each operation of a level."""
    tangents: list[Tensor] = []
    aliases: list[Tensor] = []
    differentiable = False  # whether the tangents will have a history of their own
    recording = state.local.grad_enabled
    outer, state.local.tangents = state.local.tangents, None
    state.set_grad_enabled(True)
    try:

        def alias(value: Any) -> Any:
            """A stand-in for an operand, to differentiate with respect to; its history reaches the operand's."""
            nonlocal differentiable
            tangent = tangent_of(value)
            if tangent is None:
                return value if recording or not isinstance(value, Tensor) else wrap(value._data)
            other = value.clone() if recording and value.requires_grad else wrap(value._data).requires_grad_()
            differentiable = differentiable or (recording and (value.requires_grad or tangent.requires_grad))
            aliases.append(other)
            tangents.append(tangent)
            return other

        substituted = [
            [alias(item) for item in value]
            if isinstance(value, (list, tuple)) and position == op.sequence_position
            else value
            for position, value in enumerate(bound)
        ]
        for position in op.edge_positions:
            if position != op.sequence_position:
                substituted[position] = alias(substituted[position])
        if not aliases:
            return
        again = apply(op, substituted)
        outputs = [again] if isinstance(again, Tensor) else list(again)
        targets = [results] if isinstance(results, Tensor) else list(results)
        pairs = [(out, target) for out, target in zip(outputs, targets, strict=True) if out.requires_grad]
        for target, tangent in zip(
            (target for _, target in pairs),
            _transpose([out for out, _ in pairs], aliases, tangents, differentiable),
            strict=True,
        ):
            _attach(target, tangent)
    finally:
        state.set_grad_enabled(recording)
        state.local.tangents = outer
        state.refresh()


def _transpose(
    outputs: list[Tensor], inputs: list[Tensor], tangents: list[Tensor], differentiable: bool
) -> list[Tensor]:
    """The Jacobian times the tangents, by differentiating the vector-Jacobian product by its vector."""
    from retrograd.autograd import grad

    if not outputs:
        return []
    vectors = [_zeros(out).requires_grad_() for out in outputs]
    products = grad(outputs, inputs, vectors, create_graph=True, allow_unused=True)
    linear = [(p, t) for p, t in zip(products, tangents, strict=True) if p is not None and p.requires_grad]
    if not linear:
        return [_zeros(out) for out in outputs]
    return list(
        grad(
            [p for p, _ in linear],
            vectors,
            [t.to(p.dtype) for p, t in linear],
            create_graph=differentiable,
            allow_unused=True,
            materialize_grads=True,
        )
    )


def propagate_function(function: Any, ctx: Any, args: tuple[Any, ...], outputs: Any) -> None:
    """Give the outputs of a custom Function the tangents that its ``jvp`` computes."""
    tangents = [tangent_of(arg) for arg in args]
    if not any(tangent is not None for tangent in tangents):
        return
    if ctx.materialize_grads:
        tangents = [
            _zeros(arg) if tangent is None and isinstance(arg, Tensor) else tangent
            for arg, tangent in zip(args, tangents, strict=True)
        ]
    given = function.jvp(ctx, *tangents)
    single = isinstance(outputs, Tensor)
    made = (given,) if single and not isinstance(given, tuple) else tuple(given)
    targets = (outputs,) if single else tuple(outputs)
    if len(made) != len(targets):
        raise RuntimeError(
            f"jvp of {function.__name__} returned an incorrect number of tangents "
            f"(expected {len(targets)}, got {len(made)})"
        )
    for target, tangent in zip(targets, made, strict=True):
        if tangent is not None and isinstance(target, Tensor):
            if tangent._data.shape != target._data.shape:
                raise RuntimeError(
                    f"jvp of {function.__name__} returned a tangent of shape {list(tangent.shape)} for an output of "
                    f"shape {list(target.shape)}"
                )
            _attach(target, tangent)


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
