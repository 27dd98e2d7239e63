"""What has to be restored to run a step again: random states, buffers, gradients; and what must not advance."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy import ndarray

from retrograd.amp import GradScaler
from retrograd.anomaly.adapters.frozen_schedules import freeze_schedules
from retrograd.anomaly.adapters.patches import Patches
from retrograd.core.tensor import Tensor, bump, wrap
from retrograd.nn.parameter import is_lazy
from retrograd.optim.lr_scheduler import LRScheduler
from retrograd.optim.swa_utils import AveragedModel
from retrograd.random import default_generator


class Snapshot:
    """What a step changes before it is judged: random states, buffers of a model, and the ``.grad`` of leaves.

    The latter are noted when the first gradient is about to be added to them.
    """

    def __init__(self, model: Any) -> None:
        self._generator = default_generator.get_state()
        self._numpy = np.random.get_state()
        self._python = random.getstate()
        buffers = [] if model is None else model.buffers()
        self._buffers = [(each, each._data.copy()) for each in buffers if not is_lazy(each)]
        self._grads: dict[int, tuple[Tensor, Tensor | None, ndarray | None]] = {}
        self._zeros: dict[int, tuple[Tensor, int]] = {}

    def restore_random(self) -> None:
        default_generator.set_state(self._generator)
        np.random.set_state(self._numpy)
        random.setstate(self._python)

    @property
    def leaves(self) -> list[Tensor]:
        """The leaves whose gradients are noted."""
        return [leaf for leaf, *_ in self._grads.values()]

    def note_grad(self, leaf: Tensor) -> None:
        """Remember what a leaf has in ``.grad`` before the step changes it."""
        if id(leaf) not in self._grads:
            grad = leaf._grad
            self._grads[id(leaf)] = leaf, grad, None if grad is None else grad._data.copy()

    def withhold(self, leaves: Iterable[Tensor]) -> None:
        """Zero the gradients of leaves, so that an update by hand changes nothing either.

        Buffers are put back at once, as the program may go on to average them.
        """
        for leaf in leaves:
            self.note_grad(leaf)
            leaf._grad = zeros = wrap(np.zeros_like(leaf._data))
            self._zeros[id(leaf)] = zeros, zeros._version
        self.restore_buffers()

    def restore_buffers(self) -> None:
        for buffer, kept in self._buffers:
            np.copyto(buffer._data, kept)

    def restore_tensors(self) -> None:
        """Put back the buffers, and what leaves had in ``.grad``: what earlier steps accumulated, or None."""
        self.restore_buffers()
        for leaf, grad, kept in self._grads.values():
            if grad is not None and kept is not None:
                np.copyto(grad._data, kept)
                bump(grad)
            leaf._grad = grad

    def forget_cleared_grads(self) -> None:
        """Do not restore gradients that the step itself has cleared at its end."""
        for leaf, *_ in list(self._grads.values()):
            grad = leaf._grad
            zeros, version = self._zeros.get(id(leaf), (None, 0))
            ours = grad is not None and grad is zeros and grad._version == version
            if grad is None or not (ours or grad._data.any()):
                del self._grads[id(leaf)]


def freeze_all_schedules(patches: Patches) -> None:
    """Have no rate, average of weights or scale of a gradient scaler move on until the patches are undone."""
    freeze_schedules(patches, LRScheduler, AveragedModel)
    patches.wrap(GradScaler, "update", _keep_scale)


def _keep_scale(original: Any, scaler: GradScaler, *args: Any, **kwargs: Any) -> None:
    """Do nothing, as the scale was already adapted in the first run of the step."""
    before = scaler.state_dict()
    original(scaler, *args, **kwargs)
    scaler.load_state_dict(before)


class Noted(list[Tensor]):
    """Leaves whose ``.grad`` a snapshot notes before they are appended."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self._snapshot = snapshot

    def append(self, leaf: Tensor) -> None:
        self._snapshot.note_grad(leaf)
        super().append(leaf)
