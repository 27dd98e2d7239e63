"""Single elements of arrays: which one is bad, and from what and how it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.elements.channels import channel_of
from retrograd.core.finite_checks import is_finite
from retrograd.core.op import Op
from retrograd.core.record import compute


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()
"""Stands for an argument that is lost."""


def named(op: Op | None, operands: Sequence[Any]) -> dict[str, Any]:
    """Operands by the names of the operation's parameters, or by their positions for a user-written Function."""
    params = op.params if op is not None else tuple(f"args[{k}]" for k in range(len(operands)))
    return dict(zip(params, operands, strict=False))


def flat(operands: Iterable[Any]) -> Iterator[Any]:
    """Operands, with lists flattened."""
    for operand in operands:
        if isinstance(operand, list):
            yield from flat(operand)
        else:
            yield operand


def is_bad(value: Any) -> bool:
    """Whether a value is, or holds, a non-finite number."""
    if isinstance(value, (list, tuple)):
        return any(map(is_bad, value))
    if isinstance(value, (float, complex)):
        return not np.isfinite(value)
    return isinstance(value, (ndarray, np.generic)) and not is_finite(np.asarray(value))


def holds_nan(value: Any) -> bool:
    """Whether a value is, or holds, a NaN."""
    if isinstance(value, (list, tuple)):
        return any(map(holds_nan, value))
    return (isinstance(value, (float, complex)) or _is_inexact(value)) and bool(np.isnan(value).any())


def harm_of(arrays: Iterable[Any]) -> str:
    """The kind of harm that non-finite arrays do: "nan" if they hold a NaN, else "inf"."""
    return "nan" if any(np.isnan(array).any() for array in arrays) else "inf"


def holds_infinity(value: Any) -> bool:
    """Whether a value is an array with positive infinity; negative infinity is ignored, as masks use it."""
    return isinstance(value, ndarray) and bool(np.isposinf(value.real).any())


def same(one: Any, other: ndarray) -> bool:
    """Whether two arrays are identical or have equal contents."""
    if one is other:
        return True
    return (
        isinstance(one, ndarray)
        and one.shape == other.shape
        and one.dtype == other.dtype
        and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    )


def _is_inexact(value: Any) -> bool:
    return isinstance(value, (ndarray, np.generic)) and value.dtype.kind in "fc"


def _numbers(operands: Iterable[Any]) -> list[Any]:
    return [each for each in operands if isinstance(each, (float, complex)) or _is_inexact(each)]


def is_born(op: Op | None, output: ndarray, operands: Sequence[Any], flags: Sequence[str] = ()) -> bool:
    """Whether an operation itself gave birth to a bad output, rather than pass on a bad operand.

    A NaN passed as a plain number counts as born here, as no operation made it.
    """
    operands = [each for each in flat(operands) if isinstance(each, ndarray) or not holds_nan(each)]
    numbers = _numbers(operands)
    if not is_bad(operands):
        return True
    if op is not None and op.kind == "elementwise":
        try:
            return bool(_born(output, numbers).any())
        except ValueError:  # under vmap the sample axis comes first, whatever the number of dimensions
            return bool(flags)
    return bool(flags) and np.isnan(output).any() and not any(map(holds_nan, operands))


def _born(output: ndarray, operands: Sequence[Any]) -> Any:
    """Where an elementwise operation made a NaN without one in its operands, or an infinity from finite ones."""
    nan, infinite = np.isnan(output), np.isinf(output)
    for operand in operands:
        nan, infinite = nan & ~np.isnan(operand), infinite & np.isfinite(operand)
    return nan | infinite


def are_born_of(g: Any, grads: Sequence[Any]) -> bool:
    """Whether a rule gave birth to bad gradients: to a NaN if no NaN arrived, or to an infinity from finite ones."""
    return not is_bad(g) or (holds_nan(grads) and not holds_nan(g))


def first_bad(
    op: Op | None, output: ndarray, operands: Sequence[Any], among: ndarray | None = None
) -> tuple[int, ...] | None:
    """The first element that was born NaN, else born infinite; else the first NaN, else the first infinity.

    ``among`` restricts the search to a mask of elements.
    """
    bad = ~np.isfinite(output) if among is None else among
    nan = np.isnan(output) & bad
    try:
        born = _born(output, _numbers(operands)) & bad if op is None or op.kind == "elementwise" else bad
    except ValueError:  # incompatible shapes
        born = bad
    for wanted in (nan & born, born, nan, bad):
        if wanted.shape == output.shape and wanted.any():
            return unravelled(wanted)
    return None


def underflows(flags: Sequence[str], output: ndarray) -> bool:
    """Whether an operation is reported only because it rounded something to zero."""
    return list(flags) == ["underflow"] and not is_bad(output)


def first_lost(output: ndarray, operands: Sequence[Any]) -> tuple[int, ...] | None:
    """The first element that was rounded to zero, judging by the operands of its shape."""
    lost = output == 0
    for operand in _numbers(operands):
        if np.ndim(operand) == 0 or operand.shape == output.shape:
            lost = lost & (operand != 0)
    return unravelled(lost) if lost.any() else None


def unravelled(mask: ndarray) -> tuple[int, ...]:
    """The first place where a mask is set."""
    return tuple(int(i) for i in np.unravel_index(int(np.flatnonzero(mask)[0]), mask.shape))


def first_not_finite(array: ndarray) -> tuple[int, ...] | None:
    """The first place of a NaN or an infinity."""
    bad = ~np.isfinite(array)
    return unravelled(bad) if bad.any() else None


