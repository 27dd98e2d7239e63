"""What the detector needs to know of a tensor library."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

from retrograd.anomaly.event import NaNEvent


class Look(NamedTuple):
    """What one pass over a tensor reveals.

    Attributes
    ----------
    nan, posinf, neginf
        Whether there is one.
    low, high
        The smallest and the largest element; NaN if that is not known.
    """

    nan: bool = False
    posinf: bool = False
    neginf: bool = False
    low: float = math.nan
    high: float = math.nan

    @property
    def bad(self) -> bool:
        return self.nan or self.posinf or self.neginf

    @property
    def inf(self) -> bool:
        return self.posinf or self.neginf

    @property
    def absmax(self) -> float:
        """The largest absolute value; NaN if there is a NaN, or if it is not known."""
        return max(abs(self.low), abs(self.high))

    def __or__(self, other: Look) -> Look:
        return Look(self.nan or other.nan, self.posinf or other.posinf, self.neginf or other.neginf)


FINITE = Look()


class Handle(Protocol):
    """What registering a hook returns."""

    def remove(self) -> None:
        """Take the hook away."""


class ModelAdapter(Protocol):
    """What the detector needs to know of a tensor library: everything that touches its tensors and modules.

    A module has ``named_parameters(recurse=False)`` and ``get_submodule(name)``, as torch's has.

    Attributes
    ----------
    budget
        The share of the running time that the watch along with the detector may take.
    """

    budget: float

    def layers(self) -> Iterator[tuple[str, Any]]:
        """Return the modules of the model with their names; the model itself has the name ""."""

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor that can hold a NaN, with elements at hand (not empty, meta or fake)."""

    def version(self, tensor: Any) -> int:
        """Return a number that changes whenever the tensor is written to."""

    def look(self, tensor: Any) -> Look:
        """Return what is in a tensor, in one pass (and one synchronisation) as long as all of it is finite."""

    def absmin(self, tensor: Any) -> float:
        """Return the smallest absolute value in a tensor."""

    def describe(self, tensor: Any) -> dict[str, Any]:
        """Return the fields of a NaNEvent about a tensor: ``index``, ``nan_count``, ``output_stats`` and so on."""

    def hook(
        self, module: Any, before: Callable[..., None] | None, after: Callable[..., None] | None
    ) -> Sequence[Handle]:
        """Have ``before(module, args, kwargs)`` and ``after(module, args, kwargs, output)`` called around ``forward``.

        ``after`` is called with None as output if ``forward`` raises.
        """

    def hook_gradient(self, tensor: Any, told: Callable[[Any], None]) -> None:
        """Have ``told(gradient)`` called when the gradient of a tensor is computed, if it will be."""

    def gradient_norms(self, model: Any) -> Mapping[tuple[str, str], float]:
        """Return the norms of all gradients that there are, by the names of module and parameter; one synchronisation.

        The module's name is "" for the model itself.
        """

    def now(self) -> Any:
        """Return a mark of the current moment, for ``since`` of :meth:`explain`."""

    def explain(self, tensor: Any, since: Any, came_in: bool) -> NaNEvent | None:
        """Return the birth behind a tensor that is not finite: operation, line, element, operands. None if unknown.

        Parameters
        ----------
        tensor
            As a layer took it or put it out.
        since
            The mark of the moment after which it was probably born.
        came_in
            Whether it was given to the model from outside.
        """


@runtime_checkable
class LooksLater(Protocol):
    """An optional capability of adapters whose tensors are not always readable, and whose modules can be called twice.

    A device computes while the program runs ahead; checking one of its tensors would make the program wait. A compiled
    module calls no hooks. In both cases we only learn later, for everything at once, that something was bad; the layer,
    operation and line are found by calling the model again.
    """

    def follow(self, told: Callable[[], None]) -> Sequence[Handle]:
        """Have ``told()`` called before weights are changed, and start checking in compiled code."""

    def must_wait(self) -> bool:
        """Whether checking the tensors of the coming call of the model would make the program wait."""

    def given(self, args: Any, kwargs: Any) -> Any:
        """Return what is needed to call the model again as it is called now."""

    def ask(self, tensor: Any) -> Any:
        """Start checking a tensor, and return at once."""

    def answers(self, asked: Sequence[Any]) -> list[Look]:
        """Return the results of the checks; one synchronisation."""

    def compiled(self) -> tuple[Any, list[tuple[str, Look]]]:
        """What ``given`` would be for the last call of a compiled model, and what its layers have put out since.

        None and an empty list if nothing that was compiled has run.
        """

    def was_compiled_before(self) -> bool:
        """Whether the model had been compiled, and perhaps called, before :meth:`follow`."""

    def once_more(self, given: Any) -> AbstractContextManager[Callable[[], bool] | None]:
        """A context that gives a function, or None if the model cannot be called again.

        The function repeats the call of the model with each operation recorded and without side effects, and returns
        whether that worked. Within the context ``explain`` knows the tensors of this second call.
        """
