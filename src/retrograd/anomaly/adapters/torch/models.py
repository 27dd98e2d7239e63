"""The models of a program that has passed none to the watch: found among its variables."""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Container, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.program.variables import variables_around
from retrograd.anomaly.adapters.torch.module_wrappers import is_usable
from retrograd.anomaly.adapters.torch.records.model_calls import ModelCalls
from retrograd.anomaly.adapters.torch.runtime.compilation import in_use
from retrograd.anomaly.adapters.torch.second_run.snapshot import small_buffers
from retrograd.anomaly.monitor import Watch
from retrograd.anomaly.stack_frames import user_frame

_MOST = 8
_LOOKING_FOR_HOOKS = (torch.nn.TransformerEncoderLayer, torch.nn.MultiheadAttention)  # they compute differently then


class Models:
    """The models whose buffers a second run must not change, and whose calls may be remembered.

    Parameters
    ----------
    watch
        The watch that may run them again.
    given
        The model that was passed to the watch; None if models have to be found.
    calls
        Remembers the calls of the models that were found.
    """

    def __init__(self, watch: Watch, given: torch.nn.Module | None, calls: ModelCalls) -> None:
        self._watch = watch
        self._given = given
        self._calls = calls
        self._found: list[weakref.ref[torch.nn.Module]] = []
        self._buffers: list[weakref.ref[Tensor]] = []  # of the models that were found
        self._has_looked = False
        self._met: weakref.WeakSet[Any] = weakref.WeakSet()  # optimizers

    def start(self, patches: Patches) -> None:
        """Notice optimizers when they are made, so that models are known in the very first step."""
        if self._given is None:
            patches.wrap(torch.optim.Optimizer, "__init__", self._made)
            patches.wrap(torch, "compile", self._compiled)

    def _made(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        original(optimizer, *args, **kwargs)
        self.meet(optimizer)

    def _compiled(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Remove our hooks, which would be compiled together with the module."""
        self._calls.stop()
        return original(*args, **kwargs)

    def forget(self) -> None:
        self._found, self._buffers, self._has_looked = [], [], False
        self._met.clear()

    def present(self) -> list[torch.nn.Module]:
        """The given model, or else those among the variables of the program's running functions.

        They are searched once, and again for each new optimizer.
        """
        if self._given is not None:
            return [self._given]
        if not self._has_looked:
            self._has_looked = True
            self._add(outermost(modules_around(user_frame(sys._getframe(1)))))
        return [each for found in self._found if (each := found()) is not None]

    def buffers(self) -> list[Tensor]:
        """The small buffers of these models."""
        present = self.present()
        if self._given is not None:
            return [each for model in present for each in small_buffers(model)]
        return [each for known in self._buffers if (each := known()) is not None]

    def meet(self, optimizer: Any, steps: bool = False) -> None:
        """Find the models whose parameters an optimizer updates, and remember their calls, so that they can be run
        again once the graph is gone.

        At its first step (``steps``), variables may hold models that did not exist when it was made, such as wrappers.
        """
        if self._given is not None or optimizer in self._met:
            return
        if not (self._watch.rerun_loaders or self._watch.lag or is_on_device(optimizer)):
            return
        if steps:
            self._met.add(optimizer)
        updated = {id(each) for group in optimizer.param_groups for each in group["params"]}
        modules = modules_around(user_frame(sys._getframe(1)))
        holding = [each for each in modules if not updated.isdisjoint(map(id, each.parameters()))]
        self._add(_outermost_to_follow(holding))  # including modules that average a model's weights, for their buffers
        called = _outermost_to_follow(each for each in holding if not _is_called_beside(each, holding, updated))
        for model in called if not (self._watch.replaying or in_use()) else ():
            self._calls.follow(model)

    def _add(self, models: list[torch.nn.Module]) -> None:
        known = [each for found in self._found if (each := found()) is not None]  # the others were deleted
        present = outermost([*known, *models])
        self._found = [weakref.ref(each) for each in present]
        self._buffers = [weakref.ref(each) for model in present for each in small_buffers(model)]


def _outermost_to_follow(modules: Iterable[torch.nn.Module]) -> list[torch.nn.Module]:
    return [each for each in outermost(modules) if not isinstance(each, _LOOKING_FOR_HOOKS)]


def is_on_device(optimizer: Any) -> bool:
    """Whether an optimizer updates parameters on a device from which numbers have to be copied."""
    return any(each.device.type != "cpu" for group in optimizer.param_groups for each in group["params"])


def modules_around(frame: FrameType | None) -> Iterator[torch.nn.Module]:
    """The modules among the variables of the user's frames, from one outwards, and in objects these variables hold.

    One whose constructor has not run yet is skipped, as it cannot list its parts.
    """
    return (value for _, value in variables_around(frame) if is_usable(value))


def adds_nothing(module: torch.nn.Module, others: Sequence[torch.nn.Module]) -> bool:
    """Whether a module contains just itself and one of some others, as a wrapper that averages weights may."""
    added = [set(module.modules()) - set(held.modules()) for held in module.children() if held in others]
    return not module._parameters and any(len(each) == 1 for each in added)


def adds_copies(module: torch.nn.Module, others: Sequence[torch.nn.Module], updated: Container[int]) -> bool:
    """Whether a module contains just itself, one of some others, and copies of that which no optimizer updates."""
    for held in module.children():
        own = list(held.parameters()) if held in others else []
        known = set(map(id, own))
        added = [each for each in module.parameters() if id(each) not in known]
        copies = [each.shape for each in own] * (len(added) // max(len(own), 1))
        if copies and sorted(copies) == sorted(each.shape for each in added):
            return not any(id(each) in updated for each in added)
    return False


def _is_called_beside(module: torch.nn.Module, others: Sequence[torch.nn.Module], updated: Container[int]) -> bool:
    """Whether the program calls the module within a module instead of that module itself."""
    cannot_be_called = inspect.getattr_static(type(module), "forward") is torch.nn.Module.forward
    return adds_copies(module, others, updated) or (cannot_be_called and adds_nothing(module, others))


def outermost(modules: Iterable[torch.nn.Module]) -> list[torch.nn.Module]:
    """The modules that are not part of another."""
    different = list(dict.fromkeys(modules))
    parts = {part for each in different for part in each.modules() if part is not each}
    return [each for each in different if each not in parts][:_MOST]
