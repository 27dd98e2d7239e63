"""Functions that libraries compose from operations, recognised by the operations that they end with."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.surroundings import Operand, Operation

_LARGEST = 700.0  # exponent


def composed(operation: Operation) -> Operation:
    """The function that the user called, if an operation that gave NaN is known to end it; else the operation itself.

    ``logdet`` ends with a ``where`` that replaces the logarithm from ``slogdet`` by NaN where the determinant is
    negative. Its operand is a matrix; the determinant, ``det``, is reported in addition.

    Examples
    --------
    >>> from retrograd.anomaly.composites import composed
    >>> from retrograd.anomaly.surroundings import Operand, Operation
    >>> parts = Operation(op="linalg_slogdet", args=(Operand(name="A", leaf_name="cov"),))
    >>> end = Operation(op="where", args=(Operand(name="other", value=0.0, producer=parts),))
    >>> function = composed(end)
    >>> function.op, [(operand.name, operand.value, operand.leaf_name) for operand in function.args]
    ('logdet', [('input', None, 'cov'), ('det', -1.0, None)])
    """
    other = next((operand for operand in operation.args if operand.name == "other"), None)
    parts = None if other is None else other.producer
    if canonical(operation.op) != "where" or parts is None or canonical(parts.op) != "slogdet" or not parts.args:
        return operation
    size = other.value  # type: ignore[union-attr]
    known = -float(f"{math.exp(size):.6g}") if isinstance(size, float) and size < _LARGEST else None
    determinant = Operand(name="det", value=known)
    return replace(operation, op="logdet", args=(replace(parts.args[0], name="input"), determinant))


def known_values(operation: Operation) -> dict[str, Any]:
    """The numbers among the operands, by name, as an event reports them."""
    return {operand.name: operand.value for operand in operation.args if operand.value is not None}
