"""In-place writes, views and versions, compared with torch."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, leaf, message, parity


@parity
def test_write_to_a_view_reaches_the_gradient_of_its_base(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0, 3.0)
    base = x * 1
    base[0].mul_(5)
    (base * lib.tensor([1.0, 10.0, 100.0], dtype=lib.float64)).sum().backward()
    return base, x.grad, base.grad_fn.name().split("::")[-1]


@parity
def test_write_to_the_base_reaches_an_earlier_view(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0, 3.0)
    base = x * 1
    view = base[1:]
    base.mul_(3)
    (view * view).sum().backward()
    return view, x.grad


@parity
def test_stale_sibling_view_is_regenerated(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0, 3.0)
    w = leaf(lib, 7.0)
    base = x * 1
    first, second = base[:2], base[1:]
    first.mul_(w)
    (second * second).sum().backward()
    return second, x.grad, w.grad, second._version, base._version


@parity
def test_writes_to_a_view_of_a_view(lib: Any) -> Any:
    x = lib.ones(3, 4, dtype=lib.float64, requires_grad=True)
    base = x * 2
    view = base.t()[1:3].reshape(2, 3)
    view[0].mul_(5)
    view.add_(1)
    (base**2).sum().backward()
    return base, x.grad, view._base is base, view._is_view()


@parity
def test_chain_of_indexed_writes(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0, 3.0, 4.0)
    y = x.clone()
    y[0] = y[1].clone() * x[2]
    y[1:3] = x[2:4] * 2
    y[3] += y[0]
    y *= 3
    y.sum().backward()
    return y, x.grad


@parity
def test_differentiable_writes_to_a_constant_base(lib: Any) -> Any:
    w = leaf(lib, 2.0, 3.0)
    base = lib.zeros(4, dtype=lib.float64)
    before = base.requires_grad
    base[1:3] = w
    base[0:2].mul_(w)
    (base * lib.arange(4, dtype=lib.float64)).sum().backward()
    return before, base.requires_grad, base.is_leaf, base, w.grad


@parity
def test_double_backward_through_a_write_to_a_view(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0, 3.0)
    base = x * x
    base[1:].mul_(x[:2])
    (g,) = lib.autograd.grad((base**2).sum(), x, create_graph=True)
    (gg,) = lib.autograd.grad(g.sum(), x)
    return g, gg


@parity
def test_double_backward_through_a_write_that_saves_its_result(lib: Any) -> Any:
    class Exp(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x.exp_())
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    grad = lib.autograd.grad
    report = []
    for write in (
        lambda y: y[:2].exp_(),
        lambda y: y[1:][:1].sigmoid_(),
        lambda y: y.as_strided((2,), (2,)).tanh_(),
        lambda y: y.view(3, 1)[1:].sqrt_()[1:].reciprocal_(),
        lambda y: Exp.apply(y[:2]),
    ):
        x = leaf(lib, 0.3, 0.7, 0.9)
        y = x * 1
        write(y)

        def second(retain: bool, x: Any = x, y: Any = y) -> Any:
            (g,) = grad((y * y).sum(), x, create_graph=True)
            return [g, grad((g * g).sum(), [y, x], retain_graph=retain)]

        report += [attempt(lambda: second(True)), attempt(lambda: second(False)), attempt(lambda: second(False))]

        def third(x: Any = x, write: Any = write) -> Any:
            y = x * 1
            write(y)
            (g,) = grad((y * y).sum(), x, create_graph=True)
            (g,) = grad((g * g).sum(), x, create_graph=True)
            return grad(g.sum(), x)

        report.append(attempt(third))
    return report


@parity
def test_which_writes_increase_the_version(lib: Any) -> Any:
    x = lib.ones(4)
    report = [x._version]
    view = x[1:]
    view.add_(1)
    report += [x._version, view._version]
    detached = x.detach()
    detached.mul_(2)
    report += [x._version, detached._version]
    x.data.mul_(2)
    report += [x._version]
    with lib.no_grad():
        x.add_(1)
    report += [x._version, x]
    x[0] = 3
    report += [x._version]
    return report


@parity
def test_writing_to_a_saved_result_is_noticed(lib: Any) -> Any:
    report = []
    for write in (lambda y: y.add_(1), lambda y: y[0].fill_(3), lambda y: y.detach().add_(1), lambda y: y.data.add_(1)):
        x = leaf(lib, 1.0, 2.0)
        y = x.exp()
        z = y * 2
        write(y)
        report.append(attempt(lambda z=z: z.sum().backward()))
        report.append(x.grad)
    return report


@parity
def test_mul_saves_only_the_operands_it_needs(lib: Any) -> Any:
    report = []
    for which in range(2):
        x = leaf(lib, 1.0, 2.0)
        c = lib.tensor([3.0, 4.0], dtype=lib.float64)
        y = x * 1
        z = y * c
        (y if which == 0 else c).add_(1)
        report += [attempt(lambda z=z: z.sum().backward()), x.grad]
    return report


@parity
def test_results_that_their_rule_does_not_need_may_be_overwritten(lib: Any) -> Any:
    report = []
    for function in (
        lambda x: lib.nn.functional.relu6(x),
        lambda x: lib.nn.functional.relu6(x, inplace=True),
        lambda x: lib.nn.functional.hardtanh(x),
        lambda x: lib.nn.functional.elu(x),
        lambda x: lib.linalg.slogdet(x.view(2, 2))[0],
        lambda x: lib.linalg.slogdet(x.view(2, 2))[1],
        lambda x: x.sigmoid(),
    ):
        x = leaf(lib, 7.0, 2.0, -1.0, 3.0)
        y = function(x * 1)
        y.mul_(2)
        report += [attempt(lambda y=y: y.sum().backward()), x.grad]
    return report


@parity
def test_in_place_forms_keep_the_values_their_rule_needs(lib: Any) -> Any:
    report = []
    for name in ("sin_", "exp_", "sqrt_", "tanh_", "reciprocal_", "neg_", "square_", "abs_"):
        x = leaf(lib, 0.5, 2.0)
        y = x * 1
        getattr(y, name)()
        y.sum().backward()
        report += [y, x.grad]
    for name in ("mul_", "div_", "pow_", "sub_", "add_"):
        x, w = leaf(lib, 0.5, 2.0), leaf(lib, 3.0, 4.0)
        y = x * 1
        getattr(y, name)(w)
        y.sum().backward()
        report += [y, x.grad, w.grad]
    return report


@parity
def test_forbidden_writes(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0, 3.0)

    def view_in_no_grad() -> None:
        base = x * 1
        with lib.no_grad():
            view = base[1:]
        view.mul_(2)

    def in_no_grad() -> Any:
        with lib.no_grad():
            x.mul_(2)
        return x._version, x.requires_grad, x.is_leaf

    def unbound() -> None:
        first, *_ = (x * 1).unbind()
        first.mul_(2)

    def split() -> None:
        first, *_ = (x * 1).split(1)
        first.mul_(2)

    return [
        attempt(lambda: x.mul_(2)),
        attempt(lambda: x[0].mul_(2)),
        attempt(lambda: x.__setitem__(0, 1.0)),
        attempt(view_in_no_grad),
        attempt(unbound),
        attempt(split),
        attempt(in_no_grad),
        attempt(lambda: lib.ones(3).expand(2, 3).add_(1)),
        attempt(lambda: lib.ones(1).expand(3).mul_(2)),
        attempt(lambda: lib.ones(3).add_(lib.ones(2, 3))),
        attempt(lambda: lib.ones(3, dtype=lib.int64).add_(0.5)),
        attempt(lambda: lib.ones(3, dtype=lib.int64).mul_(lib.ones(3))),
        attempt(lambda: (x * 1)[1:].detach_()),
        attempt(lambda: x.requires_grad_(False).requires_grad),
        attempt(lambda: (leaf(lib, 1.0) * 1).requires_grad_(False)),
        attempt(lambda: lib.ones(2, dtype=lib.int64).requires_grad_()),
    ]


def test_errors_about_writes_are_worded_as_in_torch() -> None:
    x = leaf(rg, 1.0, 2.0)
    assert message(lambda: x.mul_(2)).startswith(
        "a leaf Variable that requires grad is being used in an in-place operation."
    )
    y = x.exp()
    y.add_(1)
    text = message(lambda: y.sum().backward())
    assert text.startswith(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
    )
    assert "is at version 1; expected version 0 instead" in text
    z = x.exp()
    z.sum().backward()
    assert message(lambda: z.sum().backward()).startswith("Trying to backward through the graph a second time")


@parity
def test_second_backward_works_if_nothing_was_saved(lib: Any) -> Any:
    report = []
    for function in (
        lambda x: x + 1,
        lambda x: x.sum(),
        lambda x: x.view(2, 1),
        lambda x: lib.cat([x, x]),
        lambda x: x * 2,
        lambda x: x * x,
        lambda x: x.exp(),
        lambda x: x.mean(),
        lambda x: -x,
        lambda x: x[0],
    ):
        x = leaf(lib, 1.0, 2.0)
        y = function(x)
        one = lib.ones_like(y)
        y.backward(one)
        report += [attempt(lambda y=y, one=one: y.backward(one)), x.grad]
    return report


@parity
def test_retain_grad_follows_the_tensor_through_a_write(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x * 3
    y.retain_grad()
    y.mul_(2)
    (y * y).sum().backward()
    return y.grad, x.grad


@parity
def test_views_of_a_base_made_a_leaf_and_then_overwritten(lib: Any) -> Any:
    w = lib.zeros(4, dtype=lib.float64)
    first, rest = w[:1], w[1:].view(3, 1)
    w.requires_grad_()
    with lib.no_grad():
        w.add_(1)  # as initialisation and optimizers do
    loss = (first * w.sum()).sum() + (rest**2).sum()
    loss.backward()
    report = [first.requires_grad, first.is_leaf, w.grad]
    with lib.no_grad():
        rest.mul_(2)
    w.grad = None
    (rest * first).sum().backward()
    return [*report, w, w.grad]


@parity
def test_views_of_a_base_overwritten_and_then_made_a_leaf(lib: Any) -> Any:
    w = lib.zeros(4, dtype=lib.float64)
    first, rest = w[:1], w[1:]
    w.fill_(3)
    report = [first.requires_grad]  # reading it here changes nothing
    w.requires_grad_()
    (first * rest.sum()).sum().backward()
    return [*report, first.requires_grad, rest.requires_grad, w.grad]


@parity
def test_reading_grad_of_a_non_leaf_warns(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x * 3
    retained = y.view(2, 1)
    retained.retain_grad()
    report = []
    for tensor in (x, y, y[0], x[:1], x.unbind()[1], retained, lib.ones(2)[:1], y.detach()[:1]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report.append((tensor.grad, len(caught)))
    return report


@parity
def test_hook_stays_with_the_value_it_was_registered_on(lib: Any) -> Any:
    seen: list[Any] = []
    x = leaf(lib, 1.0, 2.0)
    y = x * 3
    y.register_hook(lambda g: seen.append(("before", g.clone())))
    y.mul_(2)
    y.register_hook(lambda g: seen.append(("after", g.clone())))
    y.sum().backward()
    return seen


@parity
def test_leaf_becomes_a_non_leaf_by_a_differentiable_write(lib: Any) -> Any:
    w = leaf(lib, 2.0, 3.0)
    y = lib.ones(2, dtype=lib.float64)
    y.mul_(w)
    report = [y.is_leaf, y.requires_grad, y.grad_fn.name()]
    y.sum().backward()
    return report, w.grad


@parity
def test_detach_and_assigning_data(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x * 2
    d = y.detach()
    report = [d.requires_grad, d.is_leaf, d._is_view(), d._version]
    y.detach_()
    report += [y.requires_grad, y.is_leaf]
    x.data = lib.tensor([5.0, 6.0], dtype=lib.float64)
    report += [x, x.requires_grad, x._version]
    return report


@parity
def test_view_of_a_constant_base_can_become_a_leaf(lib: Any) -> Any:
    base = lib.ones(4, dtype=lib.float64)
    view = base[:2]
    view.requires_grad_()
    (view * 3).sum().backward()
    return view.grad, base.requires_grad, view.is_leaf


@parity
def test_tensors_made_in_inference_mode(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    with lib.inference_mode():
        y = x * 2
        inside = y.is_inference(), y.requires_grad, lib.is_inference_mode_enabled()
        y.add_(1)
    return [
        inside,
        y.tolist(),
        attempt(lambda: y.add_(1)),
        attempt(lambda: y._version),
        attempt(lambda: (x * y).sum().backward()),
        attempt(lambda: (y + 1).requires_grad),
        attempt(lambda: y.clone().requires_grad_().requires_grad),
        attempt(lambda: y.requires_grad_()),
    ]


def test_node_does_not_keep_its_result_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(rg, 1.0, 2.0)
        y = x.exp()
        node = y.grad_fn
        ref = weakref.ref(y)
        del y
        assert ref() is None
        assert node is not None
        node_ref = weakref.ref(node)
        del node
        assert node_ref() is None
    finally:
        gc.enable()


def test_views_and_writes_make_no_reference_cycles() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(rg, 1.0, 2.0, 3.0)
        base = x * 1
        view = base[1:]
        view.mul_(x[:2])
        base.exp_()
        refs = [weakref.ref(base), weakref.ref(view), weakref.ref(base.grad_fn)]
        base.sum().backward()
        del base, view
        assert [ref() for ref in refs] == [None, None, None]
    finally:
        gc.enable()


def test_failed_write_changes_nothing() -> None:
    y = leaf(rg, 1.0, 2.0) * 1
    before, version, node = y.detach().clone(), y._version, y.grad_fn
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        y.add_(rg.ones(3, 2, dtype=rg.float64))
    assert (y.detach() == before).all()
    assert y._version == version
    assert y.grad_fn is node


@parity
def test_operand_used_as_out_is_not_resized(lib: Any) -> Any:
    x, column = lib.ones(3), lib.ones(3, 1)
    report = [attempt(lambda: lib.mul(x, column, out=x)), attempt(lambda: lib.add(x, column, out=column)), x, column]
    return [*report, lib.mul(x, 2, out=x), x._version]


@parity
def test_requires_grad_of_an_unusable_view(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    part = x.unbind()[0]
    with lib.no_grad():
        x.mul_(2)
    return [part.requires_grad_().requires_grad, attempt(lambda: part.requires_grad_(False)), part.requires_grad]


def test_error_about_overwriting_a_part_suggests_clone() -> None:
    """In the loop of an integrator, which writes each step beside the previous one; the advice works."""

    def integrated(read: Callable[[Any], Any]) -> tuple[Any, Any]:
        rate = rg.tensor(0.5, requires_grad=True)
        y = rg.ones(4)
        for k in range(3):
            y[k + 1] = read(y[k]) * (1 - rate)
        return rate, y[-1]

    rate, last = integrated(lambda part: part)
    with pytest.raises(RuntimeError, match=r"part of a larger tensor.*read a copy, y\[k\]\.clone\(\)"):
        last.backward()
    rate, last = integrated(lambda part: part.clone())
    last.backward()
    assert rate.grad.item() == -3 * 0.5**2
    x = rg.ones(2, requires_grad=True)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="Hint: write out of place instead"):
        y.sum().backward()


@parity
def test_in_place_comparisons_block_the_gradient(library: Any) -> Any:
    report = []
    for part in (slice(None), slice(1)):
        for create_graph in (False, True):
            x = library.tensor([0.25, 0.75], requires_grad=True)
            y = x * 2
            y[part].gt_(0.5) if part.stop else y.gt_(0.5)
            report += [
                y,
                y.grad_fn.name().rsplit("::")[-1],
                *library.autograd.grad(y.sum(), x, create_graph=create_graph),
            ]
    return report
