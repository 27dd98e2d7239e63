"""The progress of the training, for the context of an event."""

from __future__ import annotations

from typing import Any

from retrograd.anomaly.monitor import Watch


def progress(watch: Watch) -> dict[str, Any]:
    """The watch's own records of the steps so far."""
    losses, norms = watch.histories()
    context: dict[str, Any] = {"loss_history": losses, "grad_norm_history": norms}
    return context if watch.update_ratio is None else context | {"update_ratio": watch.update_ratio}
