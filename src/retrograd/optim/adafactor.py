"""Adafactor."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.tensor import Tensor, wrap
from retrograd.optim._matrixwise import MatrixwiseOptimizer
from retrograd.optim._options import check_bound, check_matrix_lr, number
from retrograd.optim.optimizer import Group, count_step, scalar

__all__ = ["Adafactor"]


class Adafactor(MatrixwiseOptimizer):
    """Adafactor (Shazeer and Stern 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost").

    Of the running mean of squared gradients only the means of rows and of columns are kept, whose product stands for
    it. Steps are in proportion to the size of the parameter.

    Parameters
    ----------
    params
        The parameters, or groups of them; see :class:`Optimizer`.
    lr
        The most by which a parameter changes, relative to its size; ``1 / sqrt(t)`` at step ``t``, if that is less.
    beta2_decay
        A gradient has the weight ``t ** beta2_decay`` in the running means.
    eps
        The least of the running mean (its root; by default what the dtype resolves), and the least size of a parameter.
    d
        The root mean square that an update may have, before it is scaled to the learning rate.
    weight_decay
        Parameters shrink by this multiple of the learning rate.
    maximize
        Ascend.
    foreach
        Accepted for compatibility; there is one implementation.
    """

    _counts = ("step",)

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_matrix_lr(lr)
        check_bound(beta2_decay, "beta2_decay", "<=", 0)
        if eps[0] is not None:
            check_bound(eps[0], "epsilon1", ">=", 0)
        check_bound(eps[1], "epsilon2", ">=", 0)
        check_bound(d, "Clipping threshold d", ">=", 1)
        check_bound(weight_decay, "weight_decay", ">=", 0)
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        data = param._data
        if data.ndim < 2:
            return {"step": scalar(0.0), "variance": wrap(np.zeros_like(data, order="C"))}
        return {
            "step": scalar(0.0),
            "row_var": wrap(np.zeros_like(data, shape=(*data.shape[:-1], 1), order="C")),
            "col_var": wrap(np.zeros_like(data, shape=(*data.shape[:-2], 1, data.shape[-1]), order="C")),
        }

    def _update(self, group: Group, param: Any, grad: Any, state: dict[str, Any]) -> None:
        step, lr = count_step(state), number(group["lr"])
        least, least_size = group["eps"]
        if least is None:
            least = float(np.finfo(param.dtype).eps)
        rate = max(least_size, _root_mean_square(param)) * min(lr, step**-0.5)
        if group["weight_decay"] != 0:
            param *= 1 - lr * group["weight_decay"]
        update = _variance(grad * grad, state, step ** group["beta2_decay"], least)
        np.maximum(update, least * least, out=update)
        np.sqrt(update, out=update)
        np.divide(grad, update, out=update)
        update *= rate / max(1.0, _root_mean_square(update) / group["d"])
        (np.add if group["maximize"] else np.subtract)(param, update, out=param)


def _root_mean_square(array: Any) -> float:
    flat = array.reshape(-1)
    return float(np.sqrt(np.dot(flat, flat) / flat.size)) if flat.size else 0.0


def _variance(squares: Any, state: dict[str, Any], weight: float, least: float) -> Any:
    """The running mean of squared gradients, in an array of its own, after these squares have entered it."""
    if "variance" in state:
        variance = state["variance"]._data
        variance += weight * (squares - variance)
        return variance.copy()
    rows, columns = state["row_var"]._data, state["col_var"]._data
    rows += weight * (squares.mean(-1, keepdims=True) - rows)
    columns += weight * (squares.mean(-2, keepdims=True) - columns)
    return rows @ columns / np.maximum(rows.mean(-2, keepdims=True), least)
