"""Rerunning a checkpoint's function: reentrant ones leave no graph, so that there is no other source."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import set_device_states

from retrograd.anomaly.adapters.torch.records.backward import harmed_by_backward
from retrograd.anomaly.adapters.torch.records.calls import Call
from retrograd.anomaly.adapters.torch.records.graph import leaves_behind
from retrograd.anomaly.adapters.torch.records.recording import Recorder
from retrograd.anomaly.adapters.torch.runtime.compilation import uncompiled
from retrograd.anomaly.adapters.torch.second_run.snapshot import Gradients, left_as_they_are
from retrograd.anomaly.stack_frames import user_frame


def run_again(call: Call, models: Iterable[torch.nn.Module]) -> list[tuple[Call, int]]:
    """Run the function of a checkpoint once more with everything recorded, and return the non-finite results.

    Parameters
    ----------
    call
        The checkpoint's call; for its work in backward, with the saved values and the gradients that arrived.
    models
        The models whose buffers must not change.
    """
    node, recorder = call.node, Recorder()
    if call.code is not None:
        recorder.called_from = user_frame(sys._getframe(1)), (call.code, call.at)
    owner = getattr(node.run_function, "__self__", node.run_function)
    modules = {*models, *([owner] if isinstance(owner, torch.nn.Module) else ())}
    try:
        with left_as_they_are(modules), _as_then(node), torch.enable_grad(), uncompiled():
            with recorder:
                made = node.run_function(*_inputs(call))
            outputs = [each for each in (made if isinstance(made, tuple) else (made,)) if isinstance(each, Tensor)]
            if not call.is_backward:
                return recorder.makers_of_bad(outputs)
            grads = [each.value for each in call.args if each.name == "grad"]
            pairs = [(each, grad) for each, grad in zip(outputs, grads, strict=True) if each.requires_grad]
            roots, arrived = zip(*pairs, strict=True)
            gradients = Gradients(leaves_behind(roots))
            try:
                return harmed_by_backward(recorder, roots, arrived)
            finally:
                gradients.restore()
    except Exception:  # it cannot be run again
        return []


def _inputs(call: Call) -> Iterator[Any]:
    saved = [each.value for each in call.args if each.name.startswith("saved_tensors[")]
    tensors = iter(saved or call.node.saved_tensors)
    for number, each in enumerate(call.node.inputs):
        if number in call.node.tensor_indices:
            tensor = next(tensors)
            yield tensor.detach().requires_grad_(tensor.requires_grad)
        else:
            yield each


def _as_then(node: Any) -> ExitStack:
    """A context with the random numbers and the autocast of the checkpoint's call."""
    around = ExitStack()
    if node.preserve_rng_state:
        torch.set_rng_state(node.fwd_cpu_state)
        if node.had_device_in_fwd:
            set_device_states(node.fwd_devices, node.fwd_device_states, device_type=node.device_type)
    if torch.amp.is_autocast_available(node.device_type):
        around.enter_context(torch.amp.autocast(device_type=node.device_type, **node.device_autocast_kwargs))
    around.enter_context(torch.amp.autocast("cpu", **node.cpu_autocast_kwargs))
    return around
