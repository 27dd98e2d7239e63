"""The two ways to compare derivatives: every entry of the Jacobians (slow), or one random projection of each (fast).

Both yield a report for every disagreement that they find, the most informative first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from retrograd.autograd._gradcheck_point import (
    Array,
    Point,
    forward_jacobians,
    gradient_arrays,
    jvp,
    numerical_jacobians,
    of_part,
    reverse_jacobians,
    slopes,
    units,
    vjp,
    zero_tangents,
)
from retrograd.autograd._gradcheck_report import Pair, Tolerance, difference, pair
from retrograd.core.tensor import Tensor

SEED = 0  # the projections are the same in every run

NOT_REENTRANT = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
    "values, although analytical gradient matches numerical gradient.The tolerance for nondeterminism was "
    "{tolerance}.\nThe gradient of output {output} with respect to input {input} differed by {distance:.3g} between "
    "two runs. Look for random numbers in backward, and for state that it changes; if some noise is expected, pass "
    "nondet_tol."
)

DTYPE = (
    "Gradient has dtype mismatch: the gradient of output {output} with respect to input {input} is {found}, but the "
    "input is {expected}"
)


def slow(
    point: Point,
    tolerance: Tolerance,
    *,
    backward: bool,
    forward: bool,
    inputs: Sequence[int] | None = None,
    outputs: Sequence[int] | None = None,
) -> Iterator[str]:
    """Compare entry by entry; of all inputs and outputs, unless some are named."""
    inputs = list(point.leaves) if inputs is None else inputs
    outputs = list(point.outputs) if outputs is None else outputs
    numerical = {i: numerical_jacobians(point, point.leaves[i], outputs) for i in inputs}
    leaves = [point.leaves[i] for i in inputs]
    for o in outputs if backward else ():
        for unit in units(point.outputs[o]):
            first = reverse_jacobians(point.outputs[o], leaves, unit)
            for i, analytical in zip(inputs, first, strict=True):
                which = pair(point, o, i, unit, forward=False)
                yield from _some(difference(point, which, tolerance, of_part(numerical[i][o], unit), analytical))
            again = reverse_jacobians(point.outputs[o], leaves, unit)
            yield from _not_reentrant(o, inputs, first, again, tolerance)
    for i in inputs if forward else ():
        tangents = forward_jacobians(point, i, outputs)
        for o in outputs:
            for unit, analytical in tangents[o].items():
                which = pair(point, o, i, unit, forward=True)
                yield from _some(difference(point, which, tolerance, numerical[i][o][unit], analytical))


def fast(point: Point, tolerance: Tolerance, *, backward: bool, forward: bool) -> Iterator[str]:
    """Compare ``v · J u`` for a random direction ``u`` of every input and ``v`` of every output, both of length 1.

    Two evaluations of the function for every input and two backward passes for every output, however large they are.
    A disagreement is looked at again in slow mode, which says where it is.
    """
    rng = np.random.default_rng(SEED)
    u = {i: direction(rng, leaf) for i, leaf in point.leaves.items()}
    v = {o: direction(rng, output) for o, output in point.outputs.items()}
    outputs = list(point.outputs)
    leaves = list(point.leaves.values())
    numerical = {
        i: dict(zip(outputs, slopes(point, leaf, ..., u[i], outputs), strict=True)) for i, leaf in point.leaves.items()
    }
    for o in outputs if backward else ():
        first, again = (gradient_arrays(leaves, vjp([point.outputs[o]], leaves, [v[o]])) for _ in range(2))
        for i, gradient in zip(point.leaves, first, strict=True):
            expected, found = inner(v[o], numerical[i][o]), inner(u[i], gradient)
            # what is allowed for every entry, summed over the entries
            room = tolerance._replace(atol=tolerance.atol * np.abs(v[o]).sum() * np.abs(u[i]).sum())
            if room.excess(expected, found).any():
                yield _explained(point, o, i, tolerance, expected, found, forward=False)
        yield from _not_reentrant(o, list(point.leaves), first, again, tolerance)
    still = zero_tangents(point)
    for i in point.leaves if forward else ():
        room = tolerance._replace(atol=tolerance.atol * np.abs(u[i]).sum())
        for o, tangent in zip(outputs, jvp(point, {**still, i: u[i]}, outputs), strict=True):
            if room.excess(numerical[i][o], tangent).any():
                expected, found = inner(v[o], numerical[i][o]), inner(v[o], tangent)
                yield _explained(point, o, i, tolerance, expected, found, forward=True)


def direction(rng: np.random.Generator, tensor: Tensor) -> Array:
    """A random direction of length 1, complex for complex tensors."""
    values = rng.normal(size=tensor.shape)
    if tensor.is_complex():
        values = values + 1j * rng.normal(size=tensor.shape)
    return np.asarray(values / max(float(np.linalg.norm(values)), 1e-300))


def inner(a: Array, b: Array) -> float:
    """The real inner product, for which gradients in torch's convention are gradients for complex numbers, too."""
    return float(np.vdot(a, b).real)


