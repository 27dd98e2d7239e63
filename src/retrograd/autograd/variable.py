"""``Variable``: what tensors with gradients were called before they were simply tensors."""

from __future__ import annotations

from typing import Any

from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor


class VariableMeta(type):
    """Makes every Tensor an instance of :class:`Variable`."""

    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=VariableMeta):
    """Deprecated alias of Tensor, for old programs: every Tensor is an instance, and calling it returns a Tensor.

    Use :func:`retrograd.tensor`, ``x.detach()`` and ``x.requires_grad_()`` instead.

    Parameters
    ----------
    data
        A tensor. The result shares its storage, not its history.
    requires_grad
        Whether the result requires grad.
    volatile
        Without effect, with a warning if it is true; use ``retrograd.no_grad()`` instead.

    Raises
    ------
    TypeError
        If ``data`` is no tensor.
    RuntimeError
        If ``requires_grad`` is true and the dtype is neither floating point nor complex.

    Examples
    --------
    >>> x = rg.autograd.Variable(rg.ones(2), requires_grad=True)
    >>> x
    tensor([1., 1.], requires_grad=True)
    >>> type(x) is rg.Tensor and isinstance(x, rg.autograd.Variable)
    True
    """

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        if volatile:
            warn_user("volatile was removed and now has no effect. Use `with retrograd.no_grad():` instead.")
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)


__all__ = ["Variable", "VariableMeta"]
