"""The layer detector's adapter for retrograd's tensors and modules."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.retrograd.births import Birth
from retrograd.anomaly.adapters.retrograd.elements import first_not_finite, is_bad, reals, same, statistics
from retrograd.anomaly.adapters.retrograd.monitor import RetrogradMonitor
from retrograd.anomaly.adapters.retrograd.norms import norm
from retrograd.anomaly.adapters.retrograd.postmortem.analysis import Analysis
from retrograd.anomaly.adapters.retrograd.postmortem.describe import result_of
from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph
from retrograd.anomaly.adapters.retrograd.tensor_names import Names
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.layer_detector.adapter import Handle, Look
from retrograd.anomaly.stack_frames import user_frame
from retrograd.core import state
from retrograd.core.state import next_sequence_nr
from retrograd.core.tensor import Tensor


class RetrogradLayers:
    """Connects the detector to a :class:`retrograd.nn.Module`.

    See :class:`retrograd.anomaly.layer_detector.adapter.ModelAdapter`.

    Parameters
    ----------
    model
        The module, for the names of its parameters and layers.
    """

    budget = math.inf  # the gradients of every step are checked

    def __init__(self, model: Any) -> None:
        self._model = model

    # --- tensors --------------------------------------------------------------------------------------------------

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value._data.dtype.kind in "fc" and value._data.size > 0

    def version(self, tensor: Tensor) -> int:
        return tensor._version

    def look(self, tensor: Tensor) -> Look:
        reals = _reals(tensor._data)
        low, high = float(np.minimum.reduce(reals, None)), float(np.maximum.reduce(reals, None))
        if math.isfinite(low) and math.isfinite(high):
            return Look(low=low, high=high)
        if math.isnan(low):
            return Look(True, bool(np.isposinf(reals).any()), bool(np.isneginf(reals).any()))
        return Look(False, high == math.inf, low == -math.inf, low, high)

    def absmin(self, tensor: Tensor) -> float:
        return float(np.abs(_reals(tensor._data)).min())

    def describe(self, tensor: Tensor) -> dict[str, Any]:
        return {**statistics(tensor._data), "index": first_not_finite(tensor._data)}

    # --- modules --------------------------------------------------------------------------------------------------

    def layers(self) -> Iterator[tuple[str, Any]]:
        return self._model.named_modules()

    def hook(
        self, module: Any, before: Callable[..., None] | None, after: Callable[..., None] | None
    ) -> Iterator[Handle]:
        if before is not None:
            yield module.register_forward_pre_hook(before, with_kwargs=True)
        if after is not None:
            yield module.register_forward_hook(after, with_kwargs=True, always_call=True)

    def hook_gradient(self, tensor: Tensor, told: Callable[[Any], None]) -> None:
        if tensor.requires_grad:
            tensor.register_hook(told)

    def gradient_norms(self, model: Any) -> Mapping[tuple[str, str], float]:
        norms = {}
        seen = set()
        for layer, module in model.named_modules():
            for name, parameter in module.named_parameters(recurse=False):
                if parameter._grad is not None and id(parameter) not in seen:
                    seen.add(id(parameter))
                    norms[layer, name] = norm(parameter._grad._data)
        return norms

    # --- explanations ---------------------------------------------------------------------------------------------

    def now(self) -> int:
        return next_sequence_nr()

    def explain(self, tensor: Tensor, since: int, came_in: bool) -> NaNEvent | None:
        names = Names(self._model, user_frame(sys._getframe(1)))
        monitor = state.monitor
        edge = tensor._resolve_edge()
        analysis: Analysis
        if isinstance(monitor, RetrogradMonitor):
            analysis = monitor.analysis([] if edge is None else [edge], names)
        else:
            analysis = Analysis(Graph([]), [], names, {})
        if edge is not None:
            event = analysis.of_loss(tensor._data)
            return None if event.op == "unknown" else event
        return _without_graph(analysis, tensor._data, since, came_in)


def _without_graph(analysis: Analysis, data: ndarray, began: int, came_in: bool) -> NaNEvent | None:
    """The event for an array without a graph: by the birth in the call that made it, or else the first birth since."""
    births = [birth for birth in analysis.births if not birth.is_backward]
    since = [birth for birth in births if birth.seq > began]
    birth = _maker([*since, *births], data) or next(iter([] if came_in else since), None)
    if birth is not None:
        return analysis.describer.forward(birth, None, [], harmed="the model")
    if not came_in:
        return None
    event = analysis.describer.leaf(data, "batch", "input", [], harmed="the model")
    return replace(event, layer_name=None, module_type=None)


def _maker(births: Sequence[Birth], data: Any) -> Birth | None:
    """The birth that produced an array, traced back through births that produced its non-finite operands."""
    birth = next((birth for birth in births if same(result_of(birth), data)), None)
    if birth is None:
        return None
    earlier = [each for each in births if each.seq < birth.seq]
    given = [operand for operand in birth.operands if isinstance(operand, ndarray) and is_bad(operand)]
    return next((maker for operand in given if (maker := _maker(earlier, operand))), birth)


def _reals(data: ndarray) -> ndarray:
    """The elements as real numbers; half precision is converted to single, which is much faster."""
    return data.astype(np.float32) if data.dtype.itemsize == 2 else reals(data)
