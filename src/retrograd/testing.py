"""For tests: ``assert_close``, which says how far results are apart, and ``make_tensor`` for random operands."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from retrograd.core.tensor import Tensor
from retrograd.creation import as_tensor, empty
from retrograd.dtypes import as_dtype, finfo, iinfo
from retrograd.dtypes import bool as bool_
from retrograd.dtypes import dtype as _dtype

__all__ = ["assert_close", "make_tensor"]

# Relative and absolute tolerance by dtype, as in torch; other dtypes must agree exactly.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise unless ``abs(actual - expected) <= atol + rtol * abs(expected)`` everywhere.

    Parameters
    ----------
    actual, expected
        Tensors, arrays or numbers, or sequences or mappings of these.
    allow_subclasses
        If False, both must be of one class.
    rtol, atol
        The tolerances; by default those that suit the dtype: 1.3e-6 and 1e-5 for float32, 1e-7 for float64.
    equal_nan
        Whether NaN is equal to NaN.
    check_device, check_dtype, check_stride
        Whether devices, dtypes and strides must be the same.
    check_layout
        Accepted; there is one layout.
    msg
        What to say instead, or a function that makes it of what would have been said.

    Raises
    ------
    AssertionError
        If they are not close.
    ValueError
        If only one tolerance is given, or one is negative.

    Examples
    --------
    >>> rg.testing.assert_close(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 2.0 + 1e-7]))
    >>> rg.testing.assert_close(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    Traceback (most recent call last):
        ...
    AssertionError: Tensor-likes are not close!
    <BLANKLINE>
    Mismatched elements: 1 / 2 (50.0%)
    Greatest absolute difference: 2.0 at index (1,) (up to 1e-05 allowed)
    Greatest relative difference: 0.5 at index (1,) (up to 1.3e-06 allowed)
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"rtol and atol must both be specified or both be unspecified, but got {rtol=} and {atol=}")
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance is not None and not tolerance >= 0:
            raise ValueError(f"{name} must be a non-negative number, but got {tolerance}; use 0 for equality")

    def compare(actual: Any, expected: Any, where: str) -> None:
        if isinstance(actual, Mapping) and isinstance(expected, Mapping):
            if actual.keys() != expected.keys():
                missing, more = expected.keys() - actual.keys(), actual.keys() - expected.keys()
                fail(f"The keys of the mappings do not match: missing are {missing}, unexpected are {more}", where)
            for key in actual:
                compare(actual[key], expected[key], f"{where}[{key!r}]")
        elif _is_sequence(actual) and _is_sequence(expected):
            if len(actual) != len(expected):
                fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", where)
            for number, pair in enumerate(zip(actual, expected, strict=True)):
                compare(*pair, f"{where}[{number}]")
        elif actual is None or expected is None:
            if actual is not expected:
                fail(f"None mismatch: {actual} is not {expected}", where)
        elif _is_number(actual) and _is_number(expected):
            compare_numbers(_plain(actual), _plain(expected), where)
        elif _is_array(actual) and _is_array(expected):
            compare_tensors(actual, expected, where)
        else:
            kinds = f"{type(actual)} and {type(expected)}"
            raise TypeError(f"No comparison pair was able to handle inputs of type {kinds}.")

    def compare_numbers(actual: Any, expected: Any, where: str) -> None:
        if check_dtype and type(actual) is not type(expected):
            fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.", where)
        if isinstance(actual, bool) and isinstance(expected, bool):
            if actual is not expected:
                fail(f"Booleans mismatch: {actual} is not {expected}", where)
            return
        compare_values(np.asarray(actual), np.asarray(expected), where)

    def compare_tensors(actual: Any, expected: Any, where: str) -> None:
        if not allow_subclasses and type(actual) is not type(expected):
            fail(f"subclasses are not allowed, but got {type(actual).__name__} and {type(expected).__name__}", where)
        a, b = as_tensor(actual).detach(), as_tensor(expected).detach()
        for attribute, wanted in (
            ("shape", True),
            ("device", check_device),
            ("dtype", check_dtype),
            ("stride", check_stride),
        ):
            of_a, of_b = ((x.stride() if attribute == "stride" else getattr(x, attribute)) for x in (a, b))
            if wanted and of_a != of_b:
                fail(f"The values for attribute '{attribute}' do not match: {of_a} != {of_b}.", where)
        compare_values(a.numpy(force=True), b.numpy(force=True), where, "Tensor-likes")

    def compare_values(x: np.ndarray, y: np.ndarray, where: str, what: str = "Scalars") -> None:
        relative, absolute = (rtol, atol) if rtol is not None else _tolerances(x, y)
        text = _difference(x, y, relative, absolute, equal_nan, what)
        if text is not None:
            fail(text, where)

    def fail(text: str, where: str) -> None:
        if where:
            text += f"\n\nThe failure occurred for item {where}"
        raise AssertionError(msg(text) if callable(msg) else text if msg is None else msg)

    compare(actual, expected, "")


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, (numbers.Number, np.generic))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") and not isinstance(value, np.generic)


def _tolerances(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    if x.dtype != y.dtype and np.promote_types(x.dtype, y.dtype).name not in _TOLERANCES:
        return 0.0, 0.0
    return max(_TOLERANCES.get(each.dtype.name, (0.0, 0.0)) for each in (x, y))


def _difference(x: Any, y: Any, rtol: Any, atol: Any, equal_nan: bool, what: str) -> str | None:
    """What is different, in words; None if the arrays are close."""
    kind = np.promote_types(x.dtype, y.dtype)
    if kind.kind in "biu":
        kind = np.dtype(np.int64)
    x, y = x.astype(kind), y.astype(kind)
    close = np.isclose(x, y, rtol, atol, equal_nan) if kind.kind in "fc" else np.abs(x - y) <= atol + rtol * np.abs(y)
    if close.all():
        return None
    with np.errstate(all="ignore"):
        absolute = np.where(close, 0, np.abs(x - y))
        relative = np.where(close, 0, absolute / np.abs(y))
    exact = rtol == 0 and atol == 0
    lines = [f"{what} are not {'equal' if exact else 'close'}!", ""]
    if what == "Scalars":
        lines.append(f"Expected {y.item()} but got {x.item()}.")
    if x.ndim:
        wrong, count = int((~close).sum()), close.size
        lines.append(f"Mismatched elements: {wrong} / {count} ({100 * wrong / count:.1f}%)")
    for name, difference, allowed in (("absolute", absolute, atol), ("relative", relative, rtol)):
        place = np.unravel_index(int(np.argmax(np.where(np.isnan(difference), math.inf, difference))), x.shape)
        index = f" at index {tuple(map(int, place))}" if x.ndim else ""
        tolerance = "" if exact else f" (up to {allowed} allowed)"
        title = f"{name.capitalize()} difference" if what == "Scalars" else f"Greatest {name} difference"
        lines.append(f"{title}: {difference[place].item()}{index}{tolerance}")
    return "\n".join(lines)


def make_tensor(
    *shape: Any,
    dtype: _dtype,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return a tensor of random numbers in ``[low, high)``, all equally likely, as an operand for a test.

    Parameters
    ----------
    *shape
        The shape, as ints or as one sequence.
    low, high
        The bounds, which are brought to those of the dtype. By default -9 and 9, or 10 for integers; 0 and 10 for
        uint8; 0 and 2 for bool. Those of complex numbers hold for the real and the imaginary part.
    requires_grad
        Whether operations on the result are recorded.
    noncontiguous
        Whether the elements are to lie apart in memory, where there are two or more.
    exclude_zero
        Whether zeros are replaced by the smallest positive number of the dtype; with integers that is 1.
    memory_format
        Accepted without ``noncontiguous``; there is one order.

    Raises
    ------
    ValueError
        If there is nothing between the bounds, or if integers are to require grad.

    Examples
    --------
    >>> x = rg.testing.make_tensor((2, 3), dtype=rg.float64, device="cpu", low=1, noncontiguous=True)
    >>> x.shape, x.is_contiguous(), bool((x >= 1).all())
    (retrograd.Size([2, 3]), False, True)
    """
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    try:
        dtype = as_dtype(dtype)
    except TypeError as error:
        raise TypeError(f"make_tensor(): {error}") from None
    real = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not real:
        raise ValueError(f"make_tensor(): `requires_grad=True` is not supported for boolean and integral {dtype=}")
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor(): `noncontiguous` and `memory_format` cannot be combined")
    first, end = _interval(dtype, low, high)
    x = empty(size, dtype=dtype, device=device)
    if 0 not in size:
        _fill(x, first, end)
    if exclude_zero:
        tiny = 1 if not real else finfo(dtype).tiny
        x[x == 0] = complex(tiny, tiny) if dtype.is_complex else tiny
    if noncontiguous and x.numel() > 1:
        x = x.repeat_interleave(2, dim=-1)[..., ::2]
    return x.requires_grad_() if requires_grad else x


