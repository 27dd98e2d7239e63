"""One event of a profile, and the sums over several."""

from __future__ import annotations

from typing import Any, NamedTuple

from retrograd.autograd._profiler_table import format_time
from retrograd.core.sites import warn_user


class Interval:
    """From ``start`` to ``end``, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Return the length."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval(start={self.start}, end={self.end})"


class Kernel(NamedTuple):
    """Work that an event started on a GPU; ``duration`` is in microseconds."""

    name: str
    device: int
    duration: float


def _formatted(name: str) -> property:
    return property(lambda self: format_time(getattr(self, name)), doc=f"``{name}`` with a unit, as in a table.")


def _renamed(old: str, new: str) -> property:
    """torch's older name for a property of the GPU."""

    def get(self: Any) -> Any:
        warn_user(f"`{old}` is deprecated, please use `{new}` instead.", FutureWarning)
        return getattr(self, new)

    return property(get, doc=f"Deprecated name of ``{new}``.")


class FormattedTimesMixin:
    """Averages and printed forms of times; for classes with ``count`` and ``*_time_total``."""

    count: int
    cpu_time_total: Any
    device_time_total: Any

    cpu_time_str = _formatted("cpu_time")
    device_time_str = _formatted("device_time")
    cpu_time_total_str = _formatted("cpu_time_total")
    device_time_total_str = _formatted("device_time_total")
    self_cpu_time_total_str = _formatted("self_cpu_time_total")
    self_device_time_total_str = _formatted("self_device_time_total")

    @property
    def cpu_time(self) -> float:
        """Average time of a call, in microseconds."""
        return 0.0 if self.count == 0 else self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """Average time of a call on the GPU, in microseconds."""
        return 0.0 if self.count == 0 else self.device_time_total / self.count

    cuda_time = _renamed("cuda_time", "device_time")


