"""Error messages of layers about inputs that they cannot take.

In a shape, a number is a size that the layer has been made for; names stand for any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.core.saved import save_result, save_tensor
from retrograd.core.slots import save_byproduct
from retrograd.core.tensor import Tensor
from retrograd.queries import typename

# what operations raise for arguments that do not fit
MISFITS = (NotImplementedError, RuntimeError, ValueError, TypeError, IndexError)


def describe(value: Any) -> str:
    """An argument in an error: the shape of a tensor, the type of something else."""
    return str(list(value.shape)) if isinstance(value, Tensor) else type(value).__name__


_SAVING = {function.__code__ for function in (save_tensor, save_result, save_byproduct)}


def _arose_in_saving(error: Exception) -> bool:
    """Whether an operation had taken its operands, and only then could not keep them for backward."""
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code not in _SAVING:
        step = step.tb_next
    return step is not None


def has_shape(value: Any, *patterns: str) -> bool:
    """Whether a value is a tensor of one of these shapes.

    In a pattern such as ``"N, 3, H, W"`` a number is that size, a name is any, and ``...`` is any number of sizes.
    """
    return isinstance(value, Tensor) and any(_matches(value.shape, pattern.split(", ")) for pattern in patterns)


def _matches(shape: Sequence[int], pattern: list[str]) -> bool:
    if "..." in pattern:
        gap = pattern.index("...")
        more = len(shape) - len(pattern) + 1
        pattern = pattern[:gap] + ["any"] * more + pattern[gap + 1 :]
    return len(shape) == len(pattern) and all(
        not size.isdigit() or n == int(size) for n, size in zip(shape, pattern, strict=True)
    )


def in_words(*patterns: str) -> str:
    """The shapes of patterns, as they are read in an error."""
    return " or ".join(f"[{pattern}]" for pattern in patterns)


def misshaped(layer: Any, error: Exception, input: Any, *patterns: str) -> Exception:
    """:func:`misfit` for a layer whose input has one of these shapes, and the dtype of its parameters."""
    wanted = next((parameter.dtype for parameter in layer.parameters(recurse=False)), None)
    expected, got = f"an input of shape {in_words(*patterns)}", describe(input)
    fits = has_shape(input, *patterns)
    if wanted is not None and isinstance(input, Tensor) and input.dtype is not wanted:
        fits = False
        expected += f" and dtype {wanted.name}"
        got += f" of dtype {input.dtype.name}"
    return misfit(layer, error, expected, got, fits=fits)


def misshaped_places(layer: Any, error: Exception, input: Any, channels: Any = "C") -> Exception:
    """:func:`misshaped` for a layer over the last ``layer.spatial`` dimensions, with or without one for the batch."""
    shape = f"{channels}, {('L', 'H, W', 'D, H, W')[layer.spatial - 1]}"
    return misshaped(layer, error, input, f"N, {shape}", shape)


def misfit(layer: Any, error: Exception, expected: str, got: str, *, fits: bool) -> Exception:
    """The same error, saying which layer it was, what that expects and what it got.

    Where the input is as expected, the reason is another: what was asked for, a parameter, a hook. Such an error is
    raised as it is, with a note of where it came from. What arose in saving has nothing to do with the layer at all.
    """
    if _arose_in_saving(error):
        raise error
    if fits:
        error.add_note(f"in {layer!r}, given {got}")
        raise error
    kind = next(family for family in MISFITS if isinstance(error, family))
    return kind(f"{layer!r} expects {expected}, got {got}: {error}")


def no_module(given: Any) -> TypeError:
    """The error for something given in place of a module, with what was perhaps meant."""
    hint = ""
    if isinstance(given, type):
        hint = f": it is a class; create a module from it, {given.__name__}()"
    elif isinstance(given, (list, tuple)):
        hint = "; pass the modules one by one, as in Sequential(*modules)"
    elif isinstance(given, dict):
        hint = "; to name them, use an OrderedDict or add_module(name, module)"
    elif callable(given):
        hint = "; call a function in forward()"
        module = _module_of_function(getattr(given, "__name__", ""))
        if module is not None:
            hint += f", or use the module nn.{module}()"
    return TypeError(f"{typename(given)} is not a Module subclass{hint}")


def _module_of_function(name: str) -> str | None:
    """The class of modules that compute what a function does: ``"LogSoftmax"`` for ``"log_softmax"``."""
    from retrograd import nn

    return next((known for known in nn.__all__ if known.lower() == name.replace("_", "")), None)
