"""What can be said where an operand was not kept: how far the known ones tell whose fault it is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from retrograd.anomaly.catalogue._expression import value
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause
from retrograd.anomaly.surroundings import Operand

# Operations of two operands that give NaN only if one of them is not finite.
_HARMLESS = frozenset(("add", "sub", "rsub", "mul"))


@cause(None, "an operand that was not kept")
def unkept_operand(scene: Scene) -> Finding | None:
    if not scene.context.get("unkept") or scene.backward or scene.kind != "invalid":
        return None
    if scene.op == "copy_slices":
        return Finding(
            "This line writes to a part of a tensor in place. What the tensor held before was finite as far as it is "
            "known, so the NaN was born in what the line computes, or in what it is given. Written without in-place, "
            "as in top = top / s, it would keep enough to tell.",
            None,
            None,
        )
    operands = scene.birth.args[:2]  # what follows are options
    unknown = [each for each in operands if value(each) is None and each.shape is None and not each.constant]
    known = [each for each in operands if value(each) is not None]
    harmless = scene.op in _HARMLESS and all(math.isfinite(value(each) or 0.0) for each in known)
    if not unknown or (len(unknown) > 1 and not harmless):
        return None
    name = " or ".join(map(_called, unknown))
    if len(unknown) > 1:
        nothing = f"Of {' and '.join(map(_called, unknown))} nothing is kept"
        blame = f"One of them was not finite already: {scene.op} has only passed it on."
    else:
        nothing = (
            f"{name} was computed without a gradient, or its numbers were not needed for one: nothing of it is kept"
        )
        if harmless and known:
            values = " and ".join(f"{_called(each)} is {scene.at(each, 0)}" for each in known)
            blame = f"{values} here, so that {name} was not finite already: {scene.op} has only passed it on."
        else:
            blame = f"So {name} was not finite already, or lies outside of what {scene.op} is defined for."
    return Finding(
        f"{nothing}. {blame} Look at how {name} is made{_where(scene, unknown)}: the log or the root of something "
        "negative, a division by zero, a number that was missing in the data.",
        None,
        None,
    )


def _where(scene: Scene, operands: Sequence[Operand]) -> str:
    """The lines of what made some operands, where they are others than the birth's."""
    made = [each.producer for each in operands if each.producer is not None]
    lines = {each.lineno: each.code_line for each in made if each.code_line and each.lineno != scene.event.lineno}
    return "".join(f", in `{' '.join(text.split())}` (line {number})" for number, text in lines.items())


def _called(operand: Operand) -> str:
    return operand.text or operand.leaf_name or f"its argument {operand.name}"


FALLBACK = (unkept_operand,)
