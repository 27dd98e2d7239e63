"""Births inside the step of an optimizer, found before they can stay in a weight.

A step in which no flag is raised is not checked. The first flag is raised before its result is written to a weight, so
that a copy made at that moment is good enough to put back. If the options show that a division by nearly zero is to be
expected, the copy is made before the step.
"""

from __future__ import annotations

import copy
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.optimizer_context import context_of_optimizer, only_one_held
from retrograd.anomaly.adapters.program.source_location import line_fields, place_of
from retrograd.anomaly.adapters.retrograd.births import Birth
from retrograd.anomaly.adapters.retrograd.boundaries.optimizer_state import state_arrays
from retrograd.anomaly.adapters.retrograd.boundaries.update_formula import flags_of_formula
from retrograd.anomaly.adapters.retrograd.elements import (
    input_statistics,
    is_bad,
    statistics,
    unravelled,
    value_at,
)
from retrograd.anomaly.adapters.retrograd.postmortem.describe import Describer, result_of
from retrograd.anomaly.adapters.retrograd.tensor_names import Names
from retrograd.anomaly.event import NaNEvent, with_context
from retrograd.anomaly.expected import expected
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.stack_frames import frames_between, user_frame
from retrograd.anomaly.surroundings import Operand, Operation, Surroundings
from retrograd.core import sites
from retrograd.core.tensor import Tensor, bump
from retrograd.nn.parameter import is_lazy
from retrograd.optim._elementwise import ElementwiseOptimizer

if TYPE_CHECKING:
    from retrograd.anomaly.adapters.retrograd.monitor import RetrogradMonitor

_OPTIMIZERS = sites.PACKAGE + "optim/"
_MOST_BIRTHS = 64


def in_optimizer(frame: FrameType | None) -> bool:
    """Whether a flag was raised by an optimizer's own arithmetic, in whatever thread."""
    return any(each.f_code.co_filename.startswith(_OPTIMIZERS) for each in frames_between(frame))


@dataclass(frozen=True)
class Harm:
    """What is not finite after a step and was before.

    Attributes
    ----------
    param, position, group
        The parameter, its number among all of the optimizer, and its group.
    key
        The entry of the optimizer's state for it; None if it is the parameter itself.
    array, index
        The elements, and the first bad one.
    """

    param: Tensor
    position: int
    group: dict[str, Any]
    key: str | None
    array: ndarray
    index: tuple[int, ...]

    @property
    def kind(self) -> str:
        """The kind of harm: "nan" or "inf"."""
        return "nan" if np.isnan(self.array[self.index]) else "inf"


