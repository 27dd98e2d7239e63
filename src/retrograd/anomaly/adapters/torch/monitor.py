"""The watch on PyTorch models: two numbers are checked in every step, and everything else only if one is bad."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.check_interval import CheckInterval
from retrograd.anomaly.adapters.learning_rates import rates_pass
from retrograd.anomaly.adapters.optimizer_state import OptimizerStateCheck
from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.program.manual_update_rates import rate_written
from retrograd.anomaly.adapters.torch.boundaries.buffers import Buffers
from retrograd.anomaly.adapters.torch.boundaries.clipping import Clipping
from retrograd.anomaly.adapters.torch.boundaries.cuda_graphs import Graphs
from retrograd.anomaly.adapters.torch.boundaries.failures import explanation
from retrograd.anomaly.adapters.torch.boundaries.manual_updates import ManualUpdates
from retrograd.anomaly.adapters.torch.boundaries.optimizer_state import first_bad_state
from retrograd.anomaly.adapters.torch.boundaries.rollback import BeforeUpdate, Withheld
from retrograd.anomaly.adapters.torch.boundaries.scaling import Scaling
from retrograd.anomaly.adapters.torch.boundaries.updates import Updates, optimizer_context
from retrograd.anomaly.adapters.torch.boundaries.value_reads import Reads
from retrograd.anomaly.adapters.torch.gradient_checks.gradients import (
    Seen,
    bad_ones,
    finite_norm,
    gradients_of,
    is_here,
    kind_of,
    loss_number,
    root_is_bad,
)
from retrograd.anomaly.adapters.torch.gradient_checks.growth import Growth
from retrograd.anomaly.adapters.torch.gradient_checks.lagged_steps import Lag, LateStep
from retrograd.anomaly.adapters.torch.models import Models
from retrograd.anomaly.adapters.torch.postmortem.analysis import Analysis
from retrograd.anomaly.adapters.torch.preconditions import check_watchable
from retrograd.anomaly.adapters.torch.records.backward import Backward
from retrograd.anomaly.adapters.torch.records.calls import can_be_bad, is_bad, roots_of
from retrograd.anomaly.adapters.torch.records.graph import leaves_behind
from retrograd.anomaly.adapters.torch.records.loss_tail import Tail
from retrograd.anomaly.adapters.torch.records.model_calls import ModelCalls, remove_all
from retrograd.anomaly.adapters.torch.records.recording import Recorder
from retrograd.anomaly.adapters.torch.runtime.distributed import UNSHARED, Agreement
from retrograd.anomaly.adapters.torch.runtime.frames import has_own_step, user_frame, within_backward
from retrograd.anomaly.adapters.torch.runtime.graph_capture import capturing
from retrograd.anomaly.adapters.torch.runtime.hidden_hooks import leave_out
from retrograd.anomaly.adapters.torch.runtime.modes import back_on_after_interrupt, unseen
from retrograd.anomaly.adapters.torch.runtime.step_hooks import call_around_steps
from retrograd.anomaly.adapters.torch.runtime.synchronization import is_of_device
from retrograd.anomaly.adapters.torch.runtime.warning_locations import point_at_callers
from retrograd.anomaly.adapters.torch.second_run.loaders import rerun
from retrograd.anomaly.adapters.torch.second_run.recordings import Recordings
from retrograd.anomaly.adapters.torch.second_run.snapshot import Snapshot
from retrograd.anomaly.adapters.torch.source_locations.sites import SiteLog
from retrograd.anomaly.adapters.torch.tensor_names import Names
from retrograd.anomaly.adapters.torch.thread_state import ThreadState
from retrograd.anomaly.adapters.weak_methods import weak
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.expected import expected
from retrograd.anomaly.monitor import AnomalyError, Watch
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.policies import are_among

LOOKS = 0.5  # of the watch's budget, for optional checks; noting lines takes the other half


class TorchMonitor:
    """Connects a watch to PyTorch.

    Parameters
    ----------
    watch
        Supplies the policies and receives the events.

    Attributes
    ----------
    model
        The watched model, if it is a torch module.
    updates
        The number of updates by optimizers so far.
    now
        The step under way, one for each thread.
    sites, calls, scaling, agreement, lag, recordings, interval
        Where operations and models were called, the gradient scalers, the other processes, results that are read later,
        the record of operations, when to check next. The classes that check other boundaries (clipping, updates by
        hand, captured graphs, numbers that the program reads) use these too.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.model = watch.model if isinstance(watch.model, torch.nn.Module) else None
        self.updates = 0
        self.now = ThreadState(watch.optimizer)
        self._updated = 0, 0  # the last two steps after which an optimizer was called
        self._patches = Patches()
        self._handles: list[Any] = []
        self.sites = SiteLog((1 - LOOKS) * watch.budget)
        self.calls = ModelCalls(weak(self._model_begins))
        self.models = Models(watch, self.model, self.calls)
        self._buffers = Buffers(watch, self.models)
        self.scaling = Scaling(weak(self._bad_scale), weak(self._step_is_over), weak(self._rehearsing))
        self.agreement = Agreement()
        self.lag = Lag(weak(self.known_later))
        self._growth = Growth()
        self._deferred: NaNEvent | None = None  # known only to this process so far
        self.recordings = Recordings(watch)
        self._clipping = Clipping(self)
        self._manual_updates = ManualUpdates(self)
        self._graphs = Graphs(self)
        self._reads = Reads(self)
        self._formulas = Updates(watch, weak(self._context), self.recordings, weak(self.analysis))
        self._state_check = OptimizerStateCheck(watch, weak(self._context), first_bad_state)
        self.interval = CheckInterval(watch, LOOKS)
        self._had_gradients = False  # on, when it was started

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        check_watchable(self.model, self.watch.optimizer)
        self._had_gradients = torch.is_grad_enabled()
        leave_out(self._patches)
        self.agreement.start(self._patches)
        self._patches.wrap(torch.autograd, "backward", self._backward)
        self._clipping.start(self._patches)
        self._patches.wrap(torch.optim.Optimizer, "zero_grad", self._begin_anew)
        self._patches.wrap(torch.nn.Module, "zero_grad", self._begin_anew)
        if self.watch.rerun_loaders:
            self._patches.wrap(torch.utils.data.DataLoader, "__iter__", rerun(self.watch, self._rehearsing))
        self.scaling.start(self._patches)
        call_around_steps(self._patches, self._handles, self._before_step, self._after_step)
        point_at_callers(self._patches, self._handles, self.recordings.samples.warnings.hear)
        self.models.start(self._patches)
        if self.model is not None:
            self.calls.follow(self.model)
            self._buffers.update()
        if self.watch.listens_to("spike"):
            self._growth.start()
        self.sites.start(self._patches)
        self._manual_updates.start(self._patches)
        self._graphs.start(self._patches)
        self._reads.start()
        self.recordings.start(self._patches)

    def stop(self) -> None:
        self._manual_updates.stop()
        self._graphs.stop()
        self._reads.stop()
        self.recordings.stop()
        self.now.show_hidden()
        self.sites.stop()
        self.lag.stop()
        self._growth.stop()
        self.calls.stop()
        self.models.forget()
        remove_all(self._handles)
        self._handles = []  # only now: stopping may be interrupted and repeated
        self._patches.undo()
        self.now = ThreadState(self.watch.optimizer)
        self._formulas.stop()
        back_on_after_interrupt(self._had_gradients)

    # --- the loss -----------------------------------------------------------------------------------------------------

    def _backward(self, original: Any, tensors: Any, *args: Any, **kwargs: Any) -> None:
        self.sites.leave()
        roots = roots_of(tensors)
        if self.now.busy or roots is None:
            original(tensors, *args, **kwargs)
            return
        if within_backward():  # a part of the forward pass is being run again within a backward
            with contextlib.nullcontext() if self.recorder is None else Backward(self.recorder, roots):
                original(tensors, *args, **kwargs)
            return
        self.watch.goes_on()
        self.calls.evaluation.end()
        self.sites.backward_begins()
        self.now.backward_begins()
        self.agreement.prepare(self.model, lambda: leaves_behind(roots))
        if not self._losses_finite(roots):
            self.sites.begin_anew()
            return
        if self.recorder is not None:
            with Backward(self.recorder, roots):
                original(tensors, *args, **kwargs)
        elif self.watch.replaying:
            original(tensors, *args, **kwargs)
        else:
            tail = self._remember_tail(roots)
            try:
                original(tensors, *args, **kwargs)
            finally:
                tail.backward_ended()
        self.after_backward(roots)

    def _remember_tail(self, roots: Sequence[Tensor]) -> Tail:
        """Record the loss function's work in backward, because the step cannot be run again."""
        began = time.perf_counter()
        tail = self.now.tail = Tail(roots, self.calls.nodes_of_outputs())
        self.now.turns.begin()
        self.watch.spent(time.perf_counter() - began)
        return tail

    def _losses_finite(self, roots: Sequence[Tensor]) -> bool:
        """Check the tensors that backward starts from, and return whether it may start."""
        if expected.depth:
            return True
        wrong: list[Tensor] = []
        known: list[float] = []
        for root in filter(can_be_bad, roots):
            loss = self.scaling.unscaled(root)
            if self.recorder is None and (self.reads_later or not is_here(loss.device)):
                self.now.waiting.append(loss.detach())
                continue
            number = loss_number(loss)
            if isinstance(number, float):
                known.append(number)
            if root_is_bad(loss, number):
                wrong.append(root)
        if not (self.recordings.rehearsing or self.reads_later):
            self.watch.remember_loss(known[0] if known else None)
        return not wrong or self._bad_loss(wrong)

    def _bad_loss(self, roots: Sequence[Tensor]) -> bool:
        kind = kind_of(roots)
        if not self.watch.listens_to(kind):
            return True
        with self.at_work():
            event = self.analysis().in_forward(roots)
        if self.agreement.active:  # the others are waiting in backward for this process's gradients
            self._deferred = event
            return True
        leaves = leaves_behind(roots)
        counts = not self.recordings.rehearsing
        self.watch.step += counts
        if self.report(kind, event, leaves):
            self.now.withhold(leaves)
            for leaf in leaves:
                if leaf.grad is None:
                    leaf.grad = torch.zeros_like(leaf)  # in case of an update by hand besides the optimizer
            return False
        self.watch.step -= counts  # it is counted when backward ends
        self.now.loss_is_told = True
        return True

    def _begin_anew(self, original: Any, owner: Any, *args: Any, **kwargs: Any) -> Any:
        """Gradients are cleared, including those to be withheld and those already reported."""
        self.now.loss_is_told, self.now.told = False, {}
        if (self.now.withheld or self.recorder is not None) and not self.now.busy:
            groups = [{"params": owner.parameters()}] if isinstance(owner, torch.nn.Module) else owner.param_groups
            cleared = {id(each) for group in groups for each in group["params"]}
            self.now.withheld &= cleared.isdisjoint(self.now.withheld_from)
            if self.recorder is not None:
                self.recorder.leaves = [each for each in self.recorder.leaves if id(each[0]) not in cleared]
        return original(owner, *args, **kwargs)

    # --- the gradients ------------------------------------------------------------------------------------------------

    def after_backward(self, roots: Sequence[Tensor]) -> None:
        self.watch.step += not self.recordings.rehearsing
        self.now.backward_ended()
        alone = not self.agreement.active  # otherwise all wait for the update
        by_hand = alone and (self.now.optimizer is None or self.recorder is not None)
        if self.watch.listens_to("spike") and not (self.now.withheld or expected.depth or self.recordings.rehearsing):
            self._measure(roots)
        early = (self.watch.every_backward or self.now.writes_between) and self.agreement.possible
        early |= alone and not by_hand and not self.reads_later and self._gathers()
        if early and not self.now.withheld and not self.scaling.active:
            self._look_early(roots)
        elif by_hand and not self.scaling.active:
            leaves = leaves_behind(roots)
            if self._look([(leaf, leaf.grad) for leaf in leaves if leaf.grad is not None]):
                self._buffers.update()
        self.interval.unseen += 1
        self._growth.step_ended(self.watch, roots)
        self.sites.step_ended([root.grad_fn for root in roots])
        self.watch.spent(self.sites.spent)
        self.sites.enter()

    def _gathers(self) -> bool:
        """Whether several backward passes make one update: then the bad one among them is searched for."""
        earlier, latest = self._updated
        return max(latest - earlier, self.watch.step - latest) > 1

    def _with_gradient(self, roots: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """The parameters of the model, or else the leaves of the roots' graph, with their gradients."""
        known = leaves_behind(roots) if self.model is None else self.model.parameters()
        return [(leaf, leaf.grad) for leaf in known if leaf.grad is not None]

    def _measure(self, roots: Sequence[Tensor]) -> None:
        """Have the size of the gradients and of the last update judged."""
        leaves = [leaf for leaf, gradient in self._with_gradient(roots) if can_be_bad(gradient)]
        found = self._growth.gradients(leaves, self._names)
        if not found:
            return
        ratio = None if self.watch.optimizer is None else self._growth.update_ratio(leaves)
        if self.watch.measured(found, ratio) == "withhold":
            self.now.withhold(leaves)

    def _look_early(self, roots: Sequence[Tensor]) -> None:
        """Check before the optimizer steps, which then need not check the same gradients again."""
        gradients = self._with_gradient(roots)
        if self._look(gradients):
            self.now.checked = Seen(gradients)

    def _look(self, gradients: Sequence[tuple[Tensor, Tensor]]) -> bool:
        """Check gradients and return whether they may be applied."""
        if expected.depth or not (gradients or self.agreement.sharded) or not self.is_due():
            return True
        began = time.perf_counter()
        waiting, self.now.waiting = self.now.waiting, []
        norm = self.now.norm = finite_norm([gradient for _, gradient in gradients], waiting)
        self.remember(norm)
        fine = norm is not None and self._deferred is None
        fine = self.agreement.everywhere(fine)
        self.watch.spent(self.interval.looked(began))
        return fine or self.bad_gradients(gradients, waiting)

    def remember(self, grad_norm: float | None) -> None:
        if not self.recordings.rehearsing:
            self.watch.remember_grad_norm(grad_norm)

    def is_due(self) -> bool:
        """Whether to check this step's gradients: always if a bad one must not be applied or is searched for."""
        if self.watch.must_not_pass or self.watch.replaying or self.agreement.active or self.recorder is not None:
            return True
        return self.interval.is_due()

    def bad_gradients(self, gradients: Sequence[tuple[Tensor, Tensor]], losses: Sequence[Tensor]) -> bool:
        wrong = bad_ones(gradients)
        kind = "nan" if self.agreement.active else kind_of([*losses, *(gradient for _, gradient in wrong)])
        if not self.watch.listens_to(kind):
            return True
        is_news = any(self.now.told.get(id(leaf)) is not gradient for leaf, gradient in wrong) or not wrong
        self.now.told |= {id(leaf): gradient for leaf, gradient in wrong}
        if (self.now.loss_is_told or not is_news) and kind not in self.watch.must_not_pass:
            return True
        event, self._deferred = self._deferred, None
        known = self.agreement.have(leaf for leaf, _ in wrong)
        with self.at_work():
            event = event or self.analysis().in_backward(wrong, losses)
            event, again = self.agreement.guilty(event, known, self.watch.replaying)
        parameters = [parameter for parameter, _ in gradients]
        if not known and self.agreement.have(parameters) and self.watch.policies[kind] != "raise":
            self.watch.warned(kind, event, UNSHARED)
        elif self.report(kind, event, parameters, again):
            self.now.withhold(parameters)
            return False
        return True

    # --- the update ---------------------------------------------------------------------------------------------------

    def _before_step(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        held_back = self.now.hidden is not None or self.lag.holds
        if self.now.busy or not self.now.steps.begin(optimizer, held_back):
            return None
        self.now.show_hidden()
        self.sites.leave()
        self.now.weight = None
        if self.now.optimizer is not optimizer or not self.updates:
            self.now.optimizer = optimizer
            self._manual_updates.no_steps()
            self._formulas.see(optimizer)
            self.models.meet(optimizer, steps=True)
            self.agreement.share(optimizer)
        self.scaling.stepped()
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": self._settled(optimizer, kwargs["closure"])}
        if len(args) > 1 and callable(args[1]):  # the step of the program's own may take a number
            return (args[0], self._settled(optimizer, args[1]), *args[2:]), kwargs
        self._settle(optimizer)
        return None

    def _model_begins(self) -> bool:
        """Called before a model's first call: no step has written its buffers yet. Return whether it is followed."""
        if not self.now.at_work:
            with self.at_work():
                self._buffers.update()
        return self.model is not None or not self.watch.replaying  # else each step can be run again

    def _settled(self, optimizer: Any, closure: Any) -> Any:
        """Wrap a closure, which computes loss and gradients within the optimizer's step, to check when it returns."""
        must_be_exact = self.watch.must_not_pass or self.watch.replaying or self.watch.rerun_loaders
        before = BeforeUpdate(optimizer) if must_be_exact and has_own_step(optimizer) else None

        def evaluate(*args: Any, **kwargs: Any) -> Any:
            with contextlib.nullcontext() if before is None else before.restored_by(AnomalyError):
                for _ in self._runs():
                    with self.sites.within_update(), self.recordings.within_update():
                        loss = closure(*args, **kwargs)
                    self._settle(optimizer, at_once=True, before=before)
                return loss

        return evaluate

    def _runs(self) -> Iterator[None]:
        """One iteration per call of a closure: in an unmodified script a second one if something goes wrong in it."""
        if not self.watch.rerun_loaders or self.watch.replaying or self.recorder is not None:
            yield
            return
        batch = self.watch.batch_idx
        for _ in self.watch.steps([None]):
            self.watch.batch_idx = batch
            yield

    def _settle(self, optimizer: Any, at_once: bool = False, before: BeforeUpdate | None = None) -> None:
        """Decide whether an optimizer may apply the present gradients, and take them away if not."""
        self.settle()
        withheld, self.now.withheld = self.now.withheld, False
        if not withheld and getattr(optimizer, "found_inf", None) is None:
            gradients = gradients_of(optimizer)
            # whether clipping has checked exactly these, and nothing has changed since
            checked = self.now.checked is not None and not self.now.waiting and self.now.checked.covers(gradients)
            if not checked and (at_once or not self._look_later(optimizer, gradients)):
                withheld = not self._look(gradients)
                self.now.withheld = False
            if self.now.norm is not None and not withheld:
                self._formulas.with_gradients(optimizer, gradients, self.now.norm)
        withheld = withheld or not rates_pass(self.watch, optimizer, self._context)
        withheld = withheld or not (capturing() or self._state_check.passes(optimizer))
        self.now.checked = self.now.clipping = self.now.norm = None
        self.now.waiting, self.now.loss_is_told, self.now.told = [], False, {}
        if self._updated[1] != self.watch.step and not self.recordings.rehearsing:
            self._updated = self._updated[1], self.watch.step
        self.recordings.attempted = self.recordings.rehearsing
        if withheld or self.recordings.attempted:  # without gradients it changes neither weights nor state
            self.now.hidden = Withheld(optimizer, before)
        else:
            self.updates += 1
            self._buffers.update()
            self._formulas.begins(optimizer, before)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.now.busy or not self.now.steps.end():
            return
        self.now.show_hidden()
        self.lag.updated(self.calls.forget(), self.now.tail)
        self.sites.enter()
        if self.now.turns.are_over(optimizer):
            self.now.tail, self.now.went_back = None, False
        self._formulas.after(optimizer)

    def _step_is_over(self) -> None:
        """Called when a gradient scaler has skipped the update: losses on a device are still unread."""
        waiting, self.now.waiting = self.now.waiting, []
        if self._deferred is not None or any(map(is_bad, waiting)):
            self.bad_gradients([], waiting)
            self.now.withheld = False
        self.calls.forget()
        self.now.tail, self.now.went_back = None, False

    def _bad_scale(self, optimizer: Any, note: str) -> None:
        """Called when a gradient scaler has skipped so many updates that the scale cannot be the cause."""
        gradients = gradients_of(optimizer)
        wrong = bad_ones(gradients)
        kind = kind_of(gradient for _, gradient in wrong)
        if not wrong or not self.watch.listens_to(kind):
            return
        with self.at_work():
            event = self.analysis(note).in_backward(wrong)
        self.report(kind, event, [parameter for parameter, _ in gradients])

    # --- a step whose result is read later ----------------------------------------------------------------------------

    @property
    def reads_later(self) -> bool:
        """Whether the present step's result can wait: not if it is run again, or other processes take part."""
        return bool(self.watch.lag) and not (
            self.watch.replaying or self.agreement.active or self.recorder is not None or self.now.optimizer is None
        )

    def _look_later(self, optimizer: Any, gradients: Sequence[tuple[Tensor, Tensor]]) -> bool:
        """Check gradients without waiting for the result, and return whether that is possible."""
        if not self.reads_later or not gradients:
            return False
        if expected.depth or not self.is_due() or not any(can_be_bad(gradient) for _, gradient in gradients):
            return True
        began = time.perf_counter()
        must_not_pass, watch = self.watch.must_not_pass, self.watch
        done = self.lag.look(optimizer, gradients, self.now.waiting, must_not_pass, watch.step, watch.batch_idx)
        self.watch.spent(self.interval.looked(began))
        return done

    def settle(self) -> None:
        """Read the result of the step before, if it is still pending and can be read."""
        if self.now.busy:
            return
        self.lag.settle()
        self._graphs.settle()
        self._manual_updates.settle(for_good=True)

    def known_later(self, step: LateStep, losses: Sequence[float]) -> None:
        for loss in losses:
            self.watch.remember_loss(loss)
        bad = [each for each in (*step.largest, *losses) if not math.isfinite(each)]
        kind = "nan" if any(map(math.isnan, bad)) else "inf"
        if not bad or not self.watch.listens_to(kind):
            return
        wrong = [(each, None) for each in step.wrong]
        with self.at_work(), self.calls.of_earlier_step(step.calls):
            names = self._names(each for call in step.calls for each in call.named())
            analysis = self.analysis(tail=step.tail, names=names)
            find = analysis.in_backward if step.inputs is None else functools.partial(analysis.in_replay, step)
            event = find(wrong, step.losses)
        event = replace(event, step=step.number, batch_idx=step.batch_idx)
        self.watch.found(kind, event, exact=step.inputs is not None)  # a second run sees nothing of a graph

    # --- what is found ------------------------------------------------------------------------------------------------

    def _names(self, earlier: Iterable[tuple[str, Tensor]] = ()) -> Names:
        return Names(self.model, user_frame(sys._getframe(1)), [*earlier, *self.calls.named()])

    def analysis_at(self, frame: FrameType, record: Recorder | None = None) -> Analysis:
        return self.analysis(names=Names(self.model, frame), record=record)

    def analysis(
        self, note: str | None = None, tail: Tail | None = None, names: Names | None = None, record: Any = None
    ) -> Analysis:
        names, record, tail = names or self._names(), record or self.recorder, tail or self.now.tail
        context, now = self._context(), self.now
        changes = now.went_back, now.gradient_is_changed
        where = self.sites, self.calls, self.recordings.samples
        return Analysis(names, record, *where, self.is_meant, context, tail, note, *changes)

    def report(self, kind: str, event: NaNEvent, leaves: Sequence[Tensor], again: bool = True) -> bool:
        """Report an event, and return whether to withhold the update; ``again``: whether the step may be run again."""
        exact = self.recordings.for_good or not again
        if self.watch.replaying and not exact:
            with self.at_work():
                self.recordings.tripped(leaves, by_hand=self.now.optimizer is None)
        self.now.waiting = []
        return self.watch.found(kind, self._buffers.put_back(kind, event), exact=exact) == "withhold"

    def is_meant(self, call: Any) -> bool:
        """Whether the user has declared the infinities of an operation as intended."""
        if {call.name, canonical(call.name)} & self.watch.allow:
            return True
        return are_among(call.modules, self.watch.allow_modules, self.model)

    def _context(self) -> dict[str, Any]:
        context = self._growth.told(self.watch, self.updates, self.recordings.rehearsing, self._names())
        frame = user_frame(sys._getframe(1))
        context |= rate_written(frame) | optimizer_context(self.watch.optimizer or self.now.optimizer, frame)
        if self.now.clipping is not None:
            context["clip_grad_norm"] = self.now.clipping
        earlier, latest = self._updated
        context["gathered"] = self.watch.step - (latest if latest != self.watch.step else earlier)
        if self.scaling.history:
            context |= {"scale_history": tuple(self.scaling.history), "scaled_on": self.scaling.device}
        return context

    def explain(self, error: BaseException) -> NaNEvent | None:
        """The event of an error about numbers that are not finite; None for any other."""
        if is_of_device(error):
            return None
        with self.at_work():
            return explanation(error, self.watch, self.model, self._context(), self.analysis_at)

    # --- a second run -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        self._manual_updates.settle()
        return self.recordings.snapshot(self.models.buffers())

    def restore(self, snapshot: Snapshot) -> None:
        self.now.restored(self.recordings.restore(snapshot, self.now.still_withheld()))

    def record_everything(self) -> None:
        self.recordings.begin_second_run()

    def stop_recording(self) -> None:
        self.recordings.end_second_run()

    @property
    def recorder(self) -> Recorder | None:
        return self.recordings.recorder

    def _rehearsing(self) -> bool:
        """Whether a second run is under way."""
        return self.recordings.rehearsing

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Our own work is neither watched nor recorded."""
        before, self.now.at_work = self.now.at_work, True
        try:
            with torch.no_grad(), unseen():
                yield
        finally:
            self.now.at_work = before
