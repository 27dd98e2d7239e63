"""Running averages of models, such as a batch norm's: a step that is left out leaves no bad number there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.gradient_checks.norms import NARROW
from retrograd.anomaly.adapters.torch.models import Models
from retrograd.anomaly.adapters.torch.module_wrappers import name_written
from retrograd.anomaly.adapters.torch.records.calls import has_nan, is_bad
from retrograd.anomaly.adapters.torch.second_run.snapshot import is_small
from retrograd.anomaly.event import NaNEvent, context_of, with_note
from retrograd.anomaly.monitor import Watch

STAYS = (
    "{} NaN now, written by this step. Call `reset_running_stats()` on normalisation layers, or load a checkpoint: "
    "otherwise the model evaluates to NaN."
)
_SHOWN = 3
_MOST_UNCOUNTED = 1 << 13  # elements
_JOINED = frozenset((*NARROW, torch.float32, torch.float64, torch.int32, torch.int64, torch.bool))  # types


@dataclass
class _Kept:
    """What a buffer held at a version; the version is None for a small one, to which batch norm writes uncounted."""

    buffer: ref[Tensor]
    version: int | None
    copy: Tensor

    def is_outdated(self, buffer: Tensor) -> bool:
        """Whether a buffer may have been written to since."""
        return self.version is None or self.version != buffer._version


class _Together:
    """Small buffers of one type on one device, which are copied in one go."""

    def __init__(self, buffers: Sequence[Tensor]) -> None:
        self._parts = [each.detach().view(-1) for each in buffers]
        self._copy = torch.cat(self._parts)

    def update(self) -> None:
        torch.cat(self._parts, out=self._copy)

    def kept(self, buffers: Sequence[Tensor]) -> dict[int, _Kept]:
        """What they held, one by one."""
        copies = self._copy.split([each.numel() for each in buffers])
        pairs = zip(buffers, copies, strict=True)
        return {id(buffer): _Kept(ref(buffer), None, copy.view(buffer.shape)) for buffer, copy in pairs}


class Buffers:
    """The small buffers of models as they were after the last update.

    Only buffers to which a step may have written are copied. If a step is run again, its snapshot has them instead;
    if its result is read late, they are not kept at all.

    Parameters
    ----------
    watch, models
        Whose policies hold, and the models that are known.
    """

    def __init__(self, watch: Watch, models: Models) -> None:
        self._watch = watch
        self._models = models
        self._looked_at: list[ref[torch.nn.Module]] = []
        self._places: list[tuple[ref[torch.nn.Module], str]] = []  # modules, and the names of their buffers
        self._kept: dict[int, _Kept] = {}
        self._together: list[_Together] = []
        self._alone: list[_Kept] = []
        self._known: list[int] = []  # the buffers, and the addresses of those that are copied together
        self._are_together: list[bool] = []

    @torch.no_grad()
    def update(self) -> None:
        """Copy the buffers: what was written to them so far is good."""
        if not self._watch.must_not_pass or self._watch.replaying or self._watch.lag:
            return
        present = self._present()
        if self._known != self._identities(present):
            self._begin_anew(present)
            return
        for group in self._together:
            group.update()
        for each in self._alone:
            buffer = each.buffer()
            if buffer is not None and each.is_outdated(buffer):
                each.version = _version(buffer)
                each.copy.copy_(buffer.detach())

    def _identities(self, present: Sequence[Tensor]) -> list[int]:
        return [*map(id, present), *map(Tensor.data_ptr, compress(present, self._are_together))]

    def _begin_anew(self, present: Sequence[Tensor]) -> None:
        """Copy all buffers, as some of them are new."""
        counted = [each for each in dict.fromkeys(present) if _counts(each)]
        groups: dict[Any, list[Tensor]] = {}
        for each in filter(_is_plain, counted):
            groups.setdefault((each.device, each.dtype), []).append(each)
        self._together = [_Together(buffers) for buffers in groups.values()]
        kept: dict[int, _Kept] = {}
        for together, buffers in zip(self._together, groups.values(), strict=True):
            kept |= together.kept(buffers)
        self._alone = [self._kept_alone(each) for each in counted if id(each) not in kept]
        self._are_together = [id(each) in kept for each in present]
        self._known = self._identities(present)
        self._kept = kept | {id(each.buffer()): each for each in self._alone}

    def _kept_alone(self, buffer: Tensor) -> _Kept:
        known = self._kept.get(id(buffer))
        if known is None or known.buffer() is not buffer or known.is_outdated(buffer):
            return _Kept(ref(buffer), _version(buffer), buffer.detach().clone())
        return known

    @torch.no_grad()
    def put_back(self, kind: str, event: NaNEvent) -> NaNEvent:
        """Undo non-finite writes of a step that is left out because of a harm; report what stays bad."""
        if kind not in self._watch.must_not_pass or self._watch.replaying:
            return event
        found = [(buffer, each) for each in self._kept.values() if (buffer := each.buffer()) is not None]
        written = [(buffer, each.copy) for buffer, each in found if each.is_outdated(buffer)]
        if any(is_bad(buffer) and not is_bad(copy) for buffer, copy in written):
            for buffer, copy in written:
                buffer.data.copy_(copy)  # without a new version: what another loss has saved is still valid
        names = [] if context_of(event).get("leaf") == "buffer" else list(self._bad())
        return event if not names else with_note(event, STAYS.format(_listed(names)))

    def _bad(self) -> Iterator[str]:
        """The names of the buffers that hold NaN and may have been written to."""
        for model in self._models.present():
            for name, buffer in model.named_buffers():
                known = self._kept.get(id(buffer))
                is_written = known.is_outdated(buffer) if known is not None else buffer._version > 0
                if _counts(buffer) and is_written and has_nan(buffer):
                    yield name_written(model, name)

    def _present(self) -> list[Tensor]:
        models = self._models.present()
        if [each() for each in self._looked_at] != models:
            self._looked_at = [ref(each) for each in models]
            modules = dict.fromkeys(module for model in models for module in model.modules())
            self._places = [(ref(each), name) for each in modules for name, _ in each._buffers.items()]
        # a scripted module's are no dict: they have no ``get``, and no iterator but this
        tables = ((module._buffers, name) for known, name in self._places if (module := known()) is not None)
        found = (table[name] for table, name in tables if name in table)
        return [buffer for buffer in found if buffer is not None]


def _counts(buffer: Tensor) -> bool:
    """Whether a buffer is small, and writes to it are counted."""
    return type(buffer) is Tensor and is_small(buffer) and not buffer.is_inference()


def _version(buffer: Tensor) -> int | None:
    return buffer._version if buffer.numel() > _MOST_UNCOUNTED else None


def _is_plain(buffer: Tensor) -> bool:
    """Whether a buffer can be copied together with others: if it is a few contiguous numbers."""
    if buffer.dtype not in _JOINED or buffer.layout != torch.strided or buffer.is_neg():
        return False
    return buffer.numel() <= _MOST_UNCOUNTED and buffer.is_contiguous()


def _listed(names: list[str]) -> str:
    shown = names[:_SHOWN] + ([f"{len(names) - _SHOWN} more buffers"] if len(names) > _SHOWN else [])
    if len(shown) == 1:
        return f"{shown[0]} holds"
    return f"{', '.join(shown[:-1])} and {shown[-1]} hold"
