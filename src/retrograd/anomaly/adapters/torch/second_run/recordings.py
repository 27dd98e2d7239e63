"""When every operation is recorded: in the second run of a step, or from a given step on."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.optim.swa_utils import AveragedModel

from retrograd.anomaly.adapters.frozen_schedules import freeze_schedules
from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.torch.records.recording import Recorder
from retrograd.anomaly.adapters.torch.runtime.compilation import uncompiled
from retrograd.anomaly.adapters.torch.runtime.frames import has_own_step, within_backward
from retrograd.anomaly.adapters.torch.runtime.graph_capture import capturing
from retrograd.anomaly.adapters.torch.runtime.modes import above
from retrograd.anomaly.adapters.torch.second_run.loaded_samples import LoadedSamples
from retrograd.anomaly.adapters.torch.second_run.snapshot import Copies, Gradients, Snapshot
from retrograd.anomaly.monitor import Watch

KEPT_STEPS = 4  # steps whose operations are kept once everything is recorded permanently


class Recordings:
    """The record of the present step, and what has to be restored after a second run.

    Parameters
    ----------
    watch
        May request to record everything from some step on.

    Attributes
    ----------
    recorder
        The recorder, if operations are recorded now.
    samples
        Loads a bad sample of a batch once more.
    rehearsing
        Whether a second run is under way, in which nothing may be counted or updated.
    attempted
        Whether an optimizer has tried to update in it.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.recorder: Recorder | None = None
        self.samples = LoadedSamples()
        self.rehearsing = False
        self.attempted = False
        self._is_on = False  # between start and stop, which may come in the middle of a step
        self._rehearsed = False  # the second run has begun
        self._still_to_come = False  # the update with the gradients that the first run has accumulated
        self._leaves: list[Tensor] = []  # of the step, once it has tripped
        self._snapshot = Snapshot(())  # taken at the beginning of the step
        self._put_away: list[Copies | Gradients] = []  # what a second run must not change
        self._ends: deque[int] = deque(maxlen=KEPT_STEPS)  # the ends of steps, as call numbers of the record
        self._uncompiled = contextlib.ExitStack()
        self._frozen = Patches()
        self._handles: list[Any] = []

    @property
    def for_good(self) -> bool:
        """Whether everything is recorded for the rest of the program, so that findings are exact at once."""
        return self.recorder is not None and not self.rehearsing

    def stop(self) -> None:
        """Stop recording, and release everything."""
        self._is_on = False
        self._leave()
        self._leaves, self._put_away = [], []

    # --- from some step on ----------------------------------------------------------------------------------------

    def start(self, patches: Patches) -> None:
        """Note what is loaded, and prepare to record from the step on that the watch requests, if it requests any."""
        self._is_on = True
        self.samples.start(patches)
        if self._watch.from_step is not None:
            patches.wrap(torch.autograd, "backward", self._backward)
            patches.wrap(torch, "compile", self._compile)
            self.begin_if_due(self._watch.step)

    def _backward(self, original: Any, *args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        if not within_backward() and not capturing():
            self.step_ended()

    def _compile(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        compiled = original(*args, **kwargs)
        if self.for_good:
            self._uncompiled.close()
            self._uncompiled.enter_context(uncompiled())
        return compiled

    def step_ended(self) -> None:
        """Record the next step, if requested, and forget an old one."""
        if self.for_good:
            self._forget_oldest()
        else:
            self.begin_if_due(self._watch.step)

    def begin_if_due(self, step: int) -> None:
        """Record from here on, if that is requested from the step after this one."""
        from_step = self._watch.from_step
        if from_step is not None and self._is_on and self.recorder is None and step + 1 >= from_step:
            self._begin()

    def _begin(self) -> None:
        """Record every operation from here on, except those of torch's optimizers, until :meth:`stop`."""
        self._enter()
        self._ends.clear()
        pause = register_optimizer_step_pre_hook(lambda optimizer, *_: self._pause(not has_own_step(optimizer)))
        self._handles.append(pause)
        self._handles.append(register_optimizer_step_post_hook(lambda *_: self._pause(False)))

    def _forget_oldest(self) -> None:
        """Forget the operations of a step so long ago that its results will not be used again."""
        assert self.recorder is not None
        if len(self._ends) == KEPT_STEPS:
            self.recorder.forget(self._ends[0])
        self._ends.append(self.recorder.next_order())

    def _pause(self, paused: bool) -> None:
        if self.recorder is not None:
            self.recorder.paused = paused

    @contextlib.contextmanager
    def within_update(self) -> Iterator[None]:
        """A context in which operations are recorded although an optimizer is stepping: for the user's closure."""
        # not in a step of the program's own; if recording begins in the closure, what follows it is left out
        was_paused = self.recorder is None or self.recorder.paused
        self._pause(False)
        try:
            yield
        finally:
            self._pause(was_paused)

    # --- a second run ---------------------------------------------------------------------------------------------

    def snapshot(self, buffers: Sequence[Tensor]) -> Snapshot:
        """A snapshot of what has to be restored to run the coming step again."""
        self._leaves, self._put_away = [], []
        self._snapshot = Snapshot(buffers)
        return self._snapshot

    def tripped(self, leaves: Iterable[Tensor], by_hand: bool) -> None:
        """Called when a run has tripped; its leaves may be updated without an optimizer.

        Buffers are restored at once, as the program may go on to average them.
        """
        self._snapshot.restore_buffers()
        if self.recorder is None:
            self._leaves = list(leaves)
            if by_hand:
                self._put_away.append(Copies(self._leaves))

    def begin_second_run(self) -> None:
        self._rehearsed = self.rehearsing = True
        self._put_away.append(Gradients(self._leaves))
        self._frozen = Patches()
        freeze_schedules(self._frozen, LRScheduler, AveragedModel)
        self._enter()

    def end_second_run(self) -> None:
        if self.rehearsing:
            self._leave()

    def restore(self, snapshot: Snapshot, withheld: bool) -> bool:
        """Restore the state before the second run; after it, random states are those after one run.

        Takes and returns whether the update with accumulated gradients is still to come, and must be left out. The
        first run decides that, as a counter in the program may make the second run behave differently.
        """
        if not self._rehearsed:
            snapshot.restore_random()
            self._still_to_come = withheld
        snapshot.restore_buffers()
        with torch.no_grad():
            for kept in self._put_away:
                kept.restore()
        withheld = self._rehearsed and self._still_to_come
        self._rehearsed = self.attempted = False
        return withheld

    # --- both -----------------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        """Record below the program's modes, which the program will leave in its own order."""
        self.recorder = Recorder()
        with above():
            self.recorder.__enter__()
        self._uncompiled.enter_context(uncompiled())

    def _leave(self) -> None:
        self._uncompiled.close()
        self._frozen.undo()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self.recorder is not None:
            self.recorder.end()
        self.recorder = None
        self.rehearsing = False
