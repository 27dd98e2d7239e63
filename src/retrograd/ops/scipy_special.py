"""SciPy's own special functions on Tensors: the gamma family, exponential integrals, powers, distributions.

They have no public names here: ``scipy.special.gamma(x)`` finds them when ``x`` is a Tensor. Where a derivative
by an argument has no closed form, asking for it raises NotImplementedError.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.ops._rules import conj
from retrograd.ops._scipy import answers_for, hidden_ufunc, sc, scipy_elementwise
from retrograd.ops.special import SQRT_2PI, SQRT_PI, gamma_density, normal_hazard

# --- the gamma and beta families --------------------------------------------------------------------------------------


@hidden_ufunc("gamma", input=lambda g, input, result: g * conj(result * sc.psi(input)))
def gamma(input):
    """The gamma function."""


@hidden_ufunc("rgamma", input=lambda g, input, result: g * conj(-result * sc.psi(input)))
def rgamma(input):
    """``1 / gamma(input)``."""


@hidden_ufunc("loggamma", input=lambda g, input: g * conj(sc.psi(input)))
def loggamma(input):
    """The principal branch of the logarithm of the gamma function."""


@hidden_ufunc("gammasgn", input=lambda g: np.zeros_like(g))
def gammasgn(input):
    """The sign of the gamma function."""


@hidden_ufunc(
    "poch",
    input=lambda g, input, other, result: g * (result * (sc.psi(input + other) - sc.psi(input))),
    other=lambda g, input, other, result: g * (result * sc.psi(input + other)),
)
def poch(input, other):
    """The rising factorial ``gamma(input + other) / gamma(input)``."""


@hidden_ufunc(
    "binom",
    n=lambda g, n, k, result: g * (result * (sc.psi(n + 1) - sc.psi(n - k + 1))),
    k=lambda g, n, k, result: g * (result * (sc.psi(n - k + 1) - sc.psi(k + 1))),
)
def binom(n, k):
    """The binomial coefficient, of real arguments."""


@hidden_ufunc(
    "beta",
    a=lambda g, a, b, result: g * (result * (sc.psi(a) - sc.psi(a + b))),
    b=lambda g, a, b, result: g * (result * (sc.psi(b) - sc.psi(a + b))),
)
def beta(a, b):
    """The beta function."""


@hidden_ufunc(
    "betaln", a=lambda g, a, b: g * (sc.psi(a) - sc.psi(a + b)), b=lambda g, a, b: g * (sc.psi(b) - sc.psi(a + b))
)
def betaln(a, b):
    """The logarithm of the absolute value of the beta function."""


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """The derivative of betainc by ``x``, ``x**(a - 1) * (1 - x)**(b - 1) / beta(a, b)``."""
    return np.exp(sc.xlogy(a - 1, x) + sc.xlog1py(b - 1, -x) - sc.betaln(a, b))


@hidden_ufunc("betainc", x=lambda g, a, b, x: g * beta_density(a, b, x))
def betainc(a, b, x):
    """The regularised incomplete beta function."""


@hidden_ufunc("betaincc", x=lambda g, a, b, x: g * -beta_density(a, b, x))
def betaincc(a, b, x):
    """``1 - betainc(a, b, x)``."""


@hidden_ufunc("betaincinv", y=lambda g, a, b, result: g / beta_density(a, b, result))
def betaincinv(a, b, y):
    """The ``x`` with ``betainc(a, b, x) == y``."""


@hidden_ufunc("betainccinv", y=lambda g, a, b, result: g / -beta_density(a, b, result))
def betainccinv(a, b, y):
    """The ``x`` with ``betaincc(a, b, x) == y``."""


@hidden_ufunc("gammaincinv", y=lambda g, a, result: g / gamma_density(a, result))
def gammaincinv(a, y):
    """The ``x`` with ``gammainc(a, x) == y``."""


@hidden_ufunc("gammainccinv", y=lambda g, a, result: g / -gamma_density(a, result))
def gammainccinv(a, y):
    """The ``x`` with ``gammaincc(a, x) == y``."""


# --- error functions --------------------------------------------------------------------------------------------------


@hidden_ufunc("erfi", input=lambda g, input: g * conj(2 / SQRT_PI * np.exp(input * input)))
def erfi(input):
    """The imaginary error function ``-1j * erf(1j * input)``."""


@hidden_ufunc("erfcinv", input=lambda g, result: g * (SQRT_PI / -2 * np.exp(result * result)))
def erfcinv(input):
    """The ``x`` with ``erfc(x) == input``."""


@hidden_ufunc("dawsn", input=lambda g, input, result: g * conj(1 - 2 * input * result))
def dawsn(input):
    """Dawson's integral ``exp(-x**2) * integral of exp(t**2) from 0 to x``."""


