"""What the backward of an autograd.Function receives and returns, compared with torch."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, leaf, message, parity


@parity
def test_materialized_gradients_of_several_outputs(lib: Any) -> Any:
    log: list[Any] = []

    class Two(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, materialize: bool) -> Any:
            ctx.set_materialize_grads(materialize)
            index = x.argmax()
            ctx.mark_non_differentiable(index)
            return x * 2, x * 3, index

        @staticmethod
        def backward(ctx: Any, g2: Any, g3: Any, gi: Any) -> Any:
            log.append((g2 is None, g3 is None, gi is None))
            grad = 0
            if g2 is not None:
                grad = grad + g2 * 2
            if g3 is not None:
                grad = grad + g3 * 3
            return grad, None

    report = []
    for materialize in (True, False):
        x = leaf(lib, 1.0, 2.0)
        a, b, index = Two.apply(x, materialize)
        report += [a.requires_grad, b.requires_grad, index.requires_grad, a.output_nr, b.output_nr]
        b.sum().backward()
        report.append(x.grad)
    return report, log


@parity
def test_once_differentiable(lib: Any) -> Any:
    once = lib.autograd.function.once_differentiable

    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        @once
        def backward(ctx: Any, g: Any) -> Any:
            (a,) = ctx.saved_tensors
            return 2 * a * g

    x = leaf(lib, 1.0, 2.0)
    Square.apply(x).sum().backward()
    report = [x.grad]
    y = Square.apply(x)
    (g,) = lib.autograd.grad(y, x, lib.ones(2, dtype=lib.float64, requires_grad=True), create_graph=True)
    report += [g, g.requires_grad, attempt(lambda: g.sum().backward())]
    return report


def test_once_differentiable_with_a_list_of_gradients() -> None:  # torch's backward may not return a list
    class Square(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        @rg.autograd.function.once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            return [2 * ctx.saved_tensors[0] * g]

    x = leaf(rg, 1.0, 2.0)
    y = Square.apply(x)
    (g,) = rg.autograd.grad(y, x, rg.ones(2, dtype=rg.float64, requires_grad=True), create_graph=True)
    assert g.requires_grad and g.tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="differentiate twice"):
        g.sum().backward()


@parity
def test_dtype_and_shape_of_returned_gradients(lib: Any) -> Any:
    class Odd(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a.expand(3, 2) * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.double() * 2

    x = lib.tensor([1.0, 2.0], requires_grad=True)
    Odd.apply(x).sum().backward()
    return x.grad


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("returned", ["float64", "complex64", "complex128"])
def test_backward_that_returns_a_real_or_complex_gradient(dtype: str, returned: str) -> None:
    @parity
    def program(lib: Any) -> Any:
        class Odd(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, a: Any, factor: float, b: Any) -> Any:
                return a * factor + b

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return (g * 2).to(getattr(lib, returned)), None, g

        a, b = (lib.tensor([1.0, 2.0], dtype=getattr(lib, dtype), requires_grad=True) for _ in "ab")
        report = []
        for tensors in ([a, b], [a.detach(), b]):
            report.append(
                attempt(lambda tensors=tensors: Odd.apply(tensors[0], 3.0, tensors[1]).abs().sum().backward())
            )
        return [*report, a.grad is None, b.grad]

    program()


def test_error_about_a_complex_gradient_says_what_to_return() -> None:
    class Odd(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2j

    said = message(lambda: Odd.apply(leaf(rg, 1.0)).sum().backward())
    assert "OddBackward returned a gradient of complex128 for an input of float64" in said
    assert "(.real)" in said


@parity
def test_complex_gradients_of_real_inputs(lib: Any) -> Any:
    def times(factor: complex, real: bool) -> Any:
        class Times(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, n: int, x: Any) -> Any:
                return x * n * factor

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                grad = g * 3 * factor.conjugate()
                return None, grad.real if real else grad

        return Times.apply

    def gradient(factor: complex, real: bool, x: Any, create_graph: bool) -> Any:
        y = times(factor, real)(3, x).abs().sum()
        return attempt(lambda: lib.autograd.grad(y, x, create_graph=create_graph))

    x = leaf(lib, 1.0, -2.0)
    z = lib.tensor([1.0 + 2.0j, 3.0 - 1.0j], dtype=lib.complex128, requires_grad=True)
    cases = [(1.0 + 2.0j, False, x), (1.0 + 2.0j, True, x), (1.0 + 2.0j, False, z), (2.0, False, x)]
    return [gradient(*case, create_graph) for case in cases for create_graph in (False, True)]


@parity
def test_backward_must_return_a_tensor_or_a_tuple(lib: Any) -> Any:
    def function(returned: Any) -> Any:
        class Double(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *args: Any) -> Any:
                return args[0] * 2

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return returned(grad)

        return Double

    report = []
    for returned in (
        lambda g: g,
        lambda g: (g,),
        lambda g: [g],
        lambda g: [g, g],
        lambda g: (g, None),
        lambda g: (g, None, None),
        lambda g: (),
        lambda g: None,
        lambda g: 3.0,
        lambda g: g[:1],
    ):
        for arguments in ((), (3,)):
            x = leaf(lib, 1.0, 2.0)
            report.append(attempt(lambda: function(returned).apply(x, *arguments).sum().backward()))  # noqa: B023
            report.append(x.grad)
    return report


def test_error_about_a_list_of_gradients_suggests_a_tuple() -> None:
    class Listed(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return [grad]

    with pytest.raises(RuntimeError, match=r"got list\) from ListedBackward; return several gradients as a tuple"):
        Listed.apply(leaf(rg, 1.0)).backward()


@parity
def test_boxed_grads_call(lib: Any) -> Any:
    seen: list[Any] = []

    class Both(lib.autograd.Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x * 2, y * 3, "other"

        @staticmethod
        def backward(ctx: Any, grads: Any) -> Any:
            seen.append((type(grads).__name__, list(grads)))
            return grads.pop(0) * 2, grads.pop(0) * 3

    class Named(lib.autograd.Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def vjp(ctx: Any, grads: Any) -> Any:
            (grad,) = grads
            return grad * 2

    x = lib.tensor([1.0, 2.0], requires_grad=True)
    y = lib.tensor([3.0, 4.0], requires_grad=True)
    a, b, _ = Both.apply(x, y)
    (a * b).sum().backward(retain_graph=True)
    a.sum().backward()
    (g,) = lib.autograd.grad((Named.apply(x) ** 2).sum(), x, create_graph=True)
    return seen, x.grad, y.grad, lib.autograd.grad(g.sum(), x)


@parity
def test_failed_backward_keeps_the_saved_tensors(lib: Any) -> Any:
    """So it raises the same error again, and succeeds once the cause is removed."""
    right = False

    class Sum(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.sum()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g.expand(x.shape) if right else g

    x = leaf(lib, 1.0, 2.0)
    report = []
    for create_graph in (False, True):
        y, right = Sum.apply(x), False
        for _ in range(2):
            with pytest.raises(RuntimeError, match="Function SumBackward returned an invalid gradient at index 0"):
                lib.autograd.grad(y, x, create_graph=create_graph, retain_graph=False)
        right = True
        report.append(lib.autograd.grad(y, x))
        report.append(attempt(lambda: lib.autograd.grad(y, x)))  # noqa: B023 (called at once)
    return report
