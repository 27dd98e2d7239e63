"""Gradient norms that leave their usual range, reported while they are still finite.

What is usual is learned, because no one number suits every model, loss and phase of training. The norms of one run
spread over several powers of ten, so their logarithms are looked at; their location and scale are the median and the
median absolute deviation of a running window, which a few outliers cannot move (F. R. Hampel, "The influence curve and
its role in robust estimation", Journal of the American Statistical Association 69, 1974). A norm is a spike if its
logarithm lies more than ``sensitivity`` scales above the median.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from retrograd.anomaly.event import GradEvent

SENSITIVITY = 8.0
"""Scales above the median; digits trained for 10,000 steps stay below 5, a learning rate too high reaches 10 to 100."""

NORMAL = 1.4826  # the standard deviation of a normal distribution, in median absolute deviations
LARGEST_UPDATE = 1.0
"""Relative to the weights. 1e-3 is usual; an update as large as all weights together leaves nothing of them."""

FIRST_SCALE = 1.0  # assumed before anything is known: a factor of e is not unusual
LEAST_SCALE = 0.25  # norms that hardly vary may still grow by a factor of exp(8 * 0.25) = 7


class RunningThreshold:
    """Learns from a series of positive numbers above which a further one is unusual.

    Parameters
    ----------
    sensitivity : float
        How many robust standard deviations of the logarithms above their median.
    window : int
        How many numbers are remembered.
    warm_up : int
        The weight, in numbers, of the first assumption about their scale; until then the threshold is generous.
    ceiling : float
        What always counts as unusual, once enough numbers are known.

    Examples
    --------
    >>> from retrograd.anomaly.gradient_guard import RunningThreshold
    >>> usual = RunningThreshold()
    >>> [usual.exceeded_by(norm) for norm in (1.0, 1.2, 0.9, 1.1, 0.8)]
    [False, False, False, False, False]
    >>> usual.exceeded_by(1e6)
    True
    """

    __slots__ = ("_age", "_ceiling", "_limit", "_logs", "_sensitivity", "_warm_up")

    def __init__(
        self, sensitivity: float = SENSITIVITY, window: int = 128, warm_up: int = 16, ceiling: float = math.inf
    ) -> None:
        self._ceiling = math.log(ceiling)
        self._sensitivity = sensitivity
        self._warm_up = warm_up
        self._logs: deque[float] = deque(maxlen=window)
        self._limit = math.inf
        self._age = 0

    @property
    def value(self) -> float:
        """The threshold; infinite until two numbers are known."""
        return math.exp(self._limit) if self._limit < _LARGEST else math.inf

    def exceeded_by(self, number: float) -> bool:
        """Whether ``number`` is unusual; it is learned from, unless it is zero or not finite.

        An unusual number counts as one at the threshold, so that one outlier teaches little, and a lasting new level
        becomes the usual one within a window.
        """
        if not 0.0 < number < math.inf:
            return False
        log = math.log(number)
        # Within the usual range an older limit suffices; a new one would differ little and costs two sorts.
        if log > self._limit or self._age * 8 >= len(self._logs):
            self._learn()
        self._age += 1
        unusual = log > self._limit
        self._logs.append(min(log, self._limit))
        return unusual

    def _learn(self) -> None:
        self._age = 0
        logs = self._logs.copy()  # another thread may add to them meanwhile
        count = len(logs)
        if count < 2:
            return
        middle = _median(logs)
        scale = NORMAL * _median(abs(log - middle) for log in logs)
        scale = (scale * count + FIRST_SCALE * self._warm_up) / (count + self._warm_up)
        self._limit = middle + self._sensitivity * max(scale, LEAST_SCALE)
        if count >= self._warm_up:
            self._limit = min(self._limit, self._ceiling)


def _median(numbers: Iterable[float]) -> float:  # the module statistics would triple the time to import this one
    ordered = sorted(numbers)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else 0.5 * (ordered[half - 1] + ordered[half])


_LARGEST = math.log(1.7e308)


ALL = "all parameters"
"""The name of a spike that no parameter shows by itself."""


class Spike(NamedTuple):
    """A gradient norm above its threshold."""

    name: str
    norm: float
    threshold: float


class GradientGuard:
    """Detects, step by step, gradients that grow beyond their usual size or beyond a fixed bound.

    Parameters
    ----------
    threshold : float or "auto"
        A bound for the norm of each parameter's gradient. "auto" learns two kinds of bounds: one for the norm of all
        gradients together, which decides, and one for each parameter, which shows where.
    sensitivity : float
        For "auto": how far beyond the usual, in robust standard deviations of the logarithm of the norm.
    window : int
        For "auto": how many steps are remembered.

    Attributes
    ----------
    norm : float
        The norm of all gradients of the last step.

    Raises
    ------
    ValueError
        If the threshold is neither positive nor "auto", the sensitivity not positive, or the window below 2.

    Examples
    --------
    >>> from retrograd.anomaly import GradientGuard
    >>> guard = GradientGuard()
    >>> for step in range(50):
    ...     assert not guard.observe({"fc.weight": 1.0 + step % 3, "fc.bias": 0.1})
    >>> [spike.name for spike in guard.observe({"fc.weight": 5e4, "fc.bias": 0.1})]
    ['fc.weight']
    """

    def __init__(self, threshold: float | str = "auto", *, sensitivity: float = SENSITIVITY, window: int = 128) -> None:
        self.fixed = None if threshold == "auto" else _positive(threshold)
        if not sensitivity > 0:
            raise ValueError(f"sensitivity must be a positive number of standard deviations, but got {sensitivity!r}")
        if window < 2:
            raise ValueError(f"window must be at least 2 steps, but got {window!r}")
        self.norm = 0.0
        self._sensitivity = sensitivity
        self._window = window
        self._total = self._new()
        self._each: dict[str, RunningThreshold] = {}

    @property
    def threshold(self) -> float:
        """The bound: the fixed one, or what has been learned for the norm of all gradients together."""
        return self._total.value if self.fixed is None else self.fixed

    def observe(self, norms: Mapping[str, float]) -> list[Spike]:
        """Check the gradient norms of one step.

        Parameters
        ----------
        norms : mapping of str to float
            The norm of each parameter's gradient, by the parameter's name.

        Returns
        -------
        list of Spike
            The parameters whose gradients are not finite or above their threshold, the worst first.

        Raises
        ------
        TypeError
            If it is given something else, such as one number for all of them.
        """
        if not isinstance(norms, Mapping):
            raise TypeError(
                f"norms must map parameter names to gradient norms, but got {norms!r}; for a single norm give one "
                "name, as in observe({'all': norm})"
            )
        self.norm = math.hypot(*norms.values())
        if self.fixed is not None:
            found = [Spike(name, norm, self.fixed) for name, norm in norms.items() if not norm <= self.fixed]
        elif not math.isfinite(self.norm):
            found = [Spike(name, norm, self._of(name).value) for name, norm in norms.items() if not math.isfinite(norm)]
        else:
            unusual = self._total.exceeded_by(self.norm)
            above = [name for name, norm in norms.items() if self._of(name).exceeded_by(norm)]
            found = [Spike(name, norms[name], self._of(name).value) for name in above] if unusual else []
            if unusual and not found:  # a little in each of them
                found = [Spike(ALL, self.norm, self._total.value)]
        return sorted(found, key=_excess, reverse=True)

    def _of(self, name: str) -> RunningThreshold:
        known = self._each.get(name)
        if known is None:
            known = self._each[name] = self._new()
        return known

    def _new(self) -> RunningThreshold:
        return RunningThreshold(self._sensitivity, self._window)


class Growth:
    """Reports gradients and updates that have grown beyond their usual size, as events."""

    def __init__(self) -> None:
        self._gradients = GradientGuard()
        self._updates = RunningThreshold(ceiling=LARGEST_UPDATE)

    def event(
        self, norms: Mapping[str, float], update_ratio: float | None, batch_idx: int, *, by_module: bool
    ) -> GradEvent | None:
        """Check the norms of one step; return an event for its worst gradient, or else the last update, if unusual.

        Parameters
        ----------
        norms
            The norms of the gradients, by parameter; all finite.
        update_ratio
            The norm of the last update divided by the norm of the weights, if known.
        batch_idx
            Of the step.
        by_module
            Whether parameter names come from a model, and so begin with the name of a layer.
        """
        found: list[tuple[Spike, str]] = []
        if update_ratio is not None and self._updates.exceeded_by(update_ratio):
            found = [(Spike(ALL, update_ratio, self._updates.value), "update-to-weight ratio")]
        found = [(spike, "gradient norm") for spike in self._gradients.observe(norms)[:1]] or found
        if not found:
            return None
        ((name, size, threshold), quantity) = found[0]
        layer, _, parameter = name.rpartition(".") if by_module else ("", "", name)
        return GradEvent(
            batch_idx=batch_idx,
            layer_name=layer,
            param_name=parameter,
            grad_norm=size,
            threshold=threshold,
            quantity=quantity,
        )


def _positive(threshold: float | str) -> float:
    if isinstance(threshold, (int, float)) and not isinstance(threshold, bool) and threshold > 0:
        return float(threshold)
    raise ValueError(f'the threshold of gradient norms must be a positive number or "auto", but got {threshold!r}')


def _excess(spike: Spike) -> float:
    return spike.norm / spike.threshold if math.isfinite(spike.norm) else math.inf
