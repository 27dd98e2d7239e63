"""NumPy's floating-point flags as events: the processor says when a NaN or an infinity is born, at no cost.

IEEE 754 raises *invalid*, *divide by zero* or *overflow* exactly when an operation makes a NaN or an infinity from
ordinary numbers, and stays silent while one passes through. NumPy reads these flags after every inner loop. In the
error state made here it tells us then, synchronously, inside the operation: the stack has everything.

Of NumPy's modes, "call" tells the flag and "log" the name of the function. So we are called where the user would be
called, and written to otherwise, and can say word for word what NumPy would have said without us.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType
from typing import Any

import numpy as np

# NumPy's words for the flags, and its keywords for the error state.
KINDS = {
    "invalid value": "invalid",
    "divide by zero": "divide",
    "overflow": "overflow",
    "underflow": "underflow",
}
_KEYWORDS = {"invalid": "invalid", "divide": "divide", "overflow": "over", "underflow": "under"}
_MESSAGE = re.compile(rf"Warning: (({'|'.join(KINDS)}) encountered(?: in (?:scalar )?(\w+))?.*?)\n?", re.DOTALL)

OnFlag = Callable[[str, FrameType, str], bool]


class _Listener:
    """What NumPy calls or writes to; ``user`` and ``user_call`` are the error state of before."""

    def __init__(self, flags: Flags, user: Mapping[str, str], user_call: Any) -> None:
        self.flags = flags
        self.user = user
        self.user_call = user_call
        modes = {keyword: user[keyword] for keyword in map(_KEYWORDS.__getitem__, flags.kinds)}
        # the error state in which it is told
        self.state: dict[str, Any] = {keyword: "call" if mode == "call" else "log" for keyword, mode in modes.items()}

    def __call__(self, error: str, flag: int) -> None:
        if not self.flags.on_flag(KINDS[error], sys._getframe(1), "") and self.user_call is not None:
            self.user_call(error, flag)

    def write(self, line: str) -> None:
        found = _MESSAGE.fullmatch(line)
        kind = KINDS[found[2]]  # type: ignore[index]
        if self.flags.on_flag(kind, sys._getframe(1), found[3] or ""):  # type: ignore[index]
            return
        mode, message = self.user[_KEYWORDS[kind]], found[1]  # type: ignore[index]
        if mode == "raise":
            raise FloatingPointError(message)
        if mode == "warn":
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        elif mode == "print":
            sys.stderr.write(line)
        elif mode == "log" and self.user_call is not None:
            self.user_call.write(line)


class Flags:
    """Has ``on_flag(kind, frame, function)`` called when a flag is raised, in the operation's own stack.

    Where it returns False, the flag was raised by code that is none of our business; then what would have happened
    without us happens: a warning, an exception, a call, or nothing, as the user's own error state says.

    Parameters
    ----------
    on_flag
        Gets the kind ("invalid", "divide", "overflow", "underflow"), the frame that called the NumPy function, and the
        name of that function, such as "divide"; "" if NumPy does not tell it.
    underflow
        Whether to listen to underflow as well.

    Attributes
    ----------
    errstate
        Makes a context in which flags are reported, and nothing but reported.
    """

    def __init__(self, on_flag: OnFlag, underflow: bool = False) -> None:
        self.on_flag = on_flag
        self.kinds = ("invalid", "divide", "overflow", *(("underflow",) if underflow else ()))
        self._before: tuple[Any, Any] = np.geterr(), np.geterrcall()
        self._everywhere = _Listener(self, *_as_the_user_set_it(*self._before))
        # in backward, NumPy's complaints are off as far as the user is concerned
        self._within = _Listener(self, dict.fromkeys(_KEYWORDS.values(), "ignore"), None)
        self.errstate = partial(np.errstate, call=self._within, **self._within.state)

    def set_in_this_thread(self) -> None:
        """Listen from now on in a thread that has an error state of its own, as every new thread has."""
        np.seterrcall(self._everywhere)
        np.seterr(**self._everywhere.state)

    @staticmethod
    def are_listened_to() -> bool:
        """Whether somebody listens in this thread."""
        return isinstance(np.geterrcall(), _Listener)

    def restore(self) -> None:
        """Stop listening in this thread, unless somebody has set another error state since."""
        if np.geterrcall() is self._everywhere:
            state, call = self._before
            np.seterr(**state)
            np.seterrcall(call)  # in the end: what was interrupted before is done again

    def replace_outer(self, outer: Flags) -> None:
        """Put back what ``outer`` would put back, which was in use before and is no more."""
        if self._before[1] is outer._everywhere:
            self._before = outer._before


def _as_the_user_set_it(state: Any, call: Any) -> tuple[Mapping[str, str], Any]:
    """An error state without the listener that is in it, if there is one."""
    if not isinstance(call, _Listener):
        return state, call
    user = {keyword: call.user[keyword] if mode == call.state.get(keyword) else mode for keyword, mode in state.items()}
    return user, call.user_call
