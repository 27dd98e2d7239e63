"""Errors are part of the interface: torch's class, the operation's name, the values, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import _family

# What goes wrong, and words that the message must contain.
MISTAKES: list[tuple[str, Callable[[Any], Any], tuple[str, ...]]] = [
    ("shapes", lambda m: m.ones(3) + m.ones(4), ("add", "3", "4")),
    ("shapes in place", lambda m: m.ones(3).mul_(m.ones(2, 3)), ("mul_", "[3]", "[2, 3]")),
    ("matmul", lambda m: m.ones(2, 3) @ m.ones(2, 3), ("matmul", "[2, 3]")),
    ("mm", lambda m: m.mm(m.ones(2, 3), m.ones(3)), ("mm", "[2, 3] and [3]", "matmul")),
    ("cat", lambda m: m.cat([m.ones(2, 3), m.ones(3, 2)]), ("cat",)),
    ("dtypes", lambda m: m.inner(m.ones(2), m.ones(2, dtype=m.float64)), ("float32", "float64", ".to()")),
    ("cat without a list", lambda m: m.cat(m.ones(2), m.ones(3)), ("cat([a, b])",)),
    ("stack", lambda m: m.stack([m.ones(2), m.ones(3)]), ("stack", "[2]", "[3]")),
    ("reshape", lambda m: m.ones(6).reshape(4, 2), ("reshape", "[4, 2]", "6")),
    ("view", lambda m: m.ones(2, 3).t().view(6), ("view", "reshape")),
    ("expand", lambda m: m.ones(3).expand(2, 4), ("expand",)),
    ("dimension", lambda m: m.ones(2, 3).sum(5), ("sum", "[-2, 1]", "5")),
    ("dimension of softmax", lambda m: m.softmax(m.ones(2), 3), ("softmax", "3")),
    ("index", lambda m: m.ones(3)[5], ("5", "3")),
    ("too many indices", lambda m: m.ones(3)[0, 0], ("indices",)),
    ("gather", lambda m: m.ones(3).gather(0, m.tensor([7])), ("gather", "7")),
    ("vstack without a list", lambda m: m.vstack(m.ones(2, 3)), ("vstack([a, b])",)),
    ("dimension of text", lambda m: m.ones(3).sum(dim="x"), ("sum", "'x'")),
    ("repeats of text", lambda m: m.ones(3).repeat("x"), ("repeat", "'x'")),
    ("block_diag", lambda m: m.block_diag(3), ("block_diag", "int")),
    ("save", lambda m: m.save({}, "no_such_directory/file.pt"), ("no_such_directory",)),
    ("dtype of bitwise", lambda m: m.ones(3) & m.ones(3), ("bitwise_and", "int64")),
    ("array of tensors", lambda m: np.array([m.ones((), requires_grad=True)]), ("detach()", "np.stack")),
    ("result dtype in place", lambda m: m.ones(3, dtype=m.int64).add_(0.5), ("can't be cast",)),
    ("bool minus bool", lambda m: m.tensor([True]) - m.tensor([True]), ("sub", "logical_xor")),
    ("string operand", lambda m: m.add(m.ones(2), "a"), ("add", "str")),
    ("list operand", lambda m: m.ones(2) + [1, 2], ("list",)),  # noqa: RUF005
    ("not a tensor", lambda m: m.exp([1.0]), ("exp", "Tensor", "list")),
    ("unknown keyword", lambda m: m.ones(2).sum(dims=0), ("sum", "dims")),
    ("ragged list", lambda m: m.tensor([[1, 2], [3]]), ("2", "1")),
    ("text", lambda m: m.tensor("abc"), ("str",)),
    ("object", lambda m: m.tensor([object()]), ("object",)),
    ("None", lambda m: m.tensor(None), ("None",)),
    ("unsupported array", lambda m: m.from_numpy(np.array(["a"])), ("supported",)),
    ("integers that require grad", lambda m: m.tensor([1, 2], requires_grad=True), ("floating point",)),
    ("unknown device", lambda m: m.ones(2, device="tpu7"), ("device",)),
    ("backward of a vector", lambda m: (m.ones(2, requires_grad=True) * 2).backward(), ("scalar", "[2]")),
    ("backward without a graph", lambda m: m.ones(2).sum().backward(), ("does not require grad",)),
    ("no gradient", lambda m: m.autograd.grad(m.ones(1).sum(), m.ones(1)), ("require grad",)),
    ("write to a leaf", lambda m: m.ones(2, requires_grad=True).mul_(2), ("leaf", "no_grad")),
    ("numpy of a leaf", lambda m: m.ones(2, requires_grad=True).numpy(), ("detach()",)),
    ("item of many", lambda m: m.ones(2).item(), ("2",)),
    ("truth of many", lambda m: bool(m.ones(2)), ("ambiguous",)),
    ("length of a scalar", lambda m: len(m.tensor(1.0)), ("0-d",)),
    ("singular matrix", lambda m: m.linalg.inv(m.zeros(2, 2)), ("inv", "singular")),
    ("not positive definite", lambda m: m.linalg.cholesky(-m.eye(2)), ("cholesky", "positive")),
    ("not square", lambda m: m.linalg.det(m.ones(2, 3)), ("det", "square")),
    ("einsum", lambda m: m.einsum("ij,jk->ik", m.ones(2, 3), m.ones(2, 3)), ("einsum",)),
    ("empty maximum", lambda m: m.ones(0).max(), ("max",)),
    ("module for parameters", lambda m: m.optim.SGD(m.nn.Linear(1, 1)), ("Linear", "parameters()")),
    ("parameters not called", lambda m: m.optim.SGD(m.nn.Linear(1, 1).parameters), ("call it",)),
    ("index of an embedding", lambda m: m.nn.Embedding(5, 2)(m.tensor([7])), ("0 to 4", "any shape, got [1]", "7")),
    ("negative size", lambda m: m.ones(-1), ("-1",)),
]


@pytest.mark.parametrize(("mistake", "words"), [pytest.param(m, w, id=name) for name, m, w in MISTAKES])
def test_mistakes(mistake: Callable[[Any], Any], words: tuple[str, ...]) -> None:
    with pytest.raises(Exception) as expected:
        mistake(torch)
    with pytest.raises(Exception) as got:
        mistake(rg)
    assert _family(got.value) == _family(expected.value), f"{got.value!r}, torch has {expected.value!r}"
    text = str(got.value)
    for word in words:
        assert word in text, f"'{word}' is not in: {text}"


@pytest.mark.parametrize(
    "mistake",
    [
        lambda x: rg.nn.Linear(2, 3)(x),
        lambda x: rg.ones(2, 2).matmul(x),
        lambda x: rg.nn.functional.linear(rg.ones(2), x),
        lambda x: rg.exp(x),
    ],
)
def test_a_tensor_of_torchs_is_told_apart(mistake: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"must be Tensor, not torch\.Tensor; make it a tensor first"):
        mistake(torch.ones(2, 2))


def test_freed_graph_names_the_fix() -> None:
    x = rg.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()
    assert (x.grad == 2).all(), "the failed backward left the gradient alone"


def test_failed_backward_leaves_the_gradients_alone() -> None:
    x = rg.ones(2, requires_grad=True)
    y = x.exp()
    z = (y * y).sum()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    assert x.grad is None
    assert rg.is_grad_enabled()


def test_modes_are_restored_after_an_error_in_backward() -> None:
    class Fails(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise KeyError("in backward")

    x = rg.ones(2, requires_grad=True)
    with pytest.raises(KeyError, match="in backward"):
        Fails.apply(x).sum().backward()
    assert rg.is_grad_enabled()
    assert x.grad is None
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        np.sqrt(np.array(-1.0))


def test_births_are_silent_and_numpy_still_warns() -> None:
    x = rg.tensor([0.0, -1.0, 1000.0], requires_grad=True)
    y = x.log().sum() + x.exp().sum() + (1 / x).sum() + (x / 0).sum()
    y.backward()
    assert not np.isfinite(x.grad.numpy()).all()
    x.detach().log_().div_(0)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.log(np.array([0.0]))


def test_an_error_is_told_once():
    """The call paths try again before they explain; the user sees one traceback."""
    for call in (
        lambda: rg.ones(2, 3) + rg.ones(2, 4),
        lambda: rg.ones(2, 3) @ rg.ones(2, 3),
        lambda: rg.ones(2, 3).sum(7),
        lambda: rg.linalg.inv(rg.zeros(2, 2)),
    ):
        with pytest.raises((RuntimeError, IndexError)) as info:
            call()
        assert str(info.getrepr(style="native")).count("Traceback (most recent call last)") == 1
