"""The number of training steps made, as counted by their callers."""

from __future__ import annotations

from typing import ClassVar

from retrograd.core.sites import warn_user


class KinetoStepTracker:
    """Counts steps for several requesters; the number of steps is the largest of their counts.

    A profiler and several optimizers may all announce each step; it counts once.

    >>> tracker = rg.autograd.profiler.KinetoStepTracker
    >>> before = tracker.current_step()
    >>> tracker.init_step_count("loop")
    >>> tracker.increment_step("loop") - before
    1
    >>> tracker.erase_step_count("loop")
    True
    """

    _current_step = 0
    _step_dict: ClassVar[dict[str, int]] = {}

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Let a requester begin at the current step."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Forget a requester; return whether it was known."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count a step of a requester, and return the number of steps made."""
        count = cls._step_dict.get(requester, cls._current_step) + 1
        cls._step_dict[requester] = count
        latest = max(cls._step_dict.values())
        if latest - cls._current_step > 1:
            warn_user(
                f"Profiler step count has increased more than 1 - current_step = {cls._current_step} "
                f"step dict = {cls._step_dict}"
            )
        cls._current_step = max(latest, cls._current_step)
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """Return the number of steps made."""
        return cls._current_step
