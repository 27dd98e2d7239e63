"""Rounding. What is rounded is constant almost everywhere, and its derivative is 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.op import elementwise
from retrograd.core.registry import implements
from retrograd.core.tensor import Tensor
from retrograd.ops._checks import check_kind
from retrograd.ops._rules import keep, zero


def _rounded(name: str, ufunc: Any, input: Any) -> Any:
    check_kind(name, "iuf", input)
    return input.copy(order="K") if input.dtype.kind in "iu" else ufunc(input)


@elementwise(numpy=(np.ceil,), input=zero)
def ceil(input):
    """Return the smallest integer not below ``input``, in the same dtype."""
    return _rounded("ceil", np.ceil, input)


@elementwise(numpy=(np.floor,), input=zero)
def floor(input):
    """Return the largest integer not above ``input``, in the same dtype."""
    return _rounded("floor", np.floor, input)


@elementwise(aliases=("fix",), numpy=(np.trunc,), input=zero)
def trunc(input):
    """Return ``input`` rounded towards zero, in the same dtype."""
    return _rounded("trunc", np.trunc, input)


fix = trunc


@elementwise(input=lambda g: g)
def frac(input):
    """Return ``input - trunc(input)``, which has the sign of ``input``."""
    check_kind("frac", "f", input)
    return input - np.trunc(input)


@elementwise(input=zero)
def round(input, decimals: int = 0):
    """Return ``input`` rounded to ``decimals`` digits after the point (before it, if negative); halves become even.

    >>> rg.round(rg.tensor([0.5, 1.5, 2.75]))
    tensor([0., 2., 3.])
    >>> rg.round(rg.tensor([0.25, 1234.5]), decimals=-2)
    tensor([   0., 1200.])
    """
    if decimals == 0:
        return _rounded("round", np.rint, input)
    check_kind("round", "f", input)
    scale = 10.0 ** abs(decimals)
    return np.rint(input * scale) / scale if decimals > 0 else np.rint(input / scale) * scale


@elementwise(
    numpy=(np.nextafter,),
    opmath=False,
    input=lambda g, input, other: keep(g, input != other),
    other=zero,
)
def nextafter(input, other):
    """Return the next floating-point number from ``input`` towards ``other``."""
    check_kind("nextafter", "f", input)
    return np.nextafter(input, other)


@elementwise(np.spacing, public=False, method=False, input=zero)
def _spacing(input):
    """Return the distance to the next floating-point number; NumPy's function, which torch does not have."""


@implements(np.round, np.around)
def _numpy_round(a: Any, decimals: int = 0, out: Any = None) -> Tensor:
    return round(a, decimals, out=out)


@implements(np.rint)
def _rint(x: Any) -> Tensor:
    return round(x)


@implements(np.fix)
def _fix(x: Any, out: Any = None) -> Tensor:
    return trunc(x, out=out)


@implements(np.modf)
def _modf(x: Any) -> tuple[Tensor, Tensor]:
    return frac(np.where(np.isinf(x), 0, x)), trunc(x)
