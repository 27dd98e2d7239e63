"""A call of a NumPy function, and the list of all calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class Fixed:
    """An argument that stays an array when its neighbours become Tensors."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass
class Call:
    """A call of a NumPy function.

    Attributes
    ----------
    name
        The function's name within NumPy, such as ``linalg.inv``.
    kind
        ``differentiable``; ``constant`` (integers, truth values and the like, without a gradient); ``undetached``
        (refuses Tensors that require grad, and works on others); ``writes`` (into its first argument, in place);
        ``described`` (no array as a result); ``made`` (a new Tensor, by ``like=``).
    via
        A function of NumPy's function and the arguments, if the result needs preparation.
    """

    name: str
    kind: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    via: Callable[..., Any] | None = None


CALLS: list[Call] = []


def _adder(kind: str) -> Callable[..., None]:
    def add(names: str, *args: Any, via: Callable[..., Any] | None = None, **kwargs: Any) -> None:
        CALLS.extend(Call(name, kind, args, kwargs, via) for name in names.split())

    return add


differentiable = _adder("differentiable")
constant = _adder("constant")
undetached = _adder("undetached")
writes = _adder("writes")
described = _adder("described")
made = _adder("made")
