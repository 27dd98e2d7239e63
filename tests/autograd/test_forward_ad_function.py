"""Function.jvp: its arguments, what it must return, and how that is used; compared with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import retrograd as rg
from tests.autograd.duals import module, tangent, vector
from tests.parity import message, parity


def dual(lib: Any) -> Any:
    return module(lib).make_dual(vector(lib, 1.0, 2.0), vector(lib, 1.0, 10.0))


def function(lib: Any, forward: Callable[..., Any], jvp: Callable[..., Any] | None = None, **methods: Any) -> Any:
    """Return ``apply`` of a Function with these methods: call ``function(...)(*args)``."""
    if jvp is not None:
        methods["jvp"] = jvp
    members = {name: staticmethod(method) for name, method in {"forward": forward, **methods}.items()}
    return type("F", (lib.autograd.Function,), members).apply


@parity
def test_arguments_and_modes_that_jvp_sees(lib: Any) -> Any:
    log: list[Any] = []

    def forward(ctx: Any, x: Any, ints: Any, number: float, y: Any) -> Any:
        ctx.set_materialize_grads(number > 0)
        log.append((tangent(lib, x), module(lib)._is_fwd_grad_enabled(), lib.is_grad_enabled()))
        return x * y

    def jvp(ctx: Any, *tangents: Any) -> Any:
        log.append((tangents, [None if t is None else tangent(lib, t) for t in tangents], lib.is_grad_enabled()))
        return tangents[0] * 2

    with module(lib).dual_level():
        for number in (1.0, -1.0):
            args = dual(lib), lib.tensor([1]), number, vector(lib, 3.0, 4.0)
            log.append(tangent(lib, function(lib, forward, jvp)(*args)))
        function(lib, forward, jvp)(*[arg.detach() if hasattr(arg, "detach") else arg for arg in args])
    return log


@parity
def test_save_for_forward(lib: Any) -> Any:
    log: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_forward(x, None)
        ctx.save_for_backward(x * 3)
        return x**2

    def jvp(ctx: Any, moved: Any) -> Any:
        x, nothing = ctx.saved_tensors
        log.append((nothing, len(ctx.saved_for_forward)))
        return 2 * x * moved

    def backward(ctx: Any, grad: Any) -> Any:
        (saved,) = ctx.saved_tensors
        log.append(saved)
        return grad * saved

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_forward(*inputs)
        ctx.factor = 2

    x = vector(lib, 1.0, 2.0, requires_grad=True)
    with module(lib).dual_level():
        out = function(lib, forward, jvp, backward=backward)(module(lib).make_dual(x, vector(lib, 1.0, 10.0)))
        log.append(tangent(lib, out))
        log.append(lib.autograd.grad(out.sum(), x))
        new = function(lib, lambda x: x**2, lambda ctx, t: ctx.factor * t * ctx.saved_tensors[0], setup_context=setup)
        log.append(tangent(lib, new(dual(lib))))
    return log


@parity
def test_jvp_of_several_outputs(lib: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        rounded = x.floor()
        ctx.mark_non_differentiable(rounded)
        return rounded, x * 2, x.long(), "text"

    with module(lib).dual_level():
        *tensors, text = function(lib, forward, lambda ctx, t: (None, t * 2, None, None))(dual(lib))
        return [tangent(lib, out) for out in tensors], text


@parity
def test_jvp_of_functions_that_return_views(lib: Any) -> Any:
    with module(lib).dual_level():
        d = dual(lib)
        kept, part = (
            function(lib, lambda ctx, x: x, lambda ctx, t: t.view_as(t)),
            function(lib, lambda ctx, x: x[1:], lambda ctx, t: t[1:]),
        )
        report = []
        for out in (kept(d), part(d)):
            report += [tangent(lib, out), tangent(lib, out)._is_view(), out._is_view()]
        plain = vector(lib, 1.0, 2.0)
        of_plain = function(lib, lambda ctx, x, y: x[1:], lambda ctx, tx, ty: ty[:1] * 1)(plain, d)
        return [*report, tangent(lib, of_plain), tangent(lib, plain)]


@parity
def test_jvp_of_a_function_that_writes_to_its_input(lib: Any) -> Any:
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(y)

    with module(lib).dual_level():
        d, target = dual(lib), dual(lib).clone()
        out = function(lib, forward, lambda ctx, tx, ty: tx.mul_(3))(target, d.detach())
        report = [out is target, tangent(lib, out)]
        for whole in (vector(lib, 1.0, 2.0), vector(lib, 1.0, 2.0, 3.0)):
            out = function(lib, forward, lambda ctx, tx, ty: ty * 3)(whole[:2], d)
            report += [tangent(lib, out), tangent(lib, whole)]
        return report


@parity
def test_jvp_of_an_input_written_to_under_no_grad(lib: Any) -> Any:
    """If the input requires grad, the call then returns a different tensor."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    report = []
    for requires_grad in (False, True):
        with module(lib).dual_level():
            x = module(lib).make_dual(vector(lib, 1.0, 2.0, requires_grad=requires_grad), vector(lib, 1.0, 10.0)) * 1
            with lib.no_grad():
                y = function(lib, forward, lambda ctx, t: t.mul_(2))(x)
            report.append([y is x, y, tangent(lib, y), x, tangent(lib, x), x._version])
    return report


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.filterwarnings("ignore:ctx.mark_dirty:UserWarning")
def test_only_inputs_can_be_marked_dirty_in_forward_mode(requires_grad: bool) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.mark_dirty(y)
        return y

    for lib in (torch, rg):
        with module(lib).dual_level():
            x = module(lib).make_dual(vector(lib, 1.0, requires_grad=requires_grad), vector(lib, 1.0))
            text = message(lambda: function(lib, forward, lambda ctx, t: t * 2)(x))  # noqa: B023
            assert text.startswith("Only input Tensors should be given to ctx.mark_dirty().")


