"""The switches of cuBLAS, of which CuPy has its own, and of the kernels for attention, of which there is one here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace

__all__ = [
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "sdp_kernel",
]

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
)
_kernels = {"cudnn": True, "flash": True, "math": True, "mem_efficient": True}


def is_built() -> bool:
    """Whether GPUs are supported: yes, through CuPy."""
    return True


def enable_cudnn_sdp(enabled: bool) -> None:
    """Take note of a wish."""
    _kernels["cudnn"] = bool(enabled)


def enable_flash_sdp(enabled: bool) -> None:
    """Take note of a wish."""
    _kernels["flash"] = bool(enabled)


def enable_math_sdp(enabled: bool) -> None:
    """Take note of a wish."""
    _kernels["math"] = bool(enabled)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Take note of a wish."""
    _kernels["mem_efficient"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """Return what :func:`enable_cudnn_sdp` was told."""
    return _kernels["cudnn"]


def flash_sdp_enabled() -> bool:
    """Return what :func:`enable_flash_sdp` was told."""
    return _kernels["flash"]


def math_sdp_enabled() -> bool:
    """Return what :func:`enable_math_sdp` was told."""
    return _kernels["math"]


def mem_efficient_sdp_enabled() -> bool:
    """Return what :func:`enable_mem_efficient_sdp` was told."""
    return _kernels["mem_efficient"]


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """Take note of wishes inside of a ``with`` block; newer programs use ``nn.attention.sdpa_kernel``."""
    before = dict(_kernels)
    _kernels.update(cudnn=enable_cudnn, flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient)
    try:
        yield
    finally:
        _kernels.update(before)
