"""What hooks in backward may return, and which of them run, compared with torch."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, leaf, message, parity

RESULTS = {
    "two for one": lambda lib, grads: grads + grads,
    "none for one": lambda lib, grads: (),
    "a list": lambda lib, grads: list(grads),
    "a tensor": lambda lib, grads: grads[0],
    "a number": lambda lib, grads: (3,) * len(grads),
    "another shape": lambda lib, grads: tuple(None if g is None else lib.ones(7, dtype=g.dtype) for g in grads),
    "another dtype": lambda lib, grads: tuple(None if g is None else g.float() for g in grads),
    "a gradient where there is none": lambda lib, grads: tuple(lib.ones(2, dtype=lib.float64) for g in grads),
    "nothing instead": lambda lib, grads: tuple(None for g in grads),
    "twice as much": lambda lib, grads: tuple(None if g is None else g * 2 for g in grads),
}


@pytest.mark.parametrize("place", ["before", "after", "after a leaf's node"])
@pytest.mark.parametrize("name", RESULTS)
def test_return_values_of_node_hooks(name: str, place: str) -> None:
    result = RESULTS[name]

    @parity
    def program(lib: Any) -> Any:
        x = leaf(lib, 1.0, 2.0)
        y = x * 3
        node = y.grad_fn.next_functions[0][0] if "leaf" in place else y.grad_fn
        if place == "before":
            node.register_prehook(lambda grads: result(lib, grads))
        else:
            node.register_hook(lambda grads, outputs: result(lib, grads))
        report = attempt(lambda: y.sum().backward())
        return ["done" if report is None else report, "no gradient" if x.grad is None else x.grad]

    program()


@parity
def test_tensor_hook_does_not_run_without_a_gradient(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    first, second = (x * 2).unbind()
    second.register_hook(lambda g: lib.ones((), dtype=lib.float64))
    return [attempt(lambda: first.backward()), x.grad is None]


def test_errors_about_hooks_name_the_hook() -> None:
    x = leaf(rg, 1.0, 2.0)

    def grows(g: Any) -> Any:
        return rg.ones(3, dtype=g.dtype)

    y = x * 3
    y.register_hook(grows)
    assert "hook 'grows' has changed the size of value: from [2] to [3]" in message(lambda: y.sum().backward())

    y = x * 3
    y.grad_fn.register_prehook(lambda grads: grads + grads)
    said = "hook '<lambda>' has returned an incorrect number of values (got 2, but expected 1)"
    assert said in message(lambda: y.sum().backward())


@parity
def test_hooks_of_roots_that_do_not_lead_to_the_inputs(lib: Any) -> Any:
    log: list[str] = []
    x, y = leaf(lib, 1.0), leaf(lib, 2.0)
    x.register_hook(lambda g: log.append("x"))
    y.register_hook(lambda g: log.append("y"))
    lib.autograd.backward([x, y], inputs=[y])
    lib.autograd.backward([x, y * 2], inputs=[y])
    log.append("alone")
    report = lib.autograd.grad(x, y, allow_unused=True)
    return [log, list(report), x.grad is None, y.grad]


@parity
def test_post_hook_of_a_custom_function_sees_what_backward_returned(lib: Any) -> Any:
    class Product(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2, g * 3

    seen: list[Any] = []
    x = leaf(lib, 1.0, 2.0)
    y = Product.apply(x, x.detach())  # the second gradient goes nowhere
    y.grad_fn.register_hook(lambda grads, outputs: seen.append((grads, outputs)))
    y.sum().backward()
    return [seen, x.grad]


@parity
def test_grad_of_intermediate_tensors_with_hooks(lib: Any) -> Any:
    x = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
    y = x * 2
    first, second = y.unbind()
    z = first * second * 3
    for tensor, factor in ((x, 7), (y, 10), (first, 5), (z, 100)):
        tensor.register_hook(lambda g, factor=factor: g * factor)
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 2,))
    report = []
    for inputs in ([x], [y], [y, x], [first], [first, second], [first, x], [z], [z, first], [x, y, z]):
        report.append(lib.autograd.grad(z, inputs, retain_graph=True))
    return [*report, lib.autograd.grad(z, [x, y], create_graph=True)]


def doubling_hook(node: Any) -> None:
    node.register_hook(lambda g: g * 2)


def doubling_prehook(node: Any) -> None:
    node.grad_fn.register_prehook(lambda gs: tuple(None if g is None else g * 2 for g in gs))


@pytest.mark.parametrize("register", [doubling_hook, doubling_prehook])
def test_tensor_returned_by_a_hook_is_not_accumulated_into(register: Any) -> None:
    # add passes the hook's tensor itself to both operands, and y then gets two more gradients
    @parity
    def program(lib: Any) -> Any:
        x, y = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
        z = x * y + x * x * y + y
        register(z)
        seen: list[Any] = []
        x.register_hook(lambda g: seen.append(g.clone()))
        (z * 5).sum().backward()
        return [x.grad, y.grad, seen]

    program()


def test_gradient_is_a_copy_of_the_tensor_returned_by_a_hook() -> None:
    x, y = leaf(rg, 1.0, 2.0), leaf(rg, 3.0, 4.0)
    instead = rg.tensor([5.0, 6.0], dtype=rg.float64) * 1  # owns its memory
    z = x * y + y
    z.register_hook(lambda g: instead)
    z.sum().backward()
    assert instead.tolist() == [5, 6]
    assert y.grad is not None
    y.grad.zero_()
    assert instead.tolist() == [5, 6]


@parity
def test_grad_mode_set_inside_a_hook_or_backward_does_not_leak(lib: Any) -> Any:
    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            lib.set_grad_enabled(False)
            return g * 2

    def switch(g: Any) -> None:
        lib.set_grad_enabled(False)

    seen: list[bool] = []
    report: list[Any] = []
    for create_graph in (False, True):
        x = leaf(lib, 1.0, 2.0)
        x.register_hook(lambda g: seen.append(lib.is_grad_enabled()))
        y = x * x
        y.register_hook(switch)
        (g,) = lib.autograd.grad((y * y).sum(), x, create_graph=create_graph)
        (h,) = lib.autograd.grad(Double.apply(x * x).sum(), x, create_graph=create_graph)
        report += [g, g.requires_grad, h, lib.is_grad_enabled()]
    return [report, seen]
