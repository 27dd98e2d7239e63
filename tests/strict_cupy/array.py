"""The array: a hidden NumPy array with exactly CuPy's methods."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

DATA = json.loads((Path(__file__).parent / "cupy_14_2_0.json").read_text())
DEVICES = 2

current = SimpleNamespace(device=0)

# Listeners that receive name, arguments and result of every call.
listeners: list[Callable[[str, tuple[Any, ...], dict[str, Any], Any], None]] = []


def heard(function: Callable[..., Any]) -> Callable[..., Any]:
    """Report the calls of a function to ``listeners``."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        for listen in listeners:
            listen(function.__name__, args, kwargs, made)
        return made

    return call


_FORWARDED = frozenset(DATA["ndarray"].split()) & {
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "clip", "conj", "conjugate", "cumprod", "cumsum",
    "diagonal", "dot", "fill", "flatten", "max", "mean", "min", "nonzero", "prod", "ptp", "ravel", "repeat", "reshape",
    "round", "searchsorted", "sort", "squeeze", "std", "sum", "swapaxes", "take", "trace", "transpose", "var", "view",
}  # fmt: skip
_REFUSED_KEYWORDS = {"initial", "where", "correction", "mode", "stable"}
REDUCTIONS = {"sum", "prod", "amax", "amin", "max", "min", "mean", "std", "var", "argmax", "argmin"}


class Device:
    """A GPU, which is the current one in a ``with`` block."""

    def __init__(self, number: int | None = None) -> None:
        self.id = current.device if number is None else number
        self.compute_capability = "90"

    def __enter__(self) -> Device:
        self._before, current.device = current.device, self.id
        return self

    def __exit__(self, *error: object) -> None:
        current.device = self._before

    def use(self) -> None:
        current.device = self.id

    def synchronize(self) -> None: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    __hash__ = None  # type: ignore[assignment]


