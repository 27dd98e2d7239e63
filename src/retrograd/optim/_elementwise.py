"""Optimizers that update every element by its own history alone: all but LBFGS, Adafactor and Muon."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.core.in_place import check_writable
from retrograd.core.tensor import Tensor, bump, wrap
from retrograd.optim._blockwise import LARGE, Kernel, Plan, Update
from retrograd.optim._options import number
from retrograd.optim.optimizer import Closure, Group, Optimizer, count_step, scalar


def filled_like(param: Tensor, value: float = 0.0) -> Tensor:
    """A new tensor like a parameter; each part of a complex number has the value."""
    array = np.zeros_like(param._data, order="C")
    if value:
        array.fill(complex(value, value) if array.dtype.kind == "c" else value)
    return wrap(array)


class ElementwiseOptimizer(Optimizer):
    """An optimizer that is given by a kernel.

    A subclass says what it remembers of a parameter and makes kernels for each step: functions of slices of the
    parameter, of the gradient, of the tensors it remembers, and of temporaries. Kernels write in place. Parameters of
    one group whose numbers are the same share a kernel.
    """

    _counts: tuple[str, ...] = ("step",)
    _kept: tuple[str, ...] = ()  # the names of the tensors that the kernel works on
    _temporaries: int = 1
    _large: int = LARGE  # from how many elements on threads share the work
    _plan: Plan | None = None  # of the last step

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._plan = None  # it would keep the previous arrays alive

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        return {"step": scalar(0.0), **{name: filled_like(param) for name in self._kept}}

    def _state_of(self, group: Group, param: Tensor) -> dict[str, Any]:
        """The state of a parameter."""
        state = self.state[param]
        if not state:
            state.update(self._new_state(group, param))
        return state

    def _numbers(self, group: Group, param: Tensor, state: dict[str, Any]) -> tuple[float, ...]:
        """Count a step of a parameter, and return the numbers that its kernel depends on beside the group's options."""
        return (count_step(state),)

    def _kernel(self, group: Group, numbers: tuple[float, ...]) -> tuple[Kernel, tuple[str, ...]]:
        """The kernel of this step for such numbers, and the names of the tensors of the state that it works on."""
        raise NotImplementedError

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
        moving, what = [], f"{type(self).__name__}.step"
        for group in self.param_groups:
            for param in group["params"]:
                if param._grad is not None:
                    check_writable(param, what, history=False)
                    moving.append((group, param))
        chosen: dict[Any, Update] = {}
        updates: list[Update] = []
        tensors: list[Tensor] = []
        grads = []
        for group, param in moving:
            state = self._state_of(group, param)
            key = id(group), self._numbers(group, param, state)
            update = chosen.get(key)
            if update is None:
                update = chosen[key] = self._update(group, key[1])
            updates.append(update)
            grads.append(param._grad._data)
            tensors += (param, *map(state.__getitem__, update.state))
        plan, self._plan = self._plan, None  # only a plan that was completed is kept
        if plan is None or not plan.fits(updates, tensors):
            plan = Plan(updates, tensors, self._large)
        plan.run(updates, grads)
        self._plan = plan
        for _, param in moving:
            bump(param)
        return loss

    def _update(self, group: Group, numbers: tuple[float, ...]) -> Update:
        """An update that also applies the options common to all optimizers."""
        kernel, names = self._kernel(group, numbers)
        # a group may come with options that are meant for another optimizer
        weight_decay = number(group["weight_decay"]) if "weight_decay" in self.defaults else 0
        if not group["maximize"] and weight_decay == 0:
            return Update(kernel, names, self._temporaries)
        decoupled = "decoupled_weight_decay" in self.defaults and group["decoupled_weight_decay"]
        kernel = _with_common_options(kernel, group, weight_decay, decoupled)
        return Update(kernel, names, self._temporaries + 1)


def _with_common_options(kernel: Kernel, group: Group, weight_decay: float, decoupled: bool) -> Kernel:
    """A kernel that is given the gradient to descend by: negated to maximize, weight decay added or applied first.

    It takes one temporary more, the last.
    """
    maximize = group["maximize"]
    shrink = 1 - number(group["lr"]) * weight_decay

    def with_options(param: Any, grad: Any, *others: Any) -> None:
        own = others[-1]
        if maximize:
            grad = np.negative(grad, out=own)
        if weight_decay != 0 and decoupled:
            np.multiply(param, shrink, out=param)
        elif weight_decay != 0:
            decay = np.multiply(param, weight_decay, out=others[-2])
            grad = np.add(grad, decay, out=own)
        kernel(param, grad, *others[:-1])

    return with_options
