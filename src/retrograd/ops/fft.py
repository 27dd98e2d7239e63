"""torch.fft: discrete Fourier transforms.

A transform is linear, so its derivative is its adjoint: the inverse transform, with the normalisation moved to the
other side. A half spectrum represents a whole one in which all but the first entry (and, for an even length, the last)
occur twice, as a number and its conjugate; :func:`mirrored` accounts for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from retrograd.core.layout import row_major
from retrograd.core.op import kernel, linear, without_warnings
from retrograd.core.registry import composite
from retrograd.core.tensor import Tensor, wrap
from retrograd.device import array_module, as_device
from retrograd.dtypes import as_dtype, default_float
from retrograd.ops import _fourier as fourier
from retrograd.ops._rules import normalize_dim

transform: Any = without_warnings(linear)

Lengths = Sequence[int] | int | None
Dims = Sequence[int] | int | None
Norm = Literal["backward", "ortho", "forward"] | None

# The normalisation of the adjoint transform.
ADJOINT: dict[Norm, Norm] = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


# --- what all transforms share ----------------------------------------------------------------------------------------


@kernel(public=False, method=False, input=lambda g, input_shape: resized(g, input_shape))
def resized(input, shape):
    """Crop every dimension, or pad it with zeros, at its end. It is its own adjoint."""
    if input.shape == shape:
        return input
    common = tuple(slice(min(n, m)) for n, m in zip(input.shape, shape, strict=True))
    result = np.zeros_like(input, shape=shape)
    result[common] = input[common]
    return result


@kernel(public=False, method=False, spectrum=lambda g, n, dim, factor: mirrored(g, n, dim, factor))
def mirrored(spectrum, n, dim, factor):
    """Scale the entries of the half spectrum of ``n`` real numbers that represent two. It is its own adjoint."""
    result = spectrum * factor
    step = n // 2 if n % 2 == 0 else n  # the others are the first and, for an even length, the last
    np.moveaxis(result, dim, 0)[::step] = np.moveaxis(spectrum, dim, 0)[::step]
    return result


def _numbers(name: str, input: Any, norm: Norm, *, real: bool = False) -> Any:
    """The input in a dtype that can be transformed; integers become the default float."""
    if not isinstance(norm, str | None) or norm not in ADJOINT:
        raise RuntimeError(f'{name}: Invalid normalization mode: "{norm}"; it must be "forward", "backward" or "ortho"')
    kind = input.dtype.kind
    if real and kind == "c":
        raise RuntimeError(f"{name} expects a real input tensor, but got {input.dtype}")
    if input.dtype == np.float16:
        raise RuntimeError(
            f"{name}: Unsupported dtype float16; convert it first, for example with .to(retrograd.float32)"
        )
    return input if kind in "fc" else input.astype(default_float())


def _length(name: str, n: int) -> int:
    if n < 1:
        raise RuntimeError(f"{name}: Invalid number of data points ({n}) specified")
    return n


def _line(name: str, input: Any, n: int | None, dim: int, half: bool = False) -> int:
    """How many numbers a transform along ``dim`` works on; ``half`` says that the input is a half spectrum."""
    if input.ndim == 0:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    m = input.shape[normalize_dim(dim, input.ndim)]
    return _length(name, n if n is not None else 2 * (m - 1) if half else m)


def _listed(value: Sequence[int] | int) -> list[int]:
    return [value] if isinstance(value, (int, np.integer)) else list(value)


def _axes(ndim: int, s: Lengths, dim: Dims) -> tuple[int, ...]:
    """The dimensions to transform: all, or the last ones if only lengths are given."""
    if dim is not None:
        return tuple(normalize_dim(each, ndim) for each in _listed(dim))
    return tuple(range(0 if s is None else ndim - len(_listed(s)), ndim))


def _lengths(own: list[int], s: Lengths) -> list[int]:
    """The lengths to crop or pad to, where -1 means the dimension's own."""
    return own if s is None else [n if given == -1 else given for n, given in zip(own, _listed(s), strict=True)]


