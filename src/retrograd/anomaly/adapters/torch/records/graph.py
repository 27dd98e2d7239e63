"""The graph behind a loss as calls: what its nodes saved, and what can be recomputed from that."""

from __future__ import annotations

import contextlib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch.utils.checkpoint import CheckpointError, CheckpointFunction

from retrograd.anomaly.adapters.program.literals import written_in_place
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, has_inf, has_nan, is_given_back, seq_of
from retrograd.anomaly.adapters.torch.records.dispatcher_entries import (
    WITHOUT_EDGE,
    arguments_for,
    entry_of,
    is_list,
    is_needed,
    stem_of,
    with_edge,
    writing_entry,
)
from retrograd.anomaly.adapters.torch.records.number_arguments import read_numbers
from retrograd.anomaly.adapters.torch.records.partial_writes import certain_part, writes_to_part, written_by
from retrograd.anomaly.adapters.torch.records.saved_tensor_hooks import may_be_read
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.stack_frames import Position, is_between

SiteOf = Callable[[float], tuple[Position, ...]]

_SIDE_EFFECTS = ("dropout", "bernoulli", "rrelu", "multinomial")
_OF_NO_INFLUENCE = {"momentum": 0.0}  # they do not affect the result


def nodes_behind(roots: Iterable[Any]) -> list[Any]:
    """The nodes reachable from some nodes by backward, in the order of creation, leaves first.

    Up to version 2.12, torch keeps only a shell of a user's Function's node once its result is gone; it is left out,
    as it cannot be queried any more.
    """
    seen = {root: None for root in roots if root is not None}  # in a fixed order, which a set has not
    stack = list(seen)
    while stack:
        node = stack.pop()
        try:
            edges = node.next_functions
        except RuntimeError:
            del seen[node]
            continue
        for following, _ in edges:
            if following is not None and following not in seen:
                seen[following] = None
                stack.append(following)
    return sorted(seen, key=seq_of)


def nodes_made(returned: Sequence[Any], outputs: Sequence[Any], grads: Sequence[Any] = (), *args: Any) -> list[Any]:
    """The nodes that a backward pass from ``outputs`` has made and that lead to what it has returned."""
    before = set(nodes_behind(_makers((*outputs, *grads))))
    return [each for each in nodes_behind(_makers(returned)) if each not in before and not hasattr(each, "variable")]


def _makers(tensors: Iterable[Any]) -> Iterator[Any]:
    """The nodes that made tensors, at the levels of the surrounding transforms and of the program."""
    for each in tensors:
        while isinstance(each, Tensor):
            yield each.grad_fn
            each = get_unwrapped(each) if is_functorch_wrapped_tensor(each) else None


def leaves_behind(roots: Iterable[Tensor]) -> list[Tensor]:
    """The leaves that would get a gradient in a backward pass from some tensors."""
    return [node.variable for node in nodes_behind(root.grad_fn for root in roots) if hasattr(node, "variable")]


def read(
    roots: Sequence[Tensor], site_of: SiteOf, held: Iterable[Tensor] = (), frame: FrameType | None = None
) -> list[tuple[Call, int]]:
    """Turn the graph behind some tensors into calls, and return those that made the tensors.

    Parameters
    ----------
    roots
        Tensors with a history that has not been freed.
    site_of
        Maps a sequence number to the place where the operation was called: the user's instruction, and the program's
        callers of it.
    held
        Other available results, such as those in the program's variables. One that was written to may differ by now
        from what its node made, and is left out; so is one with infinities and no NaN, which may be due to a mask
        whose number has not been kept.
    frame
        Where to begin to look for variables whose numbers have not been kept.
    """
    nodes = {node: saved_by(node) for node in nodes_behind([root.grad_fn for root in roots])}
    known = {(each.grad_fn, each.output_nr): each.detach() for each in held if _tells(each)}
    known |= {(root.grad_fn, root.output_nr): root.detach() for root in roots}
    calls = calls_of(nodes, known, site_of, frame)
    return [(calls[root.grad_fn], root.output_nr) for root in roots if root.grad_fn in calls]


