"""Several results under names, as torch's ``return_types``."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

# What retrograd.return_types knows, so that results can be pickled: classes by name, and the operations
# that make theirs only when they return the first.
kinds: dict[str, Any] = {}
with_named_results: list[Any] = []


def named_results(name: str, fields: Sequence[str]) -> Any:
    """Make the class of the named tuples that an operation called ``name`` returns."""
    kind: Any = namedtuple(name, fields, module="retrograd.return_types")  # type: ignore[misc]
    kind.__name__ = f"retrograd.return_types.{name}"  # what an operator that cannot take it complains about
    kind.__repr__ = _show  # type: ignore[method-assign]
    kinds[name] = kind
    return kind


def _show(results: Any) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(results._fields, results, strict=True))
    return f"{type(results).__name__}(\n{fields})"
