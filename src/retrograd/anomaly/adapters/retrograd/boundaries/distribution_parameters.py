"""Where a number was made that a distribution refused as a parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from retrograd.anomaly.adapters.program.failed_calls import FailedCall, Violation, kind_of
from retrograd.anomaly.adapters.program.source_location import place_fields
from retrograd.anomaly.adapters.retrograd.elements import unravelled
from retrograd.anomaly.adapters.retrograd.postmortem.analysis import Analysis
from retrograd.anomaly.adapters.retrograd.postmortem.unflagged_births import birth_in
from retrograd.anomaly.adapters.retrograd.tensor_names import Names
from retrograd.anomaly.event import NaNEvent, with_context
from retrograd.anomaly.messages import REFUSED
from retrograd.anomaly.operation_names import TRANSPARENT, canonical
from retrograd.anomaly.surroundings import Surroundings
from retrograd.core import sites
from retrograd.core.node import AccumulateGrad, Node, OpNode
from retrograd.core.tensor import Edge, Tensor


def refused_parameter(
    error: BaseException, model: Any, analysis: Callable[[Sequence[Edge], Names], Analysis]
) -> NaNEvent | None:
    """The event of a finite parameter that a distribution refused; None for any other error.

    Parameters
    ----------
    error
        The error as caught, with its traceback.
    model
        For the names of modules; None if there is none.
    analysis
        Makes an analysis for the graph behind some edges.
    """
    refused = FailedCall(error, sites.is_internal, lambda value: False)
    violation = refused.violation()
    edge = violation.value._resolve_edge() if violation and isinstance(violation.value, Tensor) else None
    if violation is None or edge is None:
        return None
    event = _made(violation, analysis([edge], Names(model, refused.frame)))
    return None if event is None else replace(event, harmed=f"{REFUSED} {type(error).__name__}")


def _made(violation: Violation, analysis: Analysis) -> NaNEvent | None:
    """The event of a refused parameter, at the operation that made it; None if that is unknown."""
    way: list[Node] = [analysis.graph.roots[0][0]]
    while isinstance(node := way[0], OpNode) and canonical(node.op.label) in TRANSPARENT and node.next[0] is not None:
        way.insert(0, node.next[0][0])
    event = _of_leaf(violation, analysis, way) if isinstance(way[0], AccumulateGrad) else None
    birth = birth_in(analysis.graph, way[0], analysis.names.result_of(way[0]))
    if event is None and birth is not None:
        at, number = None, violation.told.get("value")
        if number is not None:
            found = birth.result == np.asarray(number, birth.result.dtype)
            at = unravelled(found) if found.any() else None
        event = analysis.describer.forward(birth, way[0], way, swallowed=True, at=at)
        if event is not None and at is None:
            event = replace(event, index=None, operands={})
    if event is None:
        return None
    kind = "error" if event.op == "leaf" else kind_of(violation.told, event.op, event.operands.values())
    return with_context(replace(event, kind=kind), refused=violation.told)


def _of_leaf(violation: Violation, analysis: Analysis, way: list[Node]) -> NaNEvent:
    """The event of a leaf of the program that was passed to the distribution unchanged."""
    leaf = way[0]
    assert isinstance(leaf, AccumulateGrad)
    data = leaf.variable._data
    name = analysis.names.array(data) or "leaf"
    context = {**analysis.describer.context, "leaf": "parameter", "name": name}
    return NaNEvent(
        kind="error",
        op="leaf",
        index=violation.element,
        operands={name: violation.told.get("value")},
        path=tuple(node.name() for node in way),
        output_shape=data.shape,
        dtype=str(data.dtype),
        size=data.size,
        surroundings=Surroundings(library="retrograd", context=context),
        **place_fields(violation.code, violation.at),
    )
