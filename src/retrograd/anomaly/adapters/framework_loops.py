"""Unmodified scripts whose training loop belongs to a framework: a step is rerun where the framework runs it.

Such loops prefetch batches, so a batch yielded twice would not reach the step it belongs to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FrameType, ModuleType
from typing import Any

from retrograd.anomaly.adapters.import_hook import ImportHook
from retrograd.anomaly.adapters.patches import replaced
from retrograd.anomaly.monitor import Watch
from retrograd.anomaly.stack_frames import is_library


def _lightning(watch: Watch, original: Any, loop: Any, *args: Any) -> Any:
    from retrograd.anomaly.adapters.lightning import rerunning

    with rerunning(watch, loop.trainer):
        return original(loop, *args)


def _transformers(watch: Watch, original: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
    from retrograd.anomaly.adapters.transformers import run_epoch

    return run_epoch(watch, original, trainer, *args, **kwargs)


def _accelerate(watch: Watch, original: Any, loader: Any) -> Any:
    import torch
    from accelerate import Accelerator

    from retrograd.anomaly.adapters.accelerate import rerunning

    if watch.replaying or not torch.is_grad_enabled() or owns_its_loop(sys._getframe(2)):
        return original(loader)
    watch.every_backward = True
    return rerunning(watch, watch.steps(original(loader)), Accelerator)


_LOOPS: dict[str, tuple[str, str, Callable[..., Any]]] = {  # the module, the class and the method that runs a loop
    "lightning.pytorch.loops.training_epoch_loop": ("_TrainingEpochLoop", "run", _lightning),
    "pytorch_lightning.loops.training_epoch_loop": ("_TrainingEpochLoop", "run", _lightning),
    "transformers.trainer": ("Trainer", "_run_epoch", _transformers),
    "accelerate.data_loader": ("DataLoaderShard", "__iter__", _accelerate),
}
_PACKAGES = ("lightning.pytorch", "pytorch_lightning", "transformers", "accelerate")


def owns_its_loop(frame: FrameType | None) -> bool:
    """Whether a framework's code made this call, beyond any frames of torch and retrograd."""
    while frame is not None and is_library(frame.f_code.co_filename, "torch", "retrograd"):
        frame = frame.f_back
    return frame is not None and is_library(frame.f_code.co_filename, *_PACKAGES)


@contextmanager
def steps_run_again(watch: Watch) -> Iterator[None]:
    """In this block, rerun steps in the loops of frameworks, whether imported already or later."""
    with ExitStack() as stack:

        def attach(name: str, module: ModuleType) -> None:
            owner, method, run = _LOOPS[name]
            if hasattr(getattr(module, owner, None), method):  # else a version whose loop is unknown
                stack.enter_context(replaced(getattr(module, owner), method, partial(run, watch)))

        for name in _LOOPS:
            if name in sys.modules:
                attach(name, sys.modules[name])
                continue
            hook = ImportHook(name, partial(attach, name))
            stack.callback(hook.remove)
            hook.put()
        yield
