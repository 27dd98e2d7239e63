"""Adagrad."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.blas import scale_and_add
from retrograd.core.tensor import Tensor
from retrograd.optim._blockwise import Kernel
from retrograd.optim._elementwise import ElementwiseOptimizer, filled_like
from retrograd.optim._options import check_implementation, check_lr, check_not_negative, number
from retrograd.optim.optimizer import Group, scalar

__all__ = ["Adagrad"]


class Adagrad(ElementwiseOptimizer):
    """Adagrad (Duchi et al. 2011, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization").

    With the sum ``s`` of all squares of the gradient, ``w -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)`` at
    step ``t``.

    Parameters
    ----------
    params
        The parameters, or groups of them; see :class:`Optimizer`.
    lr
        Learning rate.
    lr_decay
        How fast it falls.
    weight_decay
        This multiple of the parameter is added to its gradient.
    initial_accumulator_value
        What ``s`` begins with.
    eps
        Added to the denominator.
    maximize
        Ascend.
    foreach, fused
        Accepted for compatibility; there is one implementation.
    differentiable
        Not available: raises NotImplementedError.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_not_negative(lr_decay, "lr_decay value")
        check_not_negative(weight_decay, "weight_decay value")
        check_not_negative(initial_accumulator_value, "initial_accumulator_value value")
        check_not_negative(eps, "epsilon value")
        check_implementation(differentiable, foreach, fused)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:  # the state is there before the first step, as in torch
            for param in group["params"]:
                self._state_of(group, param)

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        return {"step": scalar(0.0), "sum": filled_like(param, group["initial_accumulator_value"])}

    def _kernel(self, group: Group, numbers: tuple[float, ...]) -> tuple[Kernel, tuple[str, ...]]:
        (step,) = numbers
        eps = group["eps"]
        lr = number(group["lr"]) / (1 + (step - 1) * group["lr_decay"])

        def adagrad(param: Any, grad: Any, total: Any, a: Any) -> None:
            np.square(grad, out=a)
            np.add(total, a, out=total)
            np.sqrt(total, out=a)
            np.add(a, eps, out=a)
            np.divide(grad, a, out=a)
            scale_and_add(param, a, -lr, 1, a)

        return adagrad, ("sum",)
