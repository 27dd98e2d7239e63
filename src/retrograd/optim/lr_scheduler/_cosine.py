"""Schedules along a cosine (Loshchilov and Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts")."""

from __future__ import annotations

import math
from typing import Any

from retrograd.optim.lr_scheduler._base import LRScheduler, get
from retrograd.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """Let the learning rate fall to ``eta_min`` in ``T_max`` epochs, along a cosine; then it rises again.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    T_max
        Number of epochs from the top to the bottom.
    eta_min
        The lowest learning rate.
    last_epoch
        The number of the last epoch of training that is resumed; -1 to begin.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of all groups for ``self.last_epoch``."""
        self._warn_outside_step()
        lrs, low = get(self.optimizer, "lr"), self.eta_min
        if self._is_initial:
            return lrs
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # up from the minimum, where there is no factor
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [lr + (base_lr - low) * rise for lr, base_lr in zip(lrs, self.base_lrs, strict=True)]
        factor = self._height(self.last_epoch) / self._height(self.last_epoch - 1)
        return [factor * (lr - low) + low for lr in lrs]

    def _height(self, epoch: int) -> float:
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def _get_closed_form_lr(self) -> list[Any]:
        height = self._height(self.last_epoch)
        return [self.eta_min + (base_lr - self.eta_min) * height / 2 for base_lr in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Let the learning rate fall along a cosine and start at the top again, in longer and longer cycles.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    T_0
        Number of epochs of the first cycle.
    T_mult
        How many times longer each cycle is than the one before.
    eta_min
        The lowest learning rate.
    last_epoch
        The number of the last epoch of training that is resumed; -1 to begin.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0  # length of this cycle
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch  # epochs since it began
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of all groups for ``self.T_cur``."""
        self._warn_outside_step()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base_lr - self.eta_min) * height / 2 for base_lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the learning rates of the next epoch, or of the given one.

        Parameters
        ----------
        epoch
            The number of the epoch; with a fraction, if the learning rate is to change within epochs.

        Raises
        ------
        ValueError
            If it is negative.
        """
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._find_cycle(epoch)
        self.last_epoch = math.floor(epoch)
        with self._within_step():
            self._set(self.get_lr())

    def _find_cycle(self, epoch: float) -> None:
        if epoch < self.T_0:
            self.T_cur, self.T_i = epoch, self.T_0
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:  # the cycles before are a geometric series
            cycles = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**cycles - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**cycles
