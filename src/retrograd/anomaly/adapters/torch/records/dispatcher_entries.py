"""The dispatcher's entries: which one made a node, what its parameters are, and how to call it once more."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from string import digits
from typing import Any

import torch

from retrograd.anomaly.adapters.torch.records.calls import Argument

# Tensor parameters that get no gradient, so that a node has no edge for them.
WITHOUT_EDGE = frozenset(
    (
        *("condition", "mask", "index", "indices", "target", "targets"),
        *("input_lengths", "target_lengths", "running_mean", "running_var"),
    )
)
_NO_PARAMETERS = re.compile(r"_sym_|^(?:result|output)\d*$|total_weight|source_dim")  # saved by nodes in addition


def entry_of(node: Any, saved: Iterable[str]) -> Any:
    """The dispatcher's entry that made a node: the one with its name whose tensors match the edges and whose other
    parameters match what was saved."""
    stem = stem_of(node).replace("_", "").lower()
    saved = {name for name in saved if not re.search(_NO_PARAMETERS, name)}
    edges = len(node.next_functions)
    for name in _entries().get(stem, []) + _entries().get(f"{stem}forward", []):
        packet = getattr(torch.ops.aten, name)
        for overload in (getattr(packet, each) for each in packet.overloads()):
            parameters = overload._schema.arguments
            known = {each.name for each in (*parameters, *overload._schema.returns)}
            if overload._schema.is_mutable or not saved <= known:
                continue
            tensors = with_edge(overload, edges)
            several = any(is_list(each) and each.name not in WITHOUT_EDGE for each in parameters)
            needed = [each for each in tensors if is_needed(each)]
            if several or len(needed) <= edges <= len(tensors):
                return overload
    return None


def stem_of(node: Any) -> str:
    """The operation's part of a node's name: ``"Tanh"``, or ``"TanhBackward"`` for the node of a derivative."""
    stem, _, rest = node.name().rpartition("Backward")  # "DiagonalBackward0_copy" has a suffix
    return stem + rest.lstrip(digits)


def writing_entry(name: str, edges: int) -> Any:
    """The dispatcher's entry for a pointwise operation in place, by the name of its method and its node's edges."""
    packet = getattr(torch.ops.aten, name, None)
    for overload in () if packet is None else (getattr(packet, each) for each in packet.overloads()):
        tensors = with_edge(overload, edges)
        fits = len([each for each in tensors if is_needed(each)]) <= edges <= len(tensors)
        if fits and overload._schema.is_mutable and torch.Tag.pointwise in overload.tags:
            return overload
    return None


def arguments_for(overload: Any, given: Iterable[Argument]) -> dict[str, Any]:
    """The keyword arguments with which to call an entry of the dispatcher in order to repeat a call."""
    values: dict[str, Any] = {}
    lists: dict[str, list[Any]] = {}
    for argument in given:
        name, is_item, _ = argument.name.partition("[")
        if is_item:
            lists.setdefault(name, []).append(argument.value)
        else:
            values["self" if name == "input" else name] = argument.value
    values |= lists
    parameters = {each.name: each for each in overload._schema.arguments}
    if "input" in parameters and "self" in values and "self" not in parameters:
        values["input"] = values.pop("self")
    for name, value in values.items():
        if isinstance(value, float) and _is_tensor(parameters[name]):
            values[name] = torch.scalar_tensor(value)
    return values


def with_edge(overload: Any, edges: int) -> list[Any]:
    """The tensor parameters that may get a gradient; a target only if there are enough edges."""
    tensors = [each for each in overload._schema.arguments if _is_tensor(each)]
    found = [each for each in tensors if each.name not in WITHOUT_EDGE]
    for_target = sum(map(is_needed, found)) < edges
    return [each for each in tensors if each in found or (each.name == "target" and for_target)]


def is_needed(parameter: Any) -> bool:
    """Whether a parameter is mandatory."""
    return not parameter.has_default_value() and not str(parameter.type).startswith("Optional[")


def _is_tensor(parameter: Any) -> bool:
    return str(parameter.type) in ("Tensor", "Optional[Tensor]")


def is_list(parameter: Any) -> bool:
    return str(parameter.type).startswith("List[") and "Tensor" in str(parameter.type)


@functools.cache
def _entries() -> dict[str, list[str]]:
    """The names of the dispatcher's entries by their form in nodes' names: lower case, without underscores."""
    found: dict[str, list[str]] = {}
    full = (name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    for name in sorted({each.removeprefix("aten::") for each in full}, key=lambda each: (each.startswith("_"), each)):
        found.setdefault(name.replace("_", "").lower(), []).append(name)
    return found
