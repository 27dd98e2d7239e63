"""Derivatives of samples of the gamma family with respect to the parameters.

If ``F(x; a)`` is a distribution function with density ``p``, the sample ``x`` that stays at the same quantile moves by
``dx/da = -(dF/da) / p`` (Figurnov, Mohamed, Mnih, "Implicit reparameterization gradients", 2018). For the gamma and
the beta distribution both come from one power series, of which ``p`` is a factor; where that is long, from the integral
of the score, ``dF/da = integral of p(t) * dlog p(t)/da``, on the side of ``x`` on which the score has one sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.core.op import op
from retrograd.core.tensor import Tensor
from retrograd.ops._scipy import sc

_LARGE = 10.0  # parameters from which on there is the integral
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_DEPTH = 40.0  # exp(-40) is negligible relative to 1


# --- the gamma distribution -------------------------------------------------------------------------------------------


def gamma_slope(concentration: Any, value: Any) -> Any:
    """``dx/da`` of a sample ``x`` of the gamma distribution of rate 1, at the concentration ``a``."""
    return _by_size(_gamma_series, _gamma_integral, concentration, concentration, value)


def _gamma_series(a: Any, x: Any) -> Any:
    # F = x^a exp(-x) * sum of x^n / Gamma(a + n + 1)
    def ratio(n: int) -> Any:
        return x / (a + n)

    def change(n: int) -> Any:
        return -1 / (a + n)

    return -x / a * _sum(ratio, change, np.log(x) - sc.psi(a + 1))


def _gamma_integral(a: Any, x: Any) -> Any:
    # over s = log(t / x), of exp(a s - x (exp(s) - 1)) * (log t - E log t)
    score = np.log(x) - sc.psi(a)
    side = np.where(score > 0, 1.0, -1.0)
    reach = _reach((x - a) * side, x)

    def integrand(r: Any) -> Any:
        s = r * side
        return np.exp(a * s - x * np.expm1(s)) * (score + s)

    return side * x * _integral(integrand, reach)


# --- the beta distribution --------------------------------------------------------------------------------------------


def beta_slope(alpha: Any, beta: Any, value: Any) -> Any:
    """``dx/da / (1 - x)`` of a sample ``x`` of the beta distribution, at its first parameter ``a``."""
    return _by_size(_beta_series, _beta_integral, np.minimum(alpha, beta), alpha, beta, value)


def _beta_series(a: Any, b: Any, x: Any) -> Any:
    # F = x^a (1 - x)^b / B(a, b) * sum over n of (a + b)_n / (a)_(n+1) * x^n, and 1 - F likewise, from the other end
    total = a + b
    # from the end that is nearer, unless the terms, which grow up to exp(near * total - own) or so, might overflow
    left = np.where(x <= 0.5, x * total - a < 600, (1 - x) * total - b >= 600)
    near, own = np.where(left, x, 1 - x), np.where(left, a, b)

    def ratio(n: int) -> Any:
        return near * (total + (n - 1)) / (own + n)

    def change(n: int) -> Any:
        return 1 / (total + (n - 1)) - np.where(left, 1 / (a + n), 0)

    first = np.log(x) + sc.psi(total) - sc.psi(np.where(left, a + 1, a))
    return np.where(left, -x / a, x / b) * _sum(ratio, change, first)


def _beta_integral(a: Any, b: Any, x: Any) -> Any:
    # over the logit y of t, of exp(h(y) - h(x)) * (log t - E log t) with h = a log t + b log (1 - t)
    score = np.log(x) - sc.psi(a) + sc.psi(a + b)
    side = np.where(score > 0, 1.0, -1.0)
    reach = _reach(((a + b) * x - a) * side, (a + b) * x * (1 - x))

    def integrand(r: Any) -> Any:
        y = r * side
        grown = np.log1p(x * np.expm1(y))  # log((1 - x) / (1 - t))
        return np.exp(a * y - (a + b) * grown) * (score + y - grown)

    return side * x * _integral(integrand, reach)


# --- what they share --------------------------------------------------------------------------------------------------


def _by_size(series: Callable[..., Any], integral: Callable[..., Any], size: Any, *operands: Any) -> Any:
    """Each of two formulas where it is the more accurate, computed in float64."""
    shape, dtype = np.broadcast_shapes(*(x.shape for x in operands)), operands[-1].dtype
    flat = [np.broadcast_to(x, shape).astype(np.float64).reshape(-1) for x in operands]
    large = np.broadcast_to(size, shape).reshape(-1) >= _LARGE
    result: Any = np.empty(large.size, like=flat[0])
    for formula, where in ((series, ~large), (integral, large)):
        if where.any():
            result[where] = formula(*(x[where] for x in flat))
    return result.reshape(shape).astype(dtype)


def _sum(ratio: Callable[[int], Any], change: Callable[[int], Any], factor: Any) -> Any:
    """The sum of terms times factors: a term is ``ratio(n)`` times the one before it, a factor ``change(n)`` more."""
    term = np.ones_like(factor)
    total = term * factor
    largest, n = 1.0, 0
    while np.max(term / largest) > 1e-17:
        n += 1
        term = term * ratio(n)
        factor = factor + change(n)
        total += term * factor
        largest = np.maximum(largest, term)
    return total


def _reach(slope: Any, curvature: Any) -> Any:
    """How far to follow an integrand that falls as ``exp(-slope * r - curvature * r**2 / 2)``, or half as fast."""
    return 2 * _DEPTH / (slope + np.sqrt(slope**2 + curvature * _DEPTH))


def _integral(function: Callable[[Any], Any], reach: Any) -> Any:
    """The integral from 0 to ``reach``, by the rule of Gauss and Legendre."""
    total = np.zeros_like(reach)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        total += weight * function(reach * (0.5 + 0.5 * node))
    return total * (0.5 * reach)


# --- the operations ---------------------------------------------------------------------------------------------------


def _once(name: str, g: Any) -> None:
    if isinstance(g, Tensor):
        raise NotImplementedError(
            f"the second derivative of samples with respect to '{name}' is not implemented; use sample() and the "
            "gradient of log_prob(), which can be differentiated further"
        )


def _gamma_rule(g, concentration, value):
    _once("standard_gamma", g)
    return g * gamma_slope(concentration, value)


@op(public=False, method=False, node_name="StandardGammaBackward0", concentration=_gamma_rule)
def standard_gamma(concentration, value):
    """``value``, a sample of the gamma distribution of rate 1, as a function of ``concentration``."""
    return value


def _dirichlet_rule(g, concentration, value):
    _once("dirichlet", g)
    # the i-th number follows its concentration as a beta variable does; the others keep their proportions
    total = concentration.sum(-1, keepdims=True)
    slope = beta_slope(concentration, total - concentration, np.clip(value, np.finfo(value.dtype).tiny, 1))
    return slope * (g - (g * value).sum(-1, keepdims=True))


@op(public=False, method=False, node_name="DirichletBackward0", concentration=_dirichlet_rule)
def dirichlet(concentration, value):
    """``value``, a sample of the Dirichlet distribution, as a function of ``concentration``."""
    return value
