"""Copies, conversions and writes of whole tensors, compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.ops.harness import assert_same, to_ours, to_torch
from tests.parity import attempt, parity

NAMES = ["float16", "float32", "float64", "complex64", "complex128", "uint8", "int8", "int16", "int32", "int64", "bool"]
FLOATING = NAMES[:5]
SHORTCUTS = ["half", "float", "double", "cfloat", "cdouble", "byte", "char", "short", "int", "long", "bool"]
VALUES = np.array([[0.0, 1.0, -2.7], [3.5, 100.0, 1.5]])


def made(name: str) -> np.ndarray:
    values = np.abs(VALUES) if name == "uint8" else VALUES
    return (values + 1j * values).astype(name) if name.startswith("complex") else values.astype(name)


def pair(name: str = "float64", *, grad: bool = False) -> tuple[Any, Any]:
    array = made(name)
    ours, theirs = to_ours(array.copy()), to_torch(array.copy())
    return (ours.requires_grad_(), theirs.requires_grad_()) if grad else (ours, theirs)


# --- conversion ---------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Casting complex values:UserWarning")
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_to_every_dtype(source: str, target: str) -> None:
    ours, theirs = pair(source, grad=source in FLOATING)
    got, expected = ours.to(getattr(rg, target)), theirs.to(getattr(torch, target))
    assert_same(got, expected)
    assert (got is ours) == (expected is theirs) == (source == target)
    assert got.requires_grad == expected.requires_grad
    if got.requires_grad and source != target:
        assert got.grad_fn.name() == expected.grad_fn.name() == "ToCopyBackward0"
        weight = made(target)
        (grad,) = rg.autograd.grad(got, ours, to_ours(weight), create_graph=True)
        (expected_grad,) = torch.autograd.grad(expected, theirs, to_torch(weight))
        assert_same(grad, expected_grad)


@pytest.mark.filterwarnings("ignore:Casting complex values:UserWarning")
@pytest.mark.parametrize("name", SHORTCUTS)
@pytest.mark.parametrize("source", NAMES)
def test_conversion_methods_named_after_dtypes(source: str, name: str) -> None:
    ours, theirs = pair(source)
    got, expected = getattr(ours, name)(), getattr(theirs, name)()
    assert_same(got, expected)
    assert (got is ours) == (expected is theirs)


def test_converting_numbers_that_do_not_fit_into_integers_does_not_warn() -> None:
    for value in (np.nan, np.inf, 1e30):
        rg.tensor([value]).to(rg.int32)
    assert rg.tensor([300, -1]).to(rg.uint8).tolist() == [44, 255]


def test_forms_of_calling_to() -> None:
    x = rg.ones(2)
    y = rg.zeros(1, dtype=rg.float64)
    assert x.to() is x
    assert x.to(None) is x
    assert x.to("cpu") is x
    assert x.to(rg.device("cpu")) is x
    assert x.to(y).dtype == rg.float64
    assert x.to(other=y).dtype == rg.float64
    assert x.to("cpu", rg.float64).dtype == rg.float64
    assert x.to(device="cpu", dtype=rg.float64).dtype == rg.float64
    assert x.to(rg.float64, non_blocking=True).dtype == rg.float64
    assert x.to(rg.float64, True, True).dtype == rg.float64
    assert x.to(float).dtype == rg.float64
    assert x.to(np.float64).dtype == rg.float64
    assert x.type_as(y).dtype == rg.float64
    assert x.cpu() is x


@pytest.mark.parametrize("call", [{"copy": True}, {"dtype": rg.float32, "copy": True}], ids=str)
def test_to_with_copy(call: dict[str, Any]) -> None:
    x = rg.ones(2, requires_grad=True)
    y = x.to(**call)
    assert y is not x
    assert not np.shares_memory(y.detach().numpy(), x.detach().numpy())
    assert y.grad_fn.name() == "ToCopyBackward0"


def test_astype_behaves_as_numpys() -> None:
    x = rg.ones(2, requires_grad=True)
    assert x.astype("float64").dtype == rg.float64
    assert x.astype(np.float32) is not x
    assert x.astype(np.float32, copy=False) is x
    assert x.astype(int).dtype == rg.int64
    with pytest.raises(TypeError, match="astype"):
        x.astype("int32", casting="safe")
    if hasattr(np, "astype"):
        np.astype(x, np.float64).sum().backward()
        assert x.grad.dtype == rg.float32


@pytest.mark.parametrize("name", NAMES)
def test_type_agrees_with_torch(name: str) -> None:
    ours, theirs = pair(name)
    words = theirs.type().replace("torch", "retrograd")
    assert ours.type() == words
    assert rg.zeros(1).type(words).dtype == ours.dtype
    assert rg.zeros(1).type(theirs.type()).dtype == ours.dtype
    assert rg.zeros(1).type(getattr(rg, name)).dtype == ours.dtype


def test_type_of_the_tensor_class_is_the_default_dtype() -> None:
    assert rg.zeros(1, dtype=rg.int64).type(rg.Tensor).dtype == rg.float32


def test_converting_complex_to_real_warns() -> None:
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        rg.tensor([1 + 2j]).to(rg.float32)


# --- copies -------------------------------------------------------------------------------------------------------


def test_clone_keeps_the_memory_layout() -> None:
    array = np.zeros((4, 6))
    for view in (array.T, array[:, ::2], array.reshape(2, 3, 4).transpose(2, 0, 1)):
        ours, theirs = to_ours(view), to_torch(view)
        assert ours.clone().stride() == theirs.clone().stride()
        assert ours.contiguous().stride() == theirs.contiguous().stride()
        assert ours.contiguous().is_contiguous()
    assert rg.ones(3).expand(2, 2, 3).clone().stride() == (6, 3, 1)


def test_contiguous_returns_a_contiguous_tensor_itself() -> None:
    x = rg.ones(2, 3, requires_grad=True)
    assert x.contiguous() is x
    y = x.T.contiguous()
    assert y.grad_fn.name() == "CloneBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [[1, 1, 1]] * 2


def test_numpy_copy_of_tensors() -> None:
    x = rg.ones(2, 3, requires_grad=True)
    assert x.copy().requires_grad
    assert np.copy(x.T).stride() == (1, 3)
    assert x.T.copy().is_contiguous()
    with pytest.raises(TypeError, match="order"):
        x.copy("F")


# --- writes -------------------------------------------------------------------------------------------------------

WRITES = {
    "copy_": lambda x, v: x.copy_(v),
    "copy_ broadcast": lambda x, v: x.copy_(v[0]),
    "copy_ number": lambda x, v: x.copy_(v[0, 0] * 0 + 2),
    "fill_": lambda x, v: x.fill_(2.5),
    "fill_ tensor": lambda x, v: x.fill_(v[0, 1]),
    "zero_": lambda x, v: x.zero_(),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("on_a_view", [False, True], ids=["whole", "view"])
def test_in_place_writes_of_whole_tensors(name: str, dtype: str, on_a_view: bool) -> None:
    results = []
    for library, make in ((rg, to_ours), (torch, to_torch)):
        x, v = make(made(dtype)).requires_grad_(), make(made(dtype)[::-1].copy()).requires_grad_()
        y = x * 1
        before = y._version
        target = y.T[:, :2].T if on_a_view else y
        assert WRITES[name](target, v) is target
        assert y._version == before + 1
        grads = library.autograd.grad((y * y * make(made(dtype))).sum().abs(), [x, v], allow_unused=True)
        results.append([y, *grads])
    for got, expected in zip(*results, strict=True):
        if expected is None:
            assert got is None
        else:
            assert_same(got, expected, 30)


def test_node_of_copy_() -> None:
    x = rg.ones(2, requires_grad=True) * 1
    assert x.copy_(rg.zeros(2)).grad_fn.name() == "CopyBackwards"


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
@pytest.mark.filterwarnings("ignore:Casting complex values:UserWarning")
def test_copy_converts_dtypes(source: str, target: str) -> None:
    (ours, theirs), (new, their_new) = pair(target), pair(source)
    assert_same(ours.copy_(new), theirs.copy_(their_new))
    if source in FLOATING and target in FLOATING:
        (a, b), (c, d) = pair(target, grad=True), pair(source, grad=True)
        weight = made(target)
        grads = rg.autograd.grad((a * 1).copy_(c), [a, c], to_ours(weight))
        for got, expected in zip(grads, torch.autograd.grad((b * 1).copy_(d), [b, d], to_torch(weight)), strict=True):
            assert_same(got, expected)


def test_copy_between_overlapping_parts_of_a_tensor() -> None:
    x = rg.arange(4)
    x[1:].copy_(x[:-1])
    assert x.tolist() == [0, 0, 1, 2]


def test_copy_from_a_number() -> None:
    assert rg.zeros(2).copy_(3).tolist() == [3, 3]


def test_wrong_writes_are_refused_as_in_torch() -> None:
    leaf = rg.ones(2, requires_grad=True)
    for write in (lambda x: x.copy_(rg.zeros(2)), lambda x: x.fill_(1), lambda x: x.zero_()):
        with pytest.raises(RuntimeError, match="leaf Variable"):
            write(leaf)
    with pytest.raises(RuntimeError, match="single memory location"):
        rg.ones(1).expand(2).copy_(rg.zeros(2))
    with rg.no_grad():
        leaf.zero_()
    assert leaf.tolist() == [0, 0]


def test_writing_to_a_saved_tensor_is_noticed() -> None:
    x = rg.ones(2, requires_grad=True)
    y = x * 1
    z = y * y
    y.copy_(rg.zeros(2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_numpy_fill_of_tensors() -> None:
    x = rg.zeros(2)
    assert x.fill(3) is None
    assert x.tolist() == [3, 3]


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("value", [2 + 0j, 2 + 1j])
@pytest.mark.filterwarnings("ignore:Casting complex values:UserWarning")
def test_filling_real_tensors_with_complex_numbers_of_zero_imaginary_part(dtype: str, value: complex) -> None:
    def program(lib: Any) -> Any:
        x, mask, first = lib.ones(2, 2, dtype=getattr(lib, dtype)), lib.eye(2, dtype=lib.bool), lib.zeros(1, 1).long()
        number = lib.tensor(value)
        fills = [lambda: x.fill_(value), lambda: x.masked_fill(mask, value), lambda: x.masked_fill(mask, number)]
        return [attempt(fill) for fill in (*fills, lambda: x.scatter(0, first, value))]

    parity(program)()


def test_gradient_of_a_complex_value_that_fills_a_real_tensor() -> None:
    value = rg.tensor(2 + 0j, requires_grad=True)
    rg.zeros(3).masked_fill(rg.tensor([True, False, True]), value).sum().backward()
    assert value.grad.item() == 2
    with pytest.raises(RuntimeError, match=r"2\+1j.*no imaginary part"):
        rg.zeros(3).fill_(2 + 1j)


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (7, 2), (2, 2, 2)])
def test_fill_diagonal(shape: tuple[int, ...], wrap: bool) -> None:
    results = []
    for library in (rg, torch):
        x = library.ones(*shape, dtype=library.float64, requires_grad=True)
        y = x * 1
        assert y.fill_diagonal_(3.0, wrap=wrap) is y
        (y**2).sum().backward()
        results.append((y, x.grad))
    for got, expected in zip(*results, strict=True):
        assert_same(got, expected)


# --- shapes in place ----------------------------------------------------------------------------------------------

RESHAPES = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(0, -1),
    "unsqueeze_": lambda x: x.unsqueeze_(1),
    "squeeze_": lambda x: x.unsqueeze_(0).squeeze_(),
    "squeeze_ dim": lambda x: x.unsqueeze_(0).squeeze_(0),
}


@pytest.mark.parametrize("name", RESHAPES)
@pytest.mark.parametrize("on_a_view", [False, True], ids=["whole", "view"])
def test_in_place_changes_of_shape(name: str, on_a_view: bool) -> None:
    results = []
    for library, make in ((rg, to_ours), (torch, to_torch)):
        x = make(VALUES.copy()).requires_grad_()
        y = x * 1
        target = y[:, 1:] if on_a_view else y
        assert RESHAPES[name](target) is target
        assert target._is_view() == on_a_view
        target.mul_(2) if on_a_view else None
        weight = make(np.arange(1.0, target.numel() + 1).reshape(tuple(target.shape)))
        total = (target * weight).sum() + (y**2).sum()
        results.append([target, y, *library.autograd.grad(total, x)])
    for got, expected in zip(*results, strict=True):
        assert_same(got, expected)


def test_in_place_changes_of_shape_under_no_grad() -> None:
    x = rg.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.t_()
    with rg.no_grad():
        assert x.t_().shape == (3, 2)
    assert x.is_leaf
    assert rg.ones(2, 3).t_().shape == (3, 2)


def test_error_about_bfloat16_suggests_an_alternative() -> None:
    with pytest.raises(TypeError, match=r"NumPy has no such dtype; use float\(\)"):
        rg.ones(2).bfloat16()
