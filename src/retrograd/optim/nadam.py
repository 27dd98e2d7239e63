"""NAdam."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.core.tensor import Tensor
from retrograd.optim._blockwise import Kernel
from retrograd.optim._elementwise import ElementwiseOptimizer
from retrograd.optim._options import check_betas, check_implementation, check_lr, check_not_negative, number
from retrograd.optim.adam import update_moments
from retrograd.optim.optimizer import Group, count_step, scalar

__all__ = ["NAdam"]


class NAdam(ElementwiseOptimizer):
    """Adam with Nesterov's momentum (Dozat 2016, "Incorporating Nesterov Momentum into Adam").

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
    momentum_decay
        How fast the momentum grows to its final size.
    decoupled_weight_decay
        Shrink the parameter by ``lr * weight_decay`` instead of adding to the gradient.
    maximize
        Ascend.
    foreach, capturable
        Accepted for compatibility; there is one implementation.
    differentiable
        Not available: raises NotImplementedError.
    """

    _counts = ("step", "mu_product")
    _kept = ("exp_avg", "exp_avg_sq")
    _temporaries = 2

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check_not_negative(momentum_decay, "momentum_decay value")
        check_implementation(differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        return {"step": scalar(0.0), "mu_product": scalar(1.0), **super()._new_state(group, param)}

    def _numbers(self, group: Group, param: Tensor, state: dict[str, Any]) -> tuple[float, ...]:
        step = count_step(state)
        mu, mu_next = (group["betas"][0] * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1))
        product = state["mu_product"]._data
        product *= mu
        return step, mu, mu_next, float(product)

    def _kernel(self, group: Group, numbers: tuple[float, ...]) -> tuple[Kernel, tuple[str, ...]]:
        step, mu, mu_next, product = numbers
        beta1, beta2 = group["betas"]
        lr = number(group["lr"])
        root = math.sqrt(1 - beta2**step)
        eps = group["eps"] * root
        of_grad = lr * (1 - mu) / (1 - product) * root
        of_exp_avg = lr * mu_next / (1 - product * mu_next) * root

        def nadam(param: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any, a: Any, b: Any) -> None:
            update_moments(grad, exp_avg, exp_avg_sq, beta1, beta2, a)
            np.multiply(grad, of_grad, out=a)
            np.multiply(exp_avg, of_exp_avg, out=b)
            np.add(a, b, out=a)
            np.sqrt(exp_avg_sq, out=b)
            np.add(b, eps, out=b)
            np.divide(a, b, out=a)
            np.subtract(param, a, out=param)

        return nadam, self._kept
