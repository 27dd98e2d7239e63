"""The errors of operations whose arguments do not fit."""

from __future__ import annotations

import itertools
import re
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.core.conversion_errors import asking_library


class LinAlgError(RuntimeError):
    """A matrix that a decomposition cannot handle: singular, not positive definite, or not converging."""


def kind_name(value: Any) -> str:
    """The name of a value's class; with its library's name if it is another's Tensor, or NumPy's bool."""
    kind = type(value)
    is_alike = kind.__name__ == "Tensor" or kind is np.bool_ or is_torchs(value)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}" if is_alike else kind.__name__


def is_torchs(value: Any) -> bool:
    """Whether it is a tensor of torch's own class; subclasses may know how to compute with ours."""
    kind = type(value)
    return kind.__name__ in ("Tensor", "Parameter") and kind.__module__.partition(".")[0] == "torch"


def two_libraries(value: Any) -> TypeError:
    """The error about an operator between a tensor and one of torch's."""
    return TypeError(
        f"retrograd tensors cannot be combined with a {kind_name(value)}: convert it first, with "
        "retrograd.as_tensor(t.detach()), or convert the retrograd tensor, with torch.as_tensor(x.detach().numpy())"
    )


def no_keepdim(function: str, name: str, position: int, value: Any) -> TypeError:
    """The error about ``x.sum(0, 1)``, which reads as if it were over two dimensions."""
    return TypeError(
        f"{function}(): argument '{name}' (position {position + 1}) must be bool, not {kind_name(value)}; pass "
        "several dimensions as one argument, as in dim=(0, 1)"
    )


def wrong_kind(function: str, argument: str, expected: str, value: Any) -> TypeError:
    """The error about a value of another kind than the parameter takes.

    A bool in place of a dimension, or at a position, may be meant for another parameter: ``x.sort(True)`` reads as if
    it were descending.

    Parameters
    ----------
    argument
        Which one it is, in words: ``"argument 'dim' (position 2)"``.
    expected
        What it must be: ``"int"``.
    """
    text = f"{function}(): {argument} must be {expected}, not {kind_name(value)}"
    if isinstance(value, bool) and ("position" in argument or "'dim" in argument):
        return TypeError(f"{text}; pass {value} by keyword, as in keepdim={value}")
    shown = isinstance(value, (int, float, complex, str, list, tuple))
    return TypeError(f"{text} ({reprlib.repr(value)})" if shown else text)


def wrong_element(function: str, argument: str, place: int, value: Any) -> TypeError:
    """The error about an element of a sequence; see :func:`wrong_kind`."""
    return TypeError(
        f"{function}(): {argument} must be a sequence of ints, but found {value!r}, of type {kind_name(value)}, "
        f"at index {place}"
    )


def no_tensor(function: str, argument: str, value: Any, *, listed: bool = False) -> TypeError:
    """The error about what a function was given for a tensor, or, if ``listed``, in a list of tensors.

    Parameters
    ----------
    argument
        Which one it is, in words: ``"argument 'input' (position 1)"``.
    """
    expected = f"tuple of Tensors, not of {kind_name(value)}s" if listed else f"Tensor, not {kind_name(value)}"
    return TypeError(f"{function}(): {argument} must be {expected}{to_be_made(value)}")


def no_derivative(function: str, argument: str) -> TypeError:
    """The error about a tensor that requires grad in place of a number, where its gradient would be lost."""
    return TypeError(
        f"{function}(): {argument} must be a number, not a tensor that requires grad, because there is no derivative "
        "with respect to it; pass its item()"
    )


def not_differentiable(function: str, argument: str) -> RuntimeError:
    """The error about a tensor that requires grad for a parameter that has no derivative."""
    return RuntimeError(
        f"The function '{function}' is not differentiable with respect to argument '{argument}'. This input cannot "
        f"have requires_grad True; pass {argument}.detach()."
    )


def to_be_made(value: Any) -> str:
    """How to turn what was given into a tensor, for the end of an error message; empty if that is not possible."""
    return "" if value is None or isinstance(value, str) else "; convert it first with retrograd.as_tensor"


def mention_numpy(error: TypeError, name: str) -> TypeError:
    """The error about an argument, with a note if a library made the call, or if NumPy's method differs."""
    library, instead = asking_library()
    if library:
        error.add_note(f"It was called by a part of {library} that takes arrays only: {instead}.")
    elif hasattr(np.ndarray, name) and hasattr(np, name):
        error.add_note(f"This method has torch's parameters; numpy.{name}(x, ...) has those of NumPy's arrays.")
    return error


def check_plain(array: np.ndarray) -> None:
    """Raise if an array's class has its own semantics, like masked arrays and matrices, which would be lost."""
    kind = type(array)
    if kind.__mul__ is not np.ndarray.__mul__ or kind.__array_ufunc__ is not np.ndarray.__array_ufunc__:
        instead = (
            "select with x[~mask] or numpy.where(mask, 0, x)" if hasattr(array, "mask") else "use numpy.asarray(a)"
        )
        raise TypeError(
            f"{kind.__module__.partition('.')[0]}.{kind.__name__} has its own arithmetic, which Tensors do not "
            f"support: {instead}"
        )


