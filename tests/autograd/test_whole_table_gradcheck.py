"""gradcheck and gradgradcheck over the whole table of operations, and errors planted in a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.registry import operations
from tests.ops.harness import Bound, Make, Row, Sample, differentiable, flatten, to_ours
from tests.ops.table import ROWS

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")

# Samples without a derivative, though their neighbours have one: at a branch cut, with overlapping memory.
NOT_SMOOTH = {
    ("sqrt", "complex128"): (0,),
    **{(name, dtype): (3,) for name in ("as_strided", "as_strided_copy") for dtype in ("float64", "complex128")},
}

CASES = [
    pytest.param(row, dtype, id=f"{row.name}-{dtype}")
    for row in ROWS
    if row.gradients and row.numeric
    for dtype in ("float64", "complex128")
    if dtype in row.dtypes
]
# one row of scatter_reduce has no second derivative, as in torch
TWICE = [case for case in CASES if case.values[0].second or case.values[0].name != "scatter_reduce"]

Problem = tuple[Callable[..., Any], list[rg.Tensor]]


def problems(row: Row, dtype: str, count: int) -> Iterator[Problem]:
    """Yield the first samples of a row as functions of the tensors to differentiate."""
    for number, sample in enumerate(row.samples(Make(dtype))):
        if number == count:
            return
        if number not in NOT_SMOOTH.get((row.name, dtype), ()):
            function, leaves = problem(row, sample)
            if leaves and all(leaf.dtype in (rg.float64, rg.complex128) for leaf in leaves) and function(*leaves):
                yield function, leaves


def problem(row: Row, sample: Sample) -> Problem:
    # copies, because some samples share an array between arguments
    bound = Bound(row, sample, lambda array: to_ours(array.copy()), rg, True)

    def function(*tensors: rg.Tensor) -> tuple[rg.Tensor, ...]:
        replaced = {id(leaf): tensor for leaf, tensor in zip(bound.leaves, tensors, strict=True)}
        args = [substitute(value, replaced) for value in bound.args]
        kwargs = {key: substitute(value, replaced) for key, value in bound.kwargs.items()}
        results = flatten(row.function(*args, **kwargs))
        return tuple(differentiable(row.post(results) if row.post is not None else results))

    return function, bound.leaves


def substitute(value: Any, replaced: dict[int, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(substitute(item, replaced) for item in value)
    return replaced.get(id(value), value)


@pytest.mark.parametrize(("row", "dtype"), CASES)
def test_gradcheck_of_every_operation(row: Row, dtype: str) -> None:
    """Check all samples by projections, and the first small one entry by entry."""
    small: Problem | None = None
    for function, leaves in problems(row, dtype, 30):
        assert rg.autograd.gradcheck(function, leaves, fast_mode=True)
        if small is None and 0 < sum(leaf.numel() for leaf in leaves) <= 16:
            small = function, leaves
    if small is not None:
        assert rg.autograd.gradcheck(*small)


@pytest.mark.parametrize(("row", "dtype"), CASES)
def test_gradcheck_of_forward_mode_of_every_operation(row: Row, dtype: str) -> None:
    for function, leaves in problems(row, dtype, 6):
        assert rg.autograd.gradcheck(function, leaves, fast_mode=True, check_forward_ad=True, check_backward_ad=False)


@pytest.mark.parametrize(("row", "dtype"), TWICE)
def test_gradgradcheck_of_every_operation(row: Row, dtype: str) -> None:
    for function, leaves in problems(row, dtype, 6):
        assert rg.autograd.gradgradcheck(function, leaves, fast_mode=True)


@pytest.mark.parametrize(("row", "dtype"), TWICE)
def test_forward_over_reverse_of_every_operation(row: Row, dtype: str) -> None:
    for function, leaves in problems(row, dtype, 2):
        assert rg.autograd.gradgradcheck(
            function,
            leaves,
            fast_mode=True,
            check_fwd_over_rev=True,
            check_rev_over_rev=False,
            check_undefined_grad=False,
        )


# --- operations whose samples cannot be perturbed entry by entry --------------------------------------------------


def hermitian(x: rg.Tensor) -> rg.Tensor:
    return x @ x.mH + 3 * rg.eye(len(x), dtype=rg.float64)


def eigenvectors(x: rg.Tensor) -> rg.Tensor:
    """Return the squares of the eigenvectors, because their signs are arbitrary."""
    return rg.linalg.eigh(hermitian(x))[1] ** 2


def ctc(x: rg.Tensor) -> rg.Tensor:
    lengths = rg.tensor([4]), rg.tensor([2])
    # as in torch, the gradient of ctc_loss assumes that log_softmax comes before it
    return rg.nn.functional.ctc_loss(x.reshape(4, 1, 4).log_softmax(2), rg.tensor([[1, 2]]), *lengths)


def reflectors(function: Callable[..., Any]) -> Callable[[rg.Tensor], rg.Tensor]:
    return lambda x: function(x, rg.linspace(0.5, 1.5, len(x), dtype=rg.float64))


BY_HAND: dict[str, Callable[[rg.Tensor], Any]] = {
    "cholesky": lambda x: rg.cholesky(hermitian(x)),
    "ctc_loss": ctc,
    "frexp": lambda x: rg.frexp(x)[0],
    "linalg.cholesky": lambda x: rg.linalg.cholesky(hermitian(x)),
    "linalg.cholesky_ex": lambda x: rg.linalg.cholesky_ex(hermitian(x))[0],
    "linalg.eigh": eigenvectors,
    "linalg.eigvalsh": lambda x: rg.linalg.eigvalsh(hermitian(x)),
    "linalg.householder_product": reflectors(rg.linalg.householder_product),
    "mode": lambda x: rg.mode(x, 1)[0],
    "nextafter": lambda x: rg.nextafter(x, rg.zeros_like(x)),
    "orgqr": reflectors(rg.orgqr),
    "ormqr": lambda x: rg.ormqr(x, rg.linspace(0.5, 1.5, 4, dtype=rg.float64), x[:, :2] ** 2),
    "special.round": lambda x: rg.special.round(x),
}

# Their gradient is deliberately that of the identity; see tests/ops/test_quantizing.py.
STRAIGHT_THROUGH = {"fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"}


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("name", BY_HAND)
def test_gradcheck_of_operations_with_constrained_inputs(name: str, fast_mode: bool) -> None:
    x = rg.tensor(np.random.default_rng(5).normal(size=(4, 4)), requires_grad=True)
    assert rg.autograd.gradcheck(BY_HAND[name], x, fast_mode=fast_mode, check_forward_ad=True)
    assert rg.autograd.gradgradcheck(BY_HAND[name], x, fast_mode=fast_mode)


def test_every_differentiable_row_is_gradchecked() -> None:
    checked = {row.name for row, _ in (case.values for case in CASES)}
    assert {row.name for row in ROWS if row.gradients} - checked - STRAIGHT_THROUGH == set(BY_HAND)


# --- errors planted in a rule -------------------------------------------------------------------------------------

PLANTED = {
    "sin": lambda x: rg.sin(x),
    "mul": lambda x: x * x.flip(0),
    "cumsum": lambda x: x.cumsum(0) ** 2,
    "gather": lambda x: x.gather(0, rg.tensor([2, 0, 2])) ** 2,
    "matmul": lambda x: rg.outer(x, x) @ x.exp(),
    "linalg.inv": lambda x: rg.linalg.inv(rg.diag(x) + rg.outer(x, x)),
}
LINEAR = ("cumsum", "gather", "matmul")  # forward mode applies the operation itself, not its rule
CHECKS: dict[str, Callable[..., bool]] = {
    "backward": lambda f, x, fast: rg.autograd.gradcheck(f, x, fast_mode=fast, raise_exception=False),
    "forward": lambda f, x, fast: rg.autograd.gradcheck(
        f, x, fast_mode=fast, raise_exception=False, check_forward_ad=True, check_backward_ad=False
    ),
    "second": lambda f, x, fast: rg.autograd.gradgradcheck(f, x, fast_mode=fast, raise_exception=False),
}


def plant(
    monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Change every rule of an operation."""
    op = operations[name]
    node_class = op.node_class  # the class is made on first access, with the rules that the operation has then
    changed = tuple((change(rule), slots) for rule, slots in op.rules)
    monkeypatch.setattr(op, "rules", changed)
    monkeypatch.setattr(node_class, "rules", changed)


