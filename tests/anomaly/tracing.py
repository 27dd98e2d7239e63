"""A small adapter for the tests: run a torch program, find the birth, and describe it as the catalogue expects."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.operation_names import canonical
from retrograd.anomaly.surroundings import Operand, Operation, Surroundings

PROGRAM = "program.py"
_NAMES = {
    "pow": ("input", "exponent"),
    "where": ("condition", "input", "other"),
    "masked_fill": ("input", "mask", "value"),
    "softmax": ("input", "dim"),
    "log_softmax": ("input", "dim"),
    "sum": ("input", "dim", "keepdim"),
    "mean": ("input", "dim", "keepdim"),
    "std": ("input", "dim", "unbiased"),
    "var": ("input", "dim", "unbiased"),
    "cross_entropy": ("input", "target"),
    "ctc_loss": ("log_probs", "targets", "input_lengths", "target_lengths"),
}


@dataclass(eq=False)
class Call:
    """One operation of the run."""

    name: str
    args: list[tuple[str, Any]]
    output: torch.Tensor
    lineno: int | None
    values: dict[str, torch.Tensor] = field(default_factory=dict)

    def tensors(self) -> Iterator[torch.Tensor]:
        for _, value in self.args:
            if isinstance(value, torch.Tensor):
                yield value
            elif isinstance(value, (list, tuple)):
                yield from (item for item in value if isinstance(item, torch.Tensor))


def _line() -> int | None:
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != PROGRAM:
        frame = frame.f_back  # type: ignore[assignment]
    return frame.f_lineno if frame is not None else None


def _outputs(output: Any) -> Iterator[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, (list, tuple)):
        for item in output:
            yield from _outputs(item)


class Calls:
    """The records that both modes share."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def note(self, name: str, args: list[tuple[str, Any]], output: Any) -> None:
        for tensor in _outputs(output):
            self.calls.append(Call(name, args, tensor, _line()))


class Functions(TorchFunctionMode):
    """Sees the functions and methods that the program calls."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        name = resolve_name(func) or getattr(func, "__name__", str(func))
        if "__get__" in name:
            return output
        names = _NAMES.get(canonical(name), ("input", "other"))
        named = [(names[place] if place < len(names) else f"arg{place}", value) for place, value in enumerate(args)]
        self.calls.note(name, [*named, *(kwargs or {}).items()], output)
        return output


class Dispatches(TorchDispatchMode):
    """Sees what reaches the dispatcher."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        names = [argument.name for argument in func._schema.arguments]
        self.calls.note(str(func), [*zip(names, args, strict=False), *(kwargs or {}).items()], output)
        return output


def _nan(tensor: torch.Tensor) -> bool:
    return bool(tensor.isnan().any())


def _inf(tensor: torch.Tensor) -> bool:
    return bool(tensor.isinf().any())


def _first_bad(tensor: torch.Tensor, *, nan_only: bool = False) -> tuple[int, ...]:
    bad = tensor.isnan() if nan_only else ~tensor.isfinite()
    places = bad.nonzero()
    return tuple(int(place) for place in places[0]) if len(places) else ()


