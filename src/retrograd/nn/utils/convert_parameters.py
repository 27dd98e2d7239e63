"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from retrograd.core.tensor import Tensor
from retrograd.ops.joining import cat

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the elements of all parameters as one vector, through which gradients flow.

    Examples
    --------
    >>> rg.nn.utils.parameters_to_vector(rg.nn.Linear(2, 3).parameters()).shape
    retrograd.Size([9])
    """
    return cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make slices of a vector, such as :func:`parameters_to_vector` returns, the data of parameters.

    Parameters
    ----------
    vec
        The vector; the parameters share its memory.
    parameters
        The parameters, in the order of their elements.

    Raises
    ------
    TypeError
        If ``vec`` is not a tensor.
    RuntimeError
        If it has fewer elements than the parameters.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected a Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        if end > vec.numel():
            raise RuntimeError(
                f"vector_to_parameters: a vector of {vec.numel()} elements is too short for the parameters: the one of "
                f"shape {list(parameter.shape)} begins at element {start}"
            )
        parameter.data = vec[start:end].reshape(parameter.shape).data
        start = end
