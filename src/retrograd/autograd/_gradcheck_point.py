"""A function at a point, and its derivatives there by differences, in reverse mode and in forward mode.

A Jacobian is a matrix with a row for every element of an input and a column for every element of an output. Steps of
a complex input and parts of a complex output are told apart by a *unit*: 1 is real, 1j imaginary. Everything here is a
plain NumPy array on the host, in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from retrograd.autograd import forward_ad
from retrograd.core.tensor import Tensor, wrap

Array = np.ndarray
Matrices = dict[complex, Array]  # for every unit of the input


@dataclass(frozen=True)
class Point:
    """What is checked, and where.

    Parameters
    ----------
    func
        The function, of all of ``inputs``.
    inputs
        Its arguments.
    eps
        The step of the differences.
    leaves
        The differentiable ones among the inputs, by position.
    outputs
        The differentiable outputs, by position, with their graph.
    constant
        Positions of the floating point and complex outputs that do not require grad.
    note
        Returns what to add to a report about an output and an input, given their positions.
    """

    func: Callable[..., Any]
    inputs: tuple[Any, ...]
    eps: float
    leaves: Mapping[int, Tensor]
    outputs: Mapping[int, Tensor]
    constant: tuple[int, ...] = ()
    note: Callable[[int, int], str] | None = None


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Arguments or results as a tuple; a single one need not be in one."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def point_of(
    func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, note: Callable[[int, int], str] | None = None
) -> Point:
    """Evaluate the function and see what there is to check."""
    if not eps > 0:
        raise ValueError(f"eps, the step of the finite differences, must be positive, but is {eps}")
    outputs = as_tuple(func(*inputs))
    for position, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            raise TypeError(
                f"func must return a Tensor or a tuple of Tensors, but output {position} is of type "
                f"{type(output).__name__}"
            )
    return Point(
        func,
        inputs,
        eps,
        {k: x for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad},
        {k: y for k, y in enumerate(outputs) if y.requires_grad},
        tuple(k for k, y in enumerate(outputs) if not y.requires_grad and y._data.dtype.kind in "fc"),
        note,
    )


def units(tensor: Tensor) -> tuple[complex, ...]:
    """The directions in which an element can be displaced: 1, and 1j for complex tensors."""
    return (1j, 1) if tensor.is_complex() else (1,)


def part(values: Array, unit: complex) -> Array:
    """The real or the imaginary part."""
    return values.imag if unit == 1j else values.real


def double(tensor: Tensor) -> Array:
    """A copy of the values in double precision."""
    return tensor.numpy(force=True).astype(np.complex128 if tensor.is_complex() else np.float64)


def like(values: Any, tensor: Tensor) -> Array:
    """The values on the tensor's device, in its dtype."""
    return np.asarray(values, dtype=tensor._data.dtype, like=tensor._data)


# --- by differences -----------------------------------------------------------------------------------------------


@contextmanager
def displaced(tensor: Tensor, where: Any, by: Any) -> Iterator[None]:
    """A block in which elements of a tensor are displaced.

    The tensor itself is written to, bypassing its version, so that a function sees the step even if it does not use its
    arguments but, say, a module's parameters.
    """
    data = tensor._data
    original = data[where].copy()
    data[where] = original + like(by, tensor)
    try:
        yield
    finally:
        data[where] = original


def values(point: Point, positions: Sequence[int]) -> list[Array]:
    """Some outputs of the function for the current values of its inputs."""
    return [value for value, _ in _values_with_dtypes(point, positions)]


def _values_with_dtypes(point: Point, positions: Sequence[int]) -> list[tuple[Array, Any]]:
    outputs = as_tuple(point.func(*point.inputs))
    return [(double(outputs[k]), outputs[k].dtype) for k in positions]


def slopes(point: Point, leaf: Tensor, where: Any, direction: Any, positions: Sequence[int]) -> list[Array]:
    """Central differences of outputs along a direction of an input."""
    step = point.eps * direction
    with displaced(leaf, where, step):
        above = _values_with_dtypes(point, positions)
    with displaced(leaf, where, -step):
        below = _values_with_dtypes(point, positions)
    for (a, a_dtype), (b, b_dtype) in zip(above, below, strict=True):
        for what, one, other in (("shape", a.shape, b.shape), ("dtype", a_dtype, b_dtype)):
            if one != other:
                place = "" if where is ... else f" on index {where}"
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs are perturbed{place} by "
                    f"{point.eps}, but got: {what}s {one} and {other}."
                )
    with np.errstate(all="ignore"):  # infinities give nan, which agrees with nothing
        return [(a - b) / (2 * point.eps) for (a, _), (b, _) in zip(above, below, strict=True)]


