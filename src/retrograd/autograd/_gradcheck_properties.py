"""What a derivative must satisfy besides having the right values: zeros for zeros, undefined gradients, batches.

Each check yields a report for everything it finds wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from retrograd.autograd._gradcheck_modes import SEED, direction
from retrograd.autograd._gradcheck_point import (
    Array,
    Point,
    double,
    gradient_arrays,
    jvp,
    like,
    tangents_of,
    vjp,
    zero_tangents,
)
from retrograd.autograd.function import Function
from retrograd.core.errors import is_torchs, kind_name
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor, wrap

UNDEFINED_RAISED = (
    "Expected backward function to handle undefined output grads. It raised {error}\nNo gradient reached {missing}. In "
    "a Function with set_materialize_grads(False), backward then gets None for it, which means zeros."
)
UNDEFINED_NONZERO = (
    "Expected all input grads to be undefined or zero when all output grads are undefined or zero. The gradient of "
    "input {input} is not zero although no gradient reached {missing}.\nIn a Function with "
    "set_materialize_grads(False), backward gets None for these outputs, which means zeros."
)
BATCH_RAISED = "While computing batched gradients, got: {error}\n{advice}"
BATCH_DIFFERS = (
    "For output {output} and input {input}: batched {what} differ from those computed one at a time\n"
    "Got:\n{got!r}\n\nExpected:\n{expected!r}\n\n{advice}"
)
BATCHED_GRADIENTS = (
    "backward must accept a batch of gradients (autograd.grad with is_grads_batched=True) and treat its entries "
    "independently. If it should not have to, pass check_batched_grad=False."
)
BATCHED_TANGENTS = (
    "Forward mode must accept a batch of tangents (vmap over a function that uses make_dual) and treat its entries "
    "independently. If it should not have to, pass check_batched_forward_grad=False."
)
TANGENT_DIFFERS = (
    "Mismatch in tangent values for output with index: {output} when input: {input} is the only one with a tangent. "
    "Got: {got!r} but expected: {expected!r}, which is what zeros for the other tangents give.\nIn a Function with "
    "set_materialize_grads(False), jvp gets None for inputs without a tangent, which means zeros."
)


def check_inputs(inputs: Sequence[Any]) -> None:
    """Reject inputs that cannot be checked and warn about those that cannot be checked reliably.

    Raises
    ------
    ValueError
        If no input requires grad.
    RuntimeError
        If elements of an input share memory, or if it cannot be written to.
    """
    found = False
    for position, tensor in enumerate(inputs):
        if not isinstance(tensor, Tensor) or not tensor.requires_grad:
            continue
        found = True
        data = tensor._data
        if np.finfo(data.dtype).bits != 64:
            warn_user(
                f"Input #{position} requires gradient and is not a double precision floating point or complex. "
                "This check will likely fail if all the inputs are not of double precision floating point or complex. "
            )
        if data.size and any(step == 0 and size > 1 for step, size in zip(data.strides, data.shape, strict=True)):
            raise RuntimeError(
                f"The {position}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                ".contiguous on the input before passing it to gradcheck."
            )
        if _overlaps(data):
            raise RuntimeError(
                f"The {position}th input has elements that share memory. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                ".clone() on the input before passing it to gradcheck."
            )
        if not getattr(data.flags, "writeable", True):
            raise RuntimeError(
                f"The {position}th input is in read-only memory. gradcheck moves the elements of its inputs to compute "
                "the numerical gradients. You should call .clone() on the input before passing it to gradcheck."
            )
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
            f"{''.join(map(_of_an_array, inputs[:1]))}"
        )


def _of_an_array(value: Any) -> str:
    if not (isinstance(value, (np.ndarray, np.generic, list, int, float)) or is_torchs(value)):
        return ""
    return f" The first is a {kind_name(value)}: convert it with retrograd.tensor(value, requires_grad=True)."


def _overlaps(data: Any) -> bool:
    """Whether two elements of an array have the same address."""
    offsets = np.zeros((), np.int64)
    for size, step in zip(data.shape, data.strides, strict=True):
        offsets = offsets[..., None] + np.arange(size) * step
    return np.unique(offsets).size != offsets.size


def zeros_for_zeros(point: Point) -> Iterator[str]:
    """Gradients are products with the incoming gradient, so that zeros give zeros."""
    outputs = list(point.outputs.values())
    leaves = list(point.leaves.values())
    grads = vjp(outputs, leaves, [np.zeros(output.shape) for output in outputs])
    for position, gradient in zip(point.leaves, gradient_arrays(leaves, grads), strict=True):
        if np.any(gradient != 0):
            yield (
                "backward not multiplied by grad_output\n"
                f"The gradient of input {position} is not zero for output gradients of zero."
            )


class _Undefined(Function):
    """The identity, which lets no gradient through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> None:
        return None


