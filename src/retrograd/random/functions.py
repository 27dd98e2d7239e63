"""Random tensors, and operations whose results are random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from retrograd.core.errors import no_tensor
from retrograd.core.in_place import write_out
from retrograd.core.op import op
from retrograd.core.record import apply, settle
from retrograd.core.registry import add_method, method
from retrograd.core.size import as_int
from retrograd.core.tensor import Tensor, wrap
from retrograd.creation.filled import empty_as, like
from retrograd.creation.options import Options, Request, ShapedOptions, as_real, as_shape, shape_of
from retrograd.dtypes import int64
from retrograd.ops._checks import check_flags
from retrograd.random.batched import with_room
from retrograd.random.generator import Generator, generator_of
from retrograd.random.in_place import (
    check_dtype,
    check_integers,
    deviation,
    fill_bernoulli,
    fill_integers,
    fill_normal,
    fill_uniform,
    largest_integer,
    module_of,
    no_gradient,
    scaled,
)

__all__ = [
    "bernoulli",
    "binomial",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
]

# --- random tensors -----------------------------------------------------------------------------------------------


def rand(*shape: int | Sequence[int], generator: Generator | None = None, **options: Unpack[ShapedOptions]) -> Tensor:
    """Return samples from the uniform distribution on [0, 1); see :func:`zeros` for the other arguments."""
    lengths = shape_of("rand", shape, options)
    request = Request("rand", options)
    return _filled(request, lambda xp: xp.empty(lengths, request.dtype), fill_uniform, generator)


def randn(*shape: int | Sequence[int], generator: Generator | None = None, **options: Unpack[ShapedOptions]) -> Tensor:
    """Return samples from the normal distribution of mean 0 and variance 1.

    In a complex dtype the real and the imaginary part have variance 1/2. See :func:`zeros` for the other arguments.
    """
    lengths = shape_of("randn", shape, options)
    request = Request("randn", options)
    return _filled(request, lambda xp: xp.empty(lengths, request.dtype), fill_normal, generator)


def rand_like(input: Tensor, *, generator: Generator | None = None, **options: Unpack[Options]) -> Tensor:
    """Return samples as :func:`rand` does, with the shape, dtype, device and order in memory of ``input``."""
    request = like("rand_like", input, options)
    return _filled(request, lambda xp: empty_as(xp, input, request), fill_uniform, generator)


def randn_like(input: Tensor, *, generator: Generator | None = None, **options: Unpack[Options]) -> Tensor:
    """Return samples as :func:`randn` does, with the shape, dtype, device and order in memory of ``input``."""
    request = like("randn_like", input, options)
    return _filled(request, lambda xp: empty_as(xp, input, request), fill_normal, generator)


def _filled(
    request: Request,
    empty: Callable[[Any], Any],
    fill: Callable[[Any, Generator], Any],
    generator: Generator | None,
) -> Tensor:
    """Samples written into the array that ``empty`` makes."""
    check_dtype(request.name, request.dtype, "fc")
    source = generator_of(request.name, generator)
    return request.make(lambda xp: fill(with_room(empty(xp)), source))


def randint(
    low: Any = None,
    high: Any = None,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    **options: Unpack[Options],
) -> Tensor:
    """Return integers from ``low`` (0 by default) up to ``high``, exclusive, all equally likely.

    The forms are ``randint(high, size)`` and ``randint(low, high, size)``; the dtype is int64 unless one is given.

    Raises
    ------
    RuntimeError
        If there are no integers between the bounds, or if the dtype does not have them all.
    """
    if size is None and isinstance(high, (tuple, list)):
        low, high, size = None, low, high
    if size is None:
        raise TypeError("randint() takes (high, size) or (low, high, size), and size is a tuple of ints")
    request = Request("randint", options, int64.numpy)
    lengths = as_shape("randint", size)
    return _filled_with_integers(request, lambda xp: xp.empty(lengths, request.dtype), low, high, generator)


def randint_like(
    input: Tensor, low: Any = None, high: Any = None, *, generator: Generator | None = None, **options: Unpack[Options]
) -> Tensor:
    """Return integers as :func:`randint` does, with the shape, dtype, device and order in memory of ``input``.

    The forms are ``randint_like(input, high)`` and ``randint_like(input, low, high)``.
    """
    request = like("randint_like", input, options)
    return _filled_with_integers(request, lambda xp: empty_as(xp, input, request), low, high, generator)


def _filled_with_integers(
    request: Request, empty: Callable[[Any], Any], low: Any, high: Any, generator: Generator | None
) -> Tensor:
    if high is None:
        low, high = None, low
    first = 0 if low is None else as_int(request.name, "low", low)
    end = as_int(request.name, "high", high)
    check_integers(request.name, request.dtype, first, end)
    source = generator_of(request.name, generator)
    return request.make(lambda xp: fill_integers(with_room(empty(xp)), first, end - 1, source))


def randperm(n: int, *, generator: Generator | None = None, **options: Unpack[Options]) -> Tensor:
    """Return the integers from 0 to ``n - 1`` in random order; the dtype is int64 unless one is given.

    Raises
    ------
    RuntimeError
        If ``n`` is negative, or if the dtype does not have all these integers.
    """
    request = Request("randperm", options, int64.numpy)
    length = as_int("randperm", "n", n)
    check_dtype("randperm", request.dtype, "iuf")
    if length < 0:
        raise RuntimeError(f"randperm(): Trying to create tensor with negative dimension {length}: [{length}]")
    if length - 1 > largest_integer(request.dtype):
        raise RuntimeError(f"randperm(): {request.dtype.name} cannot represent all integers below {length}")
    source = generator_of("randperm", generator)
    drawn = source.on(np).permutation(length).astype(request.dtype, copy=False)
    return request.make(lambda xp: drawn if xp is np else xp.asarray(drawn))


# --- random operations --------------------------------------------------------------------------------------------


def normal(
    mean: float | Tensor,
    std: float | Tensor = 1.0,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    **options: Unpack[Options],
) -> Tensor:
    """Return samples from normal distributions.

    The forms are ``normal(mean, std)``, where one or both are tensors, whose shapes are broadcast, and
    ``normal(mean, std, size)``, where both are numbers.

    Raises
    ------
    RuntimeError
        If a standard deviation is negative.
    """
    source = generator_of("normal", generator)
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        if size is not None or options.keys() - {"out"}:
            raise TypeError(
                "normal(): with tensors, the samples take their shape, dtype and device; omit size and these options"
            )
        mean = mean if isinstance(mean, Tensor) else as_real("normal", "mean", mean)
        std = std if isinstance(std, Tensor) else deviation("normal", std)
        return apply(_normal_around.op, [mean, std, source], options.get("out"))
    if size is None:
        raise TypeError("normal() takes tensors, or two numbers and a size: normal(mean, std, (2, 3))")
    center, spread = as_real("normal", "mean", mean), deviation("normal", std)
    request, shape = Request("normal", options), as_shape("normal", size)
    check_dtype("normal", request.dtype, "fc")
    return request.make(
        lambda xp: scaled(fill_normal(with_room(xp.empty(shape, request.dtype)), source), center, spread)
    )


@op(
    name="normal",
    node_name=lambda mean, std: f"NormalBackward{isinstance(mean, Tensor) + 2 * isinstance(std, Tensor)}",
    public=False,
    method=False,
    mean=no_gradient,
    std=no_gradient,
)
def _normal_around(mean, std, generator: Any):
    template = std if isinstance(mean, float) else mean
    check_dtype("normal", template.dtype, "fc")
    if not isinstance(std, float):
        if std.dtype.kind == "c":
            raise RuntimeError("normal expects standard deviation to be non-complex")
        check_dtype("normal", std.dtype, "f")
        if not (std >= 0).all():
            raise RuntimeError("normal expects all elements of std >= 0.0")
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    return scaled(fill_normal(with_room(np.empty_like(template, shape=shape)), generator), mean, std)


def bernoulli(
    input: Tensor,
    p: float | Tensor | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return 1 with the probabilities in ``input``, and 0 otherwise, in the dtype of ``input``.

    With ``p``, that is the probability, and only the shape and dtype of ``input`` count.

    Raises
    ------
    RuntimeError
        If a probability is not between 0 and 1.
    """
    probability = None if p is None else as_real("bernoulli", "p", p)
    return apply(_bernoulli.op, [input, probability, generator_of("bernoulli", generator)], out)


