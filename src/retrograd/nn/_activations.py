"""Activation functions as ``torch.nn.functional`` calls them: with ``inplace``, and a dimension that may be missing.

The mathematics is in :mod:`retrograd.ops.activations`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from retrograd.core import calls
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.ops import activations as ops
from retrograd.ops._checks import check_tensors
from retrograd.ops.conditional import where
from retrograd.random import rand_like

if TYPE_CHECKING:
    from retrograd.core.annotations import Truth

__all__ = [
    "celu",
    "elu",
    "gumbel_softmax",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "rrelu",
    "rrelu_",
    "selu",
    "silu",
    "softmax",
    "softmin",
    "threshold",
]


F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def _overwriting(function: Any) -> Callable[..., Tensor]:
    """The form of an elementwise operation that writes its result over its input."""
    return calls.inplace(function.op, f"{function.op.name}_")


def _like(function: Any) -> Callable[[F], F]:
    """Give a function the docstring of the operation that it calls."""

    def document(wrapper: F) -> F:
        wrapper.__doc__ = function.__doc__
        return wrapper

    return document


@_like(ops.relu)
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    return ops.relu_(input) if inplace else ops.relu(input)


@_like(ops.relu6)
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    return _overwriting(ops.relu6)(input) if inplace else ops.relu6(input)


@_like(ops.hardtanh)
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val cannot be greater than max_val, but got {min_val} and {max_val}")
    return (ops.hardtanh_ if inplace else ops.hardtanh)(input, min_val, max_val)


@_like(ops.leaky_relu)
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return (ops.leaky_relu_ if inplace else ops.leaky_relu)(input, negative_slope)


@_like(ops.threshold)
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    return (ops.threshold_ if inplace else ops.threshold)(input, threshold, value)


@_like(ops.elu)
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return (ops.elu_ if inplace else ops.elu)(input, alpha)


@_like(ops.selu)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    return (ops.selu_ if inplace else ops.selu)(input)


@_like(ops.celu)
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return (ops.celu_ if inplace else ops.celu)(input, alpha)


@_like(ops.silu)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    return _overwriting(ops.silu)(input) if inplace else ops.silu(input)


@_like(ops.mish)
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    return _overwriting(ops.mish)(input) if inplace else ops.mish(input)


@_like(ops.hardswish)
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    return _overwriting(ops.hardswish)(input) if inplace else ops.hardswish(input)


@_like(ops.hardsigmoid)
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    return _overwriting(ops.hardsigmoid)(input) if inplace else ops.hardsigmoid(input)


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Return ``input`` where it is positive, elsewhere times a random slope (Xu et al., 2015).

    Parameters
    ----------
    lower, upper
        The slopes are uniform on this interval; outside of training, all are its middle.

    Raises
    ------
    RuntimeError
        If ``lower`` is above ``upper``.
    """
    if lower > upper:
        raise RuntimeError(
            f"rrelu: lower bound should be less than or equal to the upper bound, got [{lower}, {upper}]"
        )
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = rand_like(input, requires_grad=False) * (upper - lower) + lower
    if inplace:
        return input.mul_(where(input.detach() > 0, 1.0, slope).to(input.dtype))
    return where(input > 0, input, input * slope)


def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """In-place form of :func:`rrelu`."""
    return rrelu(input, lower, upper, training, inplace=True)


# --- softmax ----------------------------------------------------------------------------------------------------------


def _implied_dim(name: str, input: Tensor, dim: int | None) -> int:
    """The dimension used where none is given: torch's old default, with its warning."""
    if dim is not None:
        return dim  # the operation looks at the input
    check_tensors(name, input=input)
    guess = 0 if input.ndim in (0, 1, 3) else 1
    warn_user(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim={guess} as an "
        "argument."
    )
    return guess


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return ``exp(input)``, scaled so that it sums to 1 along ``dim``; ``dtype`` converts the input first."""
    return ops.softmax(input, _implied_dim("softmax", input, dim), dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return ``softmax(-input, dim)``."""
    return ops.softmin(input, _implied_dim("softmin", input, dim), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return ``log(softmax(input, dim))``, without overflow or loss of small probabilities."""
    return ops.log_softmax(input, _implied_dim("log_softmax", input, dim), dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: Truth = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Return samples from the Gumbel-softmax distribution (Jang, Gu, Poole, 2017).

    Parameters
    ----------
    logits
        Unnormalised logarithms of probabilities.
    tau
        The temperature.
    hard
        Return one-hot vectors, whose gradient is that of the soft samples.
    eps
        Without effect, as in torch.
    dim
        The dimension of the classes.
    """
    check_tensors("gumbel_softmax", logits=logits)
    noise = -logits.detach().clone().exponential_().log()
    soft = ops.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one_hot = logits.new_zeros(logits.shape).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
