"""What to do about an anomaly, for each kind of harm; and whose infinities are meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

KINDS = ("nan", "inf", "overflow", "underflow", "spike")
ACTIONS = ("ignore", "record", "warn", "raise", "skip_step")
_DEFAULTS = {"nan": "raise", "inf": "raise", "overflow": "ignore", "underflow": "ignore", "spike": "ignore"}

Action = str | Callable[[Any], "str | None"]


def policies_of(policy: str | Mapping[str, Action] | Callable[[Any], str | None]) -> dict[str, Action]:
    """What to do for each kind."""
    if isinstance(policy, str) or callable(policy):
        policy = {"nan": policy, "inf": policy}
    unknown = set(policy) - set(KINDS)
    if unknown:
        raise ValueError(f"no such kind of anomaly: {', '.join(sorted(unknown))}; the kinds are {', '.join(KINDS)}")
    for kind, action in policy.items():
        if not callable(action) and action not in ACTIONS:
            raise ValueError(
                f"no such policy for {kind}: {action!r}; give one of {', '.join(ACTIONS)}, or a function of the event"
            )
    return {**_DEFAULTS, **policy}


def names_allowed(option: str, names: str | Iterable[str], model: Any = None) -> frozenset[str]:
    """The names, or the one name, given for ``option``; with a ``model``, those of its modules.

    Raises
    ------
    ValueError
        If the model has no such module.
    """
    allowed = frozenset([names] if isinstance(names, str) else names)
    if model is None:
        return allowed
    known = [name for name, _ in model.named_modules()]
    for name in sorted(allowed.difference(known)):
        alike = next((full for full in known if full.endswith(f".{name}")), None)
        advice = "the names are those of model.named_modules()" if alike is None else f"did you mean {alike!r}?"
        raise ValueError(f"{option}: the model has no module {name!r}; {advice}")
    return allowed


def are_among(modules: Sequence[Any], names: Iterable[str], model: Any) -> bool:
    """Whether one of some modules has one of these names in a model."""
    if model is None or not modules or not names:
        return False
    named = dict(model.named_modules())
    return any(named.get(name) is module for name in names for module in modules)


class LetThrough:
    """From which step on updates have gone on with bad gradients, because the policy is to warn or to record only."""

    def __init__(self) -> None:
        self.since: int | None = None
        self._last = 0

    def note(self, step: int | None) -> None:
        """Say that this step's gradients are bad and its update goes on; what follows at once comes of the first."""
        step = step or self._last + 1
        if self.since is None or step > self._last + 1:
            self.since = step
        self._last = max(self._last, step)
