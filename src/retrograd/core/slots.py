"""What a rule may name, and what is kept of a call for it.

Every name that some rule of an operation uses is a slot of that operation's nodes. :func:`meaning` interprets such a
name; all code that keeps values for rules, or passes them on at once, relies on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray

from retrograd.core.node import MultiOpNode
from retrograd.core.record import PLAIN, holds_tensor
from retrograd.core.saved import SavedList, pack, save_result, save_tensor
from retrograd.core.state import local
from retrograd.core.tensor import Tensor, wrap

if TYPE_CHECKING:
    from retrograd.core.op import Op

# What a name means, with the number of the parameter, result or byproduct that it refers to.
ARGUMENT, SHAPE, BYPRODUCT, RESULT, RESULTS, NEEDS = range(6)


def meaning(op: Op, name: str) -> tuple[int, int] | None:
    """What a rule of ``op`` means by a name; None if nothing."""
    if name == "result":  # a list, if there are several
        return RESULTS, 0
    if name in op.results:
        return RESULT, op.results.index(name) - 1
    if name in op.positions:
        return ARGUMENT, op.positions[name]
    if name in op.byproducts:
        return BYPRODUCT, op.byproducts.index(name)
    if name == "needs":
        return NEEDS, 0
    of = name.removesuffix("_shape")
    if of != name and of in op.positions:
        return SHAPE, op.positions[of]
    return None


def save_argument(value: Any) -> Any:
    """Keep an argument for backward: tensors as :func:`save_tensor` does, also inside lists, the rest as it is."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is Tensor or isinstance(value, Tensor):
        return save_tensor(value)
    if (kind is list or kind is tuple) and holds_tensor(value):
        return SavedList([save_argument(item) for item in value])
    return value


def save_byproduct(value: Any) -> Any:
    """Keep what a function returned for its rules; hooks may pack arrays away."""
    if local.saved_hooks is not None and value is not None:
        return pack(wrap(value), *local.saved_hooks[-1])
    return value


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array or a number."""
    return value.shape if type(value) is ndarray else np.shape(value)


class Keeping(NamedTuple):
    """How the values that rules name are stored."""

    argument: Callable[[Any], Any]
    result: Callable[[Tensor], Any]
    byproduct: Callable[[Any], Any]
    several: Callable[[list[Any]], Any]  # all results, or what is known of the tensors in a list


FOR_BACKWARD = Keeping(save_argument, save_result, save_byproduct, SavedList)

# Returns what a slot keeps, given a call's arguments, its arrays, the edges, and the result (or list of results).
Saver = Callable[[list[Any], list[Any], Any, Any], Any]


def compile_saver(op: Op, slot: str, keeping: Keeping = FOR_BACKWARD) -> Saver:
    """The function that returns what ``slot`` keeps."""
    known = meaning(op, slot)
    assert known is not None  # Op has asked already
    what, number = known
    keep_argument, keep_result, keep_byproduct, several = keeping
    if what == ARGUMENT:
        return lambda bound, arrays, edges, result: keep_argument(bound[number])
    if what == BYPRODUCT:  # they come after the arguments
        position = len(op.params) + number
        return lambda bound, arrays, edges, result: keep_byproduct(arrays[position])
    if what == RESULTS:
        if issubclass(op.node_class, MultiOpNode):
            return lambda bound, arrays, edges, results: several([keep_result(tensor) for tensor in results])
        return lambda bound, arrays, edges, result: keep_result(result)
    if what == RESULT:
        return lambda bound, arrays, edges, results: keep_result(results[number])
    if what == NEEDS:
        return lambda bound, arrays, edges, result: tuple(edge is not None for edge in edges)
    if op.params[number] == op.sequence:
        return lambda bound, arrays, edges, result: several([shape_of(item) for item in arrays[number]])
    return lambda bound, arrays, edges, result: shape_of(arrays[number])
