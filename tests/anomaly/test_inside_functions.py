"""Births in code of the user's own that backward calls: the line there, and what its variables held."""

from __future__ import annotations

import sys

import pytest

import retrograd as rg
from retrograd.anomaly import diagnose
from tests.anomaly.both import libraries, line, only_event, run, runs

# With torch, the operations within a backward and within hooks are seen in a second run only.
SEEN = pytest.mark.parametrize(("library", "steps"), [("retrograd", False), ("retrograd", True), ("torch", True)])

BACKWARD = """
class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sqrt(x)
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        scale = 2 * torch.sqrt(x)
        return grad / scale  # born here
x = torch.tensor([4.0, 0.0], requires_grad=True)
Root.apply(x).sum().backward()
"""


@SEEN
def test_a_birth_in_the_backward_of_a_function_has_its_line_in_the_note(library: str, steps: bool) -> None:
    event = only_event(run(library, BACKWARD, steps))
    assert (event.op, event.index, event.kind) == ("RootBackward", (1,), "divide")
    assert event.operands == {"grad": 1.0, "scale": 0.0}
    assert event.lineno == line(BACKWARD) + 2
    assert f":{line(BACKWARD)}." in (event.note or "")
    assert diagnose(event).number == 32
    assert event.remedy_lineno == line(BACKWARD)
    assert "where(scale == 0, 1e-12, scale)" in (event.remedy or "")


def test_without_a_second_run_the_function_is_named() -> None:
    """PyTorch does not keep the numbers that a custom backward has computed."""
    event = only_event(run("torch", BACKWARD))
    assert (event.op, event.index) == ("RootBackward", (1,))
    if sys.version_info >= (3, 12):  # lines of the forward pass are known
        assert event.lineno == line(BACKWARD) + 2
    else:
        assert event.function is not None
        assert event.function.endswith("backward")
    assert "steps(loader)" in (event.note or "")


NUMPY = """
import numpy as np
class Log(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values = x.detach().numpy()
        ctx.save_for_backward(x)
        return torch.tensor(np.{forward}(values))
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        values = x.detach().numpy()
        slope = 1 / values
        return grad * torch.tensor(slope)
x = torch.tensor([4.0, 0.0], requires_grad=True)
Log.apply(x).sum().backward()
"""


@runs
def test_a_birth_in_numpy_code_of_a_backward_has_its_operands(steps: bool) -> None:
    event = only_event(run("retrograd", NUMPY.format(forward="cos"), steps))
    assert (event.op, event.index, event.operands) == ("LogBackward", (1,), {"values": 0.0})
    assert (diagnose(event).number, event.remedy) == (32, "slope = 1 / np.where(values == 0, 1e-12, values)")


@runs
def test_a_birth_in_numpy_code_of_a_forward_has_its_operands(steps: bool) -> None:
    event = only_event(run("retrograd", NUMPY.format(forward="log"), steps))
    assert (event.op, event.index, event.operands) == ("Log", (1,), {"values": 0.0})
    assert diagnose(event).number == 1
    assert "np.maximum(values, 1e-12)" in (event.remedy or "")


HOOK = """
x = torch.tensor([4.0, 0.0], requires_grad=True)
h = x * 2
def normalised(grad):
    size = h.detach().abs()
    return grad / size  # born here
h.register_hook(normalised)
h.sum().backward()
"""


@SEEN
def test_a_birth_in_a_hook_has_its_line(library: str, steps: bool) -> None:
    event = only_event(run(library, HOOK, steps))
    assert (event.lineno, event.index, event.kind) == (line(HOOK), (1,), "divide")
    assert [*event.operands.values()] == [1.0, 0.0]
    assert "hook" in (event.note or "")
    assert diagnose(event).number == 32


EXPONENTIAL = """
class Up(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.exp(x)  # born here
x = torch.tensor([4.0, 200.0], requires_grad=True)
Up.apply(x).sum().backward()
"""


@libraries
def test_an_operation_within_a_backward_is_not_taken_for_a_derivative(library: str) -> None:
    event = only_event(run(library, EXPONENTIAL, True))
    assert (event.is_backward, diagnose(event).number) == (True, 27)
    assert "torch.exp(torch.clamp(x, max=43.0))" in (event.remedy or "")  # half of the range: it is multiplied


TWO_QUOTIENTS = """
class Quotient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a / b
    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad / b, -grad * a / b**2
a = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([1.0, 1e-30], requires_grad=True)
Quotient.apply(a, b).sum().backward()
"""


