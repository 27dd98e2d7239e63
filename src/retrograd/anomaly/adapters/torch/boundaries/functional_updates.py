"""Weights that are new tensors in each step: ``params = [p - lr * g for p, g in zip(params, grads)]``.

They are never written to, so that no update is seen. What is seen is the points at which gradients are requested, again
and again at one place in the program. If a gradient was not finite and the next point is not finite in the same
elements, the program has moved there. So does a sampler that goes back later; but it holds the point to return to. A
program that holds none has lost its weights.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.program.variables import held_around
from retrograd.anomaly.adapters.torch.gradient_checks.gradients import finite_norm, kind_of, loss_number
from retrograd.anomaly.adapters.torch.records.calls import Call, bad, can_be_bad, has_nan, is_bad
from retrograd.anomaly.adapters.torch.records.transforms import Sample, Transformed, mean_of_samples, samples_of
from retrograd.anomaly.adapters.torch.runtime.frames import within_backward
from retrograd.anomaly.adapters.torch.runtime.modes import unseen
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.expected import expected
from retrograd.anomaly.stack_frames import is_library, outwards, user_frames

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.torch.monitor import TorchMonitor

_PLACES = 64  # at which gradients are requested, and whose latest points are known
_AT_ONCE = 3  # bad gradients that are explained before their effect is known, while everything is available
_OLDEST = 8  # calls at other places, during which a doubt is kept
FOLLOWED = 3  # updates after one that was left out: the program's state may still contain it
PATIENCE = 100  # gradients in a row at points that are not finite, in a program that could go back
_PLAIN = (Tensor, torch.nn.Parameter)


@dataclass(eq=False)
class GradRequest:
    """One request for gradients: the loss, their norm, and whether it has been counted as a step."""

    loss: float | None = None
    norm: float | None = None
    counted: bool = False


@dataclass(eq=False)
class Doubt:
    """Gradients whose update may make a bad point.

    Attributes
    ----------
    points, gradients
        Where they were requested, and what was returned there, if anything.
    explain
        Explains where they came from; None if they are finite, and the update is examined for other reasons.
    event
        The explanation, once it was requested.
    """

    points: Sequence[Tensor]
    gradients: Sequence[Tensor | None]
    explain: Callable[[], NaNEvent | None] | None
    event: NaNEvent | None = None

    def explained(self) -> NaNEvent | None:
        if self.event is None and self.explain is not None:
            self.event, self.explain = self.explain(), None
        return self.event

    def leads_to(self, points: Sequence[Tensor]) -> bool:
        """Whether a point is bad wherever an update with these gradients would make it bad."""
        if self.event is None and self.explain is None:
            return True
        asked = zip(points, self.gradients, strict=True)
        pairs = [(point, each) for point, each in asked if each is not None and is_bad(each)]
        if any(has_nan(each) for _, each in pairs):  # NaN survives any update; an infinity may not
            pairs = [(point, torch.where(each.isnan(), each, 0.0)) for point, each in pairs]
        reached = [(bad(point), ~each.isfinite()) for point, each in pairs]
        return bool(reached) and all(
            not bool(wrong.any()) or (there is not None and not bool((wrong & ~there).any()))
            for there, wrong in reached
        )


@dataclass(eq=False)
class Chain:
    """The successive points at which gradients are requested at one place.

    Attributes
    ----------
    asked
        The last request.
    moves
        Whether the present point consists of other tensors than the one before.
    trains
        Whether such a move counts as a training step, and not as one of an inner loop, which is restarted repeatedly.
    doubt
        The doubt about the point before.
    cause
        The doubt that led to the first of the current non-finite points.
    lost_for
        How many non-finite points there have been in a row.
    is_told
        Whether that has been reported.
    followed
        How many more updates to observe even if their gradients are finite.
    """

    asked: GradRequest = field(default_factory=GradRequest)
    moves: bool = False
    trains: bool = False
    doubt: Doubt | None = None
    cause: Doubt | None = None
    lost_for: int = 0
    is_told: bool = False
    followed: int = 0
    _tensors: list[weakref.ref[Tensor]] = field(default_factory=list)
    _has_history: bool = False  # of the point before
    _begins_again: bool = False  # it has gone from a point with a history to one without

    def arrive(self, points: Sequence[Tensor]) -> None:
        """Called when gradients are requested here."""
        known = [reference() for reference in self._tensors]
        self.moves = bool(known) and all(point is not old for point, old in zip(points, known, strict=True))
        has_history = any(point.grad_fn is not None for point in points)
        self._begins_again |= self._has_history and not has_history
        self._has_history = has_history
        self.trains = self.moves and not self._begins_again
        self._tensors = [weakref.ref(point) for point in points]


class FunctionalUpdates:
    """Follows programs whose weights are new tensors in each step, and reports when one has lost them.

    Parameters
    ----------
    monitor
        Supplies the policies and the explanations.
    is_open
        Tells whether gradients that are returned now may be for weights; the argument is whether they may be those of
        samples, within ``vmap``.
    count
        Called with what counts as a step.
    step_ended
        Called when a step has ended whose loss has no graph.
    """

    def __init__(
        self,
        monitor: TorchMonitor,
        is_open: Callable[[bool], bool],
        count: Callable[[GradRequest], None],
        step_ended: Callable[[], None],
    ) -> None:
        self._monitor: TorchMonitor = weakref.proxy(monitor)
        self._is_open = is_open
        self._count = count
        self._step_ended = step_ended
        self._chains: dict[Any, Chain] = {}
        self._explained = 0  # doubts, before they had any effect
        self._calls = 0
        self._follows = False
        self._in_doubt: list[tuple[int, Chain]] = []  # since which call

    def start(self, patches: Patches) -> None:
        from torch._functorch import eager_transforms

        patches.wrap(eager_transforms, "grad_and_value_impl", self._grad_and_value)
        patches.wrap(eager_transforms, "_vjp_with_argnums", self._vjp)
        self._follows = True

    def stop(self) -> None:
        """Release everything."""
        self._chains, self._explained, self._in_doubt = {}, 0, []
        self._follows = False

    # --- the points -----------------------------------------------------------------------------------------------

    def at(self, points: Sequence[Tensor]) -> Chain:
        """The chain that a point has just joined; to be called where gradients are requested."""
        if self._monitor.recordings.rehearsing:
            return Chain()
        place = tuple((each.f_code, each.f_lasti) for each in user_frames(sys._getframe(1)))
        key = place, tuple(point.shape for point in points)
        chain = self._chains.pop(key, None) or Chain()
        self._chains[key] = chain  # the latest last
        if len(self._chains) > _PLACES:
            del self._chains[next(iter(self._chains))]
        chain.arrive(points)
        self._calls += 1
        while self._in_doubt and self._in_doubt[0][0] < self._calls - _OLDEST:
            self._in_doubt.pop(0)[1].doubt = None
        return chain

    def doubt(
        self,
        chain: Chain,
        points: Sequence[Tensor],
        gradients: Sequence[Tensor | None],
        explain: Callable[[], NaNEvent | None] | None,
    ) -> None:
        """Take note of gradients that are not finite, or, without ``explain``, of finite ones after such."""
        if chain.lost_for or not (explain is not None or chain.followed > 0):
            return
        with unseen():
            if any(map(is_bad, points)):  # whose consequences would be no news
                chain.lost_for = 1
                return
        doubt = Doubt(points, gradients, explain)
        if explain is not None and self._explained < _AT_ONCE:
            self._explained += 1
            doubt.explained()
        chain.doubt = doubt
        self._in_doubt = [each for each in self._in_doubt if each[1] is not chain] + [(self._calls, chain)]

    def judge(self, chain: Chain, points: Sequence[Tensor]) -> bool:
        """Look at a point that has arrived, and return whether it has been restored to what it was before."""
        chain.followed -= 1
        if not chain.moves:
            return False
        doubt, chain.doubt = chain.doubt, None
        with unseen(), torch.no_grad():
            lost = [point for point in points if is_bad(point)]
            if not lost:
                chain.lost_for, chain.is_told, chain.cause = 0, False, None
                return False
            chain.lost_for += 1
            kind = kind_of(lost)
            if chain.is_told or expected.depth or not self._monitor.watch.listens_to(kind):
                return False
            if doubt is not None and not doubt.leads_to(points):
                doubt = None
            if doubt is not None and not self._can_go_back(points, lost):
                return self._harm(chain, doubt, kind, points)
        if chain.lost_for == 1 and doubt is not None:
            doubt.explained()
            chain.cause = replace(doubt, points=(), gradients=())
        if chain.lost_for == PATIENCE:
            chain.is_told = True
            event = None if chain.cause is None else chain.cause.event
            event = self._of_update(lost[0]) if event is None else event
            self._monitor.watch.warned(kind, event, _NEVER_BACK.format(PATIENCE))
        return False

    def settle(self) -> None:
        """Look for what became of points with bad gradients after which no more were requested."""
        in_doubt, self._in_doubt = self._in_doubt, []
        for _, chain in in_doubt:
            doubt, chain.doubt = chain.doubt, None
            if doubt is None or doubt.explain is doubt.event is None or expected.depth:
                continue
            with unseen(), torch.no_grad():
                became = {} if any(map(is_bad, doubt.points)) else self._became(doubt)
                kind = kind_of(list(became.values()))
                if became and self._monitor.watch.listens_to(kind) and not self._can_go_back([], [*became.values()]):
                    before = [doubt.points[number] for number in became]
                    self._harm(chain, replace(doubt, points=before), kind, list(became.values()))

    def _became(self, doubt: Doubt) -> dict[int, Tensor]:
        """The tensors the program holds in place of points, by the points' indices: bad where the gradient was."""
        known = {id(each) for each in doubt.gradients}
        held = [each for each in held_around(sys._getframe(1), _is_member) if is_point(each) and id(each) not in known]
        found: dict[int, Tensor] = {}
        for number, (point, gradient) in enumerate(zip(doubt.points, doubt.gradients, strict=True)):
            if gradient is None or not is_bad(gradient):
                continue
            one = replace(doubt, points=[point], gradients=[gradient])
            alike = (each for each in held if each.shape == point.shape and each.dtype == point.dtype and is_bad(each))
            became = next((each for each in alike if one.leads_to([each])), None)
            if became is None:
                return {}
            found[number] = became
        return found

    def _can_go_back(self, points: Sequence[Tensor], lost: Sequence[Tensor]) -> bool:
        """Whether the program holds finite tensors to return to, or a library decides about its moves."""
        frame = sys._getframe(1)
        if any(is_library(each.f_code.co_filename, "scipy") for each in outwards(frame)):
            return True
        missing = Counter(tuple(point.shape) for point in lost)
        together = sum(point.numel() for point in points)
        seen: set[int] = set()
        for value in held_around(frame, _is_member):
            if id(value) in seen or not isinstance(value, (Tensor, np.ndarray)) or not _is_finite(value):
                continue
            seen.add(id(value))
            shape = tuple(value.shape)
            missing[shape] -= 1
            if len(shape) == 1 and shape[0] == together and len(points) > 1:
                return True
            if all(count <= 0 for count in missing.values()):
                return True
        return False

    def _harm(self, chain: Chain, doubt: Doubt, kind: str, points: Sequence[Tensor]) -> bool:
        """Handle a lost point: restore it to what it was before, unless the policy lets it pass."""
        event = doubt.explained() or self._of_update(next(filter(is_bad, points)))
        became = [point.detach().clone() for point in points]
        for point, before in zip(points, doubt.points, strict=True):
            point.data.copy_(before.detach())
        if self._monitor.watch.found(kind, event, exact=True) == "withhold":
            chain.followed, chain.lost_for = FOLLOWED, 0
            return True
        for point, value in zip(points, became, strict=True):
            point.data.copy_(value)
        chain.is_told = True
        return False

    def _of_update(self, point: Tensor) -> NaNEvent:
        with self._monitor.at_work():
            event = self._monitor.analysis().in_update_by_hand(point)
        return replace(event, step=max(self._monitor.watch.step, 1), batch_idx=self._monitor.watch.batch_idx)

    # --- torch.func -----------------------------------------------------------------------------------------------

    def _grad_and_value(
        self, original: Any, func: Any, argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Gradients are requested from a transform, which can be run again."""
        asking = self._ask(Transformed(func, argnums, has_aux, args, kwargs))
        result = original(func, argnums, has_aux, args, kwargs)
        if asking is not None:
            self._answered(asking, result[0], result[1][0] if has_aux else result[1])
        return result

    def _vjp(self, original: Any, func: Any, *primals: Any, argnums: Any = None, has_aux: bool = False) -> Any:
        """The same for a transform that returns a function, which returns them."""
        numbers = tuple(range(len(primals))) if argnums is None else argnums
        asking = self._ask(Transformed(func, numbers, has_aux, primals, {}))
        result = original(func, *primals, argnums=argnums, has_aux=has_aux)
        if asking is None:
            return result
        output, back, *aux = result

        @functools.wraps(back)
        def looked_at(cotangents: Any, *args: Any, **kwargs: Any) -> Any:
            gradients = back(cotangents, *args, **kwargs)
            self._answered(asking, gradients, output, cotangents)
            return gradients

        return output, looked_at, *aux

    def _ask(self, call: Transformed) -> _Asking | None:
        """Called before a transform is run; None if its results concern nothing that is watched."""
        if self._monitor.now.busy or within_backward() or not self._is_open(True):
            return None
        points = [each for each in map(samples_of, call.inputs()) if is_point(each)]
        if not points:
            return None
        chain = self.at(points)
        if chain.doubt or chain.lost_for:
            self.judge(chain, points)
        return _Asking(call, points, chain)

    def _answered(self, asking: _Asking, gradients: Any, output: Any, cotangents: Any = None) -> None:
        """Called when it has returned gradients, once or several times."""
        monitor, chain = self._monitor, asking.chain
        if not self._follows or monitor.now.busy:
            return
        results = [each for each in map(samples_of, tree_flatten(output)[0]) if isinstance(each, Tensor)]
        if not asking.is_counted:
            asking.is_counted = True
            number = loss_number(mean_of_samples(output)) if len(results) == 1 and can_be_bad(results[0]) else None
            asked, chain.asked = chain.asked, GradRequest(number if isinstance(number, float) else None)
            if chain.trains:
                self._count(asked)
                self._count(chain.asked)
        if monitor.is_due():
            returned = asking.call.results(gradients, asking.points)
            chain.asked.norm = finite_norm([each for each in returned if each is not None])
            if chain.asked.counted:
                monitor.watch.remember_grad_norm(chain.asked.norm)
            explain = None
            if chain.asked.norm is None:
                run_again = functools.partial(
                    asking.call.run_again, Sample.of_bad(tree_flatten(gradients)[0]), cotangents
                )
                explain = functools.partial(self._of_transform, run_again, asking.points, results)
            self.doubt(chain, asking.points, returned, explain)
        if chain.asked.counted:
            self._step_ended()
        else:
            monitor.recordings.begin_if_due(max(monitor.watch.step, 1))

    def _of_transform(
        self, run_again: Callable[[], list[tuple[Call, int]]], points: Sequence[Tensor], results: Sequence[Tensor]
    ) -> NaNEvent:
        loss = next(filter(is_bad, results), results[0])
        with self._monitor.at_work():
            event = self._monitor.analysis().in_transform(points, loss, run_again)
        return replace(event, step=max(self._monitor.watch.step, 1), batch_idx=self._monitor.watch.batch_idx)


@dataclass(eq=False)
class _Asking:
    """One call of a transform, the points that it differentiates at, and their chain."""

    call: Transformed
    points: list[Tensor]
    chain: Chain
    is_counted: bool = False  # as a request


_NEVER_BACK = (
    "Because of this, the last {} gradients were computed at non-finite points: nothing is learned from them. If that "
    "is intended, as in a sampler that rejects such points, say so: `with expect_nonfinite('reason'):`."
)


def is_point(value: Any) -> bool:
    """Whether it is a tensor whose numbers can be read."""
    return type(value) in _PLAIN and value.layout is torch.strided and value.dtype.itemsize > 1 and can_be_bad(value)


def _is_member(owner: Any, name: str) -> bool:
    """Whether it is an original parameter of a module, which ``functional_call`` replaces by others."""
    return name == "_parameters" and isinstance(owner, torch.nn.Module)


def _is_finite(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fc" and bool(np.isfinite(value).all())
    return is_point(value) and not is_bad(value)
