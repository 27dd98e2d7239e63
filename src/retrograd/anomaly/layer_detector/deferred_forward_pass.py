"""A forward pass whose values are checked later, all at once: whether anything was bad, and in which layer first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from retrograd.anomaly.layer_detector.adapter import Look, LooksLater, ModelAdapter
from retrograd.anomaly.layer_detector.forward_pass import Memory, Origin, Reach


class DeferredForwardPass:
    """What happens from the call of a layer until it ends, in one thread; no value is read meanwhile.

    It is used like a :class:`~retrograd.anomaly.layer_detector.forward_pass.ForwardPass`. A second call of the model
    supplies what it lacks.

    Parameters
    ----------
    adapter, later
        For the tensors, and for checks whose results come later.
    given
        What is needed to call the model again.
    """

    def __init__(self, adapter: ModelAdapter, later: LooksLater, given: Any) -> None:
        self.given = given
        self.step: int | None = None
        self.reached: dict[str, Reach] = {}
        self._later = later
        self._calls: list[tuple[str, Any]] = []
        self._memory = Memory(adapter.version)  # the number of the look at each tensor
        self._put_out: set[int] = set()
        self._asked: list[Any] = []
        self._origins: list[Origin] = []
        self._last: str | None = None

    @property
    def is_over(self) -> bool:
        return not self._calls

    def enter(self, layer: str, module: Any, taken: Sequence[Any] | None, meant: bool) -> None:
        """A layer is called with these tensors."""
        for tensor in taken or ():
            if self._memory.recall(tensor) is None:
                origin = Origin(layer, type(module).__name__, None, Look(), True, not self._calls, after=self._last)
                self._ask(tensor, origin, meant)
        self._calls.append((layer, module))

    def leave(self, layer: str, taken: Callable[[], Sequence[Any]], made: Sequence[Any], meant: bool) -> list[Any]:
        """A layer has put out ``made``. Return those tensors that no layer inside it put out."""
        module = None
        while self._calls and module is None:
            called, module = self._calls.pop()
            module = module if called == layer else None  # calls left behind by an interrupt are dropped here
        if module is None:
            return []
        new_ones = [tensor for tensor in made if self._memory.recall(tensor) is None]
        for tensor in new_ones:
            self._ask(tensor, Origin(layer, type(module).__name__, None, Look()), meant)
        if not self._calls:
            self._put_out = {self._memory.recall(tensor) for tensor in made}
        self._last = layer
        return new_ones

    def pass_by(self, made: Sequence[Any]) -> None:
        """A layer that is not watched has put out these tensors: whatever is in them is intended."""
        for tensor in made:
            if self._memory.recall(tensor) is None:
                self._memory.remember(tensor, MEANT)

    def found(self) -> list[tuple[Origin, Any]]:
        """The first layer that took or put out something bad, as far as can be told, or nothing.

        The program waits for the device here.
        """
        asked, self._asked = self._asked, []
        for number, look in enumerate(self._later.answers(asked)):
            origin = self._origins[number]
            origin.look = look
            if not origin.is_input:
                reach = Reach(math.nan, look.absmax)
                known = self.reached.get(origin.layer)
                self.reached[origin.layer] = reach if known is None else known.with_(*reach)
        wrong = (
            origin
            for number, origin in enumerate(self._origins)
            if origin.look.nan or (origin.look.posinf and number in self._put_out)
        )
        return [(origin, None) for origin in [next(wrong, None)] if origin is not None]

    def _ask(self, tensor: Any, origin: Origin, meant: bool) -> None:
        if meant:
            self._memory.remember(tensor, MEANT)
            return
        self._memory.remember(tensor, len(self._asked))
        self._asked.append(self._later.ask(tensor))
        self._origins.append(origin)


MEANT = -1
"""Stands for the check of a tensor whose contents are intended, whatever they are."""


def first_of_compiled(looks: Iterable[tuple[str, Look]], type_of: Callable[[str], str]) -> list[tuple[Origin, Any]]:
    """The layer that made the bad output of compiled layers, as far as can be told without their order, or nothing.

    The layers around a layer put out its bad values, too; so a layer that contains another bad one is ruled out.
    """
    wrong = {layer: look for layer, look in looks if look.nan or (look.posinf and not layer)}
    for layer, look in wrong.items():
        inside = f"{layer}." if layer else ""
        if not any(other != layer and other.startswith(inside) for other in wrong):
            return [(Origin(layer, type_of(layer), None, look), None)]
    return []
