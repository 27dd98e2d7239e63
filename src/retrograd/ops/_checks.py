"""Checks of the kinds of arguments, for operations and for functions composed of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.batching import unbatched
from retrograd.core.errors import no_derivative, no_tensor, not_differentiable, wrong_kind
from retrograd.core.state import local
from retrograd.core.tensor import Tensor
from retrograd.dtypes import fits


def check_tensor(name: str, input: Any) -> Tensor:
    """The argument itself, which must be a tensor."""
    if not isinstance(input, Tensor):
        raise no_tensor(name, "argument 'input' (position 1)", input)
    return input


def check_tensors(name: str, **operands: Any) -> None:
    """Raise for operands that are not tensors; they are passed under their names, in the order of the parameters."""
    for position, (argument, value) in enumerate(operands.items(), 1):
        if not isinstance(value, Tensor):
            raise no_tensor(name, f"argument '{argument}' (position {position})", value)


def first_where(mask: Any, values: Any) -> Any:
    """The first value, in a batch that of any sample, for which a condition holds; None if there is none."""
    found = unbatched(np.where(mask, values, 0))[unbatched(mask)]
    return found.flat[0] if found.size else None


def check_number(name: str, argument: str, value: Any) -> Any:
    """A number, which may have come in a tensor without dimensions.

    Raises
    ------
    TypeError
        If that requires grad, because there is no derivative with respect to it.
    """
    if not isinstance(value, Tensor):
        return value
    if value.requires_grad:
        raise no_derivative(name, f"argument '{argument}'")
    return value if value.ndim else value.item()


def check_flags(name: str, **flags: Any) -> None:
    """Raise for arguments that are not bools, Python's or NumPy's; they are passed under their names."""
    for argument, value in flags.items():
        if type(value) is not bool and not isinstance(value, np.bool_):
            raise wrong_kind(name, f"argument '{argument}'", "bool", value)


def check_constant(name: str, **constants: Any) -> None:
    """Raise for tensors that require grad but have no derivative here, if gradients are recorded."""
    if not local.grad_enabled:
        return
    for argument, value in constants.items():
        if isinstance(value, Tensor) and value.requires_grad:
            raise not_differentiable(name, argument)


_KINDS = {"b": "bool", "i": "integers", "f": "real floating-point numbers", "c": "complex numbers"}


def check_kind(name: str, kinds: str, *operands: Any) -> None:
    """Raise as torch does for a dtype without the operation, where ``kinds`` are those that have it, as in "iuf"."""
    for operand in operands:
        if operand.dtype.kind not in kinds:
            accepted = ", ".join(word for kind, word in _KINDS.items() if kind in kinds)
            converts = "f" in kinds and operand.dtype.kind in "biu"
            advice = "; convert it first, for example with .to(retrograd.float32)" if converts else ""
            raise NotImplementedError(f"\"{name}\" not implemented for '{operand.dtype}', only for {accepted}{advice}")


def must_fit(name: str, argument: str, number: Any, dtype: np.dtype) -> None:
    """Raise for a number that ``dtype`` cannot hold."""
    if not fits(number, dtype):
        raise RuntimeError(
            f"{name}(): {argument}={number} cannot be converted to type {dtype.name} without overflow; "
            "convert the tensor to a larger type first"
        )
