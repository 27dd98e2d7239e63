"""Rows of torch.special; SciPy's own functions are tested in tests/test_scipy_special.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.special
import torch

from tests.ops.harness import FLOATS, INTS, Make, Row, Sample, binary, call, unary, values_of

INF, NAN = math.inf, math.nan
WHOLE = (*FLOATS, *INTS, "bool")
HALF = ("float16", *WHOLE)
Values = Callable[[Make, tuple[int, ...]], np.ndarray]


def between(low: float, high: float) -> Values:
    return lambda make, shape: make.uniform(*shape, low=low, high=high)


def at(row: Row, *values: Any) -> Row:
    """Return a row for the same function at chosen points; several arrays for several operands."""

    def samples(make: Make) -> Iterator[Sample]:
        yield call(*(np.array(column, make.dtype) for column in (values if isinstance(values[0], list) else [values])))

    return replace(row, samples=samples, dtypes=FLOATS, inplace=False, numeric=False, numpy=())


def special(name: str, values: str | Values = "normal", **more: Any) -> Row:
    return unary(f"special.{name}", values, **{"dtypes": WHOLE, "inplace": False, **more})


def alias(row: Row, name: str, torch_function: Callable[..., Any] | None = None) -> Row:
    return replace(row, name=f"special.{name}", torch=torch_function, inplace=False, method=False, numpy=())


def polygammas(make: Make) -> Iterator[Sample]:
    for n in range(5):
        yield call(n, values_of(make, "positive", (3, 4)))
    yield call(1, values_of(make, between(-0.9, -0.1), (4,)))
    yield call(2, values_of(make, "positive", ()))
    yield call(2, values_of(make, "positive", (4, 3)).T)
    yield call(n=3, input=values_of(make, "positive", (0, 3)))


def mvlgammas(make: Make) -> Iterator[Sample]:
    for p in (1, 2, 5):
        yield call(values_of(make, between(3, 7), (3, 4)), p)
    yield call(values_of(make, between(3, 7), ()), p=3)
    yield call(values_of(make, between(3, 7), (4, 3)).T, p=3)
    yield call(values_of(make, between(3, 7), (0, 3)), p=3)


def logits(make: Make) -> Iterator[Sample]:
    for eps in (None, 0.0, 0.3, 0.5, -1.0):
        yield call(make.uniform(3, 4), eps)
    yield call(make.uniform(3, 4), eps=0.2)
    yield call(values_of(make, "uniform", ()))
    yield call(values_of(make, "uniform", (0, 3)))
    yield call(values_of(make, "uniform", (4, 3)).T, 0.25)
    yield call(values_of(make, "uniform", (4, 3))[::-1])


def incomplete(make: Make) -> Iterator[Sample]:
    for a, b in (((3, 4), (3, 4)), ((3, 1), (1, 4)), ((), (2, 3)), ((2, 3), ()), ((0, 3), (3,)), ((5,), (5,))):
        yield call(values_of(make, "positive", a), values_of(make, "positive", b))
    yield call(values_of(make, "positive", (4, 3)).T, values_of(make, "positive", (3, 4))[::-1])


def zetas(make: Make) -> Iterator[Sample]:
    for a, b in (((3, 4), (3, 4)), ((3, 1), (1, 4)), ((), (2, 3)), ((0, 3), (3,))):
        yield call(values_of(make, between(1.5, 4), a), values_of(make, "positive", b))
    yield call(2, values_of(make, "positive", (3,)))
    yield call(2.5, values_of(make, "positive", (3,)))
    if make.is_float:
        yield call(values_of(make, between(1.5, 4), (3,)), 0.5)


def polynomials(make: Make) -> Iterator[Sample]:
    for n in (0, 1, 2, 7):
        yield call(values_of(make, between(-0.9, 0.9), (3, 4)), n)
        yield call(values_of(make, between(-0.9, 0.9), (3,)), make.integers(2, 3))
    yield call(values_of(make, between(-0.9, 0.9), (2, 3)), np.array([0.0, 1.0, 5.0], make.dtype))
    yield call(values_of(make, between(-0.9, 0.9), (5,)), np.array([-2, -1, 0, 3, 4], make.dtype))
    if make.is_float:  # whole parts of degrees
        yield call(values_of(make, between(-0.9, 0.9), (4,)), np.array([-1.5, -0.5, 0.5, 2.7], make.dtype))
        yield call(values_of(make, between(-0.9, 0.9), (4,)), 2.7)
        yield call(np.array([math.nan, 0.5], make.dtype), -1.0)
    yield call(values_of(make, between(-0.9, 0.9), ()), 3)
    yield call(values_of(make, between(-0.9, 0.9), (0, 3)), n=3)
    yield call(0.3, make.integers(4))


def named_polynomial(name: str) -> Row:
    return Row(f"special.{name}", polynomials, gradients=False, tolerance=30)


def along(make: Make) -> Iterator[Sample]:
    yield call(make.normal(3, 4), 1)
    yield call(make.normal(3, 4), dim=(0, 1), keepdim=True)


WITHOUT_TORCH: dict[str, Any] = {"gradients": False}  # torch has no derivative; ours is tested with SciPy's functions

ERF = unary("erf", dtypes=HALF, numpy=(scipy.special.erf,))
ERFC = unary("erfc", dtypes=HALF, numpy=(scipy.special.erfc,))
ERFINV = unary("erfinv", between(-0.95, 0.95), dtypes=HALF, numpy=(scipy.special.erfinv,), tolerance=10)
LGAMMA = unary("lgamma", "positive", dtypes=HALF, numpy=(scipy.special.gammaln,))
DIGAMMA = unary("digamma", "positive", dtypes=HALF, numpy=(scipy.special.psi, scipy.special.digamma))
POLYGAMMA = Row("polygamma", polygammas, dtypes=WHOLE, method=False, tolerance=10)
MVLGAMMA = Row("mvlgamma", mvlgammas, dtypes=("float16", *FLOATS, *INTS), inplace=True)
IGAMMA = Row("igamma", incomplete, grad_args=(1,), inplace=True, numpy=(scipy.special.gammainc,), tolerance=10)
IGAMMAC = Row("igammac", incomplete, grad_args=(1,), inplace=True, numpy=(scipy.special.gammaincc,), tolerance=10)
I0 = unary("i0", dtypes=WHOLE, numpy=(scipy.special.i0, np.i0))
XLOGY = binary("xlogy", "normal", "positive", dtypes=HALF, numpy=(scipy.special.xlogy,))
LOGIT = Row("logit", logits, dtypes=("float16", *FLOATS), inplace=True)
XLOG1PY = replace(binary("special.xlog1py", "normal", "positive", dtypes=HALF), inplace=False)
ERFCX = special("erfcx", numpy=(scipy.special.erfcx,))
LOG_NDTR = special("log_ndtr", numpy=(scipy.special.log_ndtr,))
NDTRI = special("ndtri", between(0.05, 0.95), numpy=(scipy.special.ndtri,), tolerance=10)
ENTR = special("entr", "positive", dtypes=HALF, numpy=(scipy.special.entr,))
ZETA = Row("special.zeta", zetas, dtypes=WHOLE, grad_args=(1,), tolerance=10)
I1 = special("i1", numpy=(scipy.special.i1,))
I0E = special("i0e", numpy=(scipy.special.i0e,))
I1E = special("i1e", numpy=(scipy.special.i1e,))

ROWS = [
    ERF,
    at(ERF, -INF, -30, -0.0, 0, 30, INF, NAN),
    ERFC,
    at(ERFC, -INF, -30, -0.0, 0, 5, INF, NAN),
    ERFINV,
    at(replace(ERFINV, gradients=False), -2, -1, 0, 1, 2, NAN),
    ERFCX,
    at(ERFCX, -INF, -5, 0, 30, NAN),
    special("ndtr", dtypes=HALF, numpy=(scipy.special.ndtr,)),
    LOG_NDTR,
    at(LOG_NDTR, -30, -5, 0, 5, 8),
    NDTRI,
    at(replace(NDTRI, gradients=False), -1, 0, 0.5, 1, 2, NAN),
    LGAMMA,
    at(LGAMMA, -2.5, -0.5, 1e-3, 1, 2, 30, 1e4, INF),
    at(replace(LGAMMA, gradients=False), -3, -1, -0.0, 0, INF, NAN),
    DIGAMMA,
    at(DIGAMMA, -2.5, -0.5, 1e-3, 1, 1.46163214497, 30, 1e4),
    at(replace(DIGAMMA, gradients=False), -3, -1, -0.0, 0, INF, NAN),
    POLYGAMMA,
    MVLGAMMA,
    IGAMMA,
    at(replace(IGAMMA, second=False), [1.0, 2.0, 0.5, 3.0, 30.0], [0.5, 0.0, 4.0, 100.0, 25.0]),
    at(replace(IGAMMA, gradients=False), [0.0, 1.0, 2.0, -1.0, INF, 1.0], [1.0, -1.0, INF, 1.0, 1.0, NAN]),
    IGAMMAC,
    at(replace(IGAMMAC, gradients=False), [0.0, 1.0, 2.0, -1.0, INF, 1.0], [1.0, -1.0, INF, 1.0, 1.0, NAN]),
    *(replace(row, dtypes=("float16",), gradients=False) for row in (I0, I1, I0E, I1E)),
    I0,
    at(I0, -30, -7.75, -0.0, 0, 8, 50),
    I1,
    at(I1, -30, -7.75, 0, 8, 50),
    I0E,
    at(I0E, -1e4, -30, -7.75, 0, 8, 50),
    I1E,
    at(I1E, -1e4, -30, -7.75, 0, 8, 50),
    XLOGY,
    at(replace(XLOGY, second=False), [0.0, 0.0, 1.0, -1.0, 2.0, 0.0], [2.0, -1.0, 0.0, 3.0, NAN, NAN]),
    XLOG1PY,
    at(replace(XLOG1PY, second=False), [0.0, 0.0, 1.0, -1.0, 2.0, 0.0], [2.0, -2.0, -1.0, 3.0, NAN, NAN]),
    ENTR,
    at(replace(ENTR, second=False), -1, 0, 1, INF, NAN),
    LOGIT,
    at(replace(LOGIT, second=False), -0.5, 0, 0.5, 1, 1.5, NAN),
    Row("logit", lambda make: [call(make.mask(3, 4)), call(make.mask(3, 4), 0.2)], dtypes=("bool",), gradients=False),
    ZETA,
    at(replace(ZETA, gradients=False), [1.0, 0.5, 2.0, 3.0, 2.5, 2.0], [2.0, 2.0, 0.0, -1.0, -0.5, -0.5]),
    special("bessel_j0", **WITHOUT_TORCH, numpy=(scipy.special.j0,), tolerance=10),
    special("bessel_j1", **WITHOUT_TORCH, numpy=(scipy.special.j1,), tolerance=10),
    special("bessel_y0", "positive", **WITHOUT_TORCH, numpy=(scipy.special.y0,), tolerance=10),
    special("bessel_y1", "positive", **WITHOUT_TORCH, numpy=(scipy.special.y1,), tolerance=10),
    special("modified_bessel_k0", "positive", **WITHOUT_TORCH, numpy=(scipy.special.k0,)),
    special("modified_bessel_k1", "positive", **WITHOUT_TORCH, numpy=(scipy.special.k1,)),
    special("scaled_modified_bessel_k0", "positive", **WITHOUT_TORCH, numpy=(scipy.special.k0e,)),
    special("scaled_modified_bessel_k1", "positive", **WITHOUT_TORCH, numpy=(scipy.special.k1e,)),
    special("spherical_bessel_j0", **WITHOUT_TORCH),
    at(special("spherical_bessel_j0", **WITHOUT_TORCH), -INF, -20, -1e-3, 0, 1e-9, 5, 100, INF),
    special("airy_ai", **WITHOUT_TORCH, dtypes=("float32", *INTS, "bool")),
    special("airy_ai", **WITHOUT_TORCH, dtypes=("float64",), tolerance=1e5),  # torch's function is that inaccurate
    alias(I0, "modified_bessel_i0", torch.special.i0),
    alias(I1, "modified_bessel_i1", torch.special.i1),
    alias(DIGAMMA, "digamma"),
    alias(DIGAMMA, "psi"),
    alias(ERF, "erf"),
    alias(ERFC, "erfc"),
    alias(ERFINV, "erfinv"),
    alias(IGAMMA, "gammainc"),
    alias(IGAMMAC, "gammaincc"),
    alias(LGAMMA, "gammaln"),
    alias(I0, "i0"),
    alias(LOGIT, "logit"),
    alias(MVLGAMMA, "multigammaln"),
    alias(POLYGAMMA, "polygamma"),
    alias(XLOGY, "xlogy"),
    special("exp2"),
    special("expm1"),
    special("log1p", "positive"),
    special("sinc"),
    special("round", dtypes=FLOATS, numeric=False),
    Row("special.logsumexp", along),
    named_polynomial("chebyshev_polynomial_t"),
    named_polynomial("chebyshev_polynomial_u"),
    named_polynomial("chebyshev_polynomial_v"),
    named_polynomial("chebyshev_polynomial_w"),
    named_polynomial("shifted_chebyshev_polynomial_t"),
    named_polynomial("shifted_chebyshev_polynomial_u"),
    named_polynomial("shifted_chebyshev_polynomial_v"),
    named_polynomial("shifted_chebyshev_polynomial_w"),
    named_polynomial("hermite_polynomial_h"),
    named_polynomial("hermite_polynomial_he"),
    named_polynomial("laguerre_polynomial_l"),
    named_polynomial("legendre_polynomial_p"),
]
