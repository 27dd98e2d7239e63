"""Arguments that are one number for all spatial dimensions, or one for each; options in a ``repr``; state dicts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def ntuple(value: Any, n: int) -> tuple[Any, ...]:
    """``n`` times the number, or the numbers given."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * n


# torch's names, which layers written elsewhere import.
_single, _pair, _triple, _quadruple = (partial(ntuple, n=n) for n in (1, 2, 3, 4))


def _ntuple(n: int) -> Any:
    return partial(ntuple, n=n)


def _reverse_repeat_tuple(t: Iterable[Any], n: int) -> tuple[Any, ...]:
    """The items in reversed order, each ``n`` times, as ``pad`` takes the padding of convolutions."""
    return tuple(item for item in reversed(tuple(t)) for _ in range(n))


def unless_default(options: dict[str, tuple[Any, Any]]) -> str:
    """The rest of a ``repr``: options, given by name with value and default, whose values differ from these."""
    return "".join(f", {name}={value}" for name, (value, default) in options.items() if value != default)


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix away from the keys of a state dict, in place, and from those of its metadata.

    Parameters
    ----------
    state_dict
        For example that of a model that was trained inside of ``DataParallel``.
    prefix
        ``"module."``, for example. Keys without it stay as they are.

    Examples
    --------
    >>> state = rg.nn.DataParallel(rg.nn.Linear(3, 2)).state_dict()
    >>> rg.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    >>> rg.nn.Linear(3, 2).load_state_dict(state)
    <All keys matched successfully>
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    # A module's key ends in its name, without the point that its parameters' names go on with.
    for key in [key for key in metadata if key and f"{key}.".startswith(prefix)]:
        metadata[key[len(prefix) :]] = metadata.pop(key)
