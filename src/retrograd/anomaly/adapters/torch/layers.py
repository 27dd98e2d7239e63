"""What the layer detector needs to know about PyTorch's tensors and modules."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._python_dispatch import _get_current_dispatch_mode

from retrograd.anomaly.adapters.torch.gradient_checks.extremes import Tally, absmin, extremes, has_elements, look, read
from retrograd.anomaly.adapters.torch.gradient_checks.norms import GradientScale, norms
from retrograd.anomaly.adapters.torch.module_wrappers import name_written, unwrapped
from retrograd.anomaly.adapters.torch.postmortem.analysis import NOT_SURE
from retrograd.anomaly.adapters.torch.postmortem.describe import Describer, first_of, statistics
from retrograd.anomaly.adapters.torch.postmortem.origin import met_at, origin_of
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call
from retrograd.anomaly.adapters.torch.records.graph import read as read_graph
from retrograd.anomaly.adapters.torch.records.model_rerun import Given, version
from retrograd.anomaly.adapters.torch.records.recording import Recorder
from retrograd.anomaly.adapters.torch.runtime.compilation import in_use
from retrograd.anomaly.adapters.torch.runtime.distributed import is_sharded
from retrograd.anomaly.adapters.torch.runtime.graph_capture import capturing
from retrograd.anomaly.adapters.torch.runtime.hidden_hooks import Hook
from retrograd.anomaly.adapters.torch.tensor_names import Names
from retrograd.anomaly.event import NaNEvent, with_note
from retrograd.anomaly.layer_detector.adapter import Handle, Look
from retrograd.anomaly.messages import IN_STEPS
from retrograd.anomaly.monitor import current
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.stack_frames import user_frame


class TorchLayers:
    """Connects the detector to a :class:`torch.nn.Module`.

    See :class:`~retrograd.anomaly.layer_detector.adapter.ModelAdapter` and
    :class:`~retrograd.anomaly.layer_detector.adapter.LooksLater`.

    Parameters
    ----------
    model
        The module; if it is wrapped for several processes or compiled, the one within.
    """

    budget = 0.002  # for noting lines of operations outside the model; gradients are checked in any case

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = unwrapped(model)
        self._first = next(self._model.parameters(), torch.empty(0))
        self._alone = None if is_sharded(self._model) else self._model
        self._names = {module: name for name, module in self.layers()}
        self._compiled = _Compiled()
        self._compiled_before = False
        self._scale = GradientScale()
        self._recorder: Recorder | None = None

    # --- tensors ------------------------------------------------------------------------------------------------------

    is_tensor = staticmethod(has_elements)
    version = staticmethod(version)
    look = staticmethod(look)
    absmin = staticmethod(absmin)
    ask = staticmethod(extremes)
    answers = staticmethod(read)

    def describe(self, tensor: Tensor) -> dict[str, Any]:
        return {**statistics(tensor), "index": first_of(tensor)}

    # --- modules ------------------------------------------------------------------------------------------------------

    def layers(self) -> Iterator[tuple[str, torch.nn.Module]]:
        for name, module in self._model.named_modules():
            yield name_written(self._model, name), module

    def hook(
        self, module: torch.nn.Module, before: Callable[..., None] | None, after: Callable[..., None] | None
    ) -> Iterator[Handle]:
        name = self._names[module]
        if before is not None:
            compiled = None if name else self._compiled
            yield module.register_forward_pre_hook(_Before(before, self._is_heard, compiled), with_kwargs=True)
        if after is not None:
            tally = None if before is None else self._compiled.tally(name, self._first.device)
            yield module.register_forward_hook(_After(after, self._is_heard, tally), with_kwargs=True, always_call=True)

    def _is_heard(self) -> bool:
        """Whether this call is the program's or our own repetition of it, and can be checked: no trace, no second run
        of the watch.
        """
        if torch._C._get_tracing_state() is not None or capturing():
            return False
        if torch._C._len_torch_dispatch_stack() == 0:
            return True
        mode = _get_current_dispatch_mode()
        return mode is self._recorder or not isinstance(mode, Recorder)

    def hook_gradient(self, tensor: Tensor, told: Callable[[Any], None]) -> None:
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: None if self._scale.in_use or capturing() else told(gradient))

    def gradient_norms(self, model: torch.nn.Module) -> Mapping[tuple[str, str], float]:
        places: dict[Tensor, tuple[str, str]] = {}
        for layer, module in self.layers():
            for name, parameter in module.named_parameters(recurse=False):
                places.setdefault(parameter, (layer, name))
        gradients = {places[each]: each.grad for each in places if each.grad is not None}
        factor = self._scale.factor
        sizes = [norm / factor for norm in norms(list(gradients.values()))]
        known = zip(gradients, sizes, strict=True)
        return {place: norm for place, norm in known if math.isfinite(norm) or not self._scale.in_use}

    # --- delayed looks ------------------------------------------------------------------------------------------------

    def follow(self, told: Callable[[], None]) -> Sequence[Handle]:
        self._compiled_before = in_use()
        self._scale.start()
        return [
            self._scale,
            self._compiled,
            register_optimizer_step_pre_hook(lambda *_: None if capturing() else told()),
        ]

    def must_wait(self) -> bool:
        return self._first.device.type != "cpu"

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given:
        return Given(args, kwargs)

    def compiled(self) -> tuple[Given | None, list[tuple[str, Look]]]:
        return self._compiled.read() if in_use() else (None, [])

    def was_compiled_before(self) -> bool:
        return self._compiled_before

    # --- explanations -------------------------------------------------------------------------------------------------

    def now(self) -> None:
        return None

    @contextlib.contextmanager
    def once_more(self, given: Given) -> Iterator[Callable[[], bool] | None]:
        if self._alone is None or not given.can_be_run_again:
            yield None
            return
        recorder = self._recorder = Recorder()
        try:
            yield functools.partial(given.run, self._alone, recorder)
        finally:
            self._recorder = None

    def explain(self, tensor: Tensor | None, since: None, came_in: bool) -> NaNEvent | None:
        if tensor is None:
            return None
        names = Names(self._model, user_frame(sys._getframe(1)))
        origin = origin_of(self._harmed(tensor), self._is_meant)
        if origin is None and came_in:
            origin = met_at(names.frame, Argument("input", tensor.detach()))
        if origin is None:
            return None
        event = Describer(names).event(origin)
        return event if origin.sure else with_note(event, NOT_SURE, IN_STEPS)

    def _harmed(self, tensor: Tensor) -> list[tuple[Call, int]]:
        """The call that made a tensor: from the second run, or else from the graph."""
        if self._recorder is not None:
            made = self._recorder.made_by(tensor)
            return [] if made is None else [made]
        return [] if tensor.grad_fn is None else read_graph([tensor], lambda seq: ())

    def _is_meant(self, call: Call) -> bool:
        """Whether the user has declared the infinities of an operation as intended."""
        watch = current()
        if watch is None:
            return False
        return not watch.allow.isdisjoint((call.name, canonical(call.name))) or any(
            self._names.get(module) in watch.allow_modules for module in call.modules
        )


class _Compiled:
    """What is known about a model that was compiled together with the hooks on its layers."""

    def __init__(self) -> None:
        self.called: tuple[Any, Any] | None = None
        self._tallies: dict[str, Tally] = {}

    def tally(self, layer: str, device: torch.device) -> Tally:
        """The tally of a layer."""
        return self._tallies.setdefault(layer, Tally(device))

    def read(self) -> tuple[Given | None, list[tuple[str, Look]]]:
        """The model's last call, and the outputs of its layers since the last read."""
        called, self.called = self.called, None
        looks = zip(self._tallies, Tally.read(list(self._tallies.values())), strict=True)
        found = [(layer, each) for layer, each in looks if each is not None]
        return None if called is None else Given(*called), found

    def remove(self) -> None:
        """Forget all layers."""
        self._tallies = {}
        self.called = None


class _Before(Hook):
    """The hook before a layer."""

    def __init__(self, told: Callable[..., None], is_heard: Callable[[], bool], compiled: _Compiled | None) -> None:
        super().__init__(told)
        self._is_heard = is_heard
        self._compiled = compiled

    def __call__(self, module: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            if self._compiled is not None:
                self._compiled.called = args, kwargs
        elif self._is_heard():
            self._function(module, args, kwargs)


class _After(Hook):
    """The hook after a layer."""

    def __init__(self, told: Callable[..., None], is_heard: Callable[[], bool], tally: Tally | None) -> None:
        super().__init__(told)
        self._is_heard = is_heard
        self._tally = tally

    def __call__(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            if self._tally is not None:
                self._tally.add(output)
        elif self._is_heard():
            self._function(module, args, kwargs, output)
