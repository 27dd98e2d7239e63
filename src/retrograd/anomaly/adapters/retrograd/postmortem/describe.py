"""Describing a birth for an event: the element, its operands, and the surrounding operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from retrograd.anomaly.adapters.elements.channels import works_by_channel
from retrograd.anomaly.adapters.elements.extent import extent
from retrograd.anomaly.adapters.program.source_location import assignment_of, is_in_branch, line_fields, place_fields
from retrograd.anomaly.adapters.program.variables import taken_of
from retrograd.anomaly.adapters.retrograd.births import ADDITION, Birth, arrays_of, as_array, ran_by
from retrograd.anomaly.adapters.retrograd.elements import (
    UNKNOWN,
    at_element,
    first_bad,
    first_lost,
    first_not_finite,
    input_statistics,
    is_bad,
    kind_of,
    named,
    statistics,
    underflows,
    unravelled,
    value_at,
)
from retrograd.anomaly.adapters.retrograd.postmortem.element_propagation import ElementPropagation
from retrograd.anomaly.adapters.retrograd.postmortem.graph import Graph, entry_of, evaluate, raw
from retrograd.anomaly.adapters.retrograd.postmortem.operations import Index, Operations
from retrograd.anomaly.adapters.retrograd.postmortem.source import (
    REVERSED,
    assignment_of_number,
    operation_written_at,
    text_given,
)
from retrograd.anomaly.adapters.retrograd.second_run.recording import Call
from retrograd.anomaly.adapters.retrograd.tensor_names import Names
from retrograd.anomaly.composites import composed, known_values
from retrograd.anomaly.event import NaNEvent, with_context
from retrograd.anomaly.surroundings import Operand, Operation, Surroundings
from retrograd.batching import BatchedArray
from retrograd.core import sites
from retrograd.core.in_place import CopySlices
from retrograd.core.node import Node, OpNode
from retrograd.core.op import Op
from retrograd.core.unbroadcast import fit
from retrograd.core.views import replay

_NAN_IN_PRODUCT = (
    "No flag was raised. Either an input already held a NaN, hidden from the loss by a later mask but not from the "
    "gradient (zero times NaN is NaN), so check the data first; or the NaN was born inside the BLAS library. "
)
MEANT = "It was declared as expected, but it did harm."


def _beginning_with(birth: Birth, node: Node | None, path: Sequence[Node]) -> tuple[str, ...]:
    """The path from a birth, its own operation first, which has no node if it has no gradient."""
    names = tuple(each.name() for each in path)
    if node is None:
        return (birth.name, *names) if names else ()
    return names if node in path[:1] else (node.name(), *names)


def in_order(op: Op | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as the user wrote them: ``1 / x`` has 1 first."""
    if op is None or op.label not in REVERSED:
        return dict(arguments)
    first, second, *rest = arguments.items()
    return {first[0]: second[1], second[0]: first[1], **dict(rest)}


class _Rule(NamedTuple):
    """The arguments and results of a rule.

    Attributes
    ----------
    incoming, saved
        The gradient, and the node's saved values by name: arrays of all samples.
    g, entries
        The same as the rule gets them, under vmap with the samples hidden in them.
    grads
        The gradients it returned.
    """

    incoming: Any
    saved: dict[str, Any]
    g: Any
    entries: dict[str, Any]
    grads: Sequence[Any]

    @property
    def hides(self) -> bool:
        """Whether samples were hidden in its arguments."""
        return any(type(each) is BatchedArray for each in (self.g, *self.entries.values()))


