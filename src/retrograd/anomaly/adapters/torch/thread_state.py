"""The state of the step under way, one for each thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.boundaries.rollback import Withheld
from retrograd.anomaly.adapters.torch.gradient_checks.gradients import Seen
from retrograd.anomaly.adapters.torch.records.loss_tail import Tail
from retrograd.anomaly.adapters.torch.runtime.frames import Steps, Turns
from retrograd.anomaly.adapters.torch.runtime.graph_capture import capturing


class ThreadState(threading.local):
    """Where a thread is between a loss and its update; several may train at once.

    Parameters
    ----------
    optimizer
        The optimizer that will step, if known beforehand.

    Attributes
    ----------
    optimizer
        The optimizer that stepped last.
    at_work
        Whether our own work is under way, which is not watched.
    withheld, withheld_from
        Whether the coming update is to be left out, and the ids of the leaves that it would change.
    hidden
        What is hidden from the optimizer while its update is left out.
    loss_is_told, told
        Whether a bad loss was reported, so that gradients that come from it are no news; and the leaves whose gradients
        were reported, until the next update.
    waiting
        Losses on a device, to be read with the gradients.
    checked, clipping
        Gradients that clipping has shown to be finite, and those that it was given.
    norm
        The norm of the coming update's gradients, if they were checked.
    went_back
        Whether there was a backward since the last update.
    weight
        One of the weights, with its version at the end of the last backward; None once an optimizer has stepped.
    gradient
        That weight, its gradient then, and the gradient's version.
    writes_between
        Whether the program has written to weights between two backward passes without an optimizer's step, as in
        sharpness-aware minimization: then the gradients of each pass are checked.
    tail
        The loss function's work in backward.
    steps, turns
        The optimizers that are stepping, and those that have had their turn.
    """

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.at_work = False
        self.withheld = False
        self.withheld_from: set[int] = set()
        self._left: list[tuple[ref[Tensor], int, ref[Tensor] | None]] = []  # leaves, their versions and their gradients
        self.hidden: Withheld | None = None
        self.loss_is_told = False
        self.told: dict[int, Tensor] = {}
        self.waiting: list[Tensor] = []
        self.checked: Seen | None = None
        self.clipping: dict[str, Any] | None = None
        self.norm: float | None = None
        self.went_back = False
        self.weight: tuple[ref[Tensor], int] | None = None
        self.gradient: tuple[ref[Tensor], ref[Tensor], int] | None = None
        self.writes_between = False
        self.tail: Tail | None = None
        self.steps = Steps()
        self.turns = Turns()

    def backward_begins(self) -> None:
        """Note whether a weight was written to since the last backward, and whether the step before has ended."""
        self.loss_is_told &= self.optimizer is not None  # without one the end of a step is unknown
        self.withheld = self.still_withheld()
        if self.weight is not None and (weight := self.weight[0]()) is not None:
            self.writes_between |= weight._version != self.weight[1]

    def withhold(self, leaves: Sequence[Tensor]) -> None:
        """Have the coming update left out; if it may be made by hand, zero its gradients."""
        self.withheld, self.withheld_from = True, {id(leaf) for leaf in leaves}
        by_hand = self.optimizer is None or self.writes_between
        for leaf in leaves if by_hand else ():
            leaf.grad = torch.zeros_like(leaf)
        self._leave(leaves if self.optimizer is None else ())

    def show_hidden(self) -> None:
        """Give the optimizer back what was hidden from it."""
        if self.hidden is not None:
            self.hidden.restore()
            self.hidden = None

    def _leave(self, leaves: Iterable[Tensor]) -> None:
        """Note what an update by hand would change."""
        self._left = [(ref(leaf), leaf._version, None if leaf.grad is None else ref(leaf.grad)) for leaf in leaves]

    def still_withheld(self) -> bool:
        """Whether an update is still to be left out: none was made by hand with the zeros, which are cleared then."""
        by_hand = False
        for held, version, gradient in self._left:
            leaf = held()
            if leaf is not None:
                by_hand |= leaf._version != version or (gradient is not None and gradient() is not leaf.grad)
        return self.withheld and not by_hand

    def restored(self, withheld: bool) -> None:
        """Called when leaves were restored around a second run; ``withheld``: whether to leave out the next update."""
        self.withheld = withheld
        self._leave([leaf for held, *_ in self._left if (leaf := held()) is not None])

    def backward_ended(self) -> None:
        """Note that there was a backward, and a weight's version if an optimizer is known and not stepping."""
        self.went_back = True
        groups = () if self.optimizer is None or self.steps.any else self.optimizer.param_groups
        weights = (each for group in groups for each in group["params"])
        weight = next((each for each in weights if each.grad is not None), None)
        self.weight = None if weight is None else (ref(weight), weight._version)
        gradient = None if weight is None else weight.grad
        self.gradient = None if weight is None or gradient is None else (ref(weight), ref(gradient), gradient._version)

    @property
    def gradient_is_changed(self) -> bool:
        """Whether the gradient of one of the weights is not the one that the last backward left."""
        weight, known, version = self.gradient or (None, None, 0)
        present = None if weight is None or (leaf := weight()) is None else leaf.grad
        return present is not None and (known is None or known() is not present or present._version != version)

    @property
    def busy(self) -> bool:
        """Whether nothing can be checked now: our own work is under way, or nothing can be read."""
        return self.at_work or capturing()
