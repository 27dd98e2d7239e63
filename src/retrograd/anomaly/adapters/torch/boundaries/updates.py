"""Updates that may turn finite gradients into NaN or infinities.

Candidates are optimizers with an ``eps`` of zero, steps written by the user, and gradients so large that their squares
overflow: then Adam's memory of them is infinite, and the weight never changes again.
"""

from __future__ import annotations

import inspect
import math
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from retrograd.anomaly.adapters.leaf_names import nameless
from retrograd.anomaly.adapters.optimizer_context import context_of_optimizer, only_one_held
from retrograd.anomaly.adapters.program.source_location import line_fields, place_of
from retrograd.anomaly.adapters.torch.boundaries.optimizer_state import state_tensors
from retrograd.anomaly.adapters.torch.boundaries.rollback import BeforeUpdate, WeightsBefore
from retrograd.anomaly.adapters.torch.gradient_checks.gradients import gradients_of, kind_of
from retrograd.anomaly.adapters.torch.gradient_checks.norms import are_at_hand, norms
from retrograd.anomaly.adapters.torch.postmortem.analysis import Analysis
from retrograd.anomaly.adapters.torch.postmortem.describe import first_of, statistics, value_at
from retrograd.anomaly.adapters.torch.records.calls import bytes_of, is_bad
from retrograd.anomaly.adapters.torch.records.recording import Recorder
from retrograd.anomaly.adapters.torch.runtime.frames import has_own_step, has_step_of_program
from retrograd.anomaly.adapters.torch.runtime.graph_capture import capturing
from retrograd.anomaly.adapters.torch.runtime.modes import unseen
from retrograd.anomaly.adapters.torch.second_run.recordings import Recordings
from retrograd.anomaly.adapters.torch.second_run.snapshot import Copies, left_as_they_are
from retrograd.anomaly.adapters.torch.tensor_names import Names
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.expected import expected
from retrograd.anomaly.float16 import vanishes
from retrograd.anomaly.monitor import Watch
from retrograd.anomaly.stack_frames import user_frame
from retrograd.anomaly.surroundings import Operand, Operation, Surroundings


@dataclass(frozen=True)
class _Harm:
    """What an update made non-finite: a parameter, or the entry ``key`` of the optimizer's state for it."""

    param: Tensor
    key: str | None
    values: Tensor
    before: Tensor | None  # the parameter as it was


class _Kept(NamedTuple):
    """What was copied before an update: also the gradients, which a step may overwrite."""

    before: BeforeUpdate | WeightsBefore
    gradients: Copies
    only_weights: bool = False  # whether the state may become what it likes


