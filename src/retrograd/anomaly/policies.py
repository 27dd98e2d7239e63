"""What to do about an anomaly, for each kind of harm; and whose infinities are intended."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from retrograd.anomaly.operation_names import KNOWN, canonical, names_like
from retrograd.anomaly.stack_frames import depth_of_user

KINDS = ("nan", "inf", "overflow", "underflow", "spike")
ACTIONS = ("ignore", "record", "warn", "raise", "skip_step")
_DEFAULTS = {"nan": "raise", "inf": "raise", "overflow": "ignore", "underflow": "ignore", "spike": "ignore"}

Action = str | Callable[[Any], "str | None"]


def policies_of(policy: str | Mapping[str, Action] | Callable[[Any], str | None]) -> dict[str, Action]:
    """The action for each kind of harm."""
    if isinstance(policy, str) or callable(policy):
        policy = {"nan": policy, "inf": policy}
    if not isinstance(policy, Mapping):
        raise TypeError(
            f"policy must be one of {', '.join(ACTIONS)}, a function of the event, or a dictionary from kinds to "
            f"these, but got {policy!r}"
        )
    unknown = sorted(map(str, set(policy) - set(KINDS)))
    if unknown:
        raise ValueError(f"no such kind of anomaly: {', '.join(unknown)}; the kinds are {', '.join(KINDS)}")
    for kind, action in policy.items():
        if not callable(action) and action not in ACTIONS:
            raise ValueError(
                f"no such policy for {kind}: {action!r}; give one of {', '.join(ACTIONS)}, or a function of the event"
            )
    return {**_DEFAULTS, **policy}


def operations_allowed(names: str | Iterable[str]) -> frozenset[str]:
    """The operation or operations given as ``allow``, also under the names that they have in events.

    A misspelt name would silently allow nothing. So an unknown name that looks like a function is refused. An unknown
    class, which a program may define later as its own Function, or an operator in the namespace of a library that may
    be imported later, only causes a warning.

    Raises
    ------
    ValueError
        If neither library has such an operation.
    """
    from retrograd.anomaly.adapters.known_operations import functions_known, is_operation

    given = names_allowed("allow", names)
    for name in sorted(given, key=str):
        if not isinstance(name, str):
            raise TypeError(f"allow takes names of operations, such as 'log', but got {name!r}")
        if canonical(name) in KNOWN or is_operation(name):
            continue
        alike = names_like(name, functions_known())
        advice = f"did you mean {' or '.join(map(repr, alike))}?" if alike else "pass names as in allow=['log', 'div']."
        problem = f"allow: there is no operation {name!r}; {advice}"
        if name.islower() and name.isidentifier():
            raise ValueError(f"{problem} Define a Function of your own before the watch is created")
        warnings.warn(
            f"{problem} The name takes effect if a Function of that name is defined later",
            UserWarning,
            stacklevel=depth_of_user(),
        )
    return given | {canonical(name) for name in given}


def names_allowed(option: str, names: str | Iterable[str], model: Any = None) -> frozenset[str]:
    """The name or names given for ``option``; with a ``model``, they must be names of its modules.

    Raises
    ------
    TypeError
        If it is neither.
    ValueError
        If the model has no such module.
    """
    if not isinstance(names, Iterable):
        raise TypeError(f"{option} takes a name, or a list of names, but got {names!r}")
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
    """Whether any of these modules has one of these names in a model."""
    if model is None or not modules or not names:
        return False
    named = dict(model.named_modules())
    return any(named.get(name) is module for name in names for module in modules)


class LetThrough:
    """The step whose update went on with bad gradients, because the policy is to warn or to record only."""

    def __init__(self) -> None:
        self._step: int | None = None
        self._last = 0  # the last of the uninterrupted run of bad steps after it

    def note(self, step: int | None, is_birth: bool) -> None:
        """Note that this step's gradients are bad and its update goes on.

        A birth in it shows that the weights survived all earlier updates.
        """
        step = step or self._last + 1
        if is_birth or self._step is None:
            self._step = step
        self._last = max(self._last, step)

    def before(self, step: int | None) -> int | None:
        """The step that a bad weight in this one comes from; None if steps in between were healthy."""
        return self._step if step is not None and step <= self._last + 1 else None
