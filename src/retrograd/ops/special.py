"""torch.special: error functions, the gamma family, Bessel functions, entropies. SciPy computes most of them.

Every derivative is made of other functions that have one, so that derivatives of any order are exact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.core.layout import row_major
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.ops._digamma import digamma_of
from retrograd.ops._erf import erf_by_blocks, erfc_single, erfinv_single
from retrograd.ops._rules import conj, in_floats, is_tensor, not_implemented
from retrograd.ops._scipy import answers_for, narrowed, sc, scipy_elementwise, scipy_ufunc, special_ufunc
from retrograd.ops._zeta import zeta_of_order
from retrograd.ops.exponential import exp2, expm1, log1p
from retrograd.ops.reductions import logsumexp
from retrograd.ops.rounding import round
from retrograd.ops.trigonometric import sinc

SQRT_PI = math.sqrt(math.pi)
SQRT_2PI = math.sqrt(2 * math.pi)
_LARGE = 1 << 12  # elements from which on NumPy's two dozen passes take less time than SciPy's single one

# --- the error function and the normal distribution -------------------------------------------------------------------


@answers_for("erf")
@scipy_elementwise(int_to_float=True, heavy=True, input=lambda g, input: g * conj(2 / SQRT_PI * np.exp(-input * input)))
def erf(input):
    """Return the error function ``2 / sqrt(pi) * integral of exp(-t**2) from 0 to input``.

    It works without SciPy, too: :func:`gelu` needs it.
    """
    by_blocks = type(input) is np.ndarray and input.dtype.char in "fd"
    if by_blocks and input.size >= _LARGE:
        return erf_by_blocks(input)
    try:
        return narrowed(sc.erf(input), input)
    except ModuleNotFoundError:
        if not by_blocks:
            raise
        return erf_by_blocks(input)


def _is_long_single(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype == np.float32 and x.size >= _LARGE


@scipy_ufunc(
    "erfc",
    compute=lambda x: erfc_single(x) if _is_long_single(x) else sc.erfc(x),
    input=lambda g, input: g * conj(-2 / SQRT_PI * np.exp(-input * input)),
)
def erfc(input):
    """Return ``1 - erf(input)``, accurate where ``erf`` is close to 1."""


@special_ufunc(
    "erfcx",
    input=lambda g, input, result: g * conj(2 * input * result - 2 / SQRT_PI),
    node_name="SpecialErfcxBackward0",
)
def erfcx(input):
    """Return the scaled complementary error function ``exp(input**2) * erfc(input)``."""


@scipy_ufunc(
    "erfinv",
    compute=lambda x: erfinv_single(x) if _is_long_single(x) else sc.erfinv(x),
    input=lambda g, result: g * (SQRT_PI / 2 * np.exp(result * result)),
)
def erfinv(input):
    """Return the ``x`` with ``erf(x) == input``: infinite at -1 and 1, NaN outside."""


@special_ufunc(
    "ndtr",
    compute=lambda x: erfc_single(x, -math.sqrt(0.5)) / 2 if _is_long_single(x) else sc.ndtr(x),
    input=lambda g, input: g * conj(np.exp(input * input / -2) / SQRT_2PI),
)
def ndtr(input):
    """Return the standard normal distribution function, ``(1 + erf(input / sqrt(2))) / 2``."""


@special_ufunc(
    "ndtri",
    input=lambda g, result: g * (SQRT_2PI * np.exp(result * result / 2)),
    node_name="SpecialNdtriBackward0",
)
def ndtri(input):
    """Return the quantile of the standard normal distribution: the ``x`` with ``ndtr(x) == input``."""


def normal_hazard(x: Any) -> Any:
    """Density over distribution function of the normal distribution, ``ndtr'(x) / ndtr(x)``, without 0 / 0."""
    return math.sqrt(2 / math.pi) / sc.erfcx(x * -math.sqrt(0.5))


@special_ufunc("log_ndtr", input=lambda g, input: g * conj(normal_hazard(input)), node_name="SpecialLogNdtrBackward0")
def log_ndtr(input):
    """Return the logarithm of :func:`ndtr`, accurate far to the left, where ``ndtr`` underflows."""


