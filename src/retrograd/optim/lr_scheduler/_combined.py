"""Schedules made of schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from retrograd.optim.lr_scheduler._base import LRScheduler, get, put
from retrograd.optim.lr_scheduler._plateau import ReduceLROnPlateau
from retrograd.optim.optimizer import Optimizer


class _OfSchedulers(LRScheduler):
    """A schedule made of several schedules of one optimizer."""

    _not_saved = ("optimizer", "_schedulers")
    _schedulers: Sequence[LRScheduler]

    def _check(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> Optimizer:
        """Raise unless all schedules are of one optimizer, and return that."""
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
        for number, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {number} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {number} in the given schedulers sequence."
                )
            optimizer = optimizer or scheduler.optimizer
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(scheduler).__name__} at index {number}, whose {type(scheduler.optimizer).__name__} is not "
                    f"the given {type(optimizer).__name__}."
                )
        assert optimizer is not None
        return optimizer

    def state_dict(self) -> dict[str, Any]:
        """Return what :meth:`load_state_dict` needs to go on from here, for all schedules."""
        return {**super().state_dict(), "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where :meth:`state_dict` was called."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class ChainedScheduler(_OfSchedulers):
    """Step several schedules together, one after the other; their factors multiply.

    Parameters
    ----------
    schedulers
        Schedules of one optimizer.
    optimizer
        By default the one of the first schedule.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self.optimizer = self._check(schedulers, optimizer)
        self._schedulers = schedulers
        self._last_lr = get(self.optimizer, "lr")

    def _initial_step(self) -> None:
        for scheduler in self._schedulers:
            scheduler._initial_step()
        self._last_lr = get(self.optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Set the learning rates of the next epoch."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = get(self.optimizer, "lr")


class SequentialLR(_OfSchedulers):
    """Use schedules one after the other.

    The first may be made of schedules itself, and gives the learning rates that it gives alone; torch steps what is
    inside once more at the beginning.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    schedulers
        The schedules, in order.
    milestones
        The numbers of the epochs with which the second and all further schedules begin.
    last_epoch
        The number of the last epoch of training that is resumed; -1 to begin.

    Examples
    --------
    >>> from retrograd.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
    >>> optimizer = rg.optim.SGD([rg.ones(1, requires_grad=True)], lr=1.0)
    >>> warm_up, decay = ConstantLR(optimizer, factor=0.1), ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = SequentialLR(optimizer, [warm_up, decay], milestones=[2])
    >>> for epoch in range(4):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [0.1]
    [0.1]
    [1.0]
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        self.optimizer = self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        for number, scheduler in enumerate(schedulers[1:], 1):
            if isinstance(scheduler, _OfSchedulers):
                raise ValueError(
                    f"SequentialLR cannot begin a {type(scheduler).__name__} at a milestone, but got one at index "
                    f"{number}; only the first schedule may be composed of others"
                )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        # when they were made, each schedule set the learning rate of its beginning; only the first one should have
        for group in optimizer.param_groups:
            put(group, "lr", group["initial_lr"])
        _undo_first_step(self)
        self._initial_step()

    def _initial_step(self) -> None:
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Set the learning rates of the next epoch."""
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number > 0 and self._milestones[number - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _undo_first_step(scheduler: LRScheduler) -> None:
    if isinstance(scheduler, _OfSchedulers):
        for inner in scheduler._schedulers:
            _undo_first_step(inner)
    else:
        scheduler.last_epoch -= 1
