"""The watch as a callback of transformers' ``Trainer``."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from functools import partial
from typing import Any

from retrograd.anomaly.adapters.accelerate import plain_optimizer
from retrograd.anomaly.adapters.framework_steps import CleanLogs, speak_once, watched_step
from retrograd.anomaly.adapters.patches import replaced
from retrograd.anomaly.monitor import Watch

try:
    from transformers import Trainer, TrainerCallback
except ImportError:
    raise ImportError(
        "retrograd.anomaly.adapters.transformers is for programs that use transformers' Trainer, which is not "
        "installed: pip install 'transformers>=5' accelerate"
    ) from None

__all__ = ["AnomalyCallback"]


class AnomalyCallback(TrainerCallback):
    """Keep ``Trainer.train`` under the watch.

    Loss and gradients are checked when ``Trainer.training_step`` ends, for every micro-batch and before the gradients
    are clipped. A training step that trips is rerun with every operation recorded, so that the event names the
    operation, the line, the element and the module exactly; the update that it would have been part of is skipped.

    Parameters
    ----------
    policy : str, callable, or dict of them
        What to do about a NaN or an infinity, as in :func:`retrograd.anomaly.watch`: "raise" ends ``train`` with the
        ``AnomalyError``; with "skip_step" training goes on with the previous weights.
    **kwargs
        The other arguments of :func:`retrograd.anomaly.watch`, except ``model`` and ``optimizer``. ``lag`` has no
        effect: to rerun a step, its result has to be known at once.

    Attributes
    ----------
    watch : Watch
        Its ``events`` remain available after ``train``; ``event.batch_idx`` counts the batches of the epoch.

    Notes
    -----
    The Trainer's logs get the number of events so far as ``anomaly_events``; non-finite numbers are left out.

    Examples
    --------
    ::

        from retrograd.anomaly.adapters.transformers import AnomalyCallback

        watching = AnomalyCallback(policy="skip_step")
        trainer = Trainer(model, args, train_dataset=data, callbacks=[watching])
        trainer.train()
        print(watching.watch.event)
    """

    def __init__(self, policy: Any = "raise", **kwargs: Any) -> None:
        self._made_anew = partial(type(self), policy, **kwargs)
        self.watch = Watch(policy=policy, **kwargs)
        self._logs = CleanLogs(self.watch, "anomaly_events")
        self._attached = ExitStack()
        self._watching = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a fresh callback: other processes get one that has not started."""
        return self._made_anew, ()

    # --- the Trainer's events ---------------------------------------------------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Intercept the Trainer's epochs: a callback learns neither of exceptions nor of its Trainer."""
        self._attached.close()
        self._watching = False
        self._attached.enter_context(replaced(Trainer, "_run_epoch", self._epoch))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._attached.close()

    # ----------------------------------------------------------------------------------------------------------------

    def _epoch(self, original: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
        if self not in trainer.callback_handler.callbacks:
            return original(trainer, *args, **kwargs)
        if not self._watching:
            self._watching = True
            speak_once(self.watch, trainer.is_world_process_zero())
            self.watch.model = trainer.model_wrapped
            self.watch.optimizer = plain_optimizer(trainer.optimizer)
            self._attached.enter_context(self.watch)
            self._attached.enter_context(replaced(trainer.callback_handler, "on_log", self._write))
        try:
            return run_epoch(self.watch, original, trainer, *args, **kwargs)
        except BaseException as error:
            if isinstance(error, Exception):
                self.watch.explain(error)
            self._attached.close()
            raise

    def _write(self, original: Any, args: Any, state: Any, control: Any, logs: Any, **kwargs: Any) -> Any:
        return original(args, state, control, self._logs(logs), **kwargs)


def run_epoch(watch: Watch, original: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """Run ``Trainer._run_epoch``; every training step in it that trips is rerun.

    Parameters
    ----------
    watch
        A started watch.
    original
        The Trainer's own method.
    trainer
        The Trainer; the method's arguments follow.
    """
    watch.every_backward = True  # the update lies outside the step that can be rerun
    resumed = kwargs.get("epoch") == kwargs.get("epochs_trained")
    numbers = itertools.count(kwargs.get("steps_trained_in_current_epoch", 0) if resumed else 0)

    def step(training_step: Any, *args: Any, **kwargs: Any) -> Any:
        return watched_step(watch, next(numbers), lambda again: training_step(*args, **kwargs))

    with replaced(trainer, "training_step", step):
        return original(trainer, *args, **kwargs)
