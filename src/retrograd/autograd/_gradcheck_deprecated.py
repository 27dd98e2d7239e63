"""Jacobians as torch's deprecated public functions return them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.autograd._gradcheck_point import (
    Point,
    as_tuple,
    like,
    numerical_jacobians,
    of_part,
    reverse_jacobians,
    vjp,
)
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor, wrap


def get_numerical_jacobian(
    fn: Callable[[tuple[Any, ...]], Any], inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0
) -> tuple[Tensor, ...]:
    """Return the Jacobians of the first output of ``fn`` by central differences. Deprecated, as in torch.

    Parameters
    ----------
    fn
        A function of one argument, the tuple of all inputs.
    inputs
        That tuple.
    target
        The tensors to differentiate with respect to, where they require grad; ``inputs`` by default.
    eps
        The step.
    grad_out
        Must be 1.

    Returns
    -------
    tuple of Tensor
        Matrices with a row for every element of a target and a column for every element of the output.
    """
    _deprecated("get_numerical_jacobian", grad_out)
    inputs = as_tuple(inputs)
    output = as_tuple(fn(inputs))[0]
    _refuse_complex("get_numerical_jacobian", output)
    leaves = _leaves(inputs if target is None else target)
    point = Point(lambda _: fn(inputs), (inputs,), eps, dict(enumerate(leaves)), {0: output})
    return tuple(wrap(like(of_part(numerical_jacobians(point, leaf, [0])[0], 1), leaf)) for leaf in leaves)


def get_analytical_jacobian(
    inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """Return the Jacobians of ``output`` by backward, and whether backward behaves. Deprecated, as in torch.

    Returns
    -------
    jacobians : tuple of Tensor
        As from :func:`get_numerical_jacobian`.
    reentrant : bool
        Whether a second backward gave the same within ``nondet_tol``.
    correct_grad_sizes, correct_grad_types : bool
        Whether the gradients have the shapes and dtypes of the inputs.
    """
    _deprecated("get_analytical_jacobian", grad_out)
    _refuse_complex("get_analytical_jacobian", output)
    leaves = _leaves(inputs)
    first, again = (reverse_jacobians(output, leaves, 1) for _ in range(2))
    reentrant = all(not np.any(np.abs(a - b) > nondet_tol) for a, b in zip(first, again, strict=True))
    grads = [
        (leaf, grad)
        for leaf, grad in zip(leaves, vjp([output], leaves, [np.ones(output.shape)]), strict=True)
        if grad is not None
    ]
    return (
        tuple(wrap(like(matrix, leaf)) for matrix, leaf in zip(first, leaves, strict=True)),
        reentrant,
        all(grad.shape == leaf.shape for leaf, grad in grads),
        all(grad.dtype == leaf.dtype for leaf, grad in grads),
    )


def _leaves(tensors: Any) -> list[Tensor]:
    return [x for x in as_tuple(tensors) if isinstance(x, Tensor) and x.requires_grad]


def _deprecated(name: str, grad_out: float) -> None:
    warn_user(
        f"`{name}` is deprecated, as it is in torch. Use `gradcheck` to compare derivatives, and "
        "`autograd.functional.jacobian` to compute them.",
        FutureWarning,
    )
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0.")


def _refuse_complex(name: str, output: Tensor) -> None:
    if output.is_complex():
        raise ValueError(
            f"Expected output to be non-complex. {name} no longer supports functions that return complex outputs."
        )
