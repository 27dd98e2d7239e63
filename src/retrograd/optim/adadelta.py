"""Adadelta."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.blas import scale_and_add
from retrograd.core.tensor import Tensor
from retrograd.optim._blockwise import Kernel
from retrograd.optim._elementwise import ElementwiseOptimizer
from retrograd.optim._options import check, check_implementation, check_lr, check_not_negative, number
from retrograd.optim.optimizer import Group

__all__ = ["Adadelta"]


class Adadelta(ElementwiseOptimizer):
    """Adadelta (Zeiler 2012, "ADADELTA: An Adaptive Learning Rate Method").

    With running averages ``v`` of the squares of the gradient and ``u`` of those of the updates, an update is
    ``d = g * sqrt(u + eps) / sqrt(v + eps)``, and ``w -= lr * d``.

    Parameters
    ----------
    params
        The parameters, or groups of them; see :class:`Optimizer`.
    lr
        Factor of the update.
    rho
        How much of the averages is kept at each step.
    eps
        Added under the roots.
    weight_decay
        This multiple of the parameter is added to its gradient.
    maximize
        Ascend.
    foreach, capturable
        Accepted for compatibility; there is one implementation.
    differentiable
        Not available: raises NotImplementedError.
    """

    _kept = ("square_avg", "acc_delta")
    _temporaries = 2

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(0.0 <= rho <= 1.0, "rho value", rho)
        check_not_negative(eps, "epsilon value")
        check_not_negative(weight_decay, "weight_decay value")
        check_implementation(differentiable)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _kernel(self, group: Group, numbers: tuple[float, ...]) -> tuple[Kernel, tuple[str, ...]]:
        lr, rho, eps = number(group["lr"]), group["rho"], group["eps"]

        def average(squares: Any, values: Any, a: Any) -> None:
            np.square(values, out=a)
            scale_and_add(squares, a, 1 - rho, rho, a)

        def adadelta(param: Any, grad: Any, square_avg: Any, acc_delta: Any, a: Any, b: Any) -> None:
            average(square_avg, grad, a)
            np.add(square_avg, eps, out=a)
            np.sqrt(a, out=a)
            np.add(acc_delta, eps, out=b)
            np.sqrt(b, out=b)
            np.divide(b, a, out=b)
            np.multiply(b, grad, out=b)
            average(acc_delta, b, a)
            scale_and_add(param, b, -lr, 1, b)

        return adadelta, self._kept
