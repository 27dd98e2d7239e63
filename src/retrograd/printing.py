"""Text of a tensor, character for character as torch prints it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["format_tensor", "get_printoptions", "printoptions", "set_printoptions"]


class _Options:
    def __init__(self) -> None:
        self.precision = 4
        self.threshold: float = 1000
        self.edgeitems = 3
        self.linewidth = 80
        self.sci_mode: bool | None = None


_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}

_options = _Options()

_ELLIPSIS = " ..."


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed.

    As in torch, an option left at ``None`` keeps its value, except `sci_mode`, which every call sets: leaving it out
    returns to the automatic choice. An unknown `profile` changes nothing.

    Parameters
    ----------
    precision
        Digits after the decimal point (default 4).
    threshold
        Number of elements above which a tensor is summarised (default 1000).
    edgeitems
        Elements shown at each end of a summarised dimension (default 3).
    linewidth
        Characters in a line before it is broken (default 80).
    profile
        A set of values, which the other options override: ``"default"``, ``"short"`` or ``"full"``.
    sci_mode
        Scientific notation always (True), never (False), or by the range of the values (None).
    """
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    chosen = _PROFILES.get(profile, {}) if profile is not None else {}
    for name, value in {**chosen, **{k: v for k, v in given.items() if v is not None}}.items():
        setattr(_options, name, value)
    _options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """Return the printing options as a dict, which ``set_printoptions`` takes back as keywords."""
    return vars(_options).copy()


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Set printing options for the body of a ``with`` statement; takes what ``set_printoptions`` takes."""
    saved = get_printoptions()
    try:
        set_printoptions(**kwargs)
        yield
    finally:
        set_printoptions(**saved)


def format_tensor(
    data: np.ndarray,
    *,
    default_float: np.dtype,
    default_complex: np.dtype,
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    tangent: str | None = None,
    device: str | None = None,
    dtype_prefix: str = "retrograd.",
    kind: str = "tensor",
) -> str:
    """Return the text torch gives as ``repr`` of a tensor holding `data`.

    Parameters
    ----------
    data
        The values, of any shape and strides.
    default_float, default_complex
        The dtypes that need not be named, besides int64 and bool.
    requires_grad
        Print ``requires_grad=True``, where there is no `grad_fn_name`.
    grad_fn_name
        Name of the node that made the tensor, as in ``grad_fn=<MulBackward0>``.
    tangent
        The text of the tangent of a dual tensor.
    device
        Name of the device, printed when given.
    dtype_prefix
        What stands before the name of a dtype.
    kind
        What stands before the parenthesis.
    """
    prefix = f"{kind}("
    suffixes = []
    if device is not None:
        suffixes.append(f"device='{device}'")
    if data.size == 0:
        body = "[]"
        # "[]" tells the shape (0,) and the default dtype; with no element to see, even int64 and bool are spelt out.
        show_size, implied = data.ndim != 1, {np.dtype(default_float)}
    else:
        body = _format_values(data, len(prefix))
        show_size = _options.edgeitems == 0
        implied = {np.dtype(t) for t in (default_float, default_complex, np.int64, np.bool_)}
    if show_size:
        suffixes.append(f"size={data.shape}")
    if data.dtype not in implied:
        suffixes.append(f"dtype={dtype_prefix}{data.dtype.name}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    return _append_suffixes(prefix + body, suffixes, len(prefix))


def _append_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """Join `suffixes` to `text`, each on a new line where it would not fit, and close the parenthesis."""
    # Two more than the length of the last line: torch counts them, so its lines break that much earlier.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


def _format_values(data: np.ndarray, indent: int) -> str:
    """Return the bracketed values of `data`, which is not empty."""
    edge = _options.edgeitems
    # The dimensions that are cut: only the elements that are shown decide about the number format.
    cut = [data.size > _options.threshold and n > 2 * edge for n in data.shape]
    if edge == 0 and any(cut):
        return "[...]"
    for axis, n in enumerate(data.shape):
        if cut[axis]:
            data = np.take(data, [*range(edge), *range(n - edge, n)], axis=axis)
    cells, width = _format_cells(data.ravel())
    return _layout(cells, width, data.shape, cut, indent)


def _layout(cells: list[str], width: int, shape: tuple[int, ...], cut: list[bool], indent: int) -> str:
    """Put `cells`, the elements of an array of this `shape` in C order, in brackets and lines."""
    if not shape:
        return cells[0]
    indent += 1  # for the opening bracket
    edge = _options.edgeitems
    if len(shape) == 1:
        if cut[0]:
            cells = [*cells[:edge], _ELLIPSIS, *cells[edge:]]
        # Torch fits rows by the column of the bracket, and by the width of the finite elements.
        per_line = max(1, (_options.linewidth - indent + 1) // (width + 2))
        lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
        return "[" + (",\n" + " " * indent).join(lines) + "]"
    step = len(cells) // shape[0]
    blocks = [_layout(cells[i : i + step], width, shape[1:], cut[1:], indent) for i in range(0, len(cells), step)]
    if cut[0]:
        blocks.insert(edge, "...")
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * indent).join(blocks) + "]"


def _format_cells(values: np.ndarray) -> tuple[list[str], int]:
    """Return the text of each element of a 1-d array and the width that the rows are fitted to."""
    if values.dtype.kind == "c":
        real, real_width = _format_cells(values.real)
        imag, imag_width = _format_cells(values.imag)
        cells = []
        for re, im in zip(real, imag, strict=True):
            im = im.lstrip()
            cells.append(f"{re}{im}j" if im.startswith("-") else f"{re}+{im}j")
        return cells, real_width + imag_width + 1
    if values.dtype.kind == "f":
        convert, width = _float_format(values)
        cells = [convert(value) for value in values.tolist()]
    else:
        cells = [str(value) for value in values.tolist()]
        width = max(map(len, cells))
    return [cell.rjust(width) for cell in cells], width


def _float_format(values: np.ndarray) -> tuple[Callable[[float], str], int]:
    """Choose one notation for all of `values`; return it with its width."""

    def scientific(value: float) -> str:
        return f"{value:.{precision}e}"

    def fixed(value: float) -> str:
        return f"{value:.{precision}f}"

    def integral(value: float) -> str:
        return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"

    precision = _options.precision
    telling = values[np.isfinite(values) & (values != 0)]
    if not telling.size:
        return integral, 1  # torch leaves the width alone here, even for nan and with sci_mode=True
    whole = bool(np.all(np.ceil(telling) == telling))
    size = np.abs(telling)
    low, high = float(size.min()), float(size.max())
    sci = _options.sci_mode
    if sci is None:
        sci = high / low > 1000.0 or high > 1e8 or low < 1e-4
    convert = scientific if sci else integral if whole else fixed
    # Zeros, infinities and nans do not count for the width, so they may stand out of line, as in torch.
    return convert, max(len(convert(value)) for value in telling.tolist())
