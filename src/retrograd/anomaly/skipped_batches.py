"""Batches that a program skips by itself because their loss is not finite: ``if isnan(loss): continue``.

A batch whose loss it replaces, for example by a constant, counts as skipped, too.
"""

from __future__ import annotations

import weakref
from types import FrameType
from typing import Any, NamedTuple

from retrograd.anomaly.event import NaNEvent, with_note
from retrograd.anomaly.stack_frames import is_own

MOST = 8  # batches in a row, after which the problem is taken to be permanent

_MOST_MET = 32  # losses that packages have checked and that are explained

IN_VAIN = (
    f"The program has skipped {MOST} batches in a row because their loss was not finite. While that goes on, nothing "
    "is trained. This warning is shown once."
)

REPLACED = (
    "The program replaced this loss with one that does not depend on the parameters, so there was nothing to "
    "differentiate. Fix the cause; until then, skip such batches instead."
)

_NO_GRADIENT = "does not require grad and does not have a grad_fn"  # what backward says, in both libraries


class CheckedLoss(NamedTuple):
    """A non-finite loss that the program checks by itself.

    Attributes
    ----------
    frame
        The frame that checks it.
    loss
        The tensor.
    leaves
        Whether the program may be about to leave a loop for it, and not only the batch.
    leaves_out
        Whether it then skips something that was to be computed; the head of a loop that goes on does not.
    replaces
        Whether another value may take the place of this one.
    returns
        Whether it leaves by a ``return`` alone, as a function does that is called for each batch.
    """

    frame: FrameType
    loss: Any
    leaves: bool
    leaves_out: bool
    replaces: bool
    returns: bool

    @property
    def is_own(self) -> bool:
        """Whether the program itself checks, rather than an installed package.

        How a package handles such a loss is its own business: a line search, for example, tries a closer point.
        """
        return is_own(self.frame.f_code)


class SkippedBatches:
    """Counts skipped batches, separately for each place in the program.

    Attributes
    ----------
    total
        How many there were.
    met
        The event of a loss that an installed package has checked since a derivative was last requested: if the
        package fails, that may be why.
    first
        The event of the first skipped batch about which something is known.
    """

    def __init__(self) -> None:
        self.total = 0
        self.met: NaNEvent | None = None
        self.first: NaNEvent | None = None
        self._replaced: NaNEvent | None = None
        self._to_meet = _MOST_MET
        self._in_a_row: dict[Any, int] = {}
        self._latest: dict[Any, weakref.ref[Any]] = {}
        self._by_number: set[Any] = set()
        self._explained: set[Any] = set()
        self._latest_places: set[Any] = set()  # since a derivative was last requested
        self._passed_over: set[Any] = set()  # places after which training went on

    def note(self, found: CheckedLoss, by_number: bool) -> bool:
        """Count a non-finite loss, once however often the program checks it, and say whether to report it.

        ``by_number`` says that the program checks a plain number; such checks go unnoticed while it is finite.
        """
        place, loss = found.frame.f_code, found.loss
        (self._by_number.add if by_number else self._by_number.discard)(place)
        known = self._latest.get(place)
        if known is not None and known() is loss:
            return False
        self._latest[place] = weakref.ref(loss)
        self.total += 1
        self._latest_places.add(place)
        self._in_a_row[place] = self._in_a_row.get(place, 0) + 1
        return self._in_a_row[place] == MOST

    def may_end(self, found: CheckedLoss) -> bool:
        """Whether the program may end for it: not if it returns from a function after which training went on before."""
        is_passed_over = found.returns and found.frame.f_code in self._passed_over
        return found.is_own and found.leaves and not is_passed_over

    def is_new(self, found: CheckedLoss) -> bool:
        """Whether nothing is known yet about losses that this place skips; to be asked once."""
        place = found.frame.f_code
        is_new = found.leaves_out and place not in self._explained
        self._explained.add(place)
        return is_new

    def explained(self, event: NaNEvent, found: CheckedLoss) -> None:
        """Keep what has been found out about such a loss."""
        if found.is_own and found.leaves_out and self.first is None:
            self.first = event
        if found.replaces:
            self._replaced = event

    def behind(self, error: BaseException, step: int) -> NaNEvent | None:
        """The loss that a step replaced by something ``backward`` refuses, if that is what an error says."""
        replaced = self._replaced
        is_it = replaced is not None and replaced.step == step and _NO_GRADIENT in str(error)
        return with_note(replaced, REPLACED) if replaced is not None and is_it else None

    @property
    def outcome(self) -> str:
        """What became of these steps, in the words of a report."""
        return f"the program skipped {self.total} such batches" if self.total > 1 else "the program skipped this batch"

    def may_meet(self) -> bool:
        """Whether such an event is wanted: only the first, and for packages that keep going only the first few."""
        wanted = self.met is None and self._to_meet > 0
        self._to_meet -= wanted
        return wanted

    def is_fine(self, place: Any) -> None:
        """Note that the loss at a place is finite."""
        if self._in_a_row:
            self._in_a_row.pop(place, None)
            self._latest.pop(place, None)

    def goes_on(self) -> None:
        """A derivative is requested: where plain numbers are checked, the last one was finite."""
        self.met = None
        if self._latest_places:
            self._passed_over |= self._latest_places
            self._latest_places = set()
        while self._by_number:
            self.is_fine(self._by_number.pop())