@hidden_ufunc("wofz", input=lambda g, input, result: g * conj(2j / SQRT_PI - 2 * input * result))
def wofz(input):
    """The Faddeeva function ``exp(-z**2) * erfc(-1j * z)``."""


@hidden_ufunc("ndtri_exp", input=lambda g, result: g / normal_hazard(result))
def ndtri_exp(input):
    """The ``x`` with ``log_ndtr(x) == input``."""


@hidden_ufunc(
    "owens_t",
    h=lambda g, h, a: g * (np.exp(h * h / -2) * sc.erf(a * h * math.sqrt(0.5)) / (-2 * SQRT_2PI)),
    a=lambda g, h, a: g * (np.exp(h * h * (1 + a * a) / -2) / (2 * math.pi * (1 + a * a))),
)
def owens_t(h, a):
    """Owen's T function."""


@hidden_ufunc(
    "fresnel",
    outputs=("s", "c"),
    input=lambda g, input: (
        g[0] * conj(np.sin(math.pi / 2 * input * input)) + g[1] * conj(np.cos(math.pi / 2 * input * input))
    ),
)
def fresnel(input):
    """The Fresnel integrals of ``sin(pi / 2 * t**2)`` and ``cos(pi / 2 * t**2)``."""


# --- exponential, sine and cosine integrals ---------------------------------------------------------------------------


@hidden_ufunc("expi", input=lambda g, input: g * conj(np.exp(input) / input))
def expi(input):
    """The exponential integral Ei."""


@hidden_ufunc("exp1", input=lambda g, input: g * conj(np.exp(-input) / -input))
def exp1(input):
    """The exponential integral E1."""


def expn_derivative(g: Any, n: Any, input: Any, result: Any) -> Any:
    """``-expn(n - 1, input)``, by the recurrence where the order would fall below 0; DLMF 8.19.12."""
    lower = np.where(n < 1, (np.exp(-input) + result) / input, sc.expn(np.maximum(n - 1, 0), input))
    return g * -lower


@hidden_ufunc("expn", input=expn_derivative)
def expn(n, input):
    """The generalised exponential integral of order ``n``."""


@hidden_ufunc(
    "sici",
    outputs=("si", "ci"),
    input=lambda g, input: g[0] * np.sinc(input / math.pi) + g[1] * (np.cos(input) / input),
)
def sici(input):
    """The sine and cosine integrals."""


@hidden_ufunc(
    "shichi",
    outputs=("shi", "chi"),
    input=lambda g, input: g[0] * ((sc.exprel(input) + sc.exprel(-input)) / 2) + g[1] * (np.cosh(input) / input),
)
def shichi(input):
    """The hyperbolic sine and cosine integrals."""


@hidden_ufunc("spence", input=lambda g, input: g / -sc.exprel(np.log(input)))
def spence(input):
    """The dilogarithm of ``1 - input``; ``log(x) / (1 - x)`` is its derivative, written without 0 / 0 at 1."""


# --- logistic, exponential and logarithmic functions ------------------------------------------------------------------


@hidden_ufunc("log_expit", input=lambda g, input: g * sc.expit(-input))
def log_expit(input):
    """The logarithm of the logistic function."""


