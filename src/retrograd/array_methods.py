"""What array types behind NumPy's dispatch (NEP 13, NEP 18) have in common: operators, and methods of its functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


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
