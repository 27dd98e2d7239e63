"""Embeddings beyond the rows of the table: norms, frequencies, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.ops import _positions, embedding
from tests.parity import attempt, check_both_refuse, check_message, parity

F = rg.nn.functional


@parity
def test_max_norm_scales_rows_in_place(library: Any) -> Any:
    report = []
    for norm_type in (2.0, 1.0):
        weight = library.arange(12.0).reshape(4, 3).requires_grad_()
        version = weight._version
        result = library.nn.functional.embedding(library.tensor([1, 3, 1]), weight, max_norm=2.0, norm_type=norm_type)
        result.sum().backward()
        bag = library.nn.functional.embedding_bag(library.tensor([[2, 0]]), weight, max_norm=1.0, mode="sum")
        report += [result, bag, weight, weight.grad, weight._version > version]
    return report


@parity
def test_max_norm_leaves_shorter_rows_alone(library: Any) -> Any:
    weight = library.tensor([[0.5, 0.5]])
    library.nn.functional.embedding(library.tensor([0]), weight, max_norm=2.0)
    return weight


@parity
def test_tangent_of_an_embedding(library: Any) -> Any:
    """Padding and frequencies affect only gradients."""
    ad, report = library.autograd.forward_ad, []
    with ad.dual_level():
        table = ad.make_dual(library.arange(12.0).reshape(4, 3), library.arange(12.0).reshape(4, 3) + 100)
        for options in ({"padding_idx": 1}, {"scale_grad_by_freq": True}):
            rows = library.nn.functional.embedding(library.tensor([1, 3, 1]), table, **options)
            report.append(ad.unpack_dual(rows).tangent.clone())
    return report


@parity
def test_embedding_bag_from_pretrained(library: Any) -> Any:
    table, bags = library.arange(12.0).reshape(4, 3), library.tensor([[0, 3], [1, 1]])
    frozen = library.nn.EmbeddingBag.from_pretrained(table)
    other = library.nn.EmbeddingBag.from_pretrained(table, freeze=False, mode="sum", padding_idx=-1, max_norm=5.0)
    other(bags).sum().backward()
    return [
        frozen(bags),
        frozen.weight.requires_grad,
        other(bags),
        other.weight.grad,
        repr(frozen),
        repr(other),
        attempt(lambda: library.nn.EmbeddingBag.from_pretrained(library.ones(3))),
    ]


def test_scale_grad_by_freq_of_bags_agrees_with_embeddings() -> None:
    """torch divides by the frequencies of other rows."""
    weight = rg.randn(5, 3, dtype=rg.float64, requires_grad=True)
    indices = rg.tensor([4, 3, 2, 1, 1, 0, 0, 0])
    bags = F.embedding_bag(indices, weight, rg.tensor([0, 3, 3]), mode="sum", scale_grad_by_freq=True)
    rows = F.embedding(indices, weight, scale_grad_by_freq=True)
    factors = rg.tensor([[1.0], [2.0], [3.0]], dtype=rg.float64)
    (got,) = rg.autograd.grad((bags * factors).sum(), weight)
    (expected,) = rg.autograd.grad((rows * factors[rg.tensor([0] * 3 + [2] * 5)]).sum(), weight)
    np.testing.assert_allclose(got.numpy(), expected.numpy())


@parity
def test_empty_bags(library: Any) -> Any:
    weight = library.ones(5, 3)
    none = library.zeros(0, dtype=library.int64)
    return [
        library.nn.functional.embedding_bag(none, weight, library.tensor([0, 0]), mode=mode)
        for mode in ("sum", "mean", "max")
    ]


@parity
def test_max_bag_picks_the_first_of_equal_rows(library: Any) -> Any:
    weight = library.zeros(4, 2, requires_grad=True)
    library.nn.functional.embedding_bag(library.tensor([[3, 1, 2]]), weight, mode="max").sum().backward()
    return weight.grad


@parity
def test_padding_row_gets_no_gradient_even_if_infinite(library: Any) -> Any:
    weight = library.zeros(3, 1, requires_grad=True)
    rows = library.nn.functional.embedding(library.tensor([0, 1]), weight, padding_idx=0)
    rows.backward(library.tensor([[float("inf")], [1.0]]))
    return weight.grad


@parity
def test_padding_is_left_out_of_bags_even_if_infinite(library: Any) -> Any:
    report = []
    for mode in ("sum", "mean", "max"):
        weight = library.tensor([[1.0, 2.0], [3.0, -4.0], [float("inf"), float("nan")]], requires_grad=True)
        weights = library.tensor([[0.5, 2.0], [3.0, 1.0]], requires_grad=True)
        options = {"per_sample_weights": weights} if mode == "sum" else {}
        bags = library.nn.functional.embedding_bag(
            library.tensor([[0, 2], [2, 1]]), weight, mode=mode, padding_idx=2, **options
        )
        (bags * library.tensor([1.0, 3.0])).sum().backward()
        report += [bags, weight.grad[:2], weights.grad]
    return report


@pytest.mark.parametrize("block", [1, 500, 1 << 16])
@pytest.mark.parametrize("width", [3, 64])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("bags", ["alike", "of all lengths", "padded"])
def test_many_bags_agree_with_torch(
    bags: str, mode: str, width: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_positions, "_MANY", 1 << 10)
    monkeypatch.setattr(embedding, "_BLOCK", block)
    rng = np.random.default_rng(0)
    table = rng.integers(-9, 9, (20, width)).astype(np.float32)  # with ties
    if mode != "max":  # torch's max mode returns NaN only if NaN comes first
        table[7, 1] = np.nan
    if bags == "of all lengths":
        lengths = rng.permutation(np.repeat([0, 1, 2, 3, 60], [4, 20, 30, 2, 1]))
        arguments = {"input": rng.integers(0, 20, lengths.sum()), "offsets": np.cumsum(lengths) - lengths}
    else:
        arguments = {"input": rng.integers(0, 20, (40, 5))}
    options = {"padding_idx": 7} if bags == "padded" else {}
    results = []
    for library in (rg, torch):
        weight = library.tensor(table, requires_grad=True)
        given = {name: library.tensor(value) for name, value in arguments.items()}
        result = library.nn.functional.embedding_bag(weight=weight, mode=mode, **given, **options)
        result.backward(library.tensor(np.arange(result.numel()).reshape(result.shape) % 7 + np.float32(0)))
        results.append((result.detach().numpy(), weight.grad.numpy()))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_nan_is_the_maximum_of_a_bag() -> None:
    table = rg.tensor([[1.0, 5.0], [np.nan, 2.0], [3.0, np.nan], [np.nan, 4.0]])
    bags = F.embedding_bag(rg.tensor([[0, 1, 3], [0, 2, 0]]), table.requires_grad_(), mode="max")
    np.testing.assert_array_equal(bags.detach().numpy(), [[np.nan, 5.0], [3.0, np.nan]])
    bags.backward(rg.ones(2, 2))
    assert table.grad.tolist() == [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]  # the first NaN


def test_embedding_bag_with_no_bags() -> None:
    for options in (
        {"offsets": rg.tensor([], dtype=rg.int64)},
        {"offsets": rg.tensor([0]), "include_last_offset": True},
    ):
        for mode in ("sum", "mean", "max"):
            bags = F.embedding_bag(rg.tensor([1, 2]), rg.ones(5, 3), mode=mode, **options)
            assert bags.shape == (0, 3)


@parity
def test_one_hot(library: Any) -> Any:
    f = library.nn.functional
    return f.one_hot(library.tensor([[0, 2], [1, 1]])), f.one_hot(library.tensor(1), 4)


def table(library: Any) -> Any:
    return library.ones(5, 3)


def indices(library: Any, *values: int) -> Any:
    return library.tensor(values)


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "too large": lambda L, F: F.embedding(indices(L, 5), table(L)),
    "negative": lambda L, F: F.embedding(indices(L, -1), table(L)),
    "floats": lambda L, F: F.embedding(L.ones(2), table(L)),
    "bytes": lambda L, F: F.embedding(L.ones(2, dtype=L.uint8), table(L)),
    "vector": lambda L, F: F.embedding(indices(L, 0), L.ones(3)),
    "padding": lambda L, F: F.embedding(indices(L, 0), table(L), padding_idx=5),
    "bag of floats": lambda L, F: F.embedding_bag(L.ones(2), table(L), indices(L, 0)),
    "bag too large": lambda L, F: F.embedding_bag(indices(L, 1, 5), table(L), indices(L, 0)),
    "bag negative": lambda L, F: F.embedding_bag(indices(L, 1, -1), table(L), indices(L, 0)),
    "first offset": lambda L, F: F.embedding_bag(indices(L, 1, 2), table(L), indices(L, 1)),
    "last offset": lambda L, F: F.embedding_bag(indices(L, 1, 2), table(L), indices(L, 0, 3)),
    "no offsets": lambda L, F: F.embedding_bag(indices(L, 1, 2), table(L)),
    "offsets of a matrix": lambda L, F: F.embedding_bag(indices(L, 1, 2).reshape(1, 2), table(L), indices(L, 0)),
    "mode": lambda L, F: F.embedding_bag(indices(L, 1, 2), table(L), indices(L, 0), mode="median"),
    "max by frequency": lambda L, F: F.embedding_bag(
        indices(L, 1, 2), table(L), indices(L, 0), mode="max", scale_grad_by_freq=True
    ),
    "weights of a mean": lambda L, F: F.embedding_bag(
        indices(L, 1, 2), table(L), indices(L, 0), mode="mean", per_sample_weights=L.ones(2)
    ),
    "shape of weights": lambda L, F: F.embedding_bag(
        indices(L, 1, 2), table(L), indices(L, 0), mode="sum", per_sample_weights=L.ones(3)
    ),
    "class too large": lambda L, F: F.one_hot(indices(L, 0, 2), 2),
    "class negative": lambda L, F: F.one_hot(indices(L, 0, -2)),
    "classes of floats": lambda L, F: F.one_hot(L.ones(2)),
    "no classes": lambda L, F: F.one_hot(L.zeros(0, dtype=L.int64)),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_arguments_of_embeddings_are_refused(mistake: str) -> None:
    check_both_refuse(lambda library: WRONG[mistake](library, library.nn.functional))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: F.embedding(rg.tensor([1, 7]), rg.ones(5, 3)), ["out of range", "7", "5 rows"]),
        (lambda: F.embedding(rg.tensor([1.0]), rg.ones(5, 3)), ["float32", ".long()"]),
        (lambda: F.embedding_bag(rg.tensor([1, 7]), rg.ones(5, 3), rg.tensor([0])), ["7", "5 rows"]),
        (lambda: F.embedding_bag(rg.tensor([1, 2, 3]), rg.ones(5, 3), rg.tensor([0, 2, 1])), ["1 follows 2", "bag 1"]),
        (
            lambda: F.embedding_bag(rg.tensor([1, 2]), rg.ones(5, 3), rg.tensor([0, -1])),
            ["-1 follows 0", "offset of bag 0"],
        ),
        (lambda: F.one_hot(rg.tensor([1, 7]), 3), ["smaller than num_classes, 3", "7"]),
    ],
)
def test_errors_of_embeddings_say_what_was_wrong(call: Callable[[], Any], words: list[str]) -> None:
    check_message(call, words)
