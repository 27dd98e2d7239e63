"""Batches that a program leaves out by itself because their loss is not finite: ``if isnan(loss): continue``."""

from __future__ import annotations

import weakref
from typing import Any

MOST = 8  # batches in a row, after which something is wrong that does not pass

_MOST_MET = 32  # losses that packages have checked and that are explained

IN_VAIN = (
    f"The program has left out {MOST} batches in a row for a loss that is not finite. As long as that goes on, nothing "
    "is trained, and nothing more is said of it."
)


class LeftOut:
    """Counts them, place by place of the program.

    Attributes
    ----------
    total
        How many there were.
    met
        The event of a loss that an installed package has checked since a derivative was asked for last: if it fails,
        that may be why.
    """

    def __init__(self) -> None:
        self.total = 0
        self.met: Any = None
        self._to_meet = _MOST_MET
        self._in_a_row: dict[Any, int] = {}
        self._latest: dict[Any, weakref.ref[Any]] = {}
        self._by_number: set[Any] = set()

    def note(self, place: Any, loss: Any, by_number: bool) -> bool:
        """Count a loss that is not finite, however often the program looks at it, and say whether to tell.

        ``by_number`` says that it looks at a number, of which nobody hears where that is finite.
        """
        (self._by_number.add if by_number else self._by_number.discard)(place)
        known = self._latest.get(place)
        if known is not None and known() is loss:
            return False
        self._latest[place] = weakref.ref(loss)
        self.total += 1
        self._in_a_row[place] = self._in_a_row.get(place, 0) + 1
        return self._in_a_row[place] == MOST

    def may_meet(self) -> bool:
        """Whether such an event is wanted: the first one, and of a package that goes on and on only the first few."""
        wanted = self.met is None and self._to_meet > 0
        self._to_meet -= wanted
        return wanted

    def is_fine(self, place: Any) -> None:
        """A loss is finite there."""
        if self._in_a_row:
            self._in_a_row.pop(place, None)
            self._latest.pop(place, None)

    def goes_on(self) -> None:
        """A derivative is asked for: where numbers are looked at, the last one was finite."""
        self.met = None
        while self._by_number:
            self.is_fine(self._by_number.pop())
