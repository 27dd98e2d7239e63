"""Several processes with one model: they find out together where a harm comes from, and react alike."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.event import NaNEvent, is_certain, with_context, with_note
from retrograd.anomaly.stack_frames import depth_of_user

_PATIENCE = timedelta(minutes=3)  # for processes that do not answer: a hang would be worse than an unknown name
UNSHARED = "Only this process saw it, and the gradients are finite: the update was applied, as in the others."
_SILENT = (
    "The watches of {} processes cannot exchange their findings ({}): use the policy 'raise', because under the others "
    "one process may skip a step that the rest take."
)


def is_sharded(model: torch.nn.Module) -> bool:
    """Whether each process has only a part of the weights, so that none can run the model alone."""
    names = {base.__name__ for module in model.modules() for base in type(module).__mro__}
    return bool(names & {"FSDPModule", "FullyShardedDataParallel"}) or any(
        hasattr(parameter, "to_local") for parameter in model.parameters()
    )


def _are_several() -> bool:
    """Whether this process is one of several."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _ranks_with_parts(parameter: Any) -> Iterable[int]:
    """The processes that have parts of a parameter; none if this one has all of it."""
    if hasattr(parameter, "to_local"):  # a DTensor
        return parameter.device_mesh.mesh.flatten().tolist()
    is_flattened = hasattr(parameter, "_fsdp_flattened") or type(parameter).__name__ == "FlatParameter"
    return range(dist.get_world_size()) if is_flattened else ()


def _replicated_models() -> list[DistributedDataParallel]:
    """The existing replicated models, of which torch keeps no list."""
    return [each for each in gc.get_objects() if issubclass(type(each), DistributedDataParallel)]


def is_replicated(model: torch.nn.Module) -> bool:
    """Whether each process has all of the weights, and gradients are averaged in backward."""
    return isinstance(model, DistributedDataParallel)


class Agreement:
    """What the processes that train one model tell each other, in a group of their own.

    With ``DistributedDataParallel`` all processes have the same gradients, so each sees by itself that they are bad;
    only then do they communicate. With sharded parameters one process alone may have the bad elements, so that one
    number is exchanged in each step.

    The group is made where all processes are at the same point: when a ``DistributedDataParallel`` or an optimizer of
    sharded parameters is made, and before the first backward pass of a model that already existed. Such a model is not
    searched for among variables, where one process may find one that another does not, and would then wait for it.
    """

    def __init__(self) -> None:
        self._group: Any = None
        self._world: Any = None  # in which the group was made; a program may start another
        self._asked = False
        self._earlier: weakref.WeakSet[torch.nn.Module] | None = None  # made before the watch began
        self._models: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._silent = False  # the others have not answered
        self.sharded = False

    def start(self, patches: Patches) -> None:
        """Notice models that are replicated from here on, and new optimizers: all processes make theirs together."""
        if dist.is_available():
            patches.wrap(DistributedDataParallel, "__init__", self._replicated)
            patches.wrap(torch.optim.Optimizer, "__init__", self._made)

    def _replicated(self, original: Any, model: Any, *args: Any, **kwargs: Any) -> None:
        original(model, *args, **kwargs)
        if not self.sharded:
            self._join_replicated(model)

    def _made(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        original(optimizer, *args, **kwargs)
        self.share(optimizer)

    @property
    def active(self) -> bool:
        """Whether there are other processes."""
        return self._group is not None

    @property
    def possible(self) -> bool:
        """Whether the others see the same gradients now, or can be asked: not within ``no_sync()``."""
        return not self.active or self.sharded or all(each.require_backward_grad_sync for each in self._models)

    def prepare(self, model: Any, leaves: Callable[[], Iterable[torch.Tensor]]) -> None:
        """Find out, before a backward pass, whether the model is shared; all processes do so at that point.

        Parameters
        ----------
        model
            The given model. If None, a replicated one that was made before the watch began is used.
        leaves
            Returns the leaves of this backward pass.
        """
        if self._asked or not _are_several():
            return
        if model is not None:
            self._asked = True
            if is_sharded(model):
                self.sharded = self._join(range(dist.get_world_size()))
            elif is_replicated(model):
                self._join_replicated(model)
            return
        if self._earlier is None:
            self._earlier = weakref.WeakSet(each for each in _replicated_models() if each not in self._models)
        reached = {id(each) for each in leaves()} if self._earlier else set()
        for each in list(self._earlier):
            if not self.sharded and not reached.isdisjoint(map(id, each.parameters())):
                self._join_replicated(each)
                self._earlier.discard(each)
        self._asked = not self._earlier

    def share(self, optimizer: Any) -> None:
        """Find out whether others have parts of an optimizer's parameters: when it is made, or at its first step."""
        if self.active or not _are_several():
            return
        params = (each for group in optimizer.param_groups for each in group["params"])
        ranks = {rank for each in params for rank in _ranks_with_parts(each)}
        if ranks:
            self.sharded = self._join(sorted(ranks))

    def _join_replicated(self, model: Any) -> None:
        if self._join(dist.get_process_group_ranks(model.process_group)):
            self._models.add(model)

    def _join(self, processes: Iterable[int]) -> bool:
        """Make a group of the processes that share a model, if there is none; return whether they can communicate."""
        ranks = list(processes)
        if len(ranks) < 2:
            return False
        if self.active and self._world is dist.group.WORLD:
            self._silent |= dist.get_process_group_ranks(self._group) != ranks
        else:
            try:
                self._group = dist.new_group(ranks, _PATIENCE, backend="gloo", use_local_synchronization=True)
            except (RuntimeError, ValueError) as error:  # gloo is not available, or finds no network
                warnings.warn(_SILENT.format(len(ranks), error), stacklevel=depth_of_user())
                return False
            self._world, self._silent = dist.group.WORLD, False
        return True

    def everywhere(self, fine: bool) -> bool:
        """Whether all processes report that their part is fine."""
        if not self.active or not self.sharded:
            return fine
        answer = torch.tensor(fine, dtype=torch.int32)
        dist.all_reduce(answer, dist.ReduceOp.MIN, group=self._group)
        return bool(answer)

    def have(self, leaves: Iterable[torch.Tensor]) -> bool:
        """Whether the others have some of these leaves, so that they know of the harm as well."""
        if not self.active or self.sharded:
            return self.sharded
        shared = {id(each) for model in self._models for each in model.parameters()}
        return not shared.isdisjoint(map(id, leaves))

    def guilty(self, event: NaNEvent, known: bool, again: bool) -> tuple[NaNEvent, bool]:
        """The event of the process with the best evidence of a birth, and whether the step is run again, alike in all.

        Parameters
        ----------
        event
            What this process has found.
        known
            Whether the others know of the harm, and answer.
        again
            Whether this process can run the step again, which must not happen in one alone.
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
        told = with_context(with_note(found[guilty], said), rank=rank, elsewhere=rank != dist.get_rank())
        return told, all(each for _, each in answers)


def _evidence(event: NaNEvent) -> tuple[bool, ...]:
    """The strength of a finding: a bad loss of its own counts most, as gradients may come from another process."""
    return event.harmed == "loss", event.op != "unknown", is_certain(event)


def _has_gone_ahead(model: torch.nn.Module) -> bool:
    """Whether some processes may have run out of batches: within ``join()``, they only take part in reductions."""
    config = getattr(model, "_join_config", None)
    return config is not None and config.enable
