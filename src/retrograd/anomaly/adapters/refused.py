"""NaN in what a function was given that raised an error, and the variable in which it came up first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

from retrograd.anomaly.adapters.making import made
from retrograd.anomaly.adapters.place import variables_read
from retrograd.anomaly.adapters.variables import RAISE, named_variables


class Held(NamedTuple):
    """A variable of a function, which was at some instruction."""

    name: str
    value: Any
    frame: FrameType
    at: int


class Refused:
    """What the user's innermost function gave to the one that raised an error.

    Parameters
    ----------
    error
        As it was caught, with its traceback.
    is_internal
        Says whether code is none of the user's.
    holds_nan
        Says whether a value is a tensor with NaN.
    """

    def __init__(
        self, error: BaseException, is_internal: Callable[[CodeType], bool], holds_nan: Callable[[Any], bool]
    ) -> None:
        self._holds_nan = holds_nan
        self._is_about_values = isinstance(error, (RuntimeError, ValueError))  # and not about names, types or places
        self._frames: list[tuple[FrameType, int]] = []  # the user's, the outermost first
        self._called: FrameType | None = None
        trace = error.__traceback__
        while trace is not None:
            if not is_internal(trace.tb_frame.f_code):
                self._frames.append((trace.tb_frame, trace.tb_lasti))
                self._called = None
            else:
                self._called = self._called or trace.tb_frame
            trace = trace.tb_next

    @property
    def frame(self) -> FrameType | None:
        """The user's innermost."""
        return self._frames[-1][0] if self._frames else None

    def nan(self) -> Any:
        """The first tensor with NaN among it, or else among the variables of the line; None if there is none.

        Nor is there one where the program itself has raised the error.
        """
        if not self._is_about_values or (self._called is None and self._has_raised()):
            return None
        given = [] if self._called is None else list(self._called.f_locals.values())
        for value in list(given):
            given += value if isinstance(value, (tuple, list)) else value.values() if isinstance(value, dict) else ()
        read = (each.value for each in self._read())
        return next((each for each in (*given, *read) if self._holds_nan(each)), None)

    def _has_raised(self) -> bool:
        """Whether the user's innermost function was at a ``raise`` or ``assert``."""
        return not self._frames or self._frames[-1][0].f_code.co_code[self._frames[-1][1]] == RAISE

    def _read(self) -> Iterator[Held]:
        """The variables that the line reads which called the function."""
        if self._frames:
            names = variables_read(self._frames[-1][0].f_code, self._frames[-1][1])
            yield from (each for each in self._held(-1) if each.name in names)

    def _held(self, level: int) -> list[Held]:
        """The variables with NaN of one of the user's functions."""
        frame, at = self._frames[level]
        return [Held(name, value, frame, at) for name, value in named_variables(frame) if self._holds_nan(value)]

    def first_held(self) -> Held | None:
        """The variable from which, by way of others with NaN, what was refused has been made."""
        found = next(self._read(), None)
        level = len(self._frames) - 1
        seen = []
        while found is not None:
            seen.append((level, found.name))
            behind = made(found.frame.f_code, found.name).variables
            here = (each for each in self._held(level) if each.name in behind and (level, each.name) not in seen)
            earlier = next(here, None)
            if earlier is None and level > 0:  # it was handed in, perhaps
                value = found.value
                earlier = next((each for each in self._held(level - 1) if each.value is value), None)
                level -= earlier is not None
            if earlier is None:
                break
            found = earlier
        return found