class Describer:
    """Makes events of births.

    Parameters
    ----------
    graph
        Where the operands came from.
    names
        What the user calls tensors and modules.
    context
        Further facts for the surroundings of every event.
    """

    def __init__(self, graph: Graph, names: Names, context: Mapping[str, Any]) -> None:
        self.graph = graph
        self.names = names
        name = names.model_name()
        self.context = context if name is None else {**context, "model": name}
        self.operations = Operations(graph, names)
        self.through = ElementPropagation(graph)

    # --- events ---------------------------------------------------------------------------------------------------

    def forward(
        self,
        birth: Birth,
        node: Node | None,
        path: Sequence[Node],
        swallowed: bool = False,
        at: Index = None,
        **fields: Any,
    ) -> NaNEvent | None:
        """The event of a birth in an operation; None if its result turns out finite, unless that is reported, too.

        ``at`` is the element to report if the result is finite.
        """
        output = _in_dtype_of(node, result_of(birth))
        if output is None or not (swallowed or is_bad(output) or underflows(birth.kinds, output)):
            return None
        op = birth.op
        source, after = (None, path) if node is None else (path[0], path[1:])
        index: Index
        if at is not None:
            index = at
        elif is_bad(output):
            index = first_bad(op, output, birth.operands, self.through.elements(output, source, path))
        else:
            index = first_lost(output, birth.operands)
        arguments = self._arguments(birth, node, output, index)
        if isinstance(node, OpNode):
            operation = self.operations.of_node(node, index, arguments, samples=output.shape if birth.hidden else None)
        else:
            call = birth.call or Call(birth.name, op, list(arguments.values()), birth.code, birth.at, results=[output])
            call.hidden = birth.hidden
            operation = self.operations.of_call(call, index)
        operands = at_element(in_order(op, arguments), index, output.shape, birth.name) if is_aligned(op) else {}
        if op is None and birth.variables:  # NumPy's functions in a Function of the user's
            operation, operands = self._inside(birth, birth.variables, index, output.shape)
        name = REVERSED.get(birth.name if op is None else op.label, birth.name)
        context = {} if op is None else assignment_of_number(op, birth.code, birth.at, arguments)
        if node is not None and "overflow" in birth.kinds:
            context["earlier_runs"] = self.graph.earlier_runs(node)
        function = composed(operation)
        if function is not operation:
            operation, name, operands = function, function.op, known_values(function)
        return NaNEvent(
            kind=kind_of(birth.kinds, output, index, op, list(arguments.values())),
            op=name,
            index=index,
            operands=operands,
            path=_beginning_with(birth, node, path),
            thread=birth.thread.name,
            note=MEANT if birth.excused else None,
            surroundings=self.surroundings(
                operation,
                self.operations.after(after, index, output.shape),
                node=node,
                library="numpy" if birth.is_of_arrays or (op is None and birth.variables) else "retrograd",
                context=context,
            ),
            **input_statistics(arguments.values()),
            **self.names.layer(birth.modules or module_of(node)),
            **place_fields(birth.code, birth.at, birth.callers),
            **statistics(output),
            **fields,
        )

    def _arguments(self, birth: Birth, node: Node | None, output: ndarray, index: Index) -> dict[str, Any]:
        """The arguments of a forward birth by name; UNKNOWN among them are those that were written to since."""
        op = birth.op
        arguments = named(op, birth.operands)
        if op is None or birth.call is not None:
            return arguments
        if birth.inplace and birth.operands[0] is birth.result:
            first = op.params[0]  # it is overwritten by now
            old = UNKNOWN if node is None else self.graph.arguments(node).get(first, UNKNOWN)
            old = UNKNOWN if old is output else old
            arguments |= {name: old for name, value in arguments.items() if value is birth.result}
        if op.kind == "elementwise" and (
            not birth.kinds or "invalid" in birth.kinds
        ):  # an operand that is already NaN causes no birth
            overwritten = [name for name, value in arguments.items() if _is_nan_at(value, index, output.shape)]
            arguments |= dict.fromkeys(overwritten, UNKNOWN)
        return arguments

    def backward(
        self, birth: Birth, path: Sequence[Node], makers: Sequence[Birth] = (), **fields: Any
    ) -> NaNEvent | None:
        """The event of a birth in a node's rule; None if its result turns out finite.

        ``makers`` gave birth to the two gradients whose sum it is, if it is one.
        """
        node = birth.node
        assert node is not None
        if birth.name == ADDITION:
            return self._addition(birth, node, path, makers, **fields)
        if birth.op is not None:
            return self._in_hook(birth, node, path, **fields)
        ran = ran_by(node)
        rule = self._rerun(birth, node, ran)
        found = _told_gradient(ran, rule.grads, birth.kinds, path[1] if len(path) > 1 else None, fits=not rule.hides)
        if found is None:
            return None
        output, unfitted = found
        first = first_not_finite if is_bad(output) else lambda array: first_lost(array, [rule.incoming])
        index, shape = first(output), unfitted.shape
        full = index if shape == output.shape else first(unfitted)
        one = rule.incoming if isinstance(rule.incoming, ndarray) else None
        note = MEANT if birth.excused else None
        if birth.inside is None:
            of_sample = shape[max(len(shape) - len(ran.shape), 0) :]
            samples = shape if rule.hides and of_sample == ran.shape else None
            operation = self.operations.of_node(ran, full, rule.saved, samples=samples)
            op = _op_of(ran)
            operands = at_element(in_order(op, rule.saved), full, shape) if is_aligned(op) else {}
        else:
            inside = place_fields(birth.code, birth.at)
            note = "It happened inside its backward, at {filename}:{lineno}.".format(**inside)
            operation, operands = self._inside(birth.inside, birth.variables, full, shape)
        return NaNEvent(
            kind=_kind_in_rule(birth, ran, rule, unfitted, full),
            op=birth.name,
            is_backward=True,
            index=index,
            operands=operands,
            path=tuple(each.name() for each in path),
            thread=birth.thread.name,
            note=note,
            surroundings=self.surroundings(
                operation,
                self.operations.before(node, index, shape) if birth.inside is None else (),
                None if one is None else value_at(one, full, shape),
                node=ran,
                context={} if birth.inside is None else {"called_in_backward": True},
                library="numpy" if birth.inside is not None and birth.inside.op is None else "retrograd",
            ),
            **input_statistics([*rule.saved.values(), one]),
            **self.names.layer(module_of(ran)),
            **self.graph.place_of(ran),
            **statistics(output),
            **fields,
        )

    def _rerun(self, birth: Birth, node: Node, ran: Node) -> _Rule:
        """The rule in which a birth happened, run once more unless its result is known."""
        entries = self.saved_by(birth, ran, entry_of)
        g, grads = entry_of(birth.g), birth.grads
        if isinstance(node, CopySlices):
            g, grads = replay(g, node.steps), None
        if grads is None:
            grads = _gradients(ran, birth.rule, g, entries)
        incoming, *values = arrays_of(_op_of(ran), [g, *entries.values()])
        return _Rule(incoming, dict(zip(entries, values, strict=True)), g, entries, grads)

    def saved_by(self, birth: Birth, node: Node, read: Callable[[Any], Any] = raw) -> dict[str, Any]:
        """What a node saved, by name."""
        if not isinstance(node, OpNode):
            return {}
        if birth.saved is None:
            return self.graph.saved(node, read)
        return {slot: read(entry) for slot, entry in zip(node.op.slots, birth.saved, strict=False) if entry is not None}

    def _in_hook(self, birth: Birth, node: Node, path: Sequence[Node], **fields: Any) -> NaNEvent | None:
        """The event of a birth in an operation that a hook called during backward."""
        note = f"It happened in a hook, while backward was at {node.name()}."
        event = self.forward(birth, None, path, is_backward=True, **fields)
        if event is None or event.surroundings is None:
            return event
        # the nodes on the path run their rules afterwards, without having used its result in their own operations
        event = replace(event, surroundings=replace(event.surroundings, consumers=()), note=note)
        return with_context(event, called_in_backward=True)

    def _addition(
        self, birth: Birth, node: Node, path: Sequence[Node], makers: Sequence[Birth], **fields: Any
    ) -> NaNEvent | None:
        """The event of two gradients of one tensor whose sum is not finite."""
        output = np.asarray(birth.result)
        if not is_bad(output):
            return None
        index = first_bad(None, output, birth.operands)
        sources = [ran_by(maker.node) for maker in makers if maker.node is not None]
        if not sources:
            sources = sorted(self.graph.consumers.get(node, ()), key=lambda each: each.seq, reverse=True)
        operands = {"grad": birth.operands[0], "other": birth.operands[1]}
        args = tuple(
            Operand(name=name, value=value_at(value, index, output.shape), producer=self.operations.of_node(source))
            for (name, value), source in zip(operands.items(), (*sources, *sources), strict=False)
        )
        place = self.graph.place_of(sources[-1]) if sources else {}
        operation = Operation(op=ADDITION, args=args, **line_fields(place))
        return NaNEvent(
            kind=kind_of(birth.kinds, output, index),
            op=ADDITION,
            is_backward=True,
            index=index,
            operands=at_element(operands, index, output.shape) if birth.result is not birth.operands[0] else {},
            path=tuple(each.name() for each in path),
            thread=birth.thread.name,
            surroundings=self.surroundings(operation, ()),
            **place,
            **statistics(output),
            **fields,
        )

    def product(self, node: Node, data: ndarray, way: Sequence[Node], **fields: Any) -> NaNEvent:
        """The event of a matrix product in backward that is known only by its effect, the gradient ``data``."""
        delivered = len(way) == 2
        nan = bool(np.isnan(data).any())
        return NaNEvent(
            kind="invalid" if nan else "overflow",
            op=node.name(),
            is_backward=True,
            index=first_not_finite(data) if delivered else None,
            path=tuple(each.name() for each in way),
            note=(_NAN_IN_PRODUCT if nan else "No flag was raised: it was born inside the BLAS library. ")
            + "All bad gradients came through this matrix product.",
            surroundings=replace(
                self.surroundings(self.operations.of_node(node), self.operations.before(node)),
                context={**self.context, "unkept": True},
            ),
            **self.names.layer(module_of(node)),
            **self.graph.place_of(node),
            **(statistics(data) if delivered else {}),
            **fields,
        )

    def leaf(self, data: ndarray, role: str, name: str | None, path: Sequence[Node], **fields: Any) -> NaNEvent:
        """The event of a value that came in from outside."""
        recorder = self.graph.recorder
        itself = data if recorder is None else recorder.original(data)
        known = self.names.array(itself)
        holder = self.names.holder(itself)
        begins = path[0] if path and path[0].is_leaf else None
        index = unravelled(self.through.elements(data, begins, path))
        if role == "batch" and self.names.is_state(itself):
            role = "buffer"
        context: dict[str, Any] = {"leaf": role} | ({} if known is None else {"name": known})
        if known is None:
            context["bad_buffers"] = self.names.bad_buffers()
        context["plain_array"] = self.names.is_plain(itself)
        if role in ("batch", "target"):
            context |= extent(~np.isfinite(data))
            if members := self.names.bad_members_behind(itself):
                context["bad_members"] = members
        consumer = next((node for node in path if not node.is_leaf), None)
        at = (None, 0) if consumer is None else sites.position_of(consumer)
        text = known or (None if consumer is None or name is None else text_given(consumer, name))
        if role in ("batch", "target") and text and (assigned := assignment_of(*at, text)):
            context |= {"assigned": assigned, "in_branch": is_in_branch(*at, assigned[1])}
        if holder is not None and role in ("batch", "target"):
            context |= taken_of(holder, *at)
        return NaNEvent(
            kind="leaf",
            op="leaf",
            index=index,
            operands={known or name or "leaf": data[index].item()},
            path=tuple(node.name() for node in path),
            surroundings=Surroundings(
                consumers=self.operations.after([node for node in path if not node.is_leaf], index, data.shape),
                library="retrograd",
                context={**self.context, **context},
            ),
            **({} if consumer is None else self.graph.place_of(consumer)),
            **statistics(data),
            **fields,
        )

    def failure(self, birth: Birth, error: BaseException) -> NaNEvent:
        """The event of an operation that raised an error, or of the Function whose backward called it."""
        inside = birth.inside
        if inside is not None and inside.op is not None:
            inside.modules, inside.callers = birth.modules, birth.callers
            return self.failure(inside, error)
        arguments = named(birth.op, birth.operands)
        if birth.node is not None:
            operation = self.operations.of_node(birth.node, known=self.saved_by(birth, birth.node))
            place = self.graph.place_of(birth.node)
        else:
            operation = self.operations.of_call(
                Call(birth.name, birth.op, list(arguments.values()), birth.code, birth.at)
            )
            place = place_fields(birth.code, birth.at, birth.callers)
        return NaNEvent(
            kind="error",
            op=birth.name,
            is_backward=birth.is_backward,
            thread=birth.thread.name,
            note=f"{type(error).__name__}: {error}",
            surroundings=Surroundings(
                operation=operation, library="retrograd", context={**self.context, "error": str(error)}
            ),
            **input_statistics(arguments.values()),
            **self.names.layer(birth.modules),
            **place,
        )

    def surroundings(
        self,
        operation: Operation,
        consumers: tuple[Operation, ...],
        grad_value: Any = None,
        node: Node | None = None,
        library: str = "retrograd",
        context: Mapping[str, Any] = MappingProxyType({}),
    ) -> Surroundings:
        """The surroundings of a birth in ``operation``, to whose result ``consumers`` were applied."""
        derived = {"second_derivative": True} if sites.is_derived(node) else {}
        return Surroundings(
            operation=operation,
            consumers=consumers,
            grad_value=grad_value,
            library=library,
            context={**self.context, **context, **derived},
        )

    def _inside(
        self, inside: Birth, variables: Mapping[str, Any], index: tuple[int, ...] | None, shape: tuple[int, ...]
    ) -> tuple[Operation, dict[str, Any]]:
        """The operation called by a line of the user's, and its operands by the names of the variables."""
        if inside.op is None:
            operation = operation_written_at(inside.code, inside.at, variables, index, shape)
            return operation, at_element(variables, index, shape)
        result = result_of(inside)
        at, results = (None, []) if result is None else (first_bad(inside.op, result, inside.operands), [result])
        call = Call(inside.name, inside.op, list(inside.operands), inside.code, inside.at, results=results)
        made = () if result is None else result.shape
        numbers = at_element(variables, at, made) or at_element(call.arguments, at, made)
        return self.operations.of_call(call, at), numbers


