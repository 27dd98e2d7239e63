"""Errors for reading numbers or an array from a tensor when its gradient would be lost: what to use instead."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from retrograd.core.sites import is_internal, package_of, warn_user

# Replacements that take tensors for functions that take only arrays, by the calling module; the first match counts.
_IN_PLACE_OF = (
    (
        "scipy.special",
        "its ufuncs take tensors, and so do retrograd.logsumexp, softmax and retrograd.special",
    ),
    ("scipy.linalg", "numpy.linalg and retrograd.linalg take tensors (matrix_exp for expm, solve_triangular, lu)"),
    ("scipy.stats", "the densities in retrograd.distributions take tensors, and the ufuncs of scipy.special"),
    ("scipy.fft", "numpy.fft takes tensors"),
    ("scipy.signal", "numpy.convolve and the convolutions in retrograd.nn.functional take tensors"),
    ("scipy.interpolate", "numpy.interp and operations on the coefficients take tensors"),
    (
        "scipy.integrate",
        "numpy.trapezoid and retrograd.cumulative_trapezoid take tensors, and so does a loop over the steps of an "
        "ordinary differential equation, written with NumPy",
    ),
    ("scipy.spatial", "retrograd.cdist takes tensors, and a rotation is numpy.block([[c, -s], [s, c]])"),
    (
        "scipy.sparse",
        "A @ x and x @ A take tensors, and so do retrograd.sparse.spsolve(A, b) and, for gradients of the entries of "
        "A, retrograd.sparse.mm(A, x, values=v)",
    ),
    (
        "scipy.optimize",
        "retrograd.optimize has minimize, least_squares, root and curve_fit with exact derivatives; functions passed "
        "to the others must return arrays, numpy.asarray(f(x)) with a plain array x",
    ),
    ("scipy.ndimage", "the convolutions and grid_sample in retrograd.nn.functional take tensors"),
    ("scipy", "define its derivative with a retrograd.autograd.Function"),
    ("pandas", "combine tensors with the arrays of columns and tables, column.to_numpy() * x"),
    ("xarray", "combine tensors with the arrays of variables, data.to_numpy() * x"),
    (
        "numpy.polynomial",
        "numpy.polyval takes tensors; chebval(x, c) and its like take a tensor x with an array c, chebvander(x, n) @ c "
        "an array x with a tensor c, and numpy.stack([chebval(x, e) for e in numpy.eye(n + 1)], -1) @ c two tensors",
    ),
    (
        "numpy.lib._stride_tricks_impl",
        "sliding_window_view takes tensors, and so does x.as_strided(size, stride), whose strides count elements",
    ),
    (
        "numpy.lib",
        "for numpy.vectorize(f)(x) write retrograd.vmap(f)(x), or numpy.where for its conditions; for "
        "numpy.ndenumerate(x) loop over numpy.ndindex(x.shape); in place of a list of tensors use numpy.stack([a, b]), "
        "numpy.concatenate or numpy.block",
    ),
    ("numpy.ma", "select with x[~mask] or numpy.where(mask, 0, x)"),
)
# The equivalents on tensors of some SciPy functions, in terms of their parameters' names.
IN_PLACE_OF_FUNCTIONS = {
    "scipy.integrate.cumulative_trapezoid": "retrograd.cumulative_trapezoid(y, x)",
    "scipy.integrate.trapezoid": "numpy.trapezoid(y, x)",
    "scipy.linalg.block_diag": "retrograd.block_diag(A, B)",
    "scipy.linalg.cho_factor": "numpy.linalg.cholesky(A), which retrograd.cholesky_solve(b[:, None], L) takes",
    "scipy.linalg.cho_solve": "retrograd.cholesky_solve(b[:, None], numpy.linalg.cholesky(A))[:, 0]",
    "scipy.linalg.cholesky": "numpy.linalg.cholesky(A, upper=True)",
    "scipy.linalg.expm": "retrograd.linalg.matrix_exp(A)",
    "scipy.linalg.ldl": "retrograd.linalg.ldl_factor(A)",
    "scipy.linalg.logm": "(v * numpy.log(w)) @ v.T with w, v = numpy.linalg.eigh(A), if A is symmetric",
    "scipy.linalg.lu": "retrograd.linalg.lu(A)",
    "scipy.linalg.lu_factor": "retrograd.linalg.lu_factor(A)",
    "scipy.linalg.solve_triangular": "retrograd.linalg.solve_triangular(A, b[:, None], upper=True)[:, 0]",
    "scipy.linalg.sqrtm": "(v * numpy.sqrt(w)) @ v.T with w, v = numpy.linalg.eigh(A), if A is symmetric",
    "scipy.linalg.toeplitz": "c[numpy.abs(i[:, None] - i)] with i = numpy.arange(len(c))",
    "scipy.signal.convolve": "numpy.convolve(x, y)",
    "scipy.signal.fftconvolve": "numpy.convolve(x, y)",
    "scipy.special.comb": "scipy.special.binom(N, k)",
    "scipy.special.factorial": "scipy.special.gamma(n + 1)",
    "scipy.special.log_softmax": "retrograd.log_softmax(x, axis)",
    "scipy.special.logsumexp": "retrograd.logsumexp(x, axis)",
    "scipy.special.multigammaln": "retrograd.special.multigammaln(a, d)",
    "scipy.special.perm": "scipy.special.poch(N - k + 1, k)",
    "scipy.special.polygamma": "retrograd.special.polygamma(n, x)",
    "scipy.special.softmax": "retrograd.softmax(x, axis)",
}
_OF_THE_SAME_NAME = ("det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "norm", "pinv", "qr", "solve", "svd")
IN_PLACE_OF_FUNCTIONS |= {f"scipy.linalg.{name}": f"numpy.linalg.{name}" for name in (*_OF_THE_SAME_NAME, "svdvals")}
_LIBRARIES = ("numpy", "scipy", "pandas", "xarray")
_BY_HAND = (
    "write np.stack([a, b]) in place of np.array([a, b]), np.block for rows of rows, array @ x in place of "
    "array.dot(x), mean + s * rng.normal(size=n) in place of rng.normal(mean, s), and out = np.zeros_like(x) in place "
    "of np.zeros(n) if x is written into it"
)


def no_array(reason: str) -> RuntimeError:
    """The error of a tensor that was asked for an array, depending on who asked."""
    library, advice = asking_library()
    instead = (
        f". This part of {library} takes arrays only: {advice}" if library else f", or, to keep the gradient, {advice}"
    )
    return RuntimeError(f"Can't call numpy() on Tensor that {reason}. Use tensor.detach().numpy() instead{instead}.")


def no_operand_of(library: str, operand: Any) -> TypeError:
    """The error about an operator between a tensor and an object of a library that takes only arrays."""
    return TypeError(f"{library}'s {type(operand).__name__} takes arrays only: {dict(_IN_PLACE_OF)[library]}")


def asks_for_operand(frame: FrameType) -> bool:
    """Whether it is SciPy's sparse ``A @ x`` that asks for an array.

    If it gets an object without dimensions, it defers to the class of ``x``, as a comment there says.
    """
    module = frame.f_globals.get("__name__") or ""
    return frame.f_code.co_name == "_matmul_dispatch" and module.startswith("scipy.sparse.")


def asking_library() -> tuple[str, str]:
    """The library that uses a tensor as an array, if it is not the user's own line, and what to write instead."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code):
        frame = frame.f_back
    module = function = ""
    while frame is not None:  # the outermost of its modules is the one that the user called
        name = frame.f_globals.get("__name__") or ""
        if package_of(frame) not in _LIBRARIES:
            break
        if not name.startswith("scipy._lib."):
            module, function = name, frame.f_code.co_name
        elif (decorated := frame.f_locals.get("f")) is not None and hasattr(decorated, "__module__"):
            module, function = decorated.__module__, decorated.__name__
        else:
            module = module or name
        frame = frame.f_back
    for library, advice in _IN_PLACE_OF:
        if module == library or module.startswith(f"{library}."):
            instead = IN_PLACE_OF_FUNCTIONS.get(f"{library}.{function}")
            return library, advice if instead is None else f"{advice}. In place of {function}, {instead}"
    return "", _BY_HAND


def warn_of_number() -> None:
    """Warn that a tensor is converted to a Python number, which loses its gradient."""
    # this is also how NumPy fills an element of an ndarray, array[0] = tensor
    library, advice = asking_library()
    if not library:
        advice = (
            "to keep it, write into a tensor (out = np.zeros_like(x)), not into an array, and call NumPy's functions "
            "(np.sin), not those of math"
        )
    warn_user(
        "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
        "Consider using tensor.detach() first. The number has no gradient: "
        + (f"this part of {library} takes numbers only; {advice}." if library else f"{advice}."),
        through=_LIBRARIES,
    )