class ndarray(NDArrayOperatorsMixin):  # noqa: N801 (CuPy's name)
    """An array that behaves as if it were on a GPU."""

    __slots__ = ("_host", "base", "device")

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    def __init__(self, host: np.ndarray, base: ndarray | None = None) -> None:
        self._host = host
        self.base = base
        self.device = Device() if base is None else base.device

    # --- layout ---------------------------------------------------------------------------------------------------

    shape = property(lambda self: self._host.shape)
    strides = property(lambda self: self._host.strides)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    dtype = property(lambda self: self._host.dtype)
    itemsize = property(lambda self: self._host.itemsize)
    nbytes = property(lambda self: self._host.nbytes)
    T = property(lambda self: on_gpu(self._host.T, [self]))
    mT = property(lambda self: on_gpu(self._host.mT, [self]))  # noqa: N815

    @property
    def flags(self) -> Any:
        flags = self._host.flags
        return SimpleNamespace(c_contiguous=flags.c_contiguous, f_contiguous=flags.f_contiguous, owndata=flags.owndata)

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self._host.__array_interface__["data"][0], device_id=self.device.id)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        own = self._host.__array_interface__
        return {key: own[key] for key in ("shape", "typestr", "descr", "data", "strides")} | {"version": 3, "stream": 1}

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device.id

    @property
    def real(self) -> Any:
        return on_gpu(self._host.real, [self])

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Any:
        return on_gpu(self._host.imag, [self])

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    # --- to the CPU -----------------------------------------------------------------------------------------------

    @heard
    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> np.ndarray:
        return self._host.copy(order)

    @heard
    def item(self) -> Any:
        return self._host.item()

    @heard
    def tolist(self) -> Any:
        return self._host.tolist()

    def __array__(self, dtype: Any = None) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array "
            "explicitly."
        )

    @heard
    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError("The truth value of an array with more than one element is ambiguous.")
        return bool(self._host)

    @heard
    def __float__(self) -> float:
        return float(self._host.item())

    @heard
    def __int__(self) -> int:
        return int(self._host.item())

    @heard
    def __complex__(self) -> complex:
        return complex(self._host.item())

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return len(self._host)

    def __iter__(self) -> Iterator[ndarray]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        return repr(self._host)

    # --- copies ---------------------------------------------------------------------------------------------------

    @heard
    def astype(
        self, dtype: Any, order: Any = "K", casting: Any = None, subok: Any = None, copy: bool = True
    ) -> ndarray:
        if casting is not None or subok is not None:
            raise TypeError("casting and subok are not supported yet")
        with np.errstate(all="ignore"), ignored_complex_warning():
            made = self._host.astype(dtype, order=order, copy=copy)
        return self if made is self._host else ndarray(made)

    @heard
    def copy(self, order: str = "C") -> ndarray:
        return ndarray(self._host.copy(order))

    def __copy__(self) -> ndarray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> ndarray:
        return self.copy()

    def __reduce__(self) -> Any:
        raise NotImplementedError("the stand-in is not pickled")

    # --- indices --------------------------------------------------------------------------------------------------

    @heard
    def __getitem__(self, index: Any) -> ndarray:
        return on_gpu(np.asanyarray(self._host[wrapped_around(self._host.shape, index)]), [self])

    @heard
    def __setitem__(self, index: Any, value: Any) -> None:
        check_device([self, value])
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        if isinstance(value, (list, tuple)):
            raise ValueError("a sequence cannot be used for fill")
        with np.errstate(all="ignore"), ignored_complex_warning():
            self._host[wrapped_around(self._host.shape, index)] = hidden(value)

    # --- NumPy's protocols ----------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        import cupy

        function = getattr(cupy, ufunc.__name__, None)
        if function is None:
            return NotImplemented
        if "out" in kwargs:
            (kwargs["out"],) = kwargs["out"]
        return (function if method == "__call__" else getattr(function, method))(*inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        import cupy

        found: Any = cupy
        for part in [*function.__module__.split(".")[1:], function.__name__]:
            found = getattr(found, part, None)
        if found is None or not all(issubclass(kind, (ndarray, np.ndarray)) for kind in types):
            return NotImplemented
        return found(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name not in _FORWARDED:
            raise AttributeError(f"'cupy.ndarray' object has no attribute '{name}'")

        def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
            if refused := _REFUSED_KEYWORDS & set(kwargs):
                raise TypeError(f"{name}() got an unexpected keyword argument '{refused.pop()}'")
            refuse_host_arrays([args, kwargs])
            check_device([self, *args])
            with np.errstate(all="ignore"):
                return on_gpu(getattr(self._host, name)(*hidden(args), **hidden(kwargs)), [self])

        method.__name__ = name
        return functools.partial(heard(method), self)


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        yield from leaves(list(value.values()))
    else:
        yield value


def check_device(values: Any) -> None:
    """Raise CuPy's error for arrays of another device."""
    for value in leaves(list(values)):
        if isinstance(value, ndarray) and value.device.id != current.device:
            raise ValueError(
                f"Array device must be same as the current device: array device = {value.device.id} while current = "
                f"{current.device}"
            )


def refuse_host_arrays(values: Any) -> None:
    for value in leaves(values):
        if isinstance(value, np.ndarray):
            raise TypeError(f"Unsupported type {np.ndarray}")


def hidden(value: Any) -> Any:
    """Return the value with NumPy arrays in place of ours."""
    if isinstance(value, ndarray):
        return value._host
    if isinstance(value, (list, tuple)):
        return type(value)([hidden(item) for item in value])
    if isinstance(value, dict):
        return {key: hidden(item) for key, item in value.items()}
    return value


def on_gpu(value: Any, sources: Any = ()) -> Any:
    """Return the value with our arrays in place of NumPy's; scalars become 0-d arrays, named tuples plain ones."""
    if isinstance(value, np.ndarray):
        for source in leaves(list(sources)):
            if isinstance(source, ndarray):
                if value is source._host:
                    return source
                if np.may_share_memory(value, source._host):
                    if not value.flags.writeable:  # CuPy can write to the views of np.diagonal and np.broadcast_to
                        value = _writeable(value)
                    return ndarray(value, source if source.base is None else source.base)
        return ndarray(value if value.flags.writeable else value.copy())
    if isinstance(value, np.generic):
        return ndarray(np.asarray(value))
    if isinstance(value, (list, tuple)):
        parts = [on_gpu(item, sources) for item in value]
        return parts if isinstance(value, list) else tuple(parts)
    return value


def _writeable(view: np.ndarray) -> np.ndarray:
    """Return the same view of memory, made writable."""
    interface = SimpleNamespace(__array_interface__={**view.__array_interface__, "data": (_address(view), False)})
    interface.owner = view
    made = np.asarray(interface)
    return made if made.shape == view.shape else made.reshape(view.shape)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def wrapped_around(shape: tuple[int, ...], index: Any) -> Any:
    """Return the index for NumPy, with indices out of bounds wrapped around as by CuPy's kernels."""
    check_device(index if isinstance(index, tuple) else [index])
    parts = list(hidden(index)) if isinstance(index, tuple) else [hidden(index)]
    consumed = sum(
        part.ndim if isinstance(part, np.ndarray) and part.dtype == bool else 1
        for part in parts
        if part is not None and part is not Ellipsis and not isinstance(part, (bool, np.bool_))
    )
    dimension = 0
    for place, part in enumerate(parts):
        if part is Ellipsis:
            dimension += len(shape) - consumed
        elif isinstance(part, (list, np.ndarray)) and np.asarray(part).dtype != bool:
            if dimension < len(shape) and shape[dimension] and np.size(part):
                parts[place] = np.asarray(part) % shape[dimension]
            dimension += 1
        elif isinstance(part, np.ndarray):
            dimension += part.ndim
        elif part is not None and not isinstance(part, (bool, np.bool_)):
            dimension += 1
    return tuple(parts) if isinstance(index, tuple) else parts[0]


@contextlib.contextmanager
def ignored_complex_warning() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        yield
