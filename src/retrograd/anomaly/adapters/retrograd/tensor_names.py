"""What the user calls a tensor: the name of a parameter, or of the variable that holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from types import FrameType
from typing import Any

from numpy import ndarray

from retrograd.anomaly.adapters.program.variables import (
    frames_that_name,
    members_of,
    modules_behind,
    named_variables,
    variables_around,
)
from retrograd.anomaly.adapters.retrograd.births import as_array
from retrograd.anomaly.adapters.retrograd.elements import holds_nan, is_bad
from retrograd.anomaly.stack_frames import is_own, user_frames
from retrograd.core.tensor import Tensor
from retrograd.nn import Module
from retrograd.nn.parameter import is_lazy


class Names:
    """What the user calls tensors and modules.

    Parameters
    ----------
    model
        The watched model, or None.
    frame
        Where to begin to look for variables; its callers are searched as well.
    """

    def __init__(self, model: Any, frame: FrameType | None) -> None:
        self.frame = frame
        self._model = model
        self._parameters: dict[int, str] = {}
        self._held: list[_Held] = []  # of the frames that were looked at so far
        if model is not None:
            self._parameters = {id(member._data): name for name, member in _members(model)}

    def array(self, array: Any) -> str | None:
        """The name of the tensor with these elements; None if it has none."""
        known = self._parameters.get(id(array))
        if known is None:
            known = next(filter(None, (held.name(array) for held in self._frames_held())), None)
        return known

    def _frames_held(self) -> Iterator[_Held]:
        """What the frames hold, each looked at when first asked for."""
        for number, frame in enumerate(frames_that_name(self.frame)):
            if number == len(self._held):
                self._held.append(_Held(frame))
            yield self._held[number]

    def holders(self, array: Any) -> Iterator[tuple[FrameType, str]]:
        """The functions that hold the tensor with these elements, from the innermost outwards, and its name there."""
        for frame in self._frames():
            for name, value in named_variables(frame):
                if _data_of(value) is array:
                    yield frame, name

    def holder(self, array: Any) -> tuple[FrameType, str] | None:
        """The running function that holds these elements, and their name; the program's own before a package's."""
        return min(self.holders(array), key=lambda each: not is_own(each[0].f_code), default=None)

    def is_plain(self, array: Any) -> bool:
        """Whether a variable holds the array itself, not a tensor with it."""
        return any(value is array for _, value in self._variables())

    def is_state(self, array: ndarray) -> bool:
        """Whether these are the elements of a parameter or buffer of a module."""
        return any(member._data is array for module in self._modules() for _, member in _members(module))

    def bad_buffers(self) -> tuple[str, ...]:
        """The names of the buffers of models with numbers that are NaN."""
        buffers = (each for module in self._modules() for each in module.named_buffers())
        return tuple(dict.fromkeys(name for name, buffer in buffers if not is_lazy(buffer) and holds_nan(buffer._data)))

    def are_evaluated(self) -> bool:
        """Whether there are models to be trained, and all are in evaluation mode."""
        trained = [each for each in self._modules() if any(weight.requires_grad for weight in each.parameters())]
        return bool(trained) and not any(each.training for each in trained)

    def nan_in_state(self) -> Iterator[tuple[str, ndarray]]:
        """The parameters and buffers of models that hold NaN, with which of both they are."""
        for module in self._modules():
            for role, members in (("parameter", module.parameters()), ("buffer", module.buffers())):
                arrays = (as_array(each) for each in members if not is_lazy(each))
                yield from ((role, array) for array in arrays if holds_nan(array))

    def bad_members_behind(self, array: ndarray) -> tuple[str, ...]:
        """The non-finite parameters and buffers of modules that may have made an array."""
        frame, name = next(self.holders(array), (None, ""))
        modules = () if frame is None else modules_behind(frame, frame.f_code, name)
        return tuple(name for module in modules for name, _ in bad_members(*module))

    def _frames(self) -> Iterator[FrameType]:
        """The user's frames, from the innermost outwards."""
        return user_frames(self.frame)

    def _variables(self) -> Iterator[tuple[str, Any]]:
        return variables_around(self.frame)

    def _modules(self, called: Sequence[Any] = ()) -> Iterator[Any]:
        """The watched model, those that are being called, and those among the variables of the program."""
        if self._model is not None:
            yield self._model
        yield from called
        yield from (value for _, value in self._variables() if _is_module(value))

    def model_name(self) -> str | None:
        """The variable that holds the model: ``"model"``, ``"trainer.model"``; not ``self`` in its methods."""
        found = [(name, value) for name, value in self._variables() if _is_module(value)]
        known = self._model
        if known is None:
            known = max((value for _, value in found), key=_modules_in, default=None)
        return next((name for name, value in found if value is known and name != "self"), None)

    def data(self) -> Iterator[tuple[str, ndarray]]:
        """The non-finite arrays without a gradient, with the innermost variables first."""
        for name, value in self._variables():
            array = as_array(value) if is_data(value) else None
            if isinstance(array, ndarray) and is_bad(array):
                yield name, array

    def result_of(self, node: Any) -> ndarray | None:
        """The only result of a node, if a variable holds it."""
        for _, value in self._variables():
            edge = value._resolve_edge() if isinstance(value, Tensor) and value.requires_grad else None
            if edge is not None and edge[0] is node and node.outputs == 1:
                return value._data
        return None

    def layer(self, modules: Sequence[Any]) -> dict[str, Any]:
        """The fields of an event about the module in which something happened; ``modules`` with the innermost first."""
        if not modules:
            return {}
        fields = {"module_type": type(modules[0]).__name__}
        for root in self._modules(called=modules[-1:]):
            name = next((name for name, module in root.named_modules() if module is modules[0]), None)
            if name:
                return {**fields, "layer_name": name}
        return fields


