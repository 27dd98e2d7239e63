"""Writes to a part of a tensor: ``y[:2].sqrt_()``.

torch gives ``y`` a node that extracts the part's gradient from that of ``y``, lets the operation's node work on it, and
puts the result in its place. It does not expose the node inside, which is recreated here by the same operation on a
copy of its argument; nor the part, which the program's line may tell.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from retrograd.anomaly.adapters.program.literals import written_in_place
from retrograd.anomaly.adapters.torch.postmortem.recomputed_lines import variables_of, worth
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, bad
from retrograd.anomaly.adapters.torch.records.dispatcher_entries import arguments_for


def writes_to_part(node: Any) -> bool:
    """Whether a node is that of a tensor, one of whose views was written to."""
    return bool(node.name().endswith("CopySlices"))


class Part:
    """A part of a tensor.

    Parameters
    ----------
    view
        The part, as a view.
    base
        The tensor.
    """

    def __init__(self, view: Tensor, base: Tensor) -> None:
        self._whole = base.size(), base.stride()
        self._part = view.size(), view.stride(), view.storage_offset() - base.storage_offset()

    @classmethod
    def written(cls, view: Any, base: Any, shape: Sequence[int]) -> Part | None:
        """The part that an operation has written to, if it is a view of a base with the given shape."""
        if not isinstance(view, Tensor) or not isinstance(base, Tensor) or view.layout is not torch.strided:
            return None
        is_view = list(base.shape) == list(shape) and view.untyped_storage()._cdata == base.untyped_storage()._cdata
        return cls(view, base) if is_view and torch.ops.aten.is_non_overlapping_and_dense(base) else None

    def of(self, whole: Any) -> Tensor | None:
        """The same part of another tensor, such as its gradient; None if unknown."""
        if not isinstance(whole, Tensor) or whole.layout is not torch.strided:
            return None
        return self._laid_out(whole).as_strided(*self._part)

    def put(self, part: Tensor, whole: Tensor) -> Tensor:
        """A copy of a tensor with this part of it replaced."""
        made = self._laid_out(whole)
        made.as_strided(*self._part).copy_(part)
        return made

    def holds(self, where: Tensor) -> bool:
        """Whether all true elements of a boolean tensor lie in this part."""
        within = self.of(where)
        return within is not None and int(within.sum()) == int(where.sum())

    def _laid_out(self, whole: Tensor) -> Tensor:
        return torch.empty_strided(*self._whole, dtype=whole.dtype, device=whole.device).copy_(whole.detach())


# --- the operation once more ------------------------------------------------------------------------------------------


def written_by(write: Call) -> Tensor | None:
    """The result of an in-place operation, recomputed; None if not all its arguments are known."""
    entry = _entry(write.name)
    if entry is None or any(map(_is_unknown, write.args)):
        return None
    given = [replace(each) for each in write.args]
    try:
        with torch.no_grad():
            given[0].value = given[0].value.clone()
            entry(**arguments_for(entry, given))
    except Exception:
        return None
    return given[0].value


def node_within(write: Call) -> Any:
    """A node like that of an in-place operation; None if there is none, or it cannot be recreated."""
    entry = _entry(write.name)
    if entry is None:
        return None
    given = [_alone(each) for each in write.args]
    try:
        with torch.enable_grad():
            given[0].value = given[0].value.requires_grad_().clone()
            entry(**arguments_for(entry, given))
    except Exception:  # arguments that were not kept, or a tensor without derivatives
        return None
    return given[0].value.grad_fn


def _entry(name: str) -> Any:
    """The dispatcher's entry named by a call, if it computes something and draws no random numbers."""
    with contextlib.suppress(AttributeError, ValueError):
        library, packet, overload = name.split(".")
        entry = getattr(getattr(getattr(torch.ops, library), packet), overload)
        return None if packet == "copy_" or torch.Tag.nondeterministic_seeded in entry.tags else entry
    return None


def _alone(argument: Argument) -> Argument:
    """A detached argument, which gets a gradient if the original did."""
    tensor = argument.tensor
    if tensor is None:
        return replace(argument)
    return replace(argument, value=tensor.detach().requires_grad_(tensor.requires_grad))


def _is_unknown(argument: Argument) -> bool:
    return argument.value is None and (argument.missing or argument.made_by is not None)


# --- what the line tells ----------------------------------------------------------------------------------------------


def certain_part(call: Call, frame: FrameType | None, shape: Sequence[int]) -> Part | None:
    """The part that a line writes to, if it is the same on every run: a variable indexed by literal numbers.

    Parameters
    ----------
    call
        Of the line.
    frame
        Where to begin to look for its function.
    shape
        Of the tensor.
    """
    base, part = _part_on_line(call, frame, shape)
    return part if base is not None and base._base is None else None


def _part_on_line(call: Call, frame: FrameType | None, shape: Sequence[int]) -> tuple[Tensor | None, Part | None]:
    """A variable, and the part of it, or of its base, that a line would write to if it ran now."""
    found = written_in_place(call.code, call.at)
    variables = variables_of(frame, call.code)
    names = [] if found is None else [each.id for each in ast.walk(found[1]) if isinstance(each, ast.Name)]
    variable = variables.get(names[0]) if len(names) == 1 else None  # an index variable may have changed
    if found is None or not isinstance(variable, Tensor):
        return None, None
    base = variable if variable._base is None else variable._base
    return variable, Part.written(worth(found[1], variables), base, shape)


def work_on_line(
    node: Any, call: Call, made: Sequence[Any], arrived: Sequence[Any], frame: FrameType | None
) -> Call | None:
    """The work in backward of the node inside another one, as far as the line tells; None if it tells nothing.

    If it does not tell the part, the whole tensor is reported, and of the other operands only numbers.

    Parameters
    ----------
    node, call
        The tensor's node, and its record as a call.
    made, arrived
        The node's outgoing and incoming gradients.
    frame
        Where to begin to look for the function of the line.
    """
    write = next((each.made_by for each in call.args if each.name == "part"), None)
    wrong = bad(made[0])
    if write is None or wrong is None:
        return None
    _, part = _part_on_line(call, frame, node._input_metadata[0].shape)
    if part is not None and part.holds(wrong):
        write.args[0].value = part.of(call.args[0].value)
        made, arrived = [part.of(made[0]), *made[1:]], [part.of(arrived[0])]
    else:
        write.args[0].value = call.args[0].value
        for each in write.args[1:]:
            each.value = each.value if each.tensor is None or each.tensor.numel() == 1 else None
    hidden = node_within(replace(write, args=[_stand_in(each) for each in write.args]))
    if hidden is None:
        return None
    return replace(
        write,
        name=hidden.name(),
        args=[Argument("grad", arrived[0])],
        outputs=list(made),
        order=write.order + 1,
        forward=write,
        is_backward=True,
    )


def _stand_in(argument: Argument) -> Argument:
    """An argument for an operation of which only the node's name is needed."""
    has_number = argument.tensor is not None or _is_unknown(argument)
    return replace(argument, value=torch.ones((), requires_grad=True)) if has_number else argument
