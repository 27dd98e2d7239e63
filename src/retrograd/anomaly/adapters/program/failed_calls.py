"""Bad numbers in the arguments of a function that raised, and the variable in which a NaN came up first."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any, NamedTuple

from retrograd.anomaly.adapters.program.assignments import made
from retrograd.anomaly.adapters.program.source_location import line_fields, place_fields, variables_read, written_at
from retrograd.anomaly.adapters.program.variables import RAISE, named_variables
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.stack_frames import is_between, is_own, trace_of

_ABOUT_OTHERS = (AttributeError, ImportError, LookupError, NameError, OSError, SyntaxError, TypeError)  # not values


class Held(NamedTuple):
    """A variable of a running function, with the instruction that the function was at."""

    name: str
    value: Any
    frame: FrameType
    at: int


class Violation(NamedTuple):
    """A parameter of a distribution that violates its constraint.

    Attributes
    ----------
    value
        The parameter as the distribution holds it, broadcast.
    element
        The index of the first refused element; None for a scalar, or if whole vectors or matrices are refused.
    told
        The distribution, the parameter and the constraint, for the context of an event: see
        :class:`~retrograd.anomaly.surroundings.Surroundings`.
    code, at
        The user's instruction that constructed the distribution.
    """

    value: Any
    element: tuple[int, ...] | None
    told: dict[str, Any]
    code: CodeType
    at: int


class FailedCall:
    """The arguments that the user's innermost function passed to the one that raised an error.

    Parameters
    ----------
    error
        The caught error, with its traceback.
    is_internal
        Tells whether code is internal, not the user's.
    holds_nan
        Tells whether a value is a tensor with NaN.
    caught
        The error that was finally caught, if ``error`` is one that it was raised from.
    """

    def __init__(
        self,
        error: BaseException,
        is_internal: Callable[[CodeType], bool],
        holds_nan: Callable[[Any], bool],
        caught: BaseException | None = None,
    ) -> None:
        self._holds_nan = holds_nan
        self._is_about_values = isinstance(error, Exception) and not isinstance(error, _ABOUT_OTHERS)
        self._frames: list[tuple[FrameType, int]] = []  # the user's, outermost first
        self._called: list[FrameType] = []  # internal ones called by the user's innermost, outermost first
        self._innermost: FrameType | None = None
        for each in trace_of(error, caught):
            self._innermost = each.tb_frame
            if not is_internal(each.tb_frame.f_code):
                self._frames.append((each.tb_frame, each.tb_lasti))
                self._called = []
            else:
                self._called.append(each.tb_frame)
        if not self._called and self._has_raised():
            self._leave_out_packages()

    def _leave_out_packages(self) -> None:
        """If an installed package raised the error itself, count its frames as called by the program's own code."""
        own = max((number for number, (frame, _) in enumerate(self._frames) if is_own(frame.f_code)), default=None)
        if own is not None:
            self._called = [frame for frame, _ in self._frames[own + 1 :]]
            del self._frames[own + 1 :]

    @property
    def frame(self) -> FrameType | None:
        """The user's innermost frame."""
        return self._frames[-1][0] if self._frames else None

    def nan(self) -> Any:
        """The first tensor with NaN among the arguments, or else among the line's variables; None if there is none.

        None, too, if the program raised the error itself.
        """
        if not self._is_about_values or (not self._called and self._has_raised()):
            return None
        given = arguments_in(self._called[0] if self._called else None)
        read = (each.value for each in self._read())
        deeper = (frame for frame in reversed(self._called[1:]) if not is_between(frame.f_code))  # of packages
        inside = (each for frame in deeper for each in arguments_in(frame))
        return next((each for each in (*given, *read, *inside) if self._holds_nan(each)), None)

    def violation(self) -> Violation | None:
        """The parameter that a distribution has refused; None if the error is about something else."""
        known = {} if self._innermost is None or not self._called else dict(self._innermost.f_locals)
        constraint, owner, value = (known.get(name) for name in ("constraint", "self", "value"))  # in both libraries
        if not self._is_about_values or not self._frames or not hasattr(constraint, "check"):
            return None
        if value is None or not hasattr(type(owner), "arg_constraints") or not hasattr(value, "detach"):
            return None
        frame, at = self._making(type(owner).__name__)
        name = str(known.get("param") or known.get("name"))
        values, valid = value.detach(), known["valid"].detach()
        element = None
        if valid.shape == values.shape and values.ndim:
            element = tuple(int(place) for place in (~valid).nonzero()[0])
        told: dict[str, Any] = {"parameter": name, "by": type(owner).__name__, "constraint": repr(constraint)}
        if values.numel() == 1 or element is not None:
            told["value"] = values.reshape(-1)[0].item() if element is None else values[element].item()
        call = place_fields(frame.f_code, at)
        told |= line_fields(call)
        told["text"] = _text_given(written_at(frame.f_code, at), type(owner), name)
        return Violation(value, element, told, frame.f_code, at)

    def _making(self, kind: str) -> tuple[FrameType, int]:
        """The frame and instruction of the call that constructs this class, or else the user's innermost."""
        for frame, at in reversed(self._frames):
            call = written_at(frame.f_code, at)
            if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == kind:
                return frame, at
        return self._frames[-1]

    def _has_raised(self) -> bool:
        """Whether the user's innermost function was at a ``raise`` or ``assert``."""
        return not self._frames or self._frames[-1][0].f_code.co_code[self._frames[-1][1]] == RAISE

    def _read(self, level: int = -1) -> Iterator[Held]:
        """The variables with NaN that the calling line reads in the user's innermost function, or one further out."""
        if self._frames:
            names = variables_read(self._frames[level][0].f_code, self._frames[level][1])
            yield from (each for each in self._held(level) if each.name in names)

    def _levels(self) -> Iterator[int]:
        """The levels of the user's functions to examine: from the innermost to the first of the program's own."""
        for level in range(len(self._frames) - 1, -1, -1):
            yield level
            if is_own(self._frames[level][0].f_code):
                return

    def _held(self, level: int) -> list[Held]:
        """The variables with NaN of one of the user's functions."""
        frame, at = self._frames[level]
        return [Held(name, value, frame, at) for name, value in named_variables(frame) if self._holds_nan(value)]

    def _handed_in(self, level: int, value: Any) -> tuple[int, Held | None]:
        """The next outer level at which a function of the program's own holds a value, and the variable for it."""
        for outer in range(level - 1, -1, -1):
            if is_own(self._frames[outer][0].f_code):
                held = next((each for each in self._held(outer) if each.value is value), None)
                if held is not None:
                    return outer, held
        return level, None

    def first_held(self) -> Held | None:
        """The earliest variable with NaN from which the refused value was made, via others with NaN."""
        level, found = next(((level, each) for level in self._levels() for each in self._read(level)), (0, None))
        seen = []
        while found is not None:
            seen.append((level, found.name))
            behind = made(found.frame.f_code, found.name).variables
            here = (each for each in self._held(level) if each.name in behind and (level, each.name) not in seen)
            earlier = next(here, None)
            if earlier is None:  # perhaps it was passed in, possibly through packages
                level, earlier = self._handed_in(level, found.value)
            if earlier is None:
                break
            found = earlier
        return found