class _Held:
    """The names of the arrays in a frame, read once, as there are many lookups and the stack may be deep.

    It keeps none of these arrays alive.
    """

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame
        self._plain: dict[int, str] = {}
        self._parts: dict[int, str] = {}
        for name, value in named_variables(frame):
            known = self._plain if name.isidentifier() else self._parts
            known.setdefault(id(_data_of(value)), name)

    @cached_property
    def _members(self) -> dict[int, str]:
        """The parameters and buffers of the modules among the variables."""
        found: dict[int, str] = {}
        for _, module in named_variables(self._frame):
            if _is_module(module):
                for name, member in _members(module):
                    found.setdefault(id(member._data), name)
        return found

    def name(self, array: Any) -> str | None:
        """The name of a variable, or else of a module's member or a part of a variable; None if there is none."""
        key = id(array)
        return self._plain.get(key) or self._members.get(key) or self._parts.get(key)


def _is_module(value: Any) -> bool:
    """Whether it is one of our modules and its constructor has run."""
    return isinstance(value, Module) and "_modules" in vars(value)


def bad_members(variable: str, model: Any) -> Iterator[tuple[str, ndarray]]:
    """The parameters and buffers of a module that are not finite, named after the variable that holds it."""
    for name, member in _members(model):
        array = as_array(member)
        if isinstance(array, ndarray) and is_bad(array):
            yield f"{variable}.{name}", array


def _members(module: Any) -> list[tuple[str, Any]]:
    """The named parameters and buffers of a module, except those of lazy layers that were not called yet."""
    return [(name, member) for name, member in members_of(module) if not is_lazy(member)]


def _modules_in(model: Any) -> int:
    return sum(1 for _ in model.named_modules())


def _data_of(value: Any) -> Any:
    """The array of a tensor, None for one without elements yet, and anything else itself."""
    if not isinstance(value, Tensor):
        return value
    return None if is_lazy(value) else value._data


def is_data(value: Any) -> bool:
    """Whether it has numbers but gets no gradient."""
    if isinstance(value, Tensor):
        return not value.requires_grad and not is_lazy(value)
    return isinstance(value, ndarray)
