"""``out=`` of NumPy's functions and ufuncs: a write in place to a Tensor, which has a history, or to an ndarray."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from retrograd.core.tensor import Tensor, wrap


def into(out: Any, result: Any, name: str = "", casting: str = "same_kind") -> Any:
    """Write ``result`` to ``out`` and return that; without an ``out``, return the result.

    Raises
    ------
    TypeError
        As :func:`writable` does.
    """
    if out is None:
        return result
    written = writable(out, result, name, casting)
    if isinstance(out, Tensor):
        return out.copy_(written)
    out[...] = written
    return out


def writable(out: Any, result: Any, name: str = "", casting: str = "same_kind") -> Any:
    """Return ``result`` in a form that may be written to ``out``.

    Raises
    ------
    TypeError
        If a derivative would be lost in an ndarray, or if the dtype of ``out`` cannot hold the result, by the rule
        ``casting``.
    """
    where = f"{name}: " if name else ""
    if not isinstance(out, (Tensor, ndarray)):
        raise TypeError(f"{where}out= must be a Tensor or an array, but got {type(out).__name__}")
    result = result if isinstance(result, Tensor) else wrap(np.asarray(result))
    if isinstance(out, ndarray) and result.loses_derivative():
        raise TypeError(
            f"{where}the result of an operation on Tensors cannot be written into out= of type ndarray, which carries "
            "no gradient; omit out=, write array = array + x for array += x, or detach the operands with "
            "x.detach().numpy()"
        )
    target = out._data.dtype if isinstance(out, Tensor) else out.dtype
    if not np.can_cast(result._data.dtype, target, casting):  # type: ignore[arg-type]
        raise TypeError(f"{where}a result of dtype {result.dtype} cannot be written into out= of {out.dtype}")
    return result if isinstance(out, Tensor) else np.asarray(result)