def value_at(operand: Any, index: tuple[int, ...] | None, shape: tuple[int, ...]) -> Any:
    """The number in an operand from which an element of an elementwise result was made; None if there is none."""
    if not isinstance(operand, ndarray):
        return operand if isinstance(operand, (int, float, complex)) else None
    if operand.ndim == 0:
        return operand.item()
    if index is None:
        return None
    try:
        return np.broadcast_to(operand, shape)[index].item()
    except ValueError:
        return None


def kind_of(
    kinds: Sequence[str],
    output: ndarray,
    index: Any,
    op: Op | None = None,
    operands: Sequence[Any] = (),
    again: Again | None = None,
) -> str:
    """How the value at an element was born, by the flags of the whole operation and those of this element alone.

    Without flags, an infinity is a division by zero if slightly different operands give a finite result. ``again``
    recomputes the array from other ``operands``; without it, ``op`` does.
    """
    if index is None or not is_bad(output):
        return kinds[0] if kinds else "overflow"
    if np.isnan(output[index]):
        return "invalid"
    possible = [kind for kind in kinds if kind in ("divide", "overflow")]
    elementwise = op is not None and op.kind == "elementwise"
    if len(possible) != 1 and elementwise:
        operands = [_single(each, index, output) for each in operands]
        possible = _flags_in(op, operands) or possible  # type: ignore[arg-type]
    if possible:
        return possible[0]
    if again is None and op is not None:
        again = partial(_results_of, op, (1,) if elementwise else output.shape)
    return "divide" if again is not None and is_pole(again, operands, (0,) if elementwise else index) else "overflow"


Again = Callable[[Sequence[Any]], Any]


def _single(operand: Any, index: tuple[int, ...], output: ndarray) -> Any:
    """An operand's element as an array of its own; likewise a zero passed as a plain number."""
    if isinstance(operand, ndarray):
        return np.full(1, value_at(operand, index, output.shape), operand.dtype)
    return np.zeros(1, output.dtype) if type(operand) in (int, float) and operand == 0 else operand


def _flags_in(op: Op, operands: Sequence[Any]) -> list[str]:
    """The flags among divide and overflow that an operation raises when computed again."""
    raised: list[str] = []
    try:
        with np.errstate(all="call", call=lambda error, flag: raised.append(error)):
            compute(op, list(operands))
    except Exception:
        return []
    return [kind for word, kind in (("divide by zero", "divide"), ("overflow", "overflow")) if word in raised]


def _results_of(op: Op, shape: tuple[int, ...], operands: Sequence[Any]) -> Any:
    """The sum of an operation's results of a given shape; finite where all of them are."""
    made = compute(op, list(operands))
    return sum(each for each in (made if isinstance(made, (tuple, list)) else [made]) if np.shape(each) == shape)


def is_pole(again: Again, operands: Sequence[Any], index: tuple[int, ...]) -> bool:
    """Whether slightly different operands give a finite result, as they would not if it had overflowed."""
    for sign in (-1, 1):
        try:
            with np.errstate(all="ignore"):
                if np.isfinite(np.asarray(again([_moved(each, sign) for each in operands]))[index]):
                    return True
        except Exception:  # an argument that it needs is lost
            return False
    return False


def _moved(value: Any, sign: int) -> Any:
    """A value with its numbers moved slightly up or down."""
    if isinstance(value, (list, tuple)):
        return [_moved(each, sign) for each in value]
    if not hasattr(value, "dtype") or value.dtype.kind not in "fc":
        return value
    return value + (sign * np.finfo(value.dtype).eps ** 0.5 * np.maximum(abs(value), 1)).astype(value.dtype)


def reals(array: ndarray) -> ndarray:
    """The elements as real numbers: both parts of complex ones."""
    return np.stack((array.real, array.imag)) if array.dtype.kind == "c" else array


def statistics(array: ndarray) -> dict[str, Any]:
    """The fields of an event that describe the output."""
    floats = reals(array)
    finite = floats[np.isfinite(floats)].astype(np.float64)
    with np.errstate(all="ignore"):
        stats = (
            {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
            if finite.size
            else None
        )
    nan, pos, neg = int(np.isnan(array).sum()), int(np.isposinf(floats).sum()), int(np.isneginf(floats).sum())
    return {
        "nan_count": nan,
        "posinf_count": pos,
        "neginf_count": neg,
        "size": int(array.size),
        "output_shape": array.shape,
        "dtype": str(array.dtype),
        "output_stats": stats,
        "output_has_nan": nan > 0,
        "output_has_inf": pos + neg > 0,
    }


def input_statistics(values: Iterable[Any]) -> dict[str, Any]:
    """The fields of an event that describe the inputs."""
    arrays = [value for value in values if _is_inexact(value)]
    return {
        "input_has_nan": any(bool(np.isnan(array).any()) for array in arrays),
        "input_has_inf": any(bool(np.isinf(array).any()) for array in arrays),
    }


def at_element(arguments: Mapping[str, Any], index: Any, shape: tuple[int, ...], op: str = "") -> dict[str, Any]:
    """The numbers from which ``op`` made one element of its result, by the names of the arguments."""
    found = {}
    for name, value in arguments.items():
        channel = channel_of(op, index, shape, value.shape) if isinstance(value, ndarray) else None
        number = value_at(value, index, shape) if channel is None else value[channel].item()
        if number is not None and not isinstance(value, bool):
            found[name] = number
    return found


def extremes(values: ndarray) -> tuple[Any, Any]:
    """The smallest and the largest of several numbers; None for a single one."""
    if values.size < 2 or values.dtype.kind not in "fiu":
        return None, None
    ordinary = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return (ordinary.min().item(), ordinary.max().item()) if ordinary.size else (None, None)
