"""What the user calls a tensor or a module: the name of a parameter, or of the variable that holds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.program.assignments import calls_behind
from retrograd.anomaly.adapters.program.variables import (
    entries_around,
    frames_that_name,
    local_variables,
    member_of,
    members_of,
    modules_behind,
    named_variables,
    under_way,
    variables_around,
)
from retrograd.anomaly.adapters.torch.models import adds_copies, adds_nothing
from retrograd.anomaly.adapters.torch.module_wrappers import is_usable, name_written
from retrograd.anomaly.adapters.torch.records.calls import has_nan, is_bad, node_of
from retrograd.anomaly.stack_frames import user_frames


class Names:
    """What the user calls tensors and modules.

    Parameters
    ----------
    model
        The watched model, or None.
    frame
        Where to begin to look for variables; its callers are searched as well.
    earlier
        Tensors with the names of variables that held them, and may hold others by now.
    """

    def __init__(self, model: Any, frame: FrameType | None, earlier: Iterable[tuple[str, Tensor]] = ()) -> None:
        self.frame = frame
        self.model = model if isinstance(model, torch.nn.Module) else next(_modules(frame), None)
        members = [] if self.model is None else _members(self.model)
        self._members = {id(member): name for name, member in members}
        self._by_storage = {key_of(member): name for name, member in members}
        self._earlier = {key_of(tensor): name for name, tensor in earlier}
        self._modules = {} if self.model is None else dict(_modules_named(self.model))

    def learn(self, earlier: Iterable[tuple[str, Tensor]]) -> None:
        """Remember further tensors with the names of variables that have held them."""
        for name, tensor in earlier:
            self._earlier.setdefault(key_of(tensor), name)

    def member(self, tensor: Tensor) -> str | None:
        """The name of a parameter or buffer; None if it is neither."""
        return self._members.get(id(tensor)) or self._by_storage.get(key_of(tensor))

    def is_buffer(self, name: str) -> bool:
        return self.model is not None and any(
            name == name_written(self.model, each) for each, _ in self.model.named_buffers()
        )

    def holders(self, name: str) -> Iterator[tuple[torch.nn.Module, str]]:
        """The module that has a parameter or buffer and those around that one, each with what it calls it."""
        modules, parts = {} if self.model is None else dict(self.model.named_modules()), name.split(".")
        for depth in range(len(parts)):
            module = modules.get(".".join(parts[:depth]))
            if module is not None:
                yield module, ".".join(parts[depth:])

    def is_left_by_optimizers(self, leaf: Tensor) -> bool:
        """Whether the optimizers among the variables update only other leaves, so that this one is data."""
        updated = _updated(self.frame)
        return bool(updated) and not isinstance(leaf, torch.nn.Parameter) and id(leaf) not in updated

    def tensor(self, tensor: Tensor) -> str | None:
        """The name of a parameter, a buffer or a variable; None if it has none."""
        known = self.member(tensor)
        if known is not None:
            return known
        holder = self.holder(tensor)
        if holder is not None:
            return holder[1]
        key = key_of(tensor)
        return self._earlier.get(key) or self._elsewhere.get(key) or self._entries.get(key)

    def holder(self, tensor: Tensor) -> tuple[FrameType, str] | None:
        """The running function that holds a tensor, and its name there; the program's own before a package's."""
        key = key_of(tensor)
        variables = ((frame, *each) for frame in frames_that_name(self.frame) for each in named_variables(frame))
        held = ((frame, name) for frame, name, value in variables if isinstance(value, Tensor) and key_of(value) == key)
        return next(held, None)

    @cached_property
    def _elsewhere(self) -> dict[Any, str]:
        """The names of members of other modules than the model, with the module's variable: ``"head.weight"``."""
        names: dict[Any, str] = {}
        for variable, module in variables_around(self.frame):
            if isinstance(module, torch.nn.Module) and module is not self.model:
                for name, member in members_of(module):
                    names.setdefault(key_of(member), f"{variable}.{name}")
        return names

    @cached_property
    def _entries(self) -> dict[Any, str]:
        """The names of tensors that objects among the variables keep in dictionaries: ``"batch.x"``."""
        names: dict[Any, str] = {}
        for name, value in entries_around(self.frame):
            if isinstance(value, Tensor):
                names.setdefault(key_of(value), name)
        return names

    def data(self) -> Iterator[tuple[str, Tensor]]:
        """The variables that are not finite and get no gradient; the innermost first."""
        for name, value in variables_around(self.frame):
            if isinstance(value, Tensor) and not value.requires_grad and is_bad(value):
                yield name, value

    def results(self) -> Iterator[Tensor]:
        """The results of operations with a history that the variables hold."""
        for _, value in variables_around(self.frame):
            if isinstance(value, Tensor) and node_of(value) is not None:
                yield value

    def bad_buffers(self) -> tuple[str, ...]:
        """The names of the model's buffers with numbers that are NaN."""
        if self.model is None:
            return ()
        return tuple(name_written(self.model, name) for name, buffer in self.model.named_buffers() if has_nan(buffer))

    def bad_members_behind(self, code: CodeType | None, name: str) -> tuple[str, ...]:
        """The non-finite parameters and buffers of modules that may have made a variable."""
        return tuple(
            f"{variable}.{member}"
            for variable, module in modules_behind(self.frame, code, name)
            for member, value in members_of(module)
            if is_bad(value)
        )

    def modules_called_for(self, code: CodeType | None, name: str, lineno: int | None = None) -> tuple[str, ...]:
        """The modules of which the call, or that of a method, made a variable of a running function; on a line."""
        frame = under_way(self.frame, code)
        if frame is None:
            return ()
        owners: dict[int, str] = {}
        for written in calls_behind(frame.f_code, name, lineno):
            called = member_of(frame, written)
            owner = getattr(called, "__self__", called)
            if isinstance(owner, torch.nn.Module):
                by = written if owner is called else written.rpartition(".")[0] or written
                owners.setdefault(id(owner), f"{by} ({type(owner).__name__})")
        return tuple(owners.values())

    def model_name(self) -> str | None:
        """The variable that holds the model: ``"model"``, ``"trainer.model"``; not ``self`` in its methods."""
        if self.model is None:
            return None
        return next(
            (name for name, value in variables_around(self.frame) if value is self.model and name != "self"), None
        )

    def layer(self, modules: Sequence[Any]) -> dict[str, Any]:
        """The fields of an event about the module in which something happened; ``modules`` with the innermost first."""
        if not modules:
            return {}
        fields = {"module_type": type(modules[0]).__name__}
        name = self._modules.get(modules[0])
        if name is None:
            name = next((path for module, path in _modules_named(modules[-1]) if module is modules[0]), None)
        if name:
            fields["layer_name"] = name
        return fields