# --- the gamma family -------------------------------------------------------------------------------------------------


def trigamma(x: Any) -> Any:
    """The derivative of digamma, a Hurwitz zeta function; DLMF 5.15."""
    if x.dtype.kind == "c":
        raise NotImplementedError("the derivative of digamma is not implemented for complex arguments")
    return zeta_of_order(2, x)


def _log_gamma(input: Any) -> Any:
    return np.where(input == -np.inf, np.inf, sc.gammaln(input))  # infinite as at every other pole


@scipy_ufunc("gammaln", compute=_log_gamma, input=lambda g, input: g * digamma_of(input))
def lgamma(input):
    """Return the logarithm of the absolute value of the gamma function."""


@scipy_ufunc("psi", compute=digamma_of, input=lambda g, input: g * trigamma(input))
def digamma(input):
    """Return the logarithmic derivative of the gamma function."""


@scipy_elementwise(
    int_to_float=True,
    public=False,
    name="polygamma",
    input=lambda g, input, n: g * ((-1) ** n * math.factorial(n + 1) * zeta_of_order(n + 2, input)),
)
def _polygamma(input, n: int):
    """Return the ``n``-th derivative of digamma; see :func:`retrograd.polygamma`."""
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, but got n = {n}")
    result = digamma_of(input) if n == 0 else (-1) ** (n + 1) * math.factorial(n) * zeta_of_order(n + 1, input)
    return narrowed(result, input)


@composite(method=False)
def polygamma(n: int, input, *, out=None) -> Tensor:
    """Return the ``n``-th derivative of digamma, ``(-1)**(n+1) * n! * zeta(n + 1, input)``; DLMF 5.15."""
    return _polygamma(input, n, out=out)


@scipy_elementwise(int_to_float=True, input=lambda g, input, p: g * sum(sc.psi(input - k / 2) for k in range(p)))
def mvlgamma(input, p: int):
    """Return the logarithm of the ``p``-variate gamma function; elements should exceed ``(p - 1) / 2``.

    ``p * (p - 1) / 4 * log(pi)`` plus the sum of ``lgamma(input - k / 2)`` for ``k = 0 ... p - 1``.
    """
    if p < 1:
        raise RuntimeError(f"mvlgamma: p has to be greater than or equal to 1, but got {p}")
    input = row_major(input)
    result = sum(_log_gamma(input - k / 2) for k in range(p)) + p * (p - 1) / 4 * math.log(math.pi)
    return narrowed(result, input)


def gamma_density(a: Any, x: Any) -> Any:
    """The derivative of gammainc by ``x``, ``x**(a - 1) * exp(-x) / gamma(a)``."""
    return np.exp(sc.xlogy(a - 1, x) - x - sc.gammaln(a))


@scipy_ufunc(
    "gammainc",
    input=not_implemented("igamma", "input"),
    other=lambda g, input, other: g * gamma_density(input, other),
)
def igamma(input, other):
    """Return the regularised lower incomplete gamma function of order ``input`` at ``other``; DLMF 8.2."""


@scipy_ufunc(
    "gammaincc",
    input=not_implemented("igammac", "input"),
    other=lambda g, input, other: g * -gamma_density(input, other),
)
def igammac(input, other):
    """Return the regularised upper incomplete gamma function, ``1 - igamma(input, other)``."""


def _scalar_name(name: str, input: Any, other: Any) -> str:
    """The name of a node where torch numbers the overloads: two tensors, a number first, and a number second."""
    return f"{name}Backward{2 if not is_tensor(other) else int(not is_tensor(input))}"


def _zeta_other(g: Any, input: Any, other: Any) -> Any:
    order = in_floats(input, g)
    return g * (-order * sc.zeta(order + 1, other))


@answers_for("_zeta")
@scipy_elementwise(
    int_to_float=True,
    namespace="special",
    method=False,
    node_name=lambda input, other: _scalar_name("SpecialZeta", input, other),
    input=not_implemented("zeta", "input"),
    other=_zeta_other,
)
def zeta(input, other):
    """Return the Hurwitz zeta function, the sum of ``(other + k) ** -input`` for ``k = 0, 1, ...``."""
    return narrowed(sc.zeta(input, other), input)


