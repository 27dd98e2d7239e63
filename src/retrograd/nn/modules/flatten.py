"""Changes of shape as modules."""

from __future__ import annotations

from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.nn.modules.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Make one dimension of several; by default of all but the first, the batch.

    Parameters
    ----------
    start_dim, end_dim
        The first and the last of them.

    Examples
    --------
    >>> rg.nn.Flatten()(rg.ones(2, 3, 4)).shape
    retrograd.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input.flatten(start_dim, end_dim)``."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Make several dimensions of one.

    Parameters
    ----------
    dim
        The dimension.
    unflattened_size
        What it becomes: a tuple of lengths.

    Examples
    --------
    >>> rg.nn.Unflatten(1, (3, 4))(rg.ones(2, 12)).shape
    retrograd.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(
                f"invalid argument type for dim: int expected, got {type(dim).__name__}; named dimensions are not "
                "supported"
            )
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for position, length in enumerate(unflattened_size):
            if not isinstance(length, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(length).__name__} at pos {position}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input.unflatten(dim, unflattened_size)``."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Return the dimension and what it becomes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