def arguments_in(called: FrameType | None) -> list[Any]:
    """The arguments of a function, as far as its variables tell, and the items of lists and dictionaries among them."""
    given = [] if called is None else list(called.f_locals.values())
    for value in list(given):
        given += value if isinstance(value, (tuple, list)) else value.values() if isinstance(value, dict) else ()
    return given


_UNDERFLOW = ("div", "exp", "exp2", "mul", "pow", "prod", "sigmoid", "softmax", "softplus", "square")


def kind_of(told: Mapping[str, Any], op: str, operands: Iterable[Any]) -> str:
    """Why a number was refused: "underflow" if an operation rounded it to zero, else "error"."""
    is_rounded = told.get("value") == 0 and canonical(op) in _UNDERFLOW and all(each != 0 for each in operands)
    return "underflow" if is_rounded else "error"


def _text_given(call: ast.expr | None, owner: type, name: str) -> str | None:
    """How the argument for a parameter is written in the call that makes a distribution."""
    if not isinstance(call, ast.Call):
        return None
    keywords = {each.arg: each.value for each in call.keywords}
    parameters = list(inspect.signature(owner).parameters)
    place = parameters.index(name) if name in parameters else len(call.args)
    given = keywords.get(name) or (call.args[place] if place < len(call.args) else None)
    return None if given is None else ast.unparse(given)