@op(name="bernoulli", public=False, method=False, input=no_gradient)
def _bernoulli(input, p: float | None, generator: Any):
    return fill_bernoulli(with_room(np.empty_like(input)), input if p is None else p, generator)


add_method("bernoulli", bernoulli)


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return samples from the Poisson distributions with the rates in ``input``, in its dtype.

    Raises
    ------
    RuntimeError
        If a rate is negative or too large.
    """
    return apply(_poisson.op, [input, generator_of("poisson", generator)])


@op(name="poisson", public=False, method=False, input=no_gradient)
def _poisson(input, generator: Any):
    check_dtype("poisson", input.dtype, "f")
    if not (input >= 0).all():
        raise RuntimeError("poisson: invalid Poisson rate, expected rate to be non-negative")
    rates = input.astype(np.float64, copy=False)
    return settle(generator.on(module_of(input)).poisson(rates)).astype(input.dtype)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Return how many of ``count`` trials succeed with the probabilities in ``prob``, in the dtype of ``count``.

    Raises
    ------
    RuntimeError
        If the dtypes differ.
    ValueError
        If they are not floating point.
    """
    for argument, value in (("count", count), ("prob", prob)):
        if not isinstance(value, Tensor):
            raise no_tensor("binomial", f"argument '{argument}'", value)
        if not value.is_floating_point():
            raise ValueError(f"binomial only supports floating-point dtypes for {argument}, got: {value.dtype.name}")
    if count.dtype != prob.dtype:
        raise RuntimeError(f"binomial: found dtype {prob.dtype.name} but expected {count.dtype.name}")
    return apply(_binomial.op, [count, prob, generator_of("binomial", generator)])


