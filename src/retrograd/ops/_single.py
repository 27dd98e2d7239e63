"""``log1p`` and ``expm1`` of float32 arrays, in the ranges that activations and losses need.

NumPy computes both with vector instructions on processors that have AVX-512 only, but ``log`` and ``tanh`` on all
(of float32 numbers), so that these detours take a third of the time elsewhere. They are wrong by 3 ulp at most.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

_MANY = 1 << 10  # elements from which on a detour takes less time


def log1p_to_one(x: Any) -> Any:
    """``log(1 + x)`` of numbers from 0 to 1."""
    if not _takes_detour(x, "log1p"):
        return np.log1p(x)
    near = x + 1
    result = x - (near - 1)  # what rounding has lost: log(near + rest) is log(near) + rest / near in this dtype
    result /= near
    result += np.log(near, out=near)
    return result


def expm1_to_zero(x: Any) -> Any:
    """``exp(x) - 1`` of numbers that are not positive."""
    if not _takes_detour(x, "expm1"):
        return np.expm1(x)
    result = x * 0.5
    np.tanh(result, out=result)
    rest = 1 - result
    result += result
    result /= rest  # exp(x) - 1 = 2 tanh(x / 2) / (1 - tanh(x / 2))
    return result


def _takes_detour(x: Any, name: str) -> bool:
    return type(x) is np.ndarray and x.dtype == np.float32 and x.size >= _MANY and not _has_vectors(name)


@functools.cache
def _has_vectors(name: str) -> bool:
    """Whether NumPy uses vector instructions in a function of float32 numbers; taken for granted before NumPy 2.1."""
    try:
        from numpy.lib.introspect import opt_func_info
    except ImportError:
        return True
    target = opt_func_info(func_name=f"^{name}$").get(name, {}).get("ff", {}).get("current", "")
    return "AVX512" in target or "X86_V4" in target
