"""What the user calls a tensor: the name of a parameter, or of the variable that holds it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from retrograd.core import sites
from retrograd.core.tensor import Tensor

_MOST = 200  # items of a container that are looked through


class Names:
    """What the user calls tensors and modules.

    Parameters
    ----------
    model
        The watched model, or None.
    frame
        Where to begin to look for variables; the frames around it are searched as well.
    """

    def __init__(self, model: Any, frame: FrameType | None) -> None:
        self._frame = frame
        self._model = model
        self._parameters: dict[int, str] = {}
        if model is not None:
            members = [*model.named_parameters(), *model.named_buffers()]
            self._parameters = {id(member._data): name for name, member in members}

    def array(self, array: Any) -> str | None:
        """The name of the tensor with these elements; None if it has none."""
        known = self._parameters.get(id(array))
        frame = self._frame
        while known is None and frame is not None:
            if not sites.is_internal(frame.f_code):
                known = next((name for name, value in _named(frame) if _is_it(value, array)), None)
            frame = frame.f_back
        return known

    def layer(self, modules: Sequence[Any]) -> dict[str, Any]:
        """The fields of an event about the module in which something happened; ``modules`` with the innermost first."""
        if not modules:
            return {}
        fields = {"module_type": type(modules[0]).__name__}
        for root in self._roots(modules):
            name = next((name for name, module in root.named_modules() if module is modules[0]), None)
            if name:
                return {**fields, "layer_name": name}
        return fields

    def _roots(self, modules: Sequence[Any]) -> Iterator[Any]:
        """What a module may be a part of: the watched model, the outermost one called, the variables of the program."""
        if self._model is not None:
            yield self._model
        yield modules[-1]
        frame = self._frame
        while frame is not None:
            if not sites.is_internal(frame.f_code):
                yield from (value for _, value in _named(frame) if hasattr(type(value), "named_modules"))
            frame = frame.f_back


def _is_it(value: Any, array: Any) -> bool:
    data = value._data if isinstance(value, Tensor) else value
    return data is array


def _named(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """The variables of a frame, then what lies in the lists, dictionaries and objects among them."""
    variables = _locals(frame)
    if frame.f_code.co_name != "<module>":
        variables |= {
            name: frame.f_globals[name]
            for name in frame.f_code.co_names
            if name in frame.f_globals and name not in variables
        }
    yield from variables.items()
    for name, value in variables.items():
        if isinstance(value, (list, tuple)):
            for position, item in enumerate(value[:_MOST]):
                yield f"{name}[{position}]", item
        elif isinstance(value, dict):
            for key in list(value)[:_MOST]:
                if isinstance(key, (str, int)):
                    yield f"{name}[{key!r}]", value[key]
        elif type(value).__module__ not in ("builtins", "numpy") and not isinstance(value, (type, Tensor)):
            for key, item in list(getattr(value, "__dict__", {}).items())[:_MOST]:
                yield f"{name}.{key}", item


def _locals(frame: FrameType) -> dict[str, Any]:
    """The local variables of a frame, without leaving a second reference to each of them behind.

    Before Python 3.13 a function's frame keeps the dictionary that it makes of its variables, and with it what was in
    them; it is emptied here, unless somebody else holds it, who called ``locals()``.
    """
    variables = frame.f_locals
    found = dict(variables)
    of_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if of_function and type(variables) is dict and sys.getrefcount(variables) <= _FRAME_AND_HERE:
        variables.clear()
    return found


_FRAME_AND_HERE = 3  # references to a dictionary that nobody else holds: the frame's, ours, the argument's
