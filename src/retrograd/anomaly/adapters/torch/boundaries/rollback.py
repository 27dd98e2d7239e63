"""Updates that are undone, or made without effect by taking their gradients away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.boundaries.optimizer_snapshot import OptimizerSnapshot
from retrograd.anomaly.adapters.torch.runtime.frames import has_own_step
from retrograd.anomaly.adapters.torch.second_run.snapshot import Copies, Gradients, Snapshot


class BeforeUpdate:
    """The weights of an optimizer and its whole memory as they were before a step.

    Attributes
    ----------
    weights
        Each parameter, with a copy of its earlier value.
    """

    @torch.no_grad()
    def __init__(self, optimizer: Any) -> None:
        self._memory = OptimizerSnapshot(optimizer)
        self._tensors = Copies(self._memory.tensors)
        self._before = dict(zip(map(id, self._memory.tensors), self._tensors.kept, strict=True))
        params = [param for group in optimizer.param_groups for param in group["params"]]
        self.weights = [(param, self._before[id(param)]) for param in params]

    def before(self, tensor: Tensor) -> Tensor | None:
        """The earlier value of a tensor in the optimizer's memory; None if it was not there."""
        return self._before.get(id(tensor))

    @torch.no_grad()
    def restore(self) -> None:
        """Called after the step, or in the middle of it if it goes no further."""
        self._memory.updated()
        self._memory.put_back()
        self._tensors.restore()

    @contextlib.contextmanager
    def restored_by(self, error: type[Exception]) -> Iterator[None]:
        """A context within the step; an error of the given type ends it and restores everything."""
        try:
            yield
        except error:
            self.restore()
            raise


class WeightsBefore:
    """The weights of an optimizer alone, which takes less time; its memory stays as the step leaves it.

    Attributes
    ----------
    weights
        Each parameter, with a copy of its earlier value.
    """

    def __init__(self, optimizer: Any) -> None:
        params = [param for group in optimizer.param_groups for param in group["params"]]
        self._copies = Copies(params)
        self.weights = list(zip(params, self._copies.kept, strict=True))

    @torch.no_grad()
    def renew(self, optimizer: Any) -> bool:
        """Copy the present values to the same memory, which is faster; return whether the parameters are the same."""
        params = [param for group in optimizer.param_groups for param in group["params"]]
        if len(params) != len(self.weights) or any(a is not b for a, (b, _) in zip(params, self.weights, strict=True)):
            return False
        if any(param.shape != kept.shape or param.dtype != kept.dtype for param, kept in self.weights):
            return False
        torch._foreach_copy_(self._copies.kept, params)
        return True

    def before(self, tensor: Tensor) -> Tensor | None:
        """The earlier value of a tensor in the optimizer's memory, which is not known."""
        return None

    @torch.no_grad()
    def restore(self) -> None:
        """Called after the step."""
        self._copies.restore()


class Withheld:
    """An update that changes nothing, because its gradients are taken away while it runs.

    A step that is not torch's own may need gradients, or change state without any: it gets zeros and is undone
    afterwards, including the random numbers that it draws.

    Parameters
    ----------
    optimizer
        The optimizer that steps.
    before
        Its state before, if its step has already begun.
    """

    def __init__(self, optimizer: Any, before: BeforeUpdate | None = None) -> None:
        self._gradients = Gradients(param for group in optimizer.param_groups for param in group["params"])
        self._before = before or (BeforeUpdate(optimizer) if has_own_step(optimizer) else None)
        self._random = None if self._before is None else Snapshot(())
        if self._before is not None:
            self._gradients.replace_by_zeros()

    def restore(self) -> None:
        """Called after the step."""
        self._gradients.restore()
        if self._before is not None and self._random is not None:
            self._before.restore()
            self._random.restore_random()
