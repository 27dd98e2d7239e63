"""Discrete Fourier transforms, under the names of ``torch.fft``. Written by ``python -m tools.stubs``; do not edit."""

from collections.abc import Sequence
from typing import Literal, overload

from retrograd.core.annotations import DTypeLike
from retrograd.core.tensor import Tensor
from retrograd.device import device

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

@overload
def fft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def fft(
    input: Tensor,
    n: int | None = None,
    *,
    axis: int,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def fft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = (-2, -1),
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def fft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    *,
    axis: Sequence[int] | int | None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: device | str | int | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def fftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def fftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    *,
    axis: Sequence[int] | int | None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def fftshift(input: Tensor, dim: Sequence[int] | int | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def fftshift(input: Tensor, *, axis: Sequence[int] | int | None, out: Tensor | None = None) -> Tensor: ...
@overload
def hfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def hfft(
    input: Tensor,
    n: int | None = None,
    *,
    axis: int,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def hfft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = (-2, -1),
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def hfft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    *,
    axis: Sequence[int] | int | None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def hfftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def hfftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    *,
    axis: Sequence[int] | int | None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ifft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ifft(
    input: Tensor,
    n: int | None = None,
    *,
    axis: int,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ifft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = (-2, -1),
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ifft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    *,
    axis: Sequence[int] | int | None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ifftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ifftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    *,
    axis: Sequence[int] | int | None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ifftshift(input: Tensor, dim: Sequence[int] | int | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def ifftshift(input: Tensor, *, axis: Sequence[int] | int | None, out: Tensor | None = None) -> Tensor: ...
@overload
def ihfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ihfft(
    input: Tensor,
    n: int | None = None,
    *,
    axis: int,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ihfft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = (-2, -1),
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ihfft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    *,
    axis: Sequence[int] | int | None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ihfftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ihfftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    *,
    axis: Sequence[int] | int | None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def irfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def irfft(
    input: Tensor,
    n: int | None = None,
    *,
    axis: int,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def irfft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = (-2, -1),
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def irfft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    *,
    axis: Sequence[int] | int | None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def irfftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def irfftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    *,
    axis: Sequence[int] | int | None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rfft(
    input: Tensor,
    n: int | None = None,
    *,
    axis: int,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rfft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = (-2, -1),
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rfft2(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    *,
    axis: Sequence[int] | int | None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: device | str | int | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rfftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    dim: Sequence[int] | int | None = None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rfftn(
    input: Tensor,
    s: Sequence[int] | int | None = None,
    *,
    axis: Sequence[int] | int | None,
    norm: Literal["backward", "ortho", "forward"] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
