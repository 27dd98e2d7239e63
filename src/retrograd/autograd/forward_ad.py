"""Forward-mode differentiation, as ``torch.autograd.forward_ad`` has it: tangents travel along with the values.

A *dual tensor* is a value with a tangent, the direction in which it is moved. Every operation on dual tensors gives
dual tensors: the tangent of a result is the Jacobian of the operation times the tangents of its operands. One pass
through a function gives its value and the product of its Jacobian with one vector, and keeps nothing for a backward. On
large tensors it takes about three times as long as the value.

Nothing has to be written for it: the products are derived from the rules of reverse mode, see
:mod:`retrograd.core.jvp`. A user-written :class:`~retrograd.autograd.Function` has a ``jvp``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from retrograd.autograd.grad_mode import _Mode, _Switch
from retrograd.core import state
from retrograd.core.errors import kind_name, no_tensor, to_be_made
from retrograd.core.forward_mode import Level, check_dual, fit_tangent
from retrograd.core.tensor import Tensor


class UnpackedDualTensor(NamedTuple):
    """What :func:`unpack_dual` returns: the value, and the tangent, which is None if it has none."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Enter a level in which tensors can have tangents. There is one at a time in a thread.

    Returns
    -------
    int
        The number of the level, 0.

    Raises
    ------
    RuntimeError
        If a level is active already.

    See Also
    --------
    dual_level : the same for a block, which leaves the level by itself
    """
    if state.local.dual_level is not None:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment; leave the dual level before entering another one"
        )
    state.set_dual_level(Level())
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Leave the level. All tangents of tensors are gone with it; those that were unpacked stay as ordinary tensors.

    Parameters
    ----------
    level
        Which one: 0, or None for the one that is active.

    Raises
    ------
    RuntimeError
        If no level is active, or if ``level`` is another one.
    """
    current = state.local.dual_level
    if current is None:
        raise RuntimeError(
            "Trying to exit a forward AD level but no level exists, make sure to enter_dual_level() first."
        )
    if level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported. "
            f"The level is 0, but got {level}"
        )
    state.set_dual_level(None)
    current.leave()


class dual_level(_Mode):  # noqa: N801 (torch's name)
    """A block in which tensors can have tangents; a decorator of functions, too.

    Levels cannot be nested. Tangents do not outlive the block, unless they are unpacked.

    Examples
    --------
    >>> import retrograd.autograd.forward_ad as fwAD
    >>> x, v = rg.tensor([1.0, 2.0]), rg.tensor([1.0, 0.5])
    >>> with fwAD.dual_level():
    ...     y = fwAD.make_dual(x, v) ** 3
    ...     value, tangent = fwAD.unpack_dual(y)
    >>> value, tangent
    (tensor([1., 8.]), tensor([3., 6.]))
    >>> fwAD.unpack_dual(y).tangent is None
    True
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a view of ``tensor`` that has a tangent. Gradients flow through it to both.

    Parameters
    ----------
    tensor
        The value, of a floating-point or complex dtype.
    tangent
        Of the same shape. It becomes the tangent as it is, and is written to where the result is; it is copied
        only if it has another dtype or another order of the elements in memory.
    level
        Taken for compatibility; the only level is 0.

    Raises
    ------
    RuntimeError
        If no level is active, if the shapes differ, or if ``tensor`` or ``tangent`` has a tangent itself.
    ValueError
        If a dtype is neither floating point nor complex, or ``tangent`` complex where ``tensor`` is real.

    Examples
    --------
    >>> import retrograd.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(rg.tensor([0.0, 1.0]), rg.tensor([1.0, 10.0]))
    ...     x * x
    tensor([0., 1.], tangent=tensor([ 0., 20.]))
    """
    current = _current(level)
    if current is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(value, Tensor):
            raise TypeError(f"make_dual(): the {name} must be a Tensor, not {kind_name(value)}{to_be_made(value)}")
    check_dual(tensor, tangent)
    if current.tangent(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported. Unpack it first: make_dual(unpack_dual(tensor).primal, tangent)"
        )
    if current.tangent(tangent) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level 0 is not supported."
        )
    previous = state.set_dual_level(current.outer)
    try:
        dual = tensor.view_as(tensor)
        current.set(dual, fit_tangent(tangent, dual))
    finally:
        state.set_dual_level(previous)
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the value and the tangent of a tensor: a view of it that has no tangent, and the tangent itself.

    Gradients flow through both.

    Parameters
    ----------
    tensor
        Any tensor; one without a tangent has the tangent None.
    level
        Taken for compatibility; the only level is 0.

    Raises
    ------
    RuntimeError
        For another ``level``.
    TypeError
        If ``tensor`` is none.

    Examples
    --------
    >>> import retrograd.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(rg.tensor([0.0, 1.0]), rg.tensor([1.0, 10.0]))
    ...     fwAD.unpack_dual(x.sin())
    UnpackedDualTensor(primal=tensor([0.0000, 0.8415]), tangent=tensor([1.0000, 5.4030]))
    """
    if not isinstance(tensor, Tensor):
        raise no_tensor("unpack_dual", "argument 'tensor' (position 1)", tensor)
    current = _current(level)
    if current is None:
        return UnpackedDualTensor(tensor, None)
    tangent = None if state.local.tangents is None else current.tangent(tensor)
    previous = state.set_dual_level(current.outer)
    try:
        primal = tensor.view_as(tensor)
        current.set(primal, None)
    finally:
        state.set_dual_level(previous)
    if state.monitor is not None and current.outer is None:
        state.monitor.after_forward([tensor], [tangent])
    return UnpackedDualTensor(primal, tangent)


def _current(level: int | None) -> Level | None:
    """The active level, None if there is none; an error if ``level`` is another one."""
    if level not in (None, 0):
        raise RuntimeError(f"Invalid level given: {level}; the only level is 0")
    return state.local.dual_level


def _is_fwd_grad_enabled() -> bool:
    """Whether operations of this thread propagate tangents, if there are any."""
    return state.local.forward_enabled and not state.local.inference


class _set_fwd_grad_enabled(_Switch):  # noqa: N801 (torch's name)
    """Switch forward mode on or off in this thread, at once and until the end of the block.

    :class:`~retrograd.no_grad` does not switch it off; this and inference mode do. Tensors keep their tangents
    meanwhile, although operations ignore them.
    """

    _field = "forward_enabled"


__all__: list[Any] = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]
