"""Numbers in a row: ranges, evenly spaced numbers, and the indices of triangles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from retrograd.batching import BatchedArray, unbatched
from retrograd.core.sites import warn_user
from retrograd.core.size import as_int
from retrograd.core.tensor import Tensor
from retrograd.creation.options import NumpyDType, Options, Request, as_number, as_real
from retrograd.dtypes import default_complex, default_float, fits, int64

if TYPE_CHECKING:
    from retrograd.core.annotations import Number


__all__ = ["arange", "linspace", "logspace", "range", "tril_indices", "triu_indices"]


def arange(
    start: Number | Tensor | None = None,
    end: Number | Tensor | None = None,
    step: Number | Tensor | None = None,
    **options: Unpack[Options],
) -> Tensor:
    """Return the numbers from ``start`` (0 by default) up to ``end``, exclusive, by ``step`` (1 by default).

    The forms are ``arange(end)``, ``arange(start, end)`` and ``arange(start, end, step)``. The dtype is int64 if all
    arguments are integers, and the default dtype otherwise.

    Raises
    ------
    RuntimeError
        If ``step`` is zero or leads away from ``end``, or one of the numbers is not finite.

    Examples
    --------
    >>> rg.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    if end is None:
        if start is None or step is not None:
            raise TypeError("arange() takes (end), (start, end) or (start, end, step)")
        start, end = 0, start
    given = {"start": 0 if start is None else start, "end": end, "step": 1 if step is None else step}
    bounds = [as_number("arange", name, value) for name, value in given.items()]
    if any(isinstance(bound, complex) for bound in bounds):
        raise RuntimeError("arange(): complex numbers have no order; start, end and step must be real")
    all_integers = all(isinstance(bound, int) for bound in bounds)
    request = Request("arange", options, int64.numpy if all_integers else default_float())
    if request.dtype.kind in "bc":
        raise NotImplementedError(f'"arange" not implemented for {request.dtype.name}; convert the result with .to()')
    if not all(math.isfinite(bound) for bound in bounds):
        raise RuntimeError(f"arange(): unsupported range: {bounds[0]} -> {bounds[1]} by {bounds[2]}")
    first, last, by = bounds
    _check_direction("arange", first, last, by)
    if request.dtype == int64.numpy:
        first, last, by = int(first), int(last), int(by)
    if by == 0:
        raise RuntimeError("arange(): step must be nonzero")
    length = -((first - last) // by) if isinstance(first + last + by, int) else math.ceil((last - first) / by)
    return _fill_in_order(request, lambda xp: _progression(xp, first, by, length, request.dtype))


def range(
    start: Number | Tensor = 0,
    end: Number | Tensor | None = None,
    step: Number | Tensor = 1,
    **options: Unpack[Options],
) -> Tensor:
    """Return the numbers from ``start`` to ``end``, **inclusive**, by ``step``. Deprecated: use :func:`arange`.

    The dtype is the default one, of real numbers, also if all arguments are integers.

    Raises
    ------
    RuntimeError
        If ``step`` is zero or leads away from ``end``, or one of the numbers is not finite.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     rg.range(1, 2, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    warn_user(
        "retrograd.range is deprecated because its behavior is inconsistent with Python's range builtin. Instead, use "
        "retrograd.arange, which produces values in [start, end)."
    )
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    request = Request("range", options, default_float())
    first, last, by = (as_real("range", name, x) for name, x in (("start", start), ("end", end), ("step", step)))
    if not all(map(math.isfinite, (first, last, by))):
        raise RuntimeError(f"range(): unsupported range: {first} -> {last} by {by}")
    if request.dtype.kind in "iu":
        first, last, by = int(first), int(last), int(by)
    if by == 0:
        raise RuntimeError("range(): step must be nonzero")
    _check_direction("range", first, last, by)
    length = int((last - first) / by) + 1
    return _fill_in_order(request, lambda xp: _progression(xp, first, by, length, request.dtype))


def _check_direction(name: str, first: Any, last: Any, by: Any) -> None:
    """Raise if the step leads away from the end."""
    if (last - first) * by < 0:
        raise RuntimeError(
            f"{name}(): upper bound and lower bound inconsistent with step sign: from {first} to {last} by {by}"
        )


def _fill_in_order(request: Request, numbers: Callable[[Any], Any]) -> Tensor:
    """The numbers as a vector, or in the shape of an ``out`` that has room for exactly as many."""
    out = request.out

    def make(xp: Any) -> Any:
        made = numbers(xp)
        return made if out is None or out.numel() != made.size else made.reshape(out.shape)

    return request.make(make)


def _progression(xp: Any, first: Any, by: Any, length: int, dtype: NumpyDType) -> Any:
    """first + k by, for k < length, computed in 64 bits."""
    if dtype.kind in "iu":
        first, by = int(first), int(by)
    wide = np.float64 if dtype.kind == "f" else np.int64
    numbers = xp.arange(length, dtype=wide)
    if by != 1:
        numbers *= by
    if first != 0:
        numbers += first
    return numbers.astype(dtype, copy=False)


def linspace(start: Number | Tensor, end: Number | Tensor, steps: int, **options: Unpack[Options]) -> Tensor:
    """Return ``steps`` evenly spaced numbers from ``start`` to ``end``, both inclusive.

    Raises
    ------
    RuntimeError
        If ``steps`` is negative, or ``start`` or ``end`` is a tensor with dimensions or does not fit into the dtype.

    Examples
    --------
    >>> rg.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    request, first, last, steps = _spaced("linspace", start, end, steps, options)
    return _fill_in_order(request, lambda xp: _truncated(_even(xp, first, last, steps), request.dtype))


def logspace(
    start: Number | Tensor, end: Number | Tensor, steps: int, base: float = 10.0, **options: Unpack[Options]
) -> Tensor:
    """Return ``base`` raised to ``steps`` evenly spaced exponents from ``start`` to ``end``, both inclusive.

    Raises
    ------
    RuntimeError
        If ``steps`` is negative, or ``start`` or ``end`` is a tensor with dimensions or does not fit into the dtype.
    """
    request, first, last, steps = _spaced("logspace", start, end, steps, options)
    base = as_real("logspace", "base", base)

    def make(xp: Any) -> Any:
        with np.errstate(all="ignore"):
            return _truncated(xp.power(base, _even(xp, first, last, steps)), request.dtype)

    return _fill_in_order(request, make)


def _spaced(name: str, start: Any, end: Any, steps: Any, options: Options) -> tuple[Request, Any, Any, int]:
    """Check the arguments of ``linspace`` and ``logspace``."""
    bounds = []
    for argument, value in (("start", start), ("end", end)):
        if isinstance(value, Tensor):
            if value.ndim:
                raise RuntimeError(
                    f"{name} only supports 0-dimensional start and end tensors, but got {argument} with {value.ndim} "
                    "dimension(s)."
                )
            value = value._data if type(value._data) is BatchedArray else value.item()
        bounds.append(value if type(value) is BatchedArray else as_number(name, argument, value))
    count = as_int(name, "steps", steps)
    if count < 0:
        raise RuntimeError(f"{name}(): number of steps must be non-negative, got {count}")
    is_complex = any(np.iscomplexobj(bound) for bound in bounds)
    request = Request(name, options, default_complex() if is_complex else default_float())
    if request.dtype.kind == "b":
        raise NotImplementedError(f'"{name}" not implemented for bool')
    if is_complex and request.dtype.kind != "c":
        raise RuntimeError(
            f"{name}(): inferred dtype {default_complex().name} can't be safely cast to passed dtype "
            f"{request.dtype.name}"
        )
    for argument, bound in zip(("start", "end"), bounds, strict=True):
        for number in unbatched(bound).ravel().tolist() if type(bound) is BatchedArray else [bound]:
            if not fits(number, request.dtype):
                raise RuntimeError(f"{name}(): {argument}={number} does not fit into {request.dtype.name}")
    first, last = (_in_double(bound, request.dtype) for bound in bounds)
    return request, first, last, count


def _in_double(bound: Any, dtype: NumpyDType) -> Any:
    """A bound to compute with: truncated for integer dtypes, in double precision for a batch."""
    if type(bound) is BatchedArray:
        bound = bound.astype(np.complex128 if bound.dtype.kind == "c" else np.float64)
        return np.trunc(bound) if dtype.kind in "iu" else bound
    return int(bound) if dtype.kind in "iu" else bound


def _even(xp: Any, first: Any, last: Any, steps: int) -> Any:
    """Evenly spaced numbers in double precision, built from both ends so that each is exact."""
    by = (last - first) / max(steps - 1, 1)
    k = xp.arange(steps, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return xp.where(k < steps // 2, first + by * k, last - by * (steps - 1 - k)) if steps > 1 else first + 0 * k


def _truncated(numbers: Any, dtype: NumpyDType) -> Any:
    """Numbers in double precision brought to ``dtype``; fractions are cut off in integers."""
    with np.errstate(all="ignore"):
        return numbers.astype(dtype, copy=False)


# --- indices ------------------------------------------------------------------------------------------------------


def tril_indices(row: int, col: int, offset: int = 0, **options: Unpack[Options]) -> Tensor:
    """Return the indices of the lower triangle of a ``row`` by ``col`` matrix as two rows: of rows and of columns.

    Parameters
    ----------
    offset
        The last diagonal in the triangle: 0 is the main one, above it they count up.
    """
    return _triangle("tril_indices", row, col, offset, options)


def triu_indices(row: int, col: int, offset: int = 0, **options: Unpack[Options]) -> Tensor:
    """Return the indices of the upper triangle of a ``row`` by ``col`` matrix as two rows: of rows and of columns.

    Parameters
    ----------
    offset
        The first diagonal in the triangle: 0 is the main one, above it they count up.
    """
    return _triangle("triu_indices", row, col, offset, options)


def _triangle(name: str, row: Any, col: Any, offset: Any, options: Options) -> Tensor:
    request = Request(name, options, int64.numpy)
    rows, columns, diagonal = (
        as_int(name, argument, value) for argument, value in (("row", row), ("col", col), ("offset", offset))
    )
    for argument, length in (("row", rows), ("col", columns)):
        if length < 0:
            raise RuntimeError(f"{name}(): {argument} must be non-negative, got {length}")
    if request.dtype.kind != "i" or request.dtype.itemsize < 4:
        raise NotImplementedError(f'"{name}" not implemented for {request.dtype.name}; use int32 or int64')

    def make(xp: Any) -> Any:
        return xp.stack(getattr(xp, name)(rows, diagonal, columns)).astype(request.dtype, copy=False)

    return request.make(make)