def _is_nan_at(value: Any, index: Any, shape: tuple[int, ...]) -> bool:
    number = value_at(value, index, shape) if isinstance(value, ndarray) else None
    return isinstance(number, float) and number != number


def result_of(birth: Birth) -> ndarray | None:
    """The array that a forward birth made; None if unknown."""
    if birth.result is not None or birth.op is None:
        return birth.result if isinstance(birth.result, ndarray) else None
    results = evaluate(birth.op, birth.samples or birth.operands)
    return next(filter(is_bad, results), results[0] if results else None)


def _in_dtype_of(node: Node | None, result: ndarray | None) -> ndarray | None:
    """An operation's result in the dtype that its node passes on: float16 is computed in float32."""
    if (
        result is None
        or not isinstance(node, OpNode)
        or node.outputs != 1
        or result.dtype.char + node.dtype.char != "fe"
    ):
        return result
    with np.errstate(all="ignore"):
        return result.astype(node.dtype)


def _told_gradient(
    node: Node, grads: Sequence[Any], kinds: Sequence[str], wanted: Node | None, fits: bool
) -> tuple[ndarray, ndarray] | None:
    """The non-finite gradient (or one rounded to zero, if there is none), as delivered and as the rule returned it.

    The one for ``wanted`` has priority. Under vmap, where gradients are those of all samples, none is fitted.
    """
    found = []
    for edge, grad in zip(node.next, grads, strict=False):
        if edge is None or grad is None:
            continue
        target, nr = edge
        shape, dtype = target.shape_and_dtype(nr)
        unfitted = np.asarray(grad)
        with np.errstate(all="ignore"):
            fitted = np.asarray(fit(unfitted, shape, dtype, node.name(), 0)) if fits else unfitted
        if is_bad(fitted) or (underflows(kinds, fitted) and not fitted.all()):
            found.append((target is not wanted, fitted, unfitted))
    return min(found, key=lambda each: each[0])[1:] if found else None


