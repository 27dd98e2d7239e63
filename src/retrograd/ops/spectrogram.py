"""The short-time Fourier transform and its inverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core.registry import composite
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor, wrap
from retrograd.ops._rules import everywhere
from retrograd.ops.complex import view_as_real
from retrograd.ops.fft import fft, ifft, irfft, rfft
from retrograd.ops.rearranging import pad
from retrograd.ops.windows import fold_windows, unfold

if TYPE_CHECKING:
    from retrograd.core.annotations import Truth


def _checked_window(name: str, window: Any, n_fft: int, win_length: int | None) -> tuple[Any, int]:
    """The window, with zeros around it to the length of a frame (None if there is none), and its own length."""
    length = n_fft if win_length is None else win_length
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={length} and n_fft={n_fft}")
    if window is None:
        warn_user(
            f"{name}: without a window the frames are cut off sharply, which spreads their spectra; pass "
            f"window=retrograd.hann_window({length}), or window=retrograd.ones({length}) for none"
        )
        window = None if length == n_fft else wrap(np.ones(length, np.float32))
    elif window.ndim != 1 or window.shape[0] != length:
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={length}, "
            f"but got window with size {list(window.shape)}"
        )
    if length == n_fft:
        return window, length
    before = (n_fft - length) // 2
    return pad(window, (before, n_fft - length - before)), length


def _is_onesided(onesided: bool | None, default: bool, is_complex: bool) -> bool:
    if onesided is None:
        return default
    if onesided and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    return onesided


@composite()
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: Truth = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Return the Fourier transforms of the frames of a signal: the short-time Fourier transform.

    Shapes: ``(T,)`` or ``(B, T)`` gives ``(F, N)`` or ``(B, F, N)``, for N frames with F frequencies each, which are
    ``n_fft // 2 + 1`` if ``onesided`` and ``n_fft`` otherwise.

    Parameters
    ----------
    n_fft
        The length of a frame.
    hop_length
        The distance of frames; ``n_fft // 4`` by default.
    win_length
        The length of the window, ``n_fft`` by default. A shorter one is in the middle of the frame.
    window
        The factors of every frame, such as :func:`retrograd.hann_window`.
    center
        Whether frame k is around position ``k * hop_length``, for which the signal is padded at both ends as
        ``pad_mode`` says; otherwise it begins there.
    normalized
        Whether to divide by ``sqrt(n_fft)``.
    onesided
        Whether to leave out the frequencies that mirror others: by default for a real signal and window.
    return_complex
        Whether the result is complex; otherwise real and imaginary parts are in one more dimension. A real signal
        needs it said.
    align_to_window
        Whether the first window, where it is shorter than the frame, begins with the signal and the last one ends
        within it, beyond which frames are filled up with zeros; only for ``center=False``, where it is False by
        default.

    Raises
    ------
    RuntimeError
        If a length or a shape does not fit, ``return_complex`` is not given for a real signal, or ``align_to_window``
        is given together with ``center``.

    Examples
    --------
    >>> x = rg.sin(rg.arange(64) * 0.5)
    >>> rg.stft(x, 16, window=rg.hann_window(16), return_complex=True).shape
    retrograd.Size([9, 17])
    """
    if input.dtype.kind not in "fc":
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, but got {input.dtype}")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, but got shape {list(input.shape)}")
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not is_complex:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs: return_complex=True for a complex "
            "result, return_complex=False for real and imaginary parts in a dimension of their own"
        )
    signal = input if input.ndim == 2 else input.reshape((1, -1))
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if center:
        signal = pad(signal, (n_fft // 2, n_fft // 2), pad_mode)
    elif align_to_window:
        beyond = n_fft - (n_fft if win_length is None else win_length)
        signal = pad(signal, (beyond // 2, beyond - beyond // 2))
    hop = n_fft // 4 if hop_length is None else hop_length
    if not 0 < n_fft <= signal.shape[-1]:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {signal.shape[-1]}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    frame_window, _ = _checked_window("stft", window, n_fft, win_length)
    frames = unfold(signal, -1, n_fft, hop)
    if frame_window is not None:
        frames = frames * frame_window
    transform = rfft if _is_onesided(onesided, not is_complex, is_complex) else fft
    spectra = transform(frames, None, -1, "ortho" if normalized else None).mT
    spectra = spectra if input.ndim == 2 else spectra[0]
    return view_as_real(spectra) if return_complex is False else spectra


def _check_spectra(
    input: Tensor, n_fft: int, window: Any, onesided: bool | None, length: int | None, return_complex: bool
) -> None:
    """Raise unless ``input`` can be what :func:`stft` returned."""
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if input.ndim not in (2, 3) or input.numel() == 0:
        raise RuntimeError(f"istft: expected a non-empty tensor with 2 or 3 dimensions, but got {list(input.shape)}")
    frequencies = input.shape[-2]
    is_complex = return_complex or (window is not None and window.is_complex())
    half = _is_onesided(onesided, frequencies != n_fft, is_complex)
    expected = n_fft // 2 + 1 if half else n_fft
    if frequencies != expected:
        raise RuntimeError(
            f"istft: expected the frequency dimension to match {'n_fft / 2 + 1' if half else 'n_fft'} = {expected} "
            f"when onesided={half}, but got {frequencies}"
        )
    if return_complex and half:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if is_complex and not return_complex:
        raise RuntimeError("istft: a complex window needs return_complex=True")
    if length is not None and length <= 0:
        raise RuntimeError(f"istft: expected length > 0, but got length={length}")


@composite()
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Return the signal whose short-time Fourier transform is nearest to ``input``: the inverse of :func:`stft`.

    The parameters are those of :func:`stft`, and should be the same. After D. Griffin and J. Lim, "Signal estimation
    from modified short-time Fourier transform" (1984): the frames are multiplied by the window, added where they were,
    and divided by the sum of the squared windows there.

    Parameters
    ----------
    length
        The length of the signal, for one that does not end with a frame.
    return_complex
        Whether the signal is complex.

    Raises
    ------
    RuntimeError
        If a shape does not fit, or the windows leave a gap.
    """
    _check_spectra(input, n_fft, window, onesided, length, return_complex)
    spectra = input if input.ndim == 3 else input[None]
    count = spectra.shape[2]
    hop = n_fft // 4 if hop_length is None else hop_length
    frame_window, own_length = _checked_window("istft", window, n_fft, win_length)
    if not 0 < hop <= own_length:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, but got {hop} and {own_length}")

    norm = "ortho" if normalized else None
    frames = spectra.mT
    # of the full spectrum of a real signal, too, only the first half is used
    frames = ifft(frames, n_fft, -1, norm) if return_complex else irfft(frames[..., : n_fft // 2 + 1], n_fft, -1, norm)
    if frame_window is None:
        frame_window = wrap(np.ones(n_fft, frames.dtype.numpy))
    total = n_fft + hop * (count - 1)
    added = fold_windows(frames * frame_window, (len(spectra), total), 1, n_fft, hop)
    square = (frame_window * frame_window).expand((1, count, n_fft))
    weight = fold_windows(square, (1, total), 1, n_fft, hop)

    start = n_fft // 2 if center else 0
    stop = total - (n_fft // 2 if center else 0) if length is None else start + length
    added, weight = added[:, start:stop], weight[:, start:stop]
    if not everywhere(weight.detach().abs() >= 1e-11):
        raise RuntimeError(
            "istft: window overlap add min: 0; where all windows are zero, the signal is lost: use a smaller "
            "hop_length, another window, or center=True"
        )
    signal = added / weight
    if stop > total:
        warn_user(f"istft: the frames end {stop - total} before the requested length; the rest is zero")
        signal = pad(signal, (0, stop - total))
    return signal if input.ndim == 3 else signal[0]


__all__ = ["istft", "stft"]
