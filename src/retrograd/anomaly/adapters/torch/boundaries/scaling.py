"""Gradient scalers: they expect infinities in scaled gradients, but not to skip updates again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.torch.runtime.graph_capture import capturing

MOST_SKIPS = 8  # updates left out in a row; from the usual first scale of 65536 that leads to 256
_USUAL = 65536.0  # a scaler that starts higher has to come down to it first


class Scaling:
    """Follows the gradient scalers of the program.

    Parameters
    ----------
    on_bad
        Called with an optimizer and a message when its updates have been skipped too often.
    on_skip
        Called when an update has been skipped.
    rehearsing
        Tells whether the step is a second run, in which the scale must not change.

    Attributes
    ----------
    active
        Whether the loss of the present step was scaled.
    history
        The scales after skipped updates.
    device
        The type of the device that the loss was on.
    """

    def __init__(
        self, on_bad: Callable[[Any, str], None], on_skip: Callable[[], None], rehearsing: Callable[[], bool]
    ) -> None:
        self._on_bad = on_bad
        self._on_skip = on_skip
        self._rehearsing = rehearsing
        self.active = False
        self.history: deque[float] = deque(maxlen=32)
        self.device = "cuda"
        self._plain: Any = WeakIdKeyDictionary()  # from scaled losses to the unscaled ones
        self._optimizer: Any = None
        self._stepped = False
        self._skips = 0  # in a row
        self._in_vain = 0  # of these, the ones at a usual scale

    def start(self, patches: Patches) -> None:
        patches.wrap(torch.amp.GradScaler, "scale", self._scale)
        patches.wrap(torch.amp.GradScaler, "unscale_", self._unscale)
        patches.wrap(torch.amp.GradScaler, "update", self._update)

    def unscaled(self, root: Tensor) -> Tensor:
        """The unscaled loss of a scaled one; any other tensor itself."""
        plain: Tensor = self._plain.get(root, root)
        return plain

    def stepped(self) -> None:
        """An optimizer has been allowed to update."""
        self._stepped = True

    def _scale(self, original: Any, scaler: Any, outputs: Any) -> Any:
        result = original(scaler, outputs)
        if scaler.is_enabled():
            self.active = True
            for scaled, plain in _paired(result, outputs):
                self._plain[scaled] = plain.detach()
                self.device = scaled.device.type
        return result

    def _unscale(self, original: Any, scaler: Any, optimizer: Any) -> Any:
        self._optimizer = optimizer
        return original(scaler, optimizer)

    def _update(self, original: Any, scaler: Any, *args: Any, **kwargs: Any) -> None:
        if not scaler.is_enabled():
            original(scaler, *args, **kwargs)
            return
        if capturing():
            self.active = False
            original(scaler, *args, **kwargs)
            return
        rehearsing = self._rehearsing()
        state = (scaler._scale.clone(), scaler._growth_tracker.clone()) if rehearsing else None
        original(scaler, *args, **kwargs)
        if state is not None:
            scaler._scale.copy_(state[0])
            scaler._growth_tracker.copy_(state[1])
        skipped, self._stepped = not self._stepped, False
        self.active = False
        if not rehearsing:
            self._skips = self._skips + 1 if skipped else 0
            if skipped:
                self.history.append(scaler.get_scale())
                self._in_vain = self._in_vain % MOST_SKIPS + (self.history[-1] < _USUAL)
            else:
                self._in_vain = 0
        is_tiny = bool(self.history) and self.history[-1] < 1
        if skipped and self._optimizer is not None and (self._in_vain >= MOST_SKIPS or is_tiny):
            times = "once" if self._skips == 1 else f"{self._skips} times in a row"
            self._on_bad(
                self._optimizer,
                f"The gradient scaler has skipped the update {times}; its scale is now {self.history[-1]:g}.",
            )
        if skipped:
            self._on_skip()


def _paired(scaled: Any, plain: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """The results of a scaler, one tensor or several, each with its argument."""
    if isinstance(scaled, Tensor):
        yield scaled, plain
    elif isinstance(scaled, (list, tuple)):
        for pair in zip(scaled, plain, strict=True):
            yield from _paired(*pair)
