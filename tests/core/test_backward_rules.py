"""What backward accumulates, runs, frees and refuses, compared with torch."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, leaf, message, parity


@parity
def test_gradient_with_a_graph_is_accumulated_in_place(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    (x * 2).sum().backward()
    report = [x.grad is first, first, first.requires_grad]
    (x * x).sum().backward(create_graph=True)
    return [*report, x.grad is first, x.grad, first]


@parity
def test_gradient_with_a_graph_is_not_the_tensor_passed_to_backward(lib: Any) -> Any:
    x, v = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
    x.backward(v, create_graph=True)
    report = [x.grad is v, x.grad.requires_grad]
    with lib.no_grad():
        x.grad.zero_()
    return [*report, v]


@parity
def test_leaf_frozen_after_forward_gets_no_gradient(lib: Any) -> Any:
    x, w = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
    log: list[str] = []
    x.register_post_accumulate_grad_hook(lambda _: log.append("accumulated"))
    y = x * w
    x.requires_grad_(False)
    y.sum().backward()
    return x.grad, w.grad, log


@parity
def test_gradients_seen_by_node_hooks_with_broadcasting_and_casts(lib: Any) -> Any:
    log: list[Any] = []
    one = leaf(lib, 2.0)
    row, number = one.expand(3), lib.tensor([1 + 2j, 3 - 1j])
    for y in (row, row * lib.ones(2, 3, dtype=lib.float64), one * number, one.to(lib.float32)):
        y.grad_fn.register_hook(lambda gi, go: log.append([gi[0], go[0]]))
        y.abs().sum().backward()
    return log, one.grad


@parity
def test_backward_to_an_intermediate_input_runs_its_node(lib: Any) -> Any:
    log: list[str] = []

    class Noted(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            log.append("backward")
            return g * 2

    x = leaf(lib, 1.0, 2.0)
    y = Noted.apply(x)
    y.grad_fn.register_prehook(lambda go: log.append("pre"))
    y.grad_fn.register_hook(lambda gi, go: log.append("post"))
    (y * 3).sum().backward(inputs=[y])
    report = [y.grad, x.grad, attempt(lambda: y.sum().backward())]  # no freed tensor is read
    return [*report, log]


@parity
def test_saved_masks_and_indices_are_freed_after_backward(lib: Any) -> Any:
    report = []
    index = lib.tensor([0])
    for function in (
        lambda x: lib.where(x > 0.5, x, 0.0),
        lambda x: x.masked_fill(x > 0.5, 2.0),
        lambda x: x.gather(0, index),
        lambda x: x.index_select(0, index),
        lambda x: x.index_fill(0, index, 1.0),
        lambda x: x.scatter(0, index, 1.0),
        lambda x: x.masked_select(x > 0.5),
    ):
        x = leaf(lib, 0.0, 1.0)
        y = function(x).sum()
        y.backward()
        report += [attempt(y.backward), x.grad]
    return report


def test_grad_reports_outputs_before_inputs() -> None:
    x = rg.ones(2)
    assert message(lambda: rg.autograd.grad(x.sum(), x)).startswith(
        "element 0 of tensors does not require grad and does not have a grad_fn"
    )
    y = rg.ones(2, requires_grad=True)
    assert message(lambda: rg.autograd.grad(y.sum(), x)).startswith(
        "One of the differentiated Tensors does not require grad"
    )


# --- Functions that write ------------------------------------------------------------------------------------------


def tripling_in_place(lib: Any) -> Any:
    class Tripled(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(3)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    return Tripled.apply


@parity
def test_retained_gradient_after_a_custom_in_place_function(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x * 2
    y.retain_grad()
    tripling_in_place(lib)(y)
    (y * y).sum().backward()
    return y.grad, x.grad


@parity
def test_custom_in_place_function_on_a_leaf_under_no_grad(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    with lib.no_grad():
        y = tripling_in_place(lib)(x)
    return x, x.requires_grad, y.requires_grad, y is x, attempt(lambda: y.mul_(2))


def test_custom_in_place_function_on_a_leaf_is_refused() -> None:
    x = leaf(rg, 1.0, 2.0)
    assert message(lambda: tripling_in_place(rg)(x)).startswith(
        "a leaf Variable that requires grad has been used in an in-place operation."
    )


@parity
def test_returned_input_keeps_its_base(lib: Any) -> Any:
    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = leaf(lib, 1.0, 2.0)
    y = Same.apply(x[1:])
    y.sum().backward()
    return y._base is x, x.grad


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("relu", ()),
        ("relu6", ()),
        ("leaky_relu", (0.2,)),
        ("hardtanh", ()),
        ("threshold", (0.0, -1.0)),
        ("hardshrink", ()),
        ("softshrink", ()),
        ("rrelu", (0.2, 0.2)),
    ],
)
def test_second_derivatives_of_piecewise_linear_functions_are_zeros(name: str, arguments: tuple[float, ...]) -> None:
    """They exist as zeros, so a program that computes them gets no error."""

    @parity
    def program(lib: Any) -> Any:
        x = lib.tensor([-4.0, -0.2, 0.0, 0.7, 5.0, float("inf"), float("nan")], dtype=lib.float64, requires_grad=True)
        (g,) = lib.autograd.grad(getattr(lib.nn.functional, name)(x, *arguments).sum(), x, create_graph=True)
        (h,) = lib.autograd.grad(g.sum(), x)
        return [g[:5], g.requires_grad, h]

    program()


@parity
def test_second_derivatives_of_a_network_with_relu(lib: Any) -> Any:
    w, v = lib.tensor([[1.0, -2.0]], requires_grad=True), lib.tensor([[3.0], [4.0]], requires_grad=True)
    x = lib.tensor([[0.5], [-1.5]], requires_grad=True)
    u = (lib.nn.functional.prelu((x @ w).relu() @ v, lib.tensor(0.1))).sum()
    (first,) = lib.autograd.grad(u, x, create_graph=True)
    (second,) = lib.autograd.grad(first.sum(), x, create_graph=True)
    (first.square().sum() + second.square().sum()).backward()
    return [first, second, w.grad, v.grad]