@runs
def test_two_quotients_of_a_line_are_both_mended(steps: bool) -> None:
    """Where the instruction is tells which of them it was; the remedy is for both, which a zero would spoil."""
    event = only_event(run("retrograd", TWO_QUOTIENTS, steps))
    assert "-2 / 0 is infinite" in (event.cause or "")
    assert "return grad / rg.where(b == 0, 1e-12, b), -grad * a / " in (event.remedy or "")
    assert "where((b**2) == 0, 1e-12, b**2)" in (event.remedy or "")


SOLVED_FORWARD = """
class Solve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.sqrt(x - 1)  # born here
    @staticmethod
    def backward(ctx, grad):
        return grad
x = torch.tensor([4.0, 0.0], requires_grad=True)
Solve.apply(x).sum().backward()
"""


@libraries
def test_a_birth_in_the_forward_of_a_function_is_not_called_backward(library: str) -> None:
    event = only_event(run(library, SOLVED_FORWARD, steps=True))
    assert (event.op, event.lineno) == ("sqrt", line(SOLVED_FORWARD))
    assert "backward" not in (event.note or "")


@pytest.mark.parametrize(
    "way", [".sum()", ".unsqueeze(0).squeeze(0).reshape(2, 1).sum()", "[1:].mean().mul(2).add(x.sum())"]
)
def test_without_a_second_run_the_forward_of_the_function_is_named(way: str) -> None:
    event = only_event(run("torch", SOLVED_FORWARD.replace(".sum()", way)))
    assert (event.op, event.index, event.is_backward) == ("solve", None, False)
    if sys.version_info >= (3, 12):  # lines of the forward pass are known
        assert event.lineno == line(SOLVED_FORWARD) + 5
    else:
        assert event.function is not None
        assert event.function.endswith("Solve.forward")
    assert "somewhere in the forward of the user's own function" in (event.note or "")
    assert "steps(loader)" in (event.note or "")
    assert diagnose(event).number is None  # its name is that of torch's solve, by accident


SEVERAL_LAYERS = """
class Solved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, *parameters):
        return torch.sqrt(x - 1)
    @staticmethod
    def backward(ctx, grad):
        return grad, *(None for _ in range(4))
model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
x = torch.tensor([4.0, 0.0], requires_grad=True)
parts = Solved.apply(x * 1, *model.parameters()).split(1)
torch.stack([parts[0] - parts[1]]).squeeze(1).sum().backward()
"""


def test_a_function_of_the_parameters_of_many_layers_belongs_to_no_layer() -> None:
    event = only_event(run("torch", SEVERAL_LAYERS))
    assert (event.op, event.layer_name) == ("solved", None)


IMPLICIT = """
class Fixed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, A, x):
        ctx.save_for_backward(A)
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        (A,) = ctx.saved_tensors
        return None, torch.linalg.solve(torch.eye(2) - A, grad)  # born here
x = torch.ones(2, requires_grad=True)
Fixed.apply(torch.eye(2), x).sum().backward()
"""


def test_an_error_in_a_backward_gets_a_note_on_the_operation_that_failed() -> None:
    with pytest.raises(rg.linalg.LinAlgError) as caught:
        run("retrograd", IMPLICIT)
    (note,) = caught.value.__notes__
    assert "The matrix given to solve is singular" in note
    assert "torch.eye(2) - A + 1e-5" in note


TWICE = """
import numpy as np
class Log(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, masked):
        if not masked:
            return torch.tensor([float("-inf")] * len(x))  # no flag tells of it
        return torch.tensor(np.where(x.numpy() > 0, np.log(x.numpy()), 0))
    @staticmethod
    def backward(ctx, grad):
        return grad, None
x = torch.tensor([1.0, 0.0], requires_grad=True)
first = Log.apply(x, True)
"""


@pytest.mark.parametrize("end", ["second = Log.apply(x, False)", "second = Log.apply(x + 1, False)"])
def test_a_call_is_distinguished_from_an_earlier_one_with_a_masked_birth(end: str) -> None:
    event = only_event(run("retrograd", f"{TWICE}{end}\n(first + second).sum().backward()"))
    assert (event.op, event.index, event.code_line) == ("Log", (0,), end)


def test_calls_of_a_function_in_a_loop_are_distinguished() -> None:
    text = f"{TWICE}total = 0\nfor masked in (True, False, True):\n    total = total + Log.apply(x, masked).sum()\n"
    event = only_event(run("retrograd", f"{text}total.backward()"))
    assert (event.op, event.code_line) == ("Log", "total = total + Log.apply(x, masked).sum()")
    assert event.path.count("AddBackward0") == 2
