"""Functions that older programs call."""

from __future__ import annotations

from typing import Any

from retrograd.ops.linalg_decompositions import qr_some as qr
from retrograd.ops.linalg_decompositions import svd_some as svd
from retrograd.ops.linalg_functions import vander_vector as vander
from retrograd.ops.linalg_lu import lu_solve_with as lu_solve
from retrograd.ops.linalg_lu import lu_with_infos as lu

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
        return v.norm(pow)
    first = v.movedim(dim, 0)
    norms = first.reshape(first.shape[0], -1).norm(pow, 1)
    return norms.reshape(-1, *(1 for _ in v.shape[1:])).movedim(0, dim)
