"""Which layer made a value that is not finite: the bookkeeping of one forward pass, for any tensor library.

A layer that is given finite values and puts out non-finite ones is the producer; one that is given non-finite values
passes them on. A value that is finite when one layer puts it out but not when the next takes it was born in between.
Every tensor is checked once: what one layer puts out and the next one takes is the same object at the same version.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from retrograd.anomaly.layer_detector.adapter import FINITE, Look, ModelAdapter


@dataclass(eq=False)
class Origin:
    """A place in the model where a value was not finite any more.

    Attributes
    ----------
    layer, module_type
        The layer that took it or put it out; "" is the model itself.
    tensor, look
        The value.
    is_input
        Whether the layer took it: then it was made before, outside all layers that are watched.
    came_in
        Whether it was given to the model.
    taken
        What the layer was given.
    after
        The layer that had ended last.
    since
        The adapter's mark of when the layer was called, or for an input, of when that other one ended.
    """

    layer: str
    module_type: str
    tensor: Any
    look: Look
    is_input: bool = False
    came_in: bool = False
    taken: Look = FINITE
    after: str | None = None
    since: Any = None

    @property
    def place(self) -> str:
        """The place in words: "the output of fc2"."""
        return f"the {'input' if self.is_input else 'output'} of {_called(self.layer)}"

    @property
    def remark(self) -> str | None:
        """Between which layers it happened, if not inside one."""
        if not self.is_input:
            return None
        if self.came_in:
            return f"It was born before {_called(self.layer)} was called, and came in with its arguments."
        after = f"after {self.after} had ended and " if self.after else ""
        return f"It was born between layers, {after}before {_called(self.layer)} was called."


def _called(layer: str) -> str:
    return layer or "the model"


class Reach(NamedTuple):
    """The smallest and the largest magnitude among the elements that a layer put out; NaN where not known."""

    absmin: float
    absmax: float

    def with_(self, absmin: float, absmax: float) -> Reach:
        """The range of these elements together with others."""
        return Reach(
            self.absmin if self.absmin <= absmin or math.isnan(self.absmin) else absmin,
            self.absmax if self.absmax >= absmax or math.isnan(self.absmax) else absmax,
        )


class Memory:
    """What is known about tensors at their current versions. It keeps none of them alive.

    Parameters
    ----------
    version
        Tells how often a tensor has been written to.
    """

    def __init__(self, version: Callable[[Any], int]) -> None:
        self._version = version
        self._known: dict[int, tuple[weakref.ref[Any], int, Any]] = {}

    def recall(self, tensor: Any) -> Any:
        """What is known of a tensor; None if nothing is, or if it has been written to since."""
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor or known[1] != self._version(tensor):
            return None
        return known[2]

    def remember(self, tensor: Any, what: Any) -> None:
        """Store what has been found out about a tensor."""
        self._known[id(tensor)] = weakref.ref(tensor), self._version(tensor), what


class _Known(NamedTuple):
    """What has been found out about a tensor."""

    look: Look | None  # None if it was not checked, because whatever is in it is intended
    origin: Origin | None  # None if it is finite or intended


@dataclass(eq=False, slots=True)
class _Call:
    """A layer that is being called, and the bad values that were given to it or put out inside it."""

    layer: str
    module: Any
    began: Any
    looked: bool = False  # at what was given to it
    seen: Look = FINITE
    origin: Origin | None = None  # of the first of them; None if they are intended

    def add(self, look: Look, origin: Origin | None) -> None:
        self.seen |= look
        self.origin = self.origin or origin


class ForwardPass:
    """What happens from the call of a layer until it ends, in one thread.

    Parameters
    ----------
    adapter
        For the tensors.
    given
        What is needed to call the model again, if that is known.
    fully
        Whether absolute minima are to be measured as well.

    Attributes
    ----------
    origins
        Where values became non-finite, in order; none for intended ones.
    put_out
        The bad tensors that the outermost layer put out, and where they became bad (None: intended).
    met_nan
        Whether there was a NaN anywhere, intended or not.
    reached
        The range of magnitudes that each layer put out, in the order in which the layers ended.
    step
        The number of the step that was under way; None if that is not known.
    """

    def __init__(self, adapter: ModelAdapter, given: Any = None, *, fully: bool = False) -> None:
        self.adapter = adapter
        self.given = given
        self.step: int | None = None
        self.met_nan = False
        self.reached: dict[str, Reach] = {}
        self._fully = fully
        self.origins: list[Origin] = []
        self.put_out: list[tuple[Any, Look, Origin | None]] = []
        self._calls: list[_Call] = []
        self._memory = Memory(adapter.version)
        self._last: str | None = None
        self._last_ended = adapter.now()

    @property
    def is_over(self) -> bool:
        return not self._calls

    def enter(self, layer: str, module: Any, taken: Sequence[Any] | None, meant: bool) -> None:
        """A layer is called with these tensors; ``meant`` says that whatever is in them is intended.

        If they are None, they are checked when the layer ends, and only if it puts out something bad.
        """
        call = _Call(layer, module, self.adapter.now())
        if taken is not None:
            self._take(call, taken, meant, came_in=not self._calls)
        self._calls.append(call)

    def leave(self, layer: str, taken: Callable[[], Sequence[Any]], made: Sequence[Any], meant: bool) -> list[Any]:
        """A layer given ``taken`` has put out ``made``. Return those tensors that no layer inside it put out."""
        call = self._ended(layer)
        new_ones: list[Any] = []
        if call is None:
            return new_ones
        for tensor in made:
            look, origin, is_new = self._meet(tensor)
            if is_new:
                new_ones.append(tensor)
            if is_new and look.bad and not meant:
                if not call.looked:
                    self._take(call, taken(), meant, came_in=not self._calls)
                handed_on = call.seen.bad and look.nan <= call.seen.nan
                origin = call.origin if handed_on else self._origin(call, tensor, look)
            self._memory.remember(tensor, _Known(look, origin))
            self._reach(layer, tensor, look)
            if look.bad:
                call.add(look, origin)
                if self._calls:
                    self._calls[-1].add(look, origin)
                else:
                    self.put_out.append((tensor, look, origin))
        self._last, self._last_ended = layer, self.adapter.now()
        return new_ones

    def found(self) -> list[tuple[Origin, Any]]:
        """Every NaN, and every infinity that the model put out except negative ones, which are typical of masks."""
        found = [(origin, origin.tensor) for origin in self.origins if origin.look.nan]
        for tensor, look, origin in self.put_out:
            if origin is not None and look.posinf and not look.nan:
                found.append((origin, tensor))
        return found

    def _reach(self, layer: str, tensor: Any, look: Look) -> None:
        absmax = math.nan if look.nan else look.absmax
        if look.nan or absmax == absmax:
            absmin = self.adapter.absmin(tensor) if self._fully else math.nan
            known = self.reached.get(layer)
            self.reached[layer] = Reach(absmin, absmax) if known is None else known.with_(absmin, absmax)

    def pass_by(self, made: Sequence[Any]) -> None:
        """A layer that is not watched has put out these tensors: whatever is in them is intended."""
        for tensor in made:
            if self._memory.recall(tensor) is None:
                self._memory.remember(tensor, _Known(None, None))

    def _take(self, call: _Call, taken: Sequence[Any], meant: bool, came_in: bool) -> None:
        call.looked = True
        for tensor in taken:
            look, origin, is_new = self._meet(tensor)
            if is_new and look.bad and not meant:
                origin = self._origin(call, tensor, look, is_input=True, came_in=came_in)
            if is_new:
                self._memory.remember(tensor, _Known(look, origin))
            if look.bad:
                call.add(look, origin)

    def _origin(self, call: _Call, tensor: Any, look: Look, *, is_input: bool = False, came_in: bool = False) -> Origin:
        origin = Origin(
            call.layer,
            type(call.module).__name__,
            tensor,
            look,
            is_input=is_input,
            came_in=came_in,
            taken=look if is_input else call.seen,
            after=self._last,
            since=self._last_ended if is_input else call.began,
        )
        self.origins.append(origin)
        return origin

    def _ended(self, layer: str) -> _Call | None:
        """The call of a layer that ends now; None if it began in another pass."""
        while self._calls:
            call = self._calls.pop()  # calls left behind by an interrupt are dropped here
            if call.layer == layer:
                return call
        return None

    def _meet(self, tensor: Any) -> tuple[Look, Origin | None, bool]:
        """What is in a tensor, where it came from, and whether this version of it is seen for the first time."""
        known = self._memory.recall(tensor)
        if known is None or known.look is None:
            look = self.adapter.look(tensor)
            self.met_nan = self.met_nan or look.nan
            if known is not None:
                self._memory.remember(tensor, _Known(look, None))
            return look, None, known is None
        return known.look, known.origin, False
