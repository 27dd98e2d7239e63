"""Weights that a program updates by hand with what ``torch.autograd.grad`` returns.

That a returned gradient is not finite does no harm by itself: samplers, line searches and attacks count on it, and
leave such a point. Harm is done when a leaf becomes non-finite. So a bad gradient of a leaf is a suspicion, and from
then on it is seen what is written to leaves: in no time at all as long as gradients are finite.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._C._functorch import TransformType
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.weak import WeakIdKeyDictionary

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.torch.calls import can_be_bad, is_bad
from retrograd.anomaly.adapters.torch.compiling import uncompiled
from retrograd.anomaly.adapters.torch.forward import ModelCall
from retrograd.anomaly.adapters.torch.functional import FOLLOWED, Asked, Chain, NewTensors, is_point
from retrograd.anomaly.adapters.torch.gradients import bad_ones, finite_norm, kind_of, loss_is_bad, loss_number
from retrograd.anomaly.adapters.torch.recording import memory_of, unseen
from retrograd.anomaly.adapters.torch.recordings import above
from retrograd.anomaly.adapters.torch.tail import Tail
from retrograd.anomaly.adapters.torch.waiting import waits
from retrograd.anomaly.adapters.weakly import weakly
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.expected import expected

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.torch.monitor import TorchMonitor

_FIRST = 3  # calls that may be for weights although nothing is known of their leaves
_SAMPLED = 8  # calls in which a number is read from a leaf, to see writes to ``.data`` that no version tells
_OLDEST = 8  # calls for which a suspicion is held

_graph_task = torch._C._current_graph_task_id


@dataclass(eq=False)
class _Mark:
    """What a leaf was when its gradient was asked for last."""

    version: int
    place: int
    sample: float | None
    call: Asked

    def tells(self, leaf: Tensor) -> bool:
        """Whether the leaf has been written to since, by what torch counts."""
        return (self.version, self.place) != (leaf._version, leaf.data_ptr())

    def differs(self, sample: float | None) -> bool:
        """Whether it has, by a number that was read from it."""
        if sample is None or self.sample is None:
            return False
        return sample != self.sample and not (math.isnan(sample) and math.isnan(self.sample))


@dataclass(eq=False)
class _Suspicion:
    """Gradients that are not finite and that may go to leaves, which still are.

    Attributes
    ----------
    gradients
        What was returned, with its leaves.
    leaves
        Those that are finite, with what shares their memory.
    losses
        What the gradients come from, where that is not finite and its graph has been kept.
    lost
        The same without a graph.
    tail, calls
        What the last operations did in backward, and how the model was called.
    step
        The number of the step.
    is_bad
        Whether gradients are not finite; else the update is looked at for other reasons.
    age
        How many calls there have been since.
    event
        How the gradients came about, once something has been written.
    before
        The leaves that have been written to, as they were.
    spread
        Other tensors that a write has made non-finite, such as a momentum of the program's own, as they were.
    withheld
        Whether they are to stay so.
    """

    gradients: list[tuple[Tensor, Tensor]]
    leaves: list[tuple[Tensor, Tensor]]
    losses: list[Tensor]
    lost: list[Tensor]
    tail: Tail | None
    calls: list[ModelCall]
    step: int
    is_bad: bool
    age: int = 0
    event: NaNEvent | None = None
    before: dict[int, Tensor] = field(default_factory=dict)
    spread: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    withheld: bool = False

    def within(self, written: set[int]) -> list[Tensor]:
        """The leaves in some memory."""
        return [leaf for leaf, _ in self.leaves if memory_of(leaf) in written]

    def is_over(self) -> bool:
        """Whether the program has gone on to use the leaves, or will not."""
        return bool(self.before) or self.age > _OLDEST or any(_moved(*each) for each in self.leaves)

    def spoilt(self) -> list[Tensor]:
        return [leaf for leaf, _ in self.leaves if is_bad(leaf)]

    def put_back(self) -> list[tuple[Tensor, Tensor, bool]]:
        """Make the leaves what they were, and return what they had become, for :func:`_redo`."""
        undone = []
        for leaf, alias in self.leaves:
            if id(leaf) in self.before:
                undone.append((alias, alias.clone(), False))
                alias.copy_(self.before[id(leaf)])
            if _moved(leaf, alias):
                undone.append((leaf, leaf.detach(), True))
                leaf.data = alias
        return undone


def _moved(leaf: Tensor, alias: Tensor) -> bool:
    """Whether ``leaf.data`` has been assigned to."""
    return leaf.data_ptr() != alias.data_ptr()


def _redo(undone: Sequence[tuple[Tensor, Tensor, bool]]) -> None:
    for tensor, became, moved in undone:
        if moved:
            tensor.data = became
        else:
            tensor.copy_(became)


class _Writes(TorchDispatchMode):
    """Lets somebody carry out the operations that write to memory.

    Parameters
    ----------
    owner
        Who does it.
    """

    def __init__(self, owner: UpdatesByHand) -> None:
        super().__init__()
        self._owner = weakref.ref(owner)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled meanwhile; to have torch see to that would import its compiler, which takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        owner = self._owner() if func._schema.is_mutable else None
        if owner is None:
            return func(*args, **(kwargs or {}))
        return owner.write(func, args, kwargs or {})


def _given(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Tensor], list[Tensor]]:
    """What an operation is about to write to, and what else it is given."""
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


class UpdatesByHand:
    """Looks at what ``autograd.grad`` returns for leaves, and at what becomes of these.

    Nothing is looked at where an optimizer steps, which is a boundary of its own, nor in derivatives that are a part of
    the forward pass: under ``create_graph``, in transforms, within a backward.

    Parameters
    ----------
    monitor
        Whose policies hold, and who explains.
    """

    def __init__(self, monitor: TorchMonitor) -> None:
        self._monitor: TorchMonitor = weakref.proxy(monitor)
        self._asked = 0  # how often, for the gradients of leaves
        self._counted = 0  # of these calls, as steps
        self._unversioned = False  # the program writes to ``.data``
        self._marks: Any = WeakIdKeyDictionary()  # of leaves
        self._told: Any = WeakIdKeyDictionary()  # leaves that are known to be spoilt
        self._suspicions: list[_Suspicion] = []
        self._followed = 0  # how many updates there are still to see whatever their gradients are
        self._writes: _Writes | None = None
        self._keys: tuple[Any, Any] | None = None  # of the dispatcher, where calls of the program's own begin
        self._uncompiled = contextlib.ExitStack()
        self._new_tensors = NewTensors(
            monitor, weakly(self._is_open), weakly(self._count_once), weakly(self._step_ended)
        )

    def start(self, patches: Patches) -> None:
        self._new_tensors.start(patches)
        patches.wrap(torch.autograd, "_engine_run_backward", self._run_backward)

    def stop(self) -> None:
        """Let go of everything."""
        self._suspicions = []
        self._see_no_writes()
        self._new_tensors.stop()
        self._asked, self._counted, self._followed, self._unversioned = 0, 0, 0, False
        self._marks, self._told = WeakIdKeyDictionary(), WeakIdKeyDictionary()

    # --- the gradients --------------------------------------------------------------------------------------------

    def _run_backward(self, original: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        own = self._monitor._now.busy or _graph_task() != -1  # ours, or within another
        if not own:
            self._monitor.watch.goes_on()
        withheld = self._settle(asked=True) if self._suspicions and not own else False
        if own or kwargs.get("accumulate_grad", True) or not self._is_boundary(args):
            return original(outputs, *args, **kwargs)
        points = [each for each in args[3] if is_point(each)]
        if not points:  # as where a compiler traces a backward
            return original(outputs, *args, **kwargs)
        began = time.perf_counter()
        leaves = [each for each in points if each.requires_grad and each.is_leaf]
        known = [leaf for leaf in leaves if leaf in self._marks]
        self._asked += 1
        losses = [each for each in outputs if each.device.type == "cpu" and loss_is_bad(each)]
        chain = self._new_tensors.at(points)
        counted = self._count(leaves, outputs, chain)
        may_be_weights = known or self._asked <= _FIRST or any(type(leaf) is torch.nn.Parameter for leaf in leaves)
        if not (may_be_weights or withheld or chain.moves):
            return original(outputs, *args, **kwargs)
        if losses or chain.doubt or chain.lost_for:
            withheld |= self._new_tensors.judge(chain, points)
        monitor = self._monitor
        tail = None
        if not (monitor.watch.replaying or monitor._recorder is not None):
            tail = Tail(outputs, monitor._calls.nodes_of_outputs())
        if losses:  # their graph is to be read if there is harm
            args = (args[0], True, *args[2:])
        monitor.watch.spent(time.perf_counter() - began)
        try:
            returned = original(outputs, *args, **kwargs)
        finally:
            if tail is not None:
                tail.backward_ended()
        gradients = _returned(points, args, returned)
        calls = monitor._calls.forget() if counted else monitor._calls.kept()
        if counted:
            self._step_ended(outputs)
        else:
            monitor._recordings.begin_if_due(max(monitor.watch.step, 1))
        if withheld:
            _zero(gradients)
        elif gradients:
            self._followed -= 1
            if not self._look(gradients, chain.asked) or losses or self._followed >= 0 or monitor._recordings.for_good:
                suspicion = self._suspect(gradients, outputs, losses, tail, calls, {id(leaf) for leaf in known})
                self._doubt(chain, points, suspicion)
        return returned

    def _is_boundary(self, args: Sequence[Any]) -> bool:
        """Whether gradients that are returned may go to weights by the program's own hand."""
        return len(args) >= 4 and not args[2] and self._is_open()

    def _is_open(self, within_vmap: bool = False) -> bool:
        """Whether any gradients may that are asked for now, or those of samples."""
        monitor = self._monitor
        if expected.depth or monitor._agreement.active:
            return False
        if monitor._now.optimizer is not None or monitor.watch.optimizer is not None:
            return False
        levels = torch._C._functorch.get_interpreter_stack() or []
        samples = within_vmap and all(each.key() == TransformType.Vmap for each in levels)
        return (samples or not levels) and not torch.compiler.is_compiling()

    def _doubt(self, chain: Chain, points: Sequence[Tensor], suspicion: _Suspicion) -> None:
        """Watch for the next point at this place, which may be made of these gradients by new tensors."""
        known = {id(point): gradient for point, gradient in suspicion.gradients}
        gradients = [known.get(id(point)) for point in points]
        explain = functools.partial(self._explain, suspicion) if suspicion.is_bad else None
        self._new_tensors.doubt(chain, points, gradients, explain)

    def _look(self, gradients: Sequence[tuple[Tensor, Tensor]], asked: Asked) -> bool:
        """Look at gradients, and say whether they are finite."""
        monitor = self._monitor
        if not monitor._is_due():
            return True
        began = time.perf_counter()
        norm = finite_norm([gradient for _, gradient in gradients])
        asked.norm = norm
        if asked.counted:
            monitor._remember(norm)
        monitor.watch.spent(monitor._pace.looked(began))
        return norm is not None

    def _suspect(
        self,
        gradients: list[tuple[Tensor, Tensor]],
        outputs: Sequence[Tensor],
        losses: list[Tensor],
        tail: Tail | None,
        calls: list[ModelCall],
        known: set[int],
    ) -> _Suspicion:
        """Gradients may not be finite. So may be leaves already, by what was written to them since the last call."""
        monitor = self._monitor
        with unseen():
            spoilt = {id(leaf): leaf for leaf, _ in gradients if is_bad(leaf)}
            lost = [] if losses else [each for each in outputs if is_bad(each)]
            wrong = bool(bad_ones(gradients))
        clean = [(leaf, leaf.detach()) for leaf, _ in gradients if leaf.is_leaf and id(leaf) not in spoilt]
        for leaf, _ in clean:
            self._told.pop(leaf, None)
        step = max(monitor.watch.step, 1)
        suspicion = _Suspicion(gradients, clean, losses, lost, tail, calls, step, is_bad=wrong)
        news = [leaf for leaf in spoilt.values() if id(leaf) in known and leaf not in self._told]
        if news:
            self._told.update(dict.fromkeys(news, True))
            kind = kind_of(news)
            suspicion.is_bad = True
            if monitor.watch.listens_to(kind) and self._report(kind, suspicion):
                _zero(gradients)
        elif clean and (wrong or self._followed >= 0 or monitor._recordings.for_good):
            self._suspicions.append(suspicion)
            self._see_writes()
        return suspicion

    # --- steps ----------------------------------------------------------------------------------------------------

    def _count(self, leaves: Sequence[Tensor], outputs: Sequence[Tensor], chain: Chain) -> bool:
        """Count a step if leaves have been written to since their gradients were asked for last, or others have come
        in their place: then they are trained by hand, and the call before was a step as well.
        """
        if self._monitor._recordings.rehearsing:
            return False
        loss = loss_number(outputs[0])
        call = Asked(loss if isinstance(loss, float) else None)
        earlier, chain.asked = chain.asked, call
        if chain.trains:
            self._count_once(earlier)
            self._count_once(call)
        sampled = self._unversioned or self._asked <= _SAMPLED
        for leaf in leaves:
            sample = _sample(leaf) if sampled and leaf is leaves[-1] else None
            mark = self._marks.get(leaf)
            if mark is not None and (mark.tells(leaf) or mark.differs(sample)):
                self._unversioned |= not mark.tells(leaf)
                self._count_once(mark.call)
                self._count_once(call)
            self._marks[leaf] = _Mark(leaf._version, leaf.data_ptr(), sample, call)
        return call.counted

    def _count_once(self, call: Asked) -> None:
        if not call.counted:
            call.counted = True
            self._counted += 1
            self._monitor.watch.step += 1
            self._monitor.watch.remember_loss(call.loss)
            self._monitor.watch.remember_grad_norm(call.norm)

    def no_steps(self) -> None:
        """An optimizer steps: what has been counted before was an inner loop, or an attack."""
        watch, counted = self._monitor.watch, self._counted
        if counted:
            self._counted = 0
            watch.step = max(watch.step - counted, 0)
            for history in (watch.loss_history, watch.grad_norm_history):
                for _ in range(min(counted, len(history) - 1)):
                    history.popleft()

    def _step_ended(self, outputs: Sequence[Tensor] = ()) -> None:
        monitor = self._monitor
        monitor._pace.unseen += 1
        monitor._sites.step_ended([each.grad_fn for each in outputs])
        monitor.watch.spent(monitor._sites.spent)
        monitor._sites.enter()
        monitor._recordings.step_ended()

    # --- the writes -----------------------------------------------------------------------------------------------

    def write(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Carry out an operation that writes, and undo it if it spoils a leaf and the policy asks for that."""
        if self._monitor._now.busy or expected.depth:
            return func(*args, **kwargs)
        written, given = _given(func, args, kwargs)
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
        result = func(*args, **kwargs)
        with unseen(), torch.no_grad():
            before = {id(each): kept for each, kept in clean if is_bad(each)}
            for suspicion in open_ones:
                suspicion.spread += [(each.detach(), before[id(each)]) for each in others if id(each) in before]
            kept = {id(each): was for each, was in clean}
            for suspicion, leaf in held:
                if id(leaf) in kept:
                    suspicion.before.setdefault(id(leaf), kept[id(leaf)])
            for suspicion, leaf in held:
                if id(leaf) not in before:
                    continue
                if suspicion.withheld:
                    leaf.detach().copy_(before[id(leaf)])
                elif suspicion in self._suspicions:
                    self._harm(suspicion)
        return result

    def _harm(self, suspicion: _Suspicion) -> bool:
        """A leaf has been spoilt. Say whether that has been undone."""
        spoilt = suspicion.spoilt()
        kind = kind_of(spoilt)
        if expected.depth or not self._monitor.watch.listens_to(kind):
            return False
        if not suspicion.is_bad:
            with self._monitor._at_work():
                self._tell_step(suspicion, self._monitor._findings().in_update_by_hand(spoilt[0]))
        undone = suspicion.put_back()
        if not self._monitor._recordings.rehearsing:
            for mark in (self._marks.get(leaf) for leaf, _ in suspicion.leaves):
                self._count_once(mark.call)
                mark.place = 0  # so that the next call is a step, too, although this one's update may be undone
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
            self._told.update((leaf, True) for leaf, _ in suspicion.leaves)  # the others come to the same
            _redo(undone)
        return suspicion.withheld

    def settle(self, for_good: bool = False) -> None:
        """Look at the leaves of what was returned, for writes that were not seen, and suspect nothing any more.

        With ``for_good`` also for new tensors in their place, because no more gradients may be asked for.
        """
        self._settle(asked=False)
        if for_good:
            self._new_tensors.settle()

    def _settle(self, asked: bool) -> bool:
        """The same, for suspicions that are over if ``asked`` for other gradients; say whether these are to be zero."""
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

    def _explain(self, suspicion: _Suspicion) -> NaNEvent | None:
        """Find out how bad gradients came about, as long as all is as it was then."""
        monitor = self._monitor
        if suspicion.event is not None or not suspicion.is_bad:
            return suspicion.event
        with monitor._at_work(), self._above_autograd(), monitor._calls.of_earlier_step(suspicion.calls):
            findings = monitor._findings(tail=suspicion.tail)
            if suspicion.losses:
                event = findings.in_forward(suspicion.losses)
            else:
                event = findings.in_backward(bad_ones(suspicion.gradients), suspicion.lost)
        return self._tell_step(suspicion, event)

    def _tell_step(self, suspicion: _Suspicion, event: NaNEvent) -> NaNEvent:
        suspicion.event = replace(event, step=suspicion.step, batch_idx=self._monitor.watch.batch_idx)
        return suspicion.event

    def _report(self, kind: str, suspicion: _Suspicion) -> bool:
        self._explain(suspicion)
        assert suspicion.event is not None
        return self._monitor._report(kind, suspicion.event, [leaf for leaf, _ in suspicion.gradients])

    def _above_autograd(self) -> contextlib.AbstractContextManager[Any]:
        """A context in which what is computed has a history, also where a write is seen, which is below that."""
        return contextlib.nullcontext() if self._keys is None else torch._C._ForceDispatchKeyGuard(*self._keys)

    def _see_writes(self) -> None:
        if self._writes is None:
            with unseen():
                self._keys = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
            self._writes = _Writes(self)
            recorder = self._monitor._recorder
            with above(recorder if recorder in _get_current_dispatch_mode_stack() else None):  # which is told first
                self._writes.__enter__()
            self._uncompiled.enter_context(uncompiled())

    def _see_no_writes(self) -> None:
        writes, self._writes = self._writes, None
        self._keys = None
        self._uncompiled.close()
        if writes is not None and writes in _get_current_dispatch_mode_stack():
            with above(writes):
                writes.__exit__(None, None, None)


@waits
def _sample(leaf: Tensor) -> float:
    """One number that a write to a leaf changes."""
    return abs(leaf.detach().sum().item())


def _returned(points: Sequence[Tensor], args: Sequence[Any], returned: Sequence[Any]) -> list[tuple[Tensor, Tensor]]:
    """Those of some points for which a backward has made a gradient, with it."""
    given = {id(each) for each in args[0]}
    wanted = {id(each) for each in points}
    return [
        (point, each)
        for point, each in zip(args[3], returned, strict=True)
        if each is not None and id(point) in wanted and id(each) not in given
    ]


def _zero(gradients: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Make an update with some gradients change nothing."""
    for _, gradient in gradients:
        gradient.data = torch.zeros_like(gradient)  # elements may share memory
