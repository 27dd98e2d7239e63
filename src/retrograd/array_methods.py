"""What array types behind NumPy's dispatch (NEP 13, NEP 18) have in common: operators, and methods of its functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


def outer(ufunc: Any, a: Any, b: Any, **kwargs: Any) -> Any:
    """``ufunc`` of every element of ``a`` with every element of ``b``, by broadcasting."""
    return ufunc(np.reshape(a, np.shape(a) + (1,) * np.ndim(b)), b, **kwargs)


def _method(name: str) -> Any:
    """A method that is NumPy's function of the same name."""
    function = getattr(np, name)

    def method(self: ArrayMethods, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


class ArrayMethods(NDArrayOperatorsMixin):
    """Operators and methods of arrays, all of which come back to the type by NumPy's dispatch."""

    __slots__ = ()

    def flatten(self, order: Any = "C") -> Any:
        return self.ravel(order).copy()

    def fill(self, value: Any) -> None:
        self[...] = value  # type: ignore[index]

    def transpose(self, *axes: Any) -> Any:
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return np.transpose(self, order)  # type: ignore[call-overload]

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        self[...] = np.sort(self, axis, kind)  # type: ignore[index, call-overload]

    all = _method("all")
    any = _method("any")
    argmax = _method("argmax")
    argmin = _method("argmin")
    argpartition = _method("argpartition")
    argsort = _method("argsort")
    clip = _method("clip")
    conj = _method("conj")
    conjugate = _method("conjugate")
    cumprod = _method("cumprod")
    cumsum = _method("cumsum")
    diagonal = _method("diagonal")
    dot = _method("dot")
    max = _method("max")
    mean = _method("mean")
    min = _method("min")
    nonzero = _method("nonzero")
    prod = _method("prod")
    ptp = _method("ptp")
    ravel = _method("ravel")
    repeat = _method("repeat")
    round = _method("round")
    searchsorted = _method("searchsorted")
    squeeze = _method("squeeze")
    std = _method("std")
    sum = _method("sum")
    swapaxes = _method("swapaxes")
    take = _method("take")
    trace = _method("trace")
    var = _method("var")


class ArrayBefore(ArrayMethods):
    """An array that wraps another one and has its shape, dtype and device."""

    __slots__ = ("array",)

    __hash__ = None  # type: ignore[assignment]

    array: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def itemsize(self) -> int:
        return self.array.itemsize

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        return self.array.strides

    @property
    def base(self) -> Any:
        return self.array  # arrays that share memory with it have the same owner

    @property
    def device(self) -> Any:
        return self.array.device

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[Any]:
        return iter([self[k] for k in range(len(self))])  # type: ignore[index]
