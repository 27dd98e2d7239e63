"""Models under the detector of layers, of retrograd or of PyTorch."""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any

from retrograd.anomaly import NaNDetector, NaNEvent


@functools.cache
def layer_of(lib: Any) -> Any:
    """A class of layers that call a function."""

    class Layer(lib.nn.Module):  # type: ignore[misc]
        """Calls a function."""

        def __init__(self, function: Any) -> None:
            super().__init__()
            self.function = function

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return self.function(*args, **kwargs)

    return Layer


def named(lib: Any, **layers: Any) -> Any:
    """Layers with names, one after the other; those that are functions are called by a layer."""
    parts = {name: each if isinstance(each, lib.nn.Module) else layer_of(lib)(each) for name, each in layers.items()}
    return lib.nn.Sequential(OrderedDict(parts))


def same(x: Any) -> Any:
    return x * 1


def root_of_minus_one(x: Any) -> Any:
    return (x * 0 - 1).sqrt()


def quiet(model: Any, **kwargs: Any) -> NaNDetector:
    return NaNDetector(model, verbose=False, **kwargs)


def found_in(model: Any, *args: Any, **kwargs: Any) -> NaNEvent | None:
    """Return the event that the detector finds in one call."""
    with quiet(model) as det:
        model(*args, **kwargs)
    return det.event


def hooks_on(model: Any) -> int:
    """Return the number of forward hooks on all layers of a model."""
    return sum(len(each._forward_hooks) + len(each._forward_pre_hooks) for each in model.modules())
