"""What has to be restored to run a step again: random states, buffers, gradients."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from retrograd.anomaly.adapters.torch.runtime.graph_capture import capturing

_LARGEST = 1 << 20  # elements of a buffer that is copied in every step


class RandomState:
    """The states of torch's generators on all devices in use, without GPUs while a graph is captured."""

    def __init__(self) -> None:
        self._cpu = torch.default_generator.get_state()
        on_gpus = torch.cuda.is_initialized() and not capturing()
        self._cuda = [each.get_state() for each in torch.cuda.default_generators] if on_gpus else []

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        for generator, state in zip(torch.cuda.default_generators, self._cuda, strict=False):
            generator.set_state(state)


def copied(tensors: list[Tensor]) -> list[Tensor]:
    """Detached copies of tensors, the plain ones made together: on a GPU in one go."""
    plain = [each for each in tensors if type(each) in (Tensor, torch.nn.Parameter)]
    made = _clones(plain) if plain else []
    copies = dict(zip(map(id, plain), made, strict=True))
    return [copies[id(each)] if id(each) in copies else each.clone() for each in tensors]


def _clones(tensors: list[Tensor]) -> Sequence[Tensor]:
    if hasattr(torch, "_foreach_clone"):  # not yet in torch 2.9
        return torch._foreach_clone(tensors)
    made = [torch.empty_like(each) for each in tensors]
    torch._foreach_copy_(made, tensors)
    return made


class Copies:
    """Tensors with copies of their values in ``kept``; :meth:`restore` writes them back."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._tensors = [each.detach() for each in tensors]
        self.kept = copied(self._tensors)

    def of(self, tensor: Tensor | None) -> Tensor | None:
        """The earlier value of a tensor; the tensor itself if it is none of them."""
        pairs = zip(self._tensors, self.kept, strict=True)
        return next((kept for each, kept in pairs if tensor is not None and each.is_set_to(tensor)), tensor)

    def restore(self) -> None:
        for tensor, kept in zip(self._tensors, self.kept, strict=True):
            with contextlib.suppress(RuntimeError):  # an expanded leaf, for instance, refuses writes and is unchanged
                if not _equal(tensor, kept):  # one that nothing has written to keeps its version
                    tensor.copy_(kept)


def _equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same bits."""
    try:
        return torch.equal(*(each.contiguous().reshape(-1).view(torch.uint8) for each in (one, other)))
    except (RuntimeError, NotImplementedError):  # of a kind that has no such view
        return False


@contextlib.contextmanager
def left_as_they_are(models: Iterable[torch.nn.Module] = ()) -> Iterator[None]:
    """A context after which torch's random states and the small buffers of models are restored."""
    drawn, buffers = RandomState(), Copies(each for model in models for each in small_buffers(model))
    try:
        yield
    finally:
        drawn.restore()
        with torch.no_grad():
            buffers.restore()


class Snapshot:
    """The state before a step: random numbers of Python, NumPy and torch, and some buffers."""

    def __init__(self, buffers: Iterable[Tensor]) -> None:
        self._numpy = np.random.get_state()
        self._python = random.getstate()
        self._torch = RandomState()
        self._buffers = Copies(buffers)

    def restore_random(self) -> None:
        np.random.set_state(self._numpy)
        random.setstate(self._python)
        self._torch.restore()

    def restore_buffers(self) -> None:
        with torch.no_grad():
            self._buffers.restore()


def small_buffers(model: Any) -> list[Tensor]:
    """The buffers that a forward pass may write to, such as a batch norm's averages."""
    if not isinstance(model, torch.nn.Module):
        return []
    return [each for each in model.buffers() if is_small(each)]


def is_small(buffer: Tensor) -> bool:
    """Whether a buffer is copied in every step."""
    return buffer.numel() <= _LARGEST and not buffer.is_meta


class Gradients:
    """The gradients of some leaves, taken away for the duration of a second run."""

    def __init__(self, leaves: Iterable[Tensor]) -> None:
        self._kept = [(leaf, leaf.grad) for leaf in leaves]
        for leaf, _ in self._kept:
            leaf.grad = None

    def replace_by_zeros(self) -> None:
        for leaf, gradient in self._kept:
            leaf.grad = None if gradient is None else torch.zeros_like(gradient)

    def restore(self) -> None:
        for leaf, gradient in self._kept:
            leaf.grad = gradient
