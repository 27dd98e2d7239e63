"""Whether a node's saved values may be read: not if that would call a hook of the program."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import torch

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.torch.records.calls import next_seq, seq_of

_TOLD = hasattr(torch._C._autograd.SavedTensor, "unpack_hook")  # by the saved tensor; not yet in torch 2.9

# If they do not: the ranges of sequence numbers with hooks in force, and whether these were torch's own.
_in_force: deque[list[Any]] = deque(maxlen=1 << 12)
_open: list[list[Any]] = []


def may_be_read(node: Any, raw: Any, unpacked: bool) -> bool:
    """Whether a node's saved value, one tensor or several, can be read without a hook that must not be called."""
    if isinstance(raw, (tuple, list)):
        return all(may_be_read(node, each, unpacked) for each in raw)
    if not _TOLD:
        seq = seq_of(node)
        return all(unpacked and own for begin, end, own in _in_force if begin <= seq < end)
    hook = getattr(raw, "unpack_hook", None)
    return hook is None or (unpacked and _is_own(hook))


def _is_own(hook: Any) -> bool:
    """Whether a hook is one of torch's own."""
    return (getattr(hook, "__module__", None) or "").startswith("torch.")


def note_hooks(patches: Patches) -> None:
    """Note the hooks that come into force."""
    patches.wrap(torch._C._autograd, "_push_saved_tensors_default_hooks", _push)
    patches.wrap(torch._C._autograd, "_pop_saved_tensors_default_hooks", _pop)


def _push(original: Any, pack: Any, unpack: Any) -> None:
    original(pack, unpack)
    _open.append([next_seq(), math.inf, _is_own(unpack)])
    _in_force.append(_open[-1])


def _pop(original: Any) -> None:
    original()
    if _open:
        _open.pop()[1] = next_seq()


if not _TOLD:
    note_hooks(Patches())
