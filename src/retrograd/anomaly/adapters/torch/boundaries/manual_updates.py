"""Weights that a program updates by hand with what ``torch.autograd.grad`` returns.

A non-finite returned gradient does no harm by itself: samplers, line searches and attacks expect it, and leave such a
point. Harm is done when a leaf becomes non-finite. So a bad gradient of a leaf raises a suspicion, and only from then
on are writes to leaves observed: as long as gradients are finite, that costs nothing.
"""

from __future__ import annotations

import contextlib
import functools
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import TransformType
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.weak import WeakIdKeyDictionary

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.torch.boundaries.functional_updates import (
    FOLLOWED,
    Chain,
    FunctionalUpdates,
    GradRequest,
    is_point,
)
from retrograd.anomaly.adapters.torch.boundaries.manual_steps import ManualSteps
from retrograd.anomaly.adapters.torch.boundaries.suspect_gradients import SuspectGradients, redo
from retrograd.anomaly.adapters.torch.gradient_checks.gradients import bad_ones, finite_norm, kind_of, loss_is_bad
from retrograd.anomaly.adapters.torch.records.calls import can_be_bad, is_bad
from retrograd.anomaly.adapters.torch.records.loss_tail import Tail
from retrograd.anomaly.adapters.torch.records.model_calls import ModelCall
from retrograd.anomaly.adapters.torch.records.recording import memory_of
from retrograd.anomaly.adapters.torch.runtime.compilation import uncompiled
from retrograd.anomaly.adapters.torch.runtime.frames import within_backward
from retrograd.anomaly.adapters.torch.runtime.modes import above, unseen
from retrograd.anomaly.adapters.weak_methods import weak
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.expected import expected

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.torch.monitor import TorchMonitor

_FIRST = 3  # calls that may be for weights although their leaves are unknown


@dataclass(eq=False)
class _Asking:
    """One backward whose gradients are returned: what is known before it runs.

    Attributes
    ----------
    points
        The tensors for which gradients were requested.
    known
        The ids of those for which they had been requested before.
    losses
        The non-finite losses from which the gradients come.
    chain
        The points at this place in the program.
    is_counted
        Whether it counts as a step.
    withheld
        Whether the gradients are to be zero.
    tail
        What the last operations do in backward, where nothing records them.
    """

    points: list[Tensor]
    known: set[int]
    losses: list[Tensor]
    chain: Chain
    is_counted: bool
    withheld: bool
    tail: Tail | None


