"""Loading a bad sample of a batch once more, with every operation recorded: the birth may be in the data set.

Worker processes load the batches, or the iterator does before the step begins; either way nothing is recorded of it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.data import _DatasetKind, default_collate
from torch.utils.data.dataloader import _BaseDataLoaderIter

from retrograd.anomaly.adapters.patches import Patches
from retrograd.anomaly.adapters.torch.records.calls import Argument, Call, is_bad
from retrograd.anomaly.adapters.torch.records.recording import Recorder
from retrograd.anomaly.adapters.torch.second_run.numpy_warnings import NumpyWarnings, met_at
from retrograd.anomaly.adapters.torch.second_run.snapshot import Snapshot
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.stack_frames import user_frame

_AHEAD = 64  # batches that workers may have been asked for before they are used
_LONGEST = 30.0  # seconds to wait for a sample, which may need what only a worker has


class Reloaded(NamedTuple):
    """A sample that was loaded once more.

    Attributes
    ----------
    index
        The data set's index of the sample.
    made
        The operation that made the bad tensor of its batch of one, and which of its results that is; None if it came
        out of something else than PyTorch's operations.
    flag
        What NumPy met meanwhile and where, as ``("invalid value", "data.py", 12)``.
    """

    index: Any
    made: tuple[Call, int] | None
    flag: tuple[str, str, int] | None

    def told(self) -> str:
        """Which sample it is, and where NumPy may have made its bad numbers, as a remark."""
        remark = f"It is sample {self.index} of the data set, which was loaded once more and is bad again."
        if self.flag is None:
            return remark
        return f"{remark} Meanwhile NumPy met {met_at(*self.flag)}."


class _Requests:
    """What an iterator has asked its data set for in this epoch, the latest last; batches are numbered from 0."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self._number = 0
        self._latest: deque[tuple[int, Any]] = deque(maxlen=_AHEAD)

    def add(self, indices: Any) -> None:
        self._latest.append((self._number, indices))
        self._number += 1

    def of(self, number: int) -> Any:
        return dict(self._latest).get(number)


class LoadedSamples:
    """Notes which samples make up the batches of ``DataLoader``s, and loads one of them once more.

    Attributes
    ----------
    warnings
        What NumPy has warned of, which may have spoilt data before there were samples.
    """

    def __init__(self) -> None:
        self._requests: weakref.WeakKeyDictionary[Any, _Requests] = weakref.WeakKeyDictionary()
        self._last: tuple[weakref.ref[Tensor], Reloaded | None] | None = None
        self.warnings = NumpyWarnings()

    def start(self, patches: Patches) -> None:
        patches.wrap(_BaseDataLoaderIter, "_next_index", self._request)

    def _request(self, original: Callable[..., Any], iterator: Any) -> Any:
        indices = original(iterator)
        if iterator._dataset_kind == _DatasetKind.Map:
            known = self._requests.get(iterator)
            if known is None or known.sampler is not iterator._sampler_iter:  # a new epoch
                known = self._requests[iterator] = _Requests(iterator._sampler_iter)
            known.add(indices)
        return indices

    def met_by_numpy(self, event: NaNEvent, leaf: Argument | None) -> str | None:
        """A remark on what NumPy has warned of, if an event is about data that came in bad from an unknown place."""
        is_data = event.kind == "leaf" and leaf is not None and leaf.leaf is None
        return self.warnings.told() if is_data else None

    def load_again(self, data: Tensor) -> Reloaded | None:
        """Load the first bad sample of a batch once more; None if ``data`` is no batch, or the sample is fine now.

        The random numbers that this draws are given back. The same batch is met again in the second run of its step,
        for which nothing is loaded.
        """
        if self._last is None or self._last[0]() is not data:
            self._last = weakref.ref(data), None
            with contextlib.suppress(Exception):  # an error of ours is no reason to report nothing
                self._last = weakref.ref(data), self._loaded(data)
        return self._last[1]

    def _loaded(self, data: Tensor) -> Reloaded | None:
        bad = ~torch.isfinite(data)
        for iterator, requests in reversed(list(self._requests.items())):  # the latest loader first
            indices = requests.of(iterator._num_yielded - 1)
            found = None if indices is None else _first_bad(iterator, indices, bad)
            if found is not None:
                return found
        return None


def _first_bad(iterator: Any, indices: Any, bad: Tensor) -> Reloaded | None:
    """The first of the samples of a batch that is bad again where the batch is ``bad``."""
    end = time.monotonic() + _LONGEST
    for index, request, pattern in _candidates(iterator, indices, bad):
        recorder, flags, batch = _recorded(iterator, request)
        for tensor in (each for each in tree_leaves(batch) if isinstance(each, Tensor) and is_bad(each)):
            if _matches(~torch.isfinite(tensor), pattern.to(tensor.device)):
                return Reloaded(index, recorder.made_by(tensor), next(iter(flags), None))
        if time.monotonic() > end:
            break
    return None


def _candidates(iterator: Any, indices: Any, bad: Tensor) -> Iterator[tuple[Any, Any, Tensor]]:
    """The samples of a batch that may be the first bad one: the index, what to ask the data set for, and where the
    result is to be bad.

    A ``collate_fn`` of the program's own may have sorted the samples, as for sequences to be packed, so it can be any.
    """
    if not bool(bad.any()):  # it has been overwritten since
        return
    if not iterator._auto_collation:
        yield indices, indices, bad
    elif bad.dim() and isinstance(indices, (list, tuple)) and len(indices) == len(bad):
        first = int(bad.reshape(len(bad), -1).any(1).nonzero()[0])
        others = [] if iterator._collate_fn is default_collate else [*indices[:first], *indices[first + 1 :]]
        for index in (indices[first], *others):
            yield index, [index], bad[first : first + 1]


def _matches(bad: Tensor, pattern: Tensor) -> bool:
    """Whether a tensor is bad where a pattern says, which may be longer: a sample alone is not padded at the end."""
    if bad.dim() != pattern.dim() or any(own > whole for own, whole in zip(bad.shape, pattern.shape, strict=True)):
        return False
    is_all = int(bad.sum()) == int(pattern.sum())
    return is_all and torch.equal(bad, pattern[tuple(map(slice, bad.shape))])


def _recorded(iterator: Any, request: Any) -> tuple[Recorder, list[tuple[str, str, int]], list[Any]]:
    """The record of loading a request, what NumPy met meanwhile, and what was loaded; nothing if that failed.

    This happens in a thread of its own, so that nothing of the training is around it, neither frames nor modes.
    """
    recorder, batch = Recorder(), []
    flags: list[tuple[str, str, int]] = []

    def note(kind: str, _: int) -> None:
        frame = user_frame(sys._getframe(1))
        if frame is not None:
            flags.append((kind, frame.f_code.co_filename, frame.f_lineno))

    def load() -> None:
        how = iterator._auto_collation, iterator._collate_fn, iterator._drop_last
        with contextlib.suppress(Exception), np.errstate(**_FLAGS, call=note), recorder:
            fetcher = _DatasetKind.create_fetcher(iterator._dataset_kind, iterator._dataset, *how)
            batch.append(fetcher.fetch(request))

    with _random_numbers_kept():
        thread = threading.Thread(target=load, name="retrograd-loads-a-sample", daemon=True)
        thread.start()
        thread.join(_LONGEST)
    return recorder, flags, batch


_FLAGS: Any = {"all": "ignore", "divide": "call", "invalid": "call", "over": "call"}


@contextlib.contextmanager
def _random_numbers_kept() -> Iterator[None]:
    before = Snapshot(())
    try:
        yield
    finally:
        before.restore_random()
