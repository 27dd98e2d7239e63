"""Trigonometric and hyperbolic functions, their inverses, and angles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.core.op import elementwise
from retrograd.core.registry import implements
from retrograd.core.tensor import Tensor
from retrograd.ops._checks import check_kind
from retrograd.ops._rules import conj, in_floats, keep

# --- trigonometric functions ------------------------------------------------------------------------------------------


@elementwise(np.sin, int_to_float=True, input=lambda g, input: g * conj(np.cos(input)))
def sin(input):
    """Return the sine of ``input`` in radians.

    >>> rg.sin(rg.tensor([0., 1.]))
    tensor([0.0000, 0.8415])
    """


@elementwise(np.cos, int_to_float=True, input=lambda g, input: -g * conj(np.sin(input)))
def cos(input):
    """Return the cosine of ``input`` in radians."""


@elementwise(np.tan, int_to_float=True, input=lambda g, result: g * conj(1 + result * result))
def tan(input):
    """Return the tangent of ``input`` in radians."""


# (-1)^k 2k / (2k + 1)!, from the highest power down
_SINC_SLOPE = [(-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(8, 0, -1)]


def _sinc_rule(g: Any, input: Any) -> Any:
    """The slope (x cos x - sin x) / x² of sin x / x; near 0, where the difference is lost in rounding, as a series."""
    x = np.pi * input
    small = np.abs(x) < 0.5
    near, far = np.where(small, x, 0), np.where(small, 1, x)
    square = near * near
    series: Any = 0.0
    for coefficient in _SINC_SLOPE:
        series = series * square + coefficient
    slope = np.where(small, series * near, (far * np.cos(far) - np.sin(far)) / (far * far))
    return g * conj(np.pi * slope)


@elementwise(int_to_float=True, input=_sinc_rule)
def sinc(input):
    """Return ``sin(πx) / (πx)``, and 1 at 0."""
    x = np.pi * np.where(input == 0, 1, input)
    return np.where(input == 0, 1, np.sin(x) / x)


# --- their inverses ---------------------------------------------------------------------------------------------------


@elementwise(
    np.arcsin,
    name="asin",
    int_to_float=True,
    aliases=("arcsin",),
    input=lambda g, input: g / conj(np.sqrt(1 - input * input)),
)
def asin(input):
    """Return the arcsine, an angle from -π/2 to π/2; NaN outside of [-1, 1]."""


@elementwise(
    np.arccos,
    int_to_float=True,
    aliases=("arccos",),
    input=lambda g, input: -g / conj(np.sqrt(1 - input * input)),
)
def acos(input):
    """Return the arccosine, an angle from 0 to π; NaN outside of [-1, 1]."""


@elementwise(
    np.arctan,
    int_to_float=True,
    aliases=("arctan",),
    input=lambda g, input: g / conj(1 + input * input),
)
def atan(input):
    """Return the arctangent, an angle from -π/2 to π/2."""


def _by_square_of_radius(g: Any, value: Any, input: Any, other: Any) -> Any:
    """``g * value / (input² + other²)``, and 0 at the origin, where :func:`atan2` has no derivative."""
    input, other = in_floats(input, g), in_floats(other, g)
    squared = input * input + other * other
    return g * keep(value / squared, squared != 0)


@elementwise(
    np.arctan2,
    int_to_float=True,
    aliases=("arctan2",),
    input=lambda g, input, other: _by_square_of_radius(g, other, input, other),
    other=lambda g, input, other: _by_square_of_radius(-g, input, input, other),
)
def atan2(input, other):
    """Return the angle, from -π to π, of the point at ``x = other`` and ``y = input``.

    >>> rg.atan2(rg.tensor([1., -1.]), rg.tensor([-1., -1.]))
    tensor([ 2.3562, -2.3562])
    """


arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2


# --- hyperbolic functions ---------------------------------------------------------------------------------------------


@elementwise(np.sinh, int_to_float=True, input=lambda g, input: g * conj(np.cosh(input)))
def sinh(input):
    """Return the hyperbolic sine."""


@elementwise(np.cosh, int_to_float=True, input=lambda g, input: g * conj(np.sinh(input)))
def cosh(input):
    """Return the hyperbolic cosine."""


@elementwise(np.tanh, int_to_float=True, input=lambda g, result: g * conj(1 - result * result))
def tanh(input):
    """Return the hyperbolic tangent."""


@elementwise(
    np.arcsinh,
    int_to_float=True,
    aliases=("arcsinh",),
    input=lambda g, input: g / conj(np.sqrt(input * input + 1)),
)
def asinh(input):
    """Return the inverse hyperbolic sine."""


# of complex numbers, the square root of the product has the wrong sign in the left half-plane, and the product of the
# roots is NaN at infinity; on the branch cut the sign of a zero tells the side, which adding 1 would lose
def _acosh_rule(g: Any, input: Any) -> Any:
    if input.dtype.kind == "c":
        return g / conj(np.sqrt(input - 1)) / conj(np.sqrt(input - -1))
    return g / np.sqrt(input * input - 1)


@elementwise(np.arccosh, int_to_float=True, aliases=("arccosh",), input=_acosh_rule)
def acosh(input):
    """Return the inverse hyperbolic cosine; NaN below 1."""


@elementwise(
    np.arctanh,
    int_to_float=True,
    aliases=("arctanh",),
    input=lambda g, input: g / conj(1 - input * input),
)
def atanh(input):
    """Return the inverse hyperbolic tangent; NaN outside of [-1, 1]."""


arcsinh, arccosh, arctanh = asinh, acosh, atanh


# --- units of angles --------------------------------------------------------------------------------------------------


# products, because NumPy's own functions take ten times as long
@elementwise(
    numpy=(np.deg2rad, np.radians), int_to_float=True, node_name="Deg2RadBackward0", input=lambda g: g * (math.pi / 180)
)
def deg2rad(input):
    """Return angles in degrees as radians."""
    check_kind("deg2rad", "f", input)
    return input * (math.pi / 180)


@elementwise(
    numpy=(np.rad2deg, np.degrees), int_to_float=True, node_name="Rad2DegBackward0", input=lambda g: g * (180 / math.pi)
)
def rad2deg(input):
    """Return angles in radians as degrees."""
    check_kind("rad2deg", "f", input)
    return input * (180 / math.pi)


@implements(np.sinc)
def _numpy_sinc(x: Any) -> Tensor:
    return sinc(x)


@implements(np.unwrap)
def _unwrap(p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi) -> Tensor:
    # the turns that are added are constant almost everywhere
    return p + (np.unwrap(p._data, discont, axis, period=period) - p._data)