def _tells(held: Tensor) -> bool:
    return held._version == 0 and (has_nan(held) or not has_inf(held))


def calls_of(
    nodes: Mapping[Any, dict[str, Any]],
    known: Mapping[tuple[Any, int], Tensor],
    site_of: SiteOf,
    frame: FrameType | None = None,
) -> dict[Any, Call]:
    """Turn some nodes of a graph into calls.

    Parameters
    ----------
    nodes
        In the order of creation, with their saved values.
    known
        The available results of nodes.
    site_of
        Maps a sequence number to the place where the operation was called.
    frame
        Where to begin to look for variables whose numbers have not been kept.
    """
    calls: dict[Any, Call] = {}
    overloads: dict[Call, Any] = {}
    for node, saved in nodes.items():
        if hasattr(node, "variable"):
            continue
        overload = entry_of(node, saved)
        call = calls[node] = _call(node, saved, overload, calls, site_of)
        overloads[call] = overload
    for (node, output), value in known.items():
        if node in calls:
            calls[node].outputs[output] = value
    for node, call in calls.items():
        _take_over(call)
        _note_number(call)
        read_numbers(call, frame)
        if writes_to_part(node):
            _write(node, call, calls, frame)
        elif not call.known:
            _compute(node, call, overloads[call])
    return calls


def _write(node: Any, call: Call, calls: dict[Any, Call], frame: FrameType | None) -> None:
    """The write to a part of a tensor, as a call of its own, if the line tells the operation."""
    found = written_in_place(call.code, call.at)
    entry = None if found is None else writing_entry(found[0], len(node.next_functions))
    if found is None or entry is None:
        return
    arguments = list(_arguments(node, {}, entry, calls))
    write = replace(call, name=str(entry), args=arguments, outputs=[None], node=None)
    _take_over(write)
    read_numbers(write, frame)
    whole, part = arguments[0].value, certain_part(call, frame, node._input_metadata[0].shape)
    if part is not None:
        arguments[0].value, write.pointwise = part.of(whole), True
        write.outputs[0] = result = written_by(write)
        call.outputs[0] = None if result is None else part.put(result, whole)
    before = Argument("input", whole, arguments[0].made_by, arguments[0].output, arguments[0].leaf)
    call.args = [before, Argument("part", write.outputs[0], write)]


def _call(node: Any, saved: dict[str, Any], overload: Any, calls: dict[Any, Call], site_of: SiteOf) -> Call:
    """The record of a node; results of earlier nodes that it saved become known."""
    arguments = list(_arguments(node, saved, overload, calls))
    outputs: list[Any] = [_empty(meta) for meta in node._input_metadata] or [None]
    of_derivative = "Backward" in stem_of(node)  # which also saves the operation's values under such names
    for name, value in saved.items():
        place = None if of_derivative else re.fullmatch(r"(?:result|output)(\d*)", name)
        if place and isinstance(value, Tensor) and int(place[1] or 0) < len(outputs):
            outputs[int(place[1] or 0)] = value
    seq = seq_of(node)
    site = site_of(seq)
    call = Call(
        node.name(),
        arguments,
        outputs,
        seq,
        pointwise=overload is not None and torch.Tag.pointwise in overload.tags,
        seq=seq,
        entry=overload,
        node=node,
    )
    body = body_of(node, "forward") if is_python(node) else None
    inside = () if body is None or is_between(body[0]) else (body,)  # a Function of the user's own
    position, *callers = site or inside or (None,)
    if position is not None:
        (call.code, call.at), call.callers = position, tuple(callers)
        call.applied = position if inside else None
    with contextlib.suppress(Exception):  # nested tensors have no shape
        call.shape = tuple(node._input_metadata[0].shape)
    for argument in arguments:
        if argument.made_by is not None and argument.value is not None:
            argument.made_by.outputs[argument.output] = argument.value
    return call