class Tracer:
    """The run of one program with the birth found in it."""

    def __init__(self, code: str, namespace: dict[str, Any], *, dispatch: bool = False) -> None:
        self.lines = code.splitlines()
        self.namespace = namespace
        recorder = Calls()
        with Dispatches(recorder) if dispatch else Functions(recorder):
            exec(compile(code, PROGRAM, "exec"), namespace)
        self.calls = recorder.calls
        self.result: torch.Tensor = namespace["y"]
        self.made: dict[int, Call] = {}
        for call in self.calls:
            self.made.setdefault(id(call.output), call)  # the first: in-place forms return what they got
        self.names = {id(value): name for name, value in namespace.items() if isinstance(value, torch.Tensor)}

    def event(self) -> NaNEvent:
        """The birth, as an event."""
        if not bool(self.result.isfinite().all()):
            for call in self.calls:
                if self._born(call):
                    return self._forward(call)
        return self._backward()

    def _born(self, call: Call) -> bool:
        inputs = [tensor for tensor in call.tensors() if tensor.is_floating_point()]
        plain = [value for _, value in call.args if isinstance(value, float)]
        nan = any(map(_nan, inputs))
        inf = any(map(_inf, inputs)) or any(abs(value) == float("inf") for value in plain)
        if not call.output.is_floating_point() or self._uninitialised(call):
            return False
        return (_nan(call.output) and not nan) or (_inf(call.output) and not inf and not nan)

    @staticmethod
    def _uninitialised(call: Call) -> bool:
        return canonical(call.name) in ("empty", "new_empty", "empty_like")

    def _forward(self, call: Call) -> NaNEvent:
        output = call.output
        index = _first_bad(output, nan_only=_nan(output))
        operation = self._operation(call, output.shape, index)
        kind = self._kind(call, operation, output)
        return self._event(call, operation, output, index, kind=kind, op=canonical(call.name))

    def _kind(self, call: Call, operation: Operation, output: torch.Tensor) -> str:
        if _nan(output):
            return "invalid"
        op = canonical(call.name)
        poles = ("log", "log2", "log10", "log1p", "div", "reciprocal", "rsqrt", "atanh", "logit", "rdiv", "erfinv")
        return "divide" if op in poles and not (op in ("div", "rdiv") and self._overflows(operation)) else "overflow"

    @staticmethod
    def _overflows(operation: Operation) -> bool:
        return all(operand.value != 0 for operand in operation.args)

    def _event(
        self, call: Call | None, operation: Operation, output: torch.Tensor, index: tuple[int, ...], **known: Any
    ) -> NaNEvent:
        lineno = call.lineno if call else None
        tensors = [tensor for tensor in (call.tensors() if call else ()) if tensor.is_floating_point()]
        return NaNEvent(
            filename=PROGRAM,
            lineno=lineno,
            code_line=self._code(lineno),
            index=index,
            operands={operand.name: operand.value for operand in operation.args if operand.value is not None},
            nan_count=int(output.isnan().sum()),
            posinf_count=int(output.isposinf().sum()),
            neginf_count=int(output.isneginf().sum()),
            size=output.numel(),
            output_shape=tuple(output.shape),
            dtype=str(output.dtype).removeprefix("torch."),
            input_has_nan=any(map(_nan, tensors)),
            input_has_inf=any(map(_inf, tensors)),
            output_has_nan=_nan(output),
            output_has_inf=_inf(output),
            surroundings=Surroundings(
                operation=operation,
                consumers=self._consumers(call, output.shape, index) if call else (),
                grad_value=known.pop("grad_value", None),
            ),
            **known,
        )

    def _code(self, lineno: int | None) -> str | None:
        return None if lineno is None else self.lines[lineno - 1]

    def _operation(self, call: Call, shape: torch.Size, index: tuple[int, ...], depth: int = 6) -> Operation:
        args = tuple(self._operand(name, value, shape, index, depth) for name, value in call.args)
        return Operation(op=call.name, args=args, code_line=self._code(call.lineno), lineno=call.lineno)

    def _operand(self, name: str, value: Any, shape: torch.Size, index: tuple[int, ...], depth: int) -> Operand:
        if not isinstance(value, torch.Tensor):
            plain = value if isinstance(value, (int, float, str, bool)) or value is None else None
            if isinstance(value, (list, tuple)) and all(isinstance(item, int) for item in value):
                plain = tuple(value)
            return Operand(name=name, value=plain, constant=True)
        producer = self.made.get(id(value))
        at, data = None, value.detach()
        try:
            at = data.expand(shape)[index].item() if len(index) == len(shape) else None
        except (RuntimeError, IndexError):
            at = data.item() if data.numel() == 1 else None
        extremes: dict[str, Any] = {}
        if data.numel():
            row = data[index[:-1]] if data.shape == shape and data.dim() > 1 else data
            extremes = {"min": row.min().item(), "max": row.max().item()}
        return Operand(
            name=name,
            value=at,
            shape=tuple(value.shape),
            dtype=str(value.dtype),
            requires_grad=value.requires_grad,
            producer=self._operation(producer, shape, index, depth - 1) if producer and depth else None,
            leaf_name=self.names.get(id(value)) if producer is None else None,
            key=id(value),
            **extremes,
        )

    def _consumers(self, call: Call, shape: torch.Size, index: tuple[int, ...]) -> tuple[Operation, ...]:
        """The shortest way from a call to the program's result."""
        ways: list[list[Call]] = [[call]]
        seen = {id(call)}
        while ways:
            way = ways.pop(0)
            if way[-1].output is self.result:
                return tuple(self._operation(step, shape, index) for step in way[1:])
            for later in self.calls:
                if id(later) not in seen and any(tensor is way[-1].output for tensor in later.tensors()):
                    seen.add(id(later))
                    ways.append([*way, later])
        return ()

    def _backward(self) -> NaNEvent:
        found: list[tuple[Any, Any, Any]] = []
        nodes, todo = set(), [self.result.grad_fn]
        while todo:
            node = todo.pop()
            if node is None or node in nodes:
                continue
            nodes.add(node)

            def look(grad_inputs: Any, grad_outputs: Any, node: Any = node) -> None:
                healthy = all(bool(grad.isfinite().all()) for grad in grad_outputs if grad is not None)
                if (
                    not found
                    and healthy
                    and any(not bool(grad.isfinite().all()) for grad in grad_inputs if grad is not None)
                ):
                    found.append((node, grad_inputs, grad_outputs))

            if node.name() != "torch::autograd::AccumulateGrad":
                node.register_hook(look)
            todo += [edge for edge, _ in node.next_functions]
        self.result.backward(torch.ones_like(self.result))
        assert found, "no birth"
        node, grad_inputs, grad_outputs = found[0]
        call = self._owner(node)
        bad = next(grad for grad in grad_inputs if grad is not None and not bool(grad.isfinite().all()))
        index = _first_bad(bad)
        arriving = grad_outputs[0]
        same = arriving is not None and arriving.shape == bad.shape
        grad = (
            arriving[index].item()
            if same
            else arriving.item()
            if arriving is not None and arriving.numel() == 1
            else None
        )
        return self._event(
            call,
            self._operation(call, bad.shape, index),
            bad,
            index,
            kind="invalid" if _nan(bad) else "divide",
            op=node.name(),
            is_backward=True,
            grad_value=grad,
            harmed="the gradient",
        )

    def _owner(self, node: Any) -> Call:
        """The call that made a node: its own, or the one that ran it inside."""
        for call in self.calls:
            inside = [call.output.grad_fn]
            for _ in range(8):
                if node in inside:
                    return call
                inside = [edge for step in inside if step is not None for edge, _ in step.next_functions]
        raise AssertionError(f"{node.name()} belongs to no recorded call")


def run(code: str, setup: str, *, dispatch: bool = False) -> NaNEvent:
    """The event of a program whose result is called ``y``."""
    return _event_of(code, setup, dispatch)


@functools.cache  # up to a dozen tests ask about each program
def _event_of(code: str, setup: str, dispatch: bool) -> NaNEvent:
    return Tracer(code, prepared(setup), dispatch=dispatch).event()


def prepared(setup: str) -> dict[str, Any]:
    """Return the variables that a program starts with."""
    namespace: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(setup, namespace)
    return namespace
