"""Which learning rate to try next, by how a training diverged.

If a loss is about a parabola of curvature c, an update with the rate r multiplies its gradient by 1 - r * c: the
factor by which a gradient grows gives c, and with it the rate from which on updates grow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from retrograd.anomaly.catalogue._expression import number

_FAR = 1e3  # larger factors do not come from a parabola, but from layers that grow together
_LEAST = 1e-3  # of a rate, in one round, where nothing tells by how much it is too high
_KEPT = 32  # steps of a history
_GREW = 1.5  # so many times as large: not by the noise of batches alone


class Rise(NamedTuple):
    """The first growth of gradients: after which of the updates, counted from 0, and by what factor."""

    after: int
    factor: float


def smaller_rate(written: float, now: float, context: Mapping[str, Any], *, is_scaled: bool) -> float:
    """A rate to try next, a power of ten if it is less than a tenth of the one that the program has.

    Parameters
    ----------
    written
        The rate written in the program; for a schedule, the one that it begins with or rises to.
    now
        The rate of the last update.
    context
        Of the event.
    is_scaled
        Whether the optimizer divides by the size of gradients, so that an update is about as large as the rate.
    """
    grown = context.get("grown")
    wanted = None if is_scaled else _by_curvature(written, now, context)
    if wanted is None and grown is not None:
        growth = (grown["now"] / grown["before"]) ** (1 / grown["updates"])  # in each of them
        least = 0.0 if grown["updates"] == 1 else _LEAST  # later ones had the gradients of weights that had run away
        wanted = written * max(0.01 / growth, least)
    if wanted is None or (wanted >= written / 10 and grown is None):
        return written / 10
    return _power_of_ten(min(wanted, written / 10))


def _power_of_ten(rate: float) -> float:
    return 10.0 ** math.floor(math.log10(rate)) if rate > 0 else rate


def _by_curvature(written: float, now: float, context: Mapping[str, Any]) -> float | None:
    """Half the rate from which on updates would have grown, as it is to be written; None if nothing tells."""
    norms, losses = ([number(each) for each in context.get(key) or ()] for key in ("grad_norm_history", "loss_history"))
    rise, of_loss, safety = first_rise(norms), first_rise(losses), 1.0
    if of_loss is not None and (rise is None or rise.after + 1 < of_loss.after):
        rise, safety = Rise(of_loss.after, math.sqrt(of_loss.factor)), 3.0  # a part of the loss may have no curvature
    if rise is None:
        return None
    rate = now
    if now < written and len(losses) < _KEPT:  # which is on its way up, and was less when the rise began
        rate *= max(rise.after, 1) / max(len(losses) - 1, 1)
    wanted = rate / (1 + rise.factor) / safety
    if rise.factor >= _FAR:
        wanted = max(wanted, _by_size(context, norms) or rate * _LEAST)
    return wanted * min(written / now, 1.0)  # a schedule that has risen above what is written does so again


def _by_size(context: Mapping[str, Any], norms: Sequence[float | None]) -> float | None:
    """The rate by which the first update would have changed the weights by a tenth, at the most."""
    grown = context.get("grown")
    is_whole = grown is not None and len(norms) <= grown["updates"] + 1
    return 0.1 * grown["before"] / norms[0] if grown is not None and is_whole and norms[0] else None


def first_rise(history: Sequence[float | None]) -> Rise | None:
    """Where values began to rise that have risen ever since, as far as they are known step by step."""
    begin = next((place for place, each in enumerate(history) if _is_known(each)), len(history))
    known = [abs(each or 0.0) for each in itertools.takewhile(_is_known, history[begin:])]
    factors = [after / before for before, after in itertools.pairwise(known)]
    run = list(itertools.takewhile(lambda each: each > 1.0, reversed(factors)))[::-1]
    if not run:
        return None
    place = next((place for place, each in enumerate(run) if each >= _GREW), run.index(max(run)))
    return Rise(begin + len(factors) - len(run) + place, run[place])


def _is_known(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value != 0.0


def with_rate(written: Mapping[str, Any], rate: str) -> str | None:
    """The line of a learning rate, of the context of an event, with another one; None if the line is not known."""
    line = written.get("code_line")
    return f"{line[: written['col']]}{rate}{line[written['end_col'] :]}" if line else None
