"""Jacobian-vector products, derived from the rules.

A rule gives the transposed product: it maps the gradient of the result linearly to that of an operand. Here we need the
tangent of the result for a tangent of the operand. There are four ways to get it:

* An operation that is linear in its differentiable arguments is its own derivative: it is applied to the tangents.
* An elementwise operation has a diagonal Jacobian, which, being real, is its own transpose: the rule is applied to the
  tangent. (Complex numbers count as pairs of real ones.)
* An operation that says which of its arguments are factors, such as ``matmul``, obeys the product rule.
* For any other operation, the rule itself is transposed, by differentiating it with respect to its incoming gradient.

All of them can run on Tensors, so that the product can be differentiated like any other computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.core import state
from retrograd.core.blocks import run_blocked
from retrograd.core.engine import run
from retrograd.core.finite_checks import show
from retrograd.core.half import HALF
from retrograd.core.node import MultiOpNode, Node
from retrograd.core.record import apply, settle
from retrograd.core.slots import Keeping, Saver, compile_saver
from retrograd.core.state import local, refresh, set_grad_enabled
from retrograd.core.tensor import Edge, Tensor, wrap
from retrograd.core.unbroadcast import fit

if TYPE_CHECKING:
    from retrograd.core.op import Op

# For every differentiable argument its tangent, or None; for an argument that is a list of tensors, a list.
Tangents = list[Any]


def jvp(op: Op, bound: list[Any], results: list[Tensor], tangents: Tangents) -> list[Tensor | None]:
    """Return the tangents of the results of an operation, None for those that have none.

    Parameters
    ----------
    op, bound, results
        The operation, its arguments in order, and what it gave.
    tangents
        The tangents of the arguments, at least one of which has one.
    """
    live = [
        result._data.dtype.kind in "fc" and (op.differentiable_outputs is None or nr in op.differentiable_outputs)
        for nr, result in enumerate(results)
    ]
    if op.kind == "linear":
        found = _of_linear(op, bound, tangents)
    elif op.kind == "elementwise" and op.outputs is None:
        found = [_of_pointwise(op, bound, results[0], tangents)]
    elif any(tangent is not None and name in op.factors for name, tangent in zip(op.differentiable, tangents)):  # noqa: B905
        found = [_of_product(op, bound, tangents)]
    else:
        found = _of_transposed_rules(op, bound, results, live, tangents)
    made = [tangent if wanted else None for tangent, wanted in zip(found, live, strict=True)]
    if state.monitor is not None and state.monitor.looks:
        show([*bound, *tangents], [tangent._data for tangent in made if tangent is not None])
    return made


# --- linear operations ------------------------------------------------------------------------------------------------


def _of_linear(op: Op, bound: list[Any], tangents: Tangents) -> list[Tensor]:
    arguments = list(bound)
    for position, tangent in zip(op.edge_positions, tangents, strict=True):
        value = bound[position]
        if position == op.sequence_position:
            arguments[position] = list(map(_or_zero, value, tangent))
        else:
            arguments[position] = _or_zero(value, tangent)
    made = apply(op, arguments)
    return [made] if isinstance(made, Tensor) else list(made)


def _of_product(op: Op, bound: list[Any], tangents: Tangents) -> Tensor:
    """The sum, over the factors that have a tangent, of the operation with that factor replaced by its tangent.

    The operation is linear in what is added to the product, such as a bias; its tangent is only in the first term.
    """
    factors = [op.positions[name] for name in op.factors]
    moved = dict(zip(op.edge_positions, tangents, strict=True))
    total: Any = None
    for position in factors:
        if moved[position] is None:
            continue
        arguments = list(bound)
        for other in op.edge_positions:
            if other not in factors:
                arguments[other] = _or_zero(bound[other], moved[other] if total is None else None)
        arguments[position] = moved[position]
        part = apply(op, arguments)
        total = part if total is None else total + part
    return total


def _or_zero(value: Any, tangent: Tensor | None) -> Any:
    """The tangent of an argument; zeros if it has none."""
    if tangent is not None or value is None:
        return tangent
    if isinstance(value, Tensor):
        return zeros_like(value)
    return np.zeros_like(value) if hasattr(value, "dtype") else type(value)(0)


def zeros_like(tensor: Tensor) -> Tensor:
    """Zeros of the shape, dtype and layout of ``tensor``, without a history."""
    return wrap(np.zeros_like(tensor._data))


# --- elementwise operations -------------------------------------------------------------------------------------------


def _of_pointwise(op: Op, bound: list[Any], result: Tensor, tangents: Tangents) -> Tensor:
    # if no history is needed, on arrays, as in an ordinary backward
    recorded = local.tangents is not None or (local.grad_enabled and _any_needs_grad(bound, tangents))
    with np.errstate(all="ignore") if state.monitor is None else nullcontext():
        total = settle(_sum_of_rules(op, bound, result, tangents, _as_it_is if recorded else _as_array))
    if total is None:
        return zeros_like(result)
    return total if isinstance(total, Tensor) else wrap(total)


def _sum_of_rules(op: Op, bound: list[Any], result: Tensor, tangents: Tangents, convert: Callable[[Any], Any]) -> Any:
    """The sum of what every tangent contributes; on arrays or on Tensors, as ``convert`` says."""
    shape, kind = result._data.shape, result._data.dtype.kind
    rules = op.half_class.rules if result._data.dtype == HALF else op.rules
    values_of = _values_of(op, bound, [result], tangents)
    total: Any = None
    for (rule, slots), tangent in zip(rules, tangents, strict=True):
        if tangent is None:
            continue
        values = [convert(value) for value in values_of(slots)]
        moved = convert(tangent)
        if moved.shape != shape:
            moved = np.broadcast_to(moved, shape)
        if kind == "f" and moved.dtype.kind == "f":
            large = convert is _as_array and moved.size >= op.large
            part = run_blocked(rule, moved, *values) if large else rule(moved, *values)
        else:
            part = _of_complex(rule, values, moved, convert(wrap(np.ones_like(result._data))))
        if part is not None:
            total = part if total is None else total + part
    return total


def _of_complex(rule: Callable[..., Any], values: list[Any], tangent: Any, one: Any) -> Any:
    """What one tangent contributes if complex numbers are involved.

    The Jacobian at an element is then a real matrix, 2 x 2 between complex numbers. The rule's gradient for 1 is its
    first row, that for i the second; their inner products with the tangent are real and imaginary part.
    """
    row = rule(one, *values)
    if row is None:
        return None
    real = np.real(np.conj(row) * tangent)
    if one.dtype.kind != "c":
        return real
    return real + 1j * np.real(np.conj(rule(1j * one, *values)) * tangent)


# --- any operation ----------------------------------------------------------------------------------------------------


def _of_transposed_rules(
    op: Op, bound: list[Any], results: list[Tensor], live: list[bool], tangents: Tangents
) -> list[Tensor]:
    before = recorded, _, _ = local.grad_enabled, local.saved_hooks, local.mode
    try:
        local.saved_hooks = None  # what is saved here is used only here, and is not part of the user's graph
        set_grad_enabled(True)
        # a linear function may be differentiated at any gradient, and its value there does not matter
        with np.errstate(all="ignore"):
            gradients = [_source(result) if wanted else None for result, wanted in zip(results, live, strict=True)]
            roots = list(_products(op, bound, results, gradients, tangents))
    finally:
        local.grad_enabled, local.saved_hooks, local.mode = before
        refresh()
    sources = [gradient._edge for gradient in gradients if gradient is not None]
    recorded = recorded and _any_needs_grad(bound, tangents)
    found = iter(
        run(roots, retain_graph=recorded, create_graph=recorded, inputs=sources, accumulate=False, notify=False)  # type: ignore[arg-type]
        if roots
        else [None] * len(sources)
    )
    transposed = [next(found) if wanted else None for wanted in live]
    return [
        zeros_like(result) if tangent is None else tangent for result, tangent in zip(results, transposed, strict=True)
    ]


def _source(result: Tensor) -> Tensor:
    """A gradient of ``result`` to differentiate by: an arbitrary one, with its own node and no history behind it."""
    data = np.zeros_like(result._data)
    return wrap(data, (Node((), data.shape, data.dtype), 0))


def _products(
    op: Op, bound: list[Any], results: list[Tensor], gradients: list[Any], tangents: Tangents
) -> Iterator[tuple[Edge, Tensor]]:
    """The results of the rules for the gradients, as edges, with the tangents to send back from there."""
    values_of = _values_of(op, bound, results, tangents)
    several = issubclass(op.node_class, MultiOpNode)
    for position, (rule, slots), tangent in zip(op.edge_positions, op.rules, tangents, strict=True):
        in_list = position == op.sequence_position
        own = tangent if in_list else [tangent]
        if all(each is None for each in own):
            continue
        values = values_of(slots)
        made = rule(_without_gaps(results, gradients) if several else gradients[0], *values)
        operands = bound[position] if in_list else [bound[position]]
        for operand, product, each in zip(operands, made if in_list else [made], own, strict=True):
            if each is None or not isinstance(product, Tensor):
                continue
            data = operand._data
            product = fit(product, data.shape, data.dtype, op.node_name, 0)
            edge = product._resolve_edge()
            if edge is not None:
                yield edge, each


def _without_gaps(results: list[Tensor], gradients: list[Any]) -> list[Any]:
    """Gradients as rules for several results expect them: zeros where there is none, None for integer results."""
    return [
        zeros_like(result) if gradient is None and result._data.dtype.kind in "fc" else gradient
        for result, gradient in zip(results, gradients, strict=True)
    ]


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if type(value) is list or type(value) is tuple:
            yield from value
        else:
            yield value


def _any_needs_grad(bound: list[Any], tangents: Tangents) -> bool:
    """Whether the tangents of the results, or their own tangents in outer levels, will have a history."""
    tensors = [value for value in (*_flat(tangents), *_flat(bound)) if isinstance(value, Tensor)]
    if local.dual_level is not None:
        tensors = [each for tensor in tensors for each in local.dual_level.with_tangents(tensor)]
    return any(tensor.requires_grad for tensor in tensors)


# --- what a rule names ------------------------------------------------------------------------------------------------


@cache
def _getters(op: Op) -> tuple[Saver, ...]:
    """For each slot, a function that gives its value for the call just made."""
    # byproducts have no history, so none are passed
    keeping = Keeping(argument=_as_it_is, result=_twin, byproduct=_as_it_is, several=list)
    return tuple(compile_saver(op, slot, keeping) for slot in op.slots)


def _values_of(
    op: Op, bound: list[Any], results: list[Tensor], tangents: Tangents
) -> Callable[[tuple[int, ...]], list[Any]]:
    """A function from slots to the values for a rule that names them."""
    getters = _getters(op)
    arrays = [*map(_as_array, bound), *[None] * len(op.byproducts)]
    arguments = [
        value if position in op.edge_positions else array
        for position, (value, array) in enumerate(zip(bound, arrays, strict=False))
    ]
    edges = [*_flat(tangents)]
    made = results if issubclass(op.node_class, MultiOpNode) else results[0]
    return lambda slots: [getters[slot](arguments, arrays, edges, made) for slot in slots]


def _twin(result: Tensor) -> Tensor:
    """A result in a form that its own tangent may hold: at the same place in the graph, but not the tensor itself."""
    twin = wrap(result._data, result._resolve_edge(), result._cell)
    if local.dual_level is not None:  # the outer level, in which the result has a tangent already
        local.dual_level.move(result, twin)
    return twin


def _as_it_is(value: Any) -> Any:
    return value


def _as_array(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value._data
    if type(value) is list or type(value) is tuple:
        return type(value)(item._data if isinstance(item, Tensor) else item for item in value)
    return value
