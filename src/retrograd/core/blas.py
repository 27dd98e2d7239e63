"""Use of the BLAS that NumPy is linked to, beyond products.

``y = a*x + b*y`` in one pass over memory: NumPy needs a ufunc, and a pass, for each of the three operations. Its BLAS
has one routine for all of them, axpby; NumPy uses BLAS for products only and offers no way to call it, so it is looked
up in the library that NumPy has loaded. If there is none, as on macOS with Accelerate, if it is not found, as on
Windows, or for arrays of other dtypes, ufuncs do the same. On a GPU it is one kernel.

The BLAS's threads: when work is shared among our own threads, each should compute its products on one thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from retrograd.core import state
from retrograd.gpu import DeviceArray
from retrograd.gpu.fused import fused

# The routine's names: in NumPy's wheels and in distributions' builds with integers of 64 bits, then of 32.
_NAMES = (
    ("scipy_cblas_{}axpby64_", ctypes.c_int64),
    ("cblas_{}axpby64_", ctypes.c_int64),
    ("cblas_{}axpby", ctypes.c_int),
)
_REALS = {"f": ("s", ctypes.c_float), "d": ("d", ctypes.c_double)}
# The fastest way from an array to its address; a TypeError unless it is a contiguous, writable vector.
_memory = (ctypes.c_char * 1).from_buffer
# The number of elements from which on a call through ctypes pays off, and the largest that fits into 32 bits.
_SMALLEST, _LARGEST = 1 << 11, 1 << 30

_lock = threading.RLock()  # a signal's handler may compute while its thread holds it
_sharing = 0  # how many callers share work now
_before = 1  # the library's number of threads before the first of them


class _Kind(NamedTuple):
    """What vectors of one dtype and one length have in common: the routine for them, and its arguments as C types."""

    routine: Callable[..., None]
    real: Callable[[float], Any]
    size: Any
    one: Any  # from one element to the next


# By the id of a vector that is used repeatedly: its kind and address, and the weak reference that removes the entry.
_known: dict[int, tuple[_Kind, Any, weakref.ref[Any]]] = {}


def scale_and_add(y: Any, x: Any, a: float, b: float, scratch: Any) -> None:
    """``y = a*x + b*y`` for vectors of one length.

    Parameters
    ----------
    y
        The vector to write to.
    x
        May not overlap with ``y``.
    a, b
        A factor of 0 still propagates NaN.
    scratch
        A vector that may be overwritten; may be ``x``.
    """
    if type(y) is DeviceArray:
        _on_gpu(x, float(a), float(b), y)
        return
    # for a factor of 0, BLAS skips the vector, NaNs included
    if y.size >= _SMALLEST and a != 0 and b != 0:
        to, from_ = _known.get(id(y)) or _looked_up(y), _known.get(id(x)) or _looked_up(x)
        if to is not None and from_ is not None and to[0] is from_[0]:
            routine, real, size, one = to[0]
            status = None if state.monitor is None else _status()
            routine(size, real(a), from_[1], one, real(b), to[1], one)
            if status is not None and status.test(status.overflow):
                status.clear(status.overflow)
                state.monitor.flag("overflow")
            return
    np.multiply(x, a, out=scratch)
    if b == 1:
        np.add(y, scratch, out=y)
    else:
        np.multiply(y, b, out=y)
        np.add(y, scratch, out=y)


_on_gpu = fused("scale_and_add", "x a b", "y", "y = a * x + b * y")


def _looked_up(vector: Any) -> tuple[_Kind, Any] | None:
    """The kind of a vector and its memory; None if it is not NumPy's, has gaps or is read-only."""
    kind = _kind(vector.dtype.char, vector.size)
    try:
        return None if kind is None else (kind, _memory(vector))
    except TypeError:
        return None


def remember(vector: Any) -> None:
    """Look up once and for all the address of a vector that is repeatedly given to :func:`scale_and_add`.

    Only for a view that nobody else holds: its memory must stay in place and remain writable.
    """
    found = _looked_up(vector) if vector.size >= _SMALLEST else None
    if found is None:
        return
    key, address = id(vector), ctypes.c_void_p(ctypes.addressof(found[1]))
    # not a Python function: an interrupt within it would be lost, and the address of freed memory would stay
    _known[key] = found[0], address, weakref.ref(vector, functools.partial(_known.pop, key))


