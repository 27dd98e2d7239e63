"""The options of optimizers: checks of their values, and values that may be tensors as numbers."""

from __future__ import annotations

from typing import Any, Literal

from retrograd.core.tensor import Tensor


def check(is_valid: bool, what: str, value: Any) -> None:
    """Raise if the value of an option is not valid."""
    if not is_valid:
        raise ValueError(f"Invalid {what}: {value}")


def check_lr(lr: Any) -> None:
    """Raise unless the learning rate is a number, or a tensor of one element, that is not negative."""
    _check_one_element(lr)
    check_not_negative(lr, "learning rate")


def check_matrix_lr(lr: Any) -> None:
    """Do as :func:`check_lr`, in the words of the optimizers for matrices."""
    _check_one_element(lr)
    check_bound(lr, "Learning rate", ">=", 0)


def _check_one_element(lr: Any) -> None:
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


def check_bound(value: Any, what: str, relation: Literal[">=", "<="], bound: int) -> None:
    """Raise unless the value of an option is a number on the right side of its bound."""
    check_number(value, what)
    if not (value >= bound if relation == ">=" else value <= bound):
        raise ValueError(f"{what} should be {relation} {bound} but is: {value}")


def check_not_negative(value: Any, what: str) -> None:
    """Raise unless the value of an option is a number, or a tensor of one, from 0 on."""
    check_number(value, what)
    check(bool(value >= 0.0), what, value)


def check_number(value: Any, what: str) -> None:
    """Raise for what is not a number, such as the string that YAML reads 1e-3 as."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        advice = "; convert it with float()" if isinstance(value, str) else ""
        raise TypeError(f"Invalid {what}: {value!r} is of type {type(value).__name__}, not a number{advice}")


def check_betas(betas: Any) -> None:
    """Raise unless both factors of running averages lie in ``[0, 1)``."""
    if not has_length(betas, 2):
        raise TypeError(f"betas must be a pair of numbers, such as (0.9, 0.999), but got {betas!r}")
    for index in (0, 1):
        check_number(betas[index], f"beta parameter at index {index}")
        check(bool(0.0 <= betas[index] < 1.0), f"beta parameter at index {index}", betas[index])


def has_length(values: Any, length: int) -> bool:
    """Whether it is a sequence of so many values."""
    try:
        return hasattr(values, "__getitem__") and len(values) == length
    except TypeError:  # NumPy's numbers, tensors without dimensions
        return False


def check_implementation(differentiable: bool, foreach: bool | None = None, fused: bool | None = None) -> None:
    """Raise where options contradict each other, or ask for what cannot be had."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if differentiable:
        raise NotImplementedError(
            "differentiable=True: optimizer steps cannot be differentiated here. To differentiate through an update, "
            "write it out: w = w - lr * grad, with grad from retrograd.autograd.grad(create_graph=True)"
        )


def number(value: Any) -> Any:
    """An option as a Python number; learning rates and betas may be tensors."""
    return value.item() if isinstance(value, Tensor) else value
