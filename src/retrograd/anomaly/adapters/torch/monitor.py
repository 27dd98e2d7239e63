"""The watch on PyTorch models: two numbers are looked at in every step, and everything else only when one is bad."""

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
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from retrograd.anomaly.adapters.pace import Pace
from retrograd.anomaly.adapters.rates import rates_pass
from retrograd.anomaly.adapters.torch.by_hand import UpdatesByHand
from retrograd.anomaly.adapters.torch.calls import are_tensors, can_be_bad, is_bad
from retrograd.anomaly.adapters.torch.compiling import in_use
from retrograd.anomaly.adapters.torch.distributed import Agreement
from retrograd.anomaly.adapters.torch.failures import explanation
from retrograd.anomaly.adapters.torch.findings import Findings
from retrograd.anomaly.adapters.torch.forward import ModelCalls
from retrograd.anomaly.adapters.torch.frames import has_own_step, user_frame
from retrograd.anomaly.adapters.torch.gradients import (
    Seen,
    bad_ones,
    finite_norm,
    gradients_of,
    is_here,
    kind_of,
    loss_number,
    numbers_of,
    numbers_on,
    root_is_bad,
)
from retrograd.anomaly.adapters.torch.graph import leaves_behind
from retrograd.anomaly.adapters.torch.graphed import Graphs
from retrograd.anomaly.adapters.torch.growth import Growth
from retrograd.anomaly.adapters.torch.lagging import Lag, LateStep
from retrograd.anomaly.adapters.torch.loaders import rerun
from retrograd.anomaly.adapters.torch.models import Models, is_on_device
from retrograd.anomaly.adapters.torch.names import Names
from retrograd.anomaly.adapters.torch.patches import Patches
from retrograd.anomaly.adapters.torch.preconditions import check_watchable
from retrograd.anomaly.adapters.torch.reading import Reads
from retrograd.anomaly.adapters.torch.recording import Recorder, unseen
from retrograd.anomaly.adapters.torch.recordings import Recordings
from retrograd.anomaly.adapters.torch.scaling import Scaling
from retrograd.anomaly.adapters.torch.sites import SiteLog
from retrograd.anomaly.adapters.torch.snapshot import Snapshot
from retrograd.anomaly.adapters.torch.tail import Tail
from retrograd.anomaly.adapters.torch.under_way import UnderWay
from retrograd.anomaly.adapters.torch.undoing import BeforeUpdate, Withheld
from retrograd.anomaly.adapters.torch.unhooked import leave_out
from retrograd.anomaly.adapters.torch.updates import Divisions, optimizer_context
from retrograd.anomaly.adapters.torch.waiting import is_of_device
from retrograd.anomaly.adapters.torch.warned import point_at_callers
from retrograd.anomaly.adapters.weakly import weakly
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.expected import expected
from retrograd.anomaly.monitor import AnomalyError, Watch
from retrograd.anomaly.names import canonical
from retrograd.anomaly.policies import are_among

LOOKS = 0.5  # of the watch's budget, for looks that are not necessary; noting lines takes the other half

_graph_task = torch._C._current_graph_task_id


