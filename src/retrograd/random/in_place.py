"""Samples written over arrays, and the methods that write them over tensors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.batching import BatchedArray
from retrograd.core.calls import inplace
from retrograd.core.op import op
from retrograd.core.registry import add_method
from retrograd.core.sites import warn_user
from retrograd.core.size import as_int
from retrograd.creation.options import NumpyDType, as_real
from retrograd.device import array_module
from retrograd.device import device as _device
from retrograd.random.generator import Generator, generator_of

# --- arrays -------------------------------------------------------------------------------------------------------


def module_of(array: Any) -> Any:
    """The array library of an array: NumPy or CuPy."""
    return np if isinstance(array, (np.ndarray, BatchedArray)) else array_module(_device("cuda"))


def check_dtype(name: str, dtype: NumpyDType, kinds: str) -> None:
    """Raise unless a dtype is of one of some kinds (NumPy's codes)."""
    if dtype.kind not in kinds:
        raise NotImplementedError(
            f'"{name}" not implemented for {dtype.name}; sample in another dtype and convert the result with .to()'
        )


def _parts(array: Any) -> tuple[Any, ...]:
    """The real and the imaginary part of a complex array; a real array."""
    return (array.real, array.imag) if array.dtype.kind == "c" else (array,)


def _draw(method: Callable[..., Any], array: Any) -> None:
    """Fill a real array with what a generator's method yields, in the precision of the array where that is possible."""
    if array.dtype == np.float16:
        array[...] = method(array.shape, dtype=np.float32)
    elif array.flags.c_contiguous:
        method(dtype=array.dtype, out=array)
    else:
        array[...] = method(array.shape, dtype=array.dtype)


def fill_uniform(array: Any, generator: Generator) -> Any:
    """Fill with uniform samples on [0, 1); both parts, if complex."""
    rng = generator.on(module_of(array))
    for part in _parts(array):
        if part.dtype == np.float16:  # a float32 just below 1 would be rounded to 1
            part[...] = rng.integers(0, 2048, part.shape) / 2048
        else:
            _draw(rng.random, part)
    return array


def fill_normal(array: Any, generator: Generator) -> Any:
    """Fill with normal samples of mean 0 and variance 1 (1/2 for each part, if complex)."""
    rng = generator.on(module_of(array))
    for part in _parts(array):
        _draw(rng.standard_normal, part)
    if array.dtype.kind == "c":
        array *= math.sqrt(0.5)
    return array


def fill_integers(array: Any, low: int, high: int, generator: Generator) -> Any:
    """Fill uniformly with integers from ``low`` to ``high``, both inclusive."""
    rng = generator.on(module_of(array))
    dtype = array.dtype if array.dtype.kind in "iu" else np.int64
    array[...] = rng.integers(low, high, array.shape, dtype=dtype, endpoint=True)
    return array


def check_integers(name: str, dtype: NumpyDType, low: int, high: int) -> None:
    """Raise unless there are integers from ``low`` to ``high``, exclusive, and ``dtype`` has them."""
    for bound in (low, high):
        if not -(2**63) <= bound < 2**63:
            raise ValueError(f"{name}: Overflow when unpacking long long; {bound} does not fit into int64")
    if low >= high:
        raise RuntimeError(f"{name} expects 'from' to be less than 'to', but got from={low} >= to={high}")
    check_dtype(name, dtype, "biuf")
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(np.uint8 if dtype.kind == "b" else dtype)
    most = 1 if dtype.kind == "b" else limits.max
    exact = largest_integer(dtype)
    for text, bound in (("from", low), ("to - 1", high - 1)):
        if not limits.min <= bound <= most:
            raise RuntimeError(f"{name}: {text} is out of bounds for {dtype.name}")
        if dtype.kind == "f" and abs(bound) > exact:
            warn_user(
                f"{name}: {text} is out of bounds [-{exact}, {exact}]. Due to precision limitations {dtype.name} can "
                "support discrete uniform distribution only within this range."
            )


def largest_integer(dtype: NumpyDType) -> int:
    """The largest integer up to which a dtype represents all integers."""
    if dtype.kind == "b":
        return 1
    return int(2 ** (np.finfo(dtype).nmant + 1)) if dtype.kind == "f" else int(np.iinfo(dtype).max)


def fill_bernoulli(array: Any, p: Any, generator: Generator) -> Any:
    """1 with probability ``p``, a number or an array, and 0 otherwise."""
    check_dtype("bernoulli", array.dtype, "biuf")
    if hasattr(p, "dtype"):
        check_dtype("bernoulli", p.dtype, "f")
        if not ((p >= 0) & (p <= 1)).all():
            raise RuntimeError("bernoulli expects all probabilities to be in [0, 1]")
    elif not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli expects p to be in [0, 1], but got p={p:g}")
    # in double precision: float32 cannot resolve probabilities below 2**-24
    array[...] = generator.on(module_of(array)).random(array.shape) < p
    return array


def deviation(name: str, std: Any) -> float:
    """The standard deviation, a number, after checking it."""
    spread = as_real(name, "std", std)
    if not spread >= 0:
        raise RuntimeError(f"{name} expects std >= 0.0, but found std {spread:g}")
    return spread


def scaled(array: Any, mean: Any, std: Any) -> Any:
    """Multiply an array by ``std`` and add ``mean``, in place; the numbers 1 and 0 cost nothing."""
    if not (isinstance(std, float) and std == 1):
        array *= std
    if not (isinstance(mean, float) and mean == 0):
        array += mean
    return array


def no_gradient(g: Any) -> Any:
    """The gradient of the parameter of a distribution, and of what samples overwrite: they do not depend on it."""
    return np.zeros_like(g)


# --- samplers that overwrite a tensor -----------------------------------------------------------------------------


def _sampler(**rules: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn a function that fills an array into a method of Tensor."""

    def register(fill: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(fill)
        def filled(input: Any, *arguments: Any) -> Any:
            result = np.empty_like(input)
            fill(result, *arguments)
            return result

        operation: Any = op(public=False, method=False, inplace=fill, input=no_gradient, **rules)(filled)
        sampler = inplace(operation.op, fill.__name__)
        sampler.__doc__ = fill.__doc__
        add_method(fill.__name__, sampler)
        return fill

    return register


@_sampler()
def uniform_(input: Any, from_: float = 0.0, to: float = 1.0, generator: Generator | None = None) -> None:
    """Overwrite this tensor with samples from the uniform distribution on [from, to).

    Raises
    ------
    RuntimeError
        If ``from`` is above ``to``, or if the dtype does not have such numbers.
    """
    check_dtype("uniform_", input.dtype, "fc")
    low, high = as_real("uniform_", "from", from_), as_real("uniform_", "to", to)
    largest = float(np.finfo(input.dtype).max)
    for name, bound in (("from", low), ("to", high)):
        if not abs(bound) <= largest:
            raise RuntimeError(f"uniform_: {name} is out of bounds for {input.dtype.name}")
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    if high - low > largest:
        raise RuntimeError(f"uniform_ expects to - from <= {largest:g}, but found to={high:g} and from={low:g}")
    fill_uniform(input, generator_of("uniform_", generator))
    for part in _parts(input):
        scaled(part, low, high - low)


@_sampler()
def normal_(input: Any, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> None:
    """Overwrite this tensor with samples from the normal distribution.

    In a complex dtype, the variance is shared by the real and the imaginary part.

    Raises
    ------
    RuntimeError
        If the standard deviation is negative.
    """
    check_dtype("normal_", input.dtype, "fc")
    center, spread = as_real("normal_", "mean", mean), deviation("normal_", std)
    scaled(fill_normal(input, generator_of("normal_", generator)), center, spread)


@_sampler(p=no_gradient)
def bernoulli_(input: Any, p: Any = 0.5, generator: Generator | None = None) -> None:
    """Overwrite this tensor with 1, with probability ``p`` (a number or a tensor of them), or 0.

    Raises
    ------
    RuntimeError
        If a probability is not between 0 and 1.
    """
    probability = p if hasattr(p, "dtype") else as_real("bernoulli_", "p", p)
    fill_bernoulli(input, probability, generator_of("bernoulli_", generator))


@_sampler()
def exponential_(input: Any, lambd: float = 1.0, generator: Generator | None = None) -> None:
    """Overwrite this tensor with samples from the exponential distribution of rate ``lambd``; none of them is 0.

    Raises
    ------
    RuntimeError
        If the rate is not positive.
    """
    _check_continuous("exponential_", input.dtype)
    rate = as_real("exponential_", "lambd", lambd)
    if not rate > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    _draw(generator_of("exponential_", generator).on(module_of(input)).standard_exponential, input)
    input /= rate
    zero = input.dtype.type(0)
    np.maximum(input, np.nextafter(zero, zero + 1), out=input)


def _check_continuous(name: str, dtype: NumpyDType) -> None:
    if dtype.kind != "f":
        raise RuntimeError(f"{name}: a continuous distribution needs a floating-point dtype, not {dtype.name}")


@_sampler()
def random_(input: Any, from_: Any = ..., to: Any = ..., generator: Generator | None = None) -> None:
    """Overwrite this tensor with integers, all equally likely.

    The forms are ``random_(to)`` and ``random_(from, to)``, where ``to`` is exclusive, and ``random_()``, which reaches
    up to the largest integer (in a floating dtype, the last one before gaps), inclusive; as does ``to=None``.

    Raises
    ------
    RuntimeError
        If there are no integers between the bounds, or if the dtype does not have them.
    """
    check_dtype("random_", input.dtype, "biuf")
    if to is ... and from_ is not ...:
        from_, to = 0, from_
    first = 0 if from_ is ... else as_int("random_", "from", from_)
    last = largest_integer(input.dtype) if to is None or to is ... else as_int("random_", "to", to) - 1
    # the largest int64 has no successor
    check_integers("random_", input.dtype, first, min(last + 1, 2**63 - 1))
    fill_integers(input, first, last, generator_of("random_", generator))


@_sampler()
def log_normal_(input: Any, mean: float = 1.0, std: float = 2.0, generator: Generator | None = None) -> None:
    """Overwrite this tensor with e raised to samples from a normal distribution.

    Raises
    ------
    RuntimeError
        If the standard deviation is not positive.
    """
    check_dtype("log_normal_", input.dtype, "f")
    center, spread = as_real("log_normal_", "mean", mean), as_real("log_normal_", "std", std)
    if not spread > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={spread:g}")
    np.exp(scaled(fill_normal(input, generator_of("log_normal_", generator)), center, spread), out=input)


@_sampler()
def cauchy_(input: Any, median: float = 0.0, sigma: float = 1.0, generator: Generator | None = None) -> None:
    """Overwrite this tensor with samples from the Cauchy distribution of scale ``sigma``.

    Raises
    ------
    RuntimeError
        If the scale is not positive.
    """
    _check_continuous("cauchy_", input.dtype)
    center, scale = as_real("cauchy_", "median", median), as_real("cauchy_", "sigma", sigma)
    if not scale > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={scale:g}")
    angles = np.pi * (generator_of("cauchy_", generator).on(module_of(input)).random(input.shape) - 0.5)
    input[...] = center + scale * np.tan(angles)


@_sampler()
def geometric_(input: Any, p: float, generator: Generator | None = None) -> None:
    """Overwrite this tensor with how many trials of success probability ``p`` it takes until the first succeeds.

    Raises
    ------
    RuntimeError
        If ``p`` is not between 0 and 1, exclusive.
    """
    check_dtype("geometric_", input.dtype, "iuf")
    probability = as_real("geometric_", "p", p)
    if not 0 < probability < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={probability:g}")
    input[...] = generator_of("geometric_", generator).on(module_of(input)).geometric(probability, input.shape)