def _members(model: torch.nn.Module) -> list[tuple[str, Tensor]]:
    """The parameters and buffers of a model, with the names that the program has for them."""
    return [(name_written(model, name), member) for name, member in members_of(model)]


def _modules_named(model: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, str]]:
    """The modules of a model, with the names that the program has for them."""
    return ((module, name_written(model, name)) for name, module in model.named_modules())


def key_of(tensor: Tensor) -> Any:
    """Equal for two tensors that are the same elements of the same memory."""
    try:
        if tensor.layout is torch.strided and tensor.numel() and not tensor.is_meta:
            return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype
    except Exception:  # one without memory or one shape: lazy, nested, fake, or of a class that refuses
        pass
    return id(tensor)


def _modules(frame: FrameType | None) -> Iterator[torch.nn.Module]:
    """The models among the variables of the frames, the nearest first.

    Within a frame, those that optimizers update come before copies that the program keeps of them.
    """
    for each in user_frames(frame):
        found = [value for value in local_variables(each).values() if is_usable(value)]
        updated = _updated(frame) if len(found) > 1 else set()
        largest_first = sorted(found, key=lambda module: -sum(1 for _ in module.modules()))
        alone_first = sorted(largest_first, key=lambda module: _is_around_another(module, found, updated))
        yield from sorted(alone_first, key=lambda module: updated.isdisjoint(map(id, module.parameters())))


def _updated(frame: FrameType | None) -> set[int]:
    """The ids of the parameters that the optimizers among the variables update."""
    held = (value for _, value in variables_around(frame) if isinstance(value, torch.optim.Optimizer))
    return {id(each) for optimizer in held for group in optimizer.param_groups for each in group["params"]}


def _is_around_another(module: torch.nn.Module, others: Sequence[torch.nn.Module], updated: set[int]) -> bool:
    """Whether a module wraps another one, for instance to average its weights."""
    return adds_nothing(module, others) or adds_copies(module, others, updated)
