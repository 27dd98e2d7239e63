"""A training loop that stops before a NaN or an infinity gets into the weights."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.layer_detector.detector import NaNDetector


def train_with_nan_guard(
    model: Any,
    loader: Iterable[Any],
    criterion: Callable[..., Any],
    optimizer: Any,
    max_batches: int | None = None,
    device: Any = "cpu",
    **kwargs: Any,
) -> tuple[list[float], NaNEvent | None]:
    """Train a model for one pass over the data, and never let a NaN or an infinity into its weights.

    Parameters
    ----------
    model : Module
        The model; it is put into training mode.
    loader : iterable of pairs
        Inputs and targets.
    criterion : callable
        The loss, of the output and the targets.
    optimizer : Optimizer
        Anything with ``zero_grad()`` and ``step()``.
    max_batches : int, optional
        How many batches to train on at most.
    device
        Where the model and the batches are moved.
    **kwargs
        Of :class:`NaNDetector`. With ``stop_on_first=False`` the updates of bad batches are left out and training goes
        on; otherwise it ends with the first.

    Returns
    -------
    losses : list of float
        The loss of every batch, the bad ones included.
    event : NaNEvent or None
        What was found first.

    Examples
    --------
    >>> class SGD:
    ...     def __init__(self, parameters, lr):
    ...         self.parameters, self.lr = list(parameters), lr
    ...     def zero_grad(self):
    ...         for p in self.parameters:
    ...             p.grad = None
    ...     def step(self):
    ...         with rg.no_grad():
    ...             for p in self.parameters:
    ...                 p -= self.lr * p.grad
    >>> model = rg.nn.Linear(2, 1)
    >>> batches = [(rg.ones(4, 2), rg.zeros(4, 1)), (rg.full((4, 2), float("nan")), rg.zeros(4, 1))]
    >>> losses, event = rg.anomaly.train_with_nan_guard(
    ...     model, batches, rg.nn.MSELoss(), SGD(model.parameters(), 0.1), verbose=False
    ... )
    >>> len(losses), event.batch_idx, event.kind, bool(rg.isfinite(model.weight).all())
    (2, 1, 'leaf', True)
    """
    model.to(device).train()
    losses: list[float] = []
    with NaNDetector(model, **kwargs) as det:
        for number, (inputs, targets) in enumerate(itertools.islice(loader, max_batches)):
            det.set_batch(number)
            optimizer.zero_grad()
            loss = criterion(model(_moved(inputs, device)), _moved(targets, device))
            losses.append(loss.item())
            if not det.step_is_bad:
                loss.backward()
                det.check_grad_norms()
            if not det.step_is_bad:
                optimizer.step()
            elif det.stop_on_first:
                break
    return losses, det.event


def _moved(batch: Any, device: Any) -> Any:
    """A batch on a device, whatever its structure."""
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: _moved(item, device) for key, item in batch.items()}
    if isinstance(batch, (list, tuple)) and not hasattr(batch, "_fields"):
        return type(batch)(_moved(item, device) for item in batch)
    return batch
