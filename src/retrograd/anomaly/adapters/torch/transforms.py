"""Functions that a transform of ``torch.func`` has differentiated, and that can be run again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from retrograd.anomaly.adapters.torch.calls import Call, is_bad
from retrograd.anomaly.adapters.torch.compiling import uncompiled
from retrograd.anomaly.adapters.torch.forward import autocast_as, autocasts
from retrograd.anomaly.adapters.torch.recording import Recorder
from retrograd.anomaly.adapters.torch.snapshot import RandomState


class Transformed:
    """One call of ``grad`` or ``grad_and_value``: its arguments by reference, and the random state before it.

    Parameters
    ----------
    func, argnums, has_aux, args, kwargs
        As the transform has them.
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
        """What it is differentiated by."""
        return tree_flatten(
            [self._args[number] for number in self._numbers if -len(self._args) <= number < len(self._args)]
        )[0]

    def results(self, gradients: Any, points: Sequence[Tensor]) -> list[Tensor | None]:
        """The gradients that were returned for some of these."""
        found = zip(self.inputs(), tree_flatten(gradients)[0], strict=True)
        known = {id(value): each for value, each in found if isinstance(each, Tensor)}
        return [known.get(id(point)) for point in points]

    def run_again(self) -> list[tuple[Call, int]]:
        """Run it once more, everything written down, and say what in the record is not finite."""
        recorder, random = Recorder(), RandomState()
        args = list(self._args)
        for number in self._numbers:
            args[number] = tree_map(_as_leaf, args[number])
        leaves = [
            each for each in tree_flatten([args[number] for number in self._numbers])[0] if isinstance(each, Tensor)
        ]
        self._random.restore()
        try:
            with torch.enable_grad(), autocast_as(self._autocasts), uncompiled():
                with recorder:
                    output = self._func(*args, **self._kwargs)
                loss = output[0] if self._has_aux else output
                if is_bad(loss):
                    made = recorder.made_by(loss)
                    return [] if made is None else [made]
                with recorder, recorder.watch_backward([loss]):
                    torch.autograd.backward(loss, inputs=leaves)
                return recorder.harmed_leaves()
        except Exception:  # what cannot be run again tells nothing
            return []
        finally:
            random.restore()


def _as_leaf(value: Any) -> Any:
    return value.detach().requires_grad_() if isinstance(value, Tensor) else value
