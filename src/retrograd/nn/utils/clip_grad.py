"""Limits for gradients."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.creation import tensor
from retrograd.ops.joining import stack
from retrograd.ops.linalg_norms import vector_norm

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensors = Tensor | Iterable[Tensor]


def _listed(name: str, tensors: Tensors) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        return [tensors]
    if hasattr(tensors, "parameters"):
        raise TypeError(f"{name}: expected tensors, but got {type(tensors).__name__}; pass its parameters()")
    found = list(tensors)
    if not found and isinstance(tensors, types.GeneratorType):
        warn_user(f"{name}: `parameters` is an empty generator, no gradient clipping will occur; was it used before?")
    return found


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Return the norm of all elements of all tensors together.

    Parameters
    ----------
    tensors
        One tensor or several.
    norm_type
        The order; ``inf`` for the largest absolute value.
    error_if_nonfinite
        Raise if the norm is NaN or infinite.
    foreach
        Accepted for compatibility.

    Raises
    ------
    RuntimeError
        If the norm is not finite, and ``error_if_nonfinite``.

    Examples
    --------
    >>> rg.nn.utils.get_total_norm([rg.tensor([3.0]), rg.tensor([4.0])])
    tensor(5.)
    """
    found = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    order = float(norm_type)
    if not found:
        return tensor(0.0)
    norms = [vector_norm(item.detach(), order) for item in found]
    total = vector_norm(stack([norm.to(norms[0].device) for norm in norms]), order)
    if error_if_nonfinite and not math.isfinite(total.item()):
        worst = [number for number, norm in enumerate(norms) if not math.isfinite(norm.item())]
        where = f" (not finite: the gradients number {', '.join(map(str, worst[:10]))})" if worst else ""
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be "
            f"clipped{where}. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients, in place, by ``max_norm / total_norm``, where that is below 1.

    Parameters
    ----------
    parameters
        The tensors whose ``.grad`` it is about.
    max_norm
        What the norm is scaled to.
    total_norm
        What :func:`get_total_norm` returned.
    foreach
        Accepted for compatibility.
    """
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for parameter in _listed("clip_grads_with_norm_", parameters):
        if parameter.grad is not None:
            parameter.grad.mul_(factor.to(parameter.grad.dtype))


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients, in place, so that their norm is at most ``max_norm``; return what it was before.

    Parameters
    ----------
    parameters
        The tensors whose ``.grad`` it is about.
    max_norm
        The largest norm.
    norm_type
        The order; ``inf`` for the largest absolute value.
    error_if_nonfinite
        Raise if the norm is NaN or infinite, before anything is written; otherwise all gradients become NaN or 0.
    foreach
        Accepted for compatibility.

    Raises
    ------
    RuntimeError
        If the norm is not finite, and ``error_if_nonfinite``.

    Examples
    --------
    >>> w = rg.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> rg.nn.utils.clip_grad_norm_(w, max_norm=1.0)
    tensor(10.)
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    found = _listed("clip_grad_norm_", parameters)
    grads = [parameter.grad for parameter in found if parameter.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(found, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Do as :func:`clip_grad_norm_`, with a warning to use that."""
    warn_user("`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.", FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp every element of gradients, in place, to ``[-clip_value, clip_value]``.

    Parameters
    ----------
    parameters
        The tensors whose ``.grad`` it is about.
    clip_value
        The largest absolute value.
    foreach
        Accepted for compatibility.
    """
    limit = float(clip_value)
    for parameter in _listed("clip_grad_value_", parameters):
        if parameter.grad is not None:
            parameter.grad.clamp_(min=-limit, max=limit)
