"""Distances as modules."""

from __future__ import annotations

from retrograd.core.tensor import Tensor
from retrograd.nn import functional as F
from retrograd.nn.modules.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of the difference of two inputs, along their last dimension.

    Parameters
    ----------
    p
        The order of the norm.
    eps
        Added to the difference.
    keepdim
        Keep the last dimension, with length 1.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the distances."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle of two inputs, along a dimension.

    Parameters
    ----------
    dim
        The dimension.
    eps
        The least product of norms to divide by.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the cosines."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
