"""Returned gradients that are not finite, and the leaves that they may go to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from retrograd.anomaly.adapters.torch.records.calls import is_bad
from retrograd.anomaly.adapters.torch.records.forward import ModelCall
from retrograd.anomaly.adapters.torch.records.recording import memory_of
from retrograd.anomaly.adapters.torch.records.tail import Tail
from retrograd.anomaly.event import NaNEvent

_OLDEST = 8  # calls for which a suspicion is held


@dataclass(eq=False)
class Suspicion:
    """Gradients that are not finite and that may go to leaves, which still are.

    Attributes
    ----------
    gradients
        What was returned, with its leaves.
    leaves
        Those that are finite, with what shares their memory.
    losses
        What the gradients come from, where that is not finite and its graph has been kept.
    lost
        The same without a graph.
    tail, calls
        What the last operations did in backward, and how the model was called.
    step
        The number of the step.
    is_bad
        Whether gradients are not finite; else the update is looked at for other reasons.
    age
        How many calls there have been since.
    event
        How the gradients came about, once something has been written.
    before
        The leaves that have been written to, as they were.
    spread
        Other tensors that a write has made non-finite, such as a momentum of the program's own, as they were.
    withheld
        Whether they are to stay so.
    """

    gradients: list[tuple[Tensor, Tensor]]
    leaves: list[tuple[Tensor, Tensor]]
    losses: list[Tensor]
    lost: list[Tensor]
    tail: Tail | None
    calls: list[ModelCall]
    step: int
    is_bad: bool
    age: int = 0
    event: NaNEvent | None = None
    before: dict[int, Tensor] = field(default_factory=dict)
    spread: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    withheld: bool = False

    def within(self, written: set[int]) -> list[Tensor]:
        """The leaves in some memory."""
        return [leaf for leaf, _ in self.leaves if memory_of(leaf) in written]

    def is_over(self) -> bool:
        """Whether the program has gone on to use the leaves, or will not."""
        return bool(self.before) or self.age > _OLDEST or any(_moved(*each) for each in self.leaves)

    def spoilt(self) -> list[Tensor]:
        return [leaf for leaf, _ in self.leaves if is_bad(leaf)]

    def put_back(self) -> list[tuple[Tensor, Tensor, bool]]:
        """Make the leaves what they were, and return what they had become, for :func:`redo`."""
        undone = []
        for leaf, alias in self.leaves:
            if id(leaf) in self.before:
                undone.append((alias, alias.clone(), False))
                alias.copy_(self.before[id(leaf)])
            if _moved(leaf, alias):
                undone.append((leaf, leaf.detach(), True))
                leaf.data = alias
        return undone


def _moved(leaf: Tensor, alias: Tensor) -> bool:
    """Whether ``leaf.data`` has been assigned to."""
    return leaf.data_ptr() != alias.data_ptr()


def redo(undone: Sequence[tuple[Tensor, Tensor, bool]]) -> None:
    """Make leaves again what :meth:`Suspicion.put_back` says that they had become."""
    for tensor, became, moved in undone:
        if moved:
            tensor.data = became
        else:
            tensor.copy_(became)