def undefined_gradients(point: Point) -> Iterator[str]:
    """Undefined gradients, of all outputs or of one among zeros, give zeros or nothing."""
    outputs = list(point.outputs.items())
    missing: list[tuple[int, ...]] = [tuple(k for k, _ in outputs)]
    if len(outputs) > 1:
        missing += [(k,) for k, _ in outputs]
    leaves = list(point.leaves.values())
    for chosen in missing:
        name = "output " + " and ".join(map(str, chosen)) if len(chosen) == 1 else "any output"
        ends = [_Undefined.apply(output) if k in chosen else output for k, output in outputs]
        try:
            grads = vjp(ends, leaves, [np.zeros(output.shape) for _, output in outputs])
        except RuntimeError as error:
            yield UNDEFINED_RAISED.format(error=f"{type(error).__name__}: {error}", missing=name)
            continue
        for position, gradient in zip(point.leaves, gradient_arrays(leaves, grads), strict=True):
            if np.any(gradient != 0):
                yield UNDEFINED_NONZERO.format(input=position, missing=name)


def undefined_tangents(point: Point) -> Iterator[str]:
    """Inputs without a tangent count as inputs whose tangent is zero."""
    rng = np.random.default_rng(SEED)
    outputs = list(point.outputs)
    still = zero_tangents(point)
    for i, leaf in point.leaves.items():
        tangent = direction(rng, leaf)
        alone = jvp(point, {i: tangent}, outputs)
        among_zeros = jvp(point, {**still, i: tangent}, outputs)
        for o, got, expected in zip(outputs, alone, among_zeros, strict=True):
            if not np.allclose(got, expected, equal_nan=True):
                yield TANGENT_DIFFERS.format(output=o, input=i, got=wrap(got), expected=wrap(expected))


def batched_gradients(point: Point) -> Iterator[str]:
    """A batch of gradients gives what its entries give one at a time."""
    from retrograd.autograd import grad  # the package imports this module

    rng = np.random.default_rng(SEED)
    leaves = list(point.leaves.values())
    for o, output in point.outputs.items():
        batch: Array = np.stack([direction(rng, output) for _ in range(2)])
        single = [gradient_arrays(leaves, vjp([output], leaves, [entry])) for entry in batch]
        try:
            grads = grad(
                [output],
                leaves,
                [wrap(like(batch, output))],
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=True,
            )
        except RuntimeError as error:
            yield BATCH_RAISED.format(error=error, advice=BATCHED_GRADIENTS)
            continue
        for k, (i, gradient) in enumerate(zip(point.leaves, grads, strict=True)):
            expected = np.stack([entry[k] for entry in single])
            got = np.zeros_like(expected) if gradient is None else double(gradient)
            yield from _compare_batch(o, i, "gradients", got, expected, BATCHED_GRADIENTS)


def batched_tangents(point: Point) -> Iterator[str]:
    """A batch of tangents gives what its entries give one at a time."""
    from retrograd.vectorize import vmap  # not needed otherwise

    rng = np.random.default_rng(SEED)
    outputs = list(point.outputs)
    still = zero_tangents(point)
    for i, leaf in point.leaves.items():
        batch: Array = np.stack([direction(rng, leaf) for _ in range(2)])
        single = [jvp(point, {**still, i: entry}, outputs) for entry in batch]
        zeros = {k: wrap(like(zero, point.leaves[k])) for k, zero in still.items()}

        def product(tangent: Tensor, i: int = i, zeros: dict[int, Tensor] = zeros) -> tuple[Tensor, ...]:
            return tuple(tangents_of(point, {**zeros, i: tangent}, outputs))

        try:
            batched = vmap(product)(wrap(like(batch, leaf)))
        except RuntimeError as error:
            yield BATCH_RAISED.format(error=error, advice=BATCHED_TANGENTS)
            continue
        for k, (o, tangent) in enumerate(zip(outputs, batched, strict=True)):
            expected = np.stack([entry[k] for entry in single])
            yield from _compare_batch(o, i, "tangents", double(tangent), expected, BATCHED_TANGENTS)


def _compare_batch(output: int, input: int, what: str, got: Array, expected: Array, advice: str) -> Iterator[str]:
    if got.shape != expected.shape or not np.allclose(got, expected, equal_nan=True):
        yield BATCH_DIFFERS.format(
            output=output, input=input, what=what, got=wrap(got), expected=wrap(expected), advice=advice
        )
