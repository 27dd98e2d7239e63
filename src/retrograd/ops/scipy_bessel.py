"""SciPy's solutions of differential equations on Tensors: Bessel functions and their relatives, elliptic integrals,
hypergeometric functions, orthogonal polynomials.

As in :mod:`retrograd.ops.scipy_special`, these are called by SciPy's names. Orders and parameters have no derivative.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.ops._rules import conj
from retrograd.ops._scipy import hidden_ufunc, of_order, sc

# --- Bessel functions, DLMF 10.6.1 and 10.29.1 ------------------------------------------------------------------------


@of_order("jv", input=lambda g, v, input: g * conj((sc.jv(v - 1, input) - sc.jv(v + 1, input)) / 2))
def jv(v, input):
    """The Bessel function of the first kind."""


@of_order("yv", input=lambda g, v, input: g * conj((sc.yv(v - 1, input) - sc.yv(v + 1, input)) / 2))
def yv(v, input):
    """The Bessel function of the second kind."""


@of_order("iv", input=lambda g, v, input: g * conj((sc.iv(v - 1, input) + sc.iv(v + 1, input)) / 2))
def iv(v, input):
    """The modified Bessel function of the first kind."""


@of_order("kv", input=lambda g, v, input: g * conj((sc.kv(v - 1, input) + sc.kv(v + 1, input)) / -2))
def kv(v, input):
    """The modified Bessel function of the second kind."""


@hidden_ufunc("yn", input=lambda g, n, input: g * ((sc.yv(n - 1, input) - sc.yv(n + 1, input)) / 2))
def yn(n, input):
    """The Bessel function of the second kind of integer order."""


@hidden_ufunc("kn", input=lambda g, n, input: g * ((sc.kv(n - 1, input) + sc.kv(n + 1, input)) / -2))
def kn(n, input):
    """The modified Bessel function of the second kind of integer order."""


def real_only(name: str, input: Any) -> None:
    """Refuse to differentiate a function scaled by the absolute value of a part of its argument."""
    if input.dtype.kind == "c":
        raise NotImplementedError(f"the derivative for '{name}' is not implemented for complex arguments")


def jve_derivative(g: Any, v: Any, input: Any) -> Any:
    real_only("jve", input)
    return g * ((sc.jve(v - 1, input) - sc.jve(v + 1, input)) / 2)


@of_order("jve", input=jve_derivative)
def jve(v, input):
    """``jv(v, input)`` scaled by ``exp(-abs(imag))``."""


def yve_derivative(g: Any, v: Any, input: Any) -> Any:
    real_only("yve", input)
    return g * ((sc.yve(v - 1, input) - sc.yve(v + 1, input)) / 2)


@of_order("yve", input=yve_derivative)
def yve(v, input):
    """``yv(v, input)`` scaled by ``exp(-abs(imag))``."""


def ive_derivative(g: Any, v: Any, input: Any, result: Any) -> Any:
    real_only("ive", input)
    return g * ((sc.ive(v - 1, input) + sc.ive(v + 1, input)) / 2 - np.sign(input) * result)


@of_order("ive", input=ive_derivative)
def ive(v, input):
    """``iv(v, input)`` scaled by ``exp(-abs(real))``."""


@of_order("kve", input=lambda g, v, input, result: g * conj(result - (sc.kve(v - 1, input) + sc.kve(v + 1, input)) / 2))
def kve(v, input):
    """``kv(v, input)`` scaled by ``exp(input)``."""


@of_order("hankel1", input=lambda g, v, input: g * conj((sc.hankel1(v - 1, input) - sc.hankel1(v + 1, input)) / 2))
def hankel1(v, input):
    """The Hankel function of the first kind."""


@of_order("hankel2", input=lambda g, v, input: g * conj((sc.hankel2(v - 1, input) - sc.hankel2(v + 1, input)) / 2))
def hankel2(v, input):
    """The Hankel function of the second kind."""


@of_order(
    "hankel1e",
    input=lambda g, v, input, result: (
        g * conj((sc.hankel1e(v - 1, input) - sc.hankel1e(v + 1, input)) / 2 - 1j * result)
    ),
)
def hankel1e(v, input):
    """``hankel1(v, input)`` scaled by ``exp(-1j * input)``."""


@of_order(
    "hankel2e",
    input=lambda g, v, input, result: (
        g * conj((sc.hankel2e(v - 1, input) - sc.hankel2e(v + 1, input)) / 2 + 1j * result)
    ),
)
def hankel2e(v, input):
    """``hankel2(v, input)`` scaled by ``exp(1j * input)``."""


# --- integrals of Bessel functions ------------------------------------------------------------------------------------


@hidden_ufunc("itj0y0", outputs=("j", "y"), input=lambda g, input: g[0] * sc.j0(input) + g[1] * sc.y0(input))
def itj0y0(input):
    """The integrals of ``j0`` and ``y0`` from 0."""


@hidden_ufunc("iti0k0", outputs=("i", "k"), input=lambda g, input: g[0] * sc.i0(input) + g[1] * sc.k0(input))
def iti0k0(input):
    """The integrals of ``i0`` and ``k0`` from 0."""


@hidden_ufunc(
    "it2j0y0", outputs=("j", "y"), input=lambda g, input: (g[0] * (1 - sc.j0(input)) - g[1] * sc.y0(input)) / input
)
def it2j0y0(input):
    """The integrals of ``(1 - j0(t)) / t`` from 0 and of ``y0(t) / t`` to infinity."""


@hidden_ufunc(
    "it2i0k0", outputs=("i", "k"), input=lambda g, input: (g[0] * (sc.i0(input) - 1) - g[1] * sc.k0(input)) / input
)
def it2i0k0(input):
    """The integrals of ``(i0(t) - 1) / t`` from 0 and of ``k0(t) / t`` to infinity."""


# --- Struve functions, DLMF 11.4 --------------------------------------------------------------------------------------


def _struve_term(v: Any, x: Any) -> Any:
    return np.power(x / 2, v) * sc.rgamma(v + 1.5) / math.sqrt(math.pi)


@hidden_ufunc(
    "struve",
    input=lambda g, v, input: g * ((sc.struve(v - 1, input) - sc.struve(v + 1, input) + _struve_term(v, input)) / 2),
)
def struve(v, input):
    """The Struve function."""


@hidden_ufunc(
    "modstruve",
    input=lambda g, v, input: (
        g * ((sc.modstruve(v - 1, input) + sc.modstruve(v + 1, input) + _struve_term(v, input)) / 2)
    ),
)
def modstruve(v, input):
    """The modified Struve function."""


@hidden_ufunc("itstruve0", input=lambda g, input: g * sc.struve(0, input))
def itstruve0(input):
    """The integral of the Struve function of order 0."""


@hidden_ufunc("it2struve0", input=lambda g, input: g * (sc.struve(0, input) / -input))
def it2struve0(input):
    """The integral of ``struve(0, t) / t`` to infinity."""


@hidden_ufunc("itmodstruve0", input=lambda g, input: g * sc.modstruve(0, input))
def itmodstruve0(input):
    """The integral of the modified Struve function of order 0."""


# --- Airy and Kelvin functions ----------------------------------------------------------------------------------------


@hidden_ufunc(
    "airy",
    outputs=("ai", "aip", "bi", "bip"),
    input=lambda g, input, ai, aip, bi, bip: (
        g[0] * conj(aip) + g[1] * conj(input * ai) + g[2] * conj(bip) + g[3] * conj(input * bi)
    ),
)
def airy(input):
    """The Airy functions, which solve ``y'' = x * y``, and their derivatives."""


def itairy_derivative(g: Any, input: Any) -> Any:
    ai, _, bi, _ = sc.airy(input)
    ai_left, _, bi_left, _ = sc.airy(-input)
    return g[0] * ai + g[1] * bi + g[2] * ai_left + g[3] * bi_left


@hidden_ufunc("itairy", outputs=("ai", "bi", "ai_left", "bi_left"), input=itairy_derivative)
def itairy(input):
    """The integrals of the Airy functions of ``t`` and of ``-t`` from 0."""


@hidden_ufunc("ber", input=lambda g, input: g * sc.berp(input))
def ber(input):
    """The Kelvin function ber."""


@hidden_ufunc("bei", input=lambda g, input: g * sc.beip(input))
def bei(input):
    """The Kelvin function bei."""


@hidden_ufunc("ker", input=lambda g, input: g * sc.kerp(input))
def ker(input):
    """The Kelvin function ker."""


@hidden_ufunc("kei", input=lambda g, input: g * sc.keip(input))
def kei(input):
    """The Kelvin function kei."""


# second derivatives from the differential equation x**2 w'' + x w' = 1j x**2 w, DLMF 10.61.3


@hidden_ufunc("berp", input=lambda g, input, result: g * -(sc.bei(input) + result / input))
def berp(input):
    """The derivative of ber."""


@hidden_ufunc("beip", input=lambda g, input, result: g * (sc.ber(input) - result / input))
def beip(input):
    """The derivative of bei."""


@hidden_ufunc("kerp", input=lambda g, input, result: g * -(sc.kei(input) + result / input))
def kerp(input):
    """The derivative of ker."""


@hidden_ufunc("keip", input=lambda g, input, result: g * (sc.ker(input) - result / input))
def keip(input):
    """The derivative of kei."""


# --- parabolic cylinder functions, DLMF 12.2 --------------------------------------------------------------------------


@hidden_ufunc(
    "pbdv", outputs=("d", "dp"), input=lambda g, v, input, d, dp: g[0] * dp + g[1] * (input * input / 4 - v - 0.5) * d
)
def pbdv(v, input):
    """The parabolic cylinder function D and its derivative."""


@hidden_ufunc(
    "pbvv",
    outputs=("v_", "vp"),
    input=lambda g, v, input, v_, vp: g[0] * vp + g[1] * (input * input / 4 - v - 0.5) * v_,
)
def pbvv(v, input):
    """The parabolic cylinder function V and its derivative."""


@hidden_ufunc(
    "pbwa", outputs=("w", "wp"), input=lambda g, a, input, w, wp: g[0] * wp + g[1] * (a - input * input / 4) * w
)
def pbwa(a, input):
    """The parabolic cylinder function W and its derivative."""


# --- elliptic integrals and functions ---------------------------------------------------------------------------------
# K(m) = pi / 2 * F(1/2, 1/2; 1; m) and E(m) = pi / 2 * F(-1/2, 1/2; 1; m), DLMF 19.5; the better known derivatives are
# 0 / 0 at 0.


@hidden_ufunc("ellipk", m=lambda g, m: g * (math.pi / 8 * sc.hyp2f1(0.5, 0.5, 2, m) / (1 - m)))
def ellipk(m):
    """The complete elliptic integral of the first kind."""


@hidden_ufunc("ellipkm1", p=lambda g, p: g * (math.pi / -8 * sc.hyp2f1(0.5, 0.5, 2, 1 - p) / p))
def ellipkm1(p):
    """``ellipk(1 - p)``."""


@hidden_ufunc("ellipe", m=lambda g, m: g * (math.pi / -8 * sc.hyp2f1(0.5, 1.5, 2, m)))
def ellipe(m):
    """The complete elliptic integral of the second kind."""


@hidden_ufunc("ellipkinc", phi=lambda g, phi, m: g / np.sqrt(1 - m * np.sin(phi) ** 2))
def ellipkinc(phi, m):
    """The incomplete elliptic integral of the first kind."""


@hidden_ufunc("ellipeinc", phi=lambda g, phi, m: g * np.sqrt(1 - m * np.sin(phi) ** 2))
def ellipeinc(phi, m):
    """The incomplete elliptic integral of the second kind."""


@hidden_ufunc(
    "ellipj",
    outputs=("sn", "cn", "dn", "ph"),
    u=lambda g, m, sn, cn, dn: g[0] * cn * dn - g[1] * sn * dn - g[2] * m * sn * cn + g[3] * dn,
)
def ellipj(u, m):
    """The Jacobian elliptic functions and the amplitude."""


# --- hypergeometric functions -----------------------------------------------------------------------------------------


@of_order("hyp0f1", input=lambda g, v, input: g * conj(sc.hyp0f1(v + 1, input) / v))
def hyp0f1(v, input):
    """The confluent hypergeometric limit function."""


@of_order("hyp1f1", input=lambda g, a, b, input: g * conj(a / b * sc.hyp1f1(a + 1, b + 1, input)))
def hyp1f1(a, b, input):
    """Kummer's confluent hypergeometric function."""


@of_order("hyp2f1", input=lambda g, a, b, c, input: g * conj(a * b / c * sc.hyp2f1(a + 1, b + 1, c + 1, input)))
def hyp2f1(a, b, c, input):
    """Gauss's hypergeometric function."""


@hidden_ufunc("hyperu", input=lambda g, a, b, input: g * (-a * sc.hyperu(a + 1, b + 1, input)))
def hyperu(a, b, input):
    """Tricomi's confluent hypergeometric function."""


@hidden_ufunc("wright_bessel", input=lambda g, a, b, input: g * sc.wright_bessel(a, b + a, input))
def wright_bessel(a, b, input):
    """Wright's generalised Bessel function."""


@hidden_ufunc(
    "log_wright_bessel", input=lambda g, a, b, input, result: g * np.exp(sc.log_wright_bessel(a, b + a, input) - result)
)
def log_wright_bessel(a, b, input):
    """The logarithm of Wright's generalised Bessel function."""
