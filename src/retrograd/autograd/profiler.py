"""Where the time goes: operation by operation, forward and backward, as ``torch.autograd.profiler`` shows it.

>>> x = rg.ones(3, 3, requires_grad=True)
>>> with rg.autograd.profiler.profile() as prof:
...     x.exp().sum().backward()
>>> [event.name for event in prof.function_events if event.cpu_parent is None][:2]
['aten::exp', 'aten::sum']
>>> print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=5))  # doctest: +ELLIPSIS
-...
                   Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls
...
Self CPU time total: ...

Nothing is observed outside such a block, and nothing is slower for it.
"""

from __future__ import annotations

from os import PathLike
from time import perf_counter_ns
from typing import Any

from retrograd.autograd._chrome_trace import this_thread
from retrograd.autograd._nvprof import EnforceUnique, load_nvprof, load_nvvp, parse_nvprof_trace
from retrograd.autograd._profiler_events import make_events
from retrograd.autograd._profiler_ranges import emit_itt, emit_nvtx
from retrograd.autograd._profiler_recorder import DetailedRecorder, Recorder
from retrograd.autograd._step_tracker import KinetoStepTracker
from retrograd.autograd.grad_mode import _Mode
from retrograd.autograd.profiler_util import EventList, FunctionEvent, FunctionEventAvg, MemRecordsAcc
from retrograd.core.observer import Observer, pop, push
from retrograd.core.renamed_functions import own_methods
from retrograd.core.sites import warn_user
from retrograd.core.state import local
from retrograd.device import cuda_is_available


class profile:  # noqa: N801 (torch's name)
    """A block whose operations are timed. Only this thread's; several blocks may be nested, and each records.

    Parameters
    ----------
    enabled
        False makes this block do nothing; its list of events stays empty.
    use_cuda
        Deprecated; ``use_device="cuda"``.
    use_device
        Accepted for torch's sake: only this side of the GPU is timed, which a warning says. See :class:`emit_nvtx`.
    record_shapes
        Note the shapes of arguments, to group by with ``key_averages(group_by_input_shape=True)``.
    with_flops
        Estimate floating-point operations of matrix products and elementwise arithmetic; implies ``record_shapes``.
    profile_memory
        Note the sizes of results when they are made and when they are freed.
    with_stack
        Note where in the program each operation was called.
    with_modules, use_kineto, use_cpu, acc_events
        Accepted for torch's sake, without effect.

    Examples
    --------
    >>> x = rg.ones(100, 100, requires_grad=True)
    >>> with rg.autograd.profiler.profile(record_shapes=True, profile_memory=True) as prof:
    ...     y = x @ x
    ...     with rg.autograd.profiler.record_function("second layer"):
    ...         y = y @ x
    >>> average = prof.key_averages(group_by_input_shape=True)[0]
    >>> average.key, average.count, average.input_shapes, average.cpu_memory_usage
    ('aten::matmul', 2, [[100, 100], [100, 100]], 80000)
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        acc_events: bool = False,
    ) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes or with_flops
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.entered = False
        self.use_device = None
        if enabled:
            _warn_about_device("cuda" if use_cuda else use_device, use_cuda)
        self._recorder: Recorder | None = None
        self._noted: dict[str, Any] | None = None
        self._function_events: EventList | None = None

    def __enter__(self) -> profile:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        if self.record_shapes or self.with_stack or self.profile_memory:
            self._recorder = DetailedRecorder(self.record_shapes, self.with_stack, self.profile_memory)
        else:
            self._recorder = Recorder()
        self._start = perf_counter_ns()
        push(self._recorder)
        return self

    def __exit__(self, *exc: object) -> None:
        recorder = self._recorder
        if recorder is None:
            return
        stop = perf_counter_ns()
        pop(recorder)
        self._recorder = None
        self._noted = {
            "entries": recorder.entries.copy(),  # a block begun in here that ends later still writes to the old list
            "memory": recorder.stop_following() if isinstance(recorder, DetailedRecorder) else [],
            "start": self._start,
            "stop": stop,
            "thread": this_thread(),
        }

    @property
    def function_events(self) -> EventList:
        """All events, in the order in which they began.

        Raises
        ------
        RuntimeError
            If the block has not been left yet.
        """
        if self._function_events is None:
            if self.enabled and self._noted is None:
                raise RuntimeError("the profile has no events yet: leave its `with` block first")
            self._function_events = EventList(
                make_events(**self._noted, with_flops=self.with_flops) if self._noted is not None else (),
                profile_memory=self.profile_memory,
                with_flops=self.with_flops,
            )
            self._function_events._build_tree()
            self._noted = None
        return self._function_events

    def _is_finished(self) -> bool:
        return self._function_events is not None or self._noted is not None or not self.enabled

    def __repr__(self) -> str:
        return repr(self.function_events) if self._is_finished() else "<unfinished retrograd.autograd.profile>"

    def __str__(self) -> str:
        return str(self.function_events) if self._is_finished() else repr(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show IPython and notebooks the table."""
        printer.text(str(self))

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """Return all events as a table; for the parameters see :class:`retrograd.autograd.profiler_util.EventList`."""
        return self.function_events.table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
        )

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return one average for all events of a name, or of a name and the same shapes or the same call stack."""
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """Return the sums over all events."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds that all events took, each moment counted once."""
        return self.function_events.self_cpu_time_total

    def export_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write a trace for Perfetto (ui.perfetto.dev); arrows lead from operations to their nodes in backward."""
        self.function_events.export_chrome_trace(path)

    def export_stacks(self, path: str | PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write call stacks and their costs, as programs that draw flame graphs read them.

        Raises
        ------
        AssertionError
            If the profile was not made ``with_stack=True``.
        ValueError
            If ``metric`` is neither ``"self_cpu_time_total"`` nor ``"self_cuda_time_total"``.
        """
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.function_events.export_stacks(path, metric)


def _warn_about_device(device: str | None, deprecated: bool) -> None:
    if deprecated:
        warn_user(
            "The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead.",
            FutureWarning,
        )
    if device is None:
        return
    if device != "cuda":
        message = f"The {device} is not a valid device option."
    elif not cuda_is_available():
        message = "CUDA is not available, disabling CUDA profiling"
    else:
        message = "Times on the GPU are not measured; use emit_nvtx with Nsight Systems to measure them"
    warn_user(message)


class record_function(_Mode):  # noqa: N801 (torch's name)
    """Show a block of code, or a function, under a name of your own in a profile.

    Parameters
    ----------
    name
        The name of the event.
    args
        A string to keep with it (``concrete_inputs``, where ``record_shapes`` is on).

    Examples
    --------
    >>> @rg.autograd.profiler.record_function("norm of three")
    ... def norm(x):
    ...     return (x * x).sum().sqrt()
    >>> with rg.autograd.profiler.profile() as prof:
    ...     norm(rg.ones(3))
    tensor(1.7321)
    >>> [event.name for event in prof.function_events[0].cpu_children]
    ['aten::mul', 'aten::sum', 'aten::sqrt']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._observer: Observer | None = None

    def clone(self) -> record_function:
        return type(self)(self.name, self.args)

    def __enter__(self) -> record_function:
        observer = self._observer = local.observer
        if observer is not None:
            self._token = observer.region_begin(self.name, () if self.args is None else (self.args,), True)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._observer is not None:
            self._observer.region_end(self._token)


__all__ = [
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "load_nvvp",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]

own_methods(globals(), "__init__")
