"""What models average on the way, as a batch norm does: a step that is left out leaves no bad number there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from weakref import ref

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.models import Models
from retrograd.anomaly.adapters.torch.records.calls import has_nan, is_bad
from retrograd.anomaly.adapters.torch.second_run.snapshot import is_small
from retrograd.anomaly.event import NaNEvent, context_of, with_note
from retrograd.anomaly.monitor import Watch

STAYS = (
    "{} NaN now, from what this step has written there. Call `reset_running_stats()` of normalisations, which begins "
    "their averages anew, or load a checkpoint: otherwise the model evaluates to NaN."
)
_SHOWN = 3
_MOST_UNCOUNTED = 1 << 13  # elements


@dataclass
class _Kept:
    """What a buffer held at a version."""

    buffer: ref[Tensor]
    version: int
    copy: Tensor

    def is_of(self, buffer: Tensor) -> bool:
        return self.buffer() is buffer

    def is_outdated(self, buffer: Tensor) -> bool:
        """Whether a buffer may have been written to since; a batch norm does it without being counted."""
        return self.version != buffer._version or (buffer.is_floating_point() and buffer.numel() <= _MOST_UNCOUNTED)


class Buffers:
    """The small buffers of models as they were after the last update.

    Those alone are copied to which a step may have written. Where a step is run again, its snapshot has
    them; where it is known late whether it was good, nobody has.

    Parameters
    ----------
    watch, models
        Whose policies hold, and the models that are known.
    """

    def __init__(self, watch: Watch, models: Models) -> None:
        self._watch = watch
        self._models = models
        self._looked_at: list[ref[torch.nn.Module]] = []
        self._places: list[tuple[ref[torch.nn.Module], str]] = []  # modules, and the names of buffers in these
        self._kept: dict[int, _Kept] = {}

    @torch.no_grad()
    def update(self) -> None:
        """What was written to them so far was good: copy it."""
        if not self._watch.must_not_pass or self._watch.replaying or self._watch.lag:
            return
        old: list[Tensor] = []
        new: list[Tensor] = []
        for buffer in self._present():
            known = self._kept.get(id(buffer))
            if known is None or not known.is_of(buffer):
                self._kept = {key: each for key, each in self._kept.items() if each.buffer() is not None}
                self._kept[id(buffer)] = _Kept(ref(buffer), buffer._version, buffer.detach().clone())
            elif known.is_outdated(buffer):
                known.version = buffer._version
                old.append(known.copy)
                new.append(buffer.detach())
        if new:
            torch._foreach_copy_(old, new)

    @torch.no_grad()
    def put_back(self, kind: str, event: NaNEvent) -> NaNEvent:
        """Undo what a step has written that is left out for a harm, if it is not finite; say what stays bad."""
        if kind not in self._watch.must_not_pass or self._watch.replaying:
            return event
        found = [(buffer, each) for each in self._kept.values() if (buffer := each.buffer()) is not None]
        written = [(buffer, each.copy) for buffer, each in found if each.is_outdated(buffer)]
        if any(is_bad(buffer) and not is_bad(copy) for buffer, copy in written):
            for buffer, copy in written:
                buffer.data.copy_(copy)  # uncounted: what another loss has saved is right still
        names = [] if context_of(event).get("leaf") == "buffer" else list(self._bad())
        return event if not names else with_note(event, STAYS.format(_listed(names)))

    def _bad(self) -> Iterator[str]:
        """The names of the buffers that hold NaN and may have been written to."""
        for model in self._models.present():
            for name, buffer in model.named_buffers():
                known = self._kept.get(id(buffer))
                is_written = known.is_outdated(buffer) if known is not None else buffer._version > 0
                if _counts(buffer) and is_written and has_nan(buffer):
                    yield name

    def _present(self) -> Iterator[Tensor]:
        models = self._models.present()
        if [each() for each in self._looked_at] != models:
            self._looked_at = [ref(each) for each in models]
            modules = dict.fromkeys(module for model in models for module in model.modules())
            self._places = [(ref(each), name) for each in modules for name in each._buffers]
        for known, name in self._places:
            module = known()
            buffer = None if module is None else module._buffers.get(name)
            if buffer is not None and _counts(buffer):
                yield buffer


def _counts(buffer: Tensor) -> bool:
    """Whether a buffer is small, and counts what is written to it."""
    return type(buffer) is Tensor and is_small(buffer) and not buffer.is_inference()


def _listed(names: list[str]) -> str:
    shown = names[:_SHOWN] + ([f"{len(names) - _SHOWN} more buffers"] if len(names) > _SHOWN else [])
    if len(shown) == 1:
        return f"{shown[0]} holds"
    return f"{', '.join(shown[:-1])} and {shown[-1]} hold"
