"""autograd.Function, compared with torch."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, leaf, parity


@parity
def test_forward_and_backward(lib: Any) -> Any:
    class Mul(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any, scale: float) -> Any:
            ctx.save_for_backward(a, b)
            ctx.scale = scale
            return a * b * scale

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            a, b = ctx.saved_tensors
            log.append(ctx.needs_input_grad)
            return g * b * ctx.scale, g * a * ctx.scale, None

    log: list[Any] = []
    a, b = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
    y = Mul.apply(a, b, 10.0)
    y.sum().backward()
    report = [y, a.grad, b.grad, y.grad_fn.name(), y.is_leaf]
    Mul.apply(a, b.detach(), 2.0).sum().backward()
    report += [a.grad]
    with lib.no_grad():
        report.append(Mul.apply(a, b, 1.0).requires_grad)
    y = Mul.apply(a, b, 3.0)
    (g,) = lib.autograd.grad(y.sum(), a, create_graph=True)
    report += [g, lib.autograd.grad(g.sum(), b)]
    y = Mul.apply(a, b, 3.0).sum()
    y.backward()
    report.append(attempt(lambda: y.backward()))
    return report, log


@parity
def test_setup_context(lib: Any) -> Any:
    class Exp(lib.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x.exp()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (result,) = ctx.saved_tensors
            return g * result

    x = leaf(lib, 0.5, 1.0)
    y = Exp.apply(x)
    (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = lib.autograd.grad(g.sum(), x, create_graph=True)
    return y, g, gg, lib.autograd.grad(gg.sum(), x)


@parity
def test_wrong_results_of_backward_are_refused(lib: Any) -> Any:
    def function(returned: Any) -> Any:
        class Broken(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                return a * 2

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return returned(g)

        return Broken

    report = []
    for returned in (
        lambda g: g,
        lambda g: (g, None, None),
        lambda g: (g, g),
        lambda g: (3, None),
        lambda g: (lib.ones(3, dtype=lib.float64), None),
        lambda g: (None, None),
        lambda g: (g.float(), None),
        lambda g: (g.sum(), None),
        lambda g: (lib.ones(4, 2, dtype=lib.float64), None),
        lambda g: 1 / 0,
    ):
        x = leaf(lib, 1.0, 2.0)
        report.append(attempt(lambda returned=returned, x=x: function(returned).apply(x, 1).sum().backward()))
        report.append(x.grad)

    class NoBackward(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 2

    report.append(attempt(lambda: NoBackward.apply(leaf(lib, 1.0)).backward()))
    report.append(attempt(lambda: NoBackward(3)(4)))

    class SavesWrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(3)
            return a * 2

    report.append(attempt(lambda: SavesWrong.apply(leaf(lib, 1.0))))
    return report


@parity
def test_forward_that_returns_its_input(lib: Any) -> Any:
    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 5

    x = leaf(lib, 1.0, 2.0)
    y = Same.apply(x)
    report = [y is x, y.is_leaf, y.requires_grad, y.data_ptr() == x.data_ptr(), attempt(lambda: y.mul_(2))]
    (y * 2).sum().backward()
    return report, x.grad


@parity
def test_mark_dirty(lib: Any) -> Any:
    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            a.mul_(2)
            ctx.mark_dirty(a)
            return a

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    z = Double.apply(y)
    report = [z is y, y, y._version > 0]
    (y * y).sum().backward()
    report.append(x.grad)
    report.append(attempt(lambda: Double.apply(x)))

    class Forgets(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            a.mul_(2)
            ctx.mark_dirty(a)
            return a.clone()

    report.append(attempt(lambda: Forgets.apply(x * 1)))
    base = x * 1
    Double.apply(base[1:])
    x.grad = None
    (base * base).sum().backward()
    report += [base, x.grad]
    return report


@parity
def test_forward_that_returns_an_empty_tuple(lib: Any) -> Any:
    class Nothing(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return ()

    return ["outputs", Nothing.apply(leaf(lib, 1.0))]


@parity
def test_view_of_a_constant_input_after_a_write_to_its_base(lib: Any) -> Any:
    class Through(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, constant: Any, x: Any, view: bool) -> Any:
            return constant.view(-1) if view else constant

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return None, g, None

    report = []
    for view in (False, True):
        constant, x = lib.ones(3, dtype=lib.float64), leaf(lib, 1.0, 2.0, 3.0)
        y = Through.apply(constant, x, view)
        report += [y.requires_grad, lib.autograd.grad(y.sum(), x)]
        constant.mul_(2)
        report += [y.requires_grad, attempt(lambda y=y: y.grad_fn), attempt(lambda y=y: y.sum())]
    return report


def test_function_with_both_backward_and_vjp_is_refused() -> None:
    with pytest.raises(RuntimeError, match="both 'backward' and 'vjp'"):

        class Both(rg.autograd.Function):
            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g

            @staticmethod
            def vjp(ctx: Any, g: Any) -> Any:
                return g


@pytest.mark.parametrize("separate", [False, True], ids=["with ctx", "setup_context"])
def test_keyword_and_default_arguments_of_apply(separate: bool) -> None:
    def program(lib: Any) -> Any:
        log: list[Any] = []

        def forward(x: Any, k: float = 3.0, y: Any = None) -> Any:
            log.append([x, k, y])
            return x * k if y is None else x * k * y

        def forward_with_ctx(ctx: Any, x: Any, k: float = 3.0, y: Any = None) -> Any:
            return forward(x, k, y)

        def backward(ctx: Any, g: Any) -> Any:
            log.append(ctx.needs_input_grad)
            return (g * 2, None, g * 5 if ctx.needs_input_grad[-1] else None)[: len(ctx.needs_input_grad)]

        members: dict[str, Any] = {"forward": staticmethod(forward_with_ctx), "backward": staticmethod(backward)}
        if separate:
            members["forward"] = staticmethod(forward)
            members["setup_context"] = staticmethod(lambda ctx, inputs, output: log.append(list(inputs)))
        apply = type("Scaled", (lib.autograd.Function,), members).apply
        x, y = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)

        def call(*args: Any, **kwargs: Any) -> Any:
            x.grad = y.grad = None
            apply(*args, **kwargs).sum().backward()
            return x.grad, y.grad

        report = [
            attempt(lambda: call(x)),
            attempt(lambda: call(x, 4.0)),
            attempt(lambda: call(x, k=4.0)),
            attempt(lambda: call(k=4.0, x=x)),
            attempt(lambda: call(x=x, y=y, k=2.0)),
            attempt(lambda: call(x, y=y)),
            attempt(lambda: call(x, factor=4.0)),
            attempt(lambda: call()),
            attempt(lambda: call(x, x=x)),
        ]
        return report, log

    parity(program)()


@parity
def test_marks_take_only_tensors(lib: Any) -> Any:
    def marking(mark: Any) -> Any:
        class Marks(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                y = x * 2
                mark(ctx, y)
                return y

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * 2

        return Marks.apply(leaf(lib, 1.0))

    return [
        attempt(lambda: marking(lambda ctx, y: ctx.mark_dirty(3))),
        attempt(lambda: marking(lambda ctx, y: ctx.mark_non_differentiable(3))),
        attempt(lambda: marking(lambda ctx, y: ctx.mark_non_differentiable(y, None))),
    ]


def test_marking_a_tensor_dirty_that_is_not_an_input_warns() -> None:
    class Marks(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 2
            ctx.mark_dirty(y)
            return y

    with pytest.warns(UserWarning, match="received a tensor that was not an input"):
        Marks.apply(leaf(rg, 1.0))
    Marks.apply(leaf(rg, 1.0).detach())  # harmless, as nothing is recorded
    with rg.no_grad():
        Marks.apply(leaf(rg, 1.0))


@parity
def test_marking_a_view_dirty_that_is_not_an_input(lib: Any) -> Any:
    def marking(make: Any) -> Any:
        class Marks(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                y = make(x)
                ctx.mark_dirty(y)
                return y

        return Marks.apply

    of_something_new, of_the_input = marking(lambda x: (x * 2)[:1]), marking(lambda x: x[:1])
    x = leaf(lib, 1.0, 2.0)
    report = [attempt(lambda: of_something_new(x * 1)), attempt(lambda: of_the_input(x * 1))]
    report += [of_something_new(x.detach()), of_the_input(x.detach())]
    with lib.no_grad():
        return [*report, of_something_new(x), of_the_input(x)]


@parity
def test_custom_in_place_function_on_views_of_a_constant_base(lib: Any) -> Any:
    class Add(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.mark_dirty(x.add_(y))
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g * 2

    def quiet(base: Any) -> Any:
        with lib.no_grad():
            return base[0]

    def write(view: Any) -> Any:
        base, y = lib.zeros(2, 2, dtype=lib.float64), leaf(lib, 1.0, 2.0)
        unrecorded = Add.apply(view(base), y.detach()).requires_grad
        refused = attempt(lambda: Add.apply(view(base), y) is None)
        if base.requires_grad:
            base.sum().backward()
        return unrecorded, refused, y.grad

    return [write(view) for view in (lambda x: x[0], lambda x: x.unbind()[0], lambda x: x.split(1)[1], quiet)]


@parity
def test_node_of_a_custom_function_can_be_applied(lib: Any) -> Any:
    class Product(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * y, g * x

    x, y = (lib.tensor([value], requires_grad=True) for value in (2.0, 3.0))
    node = Product.apply(x, y).grad_fn
    again = node.apply(lib.tensor([10.0]))  # frees nothing
    return [*again, *node.apply(lib.tensor([1.0])), attempt(lambda: x.exp().grad_fn.apply)]


@parity
def test_attributes_set_on_the_node_are_found_on_ctx(lib: Any) -> Any:
    seen: list[Any] = []

    class Scaled(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.scale = 2.0
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append((ctx.note, hasattr(ctx, "other")))
            return g * ctx.scale

    x = lib.tensor([1.0, 2.0], requires_grad=True)
    y = Scaled.apply(x)
    y.grad_fn.note = "kept"
    y.sum().backward()
    return seen, x.grad, y.grad_fn.scale, y.grad_fn.note


class InNumpy(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, result: Any = None) -> Any:
        return x.numpy() * 2 if result is None else result(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2, None


def test_forward_that_returns_an_array_warns() -> None:
    """The author forgot to make a tensor of it; in torch the gradient ends there silently."""
    x = leaf(rg, 1.0, 2.0)
    for what in (None, lambda x: x.numpy().sum(), lambda x: (x.numpy(), "text")):
        with pytest.warns(UserWarning, match=r"InNumpy\.forward returned (ndarray|float64) .*as_tensor") as caught:
            InNumpy.apply(x, what)
        assert caught[0].filename == __file__
    for what in (lambda x: (x * 2, x.numpy()), lambda x: "text", lambda x: x.numpy().argmax(), lambda x: None):
        InNumpy.apply(x, what)
    InNumpy.apply(x.detach())  # nothing requires grad
    with rg.no_grad():
        InNumpy.apply(x)


def test_error_about_wrong_arguments_names_the_function() -> None:
    with pytest.raises(TypeError, match=r"^InNumpy\.apply\(\): .*'x'"):
        InNumpy.apply(y=leaf(rg, 1.0))