@hidden_ufunc("exp10", input=lambda g, result: g * (math.log(10) * result))
def exp10(input):
    """``10 ** input``."""


@hidden_ufunc("exprel", input=lambda g, input: g * (sc.hyp1f1(2, 3, input) / 2))
def exprel(input):
    """``(exp(input) - 1) / input``, which is ``hyp1f1(1, 2, input)``."""


@hidden_ufunc("cosm1", input=lambda g, input: g * -np.sin(input))
def cosm1(input):
    """``cos(input) - 1``."""


@hidden_ufunc(
    "powm1",
    input=lambda g, input, other: g * (other * np.power(input, other - 1)),
    other=lambda g, input, result: g * sc.xlogy(result + 1, input),
)
def powm1(input, other):
    """``input ** other - 1``."""


@hidden_ufunc("wrightomega", input=lambda g, result: g * conj(result / (1 + result)))
def wrightomega(input):
    """The solution ``w`` of ``w + log(w) == input``."""


@answers_for("_lambertw")
@scipy_elementwise(
    int_to_float=True,
    namespace="scipy",
    method=False,
    public=False,
    input=lambda g, result: g * conj(np.exp(-result) / (1 + result)),
)
def lambertw(input, k=0, tol=1e-8):
    """Branch ``k`` of the solution ``w`` of ``w * exp(w) == input``."""
    return sc.lambertw(input, k, tol)


# --- entropies, losses and transformations ----------------------------------------------------------------------------


@hidden_ufunc(
    "rel_entr",
    input=lambda g, input, other: g * (1 + np.log(input / other)),
    other=lambda g, input, other: g * -(input / other),
)
def rel_entr(input, other):
    """``input * log(input / other)``."""


@hidden_ufunc(
    "kl_div",
    input=lambda g, input, other: g * np.log(input / other),
    other=lambda g, input, other: g * (1 - input / other),
)
def kl_div(input, other):
    """``input * log(input / other) - input + other``."""


@hidden_ufunc(
    "huber",
    delta=lambda g, delta, r: g * np.maximum(np.abs(r) - delta, 0),
    r=lambda g, delta, r: g * np.minimum(np.maximum(r, -delta), delta),
)
def huber(delta, r):
    """``r**2 / 2`` up to ``abs(r) == delta``, and linear beyond."""


@hidden_ufunc(
    "pseudo_huber",
    delta=lambda g, delta, r: g * _pseudo_huber_by_delta(delta, r),
    r=lambda g, delta, r: g * (r / np.sqrt(1 + (r / delta) ** 2)),
)
def pseudo_huber(delta, r):
    """``delta**2 * (sqrt(1 + (r / delta)**2) - 1)``."""


def _pseudo_huber_by_delta(delta: Any, r: Any) -> Any:
    # with u = (r / delta)**2 and s = sqrt(1 + u), so that s - 1 = u / (1 + s)
    u = (r / delta) ** 2
    s = np.sqrt(1 + u)
    return delta * u * u / (s * (1 + s) ** 2)


def _boxcox_by_lambda(log: Any, lmbda: Any) -> Any:
    """The derivative of ``log * exprel(lmbda * log)`` by ``lmbda``."""
    return log * log * (sc.hyp1f1(2, 3, lmbda * log) / 2)


@hidden_ufunc(
    "boxcox",
    input=lambda g, input, lmbda: g * np.power(input, lmbda - 1),
    lmbda=lambda g, input, lmbda: g * _boxcox_by_lambda(np.log(input), lmbda),
)
def boxcox(input, lmbda):
    """The Box-Cox transformation ``(input**lmbda - 1) / lmbda``, a logarithm for 0."""


@hidden_ufunc(
    "boxcox1p",
    input=lambda g, input, lmbda: g * np.power(1 + input, lmbda - 1),
    lmbda=lambda g, input, lmbda: g * _boxcox_by_lambda(np.log1p(input), lmbda),
)
def boxcox1p(input, lmbda):
    """The Box-Cox transformation of ``1 + input``."""


