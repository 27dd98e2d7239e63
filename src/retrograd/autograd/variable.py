"""``Variable``: what tensors with gradients were called before they were simply tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.core import state
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor


class ImperativeEngine:
    """The class of ``Variable._execution_engine``, for programs that queue callbacks for the end of a backward."""

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Call ``callback()`` once the backward under way has run all its nodes.

        A callback may queue another one. After an error none is called.

        Parameters
        ----------
        callback
            A function without arguments.

        Raises
        ------
        RuntimeError
            Outside of a backward.

        Examples
        --------
        >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
        >>> engine = rg.autograd.Variable._execution_engine
        >>> handle = x.register_hook(lambda grad: engine.queue_callback(lambda: print("done:", x.grad)))
        >>> (x * 2).sum().backward()
        done: tensor([2., 2.])
        """
        if state.local.graph_task is None:
            raise RuntimeError(
                "Final callbacks can only be installed during backward pass. Call queue_callback() in a hook or in the "
                "backward of a Function."
            )
        state.local.graph_task.callbacks.append(callback)


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
        If ``data`` is not a tensor.
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

    _execution_engine = ImperativeEngine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        if volatile:
            warn_user("volatile was removed and now has no effect. Use `with retrograd.no_grad():` instead.")
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)


__all__ = ["Variable", "VariableMeta"]
