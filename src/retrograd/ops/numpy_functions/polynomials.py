"""NumPy's polynomials on Tensors, coefficients of the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.registry import implements
from retrograd.core.tensor import wrap
from retrograd.ops.linalg_functions import vander_vector
from retrograd.ops.numpy_functions.reductions import as_float, as_operand, unsupported
from retrograd.ops.numpy_functions.shape import as_tensor, tensors


def _vectors(*values: Any) -> list[Any]:
    return [value.reshape(-1) for value in tensors(values)]


@implements(np.polyadd)
def _polyadd(a1: Any, a2: Any) -> Any:
    a1, a2 = _vectors(a1, a2)
    length = max(len(a1), len(a2))
    return np.pad(a1, (length - len(a1), 0)) + np.pad(a2, (length - len(a2), 0))


@implements(np.polysub)
def _polysub(a1: Any, a2: Any) -> Any:
    return _polyadd(a1, -as_tensor(a2))


@implements(np.polymul)
def _polymul(a1: Any, a2: Any) -> Any:
    return np.convolve(*_vectors(a1, a2))


@implements(np.polydiv)
def _polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """Quotient and remainder of long division; leading zeros of the remainder are cut off."""
    u, v = _vectors(u, v)
    steps = len(u) - len(v) + 1
    remainder = u + 0 * v[0]
    quotient = []
    for k in range(steps):
        quotient.append(remainder[k] / v[0])
        remainder = remainder - np.pad(quotient[-1] * v, (k, steps - 1 - k))
    large = ~np.isclose(remainder._data, 0, rtol=1e-14)
    first = int(large.argmax()) if large.any() else len(remainder) - 1
    return np.stack(quotient) if quotient else 0 * remainder[:1] / v[0], remainder[first:]


@implements(np.polyval)
def _polyval(p: Any, x: Any) -> Any:
    """Horner's scheme."""
    p, x = tensors((p, x))
    value = x * 0 + (p[0] if len(p) else 0)
    for coefficient in p[1:]:
        value = value * x + coefficient
    return value


@implements(np.polyder)
def _polyder(p: Any, m: int = 1) -> Any:
    if m < 0:
        raise ValueError(f"polyder: the order of the derivative must be positive, but is {m}; see numpy.polyint")
    for _ in range(m):
        p = p[:-1] * wrap(np.arange(len(p) - 1, 0, -1))
    return p


@implements(np.polyint)
def _polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    if m < 0:
        raise ValueError(f"polyint: the order of the integral must be positive, but is {m}; see numpy.polyder")
    constants = as_operand(0 if k is None else k, as_float(p))
    for constant in np.broadcast_to(constants, (m,)):
        p = np.append(p / wrap(np.arange(len(p), 0, -1)), constant)
    return p


@implements(np.poly)
def _poly(seq_of_zeros: Any) -> Any:
    """The polynomial with the given roots, or with the eigenvalues of a matrix for roots."""
    roots: Any = np.linalg.eigvals(seq_of_zeros) if seq_of_zeros.ndim == 2 else seq_of_zeros
    result: Any = roots.new_ones(1)
    for root in roots:
        result = np.convolve(result, np.stack([root * 0 + 1, -root]))
    if not roots.is_complex():
        return result
    values = np.sort(roots.numpy(force=True))
    return np.real(result) if np.array_equal(values, np.sort(values.conj())) else result


@implements(np.roots)
def _roots(p: Any) -> Any:
    """The eigenvalues of the companion matrix; a root at 0 for every trailing coefficient that is 0."""
    if p.ndim != 1:
        raise ValueError(f"roots: the coefficients must be a vector, but have shape {list(p.shape)}")
    (places,) = p._data.nonzero()
    if not places.size:
        return as_float(p[:0])
    zeros = len(p) - 1 - int(places[-1])
    p = as_float(p[int(places[0]) : len(p) - zeros])
    roots = p[:0]
    if len(p) > 1:
        below = np.eye(len(p) - 2, len(p) - 1, dtype=p.dtype.numpy)
        companion = np.concatenate([(-p[1:] / p[0])[None], as_tensor(below)])
        roots = np.linalg.eigvals(companion)
    return np.pad(roots, (0, zeros))


@implements(np.polyfit)
def _polyfit(
    x: Any, y: Any, deg: Any, rcond: float | None = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """Least squares on the scaled Vandermonde matrix."""
    unsupported("polyfit", "use numpy.linalg.lstsq on numpy.vander(x)", full=full, cov=cov)
    x, y = (as_float(value) for value in tensors((x, y)))
    powers = vander_vector(x, int(deg) + 1)
    if w is not None:
        w = as_operand(w, x)
        powers, y = powers * w[:, None], (y.T * w).T
    scale = np.sqrt(np.sum(powers * powers, axis=0))
    rcond = len(x) * float(np.finfo(x._data.dtype).eps) if rcond is None else rcond
    solution = np.linalg.lstsq(powers / scale, y, rcond)[0]
    return (solution.T / scale).T


@implements(np.vander)
def _vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    return vander_vector(x, N, increasing)
