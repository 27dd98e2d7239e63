"""Adamax."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.blas import scale_and_add
from retrograd.core.tensor import Tensor
from retrograd.optim._blockwise import Kernel
from retrograd.optim._elementwise import ElementwiseOptimizer
from retrograd.optim._options import check_betas, check_implementation, check_lr, check_not_negative, number
from retrograd.optim.optimizer import Group

__all__ = ["Adamax"]


class Adamax(ElementwiseOptimizer):
    """Adamax: Adam with the largest recent gradient instead of their mean square (Kingma and Ba 2015).

    With a running average ``m`` of the gradient and ``u = max(beta2 * u, |g| + eps)``,
    ``w -= lr / (1 - beta1**t) * m / u`` at step ``t``.

    Parameters
    ----------
    params
        The parameters, or groups of them; see :class:`Optimizer`.
    lr
        Learning rate.
    betas
        How much of ``m`` and ``u`` is kept at each step.
    eps
        Added to the size of each gradient.
    weight_decay
        This multiple of the parameter is added to its gradient.
    maximize
        Ascend.
    foreach, capturable
        Accepted for compatibility; there is one implementation.
    differentiable
        Not available: raises NotImplementedError.
    """

    _kept = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative(eps, "epsilon value")
        check_betas(betas)
        check_not_negative(weight_decay, "weight_decay value")
        check_implementation(differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _kernel(self, group: Group, numbers: tuple[float, ...]) -> tuple[Kernel, tuple[str, ...]]:
        (step,) = numbers
        beta1, beta2 = group["betas"]
        eps = group["eps"]
        step_size = number(group["lr"]) / (1 - beta1**step)

        def adamax(param: Any, grad: Any, exp_avg: Any, exp_inf: Any, a: Any) -> None:
            scale_and_add(exp_avg, grad, 1 - beta1, beta1, a)
            np.abs(grad, out=a)
            np.add(a, eps, out=a)
            np.multiply(exp_inf, beta2, out=exp_inf)
            np.maximum(exp_inf, a, out=exp_inf)
            np.divide(exp_avg, exp_inf, out=a)
            scale_and_add(param, a, -step_size, 1, a)

        return adamax, self._kept