class Update:
    """A step of an optimizer that is under way.

    Parameters
    ----------
    optimizer
        Whose step it is.
    caller
        The frame that called it: the user's, or one of ours called from there.
    looks
        Whether to check results because flags are not available.

    Attributes
    ----------
    flags
        The kinds of flags raised in it, with the NumPy functions that raised them.
    births
        What was born in operations on tensors: in an optimizer of the user's.
    """

    def __init__(self, optimizer: Any, caller: FrameType, looks: bool = False) -> None:
        self.optimizer = optimizer
        self._caller = caller
        self.flags: list[tuple[str, str]] = []
        self.births: list[Birth] = []
        self._lock = threading.RLock()
        self._weights: list[tuple[Tensor, ndarray]] | None = None
        self._state: dict[Any, dict[str, Any]] = {}
        self.is_complete = looks or _may_divide_by_zero(optimizer)  # whether it can be undone as a whole
        self.is_clipped = False  # whether some weights were lost and replaced by the largest finite numbers
        if self.is_complete:
            self._copy()

    @property
    def frame(self) -> FrameType | None:
        """The user's frame, searched for only if there is something to report; it exists while the step runs."""
        return user_frame(self._caller)

    def _copy(self) -> None:
        self._weights = [(param, param._data.copy()) for _, param, _ in _parameters(self.optimizer)]
        self._state = {param: _copied(state) for param, state in self.optimizer.state.items()}

    def flag(self, kind: str, function: str, birth: Birth | None = None) -> None:
        """Take note of a flag."""
        with self._lock:
            if self._weights is None:
                self._copy()
            if kind == "overflow" and not self.is_complete:
                # the weight itself may have overflowed, and is written by now
                for _, kept in self._weights or ():
                    if is_bad(kept):
                        np.nan_to_num(kept, copy=False, nan=np.nan)
                        self.is_clipped = True
            if (kind, function) not in self.flags:
                self.flags.append((kind, function))
            if birth is not None and len(self.births) < _MOST_BIRTHS:
                self.births.append(birth)

    def harms(self) -> list[Harm]:
        """What has become non-finite: parameters first, then their state."""
        weights = {id(param): array for param, array in self._weights or ()}
        found, remembered = [], []
        for group, param, position in _parameters(self.optimizer):
            index = _lost(param._data, weights[id(param)]) if id(param) in weights else None
            if index is not None:
                found.append(Harm(param, position, group, None, param._data, index))
            before = dict(state_arrays(self._state.get(param, {})))
            for key, array in state_arrays(self.optimizer.state.get(param, {})):
                index = _lost(array, before.get(key))
                if index is not None:
                    remembered.append(Harm(param, position, group, key, array, index))
        return found + remembered

    def undo(self, harms: Sequence[Harm]) -> None:
        """Put everything back as it was before the step.

        If the copy was made in the middle of it, only the harmed parameters; their state, which was already written
        to, is reset.
        """
        harmed = {id(harm.param) for harm in harms}
        for param, kept in self._weights or ():
            if self.is_complete or id(param) in harmed:
                np.copyto(param._data, kept)
                bump(param)
        state = self.optimizer.state
        for param in list(state):
            if self.is_complete and param in self._state:
                state[param] = self._state[param]
            elif self.is_complete or id(param) in harmed:
                del state[param]

    # --- wording ------------------------------------------------------------------------------------------------------

    def event(self, harm: Harm, names: Names, monitor: RetrogradMonitor) -> NaNEvent:
        """What happened, at the user's line that called the step."""
        name = self._name(harm, names)
        harmed = f"the update of {name}" if harm.key is None else f"{harm.key} of {name}"
        known = context_of_optimizer(self.optimizer, harm.group, self.frame, updating=True)
        describer = monitor.analysis([], names, self.births).describer
        grad = None if harm.param._grad is None else harm.param._grad._data
        if grad is not None and is_bad(grad):
            return self._of_gradient(grad, f"{name}.grad", harmed, describer)
        for birth in self.births:
            found = describer.forward(birth, None, [], harmed=harmed) if is_bad(result_of(birth)) else None
            if found is not None:
                return with_context(found, **known)
        return self._of_arithmetic(harm, name, harmed, {**describer.context, **known})

    def _of_arithmetic(self, harm: Harm, name: str, harmed: str, context: Mapping[str, Any]) -> NaNEvent:
        """The event of a birth in the optimizer's formula."""
        nan = bool(np.isnan(harm.array[harm.index]))
        wanted = ("invalid",) if nan else ("divide", "overflow")
        flags = self.flags or self._flags_unheard(harm) or [("overflow", "")]
        kind, function = next((flag for flag in flags if flag[0] in wanted), flags[0])
        op = canonical(function) if function else f"{type(self.optimizer).__name__}.step"
        operands = self._operands(harm)
        place = place_of(self.frame)
        operation = Operation(
            op=op,
            args=tuple(
                Operand(name=key, value=value, dtype=str(harm.array.dtype), leaf_name=name if key == "param" else None)
                for key, value in operands.items()
            ),
            **line_fields(place),
        )
        return NaNEvent(
            kind="invalid" if nan else kind,
            op=op,
            index=harm.index,
            operands=operands,
            thread=threading.current_thread().name,
            harmed=harmed,
            layer_name=name.rpartition(".")[0] or None,
            surroundings=Surroundings(operation=operation, library="retrograd", context=context),
            **place,
            **input_statistics(operands.values()),
            **statistics(harm.array),
        )

    def _of_gradient(self, grad: ndarray, name: str, harmed: str, describer: Describer) -> NaNEvent:
        """The event of a gradient that came in non-finite although no flag was raised."""
        event = describer.leaf(grad, "gradient", name, [], harmed=harmed)
        note = (
            "It was found only now because no flag was raised: such a gradient was born inside the BLAS library, or "
            "written by hand."
        )
        return replace(with_context(event, unseen=True), note=note, **place_of(self.frame))

    def _flags_unheard(self, harm: Harm) -> list[tuple[str, str]]:
        """The flags of the formula at the element, where there are none to hear."""
        param = harm.param
        before = next((kept for each, kept in self._weights or () if each is param), None)
        if before is None or param._grad is None or harm.array.shape != param._data.shape:
            return []
        state = self._state.get(param, {})
        return flags_of_formula(self.optimizer, harm.group, before, param._grad._data, state, harm.index)

    def _operands(self, harm: Harm) -> dict[str, Any]:
        """The numbers of the formula at the element, as they were when it happened, and its settings."""
        param, shape = harm.param, harm.array.shape
        before = next((kept for each, kept in self._weights or () if each is param), param._data)
        arrays = {"param": before}
        if param._grad is not None:
            arrays["grad"] = param._grad._data
        kept = dict(state_arrays(self._state.get(param) or self._beginning(harm)))
        for key, array in state_arrays(self.optimizer.state.get(param, {})):
            if array.shape == shape:
                arrays[key] = kept.get(key, array) if is_bad(array[harm.index]) else array
        found = {key: value_at(array, harm.index, shape) for key, array in arrays.items()}
        settings = {key: harm.group[key] for key in ("lr", "eps") if isinstance(harm.group.get(key), float)}
        return {key: value for key, value in found.items() if value is not None} | settings

    def _beginning(self, harm: Harm) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        optimizer = self.optimizer
        return optimizer._new_state(harm.group, harm.param) if isinstance(optimizer, ElementwiseOptimizer) else {}

    @staticmethod
    def _name(harm: Harm, names: Names) -> str:
        """The user's name for a parameter."""
        for param, name in zip(harm.group["params"], harm.group.get("param_names", ()), strict=False):
            if param is harm.param:
                return name
        return names.array(harm.param._data) or f"parameter {harm.position} of shape {list(harm.param.shape)}"


