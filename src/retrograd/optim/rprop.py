"""Rprop."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.tensor import Tensor
from retrograd.optim._blockwise import Kernel
from retrograd.optim._elementwise import ElementwiseOptimizer, filled_like
from retrograd.optim._options import check, check_implementation, check_lr, number
from retrograd.optim.optimizer import Group, scalar

__all__ = ["Rprop"]


class Rprop(ElementwiseOptimizer):
    """Resilient backpropagation (Riedmiller and Braun 1993), for gradients of the whole data set.

    Every element has a step size of its own, which grows while the sign of the gradient stays and shrinks when it
    changes; only the sign counts.

    Parameters
    ----------
    params
        The parameters, or groups of them; see :class:`Optimizer`.
    lr
        The first step size.
    etas
        The factors by which it shrinks and grows.
    step_sizes
        The smallest and the largest.
    maximize
        Ascend.
    foreach, capturable
        Accepted for compatibility; there is one implementation.
    differentiable
        Not available: raises NotImplementedError.
    """

    _kept = ("prev", "step_size")
    _temporaries = 2

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(0.0 < etas[0] < 1.0 < etas[1], "eta values", f"{etas[0]}, {etas[1]}")
        check_implementation(differentiable)
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        first = number(group["lr"])
        return {"step": scalar(0.0), "prev": filled_like(param), "step_size": filled_like(param, first)}

    def _kernel(self, group: Group, numbers: tuple[float, ...]) -> tuple[Kernel, tuple[str, ...]]:
        shrink, grow = group["etas"]
        smallest, largest = group["step_sizes"]

        def rprop(param: Any, grad: Any, prev: Any, step_size: Any, a: Any, b: Any) -> None:
            np.multiply(grad, prev, out=a)
            turned = a < 0
            np.multiply(step_size, shrink, out=step_size, where=turned)
            np.multiply(step_size, grow, out=step_size, where=a > 0)
            np.clip(step_size, smallest, largest, out=step_size)
            prev[...] = grad
            prev[turned] = 0  # the element skips one step
            np.sign(prev, out=b)
            np.multiply(b, step_size, out=b)
            np.subtract(param, b, out=param, where=b == b)  # NaN has no sign to go by, and torch's sign of it is 0

        return rprop, self._kept
