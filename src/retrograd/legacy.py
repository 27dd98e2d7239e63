"""Functions that older programs call."""

from __future__ import annotations

from typing import Any

from retrograd.ops.linalg_decompositions import qr_some as qr
from retrograd.ops.linalg_decompositions import svd_some as svd
from retrograd.ops.linalg_functions import vander_vector as vander
from retrograd.ops.linalg_lu import lu_solve_with as lu_solve
from retrograd.ops.linalg_lu import lu_with_infos as lu
from retrograd.ops.linalg_norms import vector_norm

__all__ = ["detach", "lu", "lu_solve", "norm_except_dim", "qr", "svd", "vander"]


def detach(input: Any) -> Any:
    """Return ``input.detach()``: the same numbers, without a history."""
    return input.detach()


def norm_except_dim(v: Any, pow: float = 2, dim: int = 0) -> Any:
    """Return the norms of the slices of ``v``, one for each index of the dimension ``dim``; of all of it if that is -1.

    Examples
    --------
    >>> rg.norm_except_dim(rg.tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([[5.],
            [2.]])
    """
    if dim == -1:
        return vector_norm(v, pow)
    if not -v.ndim <= dim < v.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-v.ndim}, {v.ndim - 1}], but got {dim}), for a "
            f"tensor of shape {list(v.shape)}"
        )
    others = tuple(k for k in range(v.ndim) if k != dim % v.ndim)
    return vector_norm(v, pow, others, keepdim=True) if others else vector_norm(v.unsqueeze(-1), pow, -1)