class Updates:
    """The steps of optimizers under way, in all threads.

    Parameters
    ----------
    monitor
        Provides names and receives findings.
    """

    def __init__(self, monitor: RetrogradMonitor) -> None:
        self._monitor = monitor
        self._by_thread: dict[int, Update] = {}
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()  # the optimizers that have stepped
        self._latest: weakref.ref[Any] | None = None  # the latest of them

    def optimizer_context(self, optimizer: Any, frame: FrameType | None) -> dict[str, Any]:
        """The context of an event about an optimizer: the given one, or the only one.

        The latter is the one that has stepped, or before any step the one that the user's variables hold.
        """
        known = list(self._optimizers)
        if optimizer is None and len(known) < 2:
            optimizer = known[0] if known else only_one_held(frame, Tensor)
        if optimizer is None:
            return {}
        groups: list[dict[str, Any]] = getattr(optimizer, "param_groups", None) or [{}]
        return context_of_optimizer(optimizer, groups[0], frame)

    def run(self, optimizer: Any, step: Callable[[], Any]) -> Any:
        """Run a step, and undo it if a birth in it does harm."""
        if self._latest is None or self._latest() is not optimizer:
            self._latest = weakref.ref(optimizer)
            self._optimizers.add(optimizer)
        watch = self._monitor.watch
        if not (watch.listens_to("nan") or watch.listens_to("inf")):
            return step()
        update = Update(optimizer, sys._getframe(1), self._monitor.looks)
        this = threading.get_ident()
        outer = self._by_thread.get(this)
        is_judged = False  # stays false if an error or interrupt comes first
        try:
            try:
                self._by_thread[this] = update
                result = step()
            finally:
                if outer is None:
                    self._by_thread.pop(this, None)
                else:
                    self._by_thread[this] = outer
            if self._is_suspect(update):
                self._judge(update)
            is_judged = True
            return result
        finally:
            if not is_judged and self._is_suspect(update):
                self._undo(update)

    def _is_suspect(self, update: Update) -> bool:
        return bool(update.flags or self._monitor.looks) and not expected.depth

    def flag(self, kind: str, frame: FrameType, function: str) -> bool:
        """Note a flag if an optimizer's own arithmetic raised it; return whether that is so."""
        if not in_optimizer(frame):
            return False
        own = self._by_thread.get(threading.get_ident())
        # a helper thread for large arrays does not tell for which thread it works
        for update in list(self._by_thread.values()) if own is None else (own,):
            if kind != "underflow":
                update.flag(kind, function)
        return True

    def note(self, birth: Birth) -> None:
        """Note a birth in an unrecorded operation on tensors: in a user's optimizer."""
        update = self._by_thread.get(threading.get_ident())
        if update is not None and birth.sources is None and not birth.is_backward and "underflow" not in birth.kinds:
            update.flag(birth.kinds[0] if birth.kinds else "overflow", "", birth)

    def _undo(self, update: Update) -> None:
        """Restore what is harmed, unless the policy always lets that pass."""
        harms = update.harms()
        if harms and harms[0].kind in self._monitor.watch.must_not_pass:
            update.undo(harms)

    def _judge(self, update: Update) -> None:
        harms = update.harms()
        if not harms:
            return
        harm = harms[0]
        watch, kind = self._monitor.watch, harm.kind
        if not watch.listens_to(kind):
            return
        names = Names(watch.model, update.frame)
        event = update.event(harm, names, self._monitor)
        if watch.policies[kind] in ("raise", "skip_step") and event.note is None:
            note = _AS_BEFORE if update.is_complete else _IN_PART
            event = replace(event, note=note + _CLIPPED if update.is_clipped else note)
        undo = True
        try:
            undo = watch.found(kind, event, exact=True) == "withhold"
        finally:
            if undo:
                update.undo(harms)


