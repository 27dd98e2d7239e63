"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.blas import scale_and_add
from retrograd.core.tensor import Tensor
from retrograd.optim._blockwise import LARGE, Kernel
from retrograd.optim._elementwise import ElementwiseOptimizer, filled_like
from retrograd.optim._options import check_implementation, check_lr, check_not_negative, number
from retrograd.optim.optimizer import Group

__all__ = ["SGD"]


class SGD(ElementwiseOptimizer):
    r"""Stochastic gradient descent, with momentum if wanted.

    ``v = momentum * v + (1 - dampening) * g`` (at the first step ``v = g``), then ``w -= lr * v``; with ``nesterov``
    ``w -= lr * (g + momentum * v)``.

    Parameters
    ----------
    params
        The parameters, or groups of them; see :class:`Optimizer`.
    lr
        Learning rate.
    momentum
        How much of the last update goes into the next.
    dampening
        How much less of the gradient goes into it.
    weight_decay
        This multiple of the parameter is added to its gradient.
    nesterov
        Nesterov's momentum (Sutskever et al. 2013, "On the importance of initialization and momentum in deep
        learning"); it needs a momentum and no dampening.
    maximize
        Ascend.
    foreach, fused
        Accepted for compatibility; there is one implementation.
    differentiable
        Not available: raises NotImplementedError.

    Examples
    --------
    >>> w = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rg.optim.SGD([w], lr=0.1, momentum=0.9)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     (w * w).sum().backward()
    ...     optimizer.step()
    >>> w
    tensor([0.4600, 0.9200], requires_grad=True)
    """

    _large = 2 * LARGE  # few passes

    _counts = ()

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_not_negative(momentum, "momentum value")
        check_not_negative(weight_decay, "weight_decay value")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                "Nesterov momentum requires a momentum and zero dampening "
                f"(momentum is {momentum}, dampening {dampening})"
            )
        check_implementation(differentiable, foreach, fused)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _state_of(self, group: Group, param: Tensor) -> dict[str, Any]:
        return self.state[param] if group["momentum"] != 0 else {}

    def _numbers(self, group: Group, param: Tensor, state: dict[str, Any]) -> tuple[float, ...]:
        if group["momentum"] != 0 and state.get("momentum_buffer") is None:
            state["momentum_buffer"] = filled_like(param)
            return (1,)  # the momentum begins with the first gradient, whatever the dampening
        return (1 - group["dampening"],)

    def _kernel(self, group: Group, numbers: tuple[float, ...]) -> tuple[Kernel, tuple[str, ...]]:
        (fresh,) = numbers
        lr, momentum, nesterov = number(group["lr"]), group["momentum"], group["nesterov"]

        def plain(param: Any, grad: Any, a: Any) -> None:
            scale_and_add(param, grad, -lr, 1, a)

        if momentum == 0:
            return plain, ()

        def with_momentum(param: Any, grad: Any, buffer: Any, a: Any) -> None:
            scale_and_add(buffer, grad, fresh, momentum, a)
            if nesterov:
                np.multiply(buffer, momentum, out=a)
                np.add(a, grad, out=a)
                scale_and_add(param, a, -lr, 1, a)
            else:
                scale_and_add(param, buffer, -lr, 1, a)

        return with_momentum, ("momentum_buffer",)