# --- entropies and logarithms -----------------------------------------------------------------------------------------


def log_or_zero(g: Any, input: Any, other: Any, log: Any, zero: int) -> Any:
    """``g * log(other)``, but 0 where the product with the logarithm was defined to be 0."""
    return np.where((input == 0) & (other <= zero), 0, g * conj(log(in_floats(other, g))))


def product_or_zero(input: Any, other: Any, log: Any) -> Any:
    """``input * log(other)``, but 0 where ``input`` is, unless ``other`` is NaN."""
    return np.where((input == 0) & ~np.isnan(other), 0, input * log(other))


@answers_for("xlogy")
@scipy_elementwise(
    int_to_float=True,
    node_name=lambda input, other: _scalar_name("Xlogy", input, other),
    heavy=True,
    input=lambda g, input, other: log_or_zero(g, input, other, np.log, 0),
    other=lambda g, input, other: g * conj(input / other),
)
def xlogy(input, other):
    """Return ``input * log(other)``, 0 where ``input`` is 0 (and NaN where ``other`` is)."""
    return product_or_zero(input, other, np.log)


@answers_for("xlog1py")
@scipy_elementwise(
    int_to_float=True,
    heavy=True,
    namespace="special",
    method=False,
    node_name=lambda input, other: _scalar_name("SpecialXlog1Py", input, other),
    input=lambda g, input, other: log_or_zero(g, input, other, np.log1p, -1),
    other=lambda g, input, other: g * conj(input / (other + 1)),
)
def xlog1py(input, other):
    """Return ``input * log1p(other)``, 0 where ``input`` is 0 (and NaN where ``other`` is)."""
    return product_or_zero(input, other, np.log1p)


@answers_for("entr")
@scipy_elementwise(
    int_to_float=True,
    heavy=True,
    namespace="special",
    method=False,
    node_name="SpecialEntrBackward0",
    input=lambda g, input: g * (-1 - np.log(input)),
)
def entr(input):
    """Return the entropy ``-input * log(input)``: 0 at 0, and minus infinity below."""
    return np.where(input < 0, -np.inf, product_or_zero(-input, input, np.log))


def logit_derivative(g: Any, input: Any, eps: float | None) -> Any:
    clamps = eps is not None and eps >= 0
    low: float = eps if eps is not None and eps >= 0 else 0
    outside = (input < low) | (input > 1 - low)
    return np.where(outside, 0 if clamps else np.nan, g / (input * (1 - input)))


@answers_for("logit")
@scipy_elementwise(int_to_float=True, input=logit_derivative)
def logit(input, eps: float | None = None):
    """Return ``log(input / (1 - input))``, with ``input`` first clamped to ``[eps, 1 - eps]`` if ``eps`` is given."""
    if eps is not None and eps >= 0:
        input = np.where(input < eps, input.dtype.type(eps), np.minimum(input, 1 - eps))
    return np.log(input) - np.log1p(-input)


# --- Bessel functions, DLMF 10.6 and 10.29 ----------------------------------------------------------------------------
# Most derivatives of order 1 use the function of order 2, because the formula with a quotient is 0 / 0 at 0.


@special_ufunc("j0", input=lambda g, input: g * -sc.j1(input))
def bessel_j0(input):
    """Return the Bessel function of the first kind of order 0."""


@special_ufunc("j1", input=lambda g, input: g * ((sc.j0(input) - sc.jv(2, input)) / 2))
def bessel_j1(input):
    """Return the Bessel function of the first kind of order 1."""


@special_ufunc("y0", input=lambda g, input: g * -sc.y1(input))
def bessel_y0(input):
    """Return the Bessel function of the second kind of order 0; minus infinity at 0, NaN below."""


@special_ufunc("y1", input=lambda g, input: g * ((sc.y0(input) - sc.yv(2, input)) / 2))
def bessel_y1(input):
    """Return the Bessel function of the second kind of order 1; minus infinity at 0, NaN below."""


