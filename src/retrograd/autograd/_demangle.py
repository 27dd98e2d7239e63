"""Names of C++ functions as people write them, by the C++ runtime library if there is one."""

from __future__ import annotations

import functools
from collections.abc import Callable


def demangle(name: str) -> str:
    """Return the readable form of a mangled C++ name; anything else as it is."""
    if not name.startswith("_Z"):
        return name
    return _demangler()(name)


@functools.cache
def _demangler() -> Callable[[str], str]:
    """``__cxa_demangle`` of the Itanium C++ ABI, or the identity where the library is missing."""
    try:
        import ctypes
    except ImportError:
        return str
    for candidate in ("libstdc++.so.6", "libc++.1.dylib", "libc++abi.so.1"):
        try:
            library = ctypes.CDLL(candidate)
            # char* __cxa_demangle(const char* mangled, char* buffer, size_t* length, int* status)
            library.__cxa_demangle.restype = ctypes.c_void_p
            library.free.argtypes = [ctypes.c_void_p]
        except (OSError, AttributeError):
            continue
        break
    else:
        return str

    def call(name: str) -> str:
        pointer = library.__cxa_demangle(name.encode(), None, None, None)
        if not pointer:
            return name
        try:
            return ctypes.string_at(pointer).decode()
        finally:
            library.free(pointer)

    return call
