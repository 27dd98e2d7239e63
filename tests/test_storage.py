"""Storages, ``resize_`` and ``set_``, compared with torch."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, message, parity


@parity
def test_untyped_storage(lib: Any) -> Any:
    x = lib.arange(6.0).reshape(2, 3)
    whole, part = x.untyped_storage(), x.t()[1].untyped_storage()
    return [
        whole.data_ptr() == part.data_ptr() == x.data_ptr(),
        whole.data_ptr() == x.clone().untyped_storage().data_ptr(),
        whole.nbytes(),
        part.nbytes(),
        len(part),
        part.size(),
        str(whole.device),
        x.t()[1].storage_offset(),
        x.nbytes,
        x.element_size(),
    ]


@parity
def test_resize_matches_torch(lib: Any) -> Any:
    x = lib.arange(6.0)
    report = [x.resize_(2, 2), x._version, x.resize_(6), x.resize_((3,)), x.resize_as_(lib.ones(1, 2))]
    transposed = lib.arange(6.0).reshape(2, 3).t()
    report += [transposed.resize_(3, 2), transposed.resize_(2, 3), transposed.is_contiguous()]
    part = lib.arange(6.0)[2:]
    report += [part.resize_(2, 2).clone(), part.resize_(5)[:4], part.shape]
    empty = lib.zeros(0)
    empty.resize_(3).fill_(2)
    return [*report, empty]


@parity
def test_resize_of_tensors_with_gradients(lib: Any) -> Any:
    x = lib.ones(2, requires_grad=True)
    y = x * 1
    with lib.no_grad():
        return [attempt(lambda: x.resize_(3)), attempt(lambda: y.resize_(3)), (x * 1).resize_(1)]


@parity
def test_resize_to_the_same_shape_does_not_count_as_a_write(lib: Any) -> Any:
    x, w = lib.arange(3.0), lib.ones(3, requires_grad=True)
    product = x * w
    x.resize_(3).resize_as_(lib.zeros(3))
    product.sum().backward()
    with lib.inference_mode():
        inference = lib.ones(3)
    report = [x._version, w.grad, inference.resize_(3).tolist(), attempt(lambda: inference.resize_(2))]
    return [*report, attempt(lambda: x.resize_as_(3))]


@parity
def test_set_matches_torch(lib: Any) -> Any:
    x, y = lib.ones(2, 3), lib.arange(4.0)
    x.set_(y)
    report = [x, x._version, y._version, x._is_view()]
    x.add_(1)
    report += [y, y._version, x.set_(y, 1, (2,), (2,)), x.set_(y, 2, (2,)), x.storage_offset()]
    report += [x.set_(y.untyped_storage(), 1, (2,), (1,)), x.set_(y.untyped_storage()), x.set_()]
    return [*report, attempt(lambda: x.set_(lib.arange(3)))]


@parity
def test_set_of_tensors_with_gradients(lib: Any) -> Any:
    x, y = lib.ones(2, requires_grad=True), lib.arange(3.0)
    report = [attempt(lambda: x.set_(y))]
    with lib.no_grad():
        x.set_(y)
    (x * x).sum().backward()
    return [*report, x, x.requires_grad, x.grad]


def test_set_raises_where_a_gradient_would_be_lost() -> None:
    x = rg.ones(2, requires_grad=True)
    for call in (lambda: (x * 1).set_(rg.zeros(2)), lambda: rg.zeros(2).set_(x)):
        assert message(call).startswith("set_(): the derivative is not implemented; use detach()")


def test_repr_of_a_storage() -> None:
    assert repr(rg.zeros(3).untyped_storage()) == "UntypedStorage(device=cpu, nbytes=12)"


def test_resize_leaves_views_on_the_old_memory() -> None:
    x = rg.arange(3)
    view = x[1:]
    x.resize_(5)
    x.zero_()
    assert view.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match=r"sizes must not be negative, but got \[2, -1\]"):
        x.resize_(2, -1)


@parity
def test_is_storage(lib: Any) -> Any:
    x = lib.ones(2)
    return [lib.is_storage(thing) for thing in (x.untyped_storage(), x, [1], None)]
