"""Count a program's calls of CuPy, and its copies to and from host memory, by function and by caller."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.strict_cupy.array import leaves, listeners, ndarray
from tests.strict_cupy.kernels import ElementwiseKernel
from tests.strict_cupy.modules import ufunc

KERNEL = "kernels"  # a call that launches work on the GPU
VIEW = "views"  # a call that does not: a view, or uninitialized memory
COPY_IN = "copies in"  # a copy of an array in host memory
COPY_OUT = "copies out"  # calls that wait for the GPU
KINDS = (KERNEL, VIEW, COPY_IN, COPY_OUT)

_WAITING = {"get", "item", "tolist", "asnumpy", "__bool__", "__float__", "__int__", "__complex__", "nonzero", "unique"}
_EMPTY = {"empty", "empty_like"}
_FROM_HOST = {"array", "asarray", "ascontiguousarray", "asfortranarray", "asanyarray"}
# modules whose frames lie between a call and its actual caller
_BETWEEN = ("strict_cupy", "retrograd/gpu/", "array_methods", "numpy/", "contextlib", "functools")


class Call(NamedTuple):
    """A function of CuPy called from one place."""

    kind: str
    function: str
    caller: str


def kinds_of(name: str, args: tuple[Any, ...], made: Any) -> list[str]:
    """Return what a call means for the GPU."""
    if name in _WAITING:
        return [COPY_OUT]
    if name in _FROM_HOST and not any(isinstance(leaf, ndarray) for leaf in leaves(args[0])):
        return [COPY_IN]
    if name == "__getitem__" and any(_is_mask(part) for part in leaves(args[1])):
        return [COPY_OUT, KERNEL]
    results = [leaf for leaf in leaves(made) if isinstance(leaf, ndarray)]
    are_old = results and all(leaf.base is not None or any(leaf is x for x in leaves(list(args))) for leaf in results)
    writes = name in ("__setitem__", "copyto") or any(leaf is x for leaf in results for x in args[1:])
    return [VIEW if name in _EMPTY or (are_old and not writes) else KERNEL]


def _is_mask(part: Any) -> bool:
    return isinstance(part, (ndarray, np.ndarray)) and part.dtype == bool


def _caller() -> str:
    frame: Any = sys._getframe(2)
    while frame is not None and any(part in frame.f_code.co_filename for part in _BETWEEN):
        frame = frame.f_back
    if frame is None:
        return "?"
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"


@contextlib.contextmanager
def counted() -> Iterator[Counter[Call]]:
    """Count the calls inside a ``with`` block."""
    counts: Counter[Call] = Counter()

    def listen(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any) -> None:
        if isinstance(args[0], (ufunc, ElementwiseKernel)):
            name, args = args[0].__name__, args[1:]
        given = (*args, kwargs["out"]) if kwargs.get("out") is not None else args
        for kind in kinds_of(name, given, made):
            counts[Call(kind, name, _caller())] += 1

    listeners.append(listen)
    try:
        yield counts
    finally:
        listeners.remove(listen)


def totals(counts: Counter[Call]) -> dict[str, int]:
    """Return the number of calls of each kind."""
    return {kind: sum(n for call, n in counts.items() if call.kind == kind) for kind in KINDS}
