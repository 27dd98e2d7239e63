"""When every operation is recorded: in the second run of a step, or from some step of the program on."""

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

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.standing_still import stand_still
from retrograd.anomaly.adapters.torch.records.recording import Recorder
from retrograd.anomaly.adapters.torch.runtime.capturing import capturing
from retrograd.anomaly.adapters.torch.runtime.compiling import uncompiled
from retrograd.anomaly.adapters.torch.runtime.frames import has_own_step, within_backward
from retrograd.anomaly.adapters.torch.runtime.modes import above
from retrograd.anomaly.adapters.torch.second_run.snapshot import Copies, Gradients, Snapshot
from retrograd.anomaly.monitor import Watch

KEPT_STEPS = 4  # of which the record knows all operations, where it has begun for good


class Recordings:
    """The record of the present step, and what has to be put back after a second run.

    Parameters
    ----------
    watch
        Which may say from which step on to record everything.

    Attributes
    ----------
    recorder
        The record, if operations are recorded now.
    rehearsing
        Whether it is that of a second run, in which nothing may be counted or updated.
    attempted
        Whether an optimizer has tried to update in it.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.recorder: Recorder | None = None
        self.rehearsing = False
        self.attempted = False
        self._is_on = False  # between start and stop, which may come in the middle of a step
        self._rehearsed = False  # the second run has begun
        self._still_to_come = False  # the update of what the first run has gathered
        self._leaves: list[Tensor] = []  # that the step goes to, once it has tripped
        self._snapshot = Snapshot(())  # of the beginning of the step
        self._put_away: list[Copies | Gradients] = []  # what a second run of it must not change
        self._ends: deque[int] = deque(maxlen=KEPT_STEPS)  # of steps, in the numbers of the record's calls
        self._uncompiled = contextlib.ExitStack()
        self._standing_still = Patches()
        self._handles: list[Any] = []

    @property
    def for_good(self) -> bool:
        """Whether the record has begun for the rest of the program: what it holds is exact at once."""
        return self.recorder is not None and not self.rehearsing

    def stop(self) -> None:
        """Record no more, and let go of everything."""
        self._is_on = False
        self._leave()
        self._leaves, self._put_away = [], []

    # --- from some step on ----------------------------------------------------------------------------------------

    def start(self, patches: Patches) -> None:
        """Prepare to record from the step on that the watch asks for; nothing is done if it asks for none."""
        self._is_on = True
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
        """Record the next step, if that is asked for, and forget an old one."""
        if self.for_good:
            self._forget_oldest()
        else:
            self.begin_if_due(self._watch.step)

    def begin_if_due(self, step: int) -> None:
        """Record from here on if that is asked for from the step on that follows on this one."""
        from_step = self._watch.from_step
        if from_step is not None and self._is_on and self.recorder is None and step + 1 >= from_step:
            self._begin()

    def _begin(self) -> None:
        """Record every operation from here on, those of torch's optimizers excepted, until :meth:`stop`."""
        self._enter()
        self._ends.clear()
        pause = register_optimizer_step_pre_hook(lambda optimizer, *_: self._pause(not has_own_step(optimizer)))
        self._handles.append(pause)
        self._handles.append(register_optimizer_step_post_hook(lambda *_: self._pause(False)))

    def _forget_oldest(self) -> None:
        """Forget the operations of a step that lies too far back for its results to be met again."""
        assert self.recorder is not None
        if len(self._ends) == KEPT_STEPS:
            self.recorder.forget(self._ends[0])
        self._ends.append(self.recorder.next_order())

    def _pause(self, paused: bool) -> None:
        if self.recorder is not None:
            self.recorder.paused = paused

    @contextlib.contextmanager
    def within_update(self) -> Iterator[None]:
        """A context in which operations are recorded although an optimizer is at work: a closure of the user's."""
        self._pause(False)
        try:
            yield
        finally:
            self._pause(self.for_good)

    # --- a second run ---------------------------------------------------------------------------------------------

    def snapshot(self, buffers: Sequence[Tensor]) -> Snapshot:
        """What has to be put back to run the coming step again."""
        self._leaves, self._put_away = [], []
        self._snapshot = Snapshot(buffers)
        return self._snapshot

    def tripped(self, leaves: Iterable[Tensor], by_hand: bool) -> None:
        """A run has tripped, and goes to some leaves, which may be updated without an optimizer.

        Buffers are put back at once, as the program may go on to average them.
        """
        self._snapshot.restore_buffers()
        if self.recorder is None:
            self._leaves = list(leaves)
            if by_hand:
                self._put_away.append(Copies(self._leaves))

    def begin_second_run(self) -> None:
        self._rehearsed = self.rehearsing = True
        self._put_away.append(Gradients(self._leaves))
        self._standing_still = Patches()
        stand_still(self._standing_still, LRScheduler, AveragedModel)
        self._enter()

    def end_second_run(self) -> None:
        if self.rehearsing:
            self._leave()

    def restore(self, snapshot: Snapshot, withheld: bool) -> bool:
        """Before the second run all is as before the first; after it random numbers have moved on as after one run.

        Takes and returns whether the update of gradients that were gathered is still to come, and must be left out.
        That is the first run's to say: a count of the program's own may lead the second another way.
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
        """Record below the modes of the program, which it will leave in its own order."""
        self.recorder = Recorder()
        with above():
            self.recorder.__enter__()
        self._uncompiled.enter_context(uncompiled())

    def _leave(self) -> None:
        self._uncompiled.close()
        self._standing_still.undo()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self.recorder is not None:
            self.recorder.end()
        self.recorder = None
        self.rehearsing = False
