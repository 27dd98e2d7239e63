"""The course of a check, and the gradient of a function as a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from retrograd.autograd._gradcheck_modes import SEED, direction, fast, slow, unexpected_slopes, wrong_dtypes
from retrograd.autograd._gradcheck_point import Point, as_tuple, like
from retrograd.autograd._gradcheck_properties import (
    batched_gradients,
    batched_tangents,
    undefined_gradients,
    undefined_tangents,
    zeros_for_zeros,
)
from retrograd.autograd._gradcheck_report import Tolerance
from retrograd.core.tensor import Tensor, wrap


def failures(
    point: Point,
    tolerance: Tolerance,
    *,
    undefined: bool,
    dtypes: bool,
    batched: bool,
    forward: bool,
    backward: bool,
    fast_mode: bool,
    batched_forward: bool = False,
) -> Iterator[str]:
    """The failures, found lazily, one at a time."""
    if not point.outputs:
        yield from unexpected_slopes(point, fast_mode=fast_mode)
        return
    yield from (fast if fast_mode else slow)(point, tolerance, backward=backward, forward=forward)
    if backward:
        if dtypes:
            yield from wrong_dtypes(point)
        if batched:
            yield from batched_gradients(point)
        yield from zeros_for_zeros(point)
        if undefined:
            yield from undefined_gradients(point)
    if batched_forward:
        yield from batched_tangents(point)
    if forward and undefined:
        yield from undefined_tangents(point)


def random_gradients(outputs: list[Tensor], *, contiguous: bool) -> tuple[Tensor, ...]:
    """Output gradients with elements close to 1, the same in every run."""
    rng = np.random.default_rng(SEED)
    found = []
    for output in outputs:
        values = direction(rng, output) * output.numel() ** 0.5
        if not contiguous and values.ndim:
            values = np.repeat(values, 2, axis=-1)[..., ::2]
        found.append(wrap(like(values, output)).requires_grad_())
    return tuple(found)


def gradient_of(
    func: Callable[..., Any], inputs: tuple[Any, ...]
) -> tuple[Callable[..., tuple[Tensor, ...]], Callable[[int, int], str]]:
    """The gradient of ``func`` as a function of its inputs and output gradients, and a note on it for reports."""
    from retrograd.autograd import grad  # the package imports this module

    count = len(inputs)
    of: list[int] = []  # the inputs that have a gradient

    def gradient(*args: Any) -> tuple[Tensor, ...]:
        outputs = [y for y in as_tuple(func(*args[:count])) if isinstance(y, Tensor) and y.requires_grad]
        leaves = {k: x for k, x in enumerate(args[:count]) if isinstance(x, Tensor) and x.requires_grad}
        grads = grad(outputs, list(leaves.values()), args[count:], create_graph=True, allow_unused=True)
        found = {k: result for k, result in zip(leaves, grads, strict=True) if result is not None}
        of[:] = found
        return tuple(found.values())

    def note(output: int, input: int) -> str:
        name = f"input {input} of func" if input < count else f"grad_outputs[{input - count}]"
        return (
            f"This is a second derivative: output {output} is the gradient of func with respect to its input "
            f"{of[output]}, input {input} is {name}."
        )

    return gradient, note
