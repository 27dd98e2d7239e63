"""Optimizers that look at a whole parameter at once, as a matrix."""

from __future__ import annotations

from typing import Any

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.in_place import check_writable
from retrograd.core.monitor import silenced
from retrograd.core.tensor import Tensor, bump
from retrograd.optim.optimizer import Closure, Group, Optimizer


class MatrixwiseOptimizer(Optimizer):
    """An optimizer whose update of an element depends on the others of its parameter, for real parameters."""

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        raise NotImplementedError

    def _update(self, group: Group, param: Any, grad: Any, state: dict[str, Any]) -> None:
        """Overwrite a parameter (an array), using its gradient and its state."""
        raise NotImplementedError

    @no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters once, by their gradients; those without a gradient are left alone.

        Parameters
        ----------
        closure
            A function that clears the gradients, computes the loss, calls ``backward`` and returns the loss.

        Returns
        -------
        Tensor or None
            What ``closure`` returned.
        """
        loss = self._evaluate(closure)
        if self._is_withheld():
            return loss
        name = type(self).__name__
        for group in self.param_groups:
            for param in group["params"]:
                if param._grad is None:
                    continue
                if param.is_complex():
                    raise RuntimeError(f"{name} does not support complex parameters")
                check_writable(param, f"{name}.step")
                state = self.state[param]
                if not state:
                    state.update(self._new_state(group, param))
                silenced(self._update)(group, param._data, param._grad._data, state)
                bump(param)
        return loss
