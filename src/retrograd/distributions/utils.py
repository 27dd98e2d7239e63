"""Helpers for writing distributions: parameters of one shape, probabilities as logits, triangles as vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from retrograd.autograd.grad_mode import enable_grad
from retrograd.core.errors import kind_name, no_tensor, to_be_made
from retrograd.core.tensor import Tensor
from retrograd.creation import tensor, tril_indices
from retrograd.ops.shape import broadcast_tensors
from retrograd.random import randn

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286


class lazy_property(cached_property[Any]):  # noqa: N801 (torch's name)
    """A property that is computed when first asked for, with its history, even if that is in :meth:`sample`.

    Examples
    --------
    >>> class Scaled:
    ...     scale = rg.tensor(2.0, requires_grad=True)
    ...     variance = rg.distributions.utils.lazy_property(lambda self: self.scale**2)
    >>> with rg.no_grad():
    ...     Scaled().variance
    tensor(4., grad_fn=<PowBackward0>)
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        super().__init__(enable_grad()(wrapped))


def broadcast_all(*values: Any) -> list[Any]:
    """Numbers and tensors as tensors of one shape; numbers get the dtype of the tensors.

    Raises
    ------
    ValueError
        If there is something else among them.
    """
    for value in values:
        if not isinstance(value, Tensor | bool | int | float):
            raise ValueError(
                f"parameters must be numbers or tensors, but one is a {kind_name(value)}{to_be_made(value)}"
            )
    first = next((value for value in values if isinstance(value, Tensor)), None)
    if first is None:
        made: list[Any] = [tensor(float(value)) for value in values]
    else:
        made = [
            value if isinstance(value, Tensor) else tensor(value, dtype=first.dtype, device=first.device)
            for value in values
        ]
    return list(broadcast_tensors(*made))


def check_tensors(distribution: Any, **parameters: Any) -> None:
    """Raise for parameters, given by their names, that must be tensors because they are vectors or matrices."""
    for name, value in parameters.items():
        if not isinstance(value, Tensor):
            raise no_tensor(type(distribution).__name__, f"argument '{name}'", value)


def finfo(value: Any) -> np.finfo[Any]:
    """The limits of the dtype of a tensor of real numbers."""
    if not value.dtype.is_floating_point:
        raise TypeError(
            f"expected a parameter of a floating-point dtype, but got {value.dtype}; convert it, for example with "
            ".float()"
        )
    return np.finfo(value._data.dtype)


def clamp_probs(probs: Any) -> Any:
    """Return probabilities a little away from 0 and 1, so that their logarithms are finite."""
    eps = float(finfo(probs).eps)
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Return the logarithms of probabilities; of ``is_binary`` ones, of a yes, the logarithms of the odds."""
    probs = clamp_probs(probs)
    return probs.log() - (-probs).log1p() if is_binary else probs.log()


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Return the probabilities; the inverse of :func:`probs_to_logits`."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def quotient(above: Any, below: Any, missing: Any, otherwise: float) -> Any:
    """``above / below``, and a number where it is ``missing``, also if ``below`` is 0 there: gradients are then 0."""
    return (above / below.masked_fill(missing, 1.0)).masked_fill(missing, otherwise)


def summed(value: Any, ndims: int) -> Any:
    """The sum over the last dimensions."""
    return value.sum(tuple(range(-ndims, 0))) if ndims else value


# The names by which distributions written for torch import the sum, and their noise.
_sum_rightmost = summed


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    return randn(shape, dtype=dtype, device=device)


# --- the entries of triangular matrices -------------------------------------------------------------------------------


def rows_of(count: int, diag: int) -> int:
    """The side of a square matrix that has ``count`` entries on and below the diagonal ``diag``, which is at most 0."""
    side = round((math.sqrt(1 + 8 * count) - 1) / 2)  # without the -diag rows that are empty
    if side * (side + 1) // 2 != count:
        raise ValueError(
            "Input is not a flattened lower-diagonal number: the lower triangle of a matrix has n (n + 1) / 2 entries, "
            f"but this vector has {count}"
        )
    return side - diag


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Return the lower triangular matrices (..., n, n) with the entries ``vec``, of shape (..., count), row by row.

    Examples
    --------
    >>> from retrograd.distributions.utils import vec_to_tril_matrix
    >>> vec_to_tril_matrix(rg.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    side = rows_of(vec.shape[-1], diag)
    rows, columns = tril_indices(side, side, diag)
    matrix = vec.new_zeros((*vec.shape[:-1], side, side))
    matrix[..., rows, columns] = vec
    return matrix


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """Return the entries on and below a diagonal of the matrices ``mat``, of shape (..., n, n), row by row."""
    side = mat.shape[-1]
    if diag < -side or diag >= side:
        raise ValueError(f"diag ({diag}) provided is outside [{-side}, {side - 1}].")
    rows, columns = tril_indices(side, side, diag)
    return mat[..., rows, columns]
