"""Losses beyond the rows of the table: extremes, warnings, errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.ops.ctc import NEVER, _any_of
from tests.parity import attempt, check_both_refuse, check_message, parity

F = rg.nn.functional


@parity
def test_binary_cross_entropy_of_probabilities_0_and_1(library: Any) -> Any:
    x = library.tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    losses = library.nn.functional.binary_cross_entropy(x, library.tensor([0.0, 1.0, 1.0, 0.0]), reduction="none")
    losses.sum().backward()
    return losses, x.grad


@parity
def test_binary_cross_entropy_of_extreme_logits(library: Any) -> Any:
    x = library.tensor([-1000.0, -100.0, 100.0, 1000.0], requires_grad=True)
    f = library.nn.functional
    report = []
    for target in (library.zeros(4), library.ones(4)):
        losses = f.binary_cross_entropy_with_logits(x, target, reduction="none")
        weighted = f.binary_cross_entropy_with_logits(x, target, pos_weight=library.tensor([2.0]), reduction="none")
        report += [losses, weighted, *library.autograd.grad((losses + weighted).sum(), x)]
    return report


def test_soft_margin_loss_of_a_large_margin_has_a_finite_gradient() -> None:
    """torch overflows to infinity there, with a NaN gradient."""
    x = rg.tensor([-1000.0, 1000.0], requires_grad=True)
    losses = F.soft_margin_loss(x, rg.ones(2), reduction="none")
    losses.sum().backward()
    assert losses.tolist() == [1000.0, 0.0]
    assert x.grad.tolist() == [-1.0, 0.0]


@parity
def test_gaussian_loss_of_variances_below_eps(library: Any) -> Any:
    var = library.tensor([0.0, 1e-9, 2.0], requires_grad=True)
    loss = library.nn.functional.gaussian_nll_loss(library.ones(3), library.zeros(3), var, eps=0.5, reduction="sum")
    loss.backward()
    return loss, var.grad


@parity
def test_kl_divergence_of_probabilities_0_and_1(library: Any) -> Any:
    """0 log 0 is 0."""
    x = library.tensor([0.25, 0.5, 0.25]).log()
    return library.nn.functional.kl_div(x, library.tensor([0.0, 1.0, 0.0]), reduction="sum")


@parity
def test_weights_of_losses_may_require_grad_under_no_grad(library: Any) -> Any:
    f, x, y = library.nn.functional, library.full((2, 3), 0.25), library.ones(2, 3)
    weight, classes = library.tensor([1.0, 2.0, 3.0], requires_grad=True), library.tensor([0, 2])
    with library.no_grad():
        return [
            f.binary_cross_entropy(x, y, weight),
            f.binary_cross_entropy_with_logits(x, y, weight, pos_weight=weight),
            f.nll_loss(x, classes, weight),
            f.cross_entropy(x, classes, weight),
            f.multi_margin_loss(x, classes, weight=weight),
            f.soft_margin_loss(x, y * weight),
        ]


@parity
def test_gradients_of_losses_at_kinks(library: Any) -> Any:
    f = library.nn.functional
    report = []
    for name, options in (("l1_loss", {}), ("huber_loss", {"delta": 0.5}), ("smooth_l1_loss", {"beta": 0.5})):
        x = library.tensor([-0.5, 0.0, 0.5], requires_grad=True)
        y = library.tensor([0.0, 0.0, 0.0], requires_grad=True)
        getattr(f, name)(x, y, reduction="sum", **options).backward()
        report += [x.grad, y.grad]
    return report


@parity
def test_losses_promote_mixed_dtypes(library: Any) -> Any:
    x, y = library.ones(2), library.zeros(2, dtype=library.float64)
    f = library.nn.functional
    i = library.arange(1, 4)
    return [
        *(getattr(f, name)(x, y) for name in ("mse_loss", "l1_loss", "smooth_l1_loss")),
        f.poisson_nll_loss(library.ones(3, dtype=library.float16), i, full=True, reduction="none").dtype,
        f.poisson_nll_loss(library.ones(3), i.double(), full=True),
        f.margin_ranking_loss(i, i + 1, i, reduction="none"),
        f.margin_ranking_loss(i, i + 1, i, margin=1),
    ]


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
def test_losses_warn_about_broadcasting(name: str) -> None:
    with pytest.warns(UserWarning, match=r"target size .*\[3\].* different to the input size .*\[2, 3\]"):
        loss = getattr(F, name)(rg.zeros(2, 3), rg.ones(3), reduction="none")
    assert loss.shape == (2, 3)


def test_kl_div_with_mean_reduction_warns() -> None:
    with pytest.warns(UserWarning, match="batchmean"):
        F.kl_div(rg.zeros(2), rg.ones(2))


@parity
def test_multilabel_margin_loss_with_repeated_classes(library: Any) -> Any:
    x = library.tensor([[0.1, 0.9, -0.3, 0.4]], requires_grad=True)
    loss = library.nn.functional.multilabel_margin_loss(x, library.tensor([[1, 3, 1, -1]]))
    loss.backward()
    return loss, x.grad


@parity
def test_shapes_of_margin_losses_of_one_sample_or_class(library: Any) -> Any:
    """multi_margin_loss has the shape of the targets, multilabel_margin_loss that of the samples."""
    f, report = library.nn.functional, []
    for reduction in ("none", "mean", "sum"):
        for shape, targets in (((), ()), ((), (1,)), ((1,), ()), ((1,), (1,)), ((3,), ()), ((3,), (1,)), ((1, 3), ())):
            target = library.zeros(targets, dtype=library.int64)
            for loss in (f.multi_margin_loss, f.multilabel_margin_loss):
                x = library.full(shape, 0.3, requires_grad=True)
                value = attempt(functools.partial(loss, x, target, reduction=reduction))
                if not isinstance(value, str):
                    value.sum().backward()
                    report += [value.shape, x.grad]
                report.append(value)
    return report


def test_triplet_loss_with_a_user_defined_distance() -> None:
    def distance(x: rg.Tensor, y: rg.Tensor) -> rg.Tensor:
        return (x - y).abs().sum(-1)

    a, b, c = rg.zeros(2, 3), rg.ones(2, 3), rg.full((2, 3), 0.5)
    loss = F.triplet_margin_with_distance_loss(a, b, c, distance_function=distance)
    assert loss.item() == 2.5  # 1 + 3 - 1.5


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "mse integers": lambda L, F: F.mse_loss(L.ones(2).long(), L.ones(2).long()),
    "mse shapes": lambda L, F: F.mse_loss(L.ones(2), L.ones(3)),
    "mse weight": lambda L, F: F.mse_loss(L.ones(2), L.ones(2), weight=L.ones(3)),
    "mse reduction": lambda L, F: F.mse_loss(L.ones(2), L.ones(2), reduction="average"),
    "huber delta": lambda L, F: F.huber_loss(L.ones(2), L.ones(2), delta=0.0),
    "smooth beta": lambda L, F: F.smooth_l1_loss(L.ones(2), L.ones(2), beta=-1.0),
    "bce no probability": lambda L, F: F.binary_cross_entropy(L.tensor([1.5]), L.ones(1)),
    "bce NaN": lambda L, F: F.binary_cross_entropy(L.tensor([float("nan")]), L.ones(1)),
    "bce target": lambda L, F: F.binary_cross_entropy(L.tensor([0.5, 0.5]), L.tensor([1.0, 2.0])),
    "bce negative target": lambda L, F: F.binary_cross_entropy(L.tensor([0.5]), L.tensor([-0.1])),
    "bce NaN target": lambda L, F: F.binary_cross_entropy(L.tensor([0.5]), L.tensor([float("nan")])),
    "bce shapes": lambda L, F: F.binary_cross_entropy(L.ones(2), L.ones(1)),
    "bce dtype": lambda L, F: F.binary_cross_entropy(L.ones(2), L.ones(2).long()),
    "bce weight": lambda L, F: F.binary_cross_entropy(L.ones(2), L.ones(2), L.ones(2, requires_grad=True)),
    "logits shapes": lambda L, F: F.binary_cross_entropy_with_logits(L.ones(2), L.ones(1)),
    "logits dtype": lambda L, F: F.binary_cross_entropy_with_logits(L.ones(2), L.ones(2).long()),
    "logits pos_weight": lambda L, F: F.binary_cross_entropy_with_logits(
        L.ones(2), L.ones(2), pos_weight=L.ones(2, requires_grad=True)
    ),
    "kl reduction": lambda L, F: F.kl_div(L.ones(2), L.ones(2), reduction="average"),
    "poisson reduction": lambda L, F: F.poisson_nll_loss(L.ones(2), L.ones(2), reduction="average"),
    "gaussian negative": lambda L, F: F.gaussian_nll_loss(L.ones(2), L.ones(2), -L.ones(2)),
    "gaussian number": lambda L, F: F.gaussian_nll_loss(L.ones(2), L.ones(2), -1.0),
    "gaussian shape": lambda L, F: F.gaussian_nll_loss(L.ones(2, 3), L.ones(2, 3), L.ones(3)),
    "gaussian reduction": lambda L, F: F.gaussian_nll_loss(L.ones(2), L.ones(2), L.ones(2), reduction="average"),
    "soft margin pairs": lambda L, F: F.soft_margin_loss(L.ones(3, 1), L.ones(3)),
    "soft margin batch": lambda L, F: F.soft_margin_loss(L.ones(3), L.ones(2, 3)),
    "margin classes": lambda L, F: F.multi_margin_loss(L.ones(2, 3), L.tensor([0, 3])),
    "margin batch": lambda L, F: F.multi_margin_loss(L.ones(2, 3), L.tensor([0])),
    "margin power": lambda L, F: F.multi_margin_loss(L.ones(2, 3), L.tensor([0, 1]), p=3),
    "margin weight": lambda L, F: F.multi_margin_loss(L.ones(2, 3), L.tensor([0, 1]), weight=L.ones(2)),
    "multilabel shape": lambda L, F: F.multilabel_margin_loss(L.ones(2, 3), L.tensor([[0, 1], [1, 2]])),
    "multilabel classes": lambda L, F: F.multilabel_margin_loss(L.ones(1, 3), L.tensor([[0, 1, 3]])),
    "multilabel dtype": lambda L, F: F.multilabel_margin_loss(L.ones(1, 3), L.ones(1, 3)),
    "cosine": lambda L, F: F.cosine_embedding_loss(L.ones(2, 3), L.ones(2, 3), L.ones(2, 1)),
    "ranking": lambda L, F: F.margin_ranking_loss(L.ones(2, 3), L.ones(3), L.ones(2, 3)),
    "triplet dimensions": lambda L, F: F.triplet_margin_loss(L.ones(2, 3), L.ones(2, 3), L.ones(3)),
    "triplet margin": lambda L, F: F.triplet_margin_loss(L.ones(2, 3), L.ones(2, 3), L.ones(2, 3), margin=0.0),
    "ctc blank": lambda L, F: F.ctc_loss(L.zeros(4, 1, 3), L.tensor([[1]]), [4], [1], blank=3),
    "ctc frames": lambda L, F: F.ctc_loss(L.zeros(4, 1, 3), L.tensor([[1]]), [5], [1]),
    "ctc labels": lambda L, F: F.ctc_loss(L.zeros(4, 1, 3), L.tensor([[1]]), [4], [2]),
    "ctc joined": lambda L, F: F.ctc_loss(L.zeros(4, 2, 3), L.tensor([1, 2, 1]), [4, 4], [1, 1]),
    "ctc lengths that are no integers": lambda L, F: F.ctc_loss(
        L.zeros(4, 1, 3), L.tensor([[1]]), L.tensor([4.0]), L.tensor([1])
    ),
    "ctc dimensions": lambda L, F: F.ctc_loss(L.zeros(4), L.tensor([[1]]), [4], [1]),
    "ctc batch": lambda L, F: F.ctc_loss(L.zeros(4, 1, 3), L.tensor([[1], [1]]), [4], [1]),
    "nll of a number": lambda L, F: F.nll_loss(L.tensor(1.0), L.tensor(0)),
    "ctc lengths": lambda L, F: F.ctc_loss(L.zeros(4, 2, 3), L.tensor([[1], [2]]), [4], [1, 1]),
}


@pytest.mark.filterwarnings("ignore:.*target size:UserWarning")
@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_arguments_of_losses_are_refused(mistake: str) -> None:
    check_both_refuse(lambda library: WRONG[mistake](library, library.nn.functional))


def test_losses_refuse_lists() -> None:
    """torch fails when it calls ``size()`` on it."""
    assert attempt(lambda: F.mse_loss([1.0], rg.ones(1))) == "raises TypeError"  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:.*target size:UserWarning")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: F.binary_cross_entropy(rg.tensor([0.5, -2.0]), rg.ones(2)), ["-2.0", "with_logits"]),
        (lambda: F.binary_cross_entropy(rg.tensor([0.5, 0.5]), rg.tensor([0.0, 255.0])), ["target", "255.0"]),
        (lambda: F.binary_cross_entropy(rg.ones(2), rg.ones(3)), ["[3]", "[2]"]),
        (
            lambda: F.binary_cross_entropy(rg.ones(2, 3), rg.ones(2, 3), rg.ones(4)),
            ["entropy: weight", "[4]", "[2, 3]"],
        ),
        (
            lambda: F.binary_cross_entropy_with_logits(rg.ones(2, 3), rg.ones(2, 3), pos_weight=rg.ones(2)),
            ["binary_cross_entropy_with_logits: pos_weight", "[2]", "[2, 3]"],
        ),
        (lambda: F.mse_loss(rg.ones(2, 3), rg.ones(2)), ["tensor a (3)", "tensor b (2)", "in mse_loss", "[2, 3]"]),
        (lambda: F.cosine_similarity(rg.ones(2, 3), rg.ones(2, 4)), ["dimension 1", "in cosine_similarity", "[2, 4]"]),
        (lambda: F.gaussian_nll_loss(rg.ones(2), rg.ones(2), -rg.ones(2)), ["negative", "-1.0"]),
        (lambda: F.soft_margin_loss(rg.ones(3, 1), rg.ones(3)), ["target", "[3]", "[3, 1]", "reshape"]),
        (lambda: F.multi_margin_loss(rg.ones(2, 3), rg.tensor([0, 3])), ["3", "3 classes"]),
        (lambda: F.ctc_loss(rg.zeros(4, 1, 3), rg.tensor([[5]]), [4], [1]), ["out of range: 5", "3 classes"]),
        (lambda: F.ctc_loss(rg.zeros(4, 1, 3), rg.tensor([[1]]), [5], [1]), ["input_lengths", "at most 4", "5"]),
    ],
)
def test_errors_of_losses_say_what_was_wrong(call: Callable[[], Any], words: list[str]) -> None:
    check_message(call, words)


@pytest.mark.parametrize("name", ["MSELoss", "L1Loss", "HuberLoss", "SmoothL1Loss", "KLDivLoss", "CrossEntropyLoss"])
def test_constructing_a_loss_with_tensors_is_refused(name: str) -> None:
    """They would become options, and the user would call ``backward`` on a module."""
    with pytest.raises(TypeError, match=rf"create the loss first, then call it, {name}\(\)\(input, target\)"):
        getattr(rg.nn, name)(rg.ones(3), rg.ones(3))


def test_positional_size_average_must_be_a_bool() -> None:
    with pytest.raises(TypeError, match="size_average must be a bool, not 'sum'; say reduction='sum'"):
        F.mse_loss(rg.ones(3), rg.zeros(3), "sum")
    with pytest.raises(TypeError, match=r"size_average must be a bool, but got a tensor of shape \[3\]"):
        F.mse_loss(rg.ones(3), rg.zeros(3), rg.ones(3))


# --- sequences --------------------------------------------------------------------------------------------------------


def random_sequences(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    frames, count, classes, longest = rng.integers(1, 8), rng.integers(1, 4), rng.integers(2, 5), rng.integers(1, 4)
    blank = int(rng.integers(0, classes))
    targets = rng.integers(0, classes - 1, (count, longest))
    targets[targets >= blank] += 1
    lengths = rng.integers(0, frames + 1, count), rng.integers(0, longest + 1, count)
    return rng.normal(size=(frames, count, classes)), targets, *lengths, blank


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_ctc_loss_of_random_sequences(seed: int, zero_infinity: bool) -> None:
    """Including no frames, no labels, and too few frames for the labels."""
    logits, *rest, blank = random_sequences(seed)
    results = []
    for library in (torch, rg):
        x = library.tensor(logits, requires_grad=True)
        log_probs = library.log_softmax(x, 2)
        arguments = [library.tensor(each) for each in rest]
        losses = library.nn.functional.ctc_loss(
            log_probs, *arguments, blank=blank, reduction="none", zero_infinity=zero_infinity
        )
        weights = library.tensor(np.arange(1.0, 1 + len(rest[0])))
        gradients = library.autograd.grad((losses * weights).sum(), (log_probs, x))
        results.append([losses.detach().numpy(), *(each.numpy() for each in gradients)])
    for theirs, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


def test_ctc_loss_is_twice_differentiable() -> None:
    x = rg.randn(6, 2, 4, dtype=rg.float64, requires_grad=True)

    def loss(x: rg.Tensor) -> rg.Tensor:
        return F.ctc_loss(rg.log_softmax(x, 2), rg.tensor([[1, 2], [3, 3]]), [6, 5], [2, 1])

    assert rg.autograd.gradcheck(loss, x)
    assert rg.autograd.gradgradcheck(loss, x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_sum_of_ctc_probabilities_that_may_be_zero(dtype: str) -> None:
    values = np.array([0, -1, -30, -700, 2, NEVER, 2 * NEVER, -np.inf], dtype)
    parts = np.array(np.meshgrid(values, values, values)).reshape(3, 32, 16)
    with np.errstate(all="raise", under="ignore"):  # a floating-point flag would be reported as a birth
        ours = _any_of(*parts)
    expected = np.logaddexp(np.logaddexp(parts[0], parts[1]), parts[2])
    np.testing.assert_allclose(np.maximum(ours, NEVER), np.maximum(expected, NEVER), rtol=3e-7, atol=3e-7)


def test_ctc_loss_of_classes_without_probability() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 16, 6)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = -np.inf
    targets, target_lengths, lengths = rng.integers(1, 6, (16, 9)), rng.integers(0, 10, 16), rng.integers(20, 41, 16)
    found = []
    for library in (rg, torch):
        leaf = library.tensor(x, requires_grad=True)
        log_probs = library.log_softmax(leaf, -1)
        losses = library.nn.functional.ctc_loss(
            log_probs, *map(library.tensor, (targets, lengths, target_lengths)), reduction="none", zero_infinity=True
        )
        losses.sum().backward()
        found.append((losses.detach().numpy(), leaf.grad.numpy()))
    (losses, gradient), (expected, expected_gradient) = found
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert np.isfinite(gradient).all()  # torch's gradient is NaN in frames where a label is impossible
    known = np.isfinite(expected_gradient)
    np.testing.assert_allclose(gradient[known], expected_gradient[known], rtol=1e-4, atol=1e-5)
