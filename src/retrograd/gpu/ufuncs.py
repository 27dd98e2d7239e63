"""NEP 13: ufuncs on arrays on a GPU, and their methods."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.array_methods import outer
from retrograd.gpu.array import DeviceArray
from retrograd.gpu.cupy_calls import call, call_simply
from retrograd.gpu.fallback import computed_on_cpu, on_cpu
from retrograd.gpu.functions import ANSWERS
from retrograd.gpu.ufunc_at import combine_at
from retrograd.gpu.ufunc_corrections import ANSWERED, answer_for

# CuPy's functions for reductions with a ufunc.
_REDUCTIONS: dict[Any, Any] = {
    np.add: ANSWERS[np.sum],
    np.multiply: ANSWERS[np.prod],
    np.maximum: ANSWERS[np.max],
    np.minimum: ANSWERS[np.min],
    np.logical_and: ANSWERS[np.all],
    np.logical_or: ANSWERS[np.any],
}
_vecdot: Any = np.linalg.vecdot
# CuPy's names for functions that SciPy names differently.
_CUPYS_NAMES = {"psi": "digamma", "_zeta": "zeta"}
_LOGICAL = (np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
_SCANS: dict[Any, Any] = {np.add: np.cumsum, np.multiply: np.cumprod}
# Ufuncs that need more than a call of CuPy's ufunc of the same name.
_NOT_SIMPLE = {np.vecdot, *ANSWERED, *_LOGICAL}


def device_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer ``np.exp(x)``, ``np.add.reduce(x)`` and the like."""
    out: Any = kwargs.get("out") or ()
    if method == "__call__" and len(kwargs) == len(out) and (simple := _simple(ufunc)) is not None:
        made = call_simply(simple, inputs, *out)
        if made is not None:
            return made
    if not all(_is_known(x) for x in (*inputs, *out)):
        return NotImplemented
    if ufunc is np.vecdot:  # CuPy has none
        return _written(_vecdot(*inputs, axis=kwargs.get("axis", -1)), out)
    if method == "__call__":
        return _call(ufunc, inputs, **kwargs)
    answer = _METHODS.get(method)
    if answer is None:
        return NotImplemented
    made = answer(ufunc, *inputs, **{key: value for key, value in kwargs.items() if key != "out"})
    return _written(made, out)


def _is_known(x: Any) -> bool:
    kind = type(x)
    return kind is DeviceArray or not hasattr(kind, "__array_ufunc__") or issubclass(kind, (np.ndarray, np.generic))


def _call(ufunc: Any, inputs: tuple[Any, ...], out: Any = None, **kwargs: Any) -> Any:
    kwargs = {key: x for key, x in kwargs.items() if key not in ("order", "subok", "signature") and x is not None}
    if out is not None:
        _check_targets(ufunc, out)
    if ufunc in _LOGICAL:  # CuPy has no loops for complex numbers
        inputs = tuple([x != 0 if getattr(x, "dtype", np.dtype(bool)).kind == "c" else x for x in inputs])
    where = kwargs.pop("where", True)
    answer, function = answer_for(ufunc, inputs), _found(ufunc)
    if answer is not None or function is None:
        result = answer(*inputs) if answer is not None else computed_on_cpu(ufunc)(*inputs, **kwargs)
    elif out is None or ufunc.nout > 1 or where is not True:
        result = call(function, inputs, kwargs)
    else:
        call(function, inputs, {**kwargs, "out": out[0]})
        return out[0]
    return _written(result, out or (), where)


def _check_targets(ufunc: Any, out: tuple[Any, ...]) -> None:
    for target in out:
        if target is not None and type(target) is not DeviceArray:
            raise TypeError(
                f"numpy.{ufunc.__name__}: out= is in host memory, but operands are on a GPU; move them with .cpu()"
            )


def _written(result: Any, out: tuple[Any, ...], where: Any = True) -> Any:
    """The result, written to ``out`` if given, at the places of ``where``, which CuPy's ufuncs do not support."""
    if not out:
        return result
    for part, target in zip(result if isinstance(result, tuple) else (result,), out, strict=True):
        if target is not None and where is not True:
            np.copyto(target, part, where=where)
        elif target is not None:
            target[...] = part
    return out[0] if len(out) == 1 else out


@functools.cache
def _simple(ufunc: Any) -> Callable[..., Any] | None:
    """CuPy's ufunc, if a plain call of it suffices; else None."""
    is_simple = ufunc.nout == 1 and ufunc not in _NOT_SIMPLE and getattr(np, ufunc.__name__, None) is ufunc
    return _found(ufunc) if is_simple else None


@functools.cache
def _found(ufunc: Any) -> Callable[..., Any] | None:
    """CuPy's ufunc of the same name, be it NumPy's or SciPy's; None if it has none."""
    import cupy

    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:
        return getattr(cupy, name, None)
    from cupyx.scipy import special

    return getattr(special, _CUPYS_NAMES.get(name, name), None)


# --- methods ----------------------------------------------------------------------------------------------------------


def _reduce(
    ufunc: Any,
    x: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    function = _REDUCTIONS.get(ufunc)
    if function is None:
        return _folded(ufunc, x, axis, keepdims)
    kwargs: dict[str, Any] = {"keepdims": keepdims}
    if dtype is not None and ufunc in (np.add, np.multiply):
        kwargs["dtype"] = dtype
    if initial is not None and initial is not np._NoValue:
        kwargs["initial"] = initial
    if where is not True:
        kwargs["where"] = where
    return function(x, axis=axis, **kwargs)


def _folded(ufunc: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """A reduction by pairwise halving, for the ufuncs that CuPy cannot reduce with."""
    if axis is None:
        x = x.reshape(-1)
    moved = np.moveaxis(x, 0 if axis is None else axis, 0)
    while len(moved) > 1:
        half = len(moved) // 2
        joined = ufunc(moved[:half], moved[half : 2 * half])
        moved = joined if len(moved) % 2 == 0 else np.concatenate([joined, moved[2 * half :]])
    result = moved[0]
    if not keepdims:
        return result
    return result.reshape((1,) * x.ndim) if axis is None else np.expand_dims(result, axis)


def _accumulate(ufunc: Any, x: Any, axis: int = 0, dtype: Any = None) -> Any:
    """A scan; where CuPy has none, in steps of 1, 2, 4 and so on."""
    function = _SCANS.get(ufunc)
    if function is not None:
        return function(x, axis, dtype)
    made = np.moveaxis(x if dtype is None else x.astype(dtype), axis, 0)
    step = 1
    while step < len(made):
        made = np.concatenate([made[:step], ufunc(made[:-step], made[step:])])
        step *= 2
    return np.moveaxis(made, 0, axis)


def _reduceat(ufunc: Any, x: Any, indices: Any, axis: int = 0, dtype: Any = None) -> Any:
    starts = np.asarray(on_cpu(indices)).tolist()
    stops = [*starts[1:], x.shape[axis]]
    moved = np.moveaxis(x, axis, 0)
    parts = [
        ufunc.reduce(moved[start:stop], 0, dtype) if start < stop else moved[start]
        for start, stop in zip(starts, stops, strict=True)
    ]
    return np.moveaxis(np.stack(parts), 0, axis)


_METHODS: dict[str, Callable[..., Any]] = {
    "reduce": _reduce,
    "accumulate": _accumulate,
    "at": combine_at,
    "reduceat": _reduceat,
    "outer": outer,
}
