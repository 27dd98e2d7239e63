"""RAdam."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.core.blas import scale_and_add
from retrograd.core.tensor import Tensor
from retrograd.optim._blockwise import Kernel
from retrograd.optim._elementwise import ElementwiseOptimizer
from retrograd.optim._options import check_betas, check_implementation, check_lr, check_not_negative, number
from retrograd.optim.adam import update_moments
from retrograd.optim.optimizer import Group

__all__ = ["RAdam"]


class RAdam(ElementwiseOptimizer):
    """Rectified Adam (Liu et al. 2020, "On the Variance of the Adaptive Learning Rate and Beyond").

    In the first steps, whose variance is too large, it descends by the average gradient alone.

    Parameters
    ----------
    params
        The parameters, or groups of them; see :class:`Optimizer`.
    lr
        Learning rate.
    betas
        How much of the averages of the gradient and of its square is kept at each step.
    eps
        Added to the denominator.
    weight_decay
        This multiple of the parameter is added to its gradient.
    decoupled_weight_decay
        Shrink the parameter by ``lr * weight_decay`` instead of adding to the gradient.
    maximize
        Ascend.
    foreach, capturable
        Accepted for compatibility; there is one implementation.
    differentiable
        Not available: raises NotImplementedError.
    """

    _kept = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
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
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _kernel(self, group: Group, numbers: tuple[float, ...]) -> tuple[Kernel, tuple[str, ...]]:
        (step,) = numbers
        beta1, beta2 = group["betas"]
        eps = group["eps"]
        step_size = number(group["lr"]) / (1 - beta1**step)
        # the length of the average of squares, as if it were a simple one: equation 4 of the paper
        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * step * beta2**step / (1 - beta2**step)
        is_rectified = rho > 5
        if is_rectified:
            rectification = (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)
            step_size *= math.sqrt(rectification * (1 - beta2**step))

        def radam(param: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any, a: Any) -> None:
            update_moments(grad, exp_avg, exp_avg_sq, beta1, beta2, a)
            if is_rectified:
                np.sqrt(exp_avg_sq, out=a)
                np.add(a, eps, out=a)
                np.divide(exp_avg, a, out=a)
            scale_and_add(param, a if is_rectified else exp_avg, -step_size, 1, a)

        return radam, self._kept
