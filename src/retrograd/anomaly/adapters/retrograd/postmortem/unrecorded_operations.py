"""Which operation made an array without a gradient, if no graph tells.

The flags report every birth, also one without a gradient, but not what became of it. That is read from the program: a
variable was made by the lines that assigned it, and a birth in one of these is attributed to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.program.assignments import made, statement_at
from retrograd.anomaly.adapters.program.source_location import variables_read, written_at
from retrograd.anomaly.adapters.program.variables import modules_behind, named_variables
from retrograd.anomaly.adapters.retrograd.births import Birth, as_array
from retrograd.anomaly.adapters.retrograd.elements import holds_nan, is_bad
from retrograd.anomaly.adapters.retrograd.postmortem.describe import result_of
from retrograd.anomaly.adapters.retrograd.tensor_names import Names, bad_members, is_data
from retrograd.anomaly.event import NaNEvent
from retrograd.core import sites


class Maker(NamedTuple):
    """A birth from which an array was made, what its lines made, whether they wrote to it, and in an earlier step."""

    birth: Birth
    name: str
    is_written: bool = False
    is_earlier: bool = False

    @property
    def note(self) -> str:
        """A note on how that is known."""
        if self.birth.is_of_arrays:
            return _MADE_OF_ARRAYS.format(self.name)
        return (_WRITTEN if self.is_written else _MADE_BEFORE if self.is_earlier else _MADE).format(self.name)


_MADE = (
    "It was computed without a gradient, so its history was not recorded; this is the first such number born in the "
    "lines that made {}. "
)
_MADE_OF_ARRAYS = (
    "NumPy computed it from plain arrays, which have no history; this is the last such number born in the lines that "
    "made {}. "
)
_WRITTEN = "It was written to {}, which is called in the lines that made the number that came in here. "
_MADE_BEFORE = (
    "It was computed without a gradient in an earlier step, so its history was not recorded; this is the last such "
    "number born in the lines that made {}. "
)


def is_of_arrays(event: NaNEvent) -> bool:
    """Whether it is about the program's own NumPy code."""
    return event.surroundings is not None and event.surroundings.library == "numpy"


def explains(birth: Birth, data: ndarray) -> bool:
    """Whether data may have been made from a birth: an infinity may become NaN, but a NaN no infinity."""
    result = result_of(birth)
    return result is not None and (is_bad(result) if holds_nan(data) else bool(np.isinf(result).any()))


def maker_of(
    data: ndarray,
    user: tuple[CodeType | None, int],
    births: Sequence[Birth],
    names: Names,
    before: Sequence[Birth] = (),
) -> Maker | None:
    """The first birth in the lines that made an array, or that was written to a module which these lines call.

    Parameters
    ----------
    user
        Where the array was used: what it was made from there may have no name.
    births
        The earlier births whose results are not finite.
    before
        The births of earlier steps, which count if none of ``births`` made it.
    """
    found = _maker_among(data, user, births, names)
    if found is None and before:
        earlier = [birth for birth in before if explains(birth, data)]
        equal = [birth for birth in earlier if is_equal(result_of(birth), data)]
        found = _maker_among(data, user, [*equal, *earlier], names)
        return None if found is None else found._replace(is_earlier=True)
    return found


def _maker_among(
    data: ndarray, user: tuple[CodeType | None, int], births: Sequence[Birth], names: Names
) -> Maker | None:
    holders = list(names.holders(data))
    if holders:
        return _maker(holders, data, births, names, [])
    code, at = user
    if code is None:
        return None
    birth = _first(births, code, _lines_behind(code, at))
    return None if birth is None else Maker(birth, f"what line {sites.line_of(code, at)} is given")


def is_ruled_out(birth: Birth, user: tuple[CodeType | None, int]) -> bool:
    """Whether a birth was in lines of a function that made nothing of what is read at a given place in it."""
    code, at = user
    if code is None or written_at(code, at) is None or all(of is not code for of, _ in birth.places):
        return False
    return _first([birth], code, _lines_behind(code, at)) is None


def _lines_behind(code: CodeType, at: int) -> set[int]:
    """The lines of a function that made what is read at a given place in it, and those of the statement there."""
    lines = set(statement_at(code, sites.line_of(code, at)))
    for name in variables_read(code, at):
        lines |= made(code, name).lines
    return lines


def _maker(
    holders: Sequence[tuple[FrameType, str]], data: ndarray, births: Sequence[Birth], names: Names, seen: list[ndarray]
) -> Maker | None:
    """The same for an array that variables hold; None if a variable that it was made from came in bad."""
    seen.append(data)
    found = None
    for frame, name in holders:
        how = made(frame.f_code, name)
        for each in _data_in(frame, how.variables):
            if is_bad(each) and not any(each is other for other in seen):
                its = _maker(list(names.holders(each)), each, births, names, seen)
                if its is None:
                    return None
                found = found or its
        written = _writer(modules_behind(frame, frame.f_code, name), births)
        birth = _first(births, frame.f_code, how.lines)
        if written is not None and next(each for each in births if each in (written.birth, birth)) is written.birth:
            return written
        if birth is not None:
            return Maker(birth, name)
    return found


def _writer(modules: Iterator[tuple[str, Any]], births: Sequence[Birth]) -> Maker | None:
    """The first birth whose result was written to a parameter or buffer of one of some modules."""
    for name, member in (each for module in modules for each in bad_members(*module)):
        for birth in births:
            result = result_of(birth)
            if result is member or (is_bad(result) and same_places(result, member)):  # type: ignore[arg-type]
                return Maker(birth, name, is_written=True)
    return None


def same_places(one: ndarray, other: ndarray) -> bool:
    """Whether two arrays are of one shape and not finite in the same places."""
    return one.shape == other.shape and np.array_equal(np.isfinite(one), np.isfinite(other))


def is_equal(one: ndarray | None, other: ndarray) -> bool:
    """Whether two arrays hold the same numbers."""
    return one is not None and one.shape == other.shape and np.array_equal(one, other, equal_nan=True)


def _data_in(frame: FrameType, wanted: frozenset[str]) -> Iterator[ndarray]:
    """The arrays without a gradient among some variables of a frame."""
    for name, value in named_variables(frame):
        array = as_array(value) if name in wanted and is_data(value) else None
        if isinstance(array, ndarray):
            yield array


def _first(births: Sequence[Birth], code: CodeType, lines: Any) -> Birth | None:
    """The first birth in some lines of a function, or in functions called there."""
    return next(
        (birth for birth in births if any(of is code and sites.line_of(of, at) in lines for of, at in birth.places)),
        None,
    )
