"""Older names of :func:`retrograd.nn.functional.interpolate`."""

from __future__ import annotations

from collections.abc import Sequence

from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.ops.interpolate import interpolate

__all__ = ["upsample", "upsample_bilinear", "upsample_nearest"]


def _warn(name: str) -> None:
    warn_user(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.")


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Do as :func:`interpolate`, with a warning to use that."""
    _warn("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """Do as :func:`interpolate` with ``mode="nearest"``, with a warning to use that."""
    _warn("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """Do as :func:`interpolate` with ``mode="bilinear", align_corners=True``, with a warning to use that."""
    _warn("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
