"""The births that may be to blame, as many as memory allows."""

from __future__ import annotations

import threading
from types import FrameType

from retrograd.anomaly.adapters.retrograd.array_births import array_birth_at
from retrograd.anomaly.adapters.retrograd.births import Birth, size_of
from retrograd.anomaly.expected import expected

MOST_BIRTHS = 64  # of one step
MOST_BYTES = 64 << 20  # of arrays that they keep alive
MOST_COPIED = 4 << 20  # bytes of operands that are copied
MOST_BYTES_BEFORE = 16 << 20  # of arrays that births of earlier steps keep alive


class RecentBirths:
    """The births of the present step, and of earlier ones.

    Attributes
    ----------
    births
        Those of this step, in order.
    """

    def __init__(self) -> None:
        self.births: list[Birth] = []
        self._bytes = 0
        self._copied = 0  # bytes of copied operands, as the originals may be overwritten before they are needed
        self._before: dict[object, Birth] = {}
        self._lock = threading.RLock()

    def add(self, birth: Birth) -> None:
        with self._lock:
            if any(each.absorbs(birth) for each in self.births[-4:]):
                return
            if len(self.births) >= MOST_BIRTHS:
                self._drop(next((each for each in self.births if each.is_stale), self._one_in_the_middle()))
            self._bytes += (size := size_of(birth))
            if self._copied + size <= MOST_COPIED:
                self._copied += size
                birth.copy_operands()
            self.births.append(birth)
            self._drop_some()

    def complete(self, birth: Birth) -> bool:
        """Complete a birth reported earlier by a flag inside the call; return whether there is one."""
        with self._lock:
            for each in reversed(self.births):
                if not each.is_known and each.is_of_call(birth):
                    self._bytes -= size_of(each)
                    each.result, each.grads = birth.result, birth.grads
                    if birth.operands:
                        each.operands, each.copies = birth.operands, ()
                    self._bytes += size_of(each)
                    self._drop_some()
                    return True
        return False

    def _drop_some(self) -> None:
        """Drop births until memory is within its limit."""
        while self._bytes > MOST_BYTES and len(self.births) > 1:
            self._drop(self._one_in_the_middle())

    def _one_in_the_middle(self) -> Birth:
        """The one to drop first: in backward the first birth causes the others, in forward the first may be masks."""
        return self.births[(len(self.births) - 1) // 2]

    def _drop(self, birth: Birth) -> None:
        self._bytes -= size_of(birth)
        self.births.remove(birth)

    @property
    def before(self) -> list[Birth]:
        """The unrecorded births of earlier steps and those in plain arrays, the latest one for each place."""
        return list(self._before.values())

    def note_in_arrays(self, kind: str, frame: FrameType) -> None:
        """Keep what raised a flag in the program's own NumPy code: data may be made of it in any later step."""
        birth = None if kind == "underflow" or expected.depth else array_birth_at(kind, frame)
        if birth is not None:
            with self._lock:
                self._keep_for_later(birth)
                self._drop_those_before()

    def end_step(self) -> None:
        """Release what belongs to this thread's finished step."""
        if not self.births:  # in almost every step
            return
        this = threading.current_thread()
        with self._lock:
            over = [each for each in self.births if each.thread is this or not each.thread.is_alive()]
            self.births = [each for each in self.births if each not in over]
            self._bytes = sum(map(size_of, self.births))
            self._copied = 0
            for birth in over:
                if birth.is_unrecorded and birth.kinds != ["underflow"]:
                    birth.restore_operands()
                    self._keep_for_later(birth)
            self._drop_those_before()

    def _keep_for_later(self, birth: Birth) -> None:
        place = birth.name, birth.places
        self._before.pop(place, None)
        self._before[place] = birth

    def _drop_those_before(self) -> None:
        while self._before and (
            len(self._before) > MOST_BIRTHS or sum(map(size_of, self._before.values())) > MOST_BYTES_BEFORE
        ):
            del self._before[next(iter(self._before))]