def _explained(
    point: Point, o: int, i: int, tolerance: Tolerance, expected: float, found: float, *, forward: bool
) -> str:
    """Slow mode's report of what fast mode noticed."""
    noticed = f"a random projection of this Jacobian gave numerical {expected:.6g}, analytical {found:.6g}"
    report = next(slow(point, tolerance, backward=not forward, forward=forward, inputs=[i], outputs=[o]), None)
    if report is not None:
        return f"{report}\nFast mode found this: {noticed}. The matrices above were computed in slow mode afterwards."
    which: Pair = pair(point, o, i, 1, forward=forward)
    return (
        f"{which.sentence}\nnumerical:{expected:.6g}\nanalytical:{found:.6g}\n\n"
        f"Fast gradcheck failed but element-wise differences are small: {noticed}, while every entry by itself is "
        f"within atol={tolerance.atol:g} and rtol={tolerance.rtol:g}. "
        "Use fast_mode=False here, or a larger rtol if the entries are close to the limit."
    )


def unexpected_slopes(point: Point, *, fast_mode: bool) -> Iterator[str]:
    """Outputs that change with an input although no gradient connects them."""
    rng = np.random.default_rng(SEED)
    for i, leaf in point.leaves.items() if point.constant else ():
        steps = (
            [(..., direction(rng, leaf))]
            if fast_mode
            else [(where, unit) for unit in units(leaf) for where in np.ndindex(tuple(leaf.shape))]
        )
        for where, step in steps:
            for o, slope in zip(point.constant, slopes(point, leaf, where, step, point.constant), strict=True):
                if np.any(slope != 0):
                    yield (
                        f"Numerical gradient for function expected to be zero\nNo output requires grad, but output {o} "
                        f"changes with input {i} (slope {np.abs(slope).max():.6g}). Was it computed under no_grad, "
                        "from detach() or .data, or through a NumPy array?"
                    )


def wrong_dtypes(point: Point) -> Iterator[str]:
    """Gradients whose dtype is not their input's."""
    leaves = list(point.leaves.values())
    for o, output in point.outputs.items():
        for (i, leaf), grad in zip(point.leaves.items(), vjp([output], leaves, [np.ones(output.shape)]), strict=True):
            if grad is not None and grad.dtype != leaf.dtype:
                yield DTYPE.format(output=o, input=i, found=grad.dtype, expected=leaf.dtype)


def _not_reentrant(
    output: int, inputs: Sequence[int], first: Sequence[Array], again: Sequence[Array], tolerance: Tolerance
) -> Iterator[str]:
    for i, a, b in zip(inputs, first, again, strict=True):
        with np.errstate(invalid="ignore"):
            distance = np.abs(a - b)
        if np.any(distance > tolerance.nondet):
            largest = np.nanmax(distance)
            yield NOT_REENTRANT.format(tolerance=tolerance.nondet, output=output, input=i, distance=largest)


def _some(report: str | None) -> Iterator[str]:
    if report is not None:
        yield report