@parity
def test_tangents_of_tensors_saved_by_a_function(lib: Any) -> Any:
    """Forward over reverse through backward, and reverse over forward through jvp."""

    def forward(ctx: Any, x: Any) -> Any:
        result = x.exp()
        ctx.save_for_backward(x, result)
        ctx.save_for_forward(result)
        return result

    def backward(ctx: Any, grad: Any) -> Any:
        _, result = ctx.saved_tensors
        return grad * result

    x, v = vector(lib, 0.1, 0.2, requires_grad=True), vector(lib, 1.0, 10.0, requires_grad=True)
    with module(lib).dual_level():
        apply = function(lib, forward, lambda ctx, t: t * ctx.saved_tensors[0], backward=backward)
        out = apply(module(lib).make_dual(x, v))
        moved = tangent(lib, out)
        (grad,) = lib.autograd.grad(out.sum(), x, retain_graph=True)
        report = [out, moved, grad, tangent(lib, grad)]
    return [*report, lib.autograd.grad(moved.sum(), v)]


def misused(lib: Any) -> list[Callable[[], Any]]:
    def dirty(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    def rounded(ctx: Any, x: Any) -> Any:
        out = x.floor()
        ctx.mark_non_differentiable(out)
        return out

    cases: list[tuple[Any, Any]] = [
        (lambda ctx, x: x * 2, None),
        (lambda ctx, x: x * 2, lambda ctx, t: (t, t)),
        (lambda ctx, x: x * 2, lambda ctx, t: 3.0),
        (lambda ctx, x: x * 2, lambda ctx, t: t[:1]),
        (lambda ctx, x: x, lambda ctx, t: t * 1),
        (lambda ctx, x: x, lambda ctx, t: t),
        (lambda ctx, x: x[1:], lambda ctx, t: t[1:] * 1),
        (lambda ctx, x: x[1:], lambda ctx, t: t.clone()[1:]),
        (dirty, lambda ctx, t: t * 2),
        (dirty, lambda ctx, t: t.mul_(2).view_as(t)),
        (lambda ctx, x: x.long(), lambda ctx, t: t),
        (rounded, lambda ctx, t: t),
    ]
    return [lambda case=case: function(lib, *case)(dual(lib).clone()) for case in cases]  # type: ignore[misc]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_jvp_errors_are_worded_as_in_torch() -> None:
    with module(rg).dual_level(), module(torch).dual_level():
        for ours, theirs in zip(misused(rg), misused(torch), strict=True):
            expected = message(theirs).replace(" ", "").rstrip(".")
            assert message(ours).replace(" ", "").startswith(expected)


def test_jvp_refuses_wrong_results() -> None:
    with module(rg).dual_level():
        with pytest.raises(RuntimeError, match="None at position 0, but the corresponding forward output of F"):
            function(rg, lambda ctx, x: x * 2, lambda ctx, t: None)(dual(rg))
        with pytest.raises(TypeError, match="argument 0 is of type int"):
            function(rg, lambda ctx, x: ctx.save_for_forward(3))(dual(rg))
        with pytest.raises(RuntimeError, match=r"returned retrograd\.int64"):
            function(rg, lambda ctx, x: x * 2, lambda ctx, t: t.long())(dual(rg))


def test_nested_levels_differentiate_a_jvp_again() -> None:
    """Every level counts; torch returns zero for the outer one."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_forward(x)
        return x**3

    cube = function(rg, forward, lambda ctx, t: 3 * ctx.saved_tensors[0] ** 2 * t)
    x, one = vector(rg, 2.0, 3.0), vector(rg, 1.0, 1.0)
    first, second = rg.func.jvp(lambda x: rg.func.jvp(cube, (x,), (one,))[1], (x,), (one,))
    assert (first.tolist(), second.tolist()) == ([12, 27], [12, 18])