_AS_BEFORE = "It happened in the optimizer's step, which was undone: weights and averages are as they were before it."
_IN_PART = (
    "It happened in the optimizer's step. Parameters that would have become bad are unchanged, and their optimizer "
    "state is reset; all others were updated."
)
_CLIPPED = " Weights that overflowed hold the largest number of their dtype."


def _may_divide_by_zero(optimizer: Any) -> bool:
    """Whether the term added to a denominator is zero, or rounds to zero."""
    for group in optimizer.param_groups:
        eps = group.get("eps")
        if eps is None:
            continue
        for number in eps if isinstance(eps, (tuple, list)) else (eps,):
            if isinstance(number, (int, float)) and number < _ENOUGH:
                params = (param for param in group["params"] if not is_lazy(param))
                types = {param._data.real.dtype for param in params if param._data.dtype.kind in "fc"}
                if any(number < np.finfo(dtype).smallest_normal for dtype in types):
                    return True
    return False


_ENOUGH = float(np.finfo(np.float16).smallest_normal)  # in any type


def _parameters(optimizer: Any) -> Iterator[tuple[dict[str, Any], Tensor, int]]:
    """The parameters that have elements, with their groups and their numbers among all."""
    position = 0
    for group in optimizer.param_groups:
        for param in group["params"]:
            if not is_lazy(param):
                yield group, param, position
            position += 1


def _copied(state: Any) -> Any:
    """A copy of a parameter's state; what cannot be copied, such as a lock, is kept as it is."""
    if type(state) is dict:
        return {key: _copied(value) for key, value in state.items()}
    try:
        return copy.deepcopy(state)
    except Exception:
        return state


def _lost(array: ndarray, before: ndarray | None) -> tuple[int, ...] | None:
    """The first element that is not finite and was before."""
    if not is_bad(array):
        return None
    bad = ~np.isfinite(array)
    if before is not None and before.shape == array.shape:
        bad &= np.isfinite(before)
    return unravelled(bad) if bad.any() else None
