"""Make a gradient fit the tensor it belongs to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.layout import dense_copy
from retrograd.core.reductions import reduce

if TYPE_CHECKING:
    from retrograd.core.node import Node


def fit(g: Any, shape: tuple[int, ...], dtype: np.dtype, made_by: Node | str, index: int) -> Any:
    """Sum ``g`` over the dimensions that broadcasting added, and bring it to ``dtype``.

    Works on arrays and on Tensors alike, because it is written in NumPy's functions.

    Parameters
    ----------
    g
        A gradient.
    shape, dtype
        Those of the tensor that ``g`` is the gradient of.
    made_by, index
        The node that made it, or the node's name, and the index of the input that it is for; named in the error.

    Raises
    ------
    RuntimeError
        If ``g`` has a shape that broadcasting from ``shape`` cannot have made.
    """
    if g.shape != shape:
        g = sum_to(g, shape, made_by, index)
    kind = g.dtype
    if kind != dtype:
        if kind.kind == "c" and dtype.kind != "c":
            g = np.real(g)
        if g.dtype != dtype:
            g = dense_copy(g, dtype)
    return g


def sum_to(g: Any, shape: tuple[int, ...], made_by: Node | str = "sum_to_size", index: int = 0) -> Any:
    """Undo broadcasting from ``shape``: sum over leading dimensions and over those where ``shape`` has length 1."""
    extra = g.ndim - len(shape)
    is_plain = type(g) is np.ndarray and g.dtype.char != "e"
    if is_plain and extra > 0 and g.shape[extra:] == shape and (extra == 1 or g.flags.c_contiguous):
        # the gradient of a bias
        return reduce(np.add, g if extra == 1 else g.reshape((math.prod(g.shape[:extra]), *shape)), 0)
    ok = extra >= 0 and all(n in (1, m) for n, m in zip(shape, g.shape[extra:], strict=True))
    if not ok:
        name = made_by if isinstance(made_by, str) else made_by.name()
        raise RuntimeError(
            f"Function {name} returned an invalid gradient at index {index} - got {list(g.shape)} "
            f"but expected shape compatible with {list(shape)}"
        )
    axes = tuple(range(extra)) + tuple(extra + k for k, n in enumerate(shape) if n == 1 and g.shape[extra + k] != 1)
    if axes and type(g) is np.ndarray:
        # float16 by way of float32, as torch sums
        dtype = np.float32 if g.dtype.char == "e" else None
        g = reduce(np.add, g, axes[0] if len(axes) == 1 else axes, True, dtype)
    elif axes:
        g = np.sum(g, axis=axes, keepdims=True)
    return g.reshape(shape) if extra else g
