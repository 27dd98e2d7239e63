"""Several results under names, as torch's ``return_types``."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

# What retrograd.return_types knows, so that results can be pickled.
kinds: dict[str, NamedResults] = {}


class NamedResults:
    """What makes the named tuples that an operation called ``name`` returns, of its results."""

    def __init__(self, name: str, fields: Sequence[str]) -> None:
        self.name = name
        self.fields = fields
        kinds[name] = self

    @cached_property
    def type(self) -> Any:
        """Their class; made when first needed, because making one takes long."""
        kind: Any = namedtuple(self.name, self.fields, module="retrograd.return_types")  # type: ignore[misc]
        kind.__name__ = f"retrograd.return_types.{self.name}"  # what an operator that cannot take it complains about
        kind.__repr__ = _show  # type: ignore[method-assign]
        return kind

    def __call__(self, results: Iterable[Any]) -> Any:
        return self.type._make(results)


def _show(results: Any) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(results._fields, results, strict=True))
    return f"{type(results).__name__}(\n{fields})"