def _grid(
    name: str, input: Any, s: Lengths, dim: Dims, *, half: bool = False, some: bool = False
) -> tuple[list[int], tuple[int, ...]]:
    """Lengths and dimensions of a transform along several dimensions, or along ``some`` at least."""
    given = 0 if s is None else len(_listed(s))
    if s is not None and dim is not None and given != len(_listed(dim)):
        raise RuntimeError(f"{name}: When given, dim and shape arguments must have the same length")
    if given > input.ndim:
        raise RuntimeError(f"{name}: Got shape with {given} values but input tensor only has {input.ndim} dimensions.")
    axes = _axes(input.ndim, s, dim)
    if len(set(axes)) < len(axes):
        raise RuntimeError(f"{name}: FFT dims must be unique, but got {dim}")
    if some and not axes:
        raise RuntimeError(f"{name} must transform at least one axis")
    own = [input.shape[axis] for axis in axes]
    if half:
        own[-1] = 2 * (own[-1] - 1)
    return [_length(name, n) for n in _lengths(own, s)], axes


# --- along one dimension ----------------------------------------------------------------------------------------------


@transform(
    namespace="fft",
    method=False,
    node_name="FftC2CBackward0",
    input=lambda g, input_shape, dim, norm: resized(fourier.ifft(g, axis=dim, norm=ADJOINT[norm]), input_shape),
)
def fft(input, n: int | None = None, dim: int = -1, norm: Norm = None):
    """Return the discrete Fourier transform along ``dim``, cropped or padded with zeros to length ``n`` first.

    ``norm`` says which direction is divided by ``n``: ``"backward"`` (the default) the inverse, ``"forward"`` this one,
    ``"ortho"`` both by its square root.
    """
    input = _numbers("fft", input, norm)
    return row_major(fourier.fft(input, _line("fft", input, n, dim), dim, norm))


@transform(
    namespace="fft",
    method=False,
    node_name="FftC2CBackward0",
    input=lambda g, input_shape, dim, norm: resized(fourier.fft(g, axis=dim, norm=ADJOINT[norm]), input_shape),
)
def ifft(input, n: int | None = None, dim: int = -1, norm: Norm = None):
    """Return the inverse discrete Fourier transform along ``dim``; see :func:`fft`."""
    input = _numbers("ifft", input, norm)
    return row_major(fourier.ifft(input, _line("ifft", input, n, dim), dim, norm))


def rfft_derivative(g: Any, input_shape: tuple[int, ...], n: int | None, dim: int, norm: Norm) -> Any:
    n = input_shape[dim] if n is None else n
    return resized(fourier.irfft(mirrored(g, n, dim, 0.5), n, axis=dim, norm=ADJOINT[norm]), input_shape)


@transform(namespace="fft", method=False, node_name="FftR2CBackward0", input=rfft_derivative)
def rfft(input, n: int | None = None, dim: int = -1, norm: Norm = None):
    """Return the first ``n // 2 + 1`` entries of the Fourier transform of a real tensor; the others mirror them."""
    input = _numbers("rfft", input, norm, real=True)
    return row_major(fourier.rfft(input, _line("rfft", input, n, dim), dim, norm))


def irfft_derivative(g: Any, input_shape: tuple[int, ...], dim: int, norm: Norm) -> Any:
    return resized(mirrored(fourier.rfft(g, axis=dim, norm=ADJOINT[norm]), g.shape[dim], dim, 2), input_shape)


@transform(namespace="fft", method=False, node_name="FftC2RBackward0", input=irfft_derivative)
def irfft(input, n: int | None = None, dim: int = -1, norm: Norm = None):
    """Return the ``n`` real numbers of which the input is the half spectrum; an even ``n`` is assumed."""
    input = _numbers("irfft", input, norm)
    return row_major(fourier.irfft(input, _line("irfft", input, n, dim, half=True), dim, norm))


def hfft_derivative(g: Any, input_shape: tuple[int, ...], dim: int, norm: Norm) -> Any:
    return resized(mirrored(fourier.ihfft(g, axis=dim, norm=ADJOINT[norm]), g.shape[dim], dim, 2), input_shape)


@transform(namespace="fft", method=False, node_name="FftC2RBackward0", input=hfft_derivative)
def hfft(input, n: int | None = None, dim: int = -1, norm: Norm = None):
    """Return the ``n`` real entries of the spectrum of a signal that mirrors itself, of which the input is one half."""
    input = _numbers("hfft", input, norm)
    return row_major(fourier.hfft(input, _line("hfft", input, n, dim, half=True), dim, norm))


def ihfft_derivative(g: Any, input_shape: tuple[int, ...], n: int | None, dim: int, norm: Norm) -> Any:
    n = input_shape[dim] if n is None else n
    return resized(fourier.hfft(mirrored(g, n, dim, 0.5), n, axis=dim, norm=ADJOINT[norm]), input_shape)


