"""CuPy's modules, with our arrays in place of CuPy's: these create arrays on a GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from retrograd.gpu.array import DeviceArray
from retrograd.gpu.cupy_calls import plain, wrapped


class Library:
    """A module of CuPy's whose functions take and return :class:`DeviceArray`."""

    ndarray = DeviceArray

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if isinstance(found, ModuleType):
            return found if name == "cuda" else Library(found)
        return self._wrapping(found) if callable(found) and not isinstance(found, type) else found

    def _wrapping(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            def asarray(x: Any) -> Any:
                return self._module.asarray(x)

            return wrapped(function(*plain(args, asarray), **{key: plain(x, asarray) for key, x in kwargs.items()}))

        return call


@functools.cache
def library(cupy: ModuleType) -> Any:
    """The library for CuPy."""
    return Library(cupy)
