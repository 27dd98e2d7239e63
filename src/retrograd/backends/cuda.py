"""The switches of cuBLAS; CuPy has its own."""

from __future__ import annotations

from types import SimpleNamespace

__all__ = ["is_built", "matmul"]

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
)


def is_built() -> bool:
    """Whether GPUs are supported: yes, through CuPy."""
    return True
