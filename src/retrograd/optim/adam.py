"""Adam and AdamW."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.core.blas import scale_and_add
from retrograd.core.tensor import Tensor
from retrograd.gpu import DeviceArray
from retrograd.gpu.fused import fused
from retrograd.optim._blockwise import Kernel
from retrograd.optim._elementwise import ElementwiseOptimizer, filled_like
from retrograd.optim._options import check_betas, check_implementation, check_lr, check_not_negative, number
from retrograd.optim.optimizer import Group

__all__ = ["Adam", "AdamW"]


def update_moments(grad: Any, exp_avg: Any, exp_avg_sq: Any, beta1: float, beta2: float, a: Any) -> None:
    """Let running averages of the gradient and of its square take in one gradient."""
    scale_and_add(exp_avg, grad, 1 - beta1, beta1, a)
    np.square(grad, out=a)
    scale_and_add(exp_avg_sq, a, 1 - beta2, beta2, a)


_adam_on_gpu = fused(
    "adam",
    "grad beta1 own1 beta2 own2 eps step_size",
    "param exp_avg exp_avg_sq",
    "exp_avg = beta1 * exp_avg + own1 * grad;"
    "exp_avg_sq = beta2 * exp_avg_sq + own2 * grad * grad;"
    "param = param - step_size * exp_avg / (sqrt(exp_avg_sq) + eps)",
)


class Adam(ElementwiseOptimizer):
    """Adam (Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization").

    With running averages ``m`` of the gradient and ``v`` of its square, ``w -= lr * m' / (sqrt(v') + eps)``, where
    ``m' = m / (1 - beta1**t)`` and ``v' = v / (1 - beta2**t)`` at step ``t``.

    Parameters
    ----------
    params
        The parameters, or groups of them; see :class:`Optimizer`.
    lr
        Learning rate.
    betas
        Of the two averages: how much of the old one is kept at each step.
    eps
        Added to the denominator.
    weight_decay
        This multiple of the parameter is added to its gradient.
    amsgrad
        Divide by the largest ``v`` so far (Reddi et al. 2018, "On the Convergence of Adam and Beyond").
    maximize
        Ascend.
    decoupled_weight_decay
        Shrink the parameter by ``lr * weight_decay`` instead of adding to the gradient, as :class:`AdamW` does.
    foreach, fused, capturable
        Accepted for compatibility; there is one implementation.
    differentiable
        Not available: raises NotImplementedError.

    Examples
    --------
    >>> w = rg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = rg.optim.Adam([w], lr=0.1)
    >>> for _ in range(3):
    ...     optimizer.zero_grad()
    ...     (w * w).sum().backward()
    ...     optimizer.step()
    >>> w
    tensor([ 0.7016, -1.7006], requires_grad=True)
    """

    _kept = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative(eps, "epsilon value")
        check_betas(betas)
        check_not_negative(weight_decay, "weight_decay value")
        if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        check_implementation(differentiable, foreach, fused)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        state = super()._new_state(group, param)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = filled_like(param)
        return state

    def _kernel(self, group: Group, numbers: tuple[float, ...]) -> tuple[Kernel, tuple[str, ...]]:
        (step,) = numbers
        beta1, beta2 = map(number, group["betas"])
        # sqrt(v / c2) + eps is (sqrt(v) + eps * root) / root, which saves a pass
        root = math.sqrt(1 - beta2**step)
        eps, step_size = group["eps"] * root, number(group["lr"]) / (1 - beta1**step) * root

        def descend(param: Any, exp_avg: Any, exp_avg_sq: Any, a: Any) -> None:
            np.sqrt(exp_avg_sq, out=a)
            np.add(a, eps, out=a)
            np.divide(exp_avg, a, out=a)
            scale_and_add(param, a, -step_size, 1, a)

        def adam(param: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any, a: Any) -> None:
            if type(param) is DeviceArray:
                numbers = beta1, 1 - beta1, beta2, 1 - beta2, eps, step_size
                _adam_on_gpu(grad, *map(float, numbers), param, exp_avg, exp_avg_sq)
                return
            update_moments(grad, exp_avg, exp_avg_sq, beta1, beta2, a)
            descend(param, exp_avg, exp_avg_sq, a)

        def amsgrad(param: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any, max_exp_avg_sq: Any, a: Any) -> None:
            update_moments(grad, exp_avg, exp_avg_sq, beta1, beta2, a)
            np.maximum(max_exp_avg_sq, exp_avg_sq, out=max_exp_avg_sq)
            descend(param, exp_avg, max_exp_avg_sq, a)

        return (amsgrad, (*self._kept, "max_exp_avg_sq")) if group["amsgrad"] else (adam, self._kept)


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization").

    The parameters are :class:`Adam`'s; ``weight_decay`` shrinks a parameter by ``lr * weight_decay`` of itself, apart
    from its gradient.

    Examples
    --------
    >>> w = rg.tensor([1.0], requires_grad=True)
    >>> optimizer = rg.optim.AdamW([w], lr=0.1, weight_decay=0.5)
    >>> w.grad = rg.zeros(1)
    >>> optimizer.step()
    >>> w
    tensor([0.9500], requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