def _empty(meta: Any) -> Tensor | None:
    """A result without elements, which is completely known by its shape and type."""
    return torch.empty(meta.shape, dtype=meta.dtype) if 0 in meta.shape else None


def _arguments(node: Any, saved: dict[str, Any], overload: Any, calls: dict[Any, Call]) -> Iterator[Argument]:
    edges = list(enumerate(node.next_functions))
    if overload is None:
        for number, edge in edges:
            yield _argument(f"args[{number}]", None, number, edge, calls)
        return
    differentiable = {parameter.name for parameter in with_edge(overload, len(edges))}
    for parameter in overload._schema.arguments:
        name = "input" if parameter.name == "self" else parameter.name
        value = saved.get(parameter.name)
        if is_list(parameter) and parameter.name not in WITHOUT_EDGE:
            for number, edge in edges:
                yield _argument(f"{name}[{number}]", None, number, edge, calls)
        elif parameter.name in differentiable and edges:
            argument = _argument(name, value, *edges.pop(0), calls)
            argument.missing &= is_needed(parameter)  # a layer's missing bias is none, or trainable
            yield argument
        else:
            given = _given(parameter, value, node)
            yield Argument(name, given, missing=given is None and is_needed(parameter))


def _argument(name: str, value: Any, number: int, edge: Any, calls: dict[Any, Call]) -> Argument:
    source, nr = edge
    if source is None:
        return Argument(name, value, missing=value is None, edge=number)
    if hasattr(source, "variable"):
        leaf = source.variable
        if value is None and not is_given_back(leaf):
            value = leaf.detach()
        return Argument(name, value, leaf=leaf, missing=value is None, edge=number)
    made_by = calls.get(source)
    return Argument(name, value, made_by, nr, missing=value is None and made_by is None, edge=number)


def _given(parameter: Any, value: Any, node: Any) -> Any:
    """A plain argument: saved by the node, derived from the result's shape and type, or the default."""
    if value is not None:
        return value
    meta = node._input_metadata[0]
    if parameter.name in ("size", "shape"):
        return list(meta.shape)
    if parameter.name == "dtype":
        return meta.dtype
    if parameter.name in _OF_NO_INFLUENCE:
        return _OF_NO_INFLUENCE[parameter.name]
    return parameter.default_value if parameter.has_default_value() else None


def _take_over(call: Call) -> None:
    for argument in call.args:
        if argument.value is None and argument.made_by is not None:
            argument.value = argument.made_by.outputs[argument.output]


def _note_number(call: Call) -> None:
    """``logdet`` ends with a choice between what ``slogdet`` gave and NaN, a number that nothing keeps."""
    given = {argument.name: argument for argument in call.args}
    if canonical(call.name) == "where" and given["input"].missing:
        source = given["other"].made_by
        if source is not None and canonical(source.name) == "slogdet":
            given["input"].value, given["input"].missing = math.nan, False


def _compute(node: Any, call: Call, overload: Any) -> None:
    """Compute the operation once more, if all its arguments are known."""
    if overload is None or any(word in str(overload) for word in _SIDE_EFFECTS):
        return
    if any(each.missing or (each.value is None and each.made_by is not None) for each in call.args):
        return
    values = arguments_for(overload, call.args)
    if values.get("training"):  # it would write to running statistics
        values |= {name: None for name in ("running_mean", "running_var") if name in values}
    try:
        with torch.no_grad():
            result = overload(**values)
    except Exception:
        return
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    for nr, meta in enumerate(node._input_metadata):
        fits = nr < len(results) and isinstance(results[nr], Tensor) and list(results[nr].shape) == list(meta.shape)
        if fits and results[nr].dtype == meta.dtype and call.outputs[nr] is None:
            call.outputs[nr] = results[nr]


def is_python(node: Any) -> bool:
    """Whether a node is the backward of a user's Function."""
    return isinstance(node, torch.autograd.function.BackwardCFunction)


