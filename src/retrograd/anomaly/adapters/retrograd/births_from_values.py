"""Births without a flag: in results and gradients that the engine hands to the monitor as they are not finite."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Any

import numpy as np

from retrograd.anomaly.adapters.retrograd.births import ADDITION, Birth, as_array, birth_at, ran_by, saved_before
from retrograd.anomaly.adapters.retrograd.elements import flat, is_bad, is_born
from retrograd.anomaly.adapters.retrograd.postmortem.graph import raw
from retrograd.core.node import Node


def in_result(operands: Sequence[Any], result: Any, frame: FrameType, every: bool, is_recorded: bool) -> Birth | None:
    """The birth in an operation's result; None if there is none.

    Parameters
    ----------
    frame
        Where to begin reading the stack.
    every
        Whether every operation is handed over, because there are no flags.
    is_recorded
        Whether the results of all operations are recorded, except tangents.
    """
    arrays = as_array(list(operands))
    results = flat(as_array(list(result) if isinstance(result, (tuple, list)) else [result]))
    found = next(((place, each) for place, each in enumerate(results) if is_bad(each)), None)
    if found is None:
        return None
    place, output = found
    birth = birth_at("invalid" if np.isnan(output).any() else "overflow", frame)
    if birth is None or (birth.pushed is None and is_recorded):
        return None
    if not is_born(birth.op, output, arrays, ["invalid"] if every else ()):
        return None
    birth.kinds = []
    within = birth.node is not None and birth.op is None  # in a call by a rule or by the backward of a Function
    if not within and (place == 0 or birth.op is None or not birth.op.byproducts):
        birth.result = output
    if birth.inplace:
        birth.operands = tuple(arrays)  # with a copy of the overwritten one
    return birth


def in_rules(node: Node, g: Any, grads: Any, every: bool) -> Birth | None:
    """The birth in the results of a node's rules for the gradient that arrived; None if there is none."""
    g, grads = as_array(g), as_array(list(grads or ()))
    ran = ran_by(node)
    if not is_bad(grads) or (is_bad(g) if not every else not any(_is_born_in(ran, g, each) for each in grads)):
        return None
    birth = Birth([], ran.name(), node=node, g=g, saved=getattr(ran, "saved", None), grads=grads)
    birth.before = saved_before(node)
    return birth


def _is_born_in(node: Node, g: Any, gi: Any) -> bool:
    """Whether a rule of a node made a bad gradient of its own."""
    saved = [raw(entry) for entry in getattr(node, "saved", None) or ()]
    return is_bad(gi) and is_born(getattr(node, "op", None), gi, [g, *saved], ["invalid"])


def in_rule(node: Node, g: Any, gi: Any, frame: FrameType) -> Birth | None:
    """The birth in one rule of a node that the engine's loop runs; None if there is none."""
    birth = birth_at("invalid", frame) if _is_born_in(node, as_array(g), as_array(gi)) else None
    if birth is not None:
        birth.kinds = []
    return birth


def in_sum(node: Node, old: Any, new: Any, total: Any) -> Birth | None:
    """The birth in the sum of two gradients of a node's result; None if there is none."""
    old, new, total = as_array(old), as_array(new), as_array(total)
    if not is_born(None, total, [old, new], ["invalid"]):
        return None
    return Birth([], ADDITION, node=node, operands=(old, new), result=total, before=saved_before(node))