class FunctionEvent(FormattedTimesMixin):
    """One call of one operation.

    Attributes
    ----------
    id : int
        Number of the event.
    name, key : str
        What was called: ``aten::mul``, ``MulBackward0``, the name of a ``record_function`` block.
    trace_name : str or None
        Its name in a trace; None keeps it out.
    time_range : Interval
        In microseconds since the profile began.
    thread, fwd_thread : int
        The thread it ran in; for backward that of the forward operation (else 0).
    scope : int
        0 for operations, 1 for nodes of the graph, 7 for ``record_function``.
    sequence_nr : int
        Number of the node that an operation recorded, or that ran in backward; -1 if there is none.
    input_shapes : list
        Shape of each argument, ``[]`` for what is not a tensor. Needs ``record_shapes``, as do the next two.
    structured_input_shapes : list
        The same with lists of shapes for lists of tensors.
    concrete_inputs : list
        Value of each argument that is a number, a string or a tuple of those, else None.
    stack : list of str
        Where it was called, from the inside out; in backward, where the forward operation was. Needs ``with_stack``.
    cpu_parent : FunctionEvent or None
        The event that it is part of.
    cpu_children : list of FunctionEvent
        The events that are part of it.
    cpu_memory_usage : int
        Bytes allocated less bytes freed. Needs ``profile_memory``.
    flops : int
        Estimated floating-point operations. Needs ``with_flops``.
    kernels : list of Kernel
        What it started on a GPU.
    count : int
        1.
    """

    overload_name = ""
    is_async = False
    is_remote = False
    is_legacy = False
    device_index = 0

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        *,
        fwd_thread: int | None = None,
        input_shapes: list[list[int]] | None = None,
        structured_input_shapes: list[Any] | None = None,
        concrete_inputs: list[Any] | None = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        sequence_nr: int = -1,
        node_id: int = -1,
        flops: int = 0,
        trace_name: str | None = None,
        is_user_annotation: bool = False,
    ) -> None:
        self.id = id
        self.name = name
        self.trace_name: str | None = name if trace_name is None else trace_name
        self.thread = thread
        self.time_range = Interval(start_us, end_us)
        self.fwd_thread = fwd_thread
        self.input_shapes = [] if input_shapes is None else input_shapes
        self.structured_input_shapes = [] if structured_input_shapes is None else structured_input_shapes
        self.concrete_inputs = concrete_inputs
        self.stack = [] if stack is None else stack
        self.scope = scope
        self.use_device = use_device
        self.cpu_memory_usage = cpu_memory_usage
        self.device_memory_usage = device_memory_usage
        self.sequence_nr = sequence_nr
        self.node_id = node_id
        self.flops = flops
        self.is_user_annotation = is_user_annotation
        self.count = 1
        self.kernels: list[Kernel] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Add work on a GPU."""
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Add an event that is part of this one directly."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Set the event that this one is directly part of."""
        self.cpu_parent = parent

    @property
    def key(self) -> str:
        """The name, by which events are averaged."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from beginning to end."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:
        """``cpu_time_total`` without that of its parts."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """``cpu_memory_usage`` without that of its parts."""
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """``device_memory_usage`` without that of its parts."""
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """Microseconds of its own kernels."""
        return sum(kernel.duration for kernel in self.kernels) if self.use_device else 0

    @property
    def device_time_total(self) -> float:
        """Microseconds of its kernels and those of its parts."""
        return self.self_device_time_total + sum(child.device_time_total for child in self.cpu_children)

    cuda_time_total = _renamed("cuda_time_total", "device_time_total")
    self_cuda_time_total = _renamed("self_cuda_time_total", "self_device_time_total")
    self_cuda_memory_usage = _renamed("self_cuda_memory_usage", "self_device_memory_usage")

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} {_device(self)}_time={self.device_time_str} "
            f"thread={self.thread} input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"seq_nr={self.sequence_nr}>"
        )


class FunctionEventAvg(FormattedTimesMixin):
    """Sums over events, as ``key_averages()`` and ``total_average()`` give them; ``cpu_time`` is the average.

    Its attributes are those of :class:`FunctionEvent`: times, memory, ``flops`` and ``count`` are sums, everything else
    is that of the first event.
    """

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.node_id = 0
        self.is_async = False
        self.is_remote = False
        self.is_legacy = False
        self.is_user_annotation = False
        self.use_device: str | None = None
        self.cpu_time_total: float = 0
        self.device_time_total: float = 0
        self.self_cpu_time_total: float = 0
        self.self_device_time_total: float = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: list[str] | None = None
        self.scope: int | None = None
        self.cpu_memory_usage = 0
        self.device_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.self_device_memory_usage = 0
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.flops = 0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or the sums over several, with the same key.

        Raises
        ------
        ValueError
            If the keys differ.
        """
        if self.key is None:
            for name in _OF_THE_FIRST:
                setattr(self, name, getattr(other, name))
        elif other.key != self.key:
            raise ValueError(f"cannot add {other.key!r} to the sums over {self.key!r}")
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    __iadd__ = add

    cuda_time_total = _renamed("cuda_time_total", "device_time_total")
    self_cuda_time_total = _renamed("self_cuda_time_total", "self_device_time_total")

    def __repr__(self) -> str:
        device = _device(self)
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage}>"
        )


_OF_THE_FIRST = (
    "key",
    "node_id",
    "is_async",
    "is_remote",
    "is_legacy",
    "is_user_annotation",
    "use_device",
    "input_shapes",
    "overload_name",
    "stack",
    "scope",
    "cpu_parent",
    "cpu_children",
)
_SUMMED = (
    "count",
    "cpu_time_total",
    "device_time_total",
    "self_cpu_time_total",
    "self_device_time_total",
    "cpu_memory_usage",
    "device_memory_usage",
    "self_cpu_memory_usage",
    "self_device_memory_usage",
    "flops",
)


def _device(event: FunctionEvent | FunctionEventAvg) -> str:
    return event.use_device or "cuda"