def wrong_value(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda g, *values: rule(g, *values) * 1.1


def wrong_second_order(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return the right gradient without its dependence on the operands."""

    def changed(g: Any, *values: Any) -> Any:
        return rule(g, *(value.detach() if isinstance(value, rg.Tensor) else value for value in values))

    return changed


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("name", PLANTED)
def test_gradcheck_catches_a_wrong_rule(name: str, fast_mode: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = rg.tensor([0.6, 1.7, 2.4], dtype=rg.float64, requires_grad=True)
    assert all(check(PLANTED[name], x, fast_mode) for check in CHECKS.values())
    plant(monkeypatch, name, wrong_value)
    assert not CHECKS["backward"](PLANTED[name], x, fast_mode)
    if name not in LINEAR:
        assert not CHECKS["forward"](PLANTED[name], x, fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("name", ["sin", "mul", "matmul", "linalg.inv"])
def test_gradgradcheck_catches_a_wrong_second_derivative(
    name: str, fast_mode: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rg.tensor([0.6, 1.7, 2.4], dtype=rg.float64, requires_grad=True)
    plant(monkeypatch, name, wrong_second_order)
    assert CHECKS["backward"](PLANTED[name], x, fast_mode)
    assert not CHECKS["second"](PLANTED[name], x, fast_mode)


def test_gradcheck_locates_an_error_planted_in_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "sin", lambda rule: lambda g, *values: rule(g, *values) * np.array([1.0, 1.0, 0.5]))
    x = rg.tensor([0.6, 1.0, 2.4], dtype=rg.float64, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"at \[2, 2\], d output 0\[2\] / d input 0\[2\]: numerical -0.737394, analytical"
    ):
        rg.autograd.gradcheck(rg.sin, x)