def is_checkpoint(node: Any) -> bool:
    """Whether a node is that of a reentrant checkpoint, whose function runs without a graph."""
    return is_python(node) and type(node)._forward_cls is CheckpointFunction


def body_of(node: Any, name: str) -> tuple[CodeType, int] | None:
    """The first instruction in the body of a method of the Function of a node."""
    code = getattr(inspect.unwrap(getattr(type(node)._forward_cls, name)), "__code__", None)
    if code is None:
        return None
    below = (start for start, _, line in code.co_lines() if line is not None and line > code.co_firstlineno)
    return code, next(below, 0)


def saved_by(node: Any, unpacked: bool = True) -> dict[str, Any]:
    """The values a node saved, by parameter name, except those freed or overwritten since.

    Parameters
    ----------
    node
        The node.
    unpacked
        Whether to call torch's own hooks for values that they packed, such as a checkpoint's, which recomputes them
        and may draw random numbers. The program's hooks are never called, as they may work only once.
    """
    return with_numbers(node, tensors_saved_by(node, unpacked))


def tensors_saved_by(node: Any, unpacked: bool = True) -> dict[str, Any]:
    """The tensors that a node saved, which backward frees."""
    found: dict[str, Any] = {}
    if is_python(node):
        with contextlib.suppress(Exception):
            if all(may_be_read(node, raw, unpacked) for raw in node._raw_saved_tensors):
                found = {f"saved_tensors[{number}]": each for number, each in enumerate(node.saved_tensors)}
        return found
    for name, attribute, raw in _saved_attributes(type(node))[0]:
        try:
            value = getattr(node, attribute) if may_be_read(node, getattr(node, raw), unpacked) else None
        except Exception:  # freed, or overwritten, or a hook failed
            continue
        if value is not None and not (isinstance(value, Tensor) and is_given_back(value)):
            found[name] = _signed(value)
    return found


def may_be_called(node: Any) -> bool:
    """Whether a node can run without calling saved-tensor hooks or the user's code."""
    return not is_python(node) and all(
        may_be_read(node, getattr(node, raw), unpacked=False) for _, _, raw in _saved_attributes(type(node))[0]
    )


def spent(node: Any) -> list[str]:
    """The names of saved tensors that torch's own hooks return only once."""
    if is_python(node):
        return []
    found = []
    for name, attribute, raw in _saved_attributes(type(node))[0]:
        with contextlib.suppress(RuntimeError):  # freed
            if may_be_read(node, getattr(node, raw), unpacked=True):
                try:
                    getattr(node, attribute)
                except CheckpointError:
                    found.append(name)
    return found


def with_numbers(node: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """All values a node saved: its tensors, and its numbers, which are never freed."""
    if is_python(node):
        return tensors
    found = dict(tensors)
    for name, attribute in _saved_attributes(type(node))[1]:
        with contextlib.suppress(Exception):
            if (value := getattr(node, attribute)) is not None:
                found[name] = _signed(value)
    return dict(sorted(found.items()))


_Attributes = tuple[list[tuple[str, str, str]], list[tuple[str, str]]]
_attributes: dict[type, _Attributes] = {}  # for torch's own types of nodes


def _saved_attributes(kind: type) -> _Attributes:
    """The saved values of such nodes by name, with the attributes: tensors, with the raw ones, and all others."""
    known = _attributes.get(kind)
    if known is None:
        members = frozenset(dir(kind))
        saved = sorted(name for name in members if name.startswith("_saved_"))
        names = [(name.removeprefix("_saved_"), name, f"_raw{name}") for name in saved]
        tensors = [each for each in names if each[2] in members]
        known = _attributes[kind] = tensors, [(name, attribute) for name, attribute, raw in names if raw not in members]
    return known


def _signed(value: Any) -> Any:
    """Convert a negative number that arrived as an unsigned one of 64 bits."""
    if isinstance(value, tuple):
        return [_signed(item) for item in value]
    return value - (1 << 64) if type(value) is int and value >= 1 << 63 else value
