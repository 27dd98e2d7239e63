"""What a layer says about an input that it cannot take."""

from __future__ import annotations

from typing import Any

from retrograd.core.node import save_result, save_tensor
from retrograd.core.record import save_byproduct
from retrograd.core.tensor import Tensor

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


def misfit(layer: Any, expected: str, error: Exception, *inputs: Any) -> Exception:
    """The same error, saying which layer it was, what that expects and what it got.

    What a hook on saved tensors raises, or a tensor that must not be saved, has nothing to do with what is expected:
    such an error is raised as it is.
    """
    if _arose_in_saving(error):
        raise error
    got = " and ".join(describe(value) for value in inputs)
    wanted = next((parameter.dtype for parameter in layer.parameters(recurse=False)), None)
    given = {value.dtype for value in inputs if isinstance(value, Tensor) and value.dtype.is_floating_point}
    if wanted is not None and given - {wanted}:
        expected += f" and dtype {wanted.name}"
        got += f" of dtype {' and '.join(sorted(dtype.name for dtype in given))}"
    kind = next(family for family in MISFITS if isinstance(error, family))
    return kind(f"{layer!r} expects {expected}, got {got}: {error}")