def use_threads(n: int) -> None:
    """Have products computed on ``n`` threads, if the library supports setting that."""
    global _before
    setting = threads()
    if setting is None:
        return
    with _lock:
        if _sharing:
            _before = n
        else:
            setting.set(n)


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    """Have every product computed by the calling thread alone, while several threads share work.

    The setting is global to the library and so affects every thread; the last one to leave restores it.
    """
    global _sharing, _before
    setting = threads()
    if setting is None:
        yield
        return
    with _lock:
        _sharing += 1  # first: if a signal handler computes at this moment, it does not count as the first
        if _sharing == 1:
            _before = setting.get()
            setting.set(1)
    try:
        yield
    finally:
        with _lock:
            if _sharing == 1:
                setting.set(_before)
            _sharing -= 1


def _end_sharing() -> None:
    """A forked child has none of the threads that were sharing work."""
    global _lock, _sharing
    if _sharing:
        setting = threads()
        assert setting is not None  # without it, nobody counts
        setting.set(_before)
    _lock, _sharing = threading.RLock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_end_sharing)


@functools.lru_cache(1 << 12)
def _kind(char: str, size: int) -> _Kind | None:
    """The kind of vectors of a dtype and length, or None if there is no axpby for it."""
    found = _routine(char) if size <= _LARGEST else None
    return None if found is None else _Kind(found[0], _REALS[char][1], found[1](size), found[1](1))


@functools.cache
def _routine(char: str) -> tuple[Callable[..., None], Any] | None:
    """axpby for a dtype and the type of its integers, or None if it cannot be had."""
    library = _library()
    if char not in _REALS or library is None:
        return None
    for name, integer in _NAMES:
        try:
            # without argument types, which would be checked with every call
            routine = library[name.format(_REALS[char][0])]
        except AttributeError:
            continue
        routine.restype = None
        return routine, integer
    return None


@functools.cache
def _library() -> ctypes.CDLL | None:
    """NumPy's compiled core; a look-up in it extends to the libraries it is linked to, except on Windows."""
    multiarray = sys.modules.get("numpy._core._multiarray_umath")
    try:
        return ctypes.CDLL(multiarray.__file__)  # type: ignore[union-attr]
    except (AttributeError, OSError, TypeError):
        return None


class _Threads(NamedTuple):
    """The library's functions that get and set how many threads a product is computed on."""

    get: Callable[[], int]
    set: Callable[[int], None]


@functools.cache
def threads() -> _Threads | None:
    """How to get and set the library's number of threads; None if that is not possible."""
    library = _library()
    for name in ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads"):
        get, set_ = (getattr(library, name.format(verb), None) for verb in ("get", "set"))
        if get is not None and set_ is not None:
            set_.argtypes, set_.restype = [ctypes.c_int], None
            return _Threads(get, set_)
    return None


class _Status(NamedTuple):
    """C's functions that read and clear the processor's floating-point flags, and the bit of overflow."""

    test: Callable[[int], int]
    clear: Callable[[int], int]
    overflow: int


@functools.cache
def _status() -> _Status | None:
    """The flags of C's ``<fenv.h>``; their bits differ between processors, so an overflow is provoked to find it."""
    kind = _kind("f", 1)
    if kind is None:
        return None
    routine, real, size, one = kind
    try:
        library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
        test, clear = library.fetestexcept, library.feclearexcept
    except (AttributeError, OSError, TypeError):
        return None

    def raised(value: float) -> int:
        x: Any = np.full(1, value, np.float32)
        y: Any = np.ones(1, np.float32)
        clear(_FLAGS)
        routine(size, real(10.0), _memory(x), one, real(1.0), _memory(y), one)
        return test(_FLAGS)

    overflow = raised(3e38) & ~raised(1 / 3)
    return _Status(test, clear, overflow) if overflow else None


_FLAGS = 0x1F  # all of them, on x86 and ARM
