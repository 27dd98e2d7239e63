"""NEP 18: NumPy's functions on arrays on a GPU, and replacements for those that CuPy lacks or only partly supports."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from retrograd.gpu.array import DeviceArray, as_strided
from retrograd.gpu.cupy_calls import call, is_answered
from retrograd.gpu.fallback import computed_on_cpu
from retrograd.gpu.indexing import check, in_bounds

Function = Callable[..., Any]

# The implementations of NumPy's functions; all others are CuPy's of the same name, called as they are.
ANSWERS: dict[Any, Function] = {}
_UNSAID = np._NoValue  # NumPy's marker for an argument that was not given


def device_function(self: DeviceArray, function: Any, types: Iterable[type], args: Any, kwargs: dict[str, Any]) -> Any:
    """Answer ``np.sum(x)`` and the like."""
    if not is_answered(types):
        return NotImplemented
    # there are no subclasses
    kwargs = {key: value for key, value in kwargs.items() if value is not _UNSAID and key != "subok"}
    answer = ANSWERS.get(function)
    if answer is not None:
        return answer(*args, **kwargs)
    found = _found(function)
    if found is None:
        return computed_on_cpu(function)(*args, **kwargs)
    kwargs.pop("device", None)  # of like=, which may be the only array
    if "out" in kwargs and kwargs["out"] is None:
        del kwargs["out"]
    return call(found, args, kwargs, self)


@functools.cache
def _found(function: Any) -> Function | None:
    """CuPy's function of the same name; None if it has none."""
    import cupy

    found: Any = cupy
    for part in [*function.__module__.split(".")[1:], function.__name__]:
        found = getattr(found, part, None)
    if found is None:
        return None
    return _strict(found) if function.__module__ == "numpy.linalg" else found


def _strict(function: Function) -> Function:
    """One of CuPy's functions for matrices, made to raise for a singular matrix instead of returning garbage.

    What it cannot do is left to LAPACK, whose answer for a matrix with NaN is another one: NaN for the solution of a
    system, no singular values at all.
    """

    def strict(*args: Any, **kwargs: Any) -> Any:
        import cupy
        from cupyx import errstate

        try:
            with errstate(linalg="raise"):
                made = function(*args, **kwargs)
            if function.__name__ != "svd" or cupy.isfinite(made[1] if isinstance(made, tuple) else made).all():
                return made
        except np.linalg.LinAlgError:
            pass
        made = getattr(np.linalg, function.__name__)(*map(cupy.asnumpy, args), **kwargs)
        parts = made if isinstance(made, tuple) else (made,)
        copied = tuple([cupy.asarray(part) for part in parts])
        return copied if isinstance(made, tuple) else copied[0]

    return strict


def answers(*functions: Any) -> Callable[[Function], Function]:
    """Declare the implementation of functions of NumPy's."""

    def register(answer: Function) -> Function:
        for function in functions:
            ANSWERS[function] = answer
        return answer

    return register


