"""Schedules by a factor per epoch."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from retrograd.optim.lr_scheduler._base import FactorLR, LRScheduler, get, state_of_callable
from retrograd.optim.optimizer import Optimizer


class _ByFunctions(LRScheduler):
    """A schedule given by a function of the epoch for each group."""

    _not_saved = ("optimizer", "lr_lambdas")

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        functions = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(functions) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(functions)}")
        for function in functions:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        self.lr_lambdas = functions
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return what :meth:`load_state_dict` needs; of functions nothing, of callable objects their attributes."""
        return {**super().state_dict(), "lr_lambdas": [state_of_callable(function) for function in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where :meth:`state_dict` was called, with the functions of this schedule."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                vars(function).update(saved)


class LambdaLR(_ByFunctions):
    """The initial learning rate times ``lr_lambda(epoch)``.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    lr_lambda
        A function of the number of the epoch, or a list with one for each group.
    last_epoch
        The number of the last epoch of training that is resumed; -1 to begin.

    Examples
    --------
    >>> optimizer = rg.optim.SGD([rg.ones(1, requires_grad=True)], lr=0.5)
    >>> scheduler = rg.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def get_lr(self) -> list[Any]:
        """Return the learning rates of all groups for ``self.last_epoch``."""
        self._warn_outside_step()
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base_lr * function(self.last_epoch) for base_lr, function in pairs]


class MultiplicativeLR(_ByFunctions):
    """The learning rate times ``lr_lambda(epoch)``, each epoch anew.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    lr_lambda
        A function of the number of the epoch, or a list with one for each group.
    last_epoch
        The number of the last epoch of training that is resumed; -1 to begin.
    """

    def get_lr(self) -> list[Any]:
        """Return the learning rates of all groups for ``self.last_epoch``."""
        self._warn_outside_step()
        lrs = get(self.optimizer, "lr")
        if self._is_initial:
            return lrs
        return [lr * function(self.last_epoch) for lr, function in zip(lrs, self.lr_lambdas, strict=True)]


class StepLR(FactorLR):
    """Multiply the learning rate by ``gamma`` every ``step_size`` epochs.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    step_size
        Number of epochs.
    gamma
        The factor.
    last_epoch
        The number of the last epoch of training that is resumed; -1 to begin.

    Examples
    --------
    >>> optimizer = rg.optim.SGD([rg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for epoch in range(4):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [1.0]
    [1.0]
    [0.5]
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return 1.0 if self.last_epoch == 0 or self.last_epoch % self.step_size else self.gamma

    def _factor_so_far(self) -> float:
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(FactorLR):
    """Multiply the learning rate by ``gamma`` at each of the milestones.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    milestones
        Numbers of epochs.
    gamma
        The factor.
    last_epoch
        The number of the last epoch of training that is resumed; -1 to begin.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones: dict[int, int] = Counter(milestones)  # a plain dict, if loaded from a file
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return self.gamma ** self.milestones.get(self.last_epoch, 0)

    def _factor_so_far(self) -> float:
        return self.gamma ** bisect_right(sorted(Counter(self.milestones).elements()), self.last_epoch)


class ConstantLR(FactorLR):
    """Multiply the learning rate by ``factor`` for the first ``total_iters`` epochs.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    factor
        Between 0 and 1.
    total_iters
        Number of epochs.
    last_epoch
        The number of the last epoch of training that is resumed; -1 to begin.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError(f"Constant multiplicative factor expected to be between 0 and 1, but got {factor}.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else 1.0

    def _factor_so_far(self) -> float:
        return self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)


class LinearLR(FactorLR):
    """Multiply the learning rate by a factor that goes from ``start_factor`` to ``end_factor`` in a straight line.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    start_factor
        Above 0 and at most 1.
    end_factor
        Between 0 and 1.
    total_iters
        Number of epochs until the end.
    last_epoch
        The number of the last epoch of training that is resumed; -1 to begin.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1, "
                f"but got {start_factor}."
            )
        if not 0 <= end_factor <= 1.0:
            raise ValueError(f"Ending multiplicative factor expected to be between 0 and 1, but got {end_factor}.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)

    def _factor_so_far(self) -> float:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done


class ExponentialLR(FactorLR):
    """Multiply the learning rate by ``gamma`` every epoch.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    gamma
        The factor.
    last_epoch
        The number of the last epoch of training that is resumed; -1 to begin.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return 1.0 if self._is_initial else self.gamma

    def _factor_so_far(self) -> float:
        return self.gamma**self.last_epoch


class PolynomialLR(FactorLR):
    """Let the learning rate fall to zero as ``(1 - epoch / total_iters) ** power``.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    total_iters
        Number of epochs until it is zero.
    power
        The exponent.
    last_epoch
        The number of the last epoch of training that is resumed; -1 to begin.
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        now, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return (now / before) ** self.power

    def _factor_so_far(self) -> float:
        return (1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power
