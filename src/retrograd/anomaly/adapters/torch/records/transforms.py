"""Functions differentiated by a transform of ``torch.func``, which can be run again.

Within ``vmap`` they are run again for one sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_batchedtensor, maybe_get_bdim, maybe_get_level
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._pytree import tree_flatten, tree_map

from retrograd.anomaly.adapters.torch.records.backward import harmed_by_backward
from retrograd.anomaly.adapters.torch.records.calls import Call, bad
from retrograd.anomaly.adapters.torch.records.recording import Recorder
from retrograd.anomaly.adapters.torch.runtime.compilation import uncompiled
from retrograd.anomaly.adapters.torch.runtime.modes import autocast_as, autocasts
from retrograd.anomaly.adapters.torch.second_run.snapshot import RandomState, left_as_they_are


def samples_of(value: Any) -> Any:
    """The tensor of all samples behind one within ``vmap``; anything else itself."""
    while isinstance(value, Tensor) and is_batchedtensor(value):
        value = get_unwrapped(value)
    return value


def mean_of_samples(output: Any) -> Tensor:
    """A loss, or the mean loss of all samples."""
    (loss,) = (each for each in tree_flatten(output)[0] if isinstance(each, Tensor))
    return samples_of(loss).mean() if is_batchedtensor(loss) and not loss.dim() else samples_of(loss)


class Sample(NamedTuple):
    """One of the samples that ``vmap`` hides in the tensors of a level."""

    level: int
    place: int

    @classmethod
    def of_bad(cls, gradients: Sequence[Any]) -> Sample | None:
        """The first one in which a gradient is not finite; None if there are no samples."""
        for each in gradients:
            if isinstance(each, Tensor) and is_batchedtensor(each):
                wrong = bad(get_unwrapped(each))
                if wrong is not None:
                    samples = wrong.movedim(maybe_get_bdim(each), 0)
                    return cls(maybe_get_level(each), int(samples.reshape(len(samples), -1).any(1).nonzero()[0]))
        return None

    def of(self, value: Any) -> Any:
        """This sample of a tensor."""
        if not isinstance(value, Tensor) or not is_batchedtensor(value) or maybe_get_level(value) != self.level:
            return value
        return get_unwrapped(value).select(maybe_get_bdim(value), self.place)


class Transformed:
    """One call of ``grad``, ``vjp`` or their like: its arguments by reference, and the random state before it.

    Parameters
    ----------
    func, argnums, has_aux, args, kwargs
        As passed to the transform.
    """

    def __init__(
        self, func: Any, argnums: int | Sequence[int], has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._func = func
        self._numbers = [argnums] if isinstance(argnums, int) else list(argnums)
        self._has_aux = has_aux
        self._args = args
        self._kwargs = kwargs
        self._random = RandomState()
        self._autocasts = autocasts()

    def inputs(self) -> list[Any]:
        """The arguments with respect to which it is differentiated."""
        return tree_flatten(
            [self._args[number] for number in self._numbers if -len(self._args) <= number < len(self._args)]
        )[0]

    def results(self, gradients: Any, points: Sequence[Tensor]) -> list[Tensor | None]:
        """The gradients that were returned for some of these, each in the shape of its point."""
        found = zip(self.inputs(), tree_flatten(gradients)[0], strict=True)
        known = {id(samples_of(value)): _fitted(each, value) for value, each in found if isinstance(each, Tensor)}
        return [known.get(id(point)) for point in points]

    def run_again(self, sample: Sample | None = None, cotangents: Any = None) -> list[tuple[Call, int]]:
        """Run it once more with everything recorded, and return the non-finite results.

        Parameters
        ----------
        sample
            The sample to run it for, within ``vmap``.
        cotangents
            The factors of the derivative, if the function returns no loss.
        """
        recorder = Recorder()
        args, kwargs = list(self._args), self._kwargs
        if sample is not None:
            args, kwargs, cotangents = tree_map(sample.of, (args, kwargs, cotangents))
        try:
            with (
                left_as_they_are(),
                temporarily_clear_interpreter_stack(),
                torch.enable_grad(),
                autocast_as(self._autocasts),
                uncompiled(),
            ):
                self._random.restore()
                for number in self._numbers:
                    args[number] = tree_map(_as_leaf, args[number])
                inputs = tree_flatten([args[number] for number in self._numbers])[0]
                with recorder:
                    output = self._func(*args, **kwargs)
                results = tree_flatten(output[0] if self._has_aux else output)[0]
                if lost := recorder.makers_of_bad(results):
                    return lost
                given = None if cotangents is None else tree_flatten(cotangents)[0]
                leaves = [each for each in inputs if isinstance(each, Tensor)]
                return harmed_by_backward(recorder, results, given, leaves)
        except Exception:  # it cannot be run again
            return []


def _fitted(gradient: Tensor, value: Any) -> Tensor:
    """The gradients of all samples, summed if the samples share their point."""
    while is_batchedtensor(gradient):
        dim, level = maybe_get_bdim(gradient), maybe_get_level(gradient)
        gradient = get_unwrapped(gradient)
        if is_batchedtensor(value) and maybe_get_level(value) == level:
            gradient, value = gradient.movedim(dim, maybe_get_bdim(value)), get_unwrapped(value)
        else:
            gradient = gradient.sum(dim)
    return gradient


def _as_leaf(value: Any) -> Any:
    return value.detach().requires_grad_() if isinstance(value, Tensor) else value