def _interval(dtype: _dtype, low: Any, high: Any) -> tuple[Any, Any]:
    """The bounds between which samples are drawn: those asked for, limited to the range of the dtype."""
    least: Any
    most: Any  # the largest number of a floating dtype; otherwise one more than it
    if dtype.is_floating_point or dtype.is_complex:
        defaults, (least, most) = (-9, 9), (finfo(dtype).min, finfo(dtype).max)
    elif dtype == bool_:
        defaults, (least, most) = (0, 2), (0, 2)
    else:
        defaults, (least, most) = (-9 if dtype.is_signed else 0, 10), (iinfo(dtype).min, iinfo(dtype).max + 1)
    low, high = (default if value is None else value for value, default in zip((low, high), defaults, strict=True))
    for name, value in (("low", low), ("high", high)):
        if isinstance(value, complex) or not isinstance(value, (numbers.Real, np.generic)):
            raise TypeError(f"make_tensor(): `{name}` must be a real number, not {type(value).__name__}")
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"make_tensor(): `low` and `high` cannot be NaN, but got {low=} and {high=}")
    is_floating = isinstance(least, float)
    if low > high or (low == high and not is_floating):
        raise ValueError(f"make_tensor(): `low` must be less than `high`, but got {low} >= {high}")
    if high < least or low > most or (low == most and not is_floating):
        raise ValueError(f"make_tensor(): {dtype} has no numbers in [{low}, {high}); it ends at {least} and {most}")
    low, high = max(low, least), min(high, most)
    if not is_floating:
        low, high = math.ceil(low), math.ceil(high)
        if low >= high:
            raise ValueError(f"make_tensor(): {dtype} has no numbers in [{low}, {high})")
    return low, high


def _fill(x: Tensor, low: Any, high: Any) -> None:
    if x.is_complex():
        _fill(x.real, low, high)
        _fill(x.imag, low, high)
    elif not x.is_floating_point():
        x.random_(low, high)
    elif high - low <= finfo(x.dtype).max:
        x.uniform_(low, high)
    else:
        x.uniform_(low / 2, high / 2).mul_(2)
