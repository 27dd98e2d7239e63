"""Calling a module of the program once more, without a trace in it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd
from torch.utils._pytree import tree_map

from retrograd.anomaly.adapters.torch.runtime.compilation import uncompiled
from retrograd.anomaly.adapters.torch.runtime.distributed import is_replicated, is_sharded
from retrograd.anomaly.adapters.torch.runtime.hidden_hooks import Hook
from retrograd.anomaly.adapters.torch.second_run.snapshot import left_as_they_are

_TORCH_LAYERS = "torch.nn."


class _Thread(threading.local):
    """Whether a thread is calling modules again."""

    calls_again = False


_thread = _Thread()


def is_running_again() -> bool:
    """Whether it is we who call the modules of this thread."""
    return _thread.calls_again


@contextmanager
def running_again(modules: Iterable[torch.nn.Module]) -> Iterator[None]:
    """A context in which we call modules as they were written; random states and their buffers are restored."""
    before, _thread.calls_again = _thread.calls_again, True
    try:
        with left_as_they_are(modules), uncompiled():
            yield
    finally:
        _thread.calls_again = before


def output_again(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a module returns, without gradients.

    Raises
    ------
    ValueError
        If the call might leave something changed, or return something else than before: the module has the program's
        hooks, is the program's own and in training mode, or draws random numbers.
    """
    known = without_communication(module)
    if known is None or not _leaves_no_trace(known):
        raise ValueError(f"calling {type(module).__qualname__} again might change or return something else")
    with running_again([known]), torch.no_grad():
        return tree_map(_detached, known(*args, **kwargs))


def without_communication(model: torch.nn.Module) -> torch.nn.Module | None:
    """The model in a form that this process can run alone; None if it needs the weights of other processes."""
    if is_sharded(model):
        return None
    return model.module if is_replicated(model) else model  # type: ignore[return-value]


def _leaves_no_trace(module: torch.nn.Module) -> bool:
    """Whether a call changes nothing that is not restored after it."""
    parts = list(module.modules())
    hooks = [hook for each in parts for hook in (*each._forward_pre_hooks.values(), *each._forward_hooks.values())]
    if not all(isinstance(each, Hook) for each in hooks):
        return False
    return all(not each.training or _is_layer_without_dropout(each) for each in parts)


def _is_layer_without_dropout(module: torch.nn.Module) -> bool:
    """Whether it is one of torch's layers, and draws no random numbers in training mode."""
    draws = isinstance(module, (_DropoutNd, torch.nn.RReLU)) or bool(getattr(module, "dropout", 0))
    return type(module).__module__.startswith(_TORCH_LAYERS) and not draws


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value
