"""One call of a model, rerun on the spot with every operation recorded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.gradient_checks.extremes import has_elements
from retrograd.anomaly.adapters.torch.records.model_calls import ModelCall
from retrograd.anomaly.adapters.torch.records.recording import Recorder
from retrograd.anomaly.adapters.torch.runtime.compilation import uncompiled
from retrograd.anomaly.adapters.torch.runtime.modes import autocast_as, unseen
from retrograd.anomaly.adapters.torch.second_run.snapshot import left_as_they_are
from retrograd.anomaly.layer_detector.nested_tensors import tensors_in


class Given(ModelCall):
    """One call of a model: the arguments by reference, and the modes and random state at that time."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__(args, kwargs)
        self._gradients = torch.is_grad_enabled()
        self._inference = torch.is_inference_mode_enabled()
        self._versions = [(tensor, version(tensor)) for tensor in tensors_in((args, kwargs), has_elements)]

    @property
    def can_be_run_again(self) -> bool:
        """Whether the arguments are unchanged, and none has state that its use would change."""
        unchanged = all(version(tensor) == before for tensor, before in self._versions)
        return unchanged and self.is_plain

    def run(self, model: torch.nn.Module, recorder: Recorder) -> bool:
        """Repeat the call, and return whether it completed. Buffers and random state are restored afterwards."""
        with left_as_they_are([model]):
            self.random.restore()
            inference = torch.inference_mode() if self._inference else torch.set_grad_enabled(self._gradients)
            try:
                with inference, unseen(), autocast_as(self.autocast), uncompiled(), recorder:
                    model(*self.args, **self.kwargs)
            except Exception:
                return False
        return True


def version(tensor: Tensor) -> int:
    """How often a tensor has been written to; inference tensors have no count."""
    return 0 if tensor.is_inference() else tensor._version
