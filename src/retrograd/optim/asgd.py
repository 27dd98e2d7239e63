"""ASGD: averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.tensor import Tensor
from retrograd.optim._blockwise import Kernel
from retrograd.optim._elementwise import ElementwiseOptimizer, filled_like
from retrograd.optim._options import check_implementation, check_lr, check_not_negative, number
from retrograd.optim.optimizer import Group, count_step, scalar

__all__ = ["ASGD"]


class ASGD(ElementwiseOptimizer):
    """Averaged SGD (Polyak and Juditsky 1992, "Acceleration of Stochastic Approximation by Averaging").

    ``w = (1 - lambd * eta) * w - eta * g`` with ``eta = lr / (1 + lambd * lr * t) ** alpha`` at step ``t``. The mean of
    the parameters since step ``t0`` is in the state, ``optimizer.state[w]["ax"]``.

    Parameters
    ----------
    params
        The parameters, or groups of them; see :class:`Optimizer`.
    lr
        Learning rate to begin with.
    lambd
        How fast parameters and learning rate decay.
    alpha
        The power of the decay of the learning rate.
    t0
        When averaging starts; before that, the mean is the parameter itself.
    weight_decay
        This multiple of the parameter is added to its gradient.
    maximize
        Ascend.
    foreach, capturable
        Accepted for compatibility; there is one implementation.
    differentiable
        Not available: raises NotImplementedError.
    """

    _counts = ("step", "eta", "mu")

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative(weight_decay, "weight_decay value")
        check_implementation(differentiable, foreach)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        eta = scalar(float(number(group["lr"])))
        return {"step": scalar(0.0), "eta": eta, "mu": scalar(1.0), "ax": filled_like(param)}

    def _numbers(self, group: Group, param: Tensor, state: dict[str, Any]) -> tuple[float, ...]:
        eta, mu = number(state["eta"]), number(state["mu"])
        step, lr = count_step(state), number(group["lr"])
        state["eta"]._data[...] = lr / (1 + group["lambd"] * lr * step) ** group["alpha"]
        state["mu"]._data[...] = 1 / max(1, step - group["t0"])
        return eta, mu

    def _kernel(self, group: Group, numbers: tuple[float, ...]) -> tuple[Kernel, tuple[str, ...]]:
        eta, mu = numbers
        lambd = group["lambd"]

        def asgd(param: Any, grad: Any, mean: Any, a: Any) -> None:
            np.multiply(param, 1 - lambd * eta, out=param)
            np.multiply(grad, eta, out=a)
            np.subtract(param, a, out=param)
            if mu == 1:
                mean[...] = param
            else:
                np.subtract(param, mean, out=a)
                np.multiply(a, mu, out=a)
                np.add(mean, a, out=mean)

        return asgd, ("ax",)