@scipy_ufunc("i0", numpy=(np.i0,), input=lambda g, input: g * sc.i1(input))
def i0(input):
    """Return the modified Bessel function of the first kind of order 0."""


@special_ufunc(
    "i0e",
    input=lambda g, input, result: g * (sc.i1e(input) - np.sign(input) * result),
    node_name="SpecialI0EBackward0",
)
def i0e(input):
    """Return ``exp(-abs(input)) * i0(input)``, which does not overflow."""


@special_ufunc("i1", input=lambda g, input: g * ((sc.i0(input) + sc.iv(2, input)) / 2), node_name="SpecialI1Backward0")
def i1(input):
    """Return the modified Bessel function of the first kind of order 1."""


def i1e_derivative(g: Any, input: Any, result: Any) -> Any:
    # with the quotient i1(x) / x, since SciPy's function of order 2 ends at 1e9; of small numbers by its series, as the
    # derivative of the quotient is a difference of numbers that are much larger
    is_small = np.abs(input) < 1e-2
    square = np.where(is_small, input, 0) ** 2
    series = np.exp(-np.abs(input)) * (0.5 + square / 16 * (1 + square / 24))
    quotient = np.where(is_small, series, result / np.where(is_small, 1, input))
    return g * (sc.i0e(input) - quotient - np.sign(input) * result)


@special_ufunc("i1e", input=i1e_derivative, node_name="SpecialI1EBackward0")
def i1e(input):
    """Return ``exp(-abs(input)) * i1(input)``, which does not overflow."""


@special_ufunc("k0", input=lambda g, input: g * -sc.k1(input))
def modified_bessel_k0(input):
    """Return the modified Bessel function of the second kind of order 0; infinite at 0, NaN below."""


@special_ufunc("k1", input=lambda g, input: g * ((sc.k0(input) + sc.kv(2, input)) / -2))
def modified_bessel_k1(input):
    """Return the modified Bessel function of the second kind of order 1; infinite at 0, NaN below."""


@special_ufunc("k0e", input=lambda g, input, result: g * (result - sc.k1e(input)))
def scaled_modified_bessel_k0(input):
    """Return ``exp(input) * modified_bessel_k0(input)``, which does not underflow."""


@special_ufunc("k1e", input=lambda g, input, result: g * (result - sc.k0e(input) - result / input))
def scaled_modified_bessel_k1(input):
    """Return ``exp(input) * modified_bessel_k1(input)``, which does not underflow."""


@scipy_elementwise(
    int_to_float=True,
    namespace="special",
    method=False,
    input=lambda g, input: g * (input / -3 * sc.hyp0f1(2.5, input * input / -4)),
)
def spherical_bessel_j0(input):
    """Return the spherical Bessel function of order 0, ``sin(input) / input``; its derivative is from DLMF 10.16.9."""
    return narrowed(sc.spherical_jn(0, input), input)


def _airy(x: Any) -> Any:
    """SciPy's functions, which are NaN far from zero, where Ai and its derivative are 0 long before."""
    return sc.airy(np.minimum(x, 1e4))


@scipy_elementwise(int_to_float=True, namespace="special", method=False, input=lambda g, input: g * _airy(input)[1])
def airy_ai(input):
    """Return the Airy function Ai, the solution of ``y'' = x * y`` that decays to the right."""
    return narrowed(_airy(input)[0], input)


# --- torch.special's names for what is defined elsewhere --------------------------------------------------------------

for _name, _function in {
    "digamma": digamma,
    "erf": erf,
    "erfc": erfc,
    "erfinv": erfinv,
    "exp2": exp2,
    "expm1": expm1,
    "gammainc": igamma,
    "gammaincc": igammac,
    "gammaln": lgamma,
    "i0": i0,
    "log1p": log1p,
    "logit": logit,
    "logsumexp": logsumexp,
    "modified_bessel_i0": i0,
    "modified_bessel_i1": i1,
    "multigammaln": mvlgamma,
    "polygamma": polygamma,
    "psi": digamma,
    "round": round,
    "sinc": sinc,
    "xlogy": xlogy,
}.items():
    composite(name=f"special.{_name}", method=False)(_function)
