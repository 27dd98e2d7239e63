"""Messages of gradcheck about wrong derivatives: where, by how much, and the likely cause."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd._gradcheck_modes import SEED, direction
from tests.autograd.wrong_functions import wrong_functions

f = wrong_functions(rg)


def real(*values: float) -> rg.Tensor:
    return rg.tensor(list(values), dtype=rg.float64, requires_grad=True)


def report(check: Any, *args: Any, **options: Any) -> str:
    with pytest.raises(RuntimeError) as error:
        check(*args, **options)
    assert type(error.value).__name__ == "GradcheckError"
    return str(error.value)


def gradcheck_report(*args: Any, **options: Any) -> str:
    return report(rg.autograd.gradcheck, *args, **options)


def test_report_shows_both_jacobians() -> None:
    text = gradcheck_report(lambda x: x.detach() * x, real(2.0, 3.0))
    expected = (
        "Jacobian mismatch for output 0 with respect to input 0,\n"
        "numerical:tensor([[4.0000, 0.0000],\n        [0.0000, 6.0000]], dtype=retrograd.float64)\n"
        "analytical:tensor([[2., 0.],\n        [0., 3.]], dtype=retrograd.float64)\n"
    )
    assert text.startswith(expected)


def test_report_numbers_inputs_and_outputs_as_in_the_call() -> None:
    """Arguments and results that are not differentiated count, too."""

    def function(n: int, a: rg.Tensor, x: rg.Tensor) -> Any:
        return a > 1, a * n, x * 2, f.Factor.apply(x)

    assert "for output 3 with respect to input 2," in gradcheck_report(function, (3, rg.ones(2), real(1.0, 2.0)))


def test_report_locates_the_largest_difference() -> None:
    """The wrong entry is located in the Jacobian, in the input and in the output."""
    weight = rg.tensor(np.arange(6.0).reshape(2, 3))

    def function(x: rg.Tensor) -> rg.Tensor:
        out = (x * weight).sum(1)
        return out + rg.stack([out[0] * 0, x[1, 2].detach() * 0.5])

    text = gradcheck_report(function, rg.ones((2, 3), dtype=rg.float64, requires_grad=True))
    (line,) = re.findall(r"Largest difference.*", text)
    place = "Largest difference: 0.5 at [5, 1], d output 0[1] / d input 0[1, 2]: numerical 5.5, analytical 5."
    assert line == place
    assert "1 of 12 entries differ by more than is allowed (0.00551 there, with atol=1e-05 and rtol=0.001)." in text


def test_report_ignores_larger_differences_within_tolerance() -> None:
    """A larger difference within the relative tolerance is not the culprit."""

    class AlmostRight(f.Square):  # type: ignore[misc, name-defined]
        @staticmethod
        def backward(ctx: Any, grad: rg.Tensor) -> rg.Tensor:
            (x,) = ctx.saved_tensors
            return grad * (2 * x + rg.tensor([0.5, 0.1]))

    text = gradcheck_report(AlmostRight.apply, real(1e3, 1.0))
    assert "Largest difference: 0.1 at [1, 1]" in text


def test_report_locates_differences_of_scalars() -> None:
    assert "d output 0 / d input 0: numerical 4, analytical 4.2." in gradcheck_report(
        f.Factor.apply, rg.tensor(2.0, dtype=rg.float64, requires_grad=True)
    )


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (lambda x: f.Factor.apply(x), "The analytical Jacobian is 1.05 times the numerical one throughout"),
        (lambda x: -f.Factor.apply(x), "The analytical Jacobian is 1.05 times the numerical one throughout"),
        (lambda x: x * 2 - x.detach(), "The analytical Jacobian is 2 times the numerical one throughout"),
        (lambda x: f.Missing.apply(x), "The analytical Jacobian is zero"),
        (lambda x: (x - 0.7).relu(), "its slope is 0 from below and 1 from above"),
        (lambda x: (x - 0.7) ** -1, "func is not finite there: output 0[0] is inf; it is -1e+06 a step of 1e-06 below"),
        (lambda x: x + rg.rand(2, dtype=rg.float64), "func is not deterministic"),
    ],
)
def test_report_suggests_the_likely_cause(function: Any, hint: str) -> None:
    assert hint in gradcheck_report(function, real(0.7, 1.9))


@pytest.mark.parametrize("part", ["imaginary", "real"])
def test_report_suggests_a_missing_conjugate(part: str) -> None:
    z = rg.tensor([1 + 2j, 3 - 1j], dtype=rg.complex128, requires_grad=True)
    take = (lambda out: out) if part == "imaginary" else (lambda out: out.real)
    text = gradcheck_report(lambda z: take(f.NoConj.apply(z)), z)
    assert text.startswith("While considering the imaginary part of complex outputs only, ") == (part == "imaginary")
    assert "a conj() is missing" in text


def test_report_mentions_inputs_that_share_memory() -> None:
    base = rg.tensor([1.0, 2.0, 3.0], dtype=rg.float64)
    first, second = base[:2].requires_grad_(), base[1:].requires_grad_()
    assert "Inputs 0 and 1 share memory" in gradcheck_report(lambda a, b: a * b, (first, second))


def test_report_mentions_low_precision() -> None:
    with pytest.warns(UserWarning, match="Input #0"):
        text = gradcheck_report(lambda x: x * x, rg.tensor([1.0, 2.0], requires_grad=True))
    assert "Input 0 is retrograd.float32 and output 0 retrograd.float32, too coarse for eps=1e-06." in text


def test_fast_mode_report_shows_the_whole_jacobian() -> None:
    text = gradcheck_report(lambda x: x.detach() * x, real(2.0, 3.0), fast_mode=True)
    assert text.startswith(gradcheck_report(lambda x: x.detach() * x, real(2.0, 3.0)))
    assert re.search(r"a random projection of this Jacobian gave numerical .*, analytical", text)


def test_fast_mode_report_says_if_slow_mode_would_pass() -> None:
    """Every entry is off by almost the tolerance, with signs that add up in the projection."""
    a = rg.tensor(np.random.default_rng(1).normal(size=40), requires_grad=True)
    rng = np.random.default_rng(SEED)
    u, v = direction(rng, a), direction(rng, a)
    matrix = np.random.default_rng(2).normal(size=(40, 40))
    almost = matrix + 0.9e-3 * np.abs(matrix) * np.sign(np.outer(v, u))

    class AlmostWrong(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: rg.Tensor) -> rg.Tensor:
            return rg.tensor(matrix) @ x

        @staticmethod
        def backward(ctx: Any, grad: rg.Tensor) -> rg.Tensor:
            return rg.tensor(almost).T @ grad

    assert rg.autograd.gradcheck(AlmostWrong.apply, a, atol=1e-8)
    text = gradcheck_report(AlmostWrong.apply, a, atol=1e-8, fast_mode=True)
    assert text.startswith("Jacobian mismatch for output 0 with respect to input 0,\nnumerical:")
    assert "Fast gradcheck failed but element-wise differences are small" in text


def test_gradgradcheck_report_explains_the_second_derivative() -> None:
    text = report(rg.autograd.gradgradcheck, lambda n, x, y: x * n + f.SecondOrder.apply(y), (2, real(1.0), real(3.0)))
    assert "for output 1 with respect to input 2," in text
    assert "output 1 is the gradient of func with respect to its input 2, input 2 is input 2 of func." in text


def test_gradgradcheck_report_mentions_grad_outputs() -> None:
    class Detaches(f.Double):  # type: ignore[misc, name-defined]
        @staticmethod
        def backward(ctx: Any, grad: rg.Tensor) -> rg.Tensor:
            return grad * grad.detach() / grad.detach() + 0 * grad + grad.detach()

    text = report(rg.autograd.gradgradcheck, Detaches.apply, real(1.0))
    assert "output 0 is the gradient of func with respect to its input 0, input 1 is grad_outputs[0]." in text


def test_report_suggests_no_grad_if_no_output_requires_grad() -> None:
    with rg.no_grad():
        text = gradcheck_report(lambda x, y: x + y, (real(1.0), real(2.0)))
    assert text.startswith("Numerical gradient for function expected to be zero\n")
    assert "output 0 changes with input 0 (slope 1). Was it computed under no_grad" in text


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (f.Stateful, "The gradient of output 0 with respect to input 0 differed by "),
        (f.NonzeroForZeros, "The gradient of input 0 is not zero for output gradients of zero."),
        (f.NonzeroForUndefined, "The gradient of input 0 is not zero although no gradient reached output 0."),
        (f.RaisesForUndefined, "It raised RuntimeError: no gradient came"),
        (f.OneUndefined, "although no gradient reached output 0."),
    ],
)
def test_reports_about_stateful_and_undefined_gradients_say_where(function: Any, words: str) -> None:
    assert words in gradcheck_report(function.apply, real(0.5, 1.5))


def test_report_about_wrong_gradient_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine restores dtypes, so the check can fail only with a patched engine."""
    grad = rg.autograd.grad

    def careless(*args: Any, **options: Any) -> tuple[Any, ...]:
        return tuple(None if g is None else g.to(rg.float32) for g in grad(*args, **options))

    monkeypatch.setattr(rg.autograd, "grad", careless)
    assert rg.autograd.gradcheck(lambda x: x * 2, real(1.0))
    text = gradcheck_report(lambda x: x * 2, real(1.0), check_grad_dtypes=True)
    assert text.startswith(
        "Gradient has dtype mismatch: the gradient of output 0 with respect to input 0 is retrograd.float32"
    )


