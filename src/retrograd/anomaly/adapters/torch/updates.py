"""Optimizers whose ``eps`` is zero, or rounded to it: finite gradients give them a step of 0/0."""

from __future__ import annotations

import copy
import inspect
import sys
import weakref
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.place import place_fields
from retrograd.anomaly.adapters.torch.calls import is_bad
from retrograd.anomaly.adapters.torch.describe import first_of, statistics, value_at
from retrograd.anomaly.adapters.torch.frames import is_internal, user_frame
from retrograd.anomaly.adapters.torch.gradients import kind_of
from retrograd.anomaly.adapters.torch.names import Names
from retrograd.anomaly.adapters.variables import construction_of
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.half import vanishes
from retrograd.anomaly.monitor import Watch, expected
from retrograd.anomaly.surroundings import Operand, Operation, Surroundings


class Divisions:
    """Looks at what such optimizers have made of the weights, and puts these back where the policy asks for it.

    Weights and state are copied before each of their steps; all other optimizers are left alone.

    Parameters
    ----------
    watch
        Whose policies hold.
    context
        Gives what is known of the training beyond operations.
    """

    def __init__(self, watch: Watch, context: Callable[[], dict[str, Any]]) -> None:
        self._watch = watch
        self._context = context
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._handles: list[Any] = []
        self._kept: dict[Any, tuple[list[tuple[Tensor, Tensor]], dict[Any, Any]]] = {}

    def see(self, optimizer: Any) -> None:
        """Called with the optimizer that steps, where it is another than before."""
        if optimizer in self._seen:
            return
        self._seen.add(optimizer)
        if _may_divide_by_zero(optimizer):
            self._handles.append(optimizer.register_step_pre_hook(self._before))
            self._handles.append(optimizer.register_step_post_hook(self._after))

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles, self._kept = [], {}
        self._seen.clear()

    @torch.no_grad()
    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        weights = [(each, each.detach().clone()) for group in optimizer.param_groups for each in group["params"]]
        state = {param: copy.deepcopy(known) for param, known in optimizer.state.items()}
        self._kept[id(optimizer)] = weights, state

    @torch.no_grad()
    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        weights, state = self._kept.pop(id(optimizer), ([], {}))
        spoilt = [(param, before) for param, before in weights if is_bad(param) and not is_bad(before)]
        kind = kind_of(param for param, _ in spoilt)
        if not spoilt or expected.depth or not self._watch.listens_to(kind):
            return
        withheld = True
        try:
            withheld = self._watch.found(kind, self._event(optimizer, *spoilt[0]), exact=True) == "withhold"
        finally:
            if withheld:
                for param, before in weights:
                    param.copy_(before)
                optimizer.state.clear()
                optimizer.state.update(state)

    def _event(self, optimizer: Any, param: Tensor, before: Tensor) -> NaNEvent:
        frame = user_frame(sys._getframe(1))
        name = Names(self._watch.model, frame).tensor(param) or f"a leaf of shape {list(param.shape)}"
        group = next(each for each in optimizer.param_groups if any(param is own for own in each["params"]))
        place = {} if frame is None else place_fields(frame.f_code, frame.f_lasti)
        index = first_of(None, param)
        known = {"param": before, "grad": param.grad, "lr": group.get("lr"), "eps": group["eps"]}
        numbers = {key: value_at(value, index, param.shape) for key, value in known.items()}
        operands = {key: value for key, value in numbers.items() if value is not None}
        dtype = str(param.dtype).removeprefix("torch.")
        operation = Operation(
            op="div",
            args=tuple(Operand(name=key, value=value, dtype=dtype) for key, value in operands.items()),
            code_line=place.get("code_line"),
            lineno=place.get("lineno"),
        )
        return NaNEvent(
            kind="invalid" if kind_of([param]) == "nan" else "divide",
            op="div",
            index=index,
            operands=operands,
            harmed=f"the update of {name}",
            layer_name=name.rpartition(".")[0] or None,
            surroundings=Surroundings(
                operation=operation,
                library="torch",
                context={
                    **self._context(),
                    "optimizer": described(optimizer, frame) | settings_of(optimizer, group) | {"updating": True},
                },
            ),
            **place,
            **statistics(param),
        )


def settings_of(optimizer: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The name of an optimizer and its options, for the context of an event."""
    plain = {key: value for key, value in options.items() if isinstance(value, (int, float, bool, tuple))}
    step = getattr(inspect.unwrap(type(optimizer).step), "__code__", None)
    own = {"own": True} if step is not None and not is_internal(step) else {}
    return {"name": type(optimizer).__name__, **plain, **own}


def described(optimizer: Any, frame: FrameType | None) -> dict[str, Any]:
    """An optimizer with the options that it has now, which a schedule changes, and the line that made it."""
    settings = settings_of(optimizer, (optimizer.param_groups or [optimizer.defaults])[0])
    made = None if frame is None else construction_of(frame, optimizer)
    return settings if made is None else settings | {"code_line": made[0], "lineno": made[1]}


def _may_divide_by_zero(optimizer: Any) -> bool:
    """Whether the ``eps`` that it adds to a denominator is zero in the type of a parameter."""
    for group in optimizer.param_groups:
        eps = group.get("eps")
        half = any(each.dtype is torch.float16 for each in group["params"])
        if isinstance(eps, (int, float)) and vanishes(eps, half):
            return True
    return False
