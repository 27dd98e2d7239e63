"""Several processes with one model: they find out together whose doing it was, and do the same about it."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.event import NaNEvent, is_certain, with_context, with_note
from retrograd.anomaly.libraries import depth_of_user

_PATIENCE = timedelta(minutes=3)  # with processes that do not answer: a hang would be worse than one name not known
_ALONE = (
    "This program trains in {} processes, and the watches of these do not know of each other: one may leave out a step "
    "that the others take, and they may wait for each other. Put the watch into the script and give it the model: "
    "`with retrograd.anomaly.watch(model, optimizer) as w:`."
)
UNSHARED = "Only this process knows of it, and the gradients are good: the update was made here as in the others."
_SILENT = (
    "The watches of {} processes cannot tell each other what they find ({}): use the policy 'raise', as one may leave "
    "out a step that the others take."
)


def is_sharded(model: torch.nn.Module) -> bool:
    """Whether each process has a part of the weights only, so that none can run the model alone."""
    names = {base.__name__ for module in model.modules() for base in type(module).__mro__}
    return bool(names & {"FSDPModule", "FullyShardedDataParallel"}) or any(
        hasattr(parameter, "to_local") for parameter in model.parameters()
    )


def is_replicated(model: torch.nn.Module) -> bool:
    """Whether each process has all of the weights, and gradients are averaged in backward."""
    return isinstance(model, DistributedDataParallel)


class Agreement:
    """What the processes that train one model tell each other, in a group of their own.

    With ``DistributedDataParallel`` every process has the same gradients and so sees by itself that they are bad; only
    then do they speak. With sharded parameters a process may have the bad elements alone, so that each step costs one
    number.

    The group is made where all processes are at the same point: where a ``DistributedDataParallel`` is made, or before
    the first backward pass if the watch was given the model. It is not looked for among variables, where one process
    may find what another does not, and would then wait for it.
    """

    def __init__(self) -> None:
        self._group: Any = None
        self._world: Any = None  # in which the group was made; a program may begin another
        self._asked = False
        self._models: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._silent = False  # the others would not answer
        self.sharded = False

    def start(self, patches: Patches) -> None:
        """Notice models that are replicated from here on: all processes make theirs together."""
        if dist.is_available():
            patches.wrap(DistributedDataParallel, "__init__", self._replicated)

    def _replicated(self, original: Any, model: Any, *args: Any, **kwargs: Any) -> None:
        original(model, *args, **kwargs)
        if not self.sharded:
            self._join(model)

    @property
    def active(self) -> bool:
        """Whether there are others."""
        return self._group is not None

    @property
    def possible(self) -> bool:
        """Whether the others would say the same of the present gradients, or be asked: not within ``no_sync()``."""
        return not self.active or self.sharded or all(each.require_backward_grad_sync for each in self._models)

    def prepare(self, model: Any, optimizer: Any) -> None:
        """Find out, before a backward pass, whether the given model is shared; all processes do so at that point.

        Where there is none, nothing can be agreed on: if the parameters of the optimizer are sharded, that is said.
        """
        if self._asked or not dist.is_available() or not dist.is_initialized() or dist.get_world_size() < 2:
            return
        if model is not None:
            self._asked = True
            self.sharded = is_sharded(model)
            if self.sharded or is_replicated(model):
                self._join(model)
        elif optimizer is not None:
            self._asked = True
            if any(hasattr(each, "to_local") for group in optimizer.param_groups for each in group["params"]):
                warnings.warn(_ALONE.format(dist.get_world_size()), stacklevel=depth_of_user())

    def _join(self, model: Any) -> None:
        """Make a group of the processes that have the model, if there is none."""
        ranks = dist.get_process_group_ranks(model.process_group if is_replicated(model) else dist.group.WORLD)
        if len(ranks) < 2:
            return
        if self.active and self._world is dist.group.WORLD:
            self._silent |= dist.get_process_group_ranks(self._group) != ranks
        else:
            try:
                self._group = dist.new_group(ranks, _PATIENCE, backend="gloo", use_local_synchronization=True)
            except (RuntimeError, ValueError) as error:  # gloo is not built in, or finds no network
                warnings.warn(_SILENT.format(len(ranks), error), stacklevel=depth_of_user())
                return
            self._world, self._silent = dist.group.WORLD, False
        self._models.add(model)

    def everywhere(self, fine: bool) -> bool:
        """Whether all processes say that their part is fine."""
        if not self.active or not self.sharded:
            return fine
        answer = torch.tensor(fine, dtype=torch.int32)
        dist.all_reduce(answer, dist.ReduceOp.MIN, group=self._group)
        return bool(answer)

    def have(self, leaves: Iterable[torch.Tensor]) -> bool:
        """Whether the others have some of these leaves, so that what is wrong with them is known there as well."""
        if not self.active or self.sharded:
            return self.sharded
        shared = {id(each) for model in self._models for each in model.parameters()}
        return not shared.isdisjoint(map(id, leaves))

    def guilty(self, event: NaNEvent, known: bool, again: bool) -> tuple[NaNEvent, bool]:
        """The event of the process with the best evidence of a birth; whether the step is run again: in all the same.

        Parameters
        ----------
        event
            What this process knows.
        known
            Whether the others know of the harm, and answer.
        again
            Whether it can run the step again, which one alone must not do.
        """
        if not known or self._silent or any(_has_gone_ahead(each) for each in self._models):
            return event, again and not self.active
        answers: list[Any] = [None] * dist.get_world_size(self._group)
        try:
            dist.all_gather_object(answers, (event.to_json(), again), group=self._group)
        except RuntimeError:  # they are gone, or do not answer
            self._silent = True
            return event, False
        found = [NaNEvent.from_json(each) for each, _ in answers]
        guilty = max(range(len(found)), key=lambda index: _evidence(found[index]))  # the first of equals
        rank = dist.get_process_group_ranks(self._group)[guilty]
        said = f"It happened on rank {rank} of {dist.get_world_size()}."
        return with_context(with_note(found[guilty], said), rank=rank), all(each for _, each in answers)


def _evidence(event: NaNEvent) -> tuple[bool, ...]:
    """How much speaks for a finding: a bad loss of its own; gradients may have come from another process."""
    return event.harmed == "loss", event.op != "unknown", is_certain(event)


def _has_gone_ahead(model: torch.nn.Module) -> bool:
    """Whether some processes may have run out of batches: within ``join()``, where these only take part in sums."""
    config = getattr(model, "_join_config", None)
    return config is not None and config.enable
