"""What an autograd.Function keeps for its backward, compared with torch."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import retrograd as rg
from retrograd.utils.checkpoint import checkpoint
from tests.parity import attempt, leaf, message, parity


@parity
def test_overwriting_a_saved_tensor_is_noticed(lib: Any) -> Any:
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a, None)
            return a * a

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            a, nothing = ctx.saved_tensors
            assert nothing is None
            return 2 * a * g

    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    z = Square.apply(y)
    y.add_(1)
    return [attempt(lambda: z.sum().backward())]


def test_saved_variables_is_deprecated() -> None:
    class Square(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            with pytest.warns(DeprecationWarning, match="use 'saved_tensors'"):
                (x,) = ctx.saved_variables
            return g * x * 2

    x = leaf(rg, 1.0, 3.0)
    Square.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 6]


def test_saving_an_output_makes_no_reference_cycle() -> None:
    class Exp(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    gc.collect()
    gc.disable()
    try:
        y = Exp.apply(leaf(rg, 1.0))
        ref, node = weakref.ref(y), weakref.ref(y.grad_fn)
        del y
        assert ref() is None
        assert node() is None
    finally:
        gc.enable()


def _product_with_itself(lib: Any, returns: str, separate: bool) -> Any:
    """Return a Function that saves its input and returns it, or a view of it."""

    def result(x: Any) -> Any:
        return x if returns == "the input" else x.view_as(x)

    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0] * 3

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return result(x)

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    members = {"backward": staticmethod(backward), "forward": staticmethod(result if separate else forward)}
    if separate:
        members["setup_context"] = staticmethod(setup_context)
    return type("Itself", (lib.autograd.Function,), members)


def test_output_is_freed_without_the_collector_when_saving_it_fails() -> None:
    outputs: list[weakref.ref[Any]] = []

    class Copy(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            result = x.clone()
            ctx.save_for_backward(result)
            outputs.append(weakref.ref(result))
            return result

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g + ctx.saved_tensors[0]

    def full(x: Any) -> Any:
        raise OSError("the disk is full")

    x = leaf(rg, 1.0, 2.0)
    gc.collect()
    gc.disable()
    try:
        with rg.autograd.graph.saved_tensors_hooks(full, lambda x: x):
            assert "disk" in message(lambda: Copy.apply(x))
        checkpoint(Copy.apply, x, use_reentrant=False).sum().backward()  # recomputation stops once everything is saved
        assert [output() for output in outputs] == [None, None, None]
    finally:
        gc.enable()


@parity
def test_input_that_is_both_saved_and_returned(lib: Any) -> Any:
    report = []
    for returns in ("the input", "a view"):
        for separate in (False, True):
            x = leaf(lib, 2.0, 3.0)

            def second(x: Any = x, returns: str = returns, separate: bool = separate) -> Any:
                y = _product_with_itself(lib, returns, separate).apply(x * 1)
                (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
                return [g, *lib.autograd.grad(g.sum(), x)]

            report.append(attempt(second))
    return report


NAMES = ["shape", "dtype", "outputs", "next", "seq", "extras", "code", "plain", "is_leaf", "backward", "function"]


@pytest.mark.parametrize("name", NAMES)
def test_attributes_of_ctx_may_have_any_name(name: str) -> None:
    @parity
    def test(lib: Any) -> Any:
        seen = []

        class Sum(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                setattr(ctx, name, tuple(x.shape))
                return x.sum()

            @staticmethod
            def backward(ctx, g):
                seen.append(getattr(ctx, name))
                return g.expand(getattr(ctx, name))

        x = lib.ones(2, 3, requires_grad=True)
        y = Sum.apply(x)
        (grad,) = lib.autograd.grad(y, x, create_graph=True)
        y.backward()
        return [seen, grad, x.grad, y.grad_fn.name(), len(y.grad_fn.next_functions)]

    test()


@parity
def test_attributes_of_ctx_are_found_on_the_node(lib: Any) -> Any:
    class Half(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.factor = 0.5
            ctx.save_for_backward(x)
            return x * ctx.factor, ctx.name()

        @staticmethod
        def backward(ctx, g, _):
            return g * ctx.factor

    node = Half.apply(lib.ones(2, requires_grad=True))[0].grad_fn
    return [node.factor, node.saved_tensors, node.needs_input_grad, hasattr(node, "other"), attempt(lambda: node.other)]


@parity
def test_clear_saved_tensors_on_access(lib: Any) -> Any:
    counts: list[int] = []

    class Square(lib.autograd.Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x, None)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, _ = ctx.saved_tensors
            counts.append(attempt(lambda: ctx.saved_tensors))
            return 2 * x * g

    class Double(lib.autograd.Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            counts.append(len(ctx.saved_tensors))
            counts.append(attempt(lambda: ctx.saved_tensors))
            return g * 2

    x = leaf(lib, 1.0, 2.0)
    y = Square.apply(x * 1)
    y.sum().backward(retain_graph=True)
    again = [attempt(lambda: y.sum().backward())]
    Double.apply(x).sum().backward()
    z = Square.apply(x * 1)
    return counts, x.grad, again, z.grad_fn.saved_tensors[0], attempt(lambda: z.sum().backward())


def test_cleared_saved_tensor_is_freed_with_its_last_reference() -> None:
    freed = []

    class Square(rg.autograd.Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            result, ref = 2 * x * g, weakref.ref(x)
            del x
            freed.append(ref() is None)
            return result

    Square.apply(leaf(rg, 1.0, 2.0) * 1).sum().backward()
    assert freed == [True]
    z = Square.apply(leaf(rg, 1.0, 2.0) * 1)
    z.grad_fn._raw_saved_tensors[0].register_hooks(lambda t: t, lambda t: t)  # does not count as access
    z.sum().backward()
    assert "only be accessed once" in message(lambda: z.sum().backward())
