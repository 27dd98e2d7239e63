"""Rows of the losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from tests.ops.harness import FLOATS, Make, Row, Sample, call

functional = torch.nn.functional
HALF = ("float16", *FLOATS)
REDUCTIONS = ("mean", "sum", "none")


def loss(name: str, samples: Callable[[Make], Iterator[Sample]], **more: Any) -> Row:
    settings: dict[str, Any] = {"torch": getattr(functional, name), "method": False, **more}
    return Row(name, samples, **settings)


def reduced(*samples: Sample) -> Iterator[Sample]:
    """Return every sample with every reduction."""
    for sample in samples:
        for reduction in REDUCTIONS:
            yield call(*sample.args, **sample.kwargs, reduction=reduction)


# --- of classes -------------------------------------------------------------------------------------------------------


def class_samples(make: Make, logits: Callable[..., np.ndarray]) -> Iterator[Sample]:
    weight = make.positive(4)
    with_ignored = make.integers(6, high=4)
    with_ignored[2] = -100
    yield from reduced(
        call(logits(5, 4), make.integers(5, high=4)),
        call(logits(6, 4), with_ignored),
        call(logits(6, 4), make.integers(6, high=4), ignore_index=1),
        call(logits(6, 4), make.integers(6, high=4), weight, ignore_index=2),
        call(logits(4), make.integers(1, high=4).reshape(())),
        call(logits(2, 4, 3), make.integers(2, 3, high=4), weight),
        call(logits(2, 4, 3, 2), make.integers(2, 3, 2, high=4), ignore_index=0),
        call(logits(4, 5).T, make.integers(5, high=4)),
        call(logits(5, 8)[:, ::2], make.integers(5, high=4).astype(np.uint8)),
        call(logits(3, 40), make.integers(3, high=40)),
        call(logits(40, 3).T, make.integers(3, high=40), make.positive(40)),
    )
    yield call(logits(0, 4), make.integers(0), reduction="sum")
    yield call(logits(0, 4), make.integers(0), reduction="none")


def probabilities(make: Make, *shape: int) -> np.ndarray:
    values = make.positive(*shape)
    return (values / values.sum(min(1, len(shape) - 1), keepdims=True)).astype(make.dtype)


def cross_entropy_samples(make: Make) -> Iterator[Sample]:
    yield from class_samples(make, make.normal)
    weight = make.positive(4)
    ignored = make.integers(6, high=4)
    ignored[2] = -100
    yield from reduced(
        call(make.normal(5, 4), probabilities(make, 5, 4)),
        call(make.normal(5, 4), probabilities(make, 5, 4), weight, label_smoothing=0.2),
        call(make.normal(4), probabilities(make, 4)),
        call(make.normal(2, 4, 3), probabilities(make, 2, 4, 3)),
        call(make.normal(6, 4), ignored, label_smoothing=0.1),
        call(make.normal(6, 4), ignored, weight, label_smoothing=0.1),
        call(make.normal(2, 4, 3), make.integers(2, 3, high=4), weight, label_smoothing=0.3),
        call(make.normal(4), make.integers(1, high=4).reshape(()), label_smoothing=0.3),
    )


def nll_samples(make: Make) -> Iterator[Sample]:
    yield from class_samples(make, make.normal)


def margin_samples(make: Make) -> Iterator[Sample]:
    yield from reduced(
        call(make.normal(5, 4), make.integers(5, high=4)),
        call(make.normal(5, 4), make.integers(5, high=4), p=2, margin=0.5),
        call(make.normal(5, 4), make.integers(5, high=4), weight=make.positive(4)),
        call(make.normal(4), make.integers(1, high=4).reshape(())),
    )


def multilabel_samples(make: Make) -> Iterator[Sample]:
    yield from reduced(
        call(make.normal(3, 4), np.array([[3, 0, -1, 1], [0, 1, 2, 3], [-1, 2, 1, 0]])),
        call(make.normal(4), np.array([2, -1, 0, 1])),
        call(make.normal(1, 4), np.array([[2, 2, -1, 1]])),
    )


# --- of numbers -------------------------------------------------------------------------------------------------------


def regression(*options: dict[str, Any], weight: bool = True) -> Callable[[Make], Iterator[Sample]]:
    def samples(make: Make) -> Iterator[Sample]:
        yield from reduced(
            *(call(make.normal(3, 4), make.normal(3, 4), **chosen) for chosen in ({}, *options)),
            call(make.normal(4, 3).T, make.normal(3, 8)[:, ::2]),
            call(np.asarray(make.normal()), np.asarray(make.normal())),
            call(make.normal(3, 4), make.normal(4)),
        )
        yield call(make.normal(0, 3), make.normal(0, 3), reduction="sum")
        if weight:
            yield from reduced(call(make.normal(3, 4), make.normal(3, 4), weight=make.positive(3, 4)))

    return samples


def bce_samples(make: Make) -> Iterator[Sample]:
    yield from reduced(
        call(make.uniform(3, 4), make.uniform(3, 4)),
        call(make.uniform(3, 4), make.uniform(3, 4), make.positive(4)),
        call(make.uniform(4, 3).T, make.uniform(3, 4)),
    )


def bce_logits_samples(make: Make) -> Iterator[Sample]:
    yield from reduced(
        call(make.normal(3, 4), make.uniform(3, 4)),
        call(make.normal(3, 4, scale=40), make.uniform(3, 4)),
        call(make.normal(3, 4), make.uniform(3, 4), weight=make.positive(4)),
        call(make.normal(3, 4), make.uniform(3, 4), pos_weight=make.positive(4)),
        call(make.normal(3, 4), make.uniform(3, 4), weight=make.positive(3, 1), pos_weight=make.positive(4)),
    )


def kl_samples(make: Make) -> Iterator[Sample]:
    for log_target in (False, True):
        for reduction in (*REDUCTIONS, "batchmean"):
            target = make.normal(3, 4) if log_target else make.uniform(3, 4)
            yield call(make.normal(3, 4), target, log_target=log_target, reduction=reduction)
    yield call(make.normal(4), make.uniform(3, 4), reduction="sum")


def poisson_samples(make: Make) -> Iterator[Sample]:
    yield from reduced(
        call(make.normal(3, 4), make.positive(3, 4)),
        call(make.positive(3, 4), make.positive(3, 4), log_input=False),
        call(make.normal(3, 4), make.positive(3, 4), full=True),
        call(make.positive(3, 4), make.positive(3, 4), log_input=False, full=True, eps=0.1),
    )


def gaussian_samples(make: Make) -> Iterator[Sample]:
    yield from reduced(
        call(make.normal(3, 4), make.normal(3, 4), make.positive(3, 4)),
        call(make.normal(3, 4), make.normal(3, 4), make.positive(3), full=True),
        call(make.normal(3, 4), make.normal(3, 4), make.positive(3, 1), eps=1.0),
        call(make.normal(3, 4), make.normal(3, 4), 0.5),
    )


# --- of signs and distances -------------------------------------------------------------------------------------------


def signs(make: Make, *shape: int) -> np.ndarray:
    return np.where(make.mask(*shape), 1, -1).astype(make.dtype)


def of_signs(*options: dict[str, Any]) -> Callable[[Make], Iterator[Sample]]:
    def samples(make: Make) -> Iterator[Sample]:
        yield from reduced(*(call(make.normal(3, 4), signs(make, 3, 4), **chosen) for chosen in ({}, *options)))

    return samples


def multilabel_soft_samples(make: Make) -> Iterator[Sample]:
    right = make.mask(3, 4).astype(make.dtype)
    yield from reduced(
        call(make.normal(3, 4), right),
        call(make.normal(3, 4), right, make.positive(4)),
        call(make.normal(4), right[0]),
    )


def cosine_samples(make: Make) -> Iterator[Sample]:
    yield from reduced(
        call(make.normal(3, 4), make.normal(3, 4), signs(make, 3)),
        call(make.normal(3, 4), make.normal(3, 4), signs(make, 3), margin=0.2),
        call(make.normal(4), make.normal(4), np.array(-1, make.dtype)),
    )


def ranking_samples(make: Make) -> Iterator[Sample]:
    yield from reduced(
        call(make.normal(5), make.normal(5), signs(make, 5)),
        call(make.normal(3, 4), make.normal(1, 4), signs(make, 3, 1), margin=0.5),
    )


def triplets(*options: dict[str, Any]) -> Callable[[Make], Iterator[Sample]]:
    def samples(make: Make) -> Iterator[Sample]:
        for chosen in ({}, *options):
            yield from reduced(call(make.normal(3, 4), make.normal(3, 4), make.normal(3, 4), **chosen))
        yield from reduced(call(make.normal(4), make.normal(4), make.normal(4)))

    return samples


# --- of sequences -----------------------------------------------------------------------------------------------------


def ctc_samples(make: Make) -> Iterator[Sample]:
    targets = np.array([[1, 2, 3], [2, 2, 1]])
    lengths = np.array([6, 5]), np.array([3, 2])
    yield from reduced(
        call(make.normal(6, 2, 4), targets, *lengths),
        call(make.normal(6, 2, 4), targets - 1, *lengths, blank=3),
        call(make.normal(6, 2, 4), np.array([1, 2, 3, 2, 2]), *lengths),
        call(make.normal(6, 2, 4), targets, np.array([6, 2]), lengths[1], zero_infinity=True),
        call(make.normal(6, 4), np.array([1, 1]), np.array(6), np.array(2)),
        call(make.normal(6, 2, 4), targets, np.array([4, 6]), np.array([0, 1])),
    )


ROWS = [
    loss("cross_entropy", cross_entropy_samples, dtypes=HALF, grad_args=(0, 1)),
    loss("nll_loss", nll_samples, grad_args=(0,)),
    loss("multi_margin_loss", margin_samples, grad_args=(0,), second=False),
    loss("multilabel_margin_loss", multilabel_samples, second=False),
    loss("mse_loss", regression(), dtypes=HALF),
    loss("l1_loss", regression()),
    loss("huber_loss", regression({"delta": 0.3})),
    loss("smooth_l1_loss", regression({"beta": 0.3}, {"beta": 0.0}, weight=False)),
    loss("binary_cross_entropy", bce_samples, grad_args=(0, 1)),
    loss("binary_cross_entropy_with_logits", bce_logits_samples, grad_args=(0, 1)),
    loss("kl_div", kl_samples),
    loss("poisson_nll_loss", poisson_samples),
    loss("gaussian_nll_loss", gaussian_samples),
    loss("soft_margin_loss", of_signs(), grad_args=(0,)),
    loss("hinge_embedding_loss", of_signs({"margin": 0.3}), grad_args=(0,)),
    loss("multilabel_soft_margin_loss", multilabel_soft_samples, grad_args=(0, 2)),
    loss("cosine_embedding_loss", cosine_samples, grad_args=(0, 1)),
    loss("margin_ranking_loss", ranking_samples),
    loss("triplet_margin_loss", triplets({"p": 3.0, "margin": 2.0}, {"swap": True})),
    loss("triplet_margin_with_distance_loss", triplets({"swap": True, "margin": 0.5})),
    loss("ctc_loss", ctc_samples, second=False, numeric=False),
]
