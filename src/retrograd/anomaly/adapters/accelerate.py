"""The watch for training loops written with Hugging Face Accelerate."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import ExitStack, nullcontext
from typing import Any

from retrograd.anomaly.adapters.framework_steps import CleanLogs, speak_once
from retrograd.anomaly.adapters.patches import do_nothing, replaced
from retrograd.anomaly.monitor import Watch
from retrograd.anomaly.second_run import Batches

try:
    from accelerate.optimizer import AcceleratedOptimizer
except ImportError:
    raise ImportError(
        "retrograd.anomaly.adapters.accelerate is for programs that use Accelerate, which is not installed: "
        "pip install accelerate"
    ) from None

__all__ = ["AcceleratedWatch", "watch"]


class AcceleratedWatch(Watch):
    """A :class:`~retrograd.anomaly.Watch` that cooperates with an ``Accelerator``; made by :func:`watch`."""

    def __init__(self, accelerator: Any, model: Any, optimizer: Any, policy: Any, **kwargs: Any) -> None:
        super().__init__(model, plain_optimizer(optimizer), policy, **kwargs)
        speak_once(self, accelerator.is_main_process)
        self.every_backward = True  # so that it is the bad micro-batch of a group that is rerun
        self._accelerator = accelerator
        self._logs = CleanLogs(self, "anomaly/events")
        self._attached = ExitStack()

    def start(self) -> AcceleratedWatch:
        super().start()
        self._attached.enter_context(replaced(self._accelerator, "log", self._write))
        return self

    def stop(self) -> None:
        self._attached.close()
        super().stop()

    def steps(self, loader: Iterable[Any]) -> Batches:
        """Like :meth:`Watch.steps`, but gradient accumulation does not count the second run."""
        return Batches(loader, rerunning(self, super().steps(loader), self._accelerator))

    def _write(self, original: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self._logs(values), *args, **kwargs)


def watch(
    accelerator: Any, model: Any = None, optimizer: Any = None, policy: Any = "raise", **kwargs: Any
) -> AcceleratedWatch:
    """Keep a training loop with an ``Accelerator`` under observation.

    Parameters
    ----------
    accelerator : accelerate.Accelerator
        The one that prepared the model. Whenever something is logged, its trackers also get the number of events so far
        as ``anomaly/events``; non-finite numbers are left out.
    model : Module
        What ``accelerator.prepare`` returned for the model.
    optimizer : AcceleratedOptimizer or Optimizer, optional
        What ``accelerator.prepare`` returned for the optimizer, or the optimizer itself.
    policy : str, callable, or dict of them
        What to do about a NaN or an infinity, as in :func:`retrograd.anomaly.watch`. With several processes, only the
        main one warns and writes; all of them raise.
    **kwargs
        The other arguments of :func:`retrograd.anomaly.watch`.

    Returns
    -------
    AcceleratedWatch
        A context manager. Iterate over the batches with its ``steps(loader)``: a step that trips is then rerun with
        every operation recorded, and gradient accumulation continues as if it had run once.

    Examples
    --------
    ::

        from retrograd.anomaly.adapters.accelerate import watch

        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        with watch(accelerator, model, optimizer, policy="skip_step") as w:
            for x, y in w.steps(loader):
                with accelerator.accumulate(model):
                    accelerator.backward(criterion(model(x), y))
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
    """
    return AcceleratedWatch(accelerator, model, optimizer, policy, **kwargs)


def rerunning(watch: Watch, steps: Iterable[Any], owner: Any) -> Generator[Any, None, None]:
    """The batches of ``watch.steps(loader)``, with each counted once by ``accelerator.accumulate``.

    Parameters
    ----------
    watch
        The watch that the steps belong to.
    steps
        The batches.
    owner
        The accelerator, or its class if the instance is not known.
    """
    under_way: object = None
    for batch in steps:
        again, under_way = watch.present_step is under_way, watch.present_step
        # the first run has settled whether this batch ends a group
        with replaced(owner, "_do_sync", do_nothing) if again else nullcontext():
            yield batch


def plain_optimizer(optimizer: Any) -> Any:
    """The optimizer inside Accelerate's wrappers."""
    while isinstance(optimizer, AcceleratedOptimizer):
        optimizer = optimizer.optimizer
    return optimizer