@hidden_ufunc(
    "inv_boxcox",
    input=lambda g, lmbda, result: g * np.power(result, 1 - lmbda),
    lmbda=lambda g, lmbda, result: g * -(np.power(result, 1 - lmbda) * _boxcox_by_lambda(np.log(result), lmbda)),
)
def inv_boxcox(input, lmbda):
    """The ``x`` with ``boxcox(x, lmbda) == input``."""


@hidden_ufunc(
    "inv_boxcox1p",
    input=lambda g, lmbda, result: g * np.power(1 + result, 1 - lmbda),
    lmbda=lambda g, lmbda, result: g * -(np.power(1 + result, 1 - lmbda) * _boxcox_by_lambda(np.log1p(result), lmbda)),
)
def inv_boxcox1p(input, lmbda):
    """The ``x`` with ``boxcox1p(x, lmbda) == input``."""


# --- functions of an angle in degrees ---------------------------------------------------------------------------------

DEGREE = math.pi / 180


@hidden_ufunc("sindg", input=lambda g, input: g * (DEGREE * sc.cosdg(input)))
def sindg(input):
    """The sine of an angle in degrees."""


@hidden_ufunc("cosdg", input=lambda g, input: g * (-DEGREE * sc.sindg(input)))
def cosdg(input):
    """The cosine of an angle in degrees."""


@hidden_ufunc("tandg", input=lambda g, result: g * (DEGREE * (1 + result * result)))
def tandg(input):
    """The tangent of an angle in degrees."""


@hidden_ufunc("cotdg", input=lambda g, result: g * (-DEGREE * (1 + result * result)))
def cotdg(input):
    """The cotangent of an angle in degrees."""


@hidden_ufunc(
    "radian", degrees=lambda g: g * DEGREE, minutes=lambda g: g * (DEGREE / 60), seconds=lambda g: g * (DEGREE / 3600)
)
def radian(degrees, minutes, seconds):
    """An angle in radians."""


# --- distribution functions -------------------------------------------------------------------------------------------


@hidden_ufunc("chdtr", input=lambda g, v, input: g * (gamma_density(v / 2, input / 2) / 2))
def chdtr(v, input):
    """The chi-square distribution function."""


@hidden_ufunc("chdtrc", input=lambda g, v, input: g * (gamma_density(v / 2, input / 2) / -2))
def chdtrc(v, input):
    """The upper tail of the chi-square distribution."""


@hidden_ufunc(
    "gdtr",
    a=lambda g, a, b, input: g * (input * gamma_density(b, a * input)),
    input=lambda g, a, b, input: g * (a * gamma_density(b, a * input)),
)
def gdtr(a, b, input):
    """The gamma distribution function, of rate ``a`` and shape ``b``."""


@hidden_ufunc(
    "gdtrc",
    a=lambda g, a, b, input: g * -(input * gamma_density(b, a * input)),
    input=lambda g, a, b, input: g * -(a * gamma_density(b, a * input)),
)
def gdtrc(a, b, input):
    """The upper tail of the gamma distribution."""


@hidden_ufunc("pdtr", mean=lambda g, k, mean: g * -gamma_density(np.floor(k) + 1, mean))
def pdtr(k, mean):
    """The Poisson distribution function."""


@hidden_ufunc("pdtrc", mean=lambda g, k, mean: g * gamma_density(np.floor(k) + 1, mean))
def pdtrc(k, mean):
    """The upper tail of the Poisson distribution."""


def t_density(df: Any, t: Any) -> Any:
    """The density of Student's t distribution."""
    return np.power(1 + t * t / df, (df + 1) / -2) / (np.sqrt(df) * sc.beta(df / 2, 0.5))


@hidden_ufunc("stdtr", t=lambda g, df, t: g * t_density(df, t))
def stdtr(df, t):
    """Student's t distribution function."""


@hidden_ufunc("stdtrit", p=lambda g, df, result: g / t_density(df, result))
def stdtrit(df, p):
    """The quantile of Student's t distribution."""
