"""Tensors that a module owns: parameters, which optimizers update, and buffers, which they leave alone.

Both are plain tensors with a mark. So operations treat them exactly as other tensors, at full speed, and the mark goes
along where the tensor is copied or pickled. ``isinstance`` looks at the mark.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.tensor import Tensor, wrap
from retrograd.creation import empty
from retrograd.device import as_device
from retrograd.device import device as Device
from retrograd.dtypes import as_dtype, default_float
from retrograd.dtypes import dtype as DType
from retrograd.ops.copying import parse_to

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


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
            f"{name}(): argument 'data' must be Tensor, not {type(data).__name__}; convert it first with "
            "retrograd.tensor"
        )
    source = data.detach()
    if kind in (Parameter, Buffer):
        kind = type(data)  # the tensor's own class is kept, as torch keeps it
    if kind is Tensor:
        return source
    leaf: Tensor = Tensor._make_subclass(kind, source)
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
        If ``data`` is not a tensor.
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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is left to do; :meth:`__new__` has made the tensor, in a subclass perhaps from other arguments."""


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
    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        leaf = _leaf(cls, data, cls.__name__)
        leaf._is_buffer = True  # type: ignore[attr-defined]
        leaf.persistent = persistent  # type: ignore[attr-defined]
        return leaf.requires_grad_(data is not None and data.requires_grad)  # type: ignore[return-value]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is left to do; :meth:`__new__` has made the tensor."""


# --- without a shape --------------------------------------------------------------------------------------------------


class UninitializedTensorMixin(Tensor):
    """A tensor that has a dtype and a device, but no shape and no elements yet.

    It can be converted to another dtype or device, and gets elements by :meth:`materialize`; everything else raises.
    """

    _pending_dtype: DType
    _pending_device: Device

    def __new__(cls, requires_grad: bool = False, device: Any = None, dtype: Any = None) -> Any:
        self = Tensor.__new__(cls)
        self._edge = self._cell = self._meta = self._grad = None
        self._pending_dtype = as_dtype(default_float() if dtype is None else dtype)
        self._pending_device = as_device("cpu" if device is None else device)
        return self.requires_grad_(requires_grad)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is left to do; :meth:`__new__` has made the tensor."""

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give it a shape, and elements that are yet to be set; from here on it is an ordinary tensor.

        Parameters
        ----------
        shape
            The length of every dimension; one number for a vector.
        device, dtype
            Those it has already, by default.
        """
        device = self._pending_device if device is None else device
        dtype = self._pending_dtype if dtype is None else dtype
        elements = empty(shape, device=device, dtype=dtype)._data
        del self._pending_dtype, self._pending_device
        self.__class__ = Tensor  # type: ignore[assignment]  # the same object, which optimizers may have already
        self._data = elements  # type: ignore[misc]  # no longer the property below

    @property
    def _data(self) -> Any:  # type: ignore[override]
        raise ValueError(
            f"Attempted to use an uninitialized {self._kind()}, whose shape is not known yet. Call the module with a "
            "batch of the right shape first, which initializes it"
        )

    @property
    def shape(self) -> Any:
        """Raise: there is none yet."""
        raise RuntimeError(
            f"Can't access the shape of an uninitialized {self._kind()}. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def _kind(self) -> str:
        return "parameter" if isinstance(self, Parameter) else "buffer"

    @property
    def dtype(self) -> DType:
        """The dtype that the elements will have."""
        return self._pending_dtype

    @property
    def device(self) -> Device:
        """The device that the elements will be on."""
        return self._pending_device

    def is_floating_point(self) -> bool:
        """Whether the dtype is a real floating-point one."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self.dtype.is_complex

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Turn recording on or off."""
        if requires_grad and not (self.is_floating_point() or self.is_complex()):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        self._own_meta().requires_grad = requires_grad
        return self

    def to(self, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, **ignored: Any) -> Any:
        """Return one that will have another dtype, or be on another device."""
        dtype, device, _ = parse_to(args, dtype, device, copy, ignored)
        return type(self)(self.requires_grad, device or self.device, dtype or self.dtype)

    def detach(self) -> Any:
        """Return the tensor itself; there are no elements to share."""
        return self

    @property
    def data(self) -> Any:
        """The tensor itself."""
        return self

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, UninitializedTensorMixin):
            raise ValueError(f"an uninitialized {self._kind()} gets its elements only from materialize()")
        self._pending_dtype, self._pending_device = value.dtype, value.device

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype)


class UninitializedParameter(UninitializedTensorMixin):
    """A parameter whose shape is not known yet; lazy modules, such as :class:`LazyLinear`, begin with them.

    Parameters
    ----------
    requires_grad
        Whether operations on it will be recorded.
    device, dtype
        Where it will be, and the dtype it will have.

    Examples
    --------
    >>> w = rg.nn.UninitializedParameter()
    >>> w
    <UninitializedParameter>
    >>> w.materialize((2, 3))
    >>> isinstance(w, rg.nn.Parameter), w.shape
    (True, retrograd.Size([2, 3]))
    """

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        self = super().__new__(cls, requires_grad, device, dtype)
        self._is_param = True
        return self


class UninitializedBuffer(UninitializedTensorMixin):
    """A buffer whose shape is not known yet.

    Parameters
    ----------
    requires_grad
        Whether operations on it will be recorded.
    device, dtype
        Where it will be, and the dtype it will have.
    persistent
        Whether it is part of the module's state dict.
    """

    persistent: bool

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        self = super().__new__(cls, requires_grad, device, dtype)
        self._is_buffer = True
        self.persistent = persistent
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype, self.persistent)


def is_lazy(param: Any) -> bool:
    """Whether a tensor is a parameter or a buffer whose shape is not known yet."""
    return isinstance(param, UninitializedTensorMixin)
