"""Dropout: elements or whole channels set to zero at random while training (Srivastava et al., 2014)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.core.record import settle
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops._checks import check_flags, check_number, check_tensors
from retrograd.random.generator import default_generator
from retrograd.random.in_place import module_of

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]


def _probability(name: str, p: float | Tensor, training: bool) -> float:
    """A probability as a number, which may have come in a tensor; 0 outside of training."""
    check_flags(name, training=training)
    p = check_number(name, "p", p)
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return float(p) if training else 0.0


def _kept(input: Tensor, shape: tuple[int, ...], p: float) -> Any:
    """An array of booleans: which elements stay, to be scaled."""
    if input.dtype.kind not in "fc":
        raise RuntimeError(
            f"dropout: elements that are kept are multiplied by a number that {input.dtype} cannot hold; convert the "
            "input first, for example with .to(retrograd.float32)"
        )
    rng: Any = default_generator.on(module_of(input._data))
    return rng.random(shape, dtype=np.float32) >= p


def _drop(input: Tensor, shape: tuple[int, ...], p: float, inplace: bool) -> Tensor:
    """``input`` times random noise of a shape that broadcasts: 0 with probability ``p``, otherwise ``1 / (1 - p)``."""
    scale = 0.0 if p == 1 else 1 / (1 - p)
    noise = wrap(settle(np.multiply(_kept(input, shape, p), scale, dtype=input._data.dtype)))
    return input.mul_(noise) if inplace else input * noise


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set elements to zero with probability ``p``, and scale the others so that the expectation stays the same.

    Parameters
    ----------
    p
        The probability of an element to be dropped.
    training
        If False, ``input`` itself is returned.
    inplace
        Overwrite ``input``.

    Raises
    ------
    ValueError
        If ``p`` is not a probability.

    Examples
    --------
    >>> x = rg.nn.functional.dropout(rg.ones(1000), 0.5)
    >>> x.unique()
    tensor([0., 2.])
    """
    check_tensors("dropout", input=input)
    p = _probability("dropout", p, training)
    if p == 0:
        return input
    return _drop(input, input._data.shape, p, inplace)


def _channels(input: Tensor) -> tuple[int, ...]:
    """The shape of one number per channel of ``(N, C, ...)``."""
    if input.ndim < 2:
        raise RuntimeError(
            f"Feature dropout requires at least 2 dimensions in the input, got shape {list(input.shape)}"
        )
    return input._data.shape[:2] + (1,) * (input.ndim - 2)


def _drop_channels(input: Tensor, p: float, training: bool, inplace: bool, unbatched: int) -> Tensor:
    """Dropout of whole channels, where an input of ``unbatched`` dimensions has no batch dimension."""
    p = _probability("feature_dropout", p, training)
    if p == 0:
        return input
    shape = (input.shape[0],) + (1,) * (input.ndim - 1) if input.ndim == unbatched else _channels(input)
    return _drop(input, shape, p, inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels of ``(N, C, L)`` or ``(C, L)`` to zero with probability ``p``, and scale the others.

    Raises
    ------
    RuntimeError
        If ``input`` has another number of dimensions.
    """
    check_tensors("dropout1d", input=input)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d exists to "
            "provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional "
            "batch dimension (i.e. 2D or 3D inputs)."
        )
    return _drop_channels(input, p, training, inplace, unbatched=2)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels of ``(N, C, H, W)`` to zero with probability ``p``, and scale the others.

    As in torch, an input of three dimensions counts as ``(N, C, L)``, with a warning.
    """
    check_tensors("dropout2d", input=input)
    if input.ndim == 3:
        warn_user(
            "dropout2d: Received a 3-D input to dropout2d and assuming that channel-wise 1-D dropout behavior is "
            "desired - input is interpreted as shape (N, C, L), where C is the channel dim. To maintain the 1-D "
            "dropout behavior, please switch to using dropout1d instead."
        )
    elif input.ndim != 4:
        _warn_of_dimensions("dropout2d", input, 2)
    return _drop_channels(input, p, training, inplace, unbatched=-1)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels of ``(N, C, D, H, W)`` or ``(C, D, H, W)`` to zero with probability ``p``, scale the rest."""
    check_tensors("dropout3d", input=input)
    if input.ndim not in (4, 5):
        _warn_of_dimensions("dropout3d", input, 3)
    return _drop_channels(input, p, training, inplace, unbatched=4)


def _warn_of_dimensions(name: str, input: Tensor, spatial: int) -> None:
    warn_user(
        f"{name}: Received a {input.ndim}-D input to {name}, which is deprecated and will result in an error in a "
        f"future release. It exists for {spatial} spatial dimensions, a channel dimension, and an optional batch "
        f"dimension (i.e. {spatial + 1}D or {spatial + 2}D inputs)."
    )


# what SELU approaches at minus infinity, negated (Klambauer et al., 2017)
_ALPHA = 1.7580993408473766


def _drop_to_alpha(input: Tensor, shape: tuple[int, ...], p: float, inplace: bool) -> Tensor:
    """``input`` with random elements set to SELU's lower limit, scaled and shifted to keep mean and variance."""
    if p == 1:
        return input.mul_(0.0) if inplace else input * 0.0
    a = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
    kept = _kept(input, shape, p)
    dtype = input._data.dtype
    factor = wrap(settle(np.multiply(kept, a, dtype=dtype)))
    shift = wrap(settle(((kept - (1 - p)) * (_ALPHA * a)).astype(dtype)))
    return input.mul_(factor).add_(shift) if inplace else input * factor + shift


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Drop elements so that mean 0 and variance 1 are kept after SELU (Klambauer et al., 2017).

    The arguments are those of :func:`dropout`.
    """
    check_tensors("alpha_dropout", input=input)
    p = _probability("alpha_dropout", p, training)
    if p == 0:
        return input
    return _drop_to_alpha(input, input._data.shape, p, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Do as :func:`alpha_dropout` with whole channels of ``(N, C, ...)``."""
    check_tensors("feature_alpha_dropout", input=input)
    p = _probability("feature_alpha_dropout", p, training)
    if p == 0:
        return input
    return _drop_to_alpha(input, _channels(input), p, inplace)
