"""Returned gradients that are not finite, and the leaves that they may be applied to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from retrograd.anomaly.adapters.torch.records.calls import is_bad
from retrograd.anomaly.adapters.torch.records.loss_tail import Tail
from retrograd.anomaly.adapters.torch.records.model_calls import ModelCall
from retrograd.anomaly.adapters.torch.records.recording import memory_of
from retrograd.anomaly.event import NaNEvent

_OLDEST = 8  # calls during which a suspicion is kept


@dataclass(eq=False)
class SuspectGradients:
    """Non-finite gradients that may be applied to leaves, which are still finite.

    Attributes
    ----------
    gradients
        The returned gradients, with their leaves.
    leaves
        The leaves that are finite, each with a tensor that shares its memory.
    losses
        The non-finite losses of the gradients whose graph has been kept.
    lost
        The same without their graph.
    tail, calls
        The work of the last operations in backward, and the calls of the model.
    step
        The number of the step.
    is_bad
        Whether gradients are not finite; otherwise the update is examined for other reasons.
    age
        How many calls there have been since.
    event
        Where the gradients came from, once something has been written.
    before
        The leaves that have been written to, as they were.
    spread
        Other tensors that a write has made non-finite, such as the program's own momentum, as they were.
    withheld
        Whether they are to stay as they were.
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
        """The leaves within the given memory."""
        return [leaf for leaf, _ in self.leaves if memory_of(leaf) in written]

    def is_over(self) -> bool:
        """Whether the program has moved on to use the leaves, or never will."""
        return bool(self.before) or self.age > _OLDEST or any(_moved(*each) for each in self.leaves)

    def spoilt(self) -> list[Tensor]:
        return [leaf for leaf, _ in self.leaves if is_bad(leaf)]

    def put_back(self) -> list[tuple[Tensor, Tensor, bool]]:
        """Restore the leaves, and return what they had become, for :func:`redo`."""
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
    """Undo :meth:`SuspectGradients.put_back`, given what it returned."""
    for tensor, became, moved in undone:
        if moved:
            tensor.data = became
        else:
            tensor.copy_(became)