def numerical_jacobians(point: Point, leaf: Tensor, positions: Sequence[int]) -> dict[int, Matrices]:
    """The Jacobians of outputs with respect to one input, by their positions."""
    rows: dict[complex, list[list[Array]]] = {
        unit: [slopes(point, leaf, where, unit, positions) for where in np.ndindex(tuple(leaf.shape))]
        for unit in units(leaf)
    }
    return _matrices(point, rows, positions)


def _matrices(point: Point, rows: dict[complex, list[list[Array]]], positions: Sequence[int]) -> dict[int, Matrices]:
    return {
        position: {
            unit: _matrix([row[k] for row in table], point.outputs[position].numel()) for unit, table in rows.items()
        }
        for k, position in enumerate(positions)
    }


def _matrix(rows: list[Array], width: int) -> Array:
    return np.stack([row.ravel() for row in rows]) if rows else np.zeros((0, width))


def of_part(matrices: Matrices, unit: complex) -> Array:
    """The gradients of the real or imaginary part of the outputs, complex for complex inputs, in torch's convention."""
    real = part(matrices[1], unit)
    return real + 1j * part(matrices[1j], unit) if 1j in matrices else real


# --- in reverse ---------------------------------------------------------------------------------------------------


def vjp(outputs: Sequence[Tensor], leaves: Sequence[Tensor], vectors: Sequence[Any]) -> list[Tensor | None]:
    """Vector-Jacobian products; None where an input is not used."""
    from retrograd.autograd import grad  # the package imports this module

    grads = [wrap(like(vector, output)) for vector, output in zip(vectors, outputs, strict=True)]
    return list(grad(outputs, leaves, grads, retain_graph=True, allow_unused=True))


def gradient_arrays(leaves: Sequence[Tensor], grads: Sequence[Tensor | None]) -> list[Array]:
    """Gradients as arrays, zeros for None."""
    return [
        np.zeros(leaf.shape, np.complex128 if leaf.is_complex() else np.float64) if grad is None else double(grad)
        for leaf, grad in zip(leaves, grads, strict=True)
    ]


def reverse_jacobians(output: Tensor, leaves: Sequence[Tensor], unit: complex) -> list[Array]:
    """The Jacobians of the real or imaginary part of one output with respect to inputs."""
    columns: list[list[Array]] = []
    for where in np.ndindex(tuple(output.shape)):
        vector = np.zeros(output.shape, output._data.dtype)
        vector[where] = unit
        columns.append(gradient_arrays(leaves, vjp([output], leaves, [vector])))
    return [_matrix([column[k] for column in columns], leaf.numel()).T for k, leaf in enumerate(leaves)]


# --- forward ------------------------------------------------------------------------------------------------------


def tangents_of(point: Point, tangents: Mapping[int, Tensor], positions: Sequence[int]) -> list[Tensor]:
    """Jacobian-vector products; inputs that are not in ``tangents`` have none, outputs without one have zeros."""
    with forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(value, tangents[k]) if k in tangents else value for k, value in enumerate(point.inputs)
        ]
        outputs = as_tuple(point.func(*duals))
        found = [forward_ad.unpack_dual(outputs[k]).tangent for k in positions]
        return [
            wrap(like(np.zeros(outputs[k].shape), outputs[k])) if tangent is None else tangent
            for k, tangent in zip(positions, found, strict=True)
        ]


def jvp(point: Point, tangents: Mapping[int, Any], positions: Sequence[int]) -> list[Array]:
    """As :func:`tangents_of`, but the results are arrays."""
    given = {k: wrap(like(tangent, point.leaves[k])) for k, tangent in tangents.items()}
    return [double(tangent) for tangent in tangents_of(point, given, positions)]


def zero_tangents(point: Point) -> dict[int, Array]:
    """A tangent of zeros for every differentiable input."""
    return {k: np.zeros(leaf.shape) for k, leaf in point.leaves.items()}


def forward_jacobians(point: Point, position: int, positions: Sequence[int]) -> dict[int, Matrices]:
    """As :func:`numerical_jacobians`, from tangents."""
    leaf = point.leaves[position]
    still = zero_tangents(point)
    rows: dict[complex, list[list[Array]]] = {}
    for unit in units(leaf):
        rows[unit] = []
        for where in np.ndindex(tuple(leaf.shape)):
            tangent = np.zeros(leaf.shape, leaf._data.dtype)
            tangent[where] = unit
            rows[unit].append(jvp(point, {**still, position: tangent}, positions))
    return _matrices(point, rows, positions)
