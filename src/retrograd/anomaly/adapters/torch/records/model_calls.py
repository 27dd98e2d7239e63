"""The calls of models in the present step, so that their forward can be run again."""

from __future__ import annotations

import ast
import dataclasses
import functools
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from retrograd.anomaly.adapters.program.source_location import written_at
from retrograd.anomaly.adapters.torch.records.backward import harmed_by_backward
from retrograd.anomaly.adapters.torch.records.calls import Call, bytes_of, has_nan, is_bad, seq_of
from retrograd.anomaly.adapters.torch.records.recorded_evaluation import RecordedEvaluation
from retrograd.anomaly.adapters.torch.records.recording import Recorder
from retrograd.anomaly.adapters.torch.runtime.hidden_hooks import Hook
from retrograd.anomaly.adapters.torch.runtime.modes import autocast_as, autocasts
from retrograd.anomaly.adapters.torch.second_run.module_calls import (
    is_running_again,
    running_again,
    without_communication,
)
from retrograd.anomaly.adapters.torch.second_run.snapshot import Gradients, RandomState
from retrograd.anomaly.stack_frames import user_frame

_MOST_CALLS = 16  # per step
_MOST_BYTES = 64 << 20  # size limit of outputs whose gradient is kept


class ModelCall:
    """One call: its arguments by reference, the random state before it, the gradients that came to its outputs, and
    the user's line that made it.
    """

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        model: torch.nn.Module | None = None,
        frame: FrameType | None = None,
    ) -> None:
        self.model = model
        self.place = None if frame is None else (frame.f_code, frame.f_lasti)
        self.args = args
        self.kwargs = kwargs
        self.random = RandomState()
        self.autocast = autocasts()
        self.gradients: dict[int, Tensor] = {}
        self.nodes: list[float] = []  # sequence numbers of the nodes that made the outputs
        self.is_training = model is not None and model.training
        self.made_bad = False  # if that was looked at

    @property
    def is_plain(self) -> bool:
        """Whether no argument has a state that its use would change."""
        return _is_plain(self.args) and _is_plain(self.kwargs)

    def tensors(self) -> list[Tensor]:
        """The tensors among its arguments."""
        return [each for each in tree_flatten((self.args, self.kwargs))[0] if isinstance(each, Tensor)]

    def named(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors among its arguments that the program passed as variables, with these variables' names."""
        written = None if self.place is None else written_at(*self.place)
        if not isinstance(written, ast.Call):
            return
        named = [(each.value, self.kwargs.get(each.arg)) for each in written.keywords if each.arg is not None]
        for argument, value in [*zip(written.args, self.args, strict=False), *named]:
            if isinstance(argument, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(value, Tensor):
                yield ast.unparse(argument), value

    def observe(self, output: Any) -> None:
        for number, tensor in enumerate([output] if isinstance(output, Tensor) else tree_flatten(output)[0]):
            if not isinstance(tensor, Tensor) or not tensor.requires_grad:
                continue
            if tensor.grad_fn is not None:
                self.nodes.append(seq_of(tensor.grad_fn))
            if bytes_of(tensor) <= _MOST_BYTES:
                tensor.register_hook(functools.partial(self._arrived, number))

    def _arrived(self, number: int, gradient: Tensor | None) -> None:
        if gradient is not None:  # None for unused outputs under DistributedDataParallel
            self.gradients[number] = gradient


class _Here(threading.local):
    """The calls of a thread."""

    def __init__(self) -> None:
        self.calls: deque[ModelCall] = deque(maxlen=_MOST_CALLS)
        self.evaluated: WeakKeyDictionary[torch.nn.Module, ModelCall] = (
            WeakKeyDictionary()
        )  # the latest without gradients


class ModelCalls:
    """Remembers how models were called since the last update, and runs them again.

    A model gets just one hook before and one after its own call.

    Parameters
    ----------
    begins
        Called before the first call of each model; returns whether to remember its calls.

    Attributes
    ----------
    looks_at_evaluations
        Whether to look at what models return without gradients, and to keep the first call that returns a bad number.
    evaluation
        The record of an evaluation, if one is requested.
    """

    def __init__(self, begins: Callable[[], bool]) -> None:
        self._begins = begins
        self._new: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._followed: list[tuple[weakref.ref[torch.nn.Module], list[Any]]] = []  # with the handles of their hooks
        self._here = _Here()
        self.looks_at_evaluations = False
        self.evaluation = RecordedEvaluation()

    def follow(self, model: torch.nn.Module) -> None:
        """Remember the calls of a model from here on until :meth:`stop`, and no longer those of its parts.

        Those of a scripted model are not, as it takes no hooks.
        """
        if isinstance(model, torch.jit.ScriptModule):
            return
        if any(model is each for known in self._models for each in known.modules()):
            return
        obsolete = {None, *model.modules()}  # None stands for models that were deleted
        for known, handles in self._followed:
            if known() in obsolete:
                remove_all(handles)
        self._followed = [each for each in self._followed if each[0]() not in obsolete]
        handles = []
        self._followed.append((weakref.ref(model), handles))
        self._new.add(model)
        # before the user's hooks, which will change the inputs again in the rerun
        handles.append(model.register_forward_pre_hook(Hook(self._before), with_kwargs=True, prepend=True))
        handles.append(model.register_forward_hook(Hook(self._after)))

    @property
    def _models(self) -> list[torch.nn.Module]:
        """The followed models that still exist."""
        return [model for known, _ in self._followed if (model := known()) is not None]

    def stop(self) -> None:
        for _, handles in self._followed:
            remove_all(handles)
        self._followed = []
        self._new.clear()
        self._here.calls.clear()
        self._here.evaluated.clear()
        self.looks_at_evaluations = False
        self.evaluation.stop()

    def kept(self) -> list[ModelCall]:
        """The remembered calls."""
        return list(self._here.calls)

    def named(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors that the program passed to these calls as variables, with the names."""
        return (each for call in self.kept() for each in call.named())

    def remember(self, calls: Iterable[ModelCall]) -> None:
        """Add calls that belong to the present step as well."""
        self._here.calls.extend(calls)

    def forget(self) -> list[ModelCall]:
        """Forget the calls of the finished step, and return them."""
        calls = self.kept()
        self._here.calls.clear()
        return calls

    @contextmanager
    def of_earlier_step(self, calls: Iterable[ModelCall]) -> Iterator[None]:
        """A context in which other calls stand for those of the present step."""
        present, self._here.calls = self._here.calls, deque(calls)
        try:
            yield
        finally:
            self._here.calls = present

    def _before(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self._is_heard():
            return
        here = self._here
        if not torch.is_grad_enabled():
            self.evaluation.model_is_called()
            known = here.evaluated.get(module)
            if known is None or not known.made_bad:
                here.evaluated[module] = call = ModelCall(args, kwargs, module, user_frame(sys._getframe(1)))
                call.model = None  # it would keep its own key alive
        elif self._is_wanted(module):
            self.evaluation.end()
            here.evaluated.clear()
            here.calls.append(ModelCall(args, kwargs, module, user_frame(sys._getframe(1))))

    def _after(self, module: Any, args: Any, output: Any) -> None:
        if not self._is_heard():
            return
        here = self._here
        if not torch.is_grad_enabled():
            self.evaluation.model_has_returned()
            if self.looks_at_evaluations and (call := here.evaluated.get(module)) is not None:
                call.made_bad |= any(isinstance(each, Tensor) and _may_harm(each) for each in tree_flatten(output)[0])
        elif here.calls:
            here.calls[-1].observe(output)

    def _is_wanted(self, module: Any) -> bool:
        """Whether to remember a model's calls; decided before its first one."""
        if module not in self._new:
            return True
        self._new.discard(module)
        wanted = self._begins()
        if not wanted:
            self.stop()
        return wanted

    def _is_heard(self) -> bool:
        """Whether this is a call by the program: not a rerun, not a trace, which would include our checks, and not
        within a transform of ``torch.func``, whose tensors end with it.
        """
        if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
            return False
        if torch._C._functorch.peek_interpreter_stack() is not None:
            return False
        return not is_running_again()

    @property
    def are_without_gradients(self) -> bool:
        """Whether the latest call of a model was one without gradients."""
        return bool(self._here.evaluated)

    def nodes_of_outputs(self) -> set[float]:
        """The sequence numbers of the nodes at which a model's part of the graph ends."""
        return {node for call in self._here.calls for node in call.nodes}

    @property
    def outputs_got_bad_gradients(self) -> bool:
        """Whether the gradients at a model's outputs were not finite: then the model is not the cause."""
        return any(is_bad(gradient) for call in self._here.calls for gradient in call.gradients.values())

    def run_again(self, backward: bool) -> list[tuple[Call, int]]:
        """Run the calls once more with everything recorded, and return the non-finite results.

        Weights, buffers, gradients and random states are as before afterwards.

        Parameters
        ----------
        backward
            Whether to continue backward with the gradients that came to the outputs, and return what made the bad
            gradients of parameters; otherwise what made bad outputs.
        """
        if not self._here.calls:
            return []
        gradients = Gradients(each for model in self._models for each in model.parameters())
        try:
            with running_again(self._models), torch.enable_grad():
                runs = (self._run(call, call.model, backward) for call in self._here.calls)
                return next(filter(None, runs), [])
        finally:
            gradients.restore()

    def evaluate_again(self) -> list[tuple[Call, int]]:
        """The same for the latest calls without gradients, if that has no side effects: what made bad outputs."""
        with running_again(self._models):
            called = [(call, model) for model, call in self._here.evaluated.items() if call.is_plain]
            runs = (self._run(call, model, backward=False) for call, model in called)
            return next(filter(None, runs), [])

    def _run(self, call: ModelCall, called: torch.nn.Module | None, backward: bool) -> list[tuple[Call, int]]:
        model = None if called is None else without_communication(called)
        if model is None:
            return []
        recorder = Recorder()
        if call.place is not None:
            recorder.called_from = user_frame(sys._getframe(1)), call.place
        call.random.restore()
        args, kwargs = tree_map(_cut_off, (call.args, call.kwargs))
        try:
            with autocast_as(call.autocast), _evaluating(model, not call.is_training), recorder:
                output = model(*args, **kwargs)
        except Exception:  # for instance, Lightning's DDP calls training_step in place of forward
            return []
        tensors = [each for each in tree_flatten(output)[0] if isinstance(each, Tensor)]
        if not backward:
            wrong = [each for each in tensors if is_bad(each)]
            led_on = [each for each in wrong if each.requires_grad]  # others may be unused statistics
            return recorder.makers_of_bad(led_on or wrong)
        known = [
            (tensors[number], gradient)
            for number, gradient in call.gradients.items()
            if number < len(tensors) and tensors[number].requires_grad and not is_bad(gradient)
        ]
        if not known:
            return []
        outputs, gradients = zip(*known, strict=True)
        return harmed_by_backward(recorder, outputs, gradients)


def remove_all(handles: Iterable[Any]) -> None:
    """Remove hooks."""
    for handle in handles:
        handle.remove()


@contextmanager
def _evaluating(model: torch.nn.Module, evaluates: bool) -> Iterator[None]:
    """A context in which a model is in evaluation mode, if it ``evaluates`` and is not any more."""
    changed = [each for each in model.modules() if each.training] if evaluates and model.training else []
    for each in changed:
        each.training = False
    try:
        yield
    finally:
        for each in changed:
            each.training = True


def _cut_off(value: Any) -> Any:
    """An argument detached from its history, whose graph has been freed."""
    if isinstance(value, Tensor) and value.grad_fn is not None:
        return value.detach().requires_grad_()
    return value


def _may_harm(output: Tensor) -> bool:
    """Whether an output has a number that an evaluation should not read; what is masked is minus infinity."""
    return has_nan(output) or (is_bad(output) and bool(output.isposinf().any()))


def _is_plain(value: Any) -> bool:
    """Whether a value is unchanged by its use: tensors, numbers, text, and structures of these."""
    if value is None or isinstance(value, (Tensor, bool, int, float, complex, str, bytes, torch.dtype, torch.device)):
        return True
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(_is_plain, value))
    if dataclasses.is_dataclass(value):
        return all(_is_plain(getattr(value, field.name, None)) for field in dataclasses.fields(value))
    return False
