"""Dropout layers: nothing in evaluation mode."""

from __future__ import annotations

from retrograd.core.tensor import Tensor
from retrograd.nn import functional as F
from retrograd.nn.modules.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    """What dropout layers share.

    Parameters
    ----------
    p
        The probability of an element, or of a channel, to be dropped.
    inplace
        Overwrite the input.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the parameters."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """In training mode, set elements to zero at random, and scale the others so that the expectation stays the same.

    Parameters
    ----------
    p
        The probability of an element to be dropped.
    inplace
        Overwrite the input.

    Examples
    --------
    >>> layer = rg.nn.Dropout(0.2)
    >>> layer.eval()(rg.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with elements dropped."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """In training mode, set whole channels of ``(N, C, L)`` to zero at random and scale the others."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with channels dropped."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """In training mode, set whole channels of ``(N, C, H, W)`` to zero at random and scale the others."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with channels dropped."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """In training mode, set whole channels of ``(N, C, D, H, W)`` to zero at random and scale the others."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with channels dropped."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean 0 and variance 1 after SELU; see :func:`~retrograd.nn.functional.alpha_dropout`.

    As in torch, ``inplace`` changes nothing: the layer before may need for its gradient what would be overwritten.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with elements dropped."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """:class:`AlphaDropout` of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with channels dropped."""
        return F.feature_alpha_dropout(input, self.p, self.training)
