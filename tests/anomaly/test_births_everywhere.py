"""Births in every kind of place: dtypes, views, writes in place, Functions, large arrays, libraries, hooks.

The line that gives birth is marked in each program.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.anomaly import AnomalyError, NaNEvent, diagnose
from retrograd.core.blocks import LARGE

F = rg.nn.functional
HERE = "# born"


@dataclass(frozen=True)
class Case:
    """A program and the birth in it."""

    program: Callable[..., None]
    op: str
    index: tuple[int, ...] | None
    kind: str
    is_backward: bool
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        return "-".join((self.program.__name__, *map(str, self.arguments)))

    @property
    def lineno(self) -> int:
        lines, first = inspect.getsourcelines(self.program)
        (marked,) = (number for number, line in enumerate(lines, first) if line.rstrip().endswith(HERE))
        return marked


CASES: list[Case] = []

Program = Callable[..., None]


def born(op: str, index: tuple[int, ...] | None, kind: str, *, backward: bool = False) -> Callable[[Program], Program]:
    def register(program: Program) -> Program:
        CASES.append(Case(program, op, index, kind, backward, ()))
        return program

    return register


def each(*arguments: Any) -> Callable[[Program], Program]:
    """Run the program registered last with each of some arguments."""

    def register(program: Program) -> Program:
        case = CASES.pop()
        CASES.extend(
            Case(program, case.op, case.index, case.kind, case.is_backward, (argument,)) for argument in arguments
        )
        return program

    return register


def leaf(*values: Any, dtype: str = "float32") -> rg.Tensor:
    return rg.tensor(list(values), dtype=getattr(rg, dtype), requires_grad=True)


# --- dtypes -----------------------------------------------------------------------------------------------------------


@each("float16", "float32", "float64", "complex64", "complex128")
@born("log", (1,), "divide")
def logarithm(dtype: str) -> None:
    x = leaf(1.0, 0.0, dtype=dtype)
    y = rg.log(x)  # born
    y.abs().sum().backward()


@each("float16", "float32", "float64")
@born("SqrtBackward0", (1,), "divide", backward=True)
def root(dtype: str) -> None:
    x = leaf(1.0, 0.0, dtype=dtype)
    y = rg.sqrt(x)  # born
    y.sum().backward()


@each("float16", "float32", "float64")
@born("mul", (2,), "overflow")
def product(dtype: str) -> None:
    x = leaf(1.0, 2.0, rg.finfo(getattr(rg, dtype)).max, dtype=dtype)
    y = x * x  # born
    y.sum().backward()


@born("to_copy", (1,), "overflow")
def cast() -> None:
    x = leaf(1.0, 1e6)
    y = x.half()  # born
    y.sum().backward()


@born("sum", (), "overflow")
def half_sum() -> None:
    x = leaf(60000.0, 60000.0, dtype="float16")
    y = x.sum()  # born
    y.backward()


@born("AddBackward0", (0,), "overflow", backward=True)
def half_gradient_of_something_broadcast() -> None:
    b = leaf(0.0, dtype="float16")
    y = rg.zeros(4, 1, dtype=rg.float16) + b  # born
    (y * 30000.0).sum().backward()


# --- views and writes in place ----------------------------------------------------------------------------------------


@born("log", (1,), "divide")
def view() -> None:
    x = leaf(1.0, 2.0, 0.0)
    v = x[1:]
    y = v.log()  # born
    y.sum().backward()


@born("log", (1, 0), "divide")
def transposed_view() -> None:
    x = leaf([1.0, 0.0], [2.0, 3.0])
    y = rg.log(x.T)  # born
    y.sum().backward()


@born("log", (1,), "divide")
def in_place() -> None:
    h = leaf(1.0, 0.0) * 1
    h.log_()  # born
    h.sum().backward()


@born("div", (1,), "divide")
def augmented() -> None:
    h = leaf(1.0, 2.0) * 1
    h /= rg.tensor([1.0, 0.0])  # born
    h.sum().backward()


@born("log", (0,), "divide")
def in_place_on_a_view() -> None:
    h = leaf(1.0, 0.0) * 1
    h[1:].log_()  # born
    h.sum().backward()


@born("SqrtBackward0", (0,), "divide", backward=True)
def backward_of_a_view_written_to() -> None:
    h = leaf(1.0, 0.0) * 1
    h[1:].sqrt_()  # born
    h.sum().backward()


@born("log", (0,), "divide")
def assigned() -> None:
    x = leaf(1.0, 0.0)
    out = rg.zeros(3)
    out[1:2] = rg.log(x[1:])  # born
    out.sum().backward()


@born("log", (1,), "divide")
def overwritten_later() -> None:
    x = leaf(1.0, 0.0)
    y = rg.log(x)  # born
    h = y * 1
    h.mul_(2.0).add_(1.0)
    h.sum().backward()


# --- user-written Functions -------------------------------------------------------------------------------------------


class NumpyLog(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: rg.Tensor) -> rg.Tensor:
        ctx.save_for_backward(x)
        return rg.tensor(np.log(x.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, g: rg.Tensor) -> rg.Tensor:
        (x,) = ctx.saved_tensors
        return g / x


class OwnSqrt(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: rg.Tensor) -> rg.Tensor:
        result = x.sqrt()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, g: rg.Tensor) -> rg.Tensor:
        (result,) = ctx.saved_tensors
        return g / (2 * result)


class Composed(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: rg.Tensor) -> rg.Tensor:
        return x.log() * 2

    @staticmethod
    def backward(ctx: Any, g: rg.Tensor) -> rg.Tensor:
        return g


def line_in(function: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return next(number for number, line in enumerate(lines, first) if text in line)


@born("OwnSqrtBackward", (1,), "divide", backward=True)
def backward_of_a_function() -> None:
    y = OwnSqrt.apply(leaf(1.0, 0.0))  # born
    y.sum().backward()


@pytest.mark.parametrize("steps", [False, True], ids=["flags", "steps"])
@pytest.mark.parametrize(
    ("function", "op", "text"),
    [(NumpyLog, "NumpyLog", "np.log("), (Composed, "log", "x.log()")],
    ids=["numpy", "operations"],
)
def test_the_forward_of_a_custom_function_has_the_line_of_the_birth(
    function: Any, op: str, text: str, steps: bool
) -> None:
    event = event_of(lambda: (function.apply(leaf(1.0, 0.0)) + 1).sum().backward(), steps)
    assert (event.op, event.lineno, event.index) == (op, line_in(function, text), (1,))
    assert event.path[0] == f"{function.__name__}Backward"


@pytest.mark.parametrize("steps", [False, True], ids=["flags", "steps"])
def test_the_line_within_the_backward_of_a_custom_function_is_named(steps: bool) -> None:
    event = event_of(backward_of_a_function, steps)
    assert event.note is not None
    assert event.note.endswith(f":{line_in(OwnSqrt, 'g / (2')}.")


# --- large arrays -----------------------------------------------------------------------------------------------------

N = math.isqrt(LARGE) + 1  # of the smallest matrices whose gradients are large


@each(0, LARGE, 2 * LARGE - 1)
@born("exp", None, "overflow")
def exponential_in_threads(place: int) -> None:
    x = rg.zeros(2 * LARGE)
    x[place] = 100.0
    y = rg.exp(x.requires_grad_())  # born
    y.sum().backward()


@each(0, LARGE, 2 * LARGE - 1)
@born("SqrtBackward0", None, "divide", backward=True)
def root_in_threads(place: int) -> None:
    x = rg.ones(2 * LARGE)
    x[place] = 0.0
    y = rg.sqrt(x.requires_grad_())  # born
    y.sum().backward()


@each((0, 0), (N - 1, N - 1), (N // 2, 3))
@born("matmul", None, "overflow")
def matrix_product_in_threads(place: tuple[int, int]) -> None:
    a, b = rg.ones(N, N), rg.ones(N, N)
    a[place[0], 7] = b[7, place[1]] = 1e30
    y = a.requires_grad_() @ b  # born
    y.sum().backward()


@each((0, 0), (N - 1, N - 1), (N // 2, 3))
@born("MatmulBackward0", None, "overflow", backward=True)
def backward_of_a_matrix_product_in_threads(place: tuple[int, int]) -> None:
    a, b, weights = rg.zeros(N, N), rg.ones(N, N), rg.ones(N, N)
    weights[place[0], 7] = b[place[1], 7] = 1e30
    y = a.requires_grad_() @ b  # born
    (y * weights).sum().backward()


@each((0, 0), (N - 1, N - 1), (N // 2, 3))
@born("MatmulBackward0", None, "overflow", backward=True)
def backward_of_the_second_of_two_matrix_products_in_threads(place: tuple[int, int]) -> None:
    a, b, weights = rg.zeros(N, N, requires_grad=True), rg.ones(N, N), rg.ones(N, N)
    c = rg.ones(N, N)
    weights[place[0], 7] = c[place[1], 7] = 1e30
    h = a @ (b * 1e-30)
    y = h @ c.requires_grad_()  # born
    (y * weights).sum().backward()


# --- libraries --------------------------------------------------------------------------------------------------------


@born("linear", (0, 0), "overflow")
def linear() -> None:
    y = F.linear(rg.tensor([[1e30]]), leaf([1e30]))  # born
    y.sum().backward()


@born("einsum", (0, 1), "overflow")
def einsum() -> None:
    a, b = leaf([1e30, 1.0], [1.0, 1.0]), rg.tensor([[1.0, 1e30], [1.0, 1.0]])
    y = rg.einsum("ij,jk->ik", a, b)  # born
    y.sum().backward()


@born("convolution", (0, 0, 0, 0), "overflow")
def convolution() -> None:
    y = F.conv2d(rg.full((1, 1, 3, 3), 1e30), rg.full((1, 1, 2, 2), 1e30).requires_grad_())  # born
    y.sum().backward()


@born("linalg_det", (), "overflow")
def determinant() -> None:
    y = rg.linalg.det(leaf([1e30, 0.0], [0.0, 1e30]))  # born
    y.backward()


@born("LinalgEighBackward0", (0, 0), "invalid", backward=True)
def eigenvectors() -> None:
    _, vectors = rg.linalg.eigh(rg.eye(3).requires_grad_())  # born
    vectors[0, 1].backward()


@born("linalg_vector_norm", (), "overflow")
def norm() -> None:
    y = leaf(1e30, 1.0).norm()  # born
    y.backward()


@born("erfinv", (1,), "divide")
def pole_of_a_special_function() -> None:
    y = rg.special.erfinv(leaf(0.5, 1.0))  # born
    y.sum().backward()


@born("digamma", (1,), "divide")
def another_pole() -> None:
    y = rg.digamma(leaf(0.5, 0.0))  # born
    y.sum().backward()


@born("lgamma", (1,), "overflow")
def overflow_of_a_special_function() -> None:
    y = rg.lgamma(leaf(0.5, 1e38))  # born
    y.sum().backward()


@born("cumsum", (1,), "overflow")
def cumulative() -> None:
    y = leaf(3e38, 3e38).cumsum(0)  # born
    y.sum().backward()


@born("layer_norm", (0, 0), "invalid")
def normalisation() -> None:
    y = F.layer_norm(leaf([2.0, 2.0]), (2,), eps=0.0)  # born
    y.sum().backward()


@born("log", (1,), "divide")
def numpy_function() -> None:
    y = np.log(leaf(1.0, 0.0))  # born
    y.sum().backward()


# --- other ways to a gradient -----------------------------------------------------------------------------------------


@born("PowBackward0", (1,), "divide", backward=True)
def second_derivative() -> None:
    x = leaf(1.0, 0.0)
    y = x**1.5  # born
    (slope,) = rg.autograd.grad(y.sum(), x, create_graph=True)
    slope.sum().backward()


@born("SqrtBackward0", (1,), "divide", backward=True)
def first_derivative_to_be_differentiated() -> None:
    x = leaf(1.0, 0.0)
    y = rg.sqrt(x)  # born
    rg.autograd.grad(y.sum(), x, create_graph=True)


@born("SqrtBackward0", (1,), "divide", backward=True)
def returned_gradient() -> None:
    x = leaf(1.0, 0.0)
    y = rg.sqrt(x)  # born
    rg.autograd.grad(y.sum(), x)


@born("log", (1,), "divide")
def functional_gradient() -> None:
    def f(x: rg.Tensor) -> rg.Tensor:
        return rg.log(x).sum()  # born

    rg.func.grad(f)(rg.tensor([1.0, 0.0]))


@born("log", (0, 1), "divide")
def vectorised() -> None:
    y = rg.vmap(lambda row: rg.log(row))(leaf([1.0, 0.0], [1.0, 1.0]))  # born
    y.sum().backward()


@born("SqrtBackward0", (1,), "divide", backward=True)
def recomputed() -> None:
    def f(x: rg.Tensor) -> rg.Tensor:
        return rg.sqrt(x)  # born

    rg.utils.checkpoint.checkpoint(f, leaf(1.0, 0.0), use_reentrant=False).sum().backward()


@born("div", (0,), "divide", backward=True)
def hook() -> None:
    y = leaf(1.0, 0.0) * 2
    y.register_hook(lambda g: g / rg.tensor([0.0, 1.0]))  # born
    y.sum().backward()


@born("AccumulateGrad", (0,), "overflow", backward=True)
def two_uses() -> None:
    x = leaf(0.0, dtype="float16")
    y = x * 60000.0  # born
    (y + x * 60000.0).sum().backward()


# --- without gradient -------------------------------------------------------------------------------------------------


@born("log", (1,), "divide")
def constant_factor() -> None:
    x = leaf(1.0, 2.0)
    with rg.no_grad():
        w = rg.log(rg.tensor([1.0, 0.0]))  # born
    (x * w).sum().backward()


@born("log", (1,), "divide")
def constant_addend() -> None:
    x = leaf(1.0, 2.0)
    w = rg.log(rg.tensor([1.0, 0.0])) * 2  # born
    (x + w).sum().backward()


# --- the tests --------------------------------------------------------------------------------------------------------


def event_of(program: Callable[[], object], steps: bool) -> NaNEvent:
    with rg.anomaly.watch(policy="record") as watch:
        for _ in watch.steps([0]) if steps else [0]:
            program()
    (event,) = watch.events
    return event


@pytest.mark.parametrize("steps", [False, True], ids=["flags", "steps"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_operation_line_element_and_kind_of_a_birth_are_exact(case: Case, steps: bool) -> None:
    event = event_of(lambda: case.program(*case.arguments), steps)
    assert (event.op, event.lineno, event.kind) == (case.op, case.lineno, case.kind)
    assert event.is_backward == case.is_backward
    place = case.arguments[0] if case.index is None else case.index
    assert event.index == (place if isinstance(place, tuple) else (place,))
    assert event.reproducible == (True if steps else None)


def test_the_element_of_a_threaded_matrix_product_is_exact() -> None:
    program = backward_of_a_matrix_product_in_threads
    with rg.anomaly.watch(policy="record") as watch:
        program((N - 1, N // 2))
    (event,) = watch.events
    assert (event.index, event.posinf_count, event.operands) == ((N - 1, N // 2), 1, {})


def test_an_infinity_from_a_hook_is_not_blamed_on_a_product() -> None:
    w = leaf([1.0, 2.0])

    def program() -> None:
        y = rg.ones(1, 1) @ w
        y.register_hook(lambda g: g + rg.tensor([float("inf"), 0.0]))
        y.sum().backward()

    assert event_of(program, False).op == "unknown"


@pytest.mark.parametrize("steps", [False, True], ids=["flags", "steps"])
def test_a_bad_gradient_given_to_backward_is_reported_as_a_leaf(steps: bool) -> None:
    x = leaf(1.0, 2.0)
    event = event_of(lambda: (x * 2).backward(rg.tensor([1.0, float("nan")])), steps)
    assert (event.kind, event.index, event.harmed) == ("leaf", (1,), "the gradient of x")
    assert "gradient" in event.operands


def test_an_overflow_times_a_zero_gradient_is_explained_by_the_overflow() -> None:
    event = event_of(lambda: rg.exp(leaf(1.0, 100.0))[0].backward(), False)
    assert (event.op, event.index, event.operands) == ("ExpBackward0", (1,), {"result": float("inf")})
    assert diagnose(event).number == 27


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_operands_are_those_at_the_element(dtype: str) -> None:
    event = event_of(lambda: (leaf(3.0, 6.0, dtype=dtype) / rg.tensor([1.0, 0.0])).sum().backward(), False)
    assert event.operands == {"input": 6.0, "other": 0.0}
    event = event_of(lambda: (2.0 / leaf(1.0, 0.0, dtype=dtype)).sum().backward(), False)
    assert event.operands == {"input": 2.0, "other": 0.0}


@pytest.mark.parametrize("join", [lambda data, w: rg.cat([data, w]), lambda data, w: data + w], ids=["cat", "add"])
def test_data_that_no_node_kept_is_named_as_an_inference(join: Callable[[Any, Any], Any]) -> None:
    """The operation that took the NaN keeps none of its operands, but its place is known."""
    w = rg.ones(2, requires_grad=True)
    with pytest.raises(AnomalyError) as raised, rg.anomaly.watch():
        joined = join(rg.tensor([1.0, float("nan")]), w)  # no variable holds it
        (joined * 2).sum().backward()
    event = raised.value.event
    assert isinstance(event, NaNEvent)
    assert "lambda data, w: data + w" in (event.code_line or "")
    assert re.search(r"check it first|That data was not finite is an inference", event.note or "")


@pytest.mark.parametrize("function", [rg.digamma, rg.lgamma], ids=["digamma", "lgamma"])
def test_the_remedy_for_float16_computed_in_float32_has_a_bound_of_float16(function: Callable[..., Any]) -> None:
    """The result is float16, and so is the bound that keeps the argument away from the pole."""
    x = rg.tensor([1.0, 0.0], dtype=rg.float16, requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        function(x).sum().backward()
    assert w.event is not None
    assert (w.event.dtype, w.event.index) == ("float16", (1,))
    assert "min=1e-4" in (w.event.remedy or "")


def test_a_birth_in_a_hook_is_not_mended_by_a_where_after_it() -> None:
    """The ``where`` is behind the hook in backward: its condition says nothing about what the hook computes."""
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        h = rg.where(x > 1.5, x * 2, 0.0) * 1
        h.register_hook(lambda g: rg.log(g * 0 - 1))
        h.sum().backward()
    assert w.event is not None
    assert (w.event.op, w.event.harmed) == ("log", "the gradient of x")
    assert "where" not in (w.event.remedy or "")


def test_a_line_that_begins_with_a_plus_is_computed_in_float32_after_it() -> None:
    x = rg.tensor([300.0, 1.0], dtype=rg.float16, requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        loss = (
            x.sum()
            + x.half() * 1e3
        ).sum()  # fmt: skip
        loss.backward()
    assert w.event is not None
    assert w.event.remedy == "+ x.half().float() * 1e3"


def test_the_remedy_converts_the_operands_of_an_einsum_to_float32() -> None:
    x = rg.tensor([200.0, 200.0], dtype=rg.float16, requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        loss = rg.einsum("i,i->", x, x)
        loss.backward()
    assert w.event is not None
    assert w.event.remedy == 'loss = rg.einsum("i,i->", x.float(), x.float())'


def test_the_element_of_a_complex_birth_is_exact_in_a_transposed_tensor() -> None:
    x = rg.tensor([[1 + 1j, 2 + 2j, 3j], [0j, 1 + 0j, 2j]], requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        rg.log(x.T).abs().sum().backward()
    assert w.event is not None
    assert (w.event.op, w.event.index, w.event.neginf_count, w.event.size) == ("log", (0, 1), 1, 6)
    assert w.event.output_stats is not None
    assert w.event.output_stats["max"] == pytest.approx(np.pi / 2)


def test_an_infinite_imaginary_part_is_counted() -> None:
    x = rg.tensor(1 + 3e38j, requires_grad=True)
    with rg.anomaly.watch(policy="record") as w:
        (x * 10).imag.backward()
    assert w.event is not None
    assert (w.event.op, w.event.posinf_count, w.event.output_has_inf) == ("mul", 1, True)
