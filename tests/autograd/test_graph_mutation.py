"""allow_mutation_on_saved_tensors, compared with torch."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, message, parity

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "in-place operation": lambda lib, b: b.sin_(),
    "operator": lambda lib, b: b.__imul__(3),
    "item": lambda lib, b: b.__setitem__(0, 7.0),
    "mask": lambda lib, b: b.__setitem__(b > 0, 7.0),
    "copy": lambda lib, b: b.copy_(lib.zeros_like(b)),
    "fill": lambda lib, b: b.zero_(),
    "write to a detached tensor": lambda lib, b: b.detach().add_(1),
    "write to its data": lambda lib, b: b.data.add_(1),
    "twice": lambda lib, b: b.add_(1).mul_(2),
}


@pytest.mark.parametrize("write", WRITES)
def test_saved_tensor_may_be_overwritten(write: str) -> None:
    @parity
    def check(lib: Any) -> Any:
        with lib.autograd.graph.allow_mutation_on_saved_tensors():
            a = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
            b = a.clone()
            out = (b**2).sum()
            WRITES[write](lib, b)
            out.backward()
            return [a.grad, b]

    check()


@parity
def test_saved_tensor_may_be_overwritten_through_out(lib: Any) -> Any:
    with lib.autograd.graph.allow_mutation_on_saved_tensors():
        a = lib.tensor([1.0, 2.0], requires_grad=True)
        b = lib.ones(2)
        y = (a * b).sum()
        with lib.no_grad():
            lib.add(b, 5, out=b)
        y.backward()
    return a.grad


@parity
def test_saved_leaf_may_be_overwritten_under_no_grad(lib: Any) -> Any:
    with lib.autograd.graph.allow_mutation_on_saved_tensors():
        a = lib.tensor([1.0, 2.0], requires_grad=True)
        y = (a * a).sum()
        with lib.no_grad():
            a.mul_(10)
        y.backward()
    return [a.grad, a]


@parity
def test_saved_gradient_may_be_accumulated_into(lib: Any) -> Any:
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    w = lib.ones(2, requires_grad=True)
    x.grad = lib.ones(2)
    with lib.autograd.graph.allow_mutation_on_saved_tensors():
        product = (w * x.grad).sum()
        (x * x).sum().backward()
        product.backward()
    return [x.grad, w.grad]


@parity
def test_each_use_gets_the_value_of_its_time(lib: Any) -> Any:
    with lib.autograd.graph.allow_mutation_on_saved_tensors():
        a = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
        b = a.clone()
        first = (b**2).sum()
        b.mul_(3)
        second = (b**2).sum()
        b.exp_()
        (first + second + b.sum()).backward()
    return a.grad


@parity
def test_result_needed_by_its_own_rule_may_be_overwritten(lib: Any) -> Any:
    with lib.autograd.graph.allow_mutation_on_saved_tensors():
        a = lib.tensor([0.5, 1.0], dtype=lib.float64, requires_grad=True)
        y = a.exp()
        y.add_(1)
        y.sum().backward()
    return a.grad


@parity
def test_overwritten_tensor_may_be_an_operand_of_the_write(lib: Any) -> Any:
    report = []
    for write in (lambda z: z.mul_(z), lambda z: z.pow_(z), lambda z: z.div_(z), lambda z: z.addcmul_(z, z)):
        with lib.autograd.graph.allow_mutation_on_saved_tensors():
            a = lib.tensor([0.5, 1.5], dtype=lib.float64, requires_grad=True)
            z = a * 2
            write(z)
            (z * z).sum().backward()
        report.append(a.grad)
    return report


def test_base_of_a_saved_view_may_be_overwritten() -> None:
    """torch compares start addresses and silently uses the new values here."""
    with rg.autograd.graph.allow_mutation_on_saved_tensors():
        a = rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        b = a.clone()
        y = (b[1:] ** 2).sum()
        b.zero_()
        y.backward()
    assert a.grad.tolist() == [0.0, 4.0, 6.0]


def test_view_of_a_saved_base_may_be_overwritten() -> None:
    """Here, too, torch silently uses the new values."""
    with rg.autograd.graph.allow_mutation_on_saved_tensors():
        a = rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        b = a.clone()
        y = (b**2).sum()
        b[1:].exp_()
        y.backward()
    assert a.grad.tolist() == [2.0, 4.0, 6.0]


@parity
def test_backward_must_run_inside_the_same_block(lib: Any) -> Any:
    graph = lib.autograd.graph

    def recorded(context: Any = None) -> Any:
        a = lib.tensor([1.0, 2.0], requires_grad=True)
        b = a.clone()
        out = (b**2).sum()
        b.sin_()
        return out

    def after() -> None:
        with graph.allow_mutation_on_saved_tensors():
            out = recorded()
        out.backward()

    def in_another() -> None:
        with graph.allow_mutation_on_saved_tensors():
            out = recorded()
        with graph.allow_mutation_on_saved_tensors():
            out.backward()

    def cleared() -> None:
        with graph.allow_mutation_on_saved_tensors() as context:
            out = recorded()
            context.clear()
            out.backward()

    def nested() -> None:
        with graph.allow_mutation_on_saved_tensors(), graph.allow_mutation_on_saved_tensors():
            pass

    kinds = [type(error).__name__ for error in (_raised(after), _raised(in_another), _raised(cleared), _raised(nested))]
    return [kinds, message(nested)]


def _raised(function: Callable[[], None]) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


@parity
def test_writes_are_errors_again_after_the_block(lib: Any) -> Any:
    with lib.autograd.graph.allow_mutation_on_saved_tensors():
        pass
    a = lib.tensor([1.0, 2.0], requires_grad=True)
    b = a.clone()
    out = (b**2).sum()
    b.sin_()
    return [attempt(out.backward)]


def test_only_overwritten_tensors_are_copied() -> None:
    with rg.autograd.graph.allow_mutation_on_saved_tensors() as context:
        a = rg.ones(3, requires_grad=True)
        b, c = a.clone(), a.clone()
        y = b * b * c
        before = [kept.array for kept in context._kept]
        b.mul_(2)
        after = [kept.array for kept in context._kept]
        assert {id(array) for array in after} & {id(array) for array in before} == {
            id(array) for array in before if array is not b._data
        }
        del y
        gc.collect()
        assert not context._kept  # nothing is kept once the graph is freed
        assert not context._storages
