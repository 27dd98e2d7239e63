"""NumPy's floating-point flags as events: the processor says when a NaN or an infinity is born, at no cost.

IEEE 754 raises *invalid*, *divide by zero* or *overflow* exactly when an operation makes a NaN or an infinity from
ordinary numbers, and stays silent while one passes through. NumPy reads these flags after every inner loop. In the
error state made here it then notifies us synchronously, inside the operation, so the stack holds all we need.

NumPy's mode "call" reports the flag, its mode "log" the name of the function. So we use "call" where the user does, and
"log" otherwise, and can reproduce word for word what NumPy would have said without us.
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
    """What NumPy calls or writes to; ``user`` and ``user_call`` are the previous error state."""

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

    If it returns False, the flag was raised by code that we do not observe; then the same happens as would have
    without us: a warning, an exception, a call, or nothing, according to the user's own error state.

    Parameters
    ----------
    on_flag
        Gets the kind ("invalid", "divide", "overflow", "underflow"), the frame that called the NumPy function, and the
        name of that function, such as "divide"; "" if NumPy does not report it.
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
        # in backward, the user sees none of NumPy's warnings
        self._within = _Listener(self, dict.fromkeys(_KEYWORDS.values(), "ignore"), None)
        self.errstate = partial(np.errstate, call=self._within, **self._within.state)

    def set_in_this_thread(self) -> None:
        """Start listening in this thread, which has its own error state, as every new thread does."""
        np.seterrcall(self._everywhere)
        np.seterr(**self._everywhere.state)

    @staticmethod
    def are_listened_to() -> bool:
        """Whether somebody listens in this thread."""
        return isinstance(np.geterrcall(), _Listener)

    def restore(self) -> None:
        """Stop listening in this thread, unless another error state has been set since."""
        if np.geterrcall() is self._everywhere:
            state, call = self._before
            np.seterr(**state)
            np.seterrcall(call)  # last: if interrupted before this, everything is done again

    def replace_outer(self, outer: Flags) -> None:
        """Restore on exit what ``outer``, used before and no longer in use, would have restored."""
        if self._before[1] is outer._everywhere:
            self._before = outer._before


def _as_the_user_set_it(state: Any, call: Any) -> tuple[Mapping[str, str], Any]:
    """An error state without the listener that is in it, if there is one."""
    if not isinstance(call, _Listener):
        return state, call
    user = {keyword: call.user[keyword] if mode == call.state.get(keyword) else mode for keyword, mode in state.items()}
    return user, call.user_call