@transform(namespace="fft", method=False, node_name="FftR2CBackward0", input=ihfft_derivative)
def ihfft(input, n: int | None = None, dim: int = -1, norm: Norm = None):
    """Return one half of the signal with the real spectrum ``input``: the inverse of :func:`hfft`."""
    input = _numbers("ihfft", input, norm, real=True)
    return row_major(fourier.ihfft(input, _line("ihfft", input, n, dim), dim, norm))


# --- along several dimensions -----------------------------------------------------------------------------------------


def fftn_derivative(g: Any, input_shape: tuple[int, ...], s: Lengths, dim: Dims, norm: Norm) -> Any:
    return resized(fourier.ifftn(g, axes=_axes(len(input_shape), s, dim), norm=ADJOINT[norm]), input_shape)


@transform(namespace="fft", method=False, node_name="FftC2CBackward0", input=fftn_derivative)
def fftn(input, s: Lengths = None, dim: Dims = None, norm: Norm = None):
    """Return the Fourier transform along all dimensions in ``dim``, cropped or padded to the lengths ``s`` first."""
    input = _numbers("fftn", input, norm)
    lengths, axes = _grid("fftn", input, s, dim)
    return row_major(fourier.fftn(input, lengths, axes, norm) if axes else input + 0j)


def ifftn_derivative(g: Any, input_shape: tuple[int, ...], s: Lengths, dim: Dims, norm: Norm) -> Any:
    return resized(fourier.fftn(g, axes=_axes(len(input_shape), s, dim), norm=ADJOINT[norm]), input_shape)


@transform(namespace="fft", method=False, node_name="FftC2CBackward0", input=ifftn_derivative)
def ifftn(input, s: Lengths = None, dim: Dims = None, norm: Norm = None):
    """Return the inverse Fourier transform along all dimensions in ``dim``; see :func:`fftn`."""
    input = _numbers("ifftn", input, norm)
    lengths, axes = _grid("ifftn", input, s, dim)
    return row_major(fourier.ifftn(input, lengths, axes, norm) if axes else input + 0j)


def rfftn_derivative(g: Any, input_shape: tuple[int, ...], s: Lengths, dim: Dims, norm: Norm) -> Any:
    axes = _axes(len(input_shape), s, dim)
    lengths = _lengths([input_shape[axis] for axis in axes], s)
    half = mirrored(g, lengths[-1], axes[-1], 0.5)
    return resized(fourier.irfftn(half, lengths, axes, ADJOINT[norm]), input_shape)


@transform(namespace="fft", method=False, node_name="FftR2CBackward0", input=rfftn_derivative)
def rfftn(input, s: Lengths = None, dim: Dims = None, norm: Norm = None):
    """Return the Fourier transform of a real tensor, only the first half of it along the last of the dimensions."""
    input = _numbers("rfftn", input, norm, real=True)
    lengths, axes = _grid("rfftn", input, s, dim, some=True)
    return row_major(fourier.rfftn(input, lengths, axes, norm))


def irfftn_derivative(g: Any, input_shape: tuple[int, ...], s: Lengths, dim: Dims, norm: Norm) -> Any:
    axes = _axes(len(input_shape), s, dim)
    half = fourier.rfftn(g, axes=axes, norm=ADJOINT[norm])
    return resized(mirrored(half, g.shape[axes[-1]], axes[-1], 2), input_shape)


@transform(namespace="fft", method=False, node_name="FftC2RBackward0", input=irfftn_derivative)
def irfftn(input, s: Lengths = None, dim: Dims = None, norm: Norm = None):
    """Return the real tensor whose half spectrum, as of :func:`rfftn`, the input is."""
    input = _numbers("irfftn", input, norm)
    lengths, axes = _grid("irfftn", input, s, dim, half=True, some=True)
    return row_major(fourier.irfftn(input, lengths, axes, norm))


def hfftn_derivative(g: Any, input_shape: tuple[int, ...], s: Lengths, dim: Dims, norm: Norm) -> Any:
    axes = _axes(len(input_shape), s, dim)
    half = np.conj(fourier.rfftn(g, axes=axes, norm=norm))
    return resized(mirrored(half, g.shape[axes[-1]], axes[-1], 2), input_shape)


