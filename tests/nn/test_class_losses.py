"""Cross entropy and negative log likelihood beyond the rows of the table: extremes, errors, memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from tests.parity import attempt, check_both_refuse, check_message, parity

F = rg.nn.functional


@given(st.integers(1, 6), st.integers(1, 40), st.integers(0, 10_000), st.booleans())
def test_cross_entropy_computes_its_formula(samples: int, classes: int, seed: int, transposed: bool) -> None:
    """log(sum(exp(x))) - x[target] and its gradient, for few and many classes, in both memory orders."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(samples, classes), scale=5)
    logits = np.asfortranarray(logits) if transposed else logits
    target = rng.integers(0, classes, samples)
    x = rg.tensor(logits, requires_grad=True)
    losses = F.cross_entropy(x, rg.tensor(target), reduction="none")
    exponentials = np.exp(logits)
    expected = np.log(exponentials.sum(1)) - logits[np.arange(samples), target]
    np.testing.assert_allclose(losses.detach().numpy(), expected, atol=1e-11)
    weights = rng.normal(size=samples)
    losses.backward(rg.tensor(weights))
    one_hot = target[:, None] == np.arange(classes)
    softmax = exponentials / exponentials.sum(1, keepdims=True)
    np.testing.assert_allclose(x.grad.numpy(), (softmax - one_hot) * weights[:, None], atol=1e-11)


@pytest.mark.parametrize("classes", [4, 40])
@pytest.mark.parametrize("offset", [0.0, 1e4, -1e4])
def test_cross_entropy_stays_accurate_with_a_large_offset(classes: int, offset: float) -> None:
    rng = np.random.default_rng(0)
    logits = (rng.normal(size=(5, classes)) * 8).round() / 8  # exact, even with the offset
    target = rng.integers(0, classes, 5)
    results = []
    for x in (rg.tensor(logits, dtype=rg.float64), rg.tensor(logits + offset, dtype=rg.float32)):
        loss = F.cross_entropy(x.requires_grad_(), rg.tensor(target))
        loss.backward()
        results.append((loss.item(), x.grad.numpy()))
    (exact, exact_gradient), (loss, gradient) = results
    assert loss == pytest.approx(exact, rel=1e-6)
    np.testing.assert_allclose(gradient, exact_gradient, atol=1e-7)


INF = float("inf")


def _extreme_program(width: int) -> Callable[[Any], Any]:
    def program(library: Any) -> Any:
        report = []
        for row in ([0.0, -INF, 1.0], [200.0, 0.0, -200.0], [-INF, -INF, -INF], [INF, 0.0, 0.0]):
            for target in range(3):
                x = library.tensor([row + [-INF] * (width - 3)], requires_grad=True)
                loss = library.nn.functional.cross_entropy(x, library.tensor([target]))
                loss.backward()
                report += [[repr(round(value, 4)) for value in (loss.item(), *x.grad[0].tolist())]]
        return report

    return program


@pytest.mark.parametrize("width", [3, 20])
def test_cross_entropy_of_infinite_logits(width: int) -> None:
    parity(_extreme_program(width))()


@parity
def test_ignored_targets_do_not_affect_the_loss(library: Any) -> Any:
    x = library.tensor([[1.0, INF], [0.5, 0.25], [2.0, 1.0]])
    target = library.tensor([-100, 1, -100])
    report = []
    for reduction in ("mean", "sum", "none"):
        log_probs = x.clone().requires_grad_()
        loss = library.nn.functional.nll_loss(log_probs, target, reduction=reduction)
        loss.sum().backward()
        report += [loss, log_probs.grad]
    return report


@parity
def test_nan_gradients_do_not_reach_ignored_samples(library: Any) -> Any:
    report = []
    target, weight = library.tensor([-100, 1, -100]), library.tensor([1.0, 2.0])
    for name in ("nll_loss", "cross_entropy"):
        for reduction in ("mean", "sum", "none"):
            for options in ({}, {"weight": weight}):
                for create_graph in (False, True):
                    x = library.tensor([[1.0, 3.0], [0.5, 0.25], [2.0, 1.0]], requires_grad=True)
                    loss = getattr(library.nn.functional, name)(x, target, reduction=reduction, **options)
                    arriving = library.full_like(loss, math.nan)
                    (gradient,) = library.autograd.grad(loss, x, arriving, create_graph=create_graph)
                    report += [gradient.isnan(), gradient.nan_to_num()]
    return report


@parity
def test_all_targets_ignored(library: Any) -> Any:
    x, target = library.zeros(2, 3), library.full((2,), 7)
    reports = [
        library.nn.functional.cross_entropy(x, target, ignore_index=7, reduction=reduction)
        for reduction in ("mean", "sum", "none")
    ]
    return [repr(report.tolist()) for report in reports]


@parity
def test_cross_entropy_with_no_classes(library: Any) -> Any:
    report = []
    for shape in ((5, 0), (0, 0), (2, 0, 3)):
        for smoothing in (0.0, 0.1):
            for reduction in ("none", "mean", "sum"):
                x = library.zeros(shape, requires_grad=True)
                loss = library.nn.functional.cross_entropy(
                    x, library.zeros(shape), reduction=reduction, label_smoothing=smoothing
                )
                loss.sum().backward()
                report += [loss.isnan(), loss.nan_to_num(), x.grad]
    return report


