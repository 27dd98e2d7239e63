"""RMSprop."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.blas import scale_and_add
from retrograd.core.tensor import Tensor
from retrograd.optim._blockwise import Kernel
from retrograd.optim._elementwise import ElementwiseOptimizer, filled_like
from retrograd.optim._options import check_implementation, check_lr, check_not_negative, number
from retrograd.optim.optimizer import Group

__all__ = ["RMSprop"]


class RMSprop(ElementwiseOptimizer):
    """RMSprop (Hinton, lecture 6 of "Neural Networks for Machine Learning", 2012).

    With a running average ``v`` of the square of the gradient, ``w -= lr * g / (sqrt(v) + eps)``.

    Parameters
    ----------
    params
        The parameters, or groups of them; see :class:`Optimizer`.
    lr
        Learning rate.
    alpha
        How much of the average is kept at each step.
    eps
        Added to the denominator.
    weight_decay
        This multiple of the parameter is added to its gradient.
    momentum
        How much of the last update goes into the next.
    centered
        Divide by an estimate of the standard deviation instead (Graves 2013, "Generating Sequences With Recurrent
        Neural Networks").
    maximize
        Ascend.
    foreach, capturable
        Accepted for compatibility; there is one implementation.
    differentiable
        Not available: raises NotImplementedError.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative(eps, "epsilon value")
        check_not_negative(momentum, "momentum value")
        check_not_negative(weight_decay, "weight_decay value")
        check_not_negative(alpha, "alpha value")
        check_implementation(differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _names(group: Group) -> tuple[str, ...]:
        optional = {"momentum_buffer": group["momentum"] > 0, "grad_avg": group["centered"]}
        return ("square_avg", *(name for name, is_wanted in optional.items() if is_wanted))

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        return {**super()._new_state(group, param), **{name: filled_like(param) for name in self._names(group)}}

    def _kernel(self, group: Group, numbers: tuple[float, ...]) -> tuple[Kernel, tuple[str, ...]]:
        lr, alpha, eps = number(group["lr"]), group["alpha"], group["eps"]
        momentum, centered = group["momentum"], group["centered"]

        def rmsprop(param: Any, grad: Any, square_avg: Any, *others: Any) -> None:
            *kept, a = others
            np.square(grad, out=a)
            scale_and_add(square_avg, a, 1 - alpha, alpha, a)
            if centered:
                grad_avg = kept[-1]
                scale_and_add(grad_avg, grad, 1 - alpha, alpha, a)
                np.square(grad_avg, out=a)
                np.subtract(square_avg, a, out=a)
                np.sqrt(a, out=a)
            else:
                np.sqrt(square_avg, out=a)
            np.add(a, eps, out=a)
            np.divide(grad, a, out=a)
            if momentum > 0:
                buffer = kept[0]
                scale_and_add(buffer, a, 1, momentum, a)
                scale_and_add(param, buffer, -lr, 1, a)
            else:
                scale_and_add(param, a, -lr, 1, a)

        return rmsprop, self._names(group)
