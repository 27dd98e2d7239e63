"""Calls of functions that create, describe and store arrays."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.numpy_calls.arrays import POSITIVE, SCALAR, UNIT, M, N, V, X, Z
from tests.numpy_calls.call import constant, described, differentiable, made, undetached

# --- ranges, which are differentiable in their ends -------------------------------------------------------------------

differentiable("linspace", SCALAR, V, 4)
differentiable("linspace", SCALAR, V, num=4, endpoint=False, retstep=True, axis=-1)
differentiable("linspace", 0.0, V, 3)
differentiable("logspace", SCALAR, UNIT, 4)
differentiable("logspace", SCALAR, UNIT[0], num=4, endpoint=False, base=2.0, axis=1)
differentiable("logspace", SCALAR, UNIT[0], 4, base=POSITIVE)
differentiable("geomspace", SCALAR, POSITIVE, 4)
differentiable("geomspace", np.array(-1.7), -POSITIVE, 4)
differentiable("geomspace", Z[0], Z[1], 3, endpoint=False, axis=1)

# --- creation with like= ----------------------------------------------------------------------------------------------

constant("zeros_like ones_like", M)
constant("zeros_like ones_like", M, dtype=np.int64, shape=(2, 2))
constant("full_like", M, 2.5)
differentiable("full_like", M, via=lambda f, a: f(a, a.sum()))
constant("empty_like", M, via=lambda f, a: f(a) * 0)
made("arange", 2, 9, 3)
made("arange", 3)
made("arange", 0.0, 1.0, 0.25, dtype=np.float32)
made("empty", (2, 3), via=lambda f, *a, **k: f(*a, **k) * 0)
made("eye", 3, 4, k=1)
made("frombuffer", b"\x01\x02\x03", np.uint8)
made("fromfile", __file__, np.uint8, 20)
made("fromfunction", lambda i, j: i - j, (2, 3))
made("fromiter", [1.0, 2.5], float)
made("fromstring", "1, 2.5", sep=",")
made("full", (2, 3), 1.5)
made("identity", 3)
made("ones zeros", (2, 3))
made("ones zeros", 3, dtype=np.int32)
made("tri", 3, 4, 1)
made("array asarray asanyarray ascontiguousarray asfortranarray", [[1.0, 2.0]])
made("require", [1.0, 2.0])
made("loadtxt", via=lambda f, **k: f(io.StringIO("1 2\n3 4"), **k))
made("genfromtxt", via=lambda f, **k: f(io.StringIO("1 2\n3 4"), **k))

# --- descriptions -----------------------------------------------------------------------------------------------------

described("array_repr array_str", V, via=lambda f, a: f(a)[:0])
described("array2string", V, precision=2)
described("can_cast", M, np.float32)
described("common_type", M, X)
described("may_share_memory shares_memory", M, X)
described("min_scalar_type", SCALAR, via=lambda f, a: f(a).kind)
described("result_type", M, N)

# --- files ------------------------------------------------------------------------------------------------------------


def _saved(load: Callable[..., Any]) -> Callable[..., Any]:
    def save_and_load(function: Any, x: Any) -> Any:
        file = io.BytesIO()
        function(file, x)
        file.seek(0)
        return np.zeros_like(x) + load(file)

    return save_and_load


undetached("save", M, via=_saved(np.load))
undetached("savetxt", M, via=_saved(np.loadtxt))
undetached("savez savez_compressed", M, via=_saved(lambda file: np.load(file)["arr_0"]))
