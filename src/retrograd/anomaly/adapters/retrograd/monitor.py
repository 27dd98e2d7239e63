"""The monitor of retrograd's own engine: flags make suspects, harm at a boundary makes them guilty."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.check_interval import LONGEST_PAUSE, CheckInterval
from retrograd.anomaly.adapters.initial_norms import FIRST, InitialNorms
from retrograd.anomaly.adapters.leaf_names import LeafNames
from retrograd.anomaly.adapters.learning_rates import rates_pass
from retrograd.anomaly.adapters.optimizer_state import OptimizerStateCheck
from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.program.manual_update_rates import rate_written
from retrograd.anomaly.adapters.progress import progress
from retrograd.anomaly.adapters.retrograd.births import Birth, all_samples, birth_at, in_helper_thread, ran_by
from retrograd.anomaly.adapters.retrograd.births_from_values import in_result, in_rule, in_rules, in_sum
from retrograd.anomaly.adapters.retrograd.boundaries.failures import explanation
from retrograd.anomaly.adapters.retrograd.boundaries.optimizer_state import first_bad_state
from retrograd.anomaly.adapters.retrograd.boundaries.returned_gradients import ReturnedGradients, all_leaves
from retrograd.anomaly.adapters.retrograd.boundaries.updates import Updates
from retrograd.anomaly.adapters.retrograd.boundaries.value_reads import Reads
from retrograd.anomaly.adapters.retrograd.boundaries.withheld_gradients import MarkedGradients, WithheldGradients
from retrograd.anomaly.adapters.retrograd.elements import harm_of, is_bad
from retrograd.anomaly.adapters.retrograd.gradient_checks import (
    among_leaves_behind,
    leaves_behind,
    loss_of,
    may_tell_no_flags,
    products_raise_flags,
    seem_finite,
    sum_of_squares,
)
from retrograd.anomaly.adapters.retrograd.norms import Growth, leaf_norms, norm
from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph
from retrograd.anomaly.adapters.retrograd.postmortem.overflowed_variances import may_make_zeros
from retrograd.anomaly.adapters.retrograd.postmortem.tangents import TangentAnalysis
from retrograd.anomaly.adapters.retrograd.recent_births import RecentBirths
from retrograd.anomaly.adapters.retrograd.second_run.recording import Recorder
from retrograd.anomaly.adapters.retrograd.second_run.snapshot import Noted, Snapshot, freeze_all_schedules
from retrograd.anomaly.adapters.retrograd.tensor_names import Names
from retrograd.anomaly.adapters.retrograd.thread_state import ThreadState
from retrograd.anomaly.adapters.weak_methods import weak
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.expected import expected
from retrograd.anomaly.flags import Flags
from retrograd.anomaly.messages import NO_UNDERFLOW
from retrograd.anomaly.monitor import AnomalyError, AnomalyWarning, Watch
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.policies import are_among
from retrograd.anomaly.stack_frames import depth_of_user
from retrograd.core import observer, sites, state
from retrograd.core.finite_checks import is_finite
from retrograd.core.monitor import Monitor
from retrograd.core.node import Node
from retrograd.core.tensor import Edge, Tensor, accumulator_of, wrap
from retrograd.processor import keeps_flags

Root = tuple[Edge, Tensor]
Returned = MutableSequence[Tensor | None]
LOOKS = 0.1  # of the watch's budget; noting lines and NumPy's reading of flags take the rest


class RetrogradMonitor(Monitor):
    """Connects a watch to retrograd's engine.

    Parameters
    ----------
    watch
        The watch whose policies apply and that receives the events.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self._flags = Flags(weak(self.on_flag), underflow=watch.listens_to("underflow"))
        self._running = False
        self._recorder: Recorder | None = None
        self._rehearsing = False  # whether a second run is being recorded, in which nothing is counted
        self._rehearsed = False  # whether the second run of a step has begun
        self._frozen = Patches()
        self._outer: Monitor | None = None
        self._steps, self._reads = Updates(weakref.proxy(self)), Reads(weakref.proxy(self))
        self._now = ThreadState()
        self._returned = ReturnedGradients(watch, self._now)
        self._is_counted = False  # whether the present step is in watch.step already
        self._interval = CheckInterval(watch, LOOKS, LONGEST_PAUSE if products_raise_flags() else 1)
        self._lets_pass = False  # whether the gradients seen last were bad, and the policy let them pass
        self._clear()

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._running, self.looks = True, not keeps_flags()
        if self.looks and self.watch.listens_to("underflow"):
            warnings.warn(NO_UNDERFLOW, AnomalyWarning, stacklevel=depth_of_user())
        self._outer = state.monitor
        state.set_monitor(self)
        self._flags.set_in_this_thread()
        state.local.listens = True

    def stop(self) -> None:
        self._running = False
        self.stop_recording()
        inner = state.monitor
        while inner is not None and inner is not self and inner._outer is not self:
            inner = inner._outer
        if inner is self:
            self._stop_listening()
            state.set_monitor(self._outer)
        elif inner is not None:  # one that was started later goes on
            inner._flags.replace_outer(self._flags)
            inner._outer = self._outer
        state.refresh()
        self._outer = None
        self._clear()

    def _stop_listening(self) -> None:
        self._flags.restore()
        state.local.listens = Flags.are_listened_to()

    def _clear(self) -> None:
        """Reset the state so that it refers to no tensor, at the beginning and at the end."""
        self._recent_births, self._withheld, self._tangent_withheld = RecentBirths(), WithheldGradients(), False
        self._pending: set[str] = set()  # kinds of flags that were raised in helper threads
        self._state_check = OptimizerStateCheck(self.watch, weak(self.context), first_bad_state)
        self._told = MarkedGradients()  # bad ones that were reported; not reported again before the next update
        self._snapshot: Snapshot | None = None  # of the step that may be run again
        self._kept: list[tuple[Tensor, ndarray]] = []  # the weights before its second run
        self._growth, self._leaf_names, self._initial_norms = Growth(), LeafNames(), InitialNorms(leaf_norms)
        sites.forget()

    def _forget(self) -> None:
        """Release what belongs to this thread's finished step, unless tangents are still being computed."""
        if state.local.dual_level is None:
            self._recent_births.end_step()
        sites.forget()

    # --- births ---------------------------------------------------------------------------------------------------

    def on_flag(self, kind: str, frame: FrameType, function: str) -> bool:
        """Record a flag; return whether it was raised by this library's code."""
        if not self._running:
            return False
        if self._steps.flag(kind, frame, function):
            return True
        if in_helper_thread(frame):
            self._pending.add(kind)
            return True
        birth = birth_at(kind, frame)
        if birth is None:
            self._recent_births.note_in_arrays(kind, frame)
            return False
        self._steps.note(birth)
        self._keep(birth)
        return True

    def _keep(self, birth: Birth) -> None:
        birth.excused = self.excuses(birth)
        # a recorder sees every operation, and only needs the kind
        keep = self._recent_births.add if self._recorder is None else self._recorder.flag
        keep(birth)

    def excuses(self, birth: Birth) -> bool:
        """Whether the user has declared a birth to be intended."""
        names = {birth.name} if birth.op is None else {birth.name, birth.op.name}
        if expected.depth or not self.watch.allow.isdisjoint((*names, *map(canonical, names))):
            return True
        return are_among(birth.modules, self.watch.allow_modules, self.watch.model)

    def flag(self, kind: str) -> None:
        self.on_flag(kind, sys._getframe(1), "")

    def collect(self) -> None:
        for kind in sorted(self._pending):
            birth = birth_at(kind, sys._getframe(1))
            if birth is not None:
                self._keep(birth)
        self._pending.clear()

    def look(self, operands: Sequence[Any], result: Any) -> None:
        if self._recorder is not None and not self.looks:
            return
        birth = in_result(operands, result, sys._getframe(1), self.looks, self._recorder is not None)
        if birth is not None:
            self._steps.note(birth)
            self._keep_looked_at(birth)

    def look_backward(self, node: Node, g: Any, grads: Any) -> None:
        if self._recorder is not None or not (self.looks or may_tell_no_flags(ran_by(node))):
            return
        birth = in_rules(node, g, grads, self.looks)
        if birth is not None:
            self._keep_looked_at(birth)

    def look_at_gradient(self, node: Node, g: Any, gi: Any) -> None:
        birth = in_rule(node, g, gi, sys._getframe(1)) if self._recorder is None else None
        if birth is not None:
            self._keep(birth)

    def look_at_sum(self, node: Node, old: Any, new: Any, total: Any) -> None:
        birth = in_sum(node, old, new, total)
        if birth is not None:
            self._keep(birth)

    def _keep_looked_at(self, birth: Birth) -> None:
        """Keep a birth whose result is known, merged with one that a flag inside the call reported before."""
        if not self._recent_births.complete(birth):
            self._keep(birth)

    # --- boundaries -----------------------------------------------------------------------------------------------

    def errstate(self) -> np.errstate:
        return self._flags.errstate()

    def enter_thread(self) -> None:
        if not Flags.are_listened_to():
            Flags(_on_flag, underflow=self.watch.listens_to("underflow")).set_in_this_thread()
        state.local.listens = True

    def before_backward(self, outputs: Sequence[Tensor], is_step: bool = True) -> bool:
        # runs in every step, however short: between large products all code comes from far away in memory
        if not state.local.listens:
            self.enter_thread()
        if state.local.graph_task is not None:  # a recomputed part of the forward pass within a backward
            return True
        self._now.is_told = self._now.is_withheld = False  # whatever the previous backward left
        self.watch.goes_on()
        losses, bad = [], []
        for output in outputs:
            data = output._data
            loss = loss_of(data)
            losses.append(loss)
            if not (is_finite(all_samples(data)) if loss is None else math.isfinite(loss)):
                bad.append(output)
        counts = is_step and not self._rehearsing
        if counts:
            self._is_counted = False
            self._returned.are_no_steps()
            self.watch.remember_loss(losses[0])
        elif not self._rehearsing:
            self._returned.begin(outputs, losses[0])
        if not bad or expected.depth or (self._now.is_scaled and self._now.was_finite):  # the scaler scales by less
            return True
        goes_on = False
        try:
            is_known = is_step or self._rehearsing  # in the histories
            with self._timed(), contextlib.nullcontext() if is_known else self._returned.with_value():
                goes_on = self._bad_loss(bad, asked=not is_step) != "withhold"
        finally:
            if counts and not goes_on:
                self.watch.step += 1  # no after_backward will follow to do it
                self._is_counted = True
        self._now.is_told = goes_on
        return goes_on

    def _bad_loss(self, outputs: Sequence[Tensor], asked: bool) -> str:
        arrays = [all_samples(each._data) for each in outputs]
        kind = harm_of(arrays)
        if not self.watch.listens_to(kind) or (asked and self._returned.is_left_alone()):
            return "go on"
        edges = [edge for each in outputs if (edge := each._resolve_edge()) is not None]
        event = self.analysis(edges, asked=asked).of_loss(arrays[0])
        present = self.watch.step + (not self._rehearsing)  # backward is not counted yet, except in the second run
        event = replace(event, step=present, batch_idx=self.watch.batch_idx)
        self._forget()
        self._keep_weights(edges)
        action = (self._returned if asked else self.watch).found(kind, event, exact=self._is_exact)
        if action == "withhold":
            self._withhold(edges)
            self._now.is_withheld = asked
        return action

    def leaves(self) -> list[Tensor]:
        return [] if self._snapshot is None or not self.watch.replaying else Noted(self._snapshot)

    def after_backward(
        self, roots: Sequence[Root], results: Returned | None, leaves: Sequence[Tensor], inputs: Sequence[Edge] = ()
    ) -> None:
        if not self._running:  # a hook has stopped it
            self._stop_listening()
            return
        # what runs in every step, however short, comes first
        now = self._now
        if results is not None:
            self._returned.returns(results)
            if now.is_withheld:
                if state.local.graph_task is None:  # else it is a nested one
                    now.is_withheld = False
                    self._returned.withhold(results)
                    self._forget()
                return
        elif not self._rehearsing and state.local.graph_task is None:
            self.watch.step += 1
            self._is_counted = True
        pace = self._interval
        pace.unseen += 1
        births = bool(self._recent_births.births if self._recorder is None else self._recorder.births)
        if not births and pace.due_in > 1 and self._recorder is None:
            pace.due_in -= 1
            if results is not None or now.is_told or seem_finite(leaves) or self._lets_pass or expected.depth:
                return
        start = time.perf_counter()
        try:
            if now.is_told:
                self._told.add(leaves)
            elif not expected.depth:
                self._lets_pass = self._look_at_gradients(roots, results, leaves, inputs)
            self._forget()
        finally:
            self.watch.spent(time.perf_counter() - start)
        if not births and not self.watch.listens_to("spike"):
            pace.looked(start)

    def after_forward(self, outputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> None:
        self.watch.goes_on()
        if not self._births or expected.depth:
            return
        arrays = [all_samples(each._data) for each in tangents if each is not None]
        bad = [array for array in arrays if is_bad(array)]
        kind = harm_of(bad)
        if not bad or not self.watch.listens_to(kind):
            return
        with self._timed(), contextlib.nullcontext() if self._rehearsing else self.watch.with_loss(None):
            values = [all_samples(each._data) for each in outputs]
            event = self.analysis([]).of_tangents(values, bad[0])
            step = max(self.watch.step + (not self._rehearsing), 1)
            event = replace(event, step=step, batch_idx=self.watch.batch_idx)
            self._recent_births.end_step()
            if self.watch.found(kind, event, exact=self._is_exact) == "withhold":
                self.watch.withheld = self._tangent_withheld = True

    def _look_at_gradients(
        self, roots: Sequence[Root], results: Returned | None, reached: Sequence[Tensor], inputs: Sequence[Edge]
    ) -> bool:
        """Check the gradients that a backward returned, or accumulated in the leaves it reached.

        Returns whether bad ones were let through.
        """
        if results is None:
            if state.local.graph_task is not None:  # the enclosing backward checks the other leaves that it reached
                reached = among_leaves_behind(reached, [edge for edge, _ in roots])
            leaves = [leaf for leaf in reached if leaf._grad is not None and leaf.requires_grad]
            grads: Returned = [leaf._grad for leaf in leaves]
        else:
            leaves, grads = [], results
        arrays = [all_samples(each._data) for each in grads if each is not None]
        squares = sum(map(sum_of_squares, arrays))
        if not self._rehearsing:
            if self.watch.step <= FIRST:
                self._initial_norms.note(leaves)
            if results is None or self._now.is_step:
                self.watch.remember_grad_norm(math.sqrt(squares) if squares >= 0 else squares)
        bad = [] if math.isfinite(squares) else [place for place, array in enumerate(arrays) if not is_finite(array)]
        if not bad:
            self._fine_gradients([edge for edge, _ in roots], leaves)
            return False
        if self._told and leaves and not self._births:
            bad = [place for place in bad if not self._told.has(leaves[place])]
            if not bad:  # reported before: gradients of several backwards add up
                return True
        if self._now.is_scaled:  # the scaler leaves the update out and scales by less
            return False
        nodes: list[Any] = [accumulator_of(leaf) for leaf in leaves]
        if results is not None:
            nodes = [node for (node, _), each in zip(inputs, results, strict=True) if each is not None]
        nodes, arrays = [nodes[place] for place in bad], [arrays[place] for place in bad]
        passes = self._bad_gradients(roots, nodes, arrays, asked=results is not None)
        if results is not None and not passes:
            self._returned.withhold(results)
        return passes

    def _fine_gradients(self, edges: Sequence[Edge], leaves: Sequence[Tensor]) -> None:
        """Report births that did no harm, and gradients that have grown, as all gradients are finite."""
        self._report_passing(edges)
        if leaves and not self._rehearsing and self.watch.listens_to("spike"):
            names = self._leaf_names.names(leaves, self._find_name)
            ratio = None if self.watch.optimizer is None else self._growth.ratio(leaves)
            norms = [norm(leaf._grad._data) for leaf in leaves if leaf._grad is not None]
            if self.watch.measured(dict(zip(names, norms, strict=True)), ratio) == "withhold":
                self._withhold(edges)

    def _bad_gradients(self, roots: Sequence[Root], nodes: list[Node], arrays: Sequence[ndarray], asked: bool) -> bool:
        """Report non-finite gradients, accumulated or requested; return whether they were let through."""
        kind = harm_of(arrays)
        if not self.watch.listens_to(kind) or (asked and self._returned.is_left_alone()):
            return True
        edges = [edge for edge, _ in roots]
        given = [all_samples(each._data) for _, each in roots]
        leaves = all_leaves(nodes)
        inside = state.local.graph_task is not None
        uncounted = asked and not inside and not self._now.is_step and not self._rehearsing
        with self.watch.with_loss(None) if uncounted else contextlib.nullcontext():
            event = self.analysis(edges, asked=asked).of_gradients(leaves, arrays, given)
        if uncounted or (inside and not self._rehearsing):
            event = replace(event, step=self.watch.step + 1, batch_idx=self.watch.batch_idx)
        self._forget()
        self._keep_weights(edges)
        variables = [leaf.variable for leaf in leaves if not asked]
        try:
            action = (self._returned if asked else self.watch).found(kind, event, exact=self._is_exact)
        except AnomalyError:
            self._withheld.raised(kind, event, variables)
            raise
        if action != "withhold":
            self._told.add(variables)
            if inside:
                self._now.is_told = True  # its consequences are not reported, either
            return True
        self._withhold(edges)
        return False

    def analysis(
        self,
        edges: Sequence[Edge],
        names: Names | None = None,
        births: Sequence[Birth] | None = None,
        asked: bool = False,
    ) -> TangentAnalysis:
        """Prepare the search for a cause behind some edges, whose gradients may have been requested."""
        births = self._births if births is None else births
        before = [birth.before for birth in births] if self._recorder is None else [self._recorder.saved]
        kept = {node: saved for each in before for node, saved in each.items()}
        names, context = names or self._names(), self.context() | self._returned.context(asked)
        graph = Graph(edges, kept, self._recorder, frame=names.frame)
        return TangentAnalysis(graph, births, names, context, self.excuses, self._recent_births.before)

    @property
    def _is_exact(self) -> bool:
        """Whether every operation is recorded already, so that a second run could tell nothing more."""
        return self._recorder is not None and not self._rehearsing

    @property
    def _births(self) -> list[Birth]:
        """The births of this step."""
        return self._recent_births.births if self._recorder is None else self._recorder.births

    def explain(self, error: BaseException) -> NaNEvent | None:
        """The event of an error about numbers that are not finite; None for any other."""
        return explanation(error, self.watch, self.analysis)

    def read(self, tensor: Tensor, value: Any) -> None:
        self._reads.read(sys._getframe(2), tensor, value)

    def _report_passing(self, edges: Sequence[Edge]) -> None:
        """Report births that did no harm, if the watch listens to their kind."""
        for birth in list(self._births):
            kinds = birth.kinds or ["overflow"]
            kind = next((kind for kind in ("overflow", "underflow") if kind in kinds), None)
            if kind is not None and self.watch.listens_to(kind):
                event = self.analysis(edges, births=[birth]).of_passing(birth)
                if event is not None and (birth.kinds or event.kind == kind):
                    self.watch.found(kind, event)
            elif kind == "overflow" and self.watch.tells_once and may_make_zeros(birth) and not birth.excused:
                event = self.analysis(edges, births=[birth]).of_overflowed_variance(birth)
                if event is not None and (birth.kinds or event.kind == kind):
                    self.watch.tell_once(event)

    def scaling(self, loss: Tensor | None) -> None:
        now = self._now
        is_first, now.is_scaled = not now.is_scaled, loss is not None
        if loss is not None:
            now.was_finite = is_finite(all_samples(loss._data)) and (is_first or now.was_finite)

    def before_step(self, optimizer: Any) -> bool:
        if not (rates_pass(self.watch, optimizer, self.context) and self._state_check.passes(optimizer)):
            return False
        usual = self._recorder is None and not self.watch.replaying and not self._tangent_withheld
        if usual and not (self._recent_births.births or self._withheld):
            return True  # as in almost every step
        params = [each for group in optimizer.param_groups for each in group["params"]]
        tangent_withheld, self._tangent_withheld = self._tangent_withheld, False
        if tangent_withheld and any(each._grad is not None and is_bad(each._grad._data) for each in params):
            return False  # what the program made of the tangents is not known
        passes = self._withheld.passes(params, self.watch)
        return passes and not (self.watch.replaying and self.watch.withheld) and self._may_be_used(params)

    def _may_be_used(self, params: Sequence[Tensor]) -> bool:
        """Check gradients once more if there was a birth since backward, in clipping or the user's own code."""
        this = threading.current_thread()
        if not (self._is_exact or any(birth.thread is this for birth in self._recent_births.births)) or expected.depth:
            return True
        grads = {param: param._grad._data for param in params if param._grad is not None}
        bad = [param for param, grad in grads.items() if is_bad(grad)]
        kind = harm_of(grads[param] for param in bad)
        if not bad or not self.watch.listens_to(kind):
            return True
        with self._timed():
            event = self.analysis([]).of_update(bad)
            self._forget()
            return self.watch.found(kind, event, exact=True) != "withhold"

    def run_step(self, optimizer: Any, step: Callable[[], Any]) -> Any:
        if self._told:
            self._told = MarkedGradients()
        return self._steps.run(optimizer, step)

    def may_average(self, statistics: Sequence[Tensor]) -> bool:
        return not self.watch.must_not_pass or bool(expected.depth) or all(is_finite(x._data) for x in statistics)

    # --- a step that must not be taken ------------------------------------------------------------------------------

    def _withhold(self, edges: Sequence[Edge]) -> None:
        """Set the gradients of this step to zero, so that even an update written by hand changes nothing."""
        self.watch.withheld = True
        variables = [leaf.variable for leaf in leaves_behind(edges)]
        if self.watch.replaying and self._snapshot is not None:
            self._snapshot.withhold(variables)
        else:
            for variable in variables:
                variable._grad = wrap(np.zeros_like(variable._data))
        self._withheld.made_zero(variables)

    def _keep_weights(self, edges: Sequence[Edge]) -> None:
        if self.watch.replaying:
            self._kept = [(leaf.variable, leaf.variable._data.copy()) for leaf in leaves_behind(edges)]

    def snapshot(self) -> Snapshot:
        self._kept, self._rehearsed = [], False
        self._snapshot = Snapshot(self.watch.model)
        return self._snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state before the first run; after the second, random numbers have advanced as after one run."""
        rehearsed, self._rehearsed = self._rehearsed, False
        if rehearsed:
            snapshot.forget_cleared_grads()
        else:
            snapshot.restore_random()
            self._withheld.first_run_ends(snapshot.leaves)
        snapshot.restore_tensors()
        if rehearsed:
            self._withheld.second_run_ends()
        for variable, kept in self._kept:
            np.copyto(variable._data, kept)
        self._forget()

    def record_everything(self) -> None:
        self._rehearsed = self._rehearsing = True
        self._frozen = Patches()
        freeze_all_schedules(self._frozen)
        self._record()

    def stop_recording(self) -> None:
        self._rehearsing = False
        self._frozen.undo()
        if self._recorder is not None:
            self._recorder.leave()
            self._recorder = None

    def _record(self) -> None:
        """Start a new record of every operation from here on, discarding the previous one."""
        if self._recorder is not None:
            self._recorder.leave()
        self._recorder = Recorder(self.excuses, self.looks)
        observer.push(self._recorder)

    # --- words ----------------------------------------------------------------------------------------------------

    def _names(self) -> Names:
        return Names(self.watch.model, sites.user_frame(sys._getframe(1)))

    def _find_name(self) -> Callable[[Tensor], str | None]:
        names = self._names()
        return lambda leaf: names.array(leaf._data)

    def context(self) -> dict[str, Any]:
        """The context of the training, for the surroundings of an event."""
        updates = self.watch.step - self._is_counted - self._returned.steps
        context = {**progress(self.watch), "updates": updates, **self._initial_norms.told(updates, self._find_name())}
        if self._returned.returned:
            context["returned"] = self._returned.returned
        frame = sites.user_frame(sys._getframe(1))
        return context | rate_written(frame) | self._steps.optimizer_context(self.watch.optimizer, frame)

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.watch.spent(time.perf_counter() - start)


def _on_flag(kind: str, frame: FrameType, function: str) -> bool:
    """The flag handler of threads other than the watch's own; it serves successive watches."""
    monitor = state.monitor
    return isinstance(monitor, RetrogradMonitor) and monitor.on_flag(kind, frame, function)