class Updates:
    """Checks weights and state after such an update, and puts them back if the policy asks for that.

    Both are copied before it, which costs far more than other checks. So it is done before each step only with an
    ``eps`` of zero; for the user's own steps while every operation is recorded; and when gradients are large. Of a step
    that the program itself has written, the weights alone are copied and checked each time, unless they are many.

    Parameters
    ----------
    watch
        Supplies the policies.
    context
        Returns what is known about the training besides its operations.
    recordings
        Tells whether every operation is recorded.
    analysis
        Makes the analysis that reads the record.
    """

    def __init__(
        self,
        watch: Watch,
        context: Callable[[], dict[str, Any]],
        recordings: Recordings,
        analysis: Callable[..., Analysis],
    ) -> None:
        self._watch = watch
        self._context = context
        self._recordings = recordings
        self._findings = analysis
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._handles: list[Any] = []
        self._kept: dict[int, _Kept] = {}
        self._weights: weakref.WeakKeyDictionary[Any, WeightsBefore] = weakref.WeakKeyDictionary()

    def see(self, optimizer: Any) -> None:
        """Called with the optimizer that steps, if it differs from the one before."""
        if optimizer in self._seen:
            return
        self._seen.add(optimizer)
        is_recorded = self._watch.from_step is not None and has_own_step(optimizer)
        if _may_divide_by_zero(optimizer) or is_recorded:
            self._handles.append(optimizer.register_step_pre_hook(self._before))
            self._handles.append(optimizer.register_step_post_hook(self.after))

    def with_gradients(self, optimizer: Any, gradients: Sequence[tuple[Tensor, Tensor]], norm: float) -> None:
        """Called before an update with finite gradients whose norm is known."""
        if norm > _LEAST_ROOT and any(
            norm > _root_of_largest(dtype) for dtype in {each.dtype for _, each in gradients}
        ):
            self._keep(optimizer)

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        for kept in self._kept.values():  # of an update that was interrupted
            if self._watch.must_not_pass and any(_is_harmed(*each) for each in kept.before.weights):
                kept.before.restore()
        self._handles, self._kept = [], {}
        self._weights.clear()
        self._seen.clear()

    def begins(self, optimizer: Any, before: BeforeUpdate | None) -> None:
        """Called before each update that is not withheld, with a copy of everything if there is one.

        Nobody but the program knows what a step of its own computes, or what its state means: only its weights are
        checked. Not under ``lag=1``, as reading them would wait for the device.
        """
        must_be_clean = self._watch.must_not_pass and self._watch.lag == 0 and not capturing()
        if not must_be_clean or not has_step_of_program(optimizer):
            return
        weights = [param for group in optimizer.param_groups for param in group["params"]]
        if all(map(are_at_hand, weights)) and (before is not None or sum(map(bytes_of, weights)) <= _MOST_BYTES):
            with unseen():
                self._kept[id(optimizer)] = _Kept(before or self._weights_of(optimizer), Copies(()), only_weights=True)

    def _weights_of(self, optimizer: Any) -> WeightsBefore:
        known = self._weights.get(optimizer)
        if known is None or not known.renew(optimizer):
            known = self._weights[optimizer] = WeightsBefore(optimizer)
        return known

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if (self._recordings.for_good or _may_divide_by_zero(optimizer)) and not capturing():
            self._keep(optimizer)

    def _keep(self, optimizer: Any) -> None:
        with unseen():
            gradients = Copies(gradient for _, gradient in gradients_of(optimizer))
            self._kept[id(optimizer)] = _Kept(BeforeUpdate(optimizer), gradients)

    def after(self, optimizer: Any, args: Any = None, kwargs: Any = None) -> None:
        """Called after each update."""
        kept = self._kept.get(id(optimizer))
        if kept is not None:
            with torch.no_grad(), unseen():
                self._look(optimizer, kept)

    def _look(self, optimizer: Any, kept: _Kept) -> None:
        withheld = True  # also if an error, even an interrupt, ends it
        try:
            harm = next(_harms(optimizer, kept), None)
            if harm is None or expected.depth or not self._watch.listens_to(kind_of([harm.values])):
                withheld = False
                return
            found = self._findings().in_update(harm.param) if harm.key is None else None
            if found is None and harm.key is None and has_step_of_program(optimizer):
                found = self._taken_again(optimizer, harm.param, kept)
            event = found or self._of_formula(optimizer, harm, kept)
            withheld = self._watch.found(kind_of([harm.values]), event, exact=True) == "withhold"
        finally:
            if withheld:
                kept.before.restore()
            self._kept.pop(id(optimizer), None)

    def _taken_again(self, optimizer: Any, param: Tensor, kept: _Kept) -> NaNEvent | None:
        """The event by a record of the program's own step, which is taken once more and then undone.

        None if the record does not show that the birth was in the step: the first one may have spoilt what is kept
        between steps, or needs arguments.
        """
        step, recorder, found = inspect.unwrap(type(optimizer).step), Recorder(), None
        after_first, gradients = BeforeUpdate(optimizer), Copies(each for _, each in gradients_of(optimizer))
        kept.before.restore()
        try:
            with left_as_they_are(), recorder:
                step(optimizer)
            if is_bad(param):
                found = self._findings(record=recorder).in_update(param)
        except Exception:
            found = None
        finally:
            recorder.end()
            after_first.restore()
            gradients.restore()
        if found is None or found.kind == "leaf":
            return None
        return _of_group(found, optimizer, _group_of(optimizer, param))

    def _of_formula(self, optimizer: Any, harm: _Harm, kept: _Kept) -> NaNEvent:
        frame = user_frame(sys._getframe(1))
        names = Names(self._watch.model, frame)
        param = harm.param
        name = names.tensor(param) or nameless(param)
        group = _group_of(optimizer, param)
        place = place_of(frame)
        index = first_of(harm.values)
        known = {"param": harm.before, "grad": kept.gradients.of(param.grad)}
        remembered = state_tensors(optimizer, param)
        known |= {key: kept.before.before(each) for key, each in remembered if each.shape == param.shape}
        known |= {"lr": group.get("lr"), "eps": group.get("eps")}
        numbers = {key: value_at(value, index, param.shape) for key, value in known.items()}
        operands = {key: value for key, value in numbers.items() if value is not None}
        dtype = str(param.dtype).removeprefix("torch.")
        divides = harm.key is None and _may_divide_by_zero(optimizer)
        op = "div" if divides else f"{type(optimizer).__name__}.step"
        operation = Operation(
            op=op,
            args=tuple(Operand(name=key, value=value, dtype=dtype) for key, value in operands.items()),
            **line_fields(place),
        )
        return NaNEvent(
            kind="invalid" if kind_of([harm.values]) == "nan" else "divide" if divides else "overflow",
            op=op,
            index=index,
            operands=operands,
            harmed=f"the update of {name}" if harm.key is None else f"{harm.key} of {name}",
            cause=_OWN.format(name, type(optimizer).__name__) if kept.only_weights else None,
            layer_name=name.rpartition(".")[0] or None,
            surroundings=Surroundings(
                operation=operation,
                library="torch",
                context={
                    **self._context(),
                    "model": names.model_name(),
                    **({"unseen": True} if kept.only_weights else {}),
                    **optimizer_context(optimizer, frame, group, updating=True),
                },
            ),
            **place,
            **statistics(harm.values),
        )