@transform(namespace="fft", method=False, node_name="FftC2RBackward0", input=hfftn_derivative)
def hfftn(input, s: Lengths = None, dim: Dims = None, norm: Norm = None):
    """Return the real spectrum of a signal that mirrors itself; the input is one half of it in the last dimension."""
    input = _numbers("hfftn", input, norm)
    lengths, axes = _grid("hfftn", input, s, dim, half=True, some=True)
    return row_major(fourier.irfftn(np.conj(input), lengths, axes, ADJOINT[norm]))


def ihfftn_derivative(g: Any, input_shape: tuple[int, ...], s: Lengths, dim: Dims, norm: Norm) -> Any:
    axes = _axes(len(input_shape), s, dim)
    lengths = _lengths([input_shape[axis] for axis in axes], s)
    half = np.conj(mirrored(g, lengths[-1], axes[-1], 0.5))
    return resized(fourier.irfftn(half, lengths, axes, norm), input_shape)


@transform(namespace="fft", method=False, node_name="FftC2CBackward0", input=ihfftn_derivative)
def ihfftn(input, s: Lengths = None, dim: Dims = None, norm: Norm = None):
    """Return one half, in the last dimension, of the signal with the real spectrum ``input``."""
    input = _numbers("ihfftn", input, norm, real=True)
    lengths, axes = _grid("ihfftn", input, s, dim, some=True)
    return row_major(np.conj(fourier.rfftn(input, lengths, axes, ADJOINT[norm])))


# --- along two dimensions ---------------------------------------------------------------------------------------------


def _planar(name: str, transform: Callable[..., Any]) -> Callable[..., Any]:
    """The transform along the last two dimensions, unless others are given."""

    def planar(input: Tensor, s: Lengths = None, dim: Dims = (-2, -1), norm: Norm = None) -> Tensor:
        return transform(input, s, dim, norm)

    planar.__name__ = planar.__qualname__ = name
    planar.__doc__ = f"Return :func:`{transform.__name__}` along the last two dimensions, or along those in ``dim``."
    return composite(name=f"fft.{name}", method=False, out=True)(planar)


fft2 = _planar("fft2", fftn)
ifft2 = _planar("ifft2", ifftn)
rfft2 = _planar("rfft2", rfftn)
irfft2 = _planar("irfft2", irfftn)
hfft2 = _planar("hfft2", hfftn)
ihfft2 = _planar("ihfft2", ihfftn)


# --- frequencies ------------------------------------------------------------------------------------------------------


@linear(namespace="fft", method=False, input=lambda g, dim: np.fft.ifftshift(g, axes=dim))
def fftshift(input, dim: Dims = None):
    """Return the tensor rolled along ``dim`` (all dimensions by default) so that frequency 0 is in the middle."""
    return row_major(np.fft.fftshift(input, axes=_axes(input.ndim, None, dim)))


@linear(namespace="fft", method=False, input=lambda g, dim: np.fft.fftshift(g, axes=dim))
def ifftshift(input, dim: Dims = None):
    """Undo :func:`fftshift`."""
    return row_major(np.fft.ifftshift(input, axes=_axes(input.ndim, None, dim)))


def _frequencies(name: str, k: np.ndarray, step: float, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    kind = default_float() if dtype is None else as_dtype(dtype).numpy
    if kind.kind not in "fc":
        raise RuntimeError(f"{name} requires a floating point or complex dtype, but got {as_dtype(dtype)}")
    xp = array_module(as_device(device))
    return wrap(xp.asarray(k / step, dtype=kind)).requires_grad_(requires_grad)


def _count(name: str, n: Any) -> int:
    if not isinstance(n, int):
        raise TypeError(f"{name}(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    if n < 0:
        raise RuntimeError(f"{name}: Trying to create tensor with negative dimension {n}: [{n}]")
    return n


@composite(name="fft.fftfreq", method=False, out=True)
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return the frequencies of :func:`fft` for ``n`` samples at distance ``d``.

    >>> rg.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    k = np.arange(_count("fftfreq", n))
    return _frequencies("fftfreq", np.where(k < (n + 1) // 2, k, k - n), n * d, dtype, device, requires_grad)


@composite(name="fft.rfftfreq", method=False, out=True)
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return the frequencies of :func:`rfft` for ``n`` samples at distance ``d``."""
    k = np.arange(_count("rfftfreq", n) // 2 + 1)
    return _frequencies("rfftfreq", k, n * d, dtype, device, requires_grad)