def _kind_in_rule(birth: Birth, ran: Node, rule: _Rule, unfitted: ndarray, full: Index) -> str:
    """The kind of a birth in a rule, from the node's saved values."""
    inside = birth.inside
    if inside is not None and inside.op is not None and (made := result_of(inside)) is not None and is_bad(made):
        return kind_of(birth.kinds, made, first_not_finite(made), inside.op, inside.operands)

    def again(values: Sequence[Any]) -> Any:
        grads = _gradients(ran, birth.rule, rule.g, dict(zip(rule.entries, values, strict=True)))
        return next(each for each in grads if np.shape(each) == unfitted.shape)

    return kind_of(birth.kinds, unfitted, full, None, list(rule.entries.values()), again)


def _gradients(node: Node, only: Any, g: Any, known: Mapping[str, Any]) -> list[Any]:
    """The results of the rules, run once more; of ``only`` one of them, if it is known which."""
    if not isinstance(node, OpNode):
        return []
    grads = []
    for (rule, slots), edge in zip(node.rules, node.next, strict=False):
        result = None
        if edge is not None and (only is None or rule is only):
            try:
                with np.errstate(all="ignore"):
                    result = rule(g, *(known.get(node.op.slots[slot]) for slot in slots))
            except Exception:  # one of its arguments is lost
                result = None
        result = as_array(result)
        grads.append(result if isinstance(result, (ndarray, np.generic)) else None)
    return grads


def is_aligned(op: Op | None) -> bool:
    """Whether an element of the result depends on the operands' elements at its position, if the shapes allow it."""
    if op is None or op.kind == "elementwise" or len(op.differentiable) <= 1:
        return True
    return op.label == "masked_fill" or works_by_channel(op.label)


def _op_of(node: Node) -> Op | None:
    return node.op if isinstance(node, OpNode) else None


def module_of(node: Node | None) -> tuple[Any, ...]:
    """The module in which a node was made, if noted."""
    module = None if node is None else sites.module_of(node)
    return () if module is None else (module,)