NOTHING = object()
_NO_INTEGER = "cannot be interpreted|not supported between|integer argument expected|indices must be integers"


# the texts, in several versions of NumPy, for an array given in place of a number
_NO_NUMBER = "truth value of an array|only (0-dimensional|length-1|integer scalar) arrays can be"


def taken_for_tensor(error: Exception) -> Any:
    """What was wrongly used as a tensor, according to an error; ``NOTHING`` if the error is about something else."""
    culprit = getattr(error, "obj", NOTHING)
    if culprit is None and "'NoneType'" not in str(error):  # an AttributeError raised by hand, without its object
        return NOTHING
    return culprit


def explain(name: str, operands: Sequence[Any], error: Exception, params: Sequence[str] = ()) -> Exception:
    """Turn NumPy's error into the exception class that torch raises, naming the operation and its operands."""
    if isinstance(error, AttributeError):
        culprit = taken_for_tensor(error)
        argument = next((param for param, value in zip(params, operands, strict=False) if value is culprit), None)
        if argument is None or hasattr(culprit, "dtype"):
            return error
        return TypeError(f"{name}(): argument '{argument}' must be Tensor, not {kind_name(culprit)}")
    if re.search(_NO_NUMBER, str(error)) and (given := _array_for_numbers(operands, params)):
        argument, value = given
        text = f"argument '{argument}' takes numbers, not the array {_describe(value)}; give its tolist()"
        return TypeError(f"{name}(): {text}")
    if isinstance(error, np.exceptions.AxisError):
        return IndexError(f"{name}(): {_dimension_text(error)}; operands: {describe(operands)}")
    if isinstance(error, np.linalg.LinAlgError):
        return LinAlgError(f"{name}: {error}; operands: {describe(operands)}")
    if isinstance(error, ValueError):
        clash = _broadcast_clash(operands)
        if clash is not None and "broadcast" in str(error):
            return RuntimeError(f"{clash}, in {name}; operands: {describe(operands)}")
        text = re.sub("duplicate value in 'axis'", "a dim appears multiple times in the list of dims", str(error))
        text = text.removesuffix(".")
        return RuntimeError(f"{name}: {text}; operands: {describe(operands)}")
    if isinstance(error, TypeError) and re.search("not supported for the input|did not contain a loop", str(error)):
        kinds = " and ".join(_type_name(value) for value in operands if value is not None)
        other = "int64" if any(value.dtype.kind == "f" for value in operands if hasattr(value, "dtype")) else "float32"
        return NotImplementedError(
            f'"{name}" not implemented for {kinds}; convert the operands first, for example with .to(retrograd.{other})'
        )
    if isinstance(error, TypeError) and "numpy boolean" in str(error):  # bool - bool, -bool
        return RuntimeError(f"{name}: {str(error).replace('numpy boolean', 'boolean')}")
    if type(error) is TypeError and re.search(_NO_INTEGER, str(error)):
        return TypeError(f"{name}(): {error}; operands: {describe(operands)}")
    return error


def _array_for_numbers(operands: Sequence[Any], params: Sequence[str]) -> tuple[str, Any] | None:
    """The first parameter but one that was given an array, alone in a list or not, as in ``x.reshape(shape)``."""
    for param, value in list(zip(params, operands, strict=False))[1:]:
        (item,) = value if isinstance(value, (tuple, list)) and len(value) == 1 else (value,)
        if getattr(item, "ndim", 0):
            return param, item
    return None


def check_broadcast(name: str, *operands: Any) -> None:
    """Raise torch's error for operands whose shapes do not broadcast, naming the function that was called."""
    clash = _broadcast_clash(operands)
    if clash is not None:
        raise RuntimeError(f"{clash}, in {name}; operands: {describe(operands)}")


def describe(operands: Sequence[Any]) -> str:
    """Name dtype and shape of arrays, and other arguments as they are."""
    return ", ".join(_describe(value) for value in operands)


def _describe(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype.name}{list(value.shape)}"
    if isinstance(value, (list, tuple)) and any(hasattr(item, "shape") for item in value):
        return f"({describe(value)})"
    return repr(value)


def _type_name(value: Any) -> str:
    return f"'{value.dtype}'" if hasattr(value, "dtype") else f"'{type(value).__name__}'"


def _dimension_text(error: np.exceptions.AxisError) -> str:
    ndim = getattr(error, "ndim", None)
    axis = getattr(error, "axis", None)
    if ndim is None or axis is None:
        return str(error)
    low, high = (-ndim, ndim - 1) if ndim else (-1, 0)
    return f"Dimension out of range (expected to be in range of [{low}, {high}], but got {axis})"


def _broadcast_clash(operands: Sequence[Any]) -> str | None:
    """torch's sentence for the first pair of shapes that does not broadcast, counting dimensions as torch does."""
    shapes = [value.shape for value in operands if hasattr(value, "shape")]
    for a, b in itertools.pairwise(shapes):
        ndim = max(len(a), len(b))
        for back in range(1, min(len(a), len(b)) + 1):
            n, m = a[-back], b[-back]
            if n != m and 1 not in (n, m):
                return (
                    f"The size of tensor a ({n}) must match the size of tensor b ({m}) "
                    f"at non-singleton dimension {ndim - back}"
                )
    return None
