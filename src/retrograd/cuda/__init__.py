"""Questions about the GPUs that CuPy sees. Without CuPy or a GPU, questions have an answer and orders raise."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from retrograd import random
from retrograd.core.tensor import Tensor
from retrograd.core.tensor_types import CUDA_TYPES
from retrograd.cuda import amp
from retrograd.device import array_module, as_device, cuda_is_available, device_count
from retrograd.device import device as _device
from retrograd.missing_names import missing

__all__ = [
    "OutOfMemoryError",
    "amp",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_rng_state",
    "get_rng_state_all",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "synchronize",
]

Device = _device | str | int | None

is_available = cuda_is_available

# what NumPy and CuPy raise, the latter an exception of its own that is derived from it
OutOfMemoryError = MemoryError


def __getattr__(name: str) -> Any:
    if name in CUDA_TYPES:
        return CUDA_TYPES[name]
    if name == "_initialized":  # what programs with reversible layers ask before they keep the state of the generator
        return is_initialized()
    raise missing("retrograd.cuda", name)


def _on(device: Device) -> Any:
    """CuPy's object for a device; by default the current one."""
    wanted = _device("cuda") if device is None else as_device(device)
    if wanted.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {wanted}")
    cupy: Any = array_module(wanted)
    return cupy.cuda.Device(wanted.index)


def current_device() -> int:
    """Return the number of the GPU that ``device="cuda"`` means."""
    return int(_on(None).id)


def set_device(device: Device) -> None:
    """Set the GPU that ``device="cuda"`` means in this thread."""
    _on(device).use()


@contextlib.contextmanager
def device(device: Device) -> Iterator[None]:
    """Let ``device="cuda"`` mean another GPU inside of a ``with`` block."""
    with _on(device):
        yield


def get_device_name(device: Device = None) -> str:
    """Return what a GPU is called."""
    on = _on(device)
    name = array_module(_device("cuda")).cuda.runtime.getDeviceProperties(on.id)["name"]
    return name.decode() if isinstance(name, bytes) else name


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """Return the major and minor number of a GPU's compute capability."""
    digits = _on(device).compute_capability
    return int(digits[:-1]), int(digits[-1])


def synchronize(device: Device = None) -> None:
    """Wait until a GPU has done all its work."""
    _on(device).synchronize()


def is_initialized() -> bool:
    """Whether a GPU can be used."""
    return cuda_is_available()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there are tensors of bfloat16: no."""
    return False


# --- chance -----------------------------------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Do nothing: numbers for GPUs come from the generator that :func:`retrograd.manual_seed` seeds."""


def manual_seed_all(seed: int) -> None:
    """Do nothing: numbers for GPUs come from the generator that :func:`retrograd.manual_seed` seeds."""


def seed() -> None:
    """Do nothing: numbers for GPUs come from the generator that :func:`retrograd.seed` seeds."""


def seed_all() -> None:
    """Do nothing: numbers for GPUs come from the generator that :func:`retrograd.seed` seeds."""


def get_rng_state(device: Device = None) -> Tensor:
    """Return the state of the generator, which numbers for GPUs come from, too."""
    return random.get_rng_state()


def get_rng_state_all() -> list[Tensor]:
    """Return the state of the generator once for every GPU."""
    return [random.get_rng_state()] * device_count()


def set_rng_state(new_state: Tensor, device: Device = None) -> None:
    """Set the state of the generator, which numbers for GPUs come from, too."""
    random.set_rng_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the state of the generator to what :func:`get_rng_state_all` returned."""
    for state in new_states:
        random.set_rng_state(state)


# --- memory -----------------------------------------------------------------------------------------------------------


def _ask_pool(question: str, device: Device) -> int:
    """What CuPy's pool of memory says about a device; 0 without GPUs."""
    if not cuda_is_available():
        return 0
    with _on(device):
        cupy: Any = array_module(_device("cuda"))
        return getattr(cupy.get_default_memory_pool(), question)()


def empty_cache() -> None:
    """Give memory that is not in use back to the GPU."""
    _ask_pool("free_all_blocks", None)


def memory_allocated(device: Device = None) -> int:
    """Return how many bytes the arrays on a GPU take; 0 without GPUs."""
    return _ask_pool("used_bytes", device)


def memory_reserved(device: Device = None) -> int:
    """Return how many bytes of a GPU are taken or kept for later; 0 without GPUs."""
    return _ask_pool("total_bytes", device)


def max_memory_allocated(device: Device = None) -> int:
    """Return an upper bound of what the arrays on a GPU took at any time since :func:`empty_cache`."""
    return memory_reserved(device)


def max_memory_reserved(device: Device = None) -> int:
    """Return how many bytes were taken or kept for later since :func:`empty_cache`."""
    return memory_reserved(device)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Do nothing: CuPy keeps no peaks."""