def _harms(optimizer: Any, kept: _Kept) -> Iterator[_Harm]:
    """The harms of an update: weights first."""
    if kept.only_weights and all(map(math.isfinite, norms([param for param, _ in kept.before.weights]))):
        return  # read at once, as it is done in each step
    for param, before in kept.before.weights:
        if _is_harmed(param, before):
            yield _Harm(param, None, param, before)
    for param, before in () if kept.only_weights else kept.before.weights:
        for key, values in state_tensors(optimizer, param):
            known = kept.before.before(values)
            if is_bad(values) and not (has_own_step(optimizer) if known is None else is_bad(known)):
                yield _Harm(param, key, values, before)


def _group_of(optimizer: Any, param: Tensor) -> dict[str, Any]:
    """The group of an optimizer that a parameter is in."""
    return next(each for each in optimizer.param_groups if any(param is own for own in each["params"]))


def _of_group(event: NaNEvent, optimizer: Any, group: Mapping[str, Any]) -> NaNEvent:
    """The event of an operation in a step, with the options of the group that the parameter is in."""
    around = event.surroundings
    if around is None:
        return event
    known = optimizer_context(optimizer, user_frame(sys._getframe(1)), group, updating=True)
    return replace(event, surroundings=replace(around, context={**around.context, **known}))


_MOST_BYTES = 64 << 20  # of weights that are copied in each step
_OWN = (
    "The gradient is finite, and so was {0} before this step: the step of {1}, your own optimizer, made it "
    "non-finite. Its operations were not recorded. Look there for a division by a norm or a root that can be 0."
)


def _is_harmed(param: Tensor, before: Tensor) -> bool:
    return is_bad(param) and not is_bad(before)


_LEAST_ROOT = 255.0  # in float16, the type with the smallest range


def _root_of_largest(dtype: torch.dtype) -> float:
    """The least norm at which a square of gradients of this type can overflow."""
    return math.sqrt(torch.finfo(dtype).max) if dtype.is_floating_point or dtype.is_complex else math.inf


def optimizer_context(
    optimizer: Any, frame: FrameType | None, options: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """The context of an event about the optimizer: the known one, or one that the variables hold.

    It contains the options of the first group by default, and always whether the step is the user's own.
    """
    optimizer = optimizer or only_one_held(frame, torch.Tensor)
    if optimizer is None:
        return {}
    if options is None:
        options = (optimizer.param_groups or [optimizer.defaults])[0]
    own = {"own": True} if has_own_step(optimizer) else {}
    return context_of_optimizer(optimizer, options, frame, **own, **more)


def _may_divide_by_zero(optimizer: Any) -> bool:
    """Whether the ``eps`` it adds to a denominator is zero in the type of a parameter."""
    for group in optimizer.param_groups:
        eps = group.get("eps")
        half = any(each.dtype is torch.float16 for each in group["params"])
        if isinstance(eps, (int, float)) and vanishes(eps, half):
            return True
    return False