@parity
def test_class_losses_with_no_classes_and_all_targets_ignored(library: Any) -> Any:
    report = []
    for shape, targets in (((2, 0), (2,)), ((0,), ()), ((0, 0), (0,)), ((2, 0, 0), (2, 0)), ((0, 3), (0,))):
        target = library.full(targets, -100)
        for name in ("nll_loss", "cross_entropy"):
            for reduction in ("none", "mean", "sum"):
                x = library.zeros(shape, requires_grad=True)
                loss = getattr(library.nn.functional, name)(x, target, reduction=reduction)
                loss.sum().backward()
                report += [loss.shape, loss.isnan(), loss.nan_to_num(), x.grad.shape]
    return report


def test_cross_entropy_with_retain_graph() -> None:
    x = rg.randn(5, 3, requires_grad=True)
    loss = F.cross_entropy(x, rg.tensor([0, 1, 2, 0, 1]))
    loss.backward(retain_graph=True)
    first = x.grad.clone()
    loss.backward()
    assert (x.grad == 2 * first).all()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


@parity
def test_writing_to_targets_before_backward_is_noticed(library: Any) -> Any:
    def of(change: Callable[[Any, Any], Any]) -> Any:
        x, target = library.zeros(2, 3, requires_grad=True) * 1, library.tensor([0, 1])
        loss = library.nn.functional.nll_loss(x, target)
        change(x, target)
        return attempt(lambda: loss.backward() is None)

    return of(lambda x, target: target.add_(1)), of(lambda x, target: None)


def test_gradient_of_cross_entropy_is_contiguous() -> None:
    x = rg.randn(5, 3, requires_grad=True)
    F.cross_entropy(x, rg.tensor([0, 1, 2, 0, 1])).backward()
    assert x.grad.is_contiguous()


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "too large": lambda L, f: f(L.zeros(2, 3), L.tensor([0, 3])),
    "negative": lambda L, f: f(L.zeros(2, 3), L.tensor([0, -1])),
    "negative, many classes": lambda L, f: f(L.zeros(2, 300), L.tensor([0, -1])),
    "floats": lambda L, f: f(L.zeros(2, 3), L.tensor([0.0, 1.0])),
    "int32": lambda L, f: f(L.zeros(2, 3), L.tensor([0, 1], dtype=L.int32)),
    "too few": lambda L, f: f(L.zeros(2, 3), L.tensor([0])),
    "a matrix": lambda L, f: f(L.zeros(2, 3), L.tensor([[0], [1]])),
    "spatial": lambda L, f: f(L.zeros(2, 3, 4), L.zeros(2, 5, dtype=L.int64)),
    "integer input": lambda L, f: f(L.zeros(2, 3, dtype=L.int64), L.tensor([0, 1])),
    "weights": lambda L, f: f(L.zeros(2, 3), L.tensor([0, 1]), L.ones(2)),
    "dtype of weights": lambda L, f: f(L.zeros(2, 3), L.tensor([0, 1]), L.ones(3, dtype=L.float64)),
    "weights with grad": lambda L, f: f(L.zeros(2, 3), L.tensor([0, 1]), L.ones(3, requires_grad=True)),
    "reduction": lambda L, f: f(L.zeros(2, 3), L.tensor([0, 1]), reduction="average"),
    "no tensor": lambda L, f: f([[0.0, 1.0]], L.tensor([0])),
    "no target": lambda L, f: f(L.zeros(2, 3), [0, 1]),
}


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_arguments_of_class_losses_are_refused(name: str, mistake: str) -> None:
    check_both_refuse(lambda library: WRONG[mistake](library, getattr(library.nn.functional, name)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: F.cross_entropy(rg.zeros(2, 3), rg.tensor([0, 3])), ["Target 3 is out of bounds", "3 classes"]),
        (lambda: F.cross_entropy(rg.zeros(2, 3), rg.tensor([0])), ["batch_size (2)", "[2, 3]", "[1]"]),
        (lambda: F.cross_entropy(rg.zeros(2, 3), rg.ones(2)), ["float32", ".long()", "[2, 3]"]),
        (lambda: F.cross_entropy(rg.zeros(2, 3), rg.ones(2, 3).long()), ["floating point", "int64", "[2]"]),
        (lambda: F.nll_loss(rg.zeros(2, 3, 4), rg.ones(2, 3).long()), ["[2, 4]", "[2, 3]", "[2, 3, 4]"]),
        (lambda: F.cross_entropy(rg.zeros(2, 3), rg.tensor([0, 1]), label_smoothing=2), ["between 0.0 and 1.0", "2"]),
    ],
)
def test_errors_of_class_losses_say_what_was_wrong(call: Callable[[], Any], words: list[str]) -> None:
    check_message(call, words)


@parity
def test_size_average_and_reduce(library: Any) -> Any:
    x, target = library.tensor([[0.0, 1.0], [2.0, 1.0]]), library.tensor([0, 1])
    f = library.nn.functional
    return f.cross_entropy(x, target, size_average=False), f.nll_loss(x, target, reduce=False)


def test_size_average_warns() -> None:
    """The warning points to the caller's line."""
    x, target = rg.zeros(2, 3), rg.tensor([0, 1])
    for use in (
        lambda: F.cross_entropy(x, target, size_average=False),
        lambda: F.multi_margin_loss(x, target, size_average=False),
        lambda: rg.nn.NLLLoss(size_average=False),
    ):
        with pytest.warns(UserWarning, match="reduction='sum'") as caught:
            use()
        assert caught[0].filename == __file__