def _cupys(name: str) -> Function:
    """CuPy's function of this name, taking and returning our arrays."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return call(_named(name), args, kwargs)

    return function


@functools.cache
def _named(name: str) -> Function:
    import cupy

    return getattr(cupy, name)


# --- creation ---------------------------------------------------------------------------------------------------------


def _like(name: str) -> Function:
    """``np.zeros_like`` and its kind; CuPy takes the shapes 0 and () for none, and then takes too little memory."""

    def answer(*args: Any, shape: Any = None, **kwargs: Any) -> Any:
        if shape is None or (isinstance(shape, int) and shape) or (not isinstance(shape, int) and len(shape)):
            return _cupys(name)(*args, shape=shape, **kwargs)
        return _cupys(name)(*args, shape=(0,) if isinstance(shape, int) else (1,), **kwargs).reshape(shape)

    return answer


ANSWERS[np.empty_like] = _like("empty_like")
ANSWERS[np.zeros_like] = _like("zeros_like")
ANSWERS[np.ones_like] = _like("ones_like")
ANSWERS[np.full_like] = _like("full_like")


# --- reductions: initial= and where=, which CuPy does not know -------------------------------------------------------


def _smallest(dtype: np.dtype) -> Any:
    return -np.inf if dtype.kind in "fc" else False if dtype.kind == "b" else int(np.iinfo(dtype).min)


def _largest(dtype: np.dtype) -> Any:
    return np.inf if dtype.kind in "fc" else True if dtype.kind == "b" else int(np.iinfo(dtype).max)


def _reduction(name: str, combine: np.ufunc, neutral: Callable[[np.dtype], Any], a: Any, axis: Any, dtype: Any,
               keepdims: Any, initial: Any, where: Any) -> Any:  # fmt: skip
    if where is not _UNSAID and where is not True:
        a = np.where(where, a, a.dtype.type(neutral(a.dtype)))
    kwargs = {"keepdims": bool(keepdims)} if dtype is None else {"keepdims": bool(keepdims), "dtype": dtype}
    if initial is not _UNSAID and a.size == 0 and combine in (np.maximum, np.minimum):
        shape = np.empty(a.shape, bool).all(axis=axis, keepdims=bool(keepdims)).shape
        return np.full_like(a, initial, shape=shape)
    if axis == ():
        result = combine(a, a) if combine in (np.logical_and, np.logical_or) else a.astype(dtype or a.dtype)
    else:
        result = call(_named(name), (a, None if a.ndim == 0 else axis), kwargs)
    if initial is _UNSAID or initial == neutral(a.dtype):
        return result
    return combine(result, initial).astype(result.dtype, copy=False)


def _sum_like(name: str, combine: np.ufunc, neutral: int) -> Function:
    def answer(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _UNSAID,
        where: Any = _UNSAID,
    ) -> Any:  # fmt: skip
        return _into(out, _reduction(name, combine, lambda _: neutral, a, axis, dtype, keepdims, initial, where))

    return answer


def _max_like(name: str, combine: np.ufunc, neutral: Callable[[np.dtype], Any]) -> Function:
    def answer(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _UNSAID, where: Any = _UNSAID
    ) -> Any:
        return _into(out, _reduction(name, combine, neutral, a, axis, None, keepdims, initial, where))

    return answer


def _all_like(name: str, combine: np.ufunc, neutral: bool) -> Function:
    def answer(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = _UNSAID) -> Any:
        return _into(out, _reduction(name, combine, lambda _: neutral, a, axis, None, keepdims, _UNSAID, where))

    return answer


ANSWERS[np.sum] = _sum_like("sum", np.add, 0)
ANSWERS[np.prod] = _sum_like("prod", np.multiply, 1)
ANSWERS[np.max] = ANSWERS[np.amax] = _max_like("amax", np.maximum, _smallest)
ANSWERS[np.min] = ANSWERS[np.amin] = _max_like("amin", np.minimum, _largest)
ANSWERS[np.all] = _all_like("all", np.logical_and, True)
ANSWERS[np.any] = _all_like("any", np.logical_or, False)


def _into(out: Any, result: Any) -> Any:
    if out is None:
        return result
    target = out[0] if isinstance(out, tuple) else out
    target[...] = result
    return target


@answers(np.var)
def _var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False,
         correction: Any = 0) -> Any:  # fmt: skip
    return _into(out, _cupys("var")(a, axis, dtype, None, ddof or correction, keepdims))


@answers(np.std)
def _std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False,
         correction: Any = 0) -> Any:  # fmt: skip
    return _into(out, _cupys("std")(a, axis, dtype, None, ddof or correction, keepdims))


# --- choosing ---------------------------------------------------------------------------------------------------------


@answers(np.where)
def _where(condition: Any, *branches: Any) -> Any:
    if type(condition) is not DeviceArray:
        beside = next(x for x in branches if type(x) is DeviceArray)
        condition = np.asarray(condition, like=beside)
    return _cupys("where")(condition, *branches)


@answers(np.take)
def _take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    if type(a) is not DeviceArray:
        a = np.asarray(a, like=indices)
    if axis is None:
        a, axis = a.reshape(-1), 0
    positions = indices if type(indices) is DeviceArray else np.asarray(indices)
    if mode == "raise":
        check(positions, a.shape[axis], axis)
    elif mode == "clip":
        positions = np.clip(positions, 0, a.shape[axis] - 1)
    else:
        positions = positions % a.shape[axis]
    return _into(out, _cupys("take")(a, np.asarray(positions, like=a), axis))


@answers(np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    check(indices, arr.size if axis is None else arr.shape[axis], axis or 0)
    return _cupys("take_along_axis")(arr, indices, axis)


@answers(np.put_along_axis)
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    check(indices, arr.size if axis is None else arr.shape[axis], axis or 0)
    _cupys("put_along_axis")(arr, indices, values, axis)


@answers(np.repeat)
def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    if isinstance(repeats, (DeviceArray, np.ndarray)):
        repeats = repeats.tolist()
    return _cupys("repeat")(a, repeats, axis)


@answers(np.clip)
def _clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = _UNSAID, max: Any = _UNSAID
) -> Any:
    low, high = a_min if min is _UNSAID else min, a_max if max is _UNSAID else max
    result = a if low is None else np.maximum(a, low)
    return _into(out, result if high is None else np.minimum(result, high))


@answers(np.shares_memory, np.may_share_memory)
def _shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Whether the memory ranges of both overlap: CuPy's exact answer costs a sort of all addresses."""
    if type(a) is not DeviceArray or type(b) is not DeviceArray:
        return False
    import cupy

    return bool(cupy.may_share_memory(a.array, b.array))


# --- order ------------------------------------------------------------------------------------------------------------


@answers(np.sort)
def _sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    return _cupys("sort")(a.reshape(-1) if axis is None else a, -1 if axis is None else axis)


@answers(np.argsort)
def _argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    return _cupys("argsort")(a.reshape(-1) if axis is None else a, -1 if axis is None else axis)


