"""L-BFGS."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.in_place import check_writable
from retrograd.core.tensor import Tensor, bump, wrap
from retrograd.creation import tensor
from retrograd.dtypes import float32, float64
from retrograd.optim._blockwise import as_vector
from retrograd.optim._line_search import Point, strong_wolfe
from retrograd.optim._options import check_lr, number
from retrograd.optim.optimizer import Closure, Optimizer

__all__ = ["LBFGS"]


class _Withheld(Exception):  # noqa: N818 (no error, and not seen outside)
    """Raised when an anomaly watch withholds the step from the point just evaluated."""


class LBFGS(Optimizer):
    """The quasi-Newton method L-BFGS (Nocedal and Wright, "Numerical Optimization", algorithms 7.4 and 7.5).

    A step evaluates the closure several times. All parameters belong to one group. Where the closure raises, the
    parameters are put back to where the last iteration left them.

    Parameters
    ----------
    params
        The parameters.
    lr
        Length of a step along the quasi-Newton direction; with a line search, the first one tried.
    max_iter
        The largest number of iterations per step.
    max_eval
        The largest number of evaluations per step; by default ``max_iter * 1.25``.
    tolerance_grad
        Stop when no element of the gradient is larger.
    tolerance_change
        Stop when neither the parameters nor the loss change by more.
    history_size
        The number of past updates that are remembered. Memory is needed for twice as many copies of the parameters.
    line_search_fn
        ``"strong_wolfe"``, or None for steps of fixed length.

    Examples
    --------
    >>> w = rg.tensor([-1.5, 2.0], requires_grad=True)
    >>> optimizer = rg.optim.LBFGS([w], line_search_fn="strong_wolfe", max_iter=60)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure)
    >>> w
    tensor([1.0000, 1.0000], requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_lr(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError(
                f"LBFGS doesn't support per-parameter options (parameter groups), but got {len(self.param_groups)} "
                "groups; use one optimizer per group"
            )

    @no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """Go some iterations towards a minimum.

        Parameters
        ----------
        closure
            A function that clears the gradients, computes the loss, calls ``backward`` and returns the loss.

        Returns
        -------
        Tensor
            What ``closure`` returned first.
        """
        if closure is None:
            raise TypeError(
                "LBFGS.step() needs a closure that clears the gradients, computes the loss, calls backward() and "
                "returns the loss"
            )
        if len(self.param_groups) != 1:
            raise AssertionError(
                f"LBFGS: Expected exactly one param_group, but got {len(self.param_groups)}; use one optimizer per "
                "group"
            )
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError(f"only 'strong_wolfe' is supported, but line_search_fn is {group['line_search_fn']!r}")
        for param in group["params"]:
            check_writable(param, "LBFGS.step")
        search = _Search(self, closure)
        first_loss = self._evaluate(closure)
        if not self._is_withheld():
            with contextlib.suppress(_Withheld):
                search.run(float(number(first_loss)))
        return first_loss


class _Curvature:
    """The last changes of the parameters and of the gradient, which approximate the inverse of the Hessian."""

    def __init__(self, state: dict[str, Any], history_size: int) -> None:
        self.size = history_size
        self.gradient_changes = [change._data for change in state.get("old_dirs", ())]
        self.steps = [change._data for change in state.get("old_stps", ())]
        self.reciprocals = [number(value) for value in state.get("ro", ())]
        self.scale = number(state.get("H_diag", 1.0))

    def learn(self, gradient_change: Any, step: Any) -> None:
        product = float(gradient_change.dot(step))
        if not product > 1e-10:
            return
        if len(self.steps) == self.size:
            for remembered in (self.gradient_changes, self.steps, self.reciprocals):
                del remembered[0]
        self.gradient_changes.append(gradient_change)
        self.steps.append(step)
        self.reciprocals.append(1.0 / product)
        self.scale = product / float(gradient_change.dot(gradient_change))

    def direction(self, gradient: Any) -> Any:
        """The negative gradient times the inverse of the Hessian: the two loops of algorithm 7.4."""
        direction = -gradient
        pairs = list(zip(self.gradient_changes, self.steps, self.reciprocals, strict=True))
        factors = []
        for change, step, reciprocal in reversed(pairs):
            factor = float(step.dot(direction)) * reciprocal
            factors.append(factor)
            direction -= factor * change
        direction *= self.scale
        for (change, step, reciprocal), factor in zip(pairs, reversed(factors), strict=True):
            direction += (factor - float(change.dot(direction)) * reciprocal) * step
        return direction

    def to_state(self, dtype: Any) -> dict[str, Any]:
        """The state for the next step; the numbers in the precision of gradients of a dtype, or in float32."""
        precise = float64 if dtype == np.float64 else float32
        return {
            "old_dirs": [wrap(change) for change in self.gradient_changes],
            "old_stps": [wrap(step) for step in self.steps],
            "ro": [tensor(value, dtype=precise) for value in self.reciprocals],
            "H_diag": tensor(self.scale, dtype=precise),
        }


class _Search:
    """One step: the closure as a function of a vector, and the iterations."""

    def __init__(self, optimizer: LBFGS, closure: Closure) -> None:
        self.optimizer = optimizer
        self.closure = closure
        self.group = optimizer.param_groups[0]
        self.params: list[Tensor] = self.group["params"]
        self.state = optimizer.state.get(self.params[0], {})

    # --- the parameters as one vector -------------------------------------------------------------------------------

    def gradient(self) -> Any:
        grads = [np.zeros_like(p._data) if p._grad is None else p._grad._data for p in self.params]
        return np.concatenate([as_vector(grad) for grad in grads])

    def move(self, t: float, direction: Any) -> None:
        offset = 0
        for param in self.params:
            data = param._data
            size = as_vector(data).size
            change = (direction[offset : offset + size] * t).astype(data.real.dtype, copy=False)
            data += change.view(data.dtype).reshape(data.shape)
            bump(param)
            offset += size

    def put(self, values: list[Any]) -> None:
        for param, value in zip(self.params, values, strict=True):
            np.copyto(param._data, value)
            bump(param)

    def evaluate(self) -> tuple[float, Any]:
        loss = float(number(self.optimizer._evaluate(self.closure)))
        if self.optimizer._is_withheld():
            raise _Withheld
        return loss, self.gradient()

    # --- iterations -------------------------------------------------------------------------------------------------

    def run(self, loss: float) -> None:
        """Iterate from where the closure has just returned ``loss``; the state changes only if all goes well."""
        group, state = self.group, self.state
        tolerance_grad, tolerance_change = group["tolerance_grad"], group["tolerance_change"]
        total, evaluations, iterations = state.get("n_iter", 0), 1, 0
        gradient = self.gradient()
        found: dict[str, Any] = {}
        if group["max_iter"] > 0 and _largest(gradient) > tolerance_grad:
            curvature = _Curvature(state, group["history_size"])
            direction, t, old_gradient = (_plain(state.get(name)) for name in ("d", "t", "prev_flat_grad"))
            old_loss = loss
            while iterations < group["max_iter"]:
                iterations += 1
                if total + iterations > 1:
                    curvature.learn(gradient - old_gradient, direction * t)
                direction = curvature.direction(gradient)
                old_gradient, old_loss = gradient, loss
                t = number(group["lr"])
                if total + iterations == 1:
                    t = t * min(1.0, 1.0 / float(np.abs(gradient).sum()))  # not in place: the rate may be an array
                slope = float(gradient.dot(direction))
                if slope > -tolerance_change:
                    break
                is_last = iterations == group["max_iter"]
                left = group["max_eval"] - evaluations
                loss, gradient, t, spent = self.advance(Point(0.0, loss, gradient, slope), t, direction, left, is_last)
                evaluations += spent
                if (
                    is_last
                    or evaluations >= group["max_eval"]
                    or _largest(gradient) <= tolerance_grad
                    or _largest(direction) * t <= tolerance_change
                    or abs(loss - old_loss) < tolerance_change
                ):
                    break
            found = {"d": wrap(direction), "t": t, **curvature.to_state(gradient.dtype)}
            found |= {"prev_flat_grad": wrap(old_gradient), "prev_loss": old_loss}
        counts = {"func_evals": state.get("func_evals", 0) + evaluations, "n_iter": total + iterations}
        self.optimizer.state[self.params[0]].update(counts | found)

    def advance(
        self, start: Point, t: float, direction: Any, most_evaluations: int, is_last: bool
    ) -> tuple[float, Any, float, int]:
        """Go a step; return the loss and gradient there, the length of it, and how many evaluations it took."""
        before = [param._data.copy() for param in self.params]
        try:
            if self.group["line_search_fn"] is None:
                self.move(t, direction)
                # the next step will begin with an evaluation at the same point
                return (start.value, start.gradient, t, 0) if is_last else (*self.evaluate(), t, 1)

            def at(t: float) -> Point:
                self.move(t, direction)
                value, gradient = self.evaluate()
                self.put(before)
                return Point(t, value, gradient, float(gradient.dot(direction)))

            best, spent = strong_wolfe(at, start, t, _largest(direction), most_evaluations)
            self.move(best.t, direction)
            return best.value, best.gradient, best.t, spent
        except BaseException:
            self.put(before)
            raise


def _largest(vector: Any) -> float:
    return float(np.abs(vector).max(initial=0.0))


def _plain(value: Any) -> Any:
    return value._data if isinstance(value, Tensor) and value.ndim else number(value)
