"""CuPy's functions, ufuncs and modules."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.strict_cupy.array import (
    DATA,
    DEVICES,
    REDUCTIONS,
    Device,
    check_device,
    current,
    heard,
    hidden,
    leaves,
    ndarray,
    on_gpu,
    refuse_host_arrays,
)
from tests.strict_cupy.kernels import ElementwiseKernel
from tests.strict_cupy.numbers import OTHER_NUMBERS

_P = inspect.Parameter
_linalg_errors = SimpleNamespace(mode="ignore")


def _signature(text: str) -> inspect.Signature:
    """Parse a signature of the data, such as ``"a, axis=, *, dtype=, **kwargs"``."""
    kind, parameters = _P.POSITIONAL_OR_KEYWORD, []
    for name in text.split(", ") if text else []:
        if name == "*":
            kind = _P.KEYWORD_ONLY
        elif name.startswith("**"):
            parameters.append(_P(name[2:], _P.VAR_KEYWORD))
        elif name.startswith("*"):
            parameters.append(_P(name[1:], _P.VAR_POSITIONAL))
            kind = _P.KEYWORD_ONLY
        else:
            parameters.append(_P(name.rstrip("="), kind, default=None if name.endswith("=") else _P.empty))
    return inspect.Signature(parameters)


# --- ufuncs -----------------------------------------------------------------------------------------------------------

_SAME = str.maketrans("qQ", "lL")


class ufunc:  # noqa: N801 (CuPy's name)
    """A ufunc of NumPy with the dtypes and methods of CuPy's."""

    def __init__(self, numpy: np.ufunc, types: list[str], methods: list[str]) -> None:
        self.numpy, self.nin, self.nout, self.__name__ = numpy, numpy.nin, numpy.nout, numpy.__name__
        self._loops = [tuple(part.translate(_SAME) for part in text.split("->")) for text in types]
        self._methods = methods

    def _loop(self, inputs: Any) -> tuple[str, str]:
        kinds = [x.dtype if isinstance(x, (np.ndarray, np.generic)) else type(x) for x in inputs]
        if all(isinstance(kind, type) for kind in kinds):
            kinds = [np.asarray(x).dtype for x in inputs]
        array_kinds = [kind for kind in kinds if not isinstance(kind, type)]
        for takes, gives in self._loops:
            fits = all(
                np.can_cast(kind, char) if not isinstance(kind, type) else _weakly(kind, char, array_kinds)
                for kind, char in zip(kinds, takes, strict=True)
            )
            if fits:
                return takes, gives
        raise TypeError(f"Wrong type ({kinds}) of arguments for cupy_{self.__name__}")

    @heard
    def __call__(self, *args: Any, out: Any = None, casting: Any = "same_kind", dtype: Any = None):
        args, rest = args[: self.nin], args[self.nin :]
        out = rest[0] if rest else out
        for value in (*args, out):
            if not isinstance(value, (ndarray, int, float, complex, bool, np.generic, type(None))):
                raise TypeError(f"Unsupported type {type(value)}")
        check_device([args, out])
        inputs = [hidden(x) for x in args]
        takes, gives = self._loop(inputs) if dtype is None else (None, None)
        if takes is not None:
            inputs = [np.asarray(x).astype(char, copy=False) for x, char in zip(inputs, takes, strict=True)]
        keywords: dict[str, Any] = {"casting": casting} if dtype is None else {"casting": casting, "dtype": dtype}
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compute = OTHER_NUMBERS.get(self.__name__, self.numpy)
            if out is not None:
                compute(*inputs, out=hidden(out), **keywords)
                return out
            made = compute(*inputs, **keywords)
        parts = made if isinstance(made, tuple) else (made,)
        if gives is not None:
            parts = tuple(np.asarray(part).astype(char, copy=False) for part, char in zip(parts, gives, strict=True))
        return on_gpu(parts, args) if isinstance(made, tuple) else on_gpu(parts[0], args)

    def outer(self, a: Any, b: Any, **kwargs: Any) -> Any:
        return self._method("outer", (a, b), kwargs)

    def reduce(self, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return self._method("reduce", (a, axis, dtype, out, keepdims), {})

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        return self._method("accumulate", (a, axis, dtype, out), {})

    def reduceat(self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        return self._method("reduceat", (a, indices, axis, dtype, out), {})

    def at(self, a: Any, indices: Any, b: Any = None) -> None:
        if isinstance(a, ndarray) and self.numpy is np.add and a.dtype.char not in "ilLQqefdFDI":
            raise TypeError(f"scatter_add does not support {a.dtype}")
        if isinstance(a, ndarray) and self.numpy in (np.maximum, np.minimum):
            if a.dtype.char not in "iILQfd":
                raise TypeError(f"scatter_max does not support {a.dtype}")
            if a.dtype == np.float64:  # its kernels call fmaxf
                a[...] = a.astype(np.float32)
                b = b.astype(np.float32) if isinstance(b, ndarray) else b
            if a.dtype.kind == "f":
                (np.fmax if self.numpy is np.maximum else np.fmin).at(hidden(a), hidden(indices), hidden(b))
                return
        self._method("at", (a, indices) if b is None else (a, indices, b), {})

    @heard
    def _method(self, name: str, args: Any, kwargs: Any) -> Any:
        if name != "outer" and name not in self._methods:
            raise NotImplementedError(f"`cupy_{self.__name__}.{name}` is not supported yet")
        refuse_host_arrays([args, kwargs])
        check_device(leaves([args, kwargs]))
        with np.errstate(all="ignore"):
            return on_gpu(getattr(self.numpy, name)(*hidden(args), **hidden(kwargs)), args)


def _weakly(kind: type, char: str, others: list[Any]) -> bool:
    """Whether a loop accepts a Python number, which must not be of a higher kind than the loop's dtype."""
    rank = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
    own = 0 if kind is bool else 1 if kind is int else 2 if kind is float else 3
    wanted = np.result_type(*others, kind()) if others else np.dtype(kind)
    return own <= rank[np.dtype(char).kind] and np.can_cast(wanted, char)


# --- functions --------------------------------------------------------------------------------------------------------

_FROM_HOST = {"array", "asarray", "ascontiguousarray", "asfortranarray", "asanyarray"}
_NO_CONDITION_BUT_ARRAYS = {"where"}
_LINALG = "cupy.linalg"


def _of_numpy(module: str, name: str) -> Any:
    """Return the NumPy function behind one of CuPy's, or None if NumPy no longer has it."""
    numpy: Any = np
    for part in [*module.split(".")[1:], name]:
        numpy = getattr(numpy, part, None)
    return numpy


def _function(module: str, name: str, text: str | None, numpy: Any) -> Any:
    signature = None if text is None else _signature(text)

    def function(*args: Any, **kwargs: Any) -> Any:
        if signature is not None:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}() {error}") from None
        if name in _FROM_HOST:
            return _copied(name, *args, **kwargs)
        refuse_host_arrays([args, kwargs])
        check_device(leaves([args, kwargs]))
        if name in _NO_CONDITION_BUT_ARRAYS and not isinstance(args[0], ndarray):
            raise AttributeError(f"'{type(args[0]).__name__}' object has no attribute 'astype'")
        arrays = [value for value in leaves([args, kwargs]) if isinstance(value, ndarray)]
        if module == _LINALG and any(array.dtype == np.float16 for array in arrays):
            raise TypeError("float16 is unsupported in linalg")
        bound = {} if signature is None else signature.bind(*args, **kwargs).arguments
        if name in REDUCTIONS and arrays[0].ndim == 0 and bound.get("axis") not in (None, ()):
            raise np.exceptions.AxisError(f"axis {bound['axis']} is out of bounds for array of dimension 0")
        if bound.get("subok") is not None:
            raise TypeError("subok is not supported yet")
        if name == "einsum" and "out" in kwargs:
            raise TypeError("Did not understand the following kwargs: ['out']")
        if name == "searchsorted" and not isinstance(args[1], (ndarray, int, float, complex)):
            raise NotImplementedError("Only python scalars or ndarrays are supported for v")
        if name == "isin" and not isinstance(args[1], ndarray):
            raise AttributeError(f"'{type(args[1]).__name__}' object has no attribute 'size'")
        if bound.get("writeable"):
            raise NotImplementedError("Writeable views are not supported.")
        if bound.get("kind") not in (None, "stable"):
            raise ValueError("kind can only be None or 'stable'")
        if name == "solve" and arrays[1].ndim > 1 and arrays[0].shape[:-1] != arrays[1].shape[:-1]:
            raise ValueError("a must have (..., M, M) shape and b must have (..., M, K) for multidimensional b")
        host = [hidden(value) for value in args]
        if name.endswith("_like") and kwargs.get("shape") is not None and not kwargs["shape"]:
            raise AssertionError("CuPy would take these for no shape, and memory for one element")
        if name in ("convolve", "correlate") and not all(np.isfinite(each).all() for each in host[:2]):
            return ndarray(np.full_like(np.convolve(*host), np.nan))
        if name == "argsort":
            kwargs = {**kwargs, "kind": "stable"}
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made = numpy(*host, **hidden(kwargs))
                if name == "broadcast_arrays":
                    made = [np.broadcast_to(host[k], part.shape) for k, part in enumerate(made)]
            except np.linalg.LinAlgError as error:
                if _linalg_errors.mode == "raise" or "must be" in str(error) or "dimension" in str(error):
                    raise
                return _garbage(name, arrays[0], error)
        return on_gpu(made, arrays)

    function.__name__ = name
    return heard(function)


def _garbage(name: str, matrix: ndarray, error: Exception) -> Any:
    """Return NaN as the result for a matrix that LAPACK would refuse."""
    if name in ("inv", "cholesky"):
        return ndarray(np.full(matrix.shape, np.nan, matrix.dtype))
    raise AssertionError(f"CuPy would return garbage from {name}: {error}")


def _copied(name: str, a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    here = isinstance(a, ndarray) and a.device.id == current.device
    same = here and (dtype is None or a.dtype == dtype) and name != "array"
    if same and (name != "ascontiguousarray" or a.flags.c_contiguous):
        return a
    host = getattr(np, "array" if name == "asarray" and not isinstance(a, ndarray) else name)(hidden(a), dtype)
    return ndarray(np.array(host))


def _may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    return np.may_share_memory(a._host, b._host)


# --- modules ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _errstate(*, linalg: str | None = None) -> Iterator[None]:
    before, _linalg_errors.mode = _linalg_errors.mode, linalg or _linalg_errors.mode
    try:
        yield
    finally:
        _linalg_errors.mode = before


def _special() -> dict[str, Any]:
    """Return the functions of ``cupyx.scipy.special``: its ufuncs and functions composed of them."""
    scipy = importlib.import_module("scipy.special")
    found = {}
    for name, types in DATA["special"].items():
        function = getattr(scipy, {"digamma": "psi"}.get(name, name), None)
        if isinstance(function, np.ufunc) and types is not None:
            found[name] = ufunc(function, types.split(), [])
        elif callable(function) and types is None:
            found[name] = _plain(function)
    return found


def _plain(function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        refuse_host_arrays([args, kwargs])
        with np.errstate(all="ignore"):
            return on_gpu(function(*hidden(args), **hidden(kwargs)), args)

    return call


def _modules() -> dict[str, ModuleType]:
    names = ["cupy", "cupy.linalg", "cupy.fft", "cupy.lib", "cupy.lib.stride_tricks", "cupyx", "cupyx.scipy"]
    found = {name: ModuleType(name) for name in [*names, "cupyx.scipy.special"]}
    for name, module in found.items():
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(found[parent], last, module)
        for function, text in DATA["functions"].get(name, {}).items():
            if (host := _of_numpy(name, function)) is not None:
                setattr(module, function, _function(name, function, text, host))
    cupy: Any = found["cupy"]
    for name, facts in DATA["ufuncs"].items():
        setattr(cupy, name, ufunc(getattr(np, name), facts["types"].split(), facts["methods"].split()))

    class CUDARuntimeError(RuntimeError):
        pass

    cupy.__version__ = DATA["version"]
    cupy.ndarray, cupy.ufunc, cupy.ElementwiseKernel = ndarray, ufunc, ElementwiseKernel
    cupy.may_share_memory = _may_share_memory
    cupy.asnumpy = lambda a, **kwargs: a.get() if isinstance(a, ndarray) else np.asarray(a)
    cupy.cuda = SimpleNamespace(
        Device=Device,
        runtime=SimpleNamespace(
            getDeviceCount=lambda: DEVICES, getDevice=lambda: current.device, CUDARuntimeError=CUDARuntimeError
        ),
    )
    found["cupyx"].errstate = _errstate  # type: ignore[attr-defined]
    for name, function in _special().items():
        setattr(found["cupyx.scipy.special"], name, function)
    return found


@contextlib.contextmanager
def installed() -> Iterator[Any]:
    """Put the stand-in in CuPy's place inside a ``with`` block."""
    mine = _modules()
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ("cupy", "cupyx")}
    for name in before:
        del sys.modules[name]
    sys.modules.update(mine)
    current.device = 0
    _forget()
    try:
        yield mine["cupy"]
    finally:
        for name in mine:
            sys.modules.pop(name, None)
        sys.modules.update(before)
        _forget()


def _forget() -> None:
    """Make the package look up CuPy's functions again."""
    for name, module in list(sys.modules.items()):
        if name == "retrograd.device" or name.startswith("retrograd.gpu."):
            for kept in vars(module).values():
                if getattr(kept, "__module__", None) == name and hasattr(kept, "cache_clear"):
                    kept.cache_clear()