def test_report_about_wrong_batched_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    grad = rg.autograd.grad

    def mixes(*args: Any, is_grads_batched: bool = False, **options: Any) -> tuple[Any, ...]:
        found = grad(*args, is_grads_batched=is_grads_batched, **options)
        return tuple(g.flip(0) for g in found) if is_grads_batched else found

    monkeypatch.setattr(rg.autograd, "grad", mixes)
    text = gradcheck_report(lambda x: x * x, real(1.0, 2.0), check_batched_grad=True)
    assert text.startswith("For output 0 and input 0: batched gradients differ from those computed one at a time")


def test_report_about_batched_gradients_that_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    grad = rg.autograd.grad

    def refuses(*args: Any, is_grads_batched: bool = False, **options: Any) -> tuple[Any, ...]:
        if is_grads_batched:
            raise RuntimeError("not this one")
        return grad(*args, **options)

    monkeypatch.setattr(rg.autograd, "grad", refuses)
    text = gradcheck_report(lambda x: x * x, real(1.0, 2.0), check_batched_grad=True)
    assert text.startswith("While computing batched gradients, got: not this one")


def test_report_about_wrong_batched_tangents(monkeypatch: pytest.MonkeyPatch) -> None:
    import retrograd.vectorize

    vmap = retrograd.vectorize.vmap

    def mixes(function: Any) -> Any:
        return lambda batch: tuple(out.flip(0) for out in vmap(function)(batch))

    monkeypatch.setattr(retrograd.vectorize, "vmap", mixes)
    options = {"check_forward_ad": True, "check_batched_forward_grad": True}
    text = gradcheck_report(lambda x: x * x, real(1.0, 2.0), **options)
    assert text.startswith("For output 0 and input 0: batched tangents differ from those computed one at a time")


def test_report_about_a_jvp_that_branches_on_values() -> None:
    def branches(x: rg.Tensor) -> rg.Tensor:
        return x * 2 if x.sum() > 0 else x

    class Branches(f.Double):  # type: ignore[misc, name-defined]
        @staticmethod
        def jvp(ctx: Any, tangent: rg.Tensor) -> rg.Tensor:
            return tangent * 2 if tangent.sum().item() > -1e9 else tangent

    options = {"check_forward_ad": True, "check_batched_forward_grad": True}
    assert rg.autograd.gradcheck(branches, real(1.0, 2.0), **options)
    text = gradcheck_report(Branches.apply, real(1.0, 2.0), **options)
    assert text.startswith("While computing batched gradients, got: ")