@answers(np.searchsorted)
def _searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    beside = a if type(a) is DeviceArray else v
    return _cupys("searchsorted")(np.asarray(a, like=beside), np.asarray(v, like=beside), side, sorter)


@answers(np.isin)
def _isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Any:
    beside = element if type(element) is DeviceArray else test_elements
    return _cupys("isin")(
        np.asarray(element, like=beside), np.asarray(test_elements, like=beside), assume_unique, invert
    )


@answers(np.partition)
def _partition(a: Any, kth: Any, axis: int = -1, kind: Any = None, order: Any = None) -> Any:
    return _cupys("partition")(a, kth, axis)


@answers(np.argpartition)
def _argpartition(a: Any, kth: Any, axis: int = -1, kind: Any = None, order: Any = None) -> Any:
    return _cupys("argpartition")(a, kth, axis)


@answers(np.lexsort)
def _lexsort(keys: Any, axis: int = -1) -> Any:
    return _cupys("lexsort")(np.stack(tuple(keys)))


# --- matrices ---------------------------------------------------------------------------------------------------------


@answers(np.einsum)
def _einsum(*operands: Any, out: Any = None, **kwargs: Any) -> Any:
    return _into(out, _cupys("einsum")(*operands, **kwargs))


@answers(np.linalg.vecdot)
def _vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return np.sum((np.conj(x1) if x1.dtype.kind == "c" else x1) * x2, axis=axis)


@answers(np.linalg.solve)
def _solve(a: Any, b: Any) -> Any:
    import cupy

    if b.ndim > 1 and a.shape[:-2] != b.shape[:-2]:  # which CuPy does not broadcast
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:])
    return np.zeros_like(b) if b.size == 0 else call(_strict(cupy.linalg.solve), (a, b), {})


@answers(np.linalg.svdvals)
def _svdvals(x: Any, /) -> Any:
    return np.linalg.svd(x, compute_uv=False)


@answers(np.linalg.multi_dot)
def _multi_dot(arrays: Any, *, out: Any = None) -> Any:
    return _into(out, functools.reduce(np.dot, arrays))


@answers(np.copyto)
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    if type(dst) is not DeviceArray:
        raise TypeError("numpy.copyto: the source is on a GPU and the target is not; move the source with .cpu()")
    if isinstance(src, np.ndarray):
        src = np.asarray(src, like=dst)
    _cupys("copyto")(dst, src, casting, *([] if where is True else [np.asarray(where, like=dst)]))


@answers(np.put)
def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    flat = a.reshape(-1)
    flat[in_bounds(flat, np.asarray(ind, like=a))] = v


@answers(np.linalg.cholesky)
def _cholesky(a: Any, /, *, upper: bool = False) -> Any:
    import cupy

    lower = call(_strict(cupy.linalg.cholesky), (np.conj(a.mT) if upper else a,), {})
    return np.conj(lower.mT) if upper else lower


@answers(np.count_nonzero)
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return np.sum(a != 0, axis=axis, keepdims=keepdims)


@answers(np.lib.stride_tricks.sliding_window_view)
def _sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False,
                         writeable: bool = False) -> Any:  # fmt: skip
    lengths = tuple(np.atleast_1d(window_shape).tolist())
    axes = tuple(range(x.ndim)) if axis is None else tuple(k % x.ndim for k in np.atleast_1d(axis).tolist())
    shape = list(x.shape)
    for dim, length in zip(axes, lengths, strict=True):
        shape[dim] -= length - 1
    if min(shape, default=0) < 0:
        raise ValueError("window shape cannot be larger than input array shape")
    return as_strided(x, (*shape, *lengths), (*x.strides, *(x.strides[dim] for dim in axes)))


def _without_fft(name: str) -> Function:
    """``np.convolve`` and its kind; CuPy's use Fourier transforms, where one NaN makes everything NaN."""

    def answer(a: Any, v: Any, mode: Any = "full") -> Any:
        numpy = getattr(np, name)
        if all(np.all(np.isfinite(each)) for each in (a, v)):
            return _cupys(name)(a, v, mode)
        return computed_on_cpu(numpy)(a, v, mode)

    return answer


ANSWERS[np.convolve] = _without_fft("convolve")
ANSWERS[np.correlate] = _without_fft("correlate")


@answers(np.iscomplexobj)
def _iscomplexobj(x: Any) -> bool:
    return x.dtype.kind == "c"


@answers(np.isrealobj)
def _isrealobj(x: Any) -> bool:
    return x.dtype.kind != "c"


@answers(np.shape)
def _shape(a: Any) -> tuple[int, ...]:
    return a.shape


@answers(np.ndim)
def _ndim(a: Any) -> int:
    return a.ndim


@answers(np.size)
def _size(a: Any, axis: Any = None) -> int:
    return a.size if axis is None else a.shape[axis]


@answers(np.array2string, np.array_repr, np.array_str)
def _printed(a: Any, *args: Any, **kwargs: Any) -> str:
    return np.array2string(a.get(), *args, **kwargs)
