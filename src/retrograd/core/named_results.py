"""Several results under names, like torch's ``return_types``."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

# The classes in retrograd.return_types, so that results can be pickled.
kinds: dict[str, NamedResults] = {}


class NamedResults:
    """Makes the named tuples that the operation ``name`` returns from its results."""

    def __init__(self, name: str, fields: Sequence[str]) -> None:
        self.name = name
        self.fields = fields
        kinds[name] = self

    @cached_property
    def type(self) -> Any:
        """Their class; made when first needed, because making one takes long."""
        length = len(self.fields)
        members = {
            "__slots__": (),
            "__new__": _new,
            "__repr__": _show,
            "__module__": _MODULE,
            "n_fields": length,
            "n_sequence_fields": length,
            "n_unnamed_fields": 0,
        }
        # the full name appears in errors of operators that cannot take the result
        kind = _Kind(f"{_MODULE}.{self.name}", (namedtuple(self.name, self.fields),), members)
        kind.__qualname__ = self.name
        return kind

    def __call__(self, results: Iterable[Any]) -> Any:
        return self.type._make(results)


_MODULE = "retrograd.return_types"


class _Kind(type):
    """The metaclass, through which programs see the short name of a class."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        return cls.__qualname__


def _new(cls: Any, *results: Any) -> Any:
    """Several results, given one by one as to named tuples, or in one sequence."""
    given = tuple(results[0]) if len(results) == 1 and isinstance(results[0], Iterable) else results
    if len(given) != cls.n_fields:
        raise TypeError(
            f"{_MODULE}.{cls.__name__}() takes a {cls.n_fields}-sequence ({len(given)}-sequence given): "
            f"{', '.join(cls._fields)}"
        )
    return tuple.__new__(cls, given)


def _show(results: Any) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(results._fields, results, strict=True))
    return f"{_MODULE}.{type(results).__name__}(\n{fields})"
