"""Muon."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.core.tensor import Tensor, wrap
from retrograd.optim._matrixwise import MatrixwiseOptimizer
from retrograd.optim._options import check_bound, check_matrix_lr, check_number, has_length, number
from retrograd.optim.optimizer import Group

__all__ = ["Muon"]


class Muon(MatrixwiseOptimizer):
    """Muon (Jordan 2024, "Muon: An optimizer for hidden layers in neural networks"), for the matrices of a network.

    The update is the momentum, made nearly orthogonal by Newton-Schulz iterations. Biases, embeddings and the like want
    another optimizer, such as :class:`AdamW`. torch iterates in bfloat16; here it is done in the parameter's dtype, in
    float32 at least.

    Parameters
    ----------
    params
        The parameters, or groups of them, all matrices; see :class:`Optimizer`.
    lr
        Learning rate.
    weight_decay
        Parameters shrink by this multiple of the learning rate.
    momentum
        The weight of the momentum so far.
    nesterov
        Look ahead by mixing the gradient in once more.
    ns_coefficients
        Those of the odd polynomial of degree 5 that is applied to the singular values.
    eps
        The least norm to divide by.
    ns_steps
        The number of iterations, below 100.
    adjust_lr_fn
        How the learning rate depends on the shape ``(A, B)``: ``"original"``, the default, multiplies it by
        ``sqrt(max(1, A / B))``; ``"match_rms_adamw"`` by ``0.2 * sqrt(max(A, B))`` (Liu et al. 2025).

    Examples
    --------
    >>> model = rg.nn.Linear(4, 3)
    >>> muon = rg.optim.Muon([p for p in model.parameters() if p.ndim == 2], lr=0.02)
    >>> adamw = rg.optim.AdamW([p for p in model.parameters() if p.ndim != 2])
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_matrix_lr(lr)
        check_bound(momentum, "momentum", ">=", 0)
        check_bound(weight_decay, "weight decay", ">=", 0)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                f"Adjust learning rate function {adjust_lr_fn} is not supported; use 'original' or 'match_rms_adamw'"
            )
        if not has_length(ns_coefficients, 3):
            raise ValueError(f"Coefficients must be a tuple of exactly 3 values, but are: {ns_coefficients}")
        check_number(ns_steps, "number of steps")
        if ns_steps >= 100:
            raise ValueError(
                f"Number of steps must be less than 100 for computational efficiency, but ns_steps={ns_steps}"
            )
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def _check_params(self, new: Group) -> None:
        super()._check_params(new)
        for number_, param in enumerate(new["params"]):
            if param.ndim != 2:
                raise ValueError(
                    f"Muon only supports 2D parameters whereas we found a parameter with size: {list(param.shape)}, "
                    f"number {number_} of its group; use another optimizer for it"
                )

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        return {"momentum_buffer": wrap(np.zeros_like(param._data, order="C"))}

    def _update(self, group: Group, param: Any, grad: Any, state: dict[str, Any]) -> None:
        momentum, lr = group["momentum"], number(group["lr"])
        mean = state["momentum_buffer"]._data
        mean += (1 - momentum) * (grad - mean)
        update = grad + momentum * (mean - grad) if group["nesterov"] else mean
        update = _orthogonalized(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        param *= 1 - lr * group["weight_decay"]
        param -= (lr * _stretch(group["adjust_lr_fn"], *param.shape) * update).astype(param.dtype, copy=False)


def _stretch(name: str | None, rows: int, columns: int) -> float:
    """The factor of the learning rate for a matrix of this shape."""
    if name == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns)) if columns else 1.0


def _orthogonalized(matrix: Any, coefficients: tuple[float, float, float], steps: int, eps: float) -> Any:
    """A matrix with the same singular vectors, and singular values near 1."""
    a, b, c = coefficients
    x = matrix.astype(np.result_type(matrix.dtype, np.float32))
    x = x.T if x.shape[0] > x.shape[1] else x
    x = x / max(float(np.linalg.norm(x)), eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x