@op(name="binomial", public=False, method=False, count=no_gradient, prob=no_gradient)
def _binomial(count, prob, generator: Any):
    certain = (prob >= 1) | (count <= 0) | np.isnan(count) | np.isnan(prob)
    trials = np.where(certain, 0, count).astype(np.int64)
    drawn = generator.on(module_of(count)).binomial(trials, np.where(certain, 0, np.maximum(prob, 0)))
    beyond = np.where(np.isnan(prob), prob, np.maximum(count, 0))
    return np.where(certain, beyond, drawn).astype(count.dtype)


@method
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``num_samples`` indices into each row of ``input``, drawn with the weights in it.

    Parameters
    ----------
    input
        Weights, non-negative but not necessarily of sum 1: a vector or a matrix.
    replacement
        Whether the same index may be drawn from a row more than once.

    Raises
    ------
    RuntimeError
        If a row has negative, infinite or NaN weights or only zeros, or fewer weights than there are indices to be
        drawn without replacement.
    """
    if not isinstance(input, Tensor):
        raise no_tensor("multinomial", "argument 'input' (position 1)", input)
    check_flags("multinomial", replacement=replacement)
    weights, count = input._data, as_int("multinomial", "num_samples", num_samples)
    if out is not None and isinstance(out, Tensor) and out._data.dtype != np.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.name}")
    if weights.ndim not in (1, 2):
        raise RuntimeError(f"multinomial: prob_dist must be 1 or 2 dim, got shape {list(weights.shape)}")
    if weights.dtype.kind != "f":
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {weights.dtype.name}")
    if count <= 0:
        raise RuntimeError(f"multinomial: cannot sample n_sample <= 0 samples, got {count}")
    if not replacement and count > weights.shape[-1]:
        raise RuntimeError(
            f"multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement: "
            f"{count} > {weights.shape[-1]}"
        )
    weights = weights.astype(np.float64, copy=False)
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise RuntimeError("multinomial: probability tensor contains either `inf`, `nan` or element < 0")
    if not (weights.sum(-1) > 0).all():
        raise RuntimeError("multinomial: invalid multinomial distribution (sum of probabilities <= 0)")
    rng = generator_of("multinomial", generator).on(module_of(weights))
    draw = _indices_with_replacement if replacement and count > 1 else _indices_without_replacement
    indices = draw(weights, count, rng)
    return wrap(indices) if out is None else write_out("multinomial", out, indices)


def _indices_without_replacement(weights: Any, count: int, rng: Any) -> Any:
    """The first ``count`` arrivals, where index i arrives after an exponential time of rate ``weights[i]``.

    The first is i with probability proportional to its weight, and the rest follow as if it had never been present.
    """
    with np.errstate(divide="ignore"):
        arrival = rng.standard_exponential(weights.shape) / weights
    first = np.argpartition(arrival, count - 1, axis=-1)[..., :count]
    in_order = np.take_along_axis(arrival, first, -1).argsort(-1)
    return np.take_along_axis(first, in_order, -1)


def _indices_with_replacement(weights: Any, count: int, rng: Any) -> Any:
    """The cumulative distribution of every row, inverted at uniform numbers from (0, 1]."""
    rows = weights.reshape(-1, weights.shape[-1]).cumsum(-1)
    levels = (1 - rng.random((len(rows), count))) * rows[:, -1:]
    found = [np.searchsorted(row, level) for row, level in zip(rows, levels, strict=True)]
    indices = np.stack(found) if found else np.empty_like(levels, np.int64)
    return indices.reshape(*weights.shape[:-1], count)
