"""Steps that are captured into a CUDA graph: a replay calls none of the program's Python.

While a step is captured, the check of it becomes a part of the graph, and so does what holds a bad update back, as with
``lag=1``. Whatever else is kept of a step to explain it are tensors, and those of a graph hold the numbers of its last
replay. So a replay is a step whose check has already been launched, and whose result is read afterwards.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.torch.gradient_checks.conditional_update import Hold, hold
from retrograd.anomaly.adapters.torch.gradient_checks.device_check import DeviceCheck
from retrograd.anomaly.adapters.torch.gradient_checks.gradients import gradients_of
from retrograd.anomaly.adapters.torch.gradient_checks.lagged_steps import LateStep
from retrograd.anomaly.adapters.torch.records.calls import roots_of
from retrograd.anomaly.adapters.torch.records.graph import leaves_behind
from retrograd.anomaly.adapters.torch.records.loss_tail import Tail
from retrograd.anomaly.adapters.torch.records.model_calls import ModelCall
from retrograd.anomaly.adapters.torch.runtime.frames import within_backward
from retrograd.anomaly.adapters.torch.runtime.graph_capture import capturing, noting_graphed
from retrograd.anomaly.expected import expected
from retrograd.anomaly.stack_frames import frames_between, is_library

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.torch.monitor import TorchMonitor

_DEVICE = "cuda"


@dataclass(eq=False)
class _Loss:
    """What led to an update: the losses, the calls of models, and the work of the last operations in backward."""

    roots: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)  # without the scale of a gradient scaler
    leaves: list[tuple[Tensor, int]] = field(default_factory=list)  # with their versions
    calls: list[ModelCall] = field(default_factory=list)
    tail: Tail | None = None
    backwards: int = 0
    is_scaled: bool = False
    is_applied: bool = False  # by hand, within the graph

    def capture_ended(self) -> None:
        """Note whether the graph writes to the leaves."""
        self.is_applied = any(leaf._version != version for leaf, version in self.leaves)


@dataclass(eq=False)
class _Update:
    """One optimizer's step in a graph, the check before it, and what holds it back.

    The latter is None if nothing does, or if a gradient scaler takes care of it.
    """

    loss: _Loss
    parameters: list[Tensor]
    verdict: DeviceCheck
    held: Hold | None
    is_applied: bool  # whatever the check says


@dataclass(eq=False)
class _Graph:
    """The updates of weights in a graph.

    Attributes
    ----------
    armed
        On the device, whether bad updates are to be held back; false once the watch has ended.
    updates
        Those by optimizers.
    loss
        What follows the last of them: its update is not in the graph, or is made by hand.
    calls
        The calls of models in the step that was under way before.
    """

    armed: Tensor
    updates: list[_Update] = field(default_factory=list)
    loss: _Loss = field(default_factory=_Loss)
    calls: list[ModelCall] = field(default_factory=list)


class _UnderWay(threading.local):
    """The graph that a thread is capturing, and the optimizer's update that is being captured."""

    graph: _Graph | None = None
    update: _Update | None = None