class TorchMonitor:
    """Connects a watch to PyTorch.

    Parameters
    ----------
    watch
        Whose policies hold, and who takes over the events.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.model = watch.model if isinstance(watch.model, torch.nn.Module) else None
        self.updates = 0
        self._now = UnderWay(watch.optimizer)
        self._updated = 0, 0  # the last two steps after which an optimizer was called
        self._patches = Patches()
        self._handles: list[Any] = []
        self._sites = SiteLog((1 - LOOKS) * watch.budget)
        self._calls = ModelCalls()
        self._models = Models(self.model)
        self._scaling = Scaling(weakly(self._bad_scale), weakly(self._step_is_over), weakly(self._rehearsing))
        self._agreement = Agreement()
        self._lag = Lag(weakly(self._known_later))
        self._growth = Growth()
        self._deferred: NaNEvent | None = None  # what this process alone knows so far
        self._recordings = Recordings(watch)
        self._by_hand = UpdatesByHand(self)
        self._graphs = Graphs(self)
        self._reads = Reads(self)
        self._divisions = Divisions(watch, weakly(self._context), self._recordings, weakly(self._findings))
        self._pace = Pace(watch, LOOKS)

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        check_watchable(self.model, self.watch.optimizer)
        leave_out(self._patches)
        self._patches.wrap(torch.autograd, "backward", self._backward)
        self._patches.wrap(Tensor, "backward", self._without_notes)
        self._patches.wrap(torch, "compile", self._without_notes)
        self._patches.wrap(torch.nn.utils.clip_grad, "_clip_grads_with_norm_", self._clip)
        self._patches.wrap(torch.optim.lr_scheduler.LRScheduler, "step", self._schedule)
        self._patches.wrap(torch.optim.Optimizer, "zero_grad", self._begin_anew)
        self._patches.wrap(torch.nn.Module, "zero_grad", self._begin_anew)
        if self.watch.rerun_loaders:
            self._patches.wrap(torch.utils.data.DataLoader, "__iter__", rerun(self.watch, self._rehearsing))
        self._scaling.start(self._patches)
        self._handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
            *point_at_callers(self._patches),
        ]
        if self.model is not None:
            self._calls.follow(self.model)
        if self.watch.listens_to("spike"):
            self._growth.start()
        self._sites.start(self._patches)
        self._by_hand.start(self._patches)
        self._graphs.start(self._patches)
        self._reads.start()
        self._recordings.start(self._patches)

    def stop(self) -> None:
        self._by_hand.stop()
        self._graphs.stop()
        self._reads.stop()
        self._recordings.stop()
        self._show_hidden()
        self._sites.stop()
        self._lag.stop()
        self._growth.stop()
        self._calls.stop()
        self._models.forget()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._patches.undo()
        self._now = UnderWay(self.watch.optimizer)
        self._divisions.stop()

    def _without_notes(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """``Tensor.backward`` would come to a torch-function mode before it comes to us; compiled code wants none."""
        self._sites.leave()
        return original(*args, **kwargs)

    # --- the loss -------------------------------------------------------------------------------------------------

    def _backward(self, original: Any, tensors: Any, *args: Any, **kwargs: Any) -> None:
        self._sites.leave()
        if self._now.busy or not are_tensors(tensors):
            original(tensors, *args, **kwargs)
            return
        roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        if _graph_task() != -1:  # a part of the forward pass, run again within a backward
            with contextlib.nullcontext() if self._recorder is None else self._recorder.watch_backward(roots):
                original(tensors, *args, **kwargs)
            return
        self._sites.backward_begins()
        self._agreement.prepare(self.model)
        self._now.loss_is_told &= self._now.optimizer is not None  # else nobody says when a step has ended
        if not self._losses_finite(roots):
            return
        if self._recorder is not None:
            with self._recorder.watch_backward(roots):
                original(tensors, *args, **kwargs)
        elif self.watch.replaying:
            original(tensors, *args, **kwargs)
        else:
            tail = self._remember_tail(roots)
            try:
                original(tensors, *args, **kwargs)
            finally:
                tail.backward_ended()
        self._after_backward(roots)

    def _remember_tail(self, roots: Sequence[Tensor]) -> Tail:
        """Keep what the loss function does in backward, because the step cannot be run again."""
        began = time.perf_counter()
        tail = self._now.tail = Tail(roots, self._calls.nodes_of_outputs())
        self._now.turns.begin()
        self.watch.spent(time.perf_counter() - began)
        return tail

    def _losses_finite(self, roots: Sequence[Tensor]) -> bool:
        """Look at what backward starts from, and say whether it may start."""
        if expected.depth:
            return True
        wrong: list[Tensor] = []
        known: list[float] = []
        for root in filter(can_be_bad, roots):
            loss = self._scaling.unscaled(root)
            if self._recorder is None and (self._reads_later or not is_here(loss.device)):
                self._now.waiting.append(loss.detach())
                continue
            number = loss_number(loss)
            if isinstance(number, float):
                known.append(number)
            if root_is_bad(loss, number):
                wrong.append(root)
        if not (self._recordings.rehearsing or self._reads_later):
            self.watch.remember_loss(known[0] if known else None)
        return not wrong or self._bad_loss(wrong)

    def _bad_loss(self, roots: Sequence[Tensor]) -> bool:
        kind = kind_of(roots)
        if not self.watch.listens_to(kind):
            return True
        with self._at_work():
            event = self._findings().in_forward(roots)
        if self._agreement.active:  # the others are waiting in backward for this process's gradients
            self._deferred = event
            return True
        leaves = leaves_behind(root.grad_fn for root in roots)
        counts = not self._recordings.rehearsing
        self.watch.step += counts
        if self._report(kind, event, leaves):
            self._withhold(leaves)
            for leaf in leaves:
                if leaf.grad is None:
                    leaf.grad = torch.zeros_like(leaf)  # for an update by hand beside an optimizer
            return False
        self.watch.step -= counts  # the end of backward counts it
        self._now.loss_is_told = True
        return True

    def _withhold(self, leaves: Sequence[Tensor]) -> None:
        self._now.withheld, self._now.withheld_from = True, {id(leaf) for leaf in leaves}
        for leaf in leaves if self._now.optimizer is None else ():
            leaf.grad = torch.zeros_like(leaf)  # so that an update written by hand changes nothing

    def _show_hidden(self) -> None:
        if self._now.hidden is not None:
            self._now.hidden.restore()
            self._now.hidden = None

    def _begin_anew(self, original: Any, owner: Any, *args: Any, **kwargs: Any) -> Any:
        """Gradients are cleared: there is nothing left of those that were to be withheld, or that were told of."""
        self._now.loss_is_told, self._now.told = False, {}
        if (self._now.withheld or self._recorder is not None) and not self._now.busy:
            groups = [{"params": owner.parameters()}] if isinstance(owner, torch.nn.Module) else owner.param_groups
            cleared = {id(each) for group in groups for each in group["params"]}
            self._now.withheld &= cleared.isdisjoint(self._now.withheld_from)
            if self._recorder is not None:
                self._recorder.leaves = [each for each in self._recorder.leaves if id(each[0]) not in cleared]
        return original(owner, *args, **kwargs)

    # --- the gradients --------------------------------------------------------------------------------------------

    def _after_backward(self, roots: Sequence[Tensor]) -> None:
        self.watch.step += not self._recordings.rehearsing
        alone = not self._agreement.active  # otherwise all wait for the update
        by_hand = alone and (self._now.optimizer is None or self._recorder is not None)
        if self.watch.listens_to("spike") and not (self._now.withheld or expected.depth or self._recordings.rehearsing):
            self._measure(roots)
        early = self.watch.every_backward and self._agreement.possible
        if early and not self._now.withheld and not self._scaling.active:
            self._look_early(roots)
        elif by_hand and not self._scaling.active:
            leaves = leaves_behind(root.grad_fn for root in roots)
            self._look([(leaf, leaf.grad) for leaf in leaves if leaf.grad is not None])
        self._pace.unseen += 1
        self._growth.step_ended(self.watch, roots)
        self._sites.step_ended([root.grad_fn for root in roots])
        self.watch.spent(self._sites.spent)
        self._sites.enter()

    def _with_gradient(self, roots: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """The parameters of the model, or else the leaves behind the roots, with their gradients."""
        known = leaves_behind(root.grad_fn for root in roots) if self.model is None else self.model.parameters()
        return [(leaf, leaf.grad) for leaf in known if leaf.grad is not None]

    def _measure(self, roots: Sequence[Tensor]) -> None:
        """Have it judged how large gradients and the last update are."""
        leaves = [leaf for leaf, gradient in self._with_gradient(roots) if can_be_bad(gradient)]
        found = self._growth.gradients(leaves, self._names)
        if not found:
            return
        ratio = None if self.watch.optimizer is None else self._growth.update_ratio(leaves)
        if self.watch.measured(found, ratio) == "withhold":
            self._withhold(leaves)

    def _look_early(self, roots: Sequence[Tensor]) -> None:
        """Look before the optimizer steps, which then need not look at the same gradients again."""
        gradients = self._with_gradient(roots)
        if self._look(gradients):
            self._now.checked = Seen(gradients)

    def _look(self, gradients: Sequence[tuple[Tensor, Tensor]]) -> bool:
        """Look at gradients and say whether they may be applied."""
        if expected.depth or not gradients or not self._is_due():
            return True
        began = time.perf_counter()
        waiting, self._now.waiting = self._now.waiting, []
        norm = finite_norm([gradient for _, gradient in gradients], waiting)
        self._remember(norm)
        fine = norm is not None and self._deferred is None
        fine = self._agreement.everywhere(fine)
        self.watch.spent(self._pace.looked(began))
        return fine or self._bad_gradients(gradients, waiting)

    def _remember(self, grad_norm: float | None) -> None:
        if not self._recordings.rehearsing:
            self.watch.remember_grad_norm(grad_norm)

    def _is_due(self) -> bool:
        """Whether to look at the gradients of this step: always where a bad one must not be applied or is asked for."""
        if self.watch.must_not_pass or self.watch.replaying or self._agreement.active or self._recorder is not None:
            return True
        return self._pace.is_due()

    def _bad_gradients(self, gradients: Sequence[tuple[Tensor, Tensor]], losses: Sequence[Tensor]) -> bool:
        wrong = bad_ones(gradients)
        kind = "nan" if self._agreement.active else kind_of([*losses, *(gradient for _, gradient in wrong)])
        if not self.watch.listens_to(kind):
            return True
        is_news = any(self._now.told.get(id(leaf)) is not gradient for leaf, gradient in wrong) or not wrong
        self._now.told |= {id(leaf): gradient for leaf, gradient in wrong}
        if (self._now.loss_is_told or not is_news) and kind not in self.watch.must_not_pass:
            return True
        event, self._deferred = self._deferred, None
        with self._at_work():
            event = self._agreement.guilty(event or self._findings().in_backward(wrong, losses))
        parameters = [parameter for parameter, _ in gradients]
        if self._report(kind, event, parameters):
            self._withhold(parameters)
            return False
        return True

    def _clip(self, original: Any, parameters: Any, max_norm: float, total_norm: Tensor, *args: Any, **kw: Any) -> None:
        """Clipping makes NaN of every gradient if one is infinite: look before, at the norm that it has computed."""
        parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        gradients = [(each, each.grad) for each in parameters if each.grad is not None]
        go_on = functools.partial(original, parameters, max_norm, total_norm, *args, **kw)
        settled = self._scaling.active or self._agreement.active or self._now.withheld or not can_be_bad(total_norm)
        if self._now.busy or expected.depth or not gradients or settled:
            go_on()
            return
        if self._reads_later:
            waiting, self._now.waiting = self._now.waiting, []
            clipped = self._lag.clip(gradients, waiting, self.watch.must_not_pass)
            go_on()
            clipped()
            return
        losses = numbers_of(loss for loss in self._now.waiting if loss.device == total_norm.device)
        norm, *numbers = numbers_on(total_norm.device, [total_norm.detach(), *losses])
        if math.isfinite(norm) and all(map(math.isfinite, numbers)):
            self._remember(norm)
            go_on()
            self._now.waiting = []
            self._now.checked = Seen(gradients)
            return
        if finite_norm([gradient for _, gradient in gradients], self._now.waiting) is not None:
            go_on()
            return
        frame = user_frame(sys._getframe(1))
        self._now.clipping = {"total_norm": norm, "max_norm": float(max_norm)}
        if frame is not None:
            self._now.clipping["place"] = frame.f_code, frame.f_lasti
        if self._bad_gradients(gradients, self._now.waiting):
            go_on()

    # --- the update -----------------------------------------------------------------------------------------------

    def _before_step(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._now.busy or not self._now.steps.begin(optimizer):
            return None
        self._show_hidden()
        self._sites.leave()
        if self._now.optimizer is not optimizer or not self.updates:
            self._now.optimizer = optimizer
            self._by_hand.no_steps()
            self._divisions.see(optimizer)
            if self.watch.rerun_loaders or self.watch.lag or is_on_device(optimizer):  # the graph will be gone
                self._meet(optimizer)
        self._scaling.stepped()
        if kwargs.get("closure") is not None:
            return args, {**kwargs, "closure": self._settled(optimizer, kwargs["closure"])}
        if len(args) > 1 and args[1] is not None:
            return (args[0], self._settled(optimizer, args[1]), *args[2:]), kwargs
        self._settle(optimizer)
        return None

    def _meet(self, optimizer: Any) -> None:
        """Find the models that an optimizer updates, where the watch was given none: so that they can be run again."""
        for model in self._models.find(user_frame(sys._getframe(1)), optimizer):
            if not self.watch.replaying and not in_use():
                self._calls.follow(model)

    def _settled(self, optimizer: Any, closure: Any) -> Any:
        """A closure computes loss and gradients within the optimizer's step: look when it returns."""
        must_be_exact = self.watch.must_not_pass or self.watch.replaying
        before = BeforeUpdate(optimizer) if must_be_exact and has_own_step(optimizer) else None

        def evaluate(*args: Any, **kwargs: Any) -> Any:
            with contextlib.nullcontext() if before is None else before.restored_by(AnomalyError):
                with self._sites.within_update(), self._recordings.within_update():
                    loss = closure(*args, **kwargs)
                self._settle(optimizer, at_once=True, before=before)
                return loss

        return evaluate

    def _settle(self, optimizer: Any, at_once: bool = False, before: BeforeUpdate | None = None) -> None:
        """Decide whether an optimizer may apply the gradients that are there, and take them away if not."""
        self.settle()
        withheld, self._now.withheld = self._now.withheld, False
        if not withheld and getattr(optimizer, "found_inf", None) is None:
            gradients = gradients_of(optimizer)
            # whether clipping has looked at just these, and nothing has changed since
            checked = self._now.checked is not None and not self._now.waiting and self._now.checked.covers(gradients)
            if not checked and (at_once or not self._look_later(optimizer, gradients)):
                withheld = not self._look(gradients)
                self._now.withheld = False
        withheld = withheld or not rates_pass(self.watch, optimizer, self._context)
        self._now.checked = self._now.clipping = None
        self._now.waiting = []
        self._now.loss_is_told, self._now.told = False, {}
        if self._updated[1] != self.watch.step and not self._recordings.rehearsing:
            self._updated = self._updated[1], self.watch.step
        self._recordings.attempted = self._recordings.rehearsing
        if withheld or self._recordings.attempted:  # without gradients an update changes nothing, nor its own state
            self._now.hidden = Withheld(optimizer, before)
        else:
            self.updates += 1

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._now.busy or not self._now.steps.end():
            return
        self._show_hidden()
        self._lag.updated(self._calls.forget(), self._now.tail)
        self._sites.enter()
        if self._now.turns.are_over(optimizer):
            self._now.tail = None

    def _step_is_over(self) -> None:
        """A gradient scaler has left out the update: nobody has read the losses that are on a device."""
        waiting, self._now.waiting = self._now.waiting, []
        if any(map(is_bad, waiting)):
            self._bad_gradients([], waiting)
            self._now.withheld = False
        self._calls.forget()
        self._now.tail = None

    def _schedule(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """The learning rate does not move on in a second run of the same step."""
        return None if self._recordings.rehearsing else original(*args, **kwargs)

    def _bad_scale(self, optimizer: Any, note: str) -> None:
        """A gradient scaler has left out so many updates that no scale can be to blame."""
        gradients = gradients_of(optimizer)
        wrong = bad_ones(gradients)
        kind = kind_of(gradient for _, gradient in wrong)
        if not wrong or not self.watch.listens_to(kind):
            return
        with self._at_work():
            event = self._findings(note).in_backward(wrong)
        self._report(kind, event, [parameter for parameter, _ in gradients])

    # --- a step of which it is known later --------------------------------------------------------------------------

    @property
    def _reads_later(self) -> bool:
        """Whether the present step's result can wait: not if it is to be run again, or others take part in it."""
        return bool(self.watch.lag) and not (
            self.watch.replaying or self._agreement.active or self._recorder is not None or self._now.optimizer is None
        )

    def _look_later(self, optimizer: Any, gradients: Sequence[tuple[Tensor, Tensor]]) -> bool:
        """Look at gradients without waiting for the result, and say whether that can be done."""
        if not self._reads_later or not gradients:
            return False
        if expected.depth or not self._is_due() or not any(can_be_bad(gradient) for _, gradient in gradients):
            return True
        began = time.perf_counter()
        must_not_pass, watch = self.watch.must_not_pass, self.watch
        done = self._lag.look(optimizer, gradients, self._now.waiting, must_not_pass, watch.step, watch.batch_idx)
        self.watch.spent(self._pace.looked(began))
        return done

    def settle(self) -> None:
        """Read the result of the step before, if it is still out and can be read."""
        if self._now.busy:
            return
        self._lag.settle()
        self._graphs.settle()
        self._by_hand.settle(for_good=True)

    def _known_later(self, step: LateStep, losses: Sequence[float]) -> None:
        for loss in losses:
            self.watch.remember_loss(loss)
        bad = [each for each in (*step.largest, *losses) if not math.isfinite(each)]
        kind = "nan" if any(map(math.isnan, bad)) else "inf"
        if not bad or not self.watch.listens_to(kind):
            return
        wrong = [(each, None) for each in step.wrong]
        with self._at_work(), self._calls.of_earlier_step(step.calls):
            names = self._names(each for call in step.calls for each in call.named())
            findings = self._findings(tail=step.tail, names=names)
            find = findings.in_backward if step.inputs is None else functools.partial(findings.in_replay, step)
            event = find(wrong, step.losses)
        event = replace(event, step=step.number, batch_idx=step.batch_idx)
        self.watch.found(kind, event, exact=step.inputs is not None)  # of a graph a second run sees nothing

    # --- what is found --------------------------------------------------------------------------------------------

    def _names(self, earlier: Iterable[tuple[str, Tensor]] = ()) -> Names:
        return Names(self.model, user_frame(sys._getframe(1)), [*earlier, *self._calls.named()])

    def _findings_at(self, frame: FrameType) -> Findings:
        return self._findings(names=Names(self.model, frame))

    def _findings(self, note: str | None = None, tail: Tail | None = None, names: Names | None = None) -> Findings:
        return Findings(
            names or self._names(),
            self._recorder,
            self._sites,
            self._calls,
            self._is_meant,
            self._context(),
            tail or self._now.tail,
            note,
        )

    def _report(self, kind: str, event: NaNEvent, leaves: Sequence[Tensor]) -> bool:
        """Hand an event over, and say whether the update is to be withheld."""
        if self.watch.replaying and self._recorder is None:
            self._recordings.tripped(leaves, by_hand=self._now.optimizer is None)
        self._now.waiting = []
        return self.watch.found(kind, event, exact=self._recordings.for_good) == "withhold"

    def _is_meant(self, call: Any) -> bool:
        """Whether the user has said that the infinities of an operation are meant."""
        if {call.name, canonical(call.name)} & self.watch.allow:
            return True
        return are_among(call.modules, self.watch.allow_modules, self.model)

    def _context(self) -> dict[str, Any]:
        context = self._growth.told(self.watch, self.updates, self._recordings.rehearsing, self._names())
        context |= optimizer_context(self.watch.optimizer or self._now.optimizer, user_frame(sys._getframe(1)))
        if self._now.clipping is not None:
            context["clip_grad_norm"] = self._now.clipping
        earlier, latest = self._updated
        context["gathered"] = self.watch.step - (latest if latest != self.watch.step else earlier)
        if self._scaling.history:
            context |= {"scale_history": tuple(self._scaling.history), "scaled_on": self._scaling.device}
        return context

    def explain(self, error: BaseException) -> NaNEvent | None:
        """The event of an error about numbers that are not finite; None for any other."""
        if is_of_device(error):
            return None
        with self._at_work():
            return explanation(error, self.watch, self.model, self._context(), self._findings_at)

    # --- a second run ---------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        self._by_hand.settle()
        return self._recordings.snapshot(self._models.buffers(user_frame(sys._getframe(1))))

    def restore(self, snapshot: Snapshot) -> None:
        self._now.withheld = self._recordings.restore(snapshot)

    def record_everything(self) -> None:
        self._recordings.begin_second_run()

    def stop_recording(self) -> None:
        self._recordings.end_second_run()

    @property
    def _recorder(self) -> Recorder | None:
        return self._recordings.recorder

    def _rehearsing(self) -> bool:
        """Whether a second run is under way."""
        return self._recordings.rehearsing

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """Our own work is neither watched nor recorded."""
        self._now.at_work = True
        try:
            with torch.no_grad(), unseen():
                yield
        finally:
            self._now.at_work = False
