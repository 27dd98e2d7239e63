"""The watch as a callback of Lightning's ``Trainer`` (``lightning.pytorch`` or ``pytorch_lightning``)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from retrograd.anomaly.adapters.framework_steps import CleanLogs, speak_once, watched_step
from retrograd.anomaly.adapters.patches import do_nothing, replaced
from retrograd.anomaly.expected import expect_nonfinite
from retrograd.anomaly.monitor import Watch

if sys.modules.get("pytorch_lightning") and "lightning.pytorch" not in sys.modules:  # the package that the program uses
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        try:
            from pytorch_lightning import Callback
        except ImportError:
            raise ImportError(
                "retrograd.anomaly.adapters.lightning is for programs that use Lightning, which is not installed: "
                "pip install lightning"
            ) from None

__all__ = ["AnomalyCallback"]


class AnomalyCallback(Callback):
    """Keep ``Trainer.fit`` under the watch.

    A step that trips is rerun with every operation recorded, from the batch to the optimizer, so that the
    event names the operation, the line, the element and the module exactly; its update is skipped. This works with
    automatic and manual optimization, gradient accumulation, clipping and mixed precision. The second run logs nothing
    and does not count as a step. If ``training_step`` takes the data iterator itself, there is no second run.

    Parameters
    ----------
    policy : str, callable, or dict of them
        What to do about a NaN or an infinity, as in :func:`retrograd.anomaly.watch`: "raise" ends ``fit`` with the
        ``AnomalyError``; with "skip_step" training goes on with the previous weights.
    **kwargs
        The other arguments of :func:`retrograd.anomaly.watch`, except ``model`` and ``optimizer``. ``lag`` has no
        effect: to rerun a step, its result has to be known at once.

    Attributes
    ----------
    watch : Watch
        Its ``events`` remain available after ``fit``.

    Notes
    -----
    Loggers get the number of events so far as ``anomaly/events``; non-finite numbers are left out.

    Examples
    --------
    ::

        from retrograd.anomaly.adapters.lightning import AnomalyCallback

        watching = AnomalyCallback(policy="skip_step")
        trainer = Trainer(callbacks=[watching])
        trainer.fit(model, loader)
        print(watching.watch.event)
    """

    def __init__(self, policy: Any = "raise", **kwargs: Any) -> None:
        super().__init__()
        self._made_anew = partial(type(self), policy, **kwargs)
        self.watch = Watch(policy=policy, **kwargs)
        self._logs = CleanLogs(self.watch, "anomaly/events")
        self._attached = ExitStack()
        self._validation = ExitStack()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a fresh callback: other processes get one that has not started."""
        return self._made_anew, ()

    # --- Lightning's hooks ----------------------------------------------------------------------------------------

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start watching: model and optimizers are set up now, and the sanity check is over."""
        self._stop()
        self.watch.model = trainer.model
        self.watch.optimizer = trainer.optimizers[0] if len(trainer.optimizers) == 1 else None
        speak_once(self.watch, trainer.is_global_zero)
        self._attached.enter_context(self.watch)
        self._attached.enter_context(rerunning(self.watch, trainer))
        for logger in trainer.loggers:
            self._attached.enter_context(replaced(logger, "log_metrics", self._write))

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._validation.enter_context(expect_nonfinite("what validation computes reaches no weight"))

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._validation.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if isinstance(exception, Exception):
            self.watch.explain(exception)
        self._stop()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._stop()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._stop()

    # --------------------------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        self._validation.close()
        self._attached.close()

    def _write(self, original: Any, metrics: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self._logs(metrics), *args, **kwargs)


@contextmanager
def rerunning(watch: Watch, trainer: Any) -> Iterator[None]:
    """In this block, rerun every step of Lightning's training loop that trips.

    Parameters
    ----------
    watch
        A started watch.
    trainer
        Lightning's Trainer, about to train.
    """
    watch.every_backward = True  # a micro-batch that only accumulates gradients is rerun by itself
    loop = trainer.fit_loop.epoch_loop
    automatic, manual = loop.automatic_optimization, loop.manual_optimization
    with (
        replaced(automatic, "run", _Step(watch, trainer, automatic.optim_progress)),
        replaced(manual, "run", _Step(watch, trainer, manual.optim_step_progress)),
    ):
        yield


class _Step:
    """Lightning's work on one batch: the training step, backward, and the update if it is due.

    Parameters
    ----------
    watch
        The watch that observes it.
    trainer
        The Trainer that runs it.
    progress
        The Trainer's counters of updates.
    """

    def __init__(self, watch: Watch, trainer: Any, progress: Any) -> None:
        self._watch = watch
        self._trainer = trainer
        self._progress = progress

    def __call__(self, original: Any, *args: Any) -> Any:
        *_, batch = args
        if "any" in batch:  # an iterator over the data, which would advance to other batches
            return original(*args)
        counted = self._progress.state_dict()

        def step(again: bool) -> Any:
            if not again:
                return original(*args)
            self._progress.load_state_dict(counted)
            with replaced(self._trainer.lightning_module, "log", do_nothing):
                return original(*args)

        return watched_step(self._watch, self._trainer.fit_loop.epoch_loop.batch_idx, step)
