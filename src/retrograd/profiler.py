"""The profiler as training loops call it: by steps, of which a schedule says which are recorded.

>>> model = rg.nn.Linear(8, 8)
>>> def ready(prof):
...     print(prof.step_num, prof.key_averages()[0].key)
>>> with rg.profiler.profile(
...     schedule=rg.profiler.schedule(wait=1, warmup=1, active=2, repeat=1), on_trace_ready=ready
... ) as prof:
...     for step in range(6):
...         model(rg.ones(4, 8)).sum().backward()
...         prof.step()
4 ProfilerStep*

What is recorded, and what can be read from it, is :class:`retrograd.autograd.profiler.profile`'s.
"""

from __future__ import annotations

import gzip
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterable
from enum import Enum
from os import PathLike
from typing import Any

from retrograd.autograd import profiler as autograd_profiler
from retrograd.autograd.profiler import record_function
from retrograd.autograd.profiler_util import EventList
from retrograd.core.sites import warn_user
from retrograd.device import cuda_is_available

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """What is profiled. Only the CPU's side is; the others are names that scripts give."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What to do in a step of a schedule."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """Return what can be asked for here: the CPU, and a GPU if there is one."""
    return {ProfilerActivity.CPU, ProfilerActivity.CUDA} if cuda_is_available() else {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a schedule of cycles, each of ``wait`` steps, ``warmup`` steps, and ``active`` ones that are recorded.

    Parameters
    ----------
    wait, warmup, active
        How many steps of a cycle are of which kind. Nothing is warmed up here; the steps are left out.
    repeat
        How many cycles; 0 for no end.
    skip_first
        How many steps come before the first cycle.
    skip_first_wait
        Not 0 leaves out the waiting of the first cycle.

    Raises
    ------
    AssertionError
        If one of them is negative, or ``active`` is 0.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        cycle, place = divmod(step - skip_first + (wait if skip_first_wait else 0), length)
        if (repeat and cycle >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[profile], None]:
    """Return a function for ``on_trace_ready`` that writes each trace to a file of its own in ``dir_name``.

    ``use_python_export`` is accepted for torch's sake, without effect.
    """
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"

    def write(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = f"{worker}.{time.time_ns()}.pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{name}.gz" if use_gzip else name))

    return write


class profile:  # noqa: N801 (torch's name)
    """A block, or what lies between ``start`` and ``stop``, whose steps are recorded as a schedule says.

    Parameters
    ----------
    activities
        What to profile. Times on a GPU are not measured, which a warning says.
    schedule
        What to do in each step, by its number, see :func:`schedule`. Without one everything is recorded.
    on_trace_ready
        Called with the profile whenever a cycle has been recorded.
    record_shapes, profile_memory, with_stack, with_flops
        As of :class:`retrograd.autograd.profiler.profile`.
    with_modules, experimental_config, execution_trace_observer, acc_events, custom_trace_id_callback
        Accepted for torch's sake, without effect.
    post_processing_timeout_s
        The same.
    use_cuda
        Deprecated; an activity.

    Examples
    --------
    >>> from retrograd.profiler import ProfilerActivity, profile, record_function
    >>> x = rg.ones(8, 8, requires_grad=True)
    >>> with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof, record_function("product"):
    ...     y = x @ x
    >>> [event.key for event in prof.key_averages()]
    ['product', 'aten::matmul']
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        if use_cuda is not None:
            warn_user("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning)
        asked = supported_activities() if activities is None else {kind for item in activities for kind in _kinds(item)}
        if not asked and not use_cuda:
            raise AssertionError("No valid profiler activities found")
        self._on_gpu = use_cuda if use_cuda is not None else activities is not None and ProfilerActivity.CUDA in asked
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.step_num = 0
        self.current_action = self._planned(0)
        self.profiler: autograd_profiler.profile | None = None
        self._marker: record_function | None = None

    def _planned(self, step: int) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(step)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the step of the present number."""
        if self.current_action in _RECORDS:
            self._begin_trace()
        self._begin_step()

    def stop(self) -> None:
        """End: a trace that is being recorded is ready."""
        self._end_step()
        if self.current_action in _RECORDS:
            self._end_trace()
            self._tell()

    def step(self) -> None:
        """Say that the next step begins.

        It warns of a schedule in which ``RECORD`` is not followed by ``RECORD_AND_SAVE``: such a trace is lost.
        """
        self._end_step()
        before, now = self.current_action, self._planned(self.step_num + 1)
        self.step_num += 1
        self.current_action = now
        if now in (ProfilerAction.NONE, ProfilerAction.WARMUP) and before is ProfilerAction.RECORD:
            warn_user(f"Incorrect schedule: RECORD followed by {now.name}")
        if now is ProfilerAction.NONE and before is ProfilerAction.WARMUP:
            warn_user("Incorrect schedule: WARMUP followed by NONE")
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._end_trace()
            self._tell()
        elif before is ProfilerAction.RECORD and now not in _RECORDS:
            self._end_trace()
        if now in _RECORDS and before is not ProfilerAction.RECORD:
            self._begin_trace()
        self._begin_step()

    def _begin_trace(self) -> None:
        self.profiler = autograd_profiler.profile(
            use_device="cuda" if self._on_gpu else None,
            record_shapes=self.record_shapes,
            with_flops=self.with_flops,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
        )
        self.profiler.__enter__()

    def _end_trace(self) -> None:
        self._recorded().__exit__(None, None, None)

    def _tell(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _begin_step(self) -> None:
        """Where there is a schedule, its steps are events."""
        if self.schedule is not None:
            self._marker = record_function(f"ProfilerStep#{self.step_num}")
            self._marker.__enter__()

    def _end_step(self) -> None:
        if self._marker is not None:
            self._marker.__exit__(None, None, None)
            self._marker = None

    def _recorded(self) -> autograd_profiler.profile:
        if self.profiler is None:
            raise AssertionError(
                f"nothing has been recorded yet: the profile is at step {self.step_num}; call step() after each step "
                "of the loop, and read the profile in on_trace_ready or later"
            )
        return self.profiler

    def events(self) -> EventList:
        """Return all events of the last trace, in the order in which they began."""
        return self._recorded().function_events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return one average for all events of a name, or of a name and the same shapes or the same call stack."""
        return self._recorded().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: str | PathLike[str], use_python_export: bool = False) -> None:
        """Write the last trace for Perfetto (ui.perfetto.dev); compressed, if the path ends in ``.gz``."""
        if not os.fspath(path).endswith(".gz"):
            self._recorded().export_chrome_trace(path)
            return
        with tempfile.TemporaryDirectory() as folder:
            plain = os.path.join(folder, "trace.json")
            self._recorded().export_chrome_trace(plain)
            with open(plain, "rb") as source, gzip.open(path, "wb") as target:
                target.write(source.read())

    def export_stacks(self, path: str | PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write call stacks and their costs, as programs that draw flame graphs read them."""
        self._recorded().export_stacks(path, metric)


def _kinds(item: ProfilerActivity | dict[ProfilerActivity, list[str]]) -> Iterable[ProfilerActivity]:
    return item.keys() if isinstance(item, dict) else (item,)
