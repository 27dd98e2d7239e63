"""Means of a model's parameters over the steps of its training, as in ``torch.optim.swa_utils``."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.tensor import Tensor
from retrograd.creation import tensor
from retrograd.dtypes import int64
from retrograd.nn.modules.batchnorm import _BatchNorm
from retrograd.nn.modules.module import Module
from retrograd.optim.lr_scheduler._base import LRScheduler, per_group
from retrograd.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


# --- what kind of mean --------------------------------------------------------------------------------------------


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return a function for :class:`AveragedModel` that gives exponential moving means.

    Parameters
    ----------
    decay
        The weight of the mean so far, between 0 and 1.
    """
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """Return a function for :class:`AveragedModel` that gives means in which all steps have the same weight."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def _for_lists(average: Average) -> MultiAverage:
    """A function that overwrites a list of means."""

    @no_grad()
    def update(averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Any) -> None:
        for mean, value in zip(averaged, current, strict=True):
            mean.copy_(average(mean, value, num_averaged))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """Return a function as :func:`get_ema_avg_fn` does, for lists of parameters, which it overwrites.

    Examples
    --------
    >>> model = rg.nn.Linear(2, 1)
    >>> average = rg.optim.swa_utils.get_ema_multi_avg_fn(0.99)
    >>> ema = rg.optim.swa_utils.AveragedModel(model, multi_avg_fn=average)
    """
    return _for_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> MultiAverage:
    """Return a function as :func:`get_swa_avg_fn` does, for lists of parameters, which it overwrites."""
    return _for_lists(get_swa_avg_fn())


# --- the mean of a model ------------------------------------------------------------------------------------------


class AveragedModel(Module):
    """A copy of a model whose parameters are means of the model's (Izmailov et al. 2018).

    Parameters
    ----------
    model
        The model to be trained.
    device
        Where the copy is to be.
    avg_fn
        ``avg_fn(mean, parameter, n)`` returns the new mean; that of ``n + 1`` parameters, all of the same weight, by
        default.
    multi_avg_fn
        The same for lists of means and parameters of one dtype; it overwrites the means.
    use_buffers
        Whether buffers are averaged, too, rather than copied.

    Attributes
    ----------
    module
        The copy.
    n_averaged
        How often :meth:`update_parameters` was called.

    Examples
    --------
    >>> model = rg.nn.Linear(2, 1)
    >>> averaged = rg.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = rg.nn.init.constant_(model.bias, value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.bias
    Parameter containing:
    tensor([3.], requires_grad=True)
    """

    n_averaged: Tensor
    module: Module

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the copy computes."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Add the parameters of the model to the means; the first time, they are copied.

        Raises
        ------
        ValueError
            If it is a model of another structure.
        """
        pairs = _pairs("parameters", self.module.parameters(), model.parameters())
        buffers = _pairs("buffers", self.module.buffers(), model.buffers())
        if self.use_buffers:
            pairs += buffers
        if not bool(self.n_averaged):
            for mean, value in pairs:
                mean.copy_(value)
        else:
            self._average(pairs)
        if not self.use_buffers:
            for own, theirs in buffers:
                own.copy_(theirs)
        self.n_averaged += 1

    def _average(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        average = self.multi_avg_fn or _for_lists(self.avg_fn or get_swa_avg_fn())
        of_dtype: dict[Any, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for mean, value in pairs:
            of_dtype[mean.dtype].append((mean.detach(), value.detach().to(mean.device)))
        for group in of_dtype.values():
            means, values = zip(*group, strict=True)
            average(means, values, self.n_averaged)


def _pairs(what: str, means: Iterable[Tensor], values: Iterable[Tensor]) -> list[tuple[Tensor, Tensor]]:
    ours, theirs = list(means), list(values)
    if len(ours) != len(theirs):
        raise ValueError(
            f"update_parameters() takes a model like the averaged one, which has {len(ours)} {what}, but this one has "
            f"{len(theirs)}"
        )
    return list(zip(ours, theirs, strict=True))


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of a model's batch normalisations anew, by one pass over the data.

    The statistics of a mean of models are not the mean of theirs.

    Parameters
    ----------
    loader
        Gives batches, or tuples whose first item is one.
    model
        Called with every batch, in training mode.
    device
        Where to move the batches first.

    Examples
    --------
    >>> model = rg.nn.Sequential(rg.nn.Linear(2, 3), rg.nn.BatchNorm1d(3))
    >>> averaged = rg.optim.swa_utils.AveragedModel(model)
    >>> rg.optim.swa_utils.update_bn([rg.randn(8, 2), rg.randn(8, 2)], averaged)
    >>> averaged.module[1].num_batches_tracked
    tensor(2)
    """
    momenta = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    try:
        for module in momenta:
            module.reset_running_stats()
            module.momentum = None  # all batches have the same weight
        for batch in loader:
            input = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(input if device is None else input.to(device))
    finally:
        for module, momentum in momenta.items():
            module.momentum = momentum
        model.train(was_training)


# --- the learning rate --------------------------------------------------------------------------------------------


class SWALR(LRScheduler):
    """Let the learning rate go to a constant, at which models for the mean are gathered.

    Parameters
    ----------
    optimizer
        Whose learning rates are scheduled.
    swa_lr
        The constant; one number, or one for each group.
    anneal_epochs
        How many epochs the way there takes.
    anneal_strategy
        ``"cos"``, along a cosine, or ``"linear"``.
    last_epoch
        The number of the last epoch of training that is resumed; -1 to begin.

    Examples
    --------
    >>> optimizer = rg.optim.SGD([rg.ones(1, requires_grad=True)], lr=0.5)
    >>> scheduler = rg.optim.swa_utils.SWALR(optimizer, swa_lr=0.1, anneal_epochs=2, anneal_strategy="linear")
    >>> for epoch in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, lr in zip(optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """The fraction of the annealing completed after a number of steps."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        """Return the learning rates of all groups for this step."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        lrs = []
        for group in self.optimizer.param_groups:
            lr, target = group["lr"], group["swa_lr"]
            start = target if before == 1 else (lr - before * target) / (1 - before)
            lrs.append(target * now + start * (1 - now))
        return lrs
