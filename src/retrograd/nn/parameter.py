"""Tensors that a module owns: parameters, which optimizers update, and buffers, which they leave alone.

Both are plain tensors with a mark. So operations treat them exactly as other tensors, at full speed, and the mark goes
along where the tensor is copied or pickled. ``isinstance`` looks at the mark.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.tensor import Tensor, wrap
from retrograd.dtypes import default_float

__all__ = ["Buffer", "Parameter"]


class _Marked(type):
    """The class of classes whose instances are known by an attribute rather than by their type."""

    _mark: str

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        # a subclass is an ordinary class; only Parameter and Buffer themselves recognise marked tensors
        return "_mark" in cls.__dict__ and isinstance(instance, Tensor) and cls._mark in instance.__dict__


def _leaf(kind: type[Tensor], data: Any, name: str) -> Tensor:
    """A leaf on the memory of ``data``; empty for None."""
    if data is None:
        data = wrap(np.empty(0, default_float()))
    if not isinstance(data, Tensor):
        raise TypeError(
            f"{name}(): argument 'data' must be Tensor, not {type(data).__name__}; "
            "make it a tensor first with retrograd.tensor"
        )
    source = data.detach()
    if kind in (Parameter, Buffer):
        kind = type(data)  # the tensor's own class is kept, as torch keeps it
    if kind is Tensor:
        return source
    leaf = Tensor.__new__(kind)
    Tensor.__init__(leaf, source)
    leaf._cell = source._cell
    leaf.__dict__.update(data.__dict__)
    return leaf


class Parameter(Tensor, metaclass=_Marked):
    """A tensor that becomes a parameter of the module it is assigned to.

    It appears in :meth:`Module.parameters` and in the module's state dict, and requires grad unless told otherwise.
    It shares memory with ``data``.

    Parameters
    ----------
    data
        The values; None for an empty tensor.
    requires_grad
        Whether operations on it are recorded.

    Raises
    ------
    TypeError
        If ``data`` is no tensor.
    RuntimeError
        If it requires grad but is neither floating point nor complex.

    Examples
    --------
    >>> w = rg.nn.Parameter(rg.ones(2))
    >>> w
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    >>> isinstance(w, rg.nn.Parameter), isinstance(w * 2, rg.nn.Parameter)
    (True, False)
    """

    _mark = "_is_param"

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        leaf = _leaf(cls, data, cls.__name__)
        leaf._is_param = True  # type: ignore[attr-defined]
        return leaf.requires_grad_(requires_grad)  # type: ignore[return-value]

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        """Nothing is left to do; :meth:`__new__` has made the tensor."""


class Buffer(Tensor, metaclass=_Marked):
    """A tensor that becomes a buffer of the module it is assigned to: state that is not learned.

    Parameters
    ----------
    data
        The values; None for an empty tensor.
    persistent
        Whether it is part of the module's state dict.
    """

    _mark = "_is_buffer"

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        leaf = _leaf(cls, data, cls.__name__)
        leaf._is_buffer = True  # type: ignore[attr-defined]
        leaf.persistent = persistent  # type: ignore[attr-defined]
        return leaf.requires_grad_(data is not None and data.requires_grad)  # type: ignore[return-value]

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        """Nothing is left to do; :meth:`__new__` has made the tensor."""
