"""A schedule that follows a measured quantity."""

from __future__ import annotations

import math
from typing import Any, Literal

from retrograd.core.sites import warn_user
from retrograd.optim._options import number
from retrograd.optim.lr_scheduler._base import _EPOCH_WARNING, LRScheduler, check_optimizer, get, put
from retrograd.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Lower the learning rate when a quantity, such as the validation loss, has stopped getting better.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    mode
        ``"min"`` if less is better, ``"max"`` if more is.
    factor
        What the learning rate is multiplied by; below 1.
    patience
        How many epochs without progress are put up with.
    threshold, threshold_mode
        How much better counts as progress: by a fraction of the best value (``"rel"``) or by so much (``"abs"``).
    cooldown
        How many epochs after a change are not counted.
    min_lr
        The lowest learning rate, or a list of them for each group.
    eps
        A change by less is not made.

    Examples
    --------
    >>> optimizer = rg.optim.SGD([rg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        check_optimizer(optimizer)
        if factor >= 1.0:
            raise ValueError(f"Factor should be < 1.0, but got {factor}.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown! It is 'min' or 'max'")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown! It is 'rel' or 'abs'")
        count = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)) and len(min_lr) != count:
            raise ValueError(f"expected {count} min_lrs, got {len(min_lr)}")
        self.optimizer = optimizer
        self.factor = factor
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * count
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.last_epoch = 0
        self._last_lr = get(optimizer, "lr")
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are not counted at present."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take in the quantity measured after an epoch.

        Parameters
        ----------
        metrics
            A number, or a tensor of one element.
        epoch
            Deprecated; the number of the epoch.
        """
        if epoch is not None:
            warn_user(_EPOCH_WARNING)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        current = float(number(metrics))
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = get(self.optimizer, "lr")

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                    "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                    "`optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, lowest in zip(groups, self.min_lrs, strict=True):
            old = float(number(group["lr"]))
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                put(group, "lr", new)

    def _is_better(self, value: float, best: float) -> bool:
        threshold = self.threshold if self.mode == "max" else -self.threshold
        mark = best * (1 + threshold) if self.threshold_mode == "rel" else best + threshold
        return value > mark if self.mode == "max" else value < mark
