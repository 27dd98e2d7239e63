"""Random numbers inside of ``vmap``: drawn for every sample, once for all, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.batching.array import BatchedArray, Levels, expanded, full_sizes, levels_of, unbatched, union
from retrograd.batching.per_sample import RandomnessError
from retrograd.core.state import local


def differing_levels() -> Levels:
    """The calls of ``vmap`` under way that want other random numbers in every sample.

    Raises
    ------
    RuntimeError
        If one of them allows no random operations.
    """
    for level in local.vmaps:
        if level.randomness == "error":
            raise RandomnessError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness flags on vmap or perform the randomness operation out of vmap"
            )
    return tuple([level for level in local.vmaps if level.randomness == "different"])


def with_room(array: Any) -> Any:
    """An array to be filled with random numbers, with room for every sample that wants its own."""
    if not local.vmaps:
        return array
    levels = union(levels_of([array]), differing_levels())
    whole = full_sizes(levels) + array.shape
    return BatchedArray(np.empty_like(unbatched(array), shape=whole), levels) if levels else array


class BatchedDraws:
    """NumPy's generator as operations inside of ``vmap`` see it: shapes are those of one sample."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._levels = differing_levels()
        self._sizes = full_sizes(self._levels)

    def _wrapped(self, drawn: Any) -> Any:
        return BatchedArray(drawn, self._levels) if self._levels else drawn

    def _draw(self, method: Callable[..., Any], shape: Any, dtype: Any, out: Any) -> Any:
        if out is not None and type(out) is not BatchedArray and self._levels:
            raise RandomnessError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same "
                "randomness. Create the tensor inside from a batched one, for example with x.new_empty(shape)."
            )
        shape = out.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
        drawn = self._wrapped(method(self._sizes + shape, dtype=dtype))
        if out is not None:
            out[...] = drawn
        return drawn

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return self._draw(self._generator.random, size, dtype, out)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return self._draw(self._generator.standard_normal, size, dtype, out)

    def standard_exponential(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return self._draw(self._generator.standard_exponential, size, dtype, out)

    def integers(self, low: Any, high: Any, size: Any, dtype: Any = np.int64, endpoint: bool = False) -> Any:
        return self._wrapped(self._generator.integers(low, high, self._sizes + tuple(size), dtype, endpoint))

    def geometric(self, p: float, size: Any) -> Any:
        return self._wrapped(self._generator.geometric(p, self._sizes + tuple(size)))

    def permutation(self, length: int) -> Any:
        if not self._levels:
            return self._generator.permutation(length)
        return self._wrapped(
            self._generator.permuted(np.broadcast_to(np.arange(length), (*self._sizes, length)), axis=-1)
        )

    def poisson(self, rates: Any) -> Any:
        return self._with_parameters(self._generator.poisson, rates)

    def standard_gamma(self, shapes: Any) -> Any:
        return self._with_parameters(self._generator.standard_gamma, shapes)

    def binomial(self, trials: Any, probability: Any) -> Any:
        return self._with_parameters(self._generator.binomial, trials, probability)

    def _with_parameters(self, method: Callable[..., Any], *parameters: Any) -> Any:
        levels = levels_of(parameters)
        if any(level not in self._levels for level in levels):
            raise RandomnessError(
                "Vmap does not currently support same randomness with a batched tensor input: different parameters "
                "give different samples. Use randomness='different'."
            )
        shape = np.broadcast_shapes(*(np.shape(parameter) for parameter in parameters))
        return self._wrapped(
            method(*[expanded(np.broadcast_to(parameter, shape), self._levels) for parameter in parameters])
        )
