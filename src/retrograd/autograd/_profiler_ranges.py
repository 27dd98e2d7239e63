"""Every operation as a range in an external profiler: NVIDIA's through NVTX, Intel's VTune through ITT."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from retrograd.autograd import _profiler_names as names
from retrograd.autograd._profiler_recorder import listed, shape_of
from retrograd.core import state
from retrograd.core.node import Node
from retrograd.core.observer import Observer, pop, push
from retrograd.core.tensor import Tensor


class _Emitter(Observer):
    """Begins and ends ranges. A token holds the depth to return to, and the objects to keep alive until then."""

    def __init__(self, begin: Callable[[str], Any], end: Callable[[], Any], record_shapes: bool) -> None:
        self._begin_range = begin
        self._end_range = end
        self._record_shapes = record_shapes
        self._depth = 0

    def _begin(self, kind: int, name: str, sequence_nr: int, arguments: Sequence[Any]) -> tuple[int, Any]:
        text = names.full_name(kind, name)
        if sequence_nr >= 0:
            text += f", seq = {sequence_nr}"
        if self._record_shapes and arguments:
            text += f", sizes = {[listed(shape_of(value)) for value in arguments]}"
        self._begin_range(text)
        self._depth += 1
        return self._depth - 1, None

    def _return_to(self, token: tuple[int, Any], *what: Any) -> None:
        while self._depth > token[0]:  # by more than one, if an exception skipped the ends in between
            self._end_range()
            self._depth -= 1

    def close(self) -> None:
        """End the ranges that are still open."""
        self._return_to((0, None))

    def _forward(self, kind: int, name: str, arguments: Sequence[Any]) -> tuple[int, Any]:
        if not state.local.grad_enabled:
            return self._begin(kind, name, -1, arguments)
        # leaves get their nodes now, so that the next number is that of the operation's own
        edges = [value._resolve_edge() for value in arguments if isinstance(value, Tensor)]
        depth, _ = self._begin(kind, name, state.next_sequence_nr() + 1, arguments)
        return depth, edges

    def forward_begin(self, name: str, bound: Sequence[Any]) -> Any:
        return self._forward(names.OPERATION, name, bound)

    def function_begin(self, name: str, args: Sequence[Any]) -> Any:
        return self._forward(names.FUNCTION, name, args)

    def region_begin(self, name: str, arguments: Sequence[Any], user: bool) -> Any:
        return self._begin(names.BLOCK if user else names.COMPOSITE, name, -1, arguments)

    def evaluate_begin(self, node: Node) -> Any:
        return self._begin(names.EVALUATE, node.name(), -1, ())

    def backward_begin(self, node: Node, g: Any) -> Any:
        grads = g if isinstance(g, list) else [g]
        return self._begin(names.BACKWARD, node.name(), -1 if node.is_leaf else node.seq, grads)

    forward_end = forward_failed = evaluate_end = backward_end = backward_failed = _return_to  # type: ignore[assignment]
    region_end = _return_to


class _emit:  # noqa: N801 (a base of torch's names)
    """A block whose operations are emitted as ranges."""

    _kind: str

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.entered = False

    def _range_functions(self) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        """The functions that begin a range with a given text and end it."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError(f"{self._kind} annotation context manager is not reentrant")
        self._emitter = _Emitter(*self._range_functions(), self.record_shapes)
        self.entered = True
        push(self._emitter)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.enabled:
            pop(self._emitter)
            self._emitter.close()


def _package(name: str, user: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{user} needs the package '{name}', which is not installed: pip install {name}") from error


class emit_nvtx(_emit):  # noqa: N801 (torch's name)
    """Make every operation of this thread an NVTX range, for NVIDIA's Nsight Systems or nvprof. Needs ``nvtx``.

    The range of an operation is called ``aten::mul, seq = 12``; that of the node it records, when backward comes to it,
    ``MulBackward0, seq = 12``. The numbers tell which belongs to which, also where ``create_graph=True`` makes backward
    record nodes in turn. Operations that record nothing have no number, or one that no node has.

    Parameters
    ----------
    enabled
        False makes this block do nothing.
    record_shapes
        Append the shape of each argument, as ``, sizes = [[10, 10], []]``; ``[]`` for what is not a tensor.

    Raises
    ------
    ImportError
        On entering the block, if ``nvtx`` is not installed.
    RuntimeError
        On entering the same one twice.

    Examples
    --------
    Run under ``nsys profile python script.py``::

        with rg.autograd.profiler.emit_nvtx():
            loss(model(x)).backward()
    """

    _kind = "NVTX"

    def _range_functions(self) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        nvtx = _package("nvtx", "emit_nvtx")
        return nvtx.push_range, nvtx.pop_range


class emit_itt(_emit):  # noqa: N801 (torch's name)
    """Make every operation of this thread an ITT task, for Intel's VTune. Needs ``ittapi``.

    Parameters, names of the ranges and errors are those of :class:`emit_nvtx`.
    """

    _kind = "ITT"

    def _range_functions(self) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        ittapi = _package("ittapi", "emit_itt")
        domain = ittapi.domain("retrograd")
        return (
            lambda text: ittapi.task_begin(domain, ittapi.string_handle(text)),
            lambda: ittapi.task_end(domain),
        )
