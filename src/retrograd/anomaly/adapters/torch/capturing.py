"""Whether a CUDA graph is being captured: then nothing can be read, and all that is launched becomes a part of it."""

from __future__ import annotations

import torch


def capturing() -> bool:
    """Whether the current stream is being captured. To wait for the device then would destroy the capture."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
