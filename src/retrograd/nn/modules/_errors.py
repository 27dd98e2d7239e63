"""What a layer says about an input that it cannot take."""

from __future__ import annotations

from typing import Any

from retrograd.core.tensor import Tensor

# what operations raise for arguments that do not fit
MISFITS = (NotImplementedError, RuntimeError, ValueError, TypeError, IndexError)


def describe(value: Any) -> str:
    """An argument in an error: the shape of a tensor, the type of something else."""
    return str(list(value.shape)) if isinstance(value, Tensor) else type(value).__name__


def misfit(layer: Any, expected: str, error: Exception, *inputs: Any) -> Exception:
    """The same error, saying which layer it was, what that expects and what it got."""
    got = " and ".join(describe(value) for value in inputs)
    wanted = next((parameter.dtype for parameter in layer.parameters(recurse=False)), None)
    given = {value.dtype for value in inputs if isinstance(value, Tensor) and value.dtype.is_floating_point}
    if wanted is not None and given - {wanted}:
        expected += f" and dtype {wanted.name}"
        got += f" of dtype {' and '.join(sorted(dtype.name for dtype in given))}"
    kind = next(family for family in MISFITS if isinstance(error, family))
    return kind(f"{layer!r} expects {expected}, got {got}: {error}")
