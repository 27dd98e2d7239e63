"""Several processes with one model: they find out together whose doing it was, and do the same about it."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from retrograd.anomaly.event import NaNEvent, with_note


def is_sharded(model: torch.nn.Module) -> bool:
    """Whether each process has a part of the weights only, so that none can run the model alone."""
    names = {base.__name__ for module in model.modules() for base in type(module).__mro__}
    return bool(names & {"FSDPModule", "FullyShardedDataParallel"}) or any(
        hasattr(parameter, "to_local") for parameter in model.parameters()
    )


def is_replicated(model: torch.nn.Module) -> bool:
    """Whether each process has all of the weights, and gradients are averaged in backward."""
    return isinstance(model, torch.nn.parallel.DistributedDataParallel)


class Agreement:
    """What the processes that train one model tell each other, in a group of their own.

    With ``DistributedDataParallel`` every process has the same gradients and so sees by itself that they are bad; only
    then do they speak. With sharded parameters a process may have the bad elements alone, so that each step costs one
    number.
    """

    def __init__(self) -> None:
        self._group: Any = None
        self._asked = False
        self._model: Any = None
        self.sharded = False

    @property
    def active(self) -> bool:
        """Whether there are others."""
        return self._group is not None

    @property
    def possible(self) -> bool:
        """Whether the others would say the same of the present gradients, or be asked: not within ``no_sync()``."""
        return not self.active or self.sharded or self._model.require_backward_grad_sync

    def prepare(self, model: Any) -> None:
        """Find out, before the first backward pass, whether the model is shared; all processes do so at that point."""
        if self._asked:
            return
        self._asked = True
        if model is None or not dist.is_available() or not dist.is_initialized() or dist.get_world_size() < 2:
            return
        self.sharded = is_sharded(model)
        if self.sharded or is_replicated(model):
            self._group = dist.new_group(backend="gloo")
            self._model = model

    def everywhere(self, fine: bool) -> bool:
        """Whether all processes say that their part is fine."""
        if not self.active or not self.sharded:
            return fine
        answer = torch.tensor(fine, dtype=torch.int32)
        dist.all_reduce(answer, dist.ReduceOp.MIN, group=self._group)
        return bool(answer)

    def guilty(self, event: NaNEvent) -> NaNEvent:
        """The event of the first process that found a birth, in all processes the same."""
        if not self.active:
            return event
        events: list[Any] = [None] * dist.get_world_size(self._group)
        dist.all_gather_object(events, event.to_json(), group=self._group)
        found = [NaNEvent.from_json(each) for each in events]
        rank = next((rank for rank, each in enumerate(found) if each.op != "unknown"), 0)
        said = f"It happened on rank {rank} of {len(found)}."
        return with_note(found[rank], said)
