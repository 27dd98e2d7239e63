"""Births in forward mode: in the tangents of results, or in values from which tangents are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.program.source_location import place_fields
from retrograd.anomaly.adapters.retrograd.births import Birth, arrays_of, as_array, data_of
from retrograd.anomaly.adapters.retrograd.elements import (
    at_element,
    first_not_finite,
    input_statistics,
    is_bad,
    kind_of,
    statistics,
)
from retrograd.anomaly.adapters.retrograd.postmortem.analysis import Analysis
from retrograd.anomaly.adapters.retrograd.postmortem.describe import MEANT, REVERSED, in_order, is_aligned
from retrograd.anomaly.adapters.retrograd.second_run.recording import Call
from retrograd.anomaly.event import NaNEvent
from retrograd.autograd.grad_mode import no_grad
from retrograd.core.jvp import jvp
from retrograd.core.record import apply
from retrograd.core.state import local, set_dual_level
from retrograd.core.tensor import Tensor, wrap

HARMED = "a tangent"
_FIRST_OF_SEVERAL = (
    "Forward mode records no path from here to the tangent: this is the first of {} births that may have reached it."
)


class TangentAnalysis(Analysis):
    """Searches for the cause of a non-finite tangent."""

    def of_tangents(self, outputs: Sequence[ndarray], tangent: ndarray) -> NaNEvent:
        """The event of the first birth since the last look, as forward mode records no graph.

        Births in values come last if the outputs are finite, otherwise first.
        """

        def is_late(birth: Birth) -> bool:
            return is_bad(list(outputs)) == (birth.is_backward or birth.pushed is not None)

        def search() -> NaNEvent | None:
            births = self.likeliest_first(sorted(self.births, key=is_late))
            found = [event for birth in births if (event := self._event(birth)) is not None]
            if len(found) > 1 and not found[0].note:
                return replace(found[0], note=_FIRST_OF_SEVERAL.format(len(found)))
            return next(iter(found), None)

        return self._found(search) or self._unknown(tangent, HARMED)

    def _event(self, birth: Birth) -> NaNEvent | None:
        if birth.pushed is not None:
            return self._pushed(birth)
        if birth.is_backward:  # of a gradient that is pushed forward
            return self.describer.backward(birth, [birth.node] if birth.node else [], harmed=HARMED)
        return self.describer.forward(birth, None, [], harmed=HARMED)

    def _pushed(self, birth: Birth) -> NaNEvent | None:
        """The event of a birth in the tangent of an operation's result; None if that turns out finite."""
        assert birth.pushed is not None
        op, bound, results, tangents = birth.pushed
        output = next(filter(is_bad, map(as_array, _unobserved(jvp, op, bound, results, tangents))), None)
        if output is None:
            return None
        index = first_not_finite(output)

        def again(values: Sequence[Any]) -> Any:
            moved = [
                wrap(value) if isinstance(old, Tensor) else value for old, value in zip(bound, values, strict=True)
            ]
            made = _unobserved(apply, op, moved)
            found = _unobserved(jvp, op, moved, [made] if isinstance(made, Tensor) else list(made), tangents)
            return next(each for each in map(as_array, found) if np.shape(each) == output.shape)

        names, data = (*op.params, *op.results[: len(results)]), data_of([*bound, *results])
        known = dict(zip(names, arrays_of(op, data), strict=False))
        operands = [known[name] for name in op.params]
        call = Call(birth.name, op, operands, birth.code, birth.at, results=[output], hidden=birth.hidden)
        surroundings = self.describer.surroundings(self.describer.operations.of_call(call, index), ())
        return NaNEvent(
            kind=kind_of(birth.kinds, output, index, None, data_of(bound), again),
            op=REVERSED.get(op.label, birth.name),
            is_backward=True,
            index=index,
            operands=at_element(in_order(op, known), index, output.shape) if is_aligned(op) else {},
            path=(birth.name,),
            harmed=HARMED,
            thread=birth.thread.name,
            note=MEANT if birth.excused else None,
            surroundings=replace(surroundings, context={**surroundings.context, "forward_mode": True}),
            **input_statistics(known.values()),
            **self.names.layer(birth.modules),
            **place_fields(birth.code, birth.at),
            **statistics(output),
        )


def _unobserved(function: Callable[..., Any], *args: Any) -> Any:
    """The result of a function of tensors, without recording, looks or tangents."""
    level, seen = set_dual_level(None), local.observer
    local.observer = None
    try:
        with np.errstate(all="ignore"), no_grad():
            return function(*args)
    finally:
        local.observer = seen
        set_dual_level(level)
