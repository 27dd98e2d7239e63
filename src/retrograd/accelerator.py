"""The device that computes faster than the CPU, as in ``torch.accelerator``: the GPU that CuPy sees, or none."""

from __future__ import annotations

from retrograd.cuda import current_device as current_device_index
from retrograd.cuda import empty_cache, set_device
from retrograd.cuda import synchronize as _synchronize
from retrograd.device import cuda_is_available, device, device_count

__all__ = [
    "current_accelerator",
    "current_device_index",
    "device_count",
    "empty_cache",
    "is_available",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is a GPU."""
    return cuda_is_available()


def current_accelerator(check_available: bool = False) -> device | None:
    """Return the device ``"cuda"``, or None without a GPU.

    Examples
    --------
    >>> accelerator = rg.accelerator.current_accelerator()
    >>> name = accelerator.type if rg.accelerator.is_available() else "cpu"
    >>> name in ("cuda", "cpu")
    True
    """
    return device("cuda") if cuda_is_available() else None


def set_device_index(device: device | str | int | None) -> None:
    """Set the GPU that ``device="cuda"`` means in this thread; do nothing without GPUs."""
    if cuda_is_available():
        set_device(device)


def synchronize(device: device | str | int | None = None) -> None:
    """Wait until a GPU has done all its work; do nothing without GPUs."""
    if cuda_is_available():
        _synchronize(device)