class Graphs:
    """Puts checks into captured steps, and examines the results after each replay.

    Parameters
    ----------
    monitor
        Supplies the policies and the explanations.
    """

    def __init__(self, monitor: TorchMonitor) -> None:
        self._monitor: TorchMonitor = weakref.proxy(monitor)
        self._known: weakref.WeakKeyDictionary[Any, _Graph] = weakref.WeakKeyDictionary()
        self._now = _UnderWay()
        self._replayed: list[LateStep] = []  # whose results have not been read yet
        self._handles: list[Any] = []

    def start(self, patches: Patches) -> None:
        patches.wrap(torch.cuda.graph, "__enter__", self._enter)
        patches.wrap(torch.cuda.CUDAGraph, "capture_begin", self._begin)
        patches.wrap(torch.cuda.CUDAGraph, "capture_end", self._end)
        patches.wrap(torch.cuda.CUDAGraph, "replay", self._replay)
        for owner in (torch.cuda, torch.cuda.graphs):
            patches.wrap(owner, "make_graphed_callables", self._unwatched)
        patches.wrap(torch.autograd, "backward", self._backward)
        self._handles.append(register_optimizer_step_pre_hook(self._before_step))
        self._handles.append(register_optimizer_step_post_hook(self._after_step))

    def stop(self) -> None:
        """Release everything; graphs that are replayed later update the weights as the program intends."""
        for handle in self._handles:
            handle.remove()
        for graph in self._known.values():
            with contextlib.suppress(RuntimeError):  # of a device that has failed
                graph.armed.zero_()
        self._known.clear()
        self._now = _UnderWay()
        self._handles, self._replayed = [], []

    # --- while a graph is captured --------------------------------------------------------------------------------

    def _enter(self, original: Any, owner: Any, *args: Any) -> Any:
        """The last moment before a capture at which something can be read and an error does no harm."""
        if self._is_to_be_watched():
            self._let_go()
        return original(owner, *args)

    def _begin(self, original: Any, graph: Any, *args: Any, **kwargs: Any) -> None:
        monitor = self._monitor
        self._known.pop(graph, None)
        if self._is_to_be_watched():
            self._let_go()
            armed = torch.ones((), dtype=torch.bool, device=_DEVICE)
            self._known[graph] = self._now.graph = _Graph(armed, calls=monitor.calls.forget())
            monitor.sites.note()
        original(graph, *args, **kwargs)

    def _end(self, original: Any, graph: Any) -> None:
        known, self._now.graph, self._now.update = self._now.graph, None, None
        try:
            original(graph)
        finally:
            if known is not None:
                known.loss.capture_ended()
                self._monitor.sites.rest()  # replays call nothing, and may be all that follows
                self._monitor.calls.forget()  # calls during a capture have computed nothing
                self._monitor.calls.remember(known.calls)

    def _is_to_be_watched(self) -> bool:
        """Whether a capture that begins now may have a step of the program in it, and not only what torch captures
        within one, as compiled code does.
        """
        if self._monitor.now.busy or expected.depth or within_backward():
            return False
        codes = (each.f_code for each in frames_between(sys._getframe(1)))
        files = {code.co_filename for code in codes if is_library(code.co_filename, "torch")}
        return files <= {torch.cuda.graphs.__file__}

    def _let_go(self) -> None:
        """Read pending results, and keep no graph of an earlier step alive, whose nodes belong to another stream."""
        self._monitor.settle()
        self._monitor.now.tail = None

    def _unwatched(self, original: Any, callables: Any, *args: Any, **kwargs: Any) -> Any:
        """Graphed callables are tried out with uninitialised gradients; these are no steps."""
        now = self._monitor.now
        before, now.at_work = now.at_work, True
        try:
            with noting_graphed(callables):
                return original(callables, *args, **kwargs)
        finally:
            now.at_work = before

    def _captured(self) -> _Graph | None:
        """The graph that is being captured; None if there is none, or nothing is to be checked."""
        graph = self._now.graph
        return graph if graph is not None and not self._monitor.now.at_work and capturing() else None

    def _backward(self, original: Any, tensors: Any, *args: Any, **kwargs: Any) -> None:
        graph, roots = self._captured(), roots_of(tensors)
        if graph is None or roots is None or within_backward():
            original(tensors, *args, **kwargs)
            return
        loss, monitor = graph.loss, self._monitor
        loss.tail = Tail(roots, monitor.calls.nodes_of_outputs(), monitor.sites.noted())
        try:
            original(tensors, *args, **kwargs)
        finally:
            loss.tail.backward_ended()
            monitor.sites.enter()
        loss.roots = roots
        loss.values += [monitor.scaling.unscaled(root).detach() for root in roots]
        loss.is_scaled = monitor.scaling.active
        loss.leaves = [(leaf, leaf._version) for leaf in leaves_behind(roots)]
        loss.calls += monitor.calls.forget()
        loss.backwards += 1

    def _before_step(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        graph = self._captured()
        has_closure = kwargs.get("closure") is not None or (len(args) > 1 and args[1] is not None)
        if graph is None or has_closure or self._now.update is not None:
            return
        scaled = getattr(optimizer, "found_inf", None) is not None  # the scaler expects and handles infinities
        several = self._monitor.agreement.active  # processes, which would have to decide alike
        gradients = [] if scaled else [each for each in gradients_of(optimizer) if each[1].device.type == _DEVICE]
        losses = [] if several else [each for each in graph.loss.values if each.device.type == _DEVICE]
        harmful = [] if scaled or several else self._monitor.watch.must_not_pass
        verdict = DeviceCheck([gradient for _, gradient in gradients], losses, harmful)
        harm = verdict.harm
        held = None if harm is None else hold(optimizer, harm & graph.armed.to(harm.device))
        parameters = [parameter for parameter, _ in gradients]
        update = _Update(graph.loss, parameters, verdict, held, is_applied=held is None and not scaled)
        graph.updates.append(update)
        graph.loss, self._now.update = _Loss(), update

    def _after_step(self, *args: Any) -> None:
        update = self._now.update
        if update is not None and self._captured() is not None:
            self._now.update = None
            if update.held is not None:
                update.held.updated()

    # --- when it is replayed --------------------------------------------------------------------------------------

    def _replay(self, original: Any, graph: Any) -> None:
        known = self._known.get(graph)
        is_step = known is not None and (known.updates or known.loss.backwards)
        if known is None or not is_step or self._monitor.now.busy or expected.depth or within_backward():
            original(graph)
            return
        self._monitor.settle()
        original(graph)
        for update in known.updates:
            self._count(update.loss)
            self._monitor.updates += 1
            self._look(update.loss, update.parameters, update.verdict, update.is_applied)
        if known.loss.backwards:
            self._go_on(known.loss)
        if not self._monitor.watch.lag:
            self.settle()

    def _count(self, loss: _Loss) -> None:
        monitor = self._monitor
        if not monitor.recordings.rehearsing:
            monitor.watch.step += loss.backwards
        monitor.interval.unseen += loss.backwards

    def _go_on(self, loss: _Loss) -> None:
        """Handle a replay that ended with gradients that were not applied, or were applied by hand."""
        monitor = self._monitor
        if loss.is_applied:
            self._count(loss)
            gradients = [(leaf, leaf.grad) for leaf, _ in loss.leaves if leaf.grad is not None]
            verdict = DeviceCheck([gradient for _, gradient in gradients], loss.values, [])
            self._look(loss, [leaf for leaf, _ in gradients], verdict, is_applied=True)
            return
        monitor.scaling.active = loss.is_scaled
        monitor.now.turns.begin()
        monitor.now.tail = loss.tail
        monitor.calls.remember(loss.calls)
        monitor.now.waiting += loss.values
        monitor.watch.remember_loss(None)
        monitor.after_backward(loss.roots)

    def _look(self, loss: _Loss, parameters: list[Tensor], verdict: DeviceCheck, is_applied: bool) -> None:
        monitor, watch = self._monitor, self._monitor.watch
        if not monitor.is_due():
            return
        began = time.perf_counter()
        step = LateStep(watch.step, watch.batch_idx, parameters, loss.values, verdict.sent(), None)
        step.calls, step.tail, step.is_applied = loss.calls, loss.tail, is_applied
        step.inputs = [(each, each._version) for call in loss.calls for each in call.tensors()]
        self._replayed.append(step)
        watch.spent(monitor.interval.looked(began))

    def settle(self) -> None:
        """Read the results of the last replay, if they are still pending."""
        replayed, self._replayed = self._replayed, []
        for step in replayed:
            _, step.largest, losses = step.look.read()
            self._monitor.known_later(step, losses)