class _Writes(TorchDispatchMode):
    """Hands operations that write to memory to an owner, who carries them out.

    Parameters
    ----------
    owner
        Who does it.
    """

    def __init__(self, owner: ManualUpdates) -> None:
        super().__init__()
        self._owner = weakref.ref(owner)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """True, as nothing is compiled meanwhile; torch's own way would import its compiler, which takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        owner = self._owner() if func._schema.is_mutable else None
        if owner is None:
            return func(*args, **(kwargs or {}))
        return owner.write(func, args, kwargs or {})


def _given(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Tensor], list[Tensor]]:
    """The tensors an operation is about to write to, and its other tensor arguments."""
    written: list[Tensor] = []
    others: list[Tensor] = []
    for number, argument in enumerate(func._schema.arguments):
        value = args[number] if number < len(args) else kwargs.get(argument.name)
        tensors = value if isinstance(value, (list, tuple)) else [value]
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        (written if is_written else others).extend(
            each for each in tensors if isinstance(each, Tensor) and can_be_bad(each)
        )
    return written, others


class _Write(NamedTuple):
    """What is known about a write before it happens.

    Attributes
    ----------
    held
        The suspicions whose leaves it may change, with these leaves.
    open_ones
        All suspicions that have had no consequence yet.
    others
        Other tensors that it may make bad, because one of its arguments is bad.
    clean
        The leaves and the others that are finite, with copies.
    """

    held: list[tuple[SuspectGradients, Tensor]]
    open_ones: list[SuspectGradients]
    others: list[Tensor]
    clean: list[tuple[Tensor, Tensor]]


class ManualUpdates:
    """Looks at what ``autograd.grad`` returns for leaves, and at what is then written to these.

    Nothing is looked at where an optimizer steps, which is a boundary of its own, nor in derivatives that are a part of
    the forward pass: under ``create_graph``, in transforms, within a backward.

    Parameters
    ----------
    monitor
        Supplies the policies and the explanations.
    """

    def __init__(self, monitor: TorchMonitor) -> None:
        self._monitor: TorchMonitor = weakref.proxy(monitor)
        self._steps = ManualSteps(monitor)
        self._told: Any = WeakIdKeyDictionary()  # leaves whose harm has been reported
        self._suspicions: list[SuspectGradients] = []
        self._followed = 0  # how many more updates to observe even if their gradients are finite
        self._writes: _Writes | None = None
        self._keys: tuple[Any, Any] | None = None  # of the dispatcher, where calls from the program begin
        self._uncompiled = contextlib.ExitStack()
        self._functional_updates = FunctionalUpdates(
            monitor, weak(self._is_open), self._steps.count, weak(self._step_ended)
        )

    def start(self, patches: Patches) -> None:
        self._functional_updates.start(patches)
        patches.wrap(torch.autograd, "_engine_run_backward", self._run_backward)

    def stop(self) -> None:
        """Release everything."""
        self._suspicions = []
        self._see_no_writes()
        self._functional_updates.stop()
        self._steps.forget()
        self._followed, self._told = 0, WeakIdKeyDictionary()

    def no_steps(self) -> None:
        """Called when an optimizer steps: the steps counted so far were an inner loop or an attack."""
        self._steps.take_back()

    # --- the gradients --------------------------------------------------------------------------------------------

    def _run_backward(self, original: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if self._monitor.now.busy or within_backward():  # ours, or within another
            return original(outputs, *args, **kwargs)
        self._monitor.watch.goes_on()
        withheld = self._settle(asked=True) if self._suspicions else False
        returns = not kwargs.get("accumulate_grad", True) and self._is_boundary(args)
        asking = self._ask(outputs, args[3], withheld) if returns else None
        if asking is None:
            return original(outputs, *args, **kwargs)
        if asking.losses:  # their graph is read if there is harm
            args = (args[0], True, *args[2:])
        try:
            returned = original(outputs, *args, **kwargs)
        finally:
            if asking.tail is not None:
                asking.tail.backward_ended()
        self._answered(asking, outputs, _returned(asking.points, args, returned))
        return returned

    def _ask(self, outputs: Sequence[Tensor], inputs: Sequence[Any], withheld: bool) -> _Asking | None:
        """Called before gradients are computed; None if they concern nothing that is watched.

        Parameters
        ----------
        outputs, inputs
            The tensors that are differentiated, and those by which.
        withheld
            Whether the previous gradients have done harm, so that these are to be zero.
        """
        points = [each for each in inputs if is_point(each)]
        if not points:  # as where a compiler traces a backward
            return None
        began = time.perf_counter()
        monitor = self._monitor
        leaves = [each for each in points if each.requires_grad and each.is_leaf]
        known = {id(leaf) for leaf in leaves if self._steps.knows(leaf)}
        losses = [each for each in outputs if each.device.type == "cpu" and loss_is_bad(each)]
        chain = self._functional_updates.at(points)
        is_counted = self._steps.asked(leaves, outputs, chain)
        is_early = self._steps.times_asked <= _FIRST
        may_be_weights = known or is_early or any(type(leaf) is torch.nn.Parameter for leaf in leaves)
        if not (may_be_weights or withheld or chain.moves):
            return None
        if losses or chain.doubt or chain.lost_for:
            withheld |= self._functional_updates.judge(chain, points)
        is_recorded = monitor.watch.replaying or monitor.recorder is not None
        tail = None if is_recorded else Tail(outputs, monitor.calls.nodes_of_outputs())
        monitor.watch.spent(time.perf_counter() - began)
        return _Asking(points, known, losses, chain, is_counted, withheld, tail)

    def _answered(self, asking: _Asking, outputs: Sequence[Tensor], gradients: list[tuple[Tensor, Tensor]]) -> None:
        """Called when gradients have been returned for some points."""
        monitor = self._monitor
        if asking.is_counted:
            calls = monitor.calls.forget()
            self._step_ended(outputs)
        else:
            calls = monitor.calls.kept()
            monitor.recordings.begin_if_due(max(monitor.watch.step, 1))
        if asking.withheld:
            _zero(gradients)
            return
        if not gradients:
            return
        self._followed -= 1
        is_fine = self._look(gradients, asking.chain.asked) and not asking.losses
        if is_fine and self._followed < 0 and not monitor.recordings.for_good:
            return
        suspicion = self._suspect(asking, outputs, gradients, calls)
        self._doubt(asking.chain, asking.points, suspicion)

    def _is_boundary(self, args: Sequence[Any]) -> bool:
        """Whether the program may update weights by hand with the gradients that are returned."""
        return len(args) >= 4 and not args[2] and self._is_open()

    def _is_open(self, within_vmap: bool = False) -> bool:
        """Whether it may with any gradients requested now, or with those of samples."""
        monitor = self._monitor
        if expected.depth or monitor.agreement.active:
            return False
        if monitor.now.optimizer is not None or monitor.watch.optimizer is not None:
            return False
        levels = torch._C._functorch.get_interpreter_stack() or []
        samples = within_vmap and all(each.key() == TransformType.Vmap for each in levels)
        return (samples or not levels) and not torch.compiler.is_compiling()

    def _doubt(self, chain: Chain, points: Sequence[Tensor], suspicion: SuspectGradients) -> None:
        """Watch for the next point at this place, which may consist of new tensors made with these gradients."""
        known = {id(point): gradient for point, gradient in suspicion.gradients}
        gradients = [known.get(id(point)) for point in points]
        explain = functools.partial(self._explain, suspicion) if suspicion.is_bad else None
        self._functional_updates.doubt(chain, points, gradients, explain)

    def _look(self, gradients: Sequence[tuple[Tensor, Tensor]], asked: GradRequest) -> bool:
        """Look at gradients, and say whether they are finite."""
        monitor = self._monitor
        if not monitor.is_due():
            return True
        began = time.perf_counter()
        norm = finite_norm([gradient for _, gradient in gradients])
        asked.norm = norm
        if asked.counted:
            monitor.remember(norm)
        monitor.watch.spent(monitor.interval.looked(began))
        return norm is not None

    def _suspect(
        self,
        asking: _Asking,
        outputs: Sequence[Tensor],
        gradients: list[tuple[Tensor, Tensor]],
        calls: list[ModelCall],
    ) -> SuspectGradients:
        """Suspect gradients that may not be finite. Leaves may be bad already, by writes since the last call."""
        monitor = self._monitor
        with unseen():
            spoilt = {id(leaf): leaf for leaf, _ in gradients if is_bad(leaf)}
            lost = [] if asking.losses else [each for each in outputs if is_bad(each)]
            wrong = bool(bad_ones(gradients))
        clean = [(leaf, leaf.detach()) for leaf, _ in gradients if leaf.is_leaf and id(leaf) not in spoilt]
        for leaf, _ in clean:
            self._told.pop(leaf, None)
        step = max(monitor.watch.step, 1)
        suspicion = SuspectGradients(gradients, clean, asking.losses, lost, asking.tail, calls, step, is_bad=wrong)
        news = [leaf for leaf in spoilt.values() if id(leaf) in asking.known and leaf not in self._told]
        if news:
            self._told.update(dict.fromkeys(news, True))
            kind = kind_of(news)
            suspicion.is_bad = True
            if monitor.watch.listens_to(kind) and self._report(kind, suspicion):
                _zero(gradients)
        elif clean and (wrong or self._followed >= 0 or monitor.recordings.for_good):
            self._suspicions.append(suspicion)
            self._see_writes()
        return suspicion

    def _step_ended(self, outputs: Sequence[Tensor] = ()) -> None:
        monitor = self._monitor
        monitor.interval.unseen += 1
        monitor.sites.step_ended([each.grad_fn for each in outputs])
        monitor.watch.spent(monitor.sites.spent)
        monitor.sites.enter()
        monitor.recordings.step_ended()

    # --- the writes -----------------------------------------------------------------------------------------------

    def write(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Carry out an operation that writes, and undo it if it spoils a leaf and the policy asks for that."""
        if self._monitor.now.busy:
            return func(*args, **kwargs)
        written, given = _given(func, args, kwargs)
        write = None if expected.depth else self._about_to_write(written, given)
        result = func(*args, **kwargs)
        if write is None:
            self._meant(written)
        else:
            self._written(write)
        return result

    def _meant(self, written: Sequence[Tensor]) -> None:
        """Accept what some tensors hold now, so that leaves in their memory are no longer under suspicion."""
        memory = {memory_of(each) for each in written}
        with unseen(), torch.no_grad():
            for suspicion in self._suspicions:
                self._told.update((leaf, True) for leaf in suspicion.within(memory) if is_bad(leaf))
                suspicion.leaves = [each for each in suspicion.leaves if each[0] not in self._told]

    def _about_to_write(self, written: Sequence[Tensor], given: Sequence[Tensor]) -> _Write:
        """Copy, where needed, what tensors hold that are about to be written to."""
        memory = {memory_of(each) for each in written}
        held = [(each, leaf) for each in self._suspicions for leaf in each.within(memory)]
        open_ones = [each for each in self._suspicions if not each.withheld]
        with unseen(), torch.no_grad():
            if held:
                for suspicion in open_ones:
                    self._explain(suspicion)  # while nothing has changed
            leaves = {id(leaf): leaf for _, leaf in held}
            own = {memory_of(leaf) for leaf in leaves.values()}
            passed_on = bool(open_ones) and any(map(is_bad, given))  # else an infinity is written on purpose
            others = [each for each in written if memory_of(each) not in own] if passed_on else []
            clean = [(each, each.detach().clone()) for each in (*leaves.values(), *others) if not is_bad(each)]
        return _Write(held, open_ones, others, clean)

    def _written(self, write: _Write) -> None:
        """Note what a write has changed and spoilt, and handle the harm if it spoilt a leaf."""
        with unseen(), torch.no_grad():
            before = {id(each): kept for each, kept in write.clean}
            spoilt = {id(each) for each, _ in write.clean if is_bad(each)}
            for suspicion in write.open_ones:
                suspicion.spread += [(each.detach(), before[id(each)]) for each in write.others if id(each) in spoilt]
            for suspicion, leaf in write.held:
                if id(leaf) in before:
                    suspicion.before.setdefault(id(leaf), before[id(leaf)])
            for suspicion, leaf in write.held:
                if id(leaf) not in spoilt:
                    continue
                if suspicion.withheld:
                    leaf.detach().copy_(before[id(leaf)])
                elif suspicion in self._suspicions:
                    self._harm(suspicion)

    def _harm(self, suspicion: SuspectGradients) -> bool:
        """Handle a spoilt leaf, and return whether the write has been undone."""
        spoilt = suspicion.spoilt()
        kind = kind_of(spoilt)
        if expected.depth or not self._monitor.watch.listens_to(kind):
            return False
        if not suspicion.is_bad:
            with self._monitor.at_work():
                self._tell_step(suspicion, self._monitor.analysis().in_update_by_hand(spoilt[0]))
        undone = suspicion.put_back()
        if not self._monitor.recordings.rehearsing:
            self._steps.updated(leaf for leaf, _ in suspicion.leaves)
        try:
            suspicion.withheld = self._report(kind, suspicion)
        finally:
            if not suspicion.withheld:
                self._suspicions = [each for each in self._suspicions if each is not suspicion]
        if suspicion.withheld:
            self._followed = FOLLOWED
            _zero(suspicion.gradients)
            for tensor, before in suspicion.spread:
                tensor.copy_(before)
            suspicion.spread = []
        else:
            self._told.update((leaf, True) for leaf, _ in suspicion.leaves)  # the others report the same harm
            redo(undone)
        return suspicion.withheld

    def settle(self, for_good: bool = False) -> None:
        """Look at the leaves under suspicion for writes that went unseen, and drop all suspicions.

        With ``for_good`` also at new tensors in their place, because no more gradients may be requested.
        """
        self._settle(asked=False)
        if for_good:
            self._functional_updates.settle()

    def _settle(self, asked: bool) -> bool:
        """The same for suspicions that end if others are ``asked`` for; return whether these are to be zero."""
        withheld = False
        if not self._suspicions and self._writes is None:
            return withheld
        with unseen(), torch.no_grad():
            for suspicion in list(self._suspicions):
                suspicion.age += 1
                if asked and not suspicion.is_over():
                    continue
                self._suspicions.remove(suspicion)
                if not suspicion.withheld and suspicion.spoilt():
                    withheld |= self._harm(suspicion)
        if not self._suspicions:
            self._see_no_writes()
        return withheld

    def _explain(self, suspicion: SuspectGradients) -> NaNEvent | None:
        """Find out where bad gradients came from while nothing has changed since."""
        monitor = self._monitor
        if suspicion.event is not None or not suspicion.is_bad:
            return suspicion.event
        with monitor.at_work(), self._above_autograd(), monitor.calls.of_earlier_step(suspicion.calls):
            analysis = monitor.analysis(tail=suspicion.tail)
            if suspicion.losses:
                event = analysis.in_forward(suspicion.losses)
            else:
                event = analysis.in_backward(bad_ones(suspicion.gradients), suspicion.lost)
        return self._tell_step(suspicion, event)

    def _tell_step(self, suspicion: SuspectGradients, event: NaNEvent) -> NaNEvent:
        suspicion.event = replace(event, step=suspicion.step, batch_idx=self._monitor.watch.batch_idx)
        return suspicion.event

    def _report(self, kind: str, suspicion: SuspectGradients) -> bool:
        self._explain(suspicion)
        assert suspicion.event is not None
        return self._monitor.report(kind, suspicion.event, [leaf for leaf, _ in suspicion.gradients])

    def _above_autograd(self) -> contextlib.AbstractContextManager[Any]:
        """A context in which computations are recorded by autograd, also from a write, which is seen below autograd."""
        return contextlib.nullcontext() if self._keys is None else torch._C._ForceDispatchKeyGuard(*self._keys)

    def _see_writes(self) -> None:
        if self._writes is None:
            with unseen():
                self._keys = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
            self._writes = _Writes(self)
            recorder = self._monitor.recorder
            with above(recorder if recorder in _get_current_dispatch_mode_stack() else None):  # which sees calls first
                self._writes.__enter__()
            self._uncompiled.enter_context(uncompiled())

    def _see_no_writes(self) -> None:
        if self._writes is not None and self._writes in _get_current_dispatch_mode_stack():
            with above(self._writes):
                self._writes.__exit__(None, None, None)
        self._uncompiled.close()
        self._writes = self._keys = None


def _returned(points: Sequence[Tensor], args: Sequence[Any], returned: Sequence[Any]) -> list[tuple[Tensor, Tensor]]:
    """The points for which a backward has made a gradient, with these gradients."""
    given = {id(each) for each in args[0]}
    wanted = {id(each) for each in points}
    return [
        (point, each)
        for point, each in zip(args[3], returned, strict=True)
        if each is not None and id(point) in wanted and id(each) not in given
    ]


def _zero(gradients: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Zero gradients, so that an update with them changes nothing."""
    for _, gradient in gradients:
        gradient.data = torch.zeros_like(gradient)  # elements may share memory
