"""What writes mean for the views of a storage, and which writes are forbidden; compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.parity import attempt, leaf, message, parity


def matrix(lib: Any) -> Any:
    return lib.arange(6.0, dtype=lib.float64).reshape(2, 3).clone().requires_grad_()


def view_function(lib: Any, returns_input: bool) -> Any:
    class Tenfold(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x if returns_input else x.view_as(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 10

    return Tenfold.apply


# --- views that lose their history --------------------------------------------------------------------------------

LOST = {
    "unbind": lambda lib, y: y.unbind(0)[0],
    "split": lambda lib, y: y.split(2)[0],
    "view of an unbound one": lambda lib, y: y.unbind(0)[0][...],
    "Function that returns a view": lambda lib, y: view_function(lib, False)(y),
    "Function that returns its input": lambda lib, y: view_function(lib, True)(y),
}


@pytest.mark.parametrize("make", LOST.values(), ids=LOST)
@pytest.mark.parametrize("recorded", [True, False])
def test_multi_output_and_custom_views_are_unusable_after_a_write_to_their_base(make: Any, recorded: bool) -> None:
    @parity
    def program(lib: Any) -> Any:
        x = leaf(lib, 1.0, 2.0, 3.0)
        y = x * 2
        view = make(lib, y)
        with lib.set_grad_enabled(recorded):
            y.mul_(3)
        with lib.no_grad():
            unrecorded = view.sum()
        report = [unrecorded, view.requires_grad, view.detach(), attempt(lambda: view.sum()), x.grad]
        return [*report, attempt(lambda: view.grad_fn), repr(view).partition("grad_fn=")[2]]

    program()


def test_error_about_an_unusable_view_is_worded_as_in_torch() -> None:
    y = leaf(rg, 1.0, 2.0) * 2
    view = y.unbind(0)[1]
    y.mul_(3)
    assert message(lambda: view.sum()).startswith(
        "Output 1 of Unbind is a view and its base or another view of its base has been modified inplace. This view is "
        "the output of a function that returns multiple views."
    )
    y = leaf(rg, 1.0, 2.0) * 2
    with rg.no_grad():
        view = y[1:]
    y.mul_(3)
    assert message(lambda: view.sum()).startswith(
        "A view was created in no_grad mode and its base or another view of its base has been modified inplace with "
        "grad mode enabled."
    )


@parity
def test_stale_view_first_used_under_no_grad_keeps_its_history(lib: Any) -> Any:
    x = matrix(lib)
    view = x.view(3, 2)
    with lib.no_grad():
        x.mul_(2)
        value = view.sum()
    (view * view).sum().backward()
    return value, view.requires_grad, x.grad


@parity
def test_augmented_assignment_to_a_part_of_a_view_under_no_grad(lib: Any) -> Any:
    x = matrix(lib)
    view = x.view(3, 2)
    with lib.no_grad():
        view[:1] *= 3.0
    view.sum().backward()
    return view, x.grad


@parity
def test_retained_gradient_of_a_view_after_writes(lib: Any) -> Any:
    report = []
    for write in (lambda y, v: y.mul_(3), lambda y, v: v.mul_(3), lambda y, v: y[1:].exp_()):
        x = matrix(lib)
        y = x * 2
        view = y[0]
        view.retain_grad()
        write(y, view)
        (y * y).sum().backward(retain_graph=True)
        report.append(view.grad)
        (view * view).sum().backward()
        report += [view.grad, x.grad]
    return report


# --- parts that are not views -------------------------------------------------------------------------------------


@parity
def test_parts_made_by_unsafe_split_can_be_overwritten(lib: Any) -> Any:
    report = []
    for cut in (
        lambda y: y.unsafe_chunk(2),
        lambda y: lib.unsafe_split(y, 1),
        lambda y: y.unsafe_split_with_sizes([1, 1]),
    ):
        x = matrix(lib)
        first, second = cut(x * 3)
        first.mul_(second)
        report += [first, attempt(lambda: first.sum().backward()), x.grad]  # noqa: B023
        x = matrix(lib)
        first, second = cut(x * 3)
        first.exp_()
        second.add_(1).sqrt_()
        (first * second).sum().backward()
        report += [first, second, x.grad]
    return report


# --- dimensions changed in place ----------------------------------------------------------------------------------


@parity
def test_views_after_their_base_is_transposed_or_unsqueezed_in_place(lib: Any) -> Any:
    report = []
    weights = lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64)
    for change in (lambda y: y.t_(), lambda y: y.unsqueeze_(0), lambda y: y.t_().unsqueeze_(1).transpose_(0, 2)):
        for write in (lambda y, v: None, lambda y, v: y.mul_(2), lambda y, v: v.mul_(weights), lambda y, v: v.exp_()):
            x = matrix(lib)
            y = x * 1
            view = y[0]
            change(y)
            later = y[..., 0]
            write(y, view)
            ((y * y).sum() + (view * weights).sum() + (later * later * later).sum()).backward()
            report += [y, view, later, x.grad]
    return report


@parity
def test_views_after_as_strided_on_their_base(lib: Any) -> Any:
    report = []
    weights = lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64)
    writes = (lambda y, v: None, lambda y, v: y.t().mul_(2), lambda y, v: v.mul_(weights), lambda y, v: v.exp_())
    for size, stride, offset, several in (
        ((2, 3), (3, 1), None, writes),
        ((3, 2), (1, 3), 0, writes),
        ((2, 2), (2, 1), 0, writes[:2]),  # misses elements of the views, so a write to those has no derivative
        ((2, 2), (1, 1), 0, writes[:1]),  # one element appears twice
    ):
        for write in several:
            x = matrix(lib)
            y = x * 1
            view = y[0]
            report.append(y.as_strided_(size, stride, offset) is y)
            later = y[..., 0]
            write(y, view)
            ((y * y).sum() + (view * weights).sum() + (later * later * later).sum()).backward()
            report += [y, view, later, x.grad, y.stride(), y.storage_offset(), y._version]
    return report


@parity
def test_gradients_of_overlapping_as_strided_views(lib: Any) -> Any:
    """The gradient of a place in memory is divided among the elements there, also in the second derivative."""
    report = []
    for size, stride in (((2, 2), (1, 1)), ((2, 2, 2), (2, 1, 1)), ((3, 2), (0, 1)), ((4,), (0,))):
        x = (lib.arange(6, dtype=lib.float64) + 1).requires_grad_()
        y = x.as_strided(size, stride)
        z = y.as_strided((3,), (1,), 0)
        (g,) = lib.autograd.grad((z * z).sum() + (y * y * y).sum(), x, create_graph=True)
        report += [g, *lib.autograd.grad((g * lib.arange(6, dtype=lib.float64)).sum(), x)]
        (g,) = lib.autograd.grad((y.as_strided((3,), (1,), 0) ** 3).sum(), y, create_graph=True)
        report += [g, *lib.autograd.grad((g * g).sum(), x)]
    return report


@parity
def test_as_strided_in_place_on_a_view(lib: Any) -> Any:
    x = matrix(lib)
    y = x * 1
    view = y.t()
    view.as_strided_((2,), (4,), 0)
    view.mul_(3)
    with lib.no_grad():
        again = y[0].as_strided_((2,), (2,))
    return [view, y, again, again.storage_offset(), *lib.autograd.grad((y * y).sum() + view.sum(), x)]


@parity
def test_as_strided_in_place_refuses_wrong_arguments(lib: Any) -> Any:
    x = lib.ones(6)
    return [
        attempt(lambda: matrix(lib).as_strided_((2,), (1,))),
        attempt(lambda: x.as_strided_((7,), (1,))),
        attempt(lambda: x.as_strided_((2,), (-1,))),
        attempt(lambda: x.as_strided_((2, 2), (1,))),
        attempt(lambda: lib.as_strided_(3, (2,), (1,))),
        x,
        lib.as_strided_(x, (2,), (3,)),
        lib.func.jvp(lambda x: x.clone().as_strided_((2,), (2,)), (lib.arange(6.0),), (lib.arange(6.0) * 2,)),
    ]


def test_vmap_of_as_strided_in_place() -> None:
    """torch has no rule for it and returns the samples unchanged."""
    x = rg.arange(6.0).view(2, 3)
    assert rg.vmap(lambda x: x.clone().as_strided_((2,), (2,)))(x).tolist() == [[0.0, 2.0], [3.0, 5.0]]
    got = rg.vmap(rg.func.grad(lambda x: (x**2).as_strided_((2, 2), (1, 1)).prod()))(x + 1)
    expected = rg.stack([rg.func.grad(lambda x: (x[:2] ** 2).prod() * (x[1:] ** 2).prod())(row + 1) for row in x])
    np.testing.assert_allclose(got.numpy(), expected.numpy())


@parity
def test_dimensions_of_a_view_changed_in_place(lib: Any) -> Any:
    x = matrix(lib)
    y = x * 1
    view = y.t()
    view.unsqueeze_(0)
    row = view[0, 0]
    view.squeeze_()
    row.mul_(2)
    with lib.no_grad():
        view.t_()
    (y * y * view).sum().backward()
    return view.requires_grad, y, x.grad


@parity
def test_dimensions_of_an_expanded_tensor_changed_in_place(lib: Any) -> Any:
    x = lib.ones(3).expand(2, 3)
    return [attempt(lambda: tuple(x.t_().shape)), attempt(lambda: tuple(x.unsqueeze_(0).shape)), attempt(x.exp_)]


# --- strides ------------------------------------------------------------------------------------------------------


@parity
def test_writes_to_as_strided_of_a_transposed_base(lib: Any) -> Any:
    report = []
    for transposed in (False, True):
        x = matrix(lib)
        y = (x.t() if transposed else x) * 1
        y.as_strided((2,), (1,), 1).mul_(lib.tensor([2.0, 3.0], dtype=lib.float64))
        (y.t() @ y).sum().backward()
        report += [x.grad]
        x.grad = None
        y = (x.t() if transposed else x) * 1
        y.as_strided((2,), (1,), 1).pow_(2)
        (g,) = lib.autograd.grad((y.t() @ y).sum(), x, create_graph=True)
        report += [g, *lib.autograd.grad((g * g).sum(), x)]
    return report


@parity
def test_as_strided_of_views_with_another_dtype_or_offset(lib: Any) -> Any:
    z = lib.tensor([1 + 2j, 3 + 4j])
    x = lib.arange(6.0)
    part = x.as_strided((2, 2), (2, 1), 1)
    return [
        z.view(lib.float32).as_strided((2,), (2,), 1),
        z.imag.as_strided((2,), (1,), 2),
        part.storage_offset(),
        part[1].storage_offset(),
        attempt(lambda: x.as_strided((2, 2), (0, 1)).exp_()),
        attempt(lambda: x.as_strided((2, 2), (1, 0), 1).add_(1)),
    ]


@parity
def test_write_to_a_view_of_a_scalar(lib: Any) -> Any:
    x = lib.tensor(3.0, requires_grad=True)
    y = x * 2
    y.view(-1).mul_(3)
    (y * y).backward()
    return x.grad


@parity
def test_view_as_another_dtype_is_not_differentiable_but_shares_versions(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    bits = x.view(lib.int64)
    report = [bits._is_view(), bits.requires_grad]
    y = x.exp()
    y.view(lib.int64).zero_()
    return [*report, y, y._version, attempt(lambda: y.sum().backward()), attempt(lambda: bits.add_(0))]


# --- what may be written to ---------------------------------------------------------------------------------------


@parity
def test_writes_to_views_of_leaves_are_refused(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0, 3.0)
    base = lib.ones(4, dtype=lib.float64)
    view = base[:2]
    view.requires_grad_()
    with lib.no_grad():
        quiet = x[0:2]
    return [
        attempt(lambda: view.mul_(2)),
        attempt(lambda: view[0].mul_(2)),
        attempt(lambda: x[:2].add_(lib.ones(3))),
        attempt(lambda: quiet.add_(1)),
        attempt(lambda: x.expand(2, 3).add_(1)),
        base,
        x,
    ]


def test_error_says_which_rule_forbids_a_write() -> None:
    x = leaf(rg, 1.0, 2.0, 3.0)
    with rg.no_grad():
        quiet = x[0:2]
    with rg.inference_mode():
        inferred = x[0:2]
    base = rg.ones(4)
    view = base[:2].requires_grad_()
    for write, words in (
        (lambda: quiet.add_(1), "A view was created in no_grad mode and is being modified inplace"),
        (lambda: inferred.add_(1), "A view was created in inference mode and is being modified inplace in normal mode"),
        (lambda: x.unbind(0)[0].add_(1), "Output 0 of Unbind is a view and is being modified inplace"),
        (lambda: x.split(1)[1].add_(1), "Output 1 of Split is a view and is being modified inplace"),
        (lambda: x.split([1, 2])[1].add_(1), "Output 1 of SplitWithSizes is a view and is being modified inplace"),
        (lambda: x.expand(2, 3).add_(1), "a view of a leaf Variable that requires grad is being used"),
        (lambda: view[0].add_(1), "a view of a leaf Variable that requires grad is being used"),
        (lambda: x.add_(rg.ones(2)), "a leaf Variable that requires grad is being used in an in-place operation"),
    ):
        assert message(write).startswith(words)


@parity
def test_differentiable_writes_to_integers_get_no_history(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    counts = lib.zeros(2, dtype=lib.int64)
    counts[0] = x[1]
    counts.copy_(x)
    return counts, counts.requires_grad, counts._version


@parity
def test_assigning_numbers_that_do_not_fit_the_dtype(lib: Any) -> Any:
    report = []
    for dtype, value in (
        ("int8", 300), ("int8", float("nan")), ("uint8", -1), ("uint8", 256), ("float32", 1e60), ("float32", 1j),
        ("float32", 1 + 0j), ("float16", 1e5), ("float16", 1j), ("int64", 1e30), ("bool", 2), ("complex64", 1e60),
    ):  # fmt: skip
        for index in (0, slice(0, 1), lib.tensor([0]), lib.tensor([True, False])):
            x = lib.zeros(2, dtype=getattr(lib, dtype))
            report += [attempt(lambda x=x, index=index, value=value: x.__setitem__(index, value)), x]
    return report
