"""Distances between the rows of one matrix."""

from __future__ import annotations

from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor
from retrograd.ops._checks import check_tensor
from retrograd.ops._distances import composed_pairs, distances_of_pairs, goes_by_column


@composite(method=False)
def pdist(input, p: float = 2.0) -> Tensor:
    """Return the ``p``-norm distances of all pairs of rows of a matrix: (0, 1), (0, 2), ..., (1, 2), ...

    Shapes: ``(N, M) -> (N * (N - 1) / 2,)``.

    Raises
    ------
    RuntimeError
        If ``input`` is no matrix of floating-point numbers, or ``p`` is negative.

    Examples
    --------
    >>> rg.pdist(rg.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    check_tensor("pdist", input)
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.is_floating_point():
        raise RuntimeError(f"pdist only supports floating-point dtypes, got: {input.dtype}")
    if not p >= 0:  # or NaN
        raise RuntimeError(f"pdist only supports non-negative p values, but got {p}")
    return distances_of_pairs(input, p) if goes_by_column(input, p) else composed_pairs(input, p)
