"""Which plain values a parameter takes, read off its annotation."""

from __future__ import annotations

import functools
import operator
from typing import Any, NamedTuple

import numpy as np

from retrograd.array_methods import ArrayMethods
from retrograd.core.errors import wrong_element, wrong_kind
from retrograd.core.tensor import wrap

# The classes that annotations name, with those of the values that count as one: a bool is no int, as in torch.
_NAMED: dict[str, frozenset[type]] = {
    "bool": frozenset((bool,)),
    "int": frozenset((int,)),
    "float": frozenset((float, int, bool)),
    "complex": frozenset((complex, float, int, bool)),
}

# Classes of values that are certainly not tensors and hold none.
PLAIN = frozenset((int, float, complex, bool, str, type(None)))

_ABSENT = frozenset((type(None),))
_ANY_NUMBER = _NAMED["complex"]

# Unions that are written by a name.
_ALIASES = {
    "Dims": "int | Sequence[int] | None",
    "IntOrInts": "int | Sequence[int]",
    "Lengths": "int | Sequence[int] | None",
}
_SEVERAL, _TENSORS = "Sequence[int]", frozenset(("Tensor", "TensorOrArray"))


def holds_only_ints(values: Any) -> bool:
    for value in values:  # noqa: SIM110 (a loop is the fastest for a few)
        if type(value) is not int:
            return False
    return True


class Kind(NamedTuple):
    """The plain values that a parameter takes.

    Attributes
    ----------
    types
        The classes of those that fit as they are.
    word
        What a value must be, for errors.
    several
        Whether a sequence of integers fits, too.
    tensors
        Whether a tensor fits, too.
    """

    types: frozenset[type]
    word: str
    several: bool
    tensors: bool

    def takes(self, value: Any) -> bool:
        """Whether a value fits as it is."""
        kind = type(value)
        return kind in self.types or (self.several and (kind is tuple or kind is list) and holds_only_ints(value))

    @property
    def is_number(self) -> bool:
        """Whether it is one number, which may come as NumPy's or in a tensor without dimensions."""
        return not self.several and int in self.types

    def in_tensor(self, function: str, argument: str, data: np.ndarray) -> Any:
        """The value that was given as a tensor with these elements; the array itself where a tensor fits."""
        if data.size == 1 and (self.several or (self.is_number and not data.ndim)):
            number = data.item()
            if self.several and type(number) is bool:  # even where a bool by itself fits: torch takes this for 0 or 1
                raise wrong_kind(function, argument, self.word, number)
            return self.checked(function, argument, number)
        if self.tensors:
            return data
        expected = f"{self.word} or a sequence of ints" if self.several else self.word
        raise wrong_kind(function, argument, expected, wrap(data))

    def checked(self, function: str, argument: str, value: Any) -> Any:
        """The value, as Python's number if it is NumPy's.

        Parameters
        ----------
        argument
            Which one it is, in words: ``"argument 'dim' (position 2)"``.

        Raises
        ------
        TypeError
            If the parameter does not take it.
        """
        if isinstance(value, (np.generic, np.ndarray)) and not value.ndim and value.dtype.kind in "biufc":
            value = value.item()
        kind = type(value)
        if kind in self.types or isinstance(value, ArrayMethods):
            return value
        if kind not in _ANY_NUMBER and value is not None and not isinstance(value, str):
            if self.several and isinstance(value, (list, tuple)):
                return self._with_ints(function, argument, value)
            if self.several or self.tensors:
                return value
            if int in self.types and hasattr(value, "__index__") and not hasattr(value, "dtype"):
                return operator.index(value)
        raise wrong_kind(function, argument, self.word, value)

    def _with_ints(self, function: str, argument: str, values: Any) -> Any:
        for place, value in enumerate(values):
            if type(value) is not int and isinstance(value, (bool, np.bool_, float, np.inexact, complex, str)):
                if len(values) == 1:  # x.flip(True) arrives as (True,)
                    raise wrong_kind(function, argument, self.word, value)
                raise wrong_element(function, argument, place, value)
        return values


@functools.cache
def kind_of(annotation: str) -> Kind | None:
    """The kind of a parameter with this annotation; None if it takes anything but numbers and sequences of integers."""
    parts = _ALIASES.get(annotation, annotation).split(" | ")
    named = [part for part in parts if part in _NAMED]
    others = {part for part in parts if part not in _NAMED} - {"None"}
    if len(named) > 1 or not others <= {_SEVERAL, *_TENSORS} or not (named or _SEVERAL in others):
        return None
    types = frozenset().union(*[_NAMED[part] for part in named], _ABSENT if "None" in parts else ())
    word = "a number" if named == ["complex"] else named[0] if named else "int"
    return Kind(types, word, _SEVERAL in others, not others.isdisjoint(_TENSORS))
