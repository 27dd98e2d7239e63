"""The calls of the watched model in the present step, so that its forward can be run again."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from retrograd.anomaly.adapters.torch.calls import Call, is_bad
from retrograd.anomaly.adapters.torch.compiling import uncompiled
from retrograd.anomaly.adapters.torch.distributed import is_replicated, is_sharded
from retrograd.anomaly.adapters.torch.recording import Recorder
from retrograd.anomaly.adapters.torch.snapshot import Copies, Gradients, RandomState, small_buffers

_MOST_CALLS = 16  # of one step
_MOST_BYTES = 64 << 20  # of an output whose gradient is kept


class _ModelCall:
    """One call: its arguments by reference, the random state before it, the gradients that came to its outputs."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.random = RandomState()
        self.autocast = [
            (kind, torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)
        ]
        self.gradients: dict[int, Tensor] = {}

    def observe(self, output: Any) -> None:
        for number, tensor in enumerate(tree_flatten(output)[0]):
            if isinstance(tensor, Tensor) and tensor.requires_grad and tensor.nbytes <= _MOST_BYTES:
                tensor.register_hook(lambda grad, number=number: self.gradients.__setitem__(number, grad))


class ModelCalls:
    """Remembers how the watched model was called since the last update, and runs it again.

    Parameters
    ----------
    model
        The watched model; one hook before and one after its own call are all that is put on it.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._alone = _without_communication(model)
        self._calls: deque[_ModelCall] = deque(maxlen=_MOST_CALLS)
        self._handles: list[Any] = []
        self._running = False

    def start(self) -> None:
        self._handles = [
            self._model.register_forward_pre_hook(self._before, with_kwargs=True),
            self._model.register_forward_hook(self._after),
        ]

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._calls.clear()

    def forget(self) -> None:
        """The calls of the step that is over."""
        self._calls.clear()

    def _before(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not torch.compiler.is_compiling() and not self._running and torch.is_grad_enabled():
            self._calls.append(_ModelCall(args, kwargs))

    def _after(self, module: Any, args: Any, output: Any) -> None:
        if not torch.compiler.is_compiling() and not self._running and self._calls and torch.is_grad_enabled():
            self._calls[-1].observe(output)

    @property
    def outputs_got_bad_gradients(self) -> bool:
        """Whether the gradients that came to the model's outputs were not finite: then it is not the model's doing."""
        return any(is_bad(gradient) for call in self._calls for gradient in call.gradients.values())

    def run_again(self, backward: bool) -> list[tuple[Call, int]]:
        """Run the calls once more, everything written down, and say what in the record is not finite.

        Weights, buffers, gradients and random states are as before afterwards.

        Parameters
        ----------
        backward
            Whether to go on with the gradients that came to the outputs, and answer with what arrived at parameters;
            otherwise with outputs of the model.
        """
        if self._alone is None:
            return []
        random, buffers = RandomState(), Copies(small_buffers(self._model))
        gradients = Gradients(self._model.parameters())
        self._running = True
        try:
            with torch.enable_grad():
                for call in self._calls:
                    found = self._run(call, backward)
                    if found:
                        return found
        finally:
            self._running = False
            random.restore()
            gradients.restore()
            with torch.no_grad():
                buffers.restore()
        return []

    def _run(self, call: _ModelCall, backward: bool) -> list[tuple[Call, int]]:
        assert self._alone is not None
        recorder = Recorder()
        call.random.restore()
        with _autocast(call.autocast), uncompiled(), recorder:
            output = self._alone(*call.args, **call.kwargs)
        tensors = [each for each in tree_flatten(output)[0] if isinstance(each, Tensor)]
        if not backward:
            return [made for each in tensors if is_bad(each) and (made := recorder.made_by(each)) is not None]
        known = [
            (tensors[number], gradient)
            for number, gradient in call.gradients.items()
            if number < len(tensors) and tensors[number].requires_grad and not is_bad(gradient)
        ]
        if not known:
            return []
        outputs, gradients = zip(*known, strict=True)
        with recorder, recorder.watch_backward(outputs):
            torch.autograd.backward(outputs, gradients)
        return recorder.harmed_leaves()


def _autocast(states: list[tuple[str, torch.dtype]]) -> ExitStack:
    """The autocast that was on when the model was called."""
    stack = ExitStack()
    for kind, dtype in states:
        stack.enter_context(torch.autocast(kind, dtype=dtype))
    return stack


def _without_communication(model: torch.nn.Module) -> torch.nn.Module | None:
    """The model as this process can run it without the others; None if it needs their part of the weights."""
    if is_sharded(model):
        return None
    return model.module if is_replicated(model) else model  # type: ignore[return-value]
