"""What all schedules share."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.optim._options import number
from retrograd.optim.optimizer import Optimizer

_EPOCH_WARNING = (
    "The epoch parameter in `scheduler.step()` is deprecated: call `scheduler.step()` once per epoch. With an epoch, "
    "the closed form of the schedule is used where it has one."
)


def check_optimizer(optimizer: Any) -> None:
    """Raise unless it is an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """An option as a list with an item per parameter group."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [_copy(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {count}."
        )
    return list(map(_copy, value))


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def get(optimizer: Optimizer, key: str) -> list[Any]:
    """An option of all groups; copies where they are tensors."""
    return [_copy(group[key]) for group in optimizer.param_groups]


@no_grad()
def put(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group; in place where it is a tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(number(value))
    else:
        group[key] = value


class LRScheduler:
    """The base of all schedules.

    A subclass defines :meth:`get_lr`, and calls this class's ``__init__`` at the end of its own.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    last_epoch
        The number of the last epoch of training that is resumed; -1 to begin.

    Raises
    ------
    TypeError
        If ``optimizer`` is none.
    KeyError
        If training is resumed, but the groups of the optimizer do not know their ``initial_lr``.

    Examples
    --------
    >>> class Halving(rg.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base_lr * 0.5**self.last_epoch for base_lr in self.base_lrs]
    >>> optimizer = rg.optim.SGD([rg.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = Halving(optimizer)
    >>> for epoch in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.1]
    """

    _get_lr_called_within_step = False
    _is_initial = False  # while the schedule sets the learning rate of its beginning

    _not_saved: tuple[str, ...] = ("optimizer",)

    optimizer: Optimizer
    base_lrs: list[Any]
    last_epoch: int
    _last_lr: list[Any]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for position, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copy(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{position}] when resuming scheduler with "
                    "last_epoch >= 0; load the optimizer's state dict first, or leave last_epoch at -1 to start afresh"
                )
        self.base_lrs = get(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_last_lr(self) -> list[Any]:
        """Return the learning rates of all groups, as last set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Return the learning rates of all groups for ``self.last_epoch``. For subclasses to define."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_lr()")

    def step(self, epoch: int | None = None) -> None:
        """Set the learning rates of the next epoch; to be called after the optimizer's ``step``.

        Parameters
        ----------
        epoch
            Deprecated; the number of the epoch.
        """
        if self._step_count == 1 and not self.optimizer._opt_called:
            warn_user(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: call them in the opposite order, or "
                "the first value of the learning rate schedule is skipped"
            )
        self._step_count += 1
        if epoch is not None:
            warn_user(_EPOCH_WARNING)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed_form = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        with self._within_step():
            self._set(self.get_lr() if closed_form is None else closed_form())

    @contextlib.contextmanager
    def _within_step(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _set(self, lrs: list[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, lrs, strict=True):
            put(group, "lr", lr)
        self._last_lr = get(self.optimizer, "lr")

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warn_user("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.")

    def state_dict(self) -> dict[str, Any]:
        """Return what :meth:`load_state_dict` needs to go on from here: all attributes but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key not in self._not_saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where :meth:`state_dict` was called."""
        self.__dict__.update(state_dict)


class FactorLR(LRScheduler):
    """A schedule that multiplies all learning rates by one factor.

    By the factor for this epoch, so that others who change the learning rate are not in the way; or, if an epoch is
    given, by the product of all factors so far.
    """

    def _factor(self) -> float:
        """The factor of the learning rates at ``self.last_epoch``."""
        raise NotImplementedError

    def _factor_so_far(self) -> float:
        """The product of all factors up to ``self.last_epoch``."""
        raise NotImplementedError

    def get_lr(self) -> list[Any]:
        """Return the learning rates of all groups for ``self.last_epoch``."""
        self._warn_outside_step()
        factor = self._factor()
        return [lr * factor for lr in get(self.optimizer, "lr")]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self._factor_so_far()
        return [base_lr * factor for base_lr in self.base_lrs]


def state_of_callable(function: Any) -> dict[str, Any] | None:
    """The state of a function that can be saved: nothing, or the attributes of a callable object."""
    return None if function is None or isinstance(function, types.FunctionType) else vars(function).copy()
