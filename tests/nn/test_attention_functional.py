"""Scaled dot-product attention, compared with torch's formula: masks, blocks, dropout, second derivatives, memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.core import blocks
from retrograd.ops import attention
from tests.parity import check_both_refuse, check_message, parity

attend = rg.nn.functional.scaled_dot_product_attention


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


MASK = np.random.default_rng(0).random((4, 4)) < 0.6
MASK[0], MASK[1] = True, False  # one query attends to everything, one to nothing
FAINT = np.zeros((5, 9))
FAINT[1], FAINT[3] = np.finfo(np.float64).min, -1e17

Shape = tuple[int, ...]
SAME: tuple[Shape, Shape, Shape] = ((2, 3, 4, 8),) * 3
CASES: dict[str, tuple[tuple[Shape, Shape, Shape], np.ndarray | None, dict[str, Any]]] = {
    "plain": (((2, 3, 4, 8), (2, 3, 5, 8), (2, 3, 5, 6)), None, {}),
    "no batch": (((4, 8), (5, 8), (5, 6)), None, {"scale": 0.3}),
    "one head": (((2, 4, 8), (2, 5, 8), (2, 5, 6)), None, {}),
    "broadcast": (((2, 3, 4, 8), (1, 3, 5, 8), (1, 3, 5, 6)), None, {}),
    "causal": (((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8)), None, {"is_causal": True}),
    "causal, few keys": (((2, 3, 6, 8), (2, 3, 4, 8), (2, 3, 4, 8)), None, {"is_causal": True}),
    "booleans": (SAME, MASK, {}),
    "booleans per head": (SAME, np.random.default_rng(1).random((2, 3, 4, 4)) < 0.7, {}),
    "numbers": (SAME, normal(4, 4), {}),
    "numbers per head": (SAME, normal(3, 1, 4), {}),
    "numbers per query": (SAME, normal(2, 1, 4, 1), {}),
    "minus infinity": (SAME, np.where(MASK, 0.0, -np.inf), {}),
    "shared heads": (((2, 6, 4, 8), (2, 3, 4, 8), (2, 3, 4, 8)), None, {"enable_gqa": True}),
    # rows masked entirely, by the smallest number or a very negative one, are averaged
    "rows masked by numbers": (((2, 5, 4), (2, 9, 4), (2, 9, 4)), FAINT, {}),
    "a mask of one dimension": (((4, 8), (4, 8), (4, 8)), normal(4), {}),
}


def run(library: Any, case: str, second: bool) -> list[np.ndarray]:
    """Return the result, its gradients, and the gradients of a norm of these."""
    shapes, mask, options = CASES[case]
    leaves = [library.tensor(normal(*shape, seed=k), requires_grad=True) for k, shape in enumerate(shapes)]
    given = None
    if mask is not None:
        given = library.tensor(mask)
        if mask.dtype.kind == "f" and np.isfinite(mask).all():
            leaves.append(given.requires_grad_())
    result = library.nn.functional.scaled_dot_product_attention(*leaves[:3], given, **options)
    loss = (result * library.tensor(normal(*result.shape, seed=9))).sum()
    gradients = library.autograd.grad(loss, leaves, create_graph=second)
    found = [result, *gradients]
    if second:
        found += library.autograd.grad(sum((g * g).sum() for g in gradients), leaves)
    return [each.detach().numpy() for each in found]


def plainly(case: str, second: bool) -> list[np.ndarray]:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return run(torch, case, second)


@pytest.mark.parametrize("block", [1 << 15, 120, 48, 24, 1])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("case", CASES)
def test_attention_in_blocks_and_threads(case: str, block: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks hold everything, some samples, some heads, some queries, or one query."""
    monkeypatch.setattr(attention, "BLOCK", block)
    monkeypatch.setattr(attention, "LARGE", 1)
    monkeypatch.setattr(blocks, "get_num_threads", lambda: threads)
    for ours, theirs in zip(run(rg, case, False), plainly(case, False), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("case", [case for case in CASES if case != "minus infinity"])
def test_second_derivatives_of_attention(case: str) -> None:
    for ours, theirs in zip(run(rg, case, True), plainly(case, True), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9)


@parity
def test_attention_without_keys_is_zero(library: Any) -> Any:
    q, k, v = library.ones(2, 8), library.ones(0, 8), library.ones(0, 3)
    return library.nn.functional.scaled_dot_product_attention(q, k, v)


@parity
def test_large_attention_scores_do_not_overflow(library: Any) -> Any:
    q = library.tensor([[1e4, 0.0], [0.0, 1e4]], requires_grad=True)
    result = library.nn.functional.scaled_dot_product_attention(q, q * 1, library.eye(2))
    result.sum().backward()
    return result, q.grad


def test_attention_in_half_precision() -> None:
    arrays = [normal(2, 4, 8, seed=k).astype(np.float16) for k in range(3)]
    theirs = torch.nn.functional.scaled_dot_product_attention(*map(torch.tensor, arrays))
    ours = attend(*map(rg.tensor, arrays))
    assert ours.dtype == rg.float16
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=2e-3)


# --- dropout ----------------------------------------------------------------------------------------------------------


def test_attention_dropout_keeps_the_expectation() -> None:
    rg.manual_seed(0)
    q, k, v = rg.zeros(2000, 1, 4), rg.zeros(2000, 10, 4), rg.ones(2000, 10, 1)
    result = attend(q, k, v, dropout_p=0.5).flatten()
    assert abs(result.mean().item() - 1) < 0.03  # 4 standard errors
    assert abs(result.var().item() - 0.1) < 0.02


@pytest.mark.parametrize("block", [1 << 15, 60, 1])
def test_attention_backward_drops_the_same_weights(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "BLOCK", block)
    monkeypatch.setattr(attention, "LARGE", 1)
    q, k, v = (rg.randn(2, 3, 4, dtype=rg.float64, requires_grad=True) for _ in range(3))

    def function(*operands: rg.Tensor) -> rg.Tensor:
        rg.manual_seed(5)
        return attend(*operands, dropout_p=0.4)

    assert rg.autograd.gradcheck(function, (q, k, v))
    assert rg.autograd.gradgradcheck(function, (q, k, v))


def test_attention_dropout_follows_the_generator() -> None:
    def draw(seed: int) -> rg.Tensor:
        rg.manual_seed(seed)
        return attend(rg.ones(4, 2), rg.ones(5, 2), rg.eye(5), dropout_p=0.5)

    assert (draw(1) == draw(1)).all()
    assert (draw(1) != draw(2)).any()
    assert not attend(rg.ones(4, 2), rg.ones(5, 2), rg.eye(5), dropout_p=1.0).any()


# --- memory -----------------------------------------------------------------------------------------------------------


def test_attention_never_holds_all_scores_at_once() -> None:
    length = 2048
    q, k, v = (rg.randn(1, length, 8, requires_grad=True) for _ in range(3))
    tracemalloc.start()
    try:
        attend(q, k, v, is_causal=True).sum().backward()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < length * length  # a quarter of all scores


# --- errors -----------------------------------------------------------------------------------------------------------

Call = Callable[[Any, Any], Any]
WRONG: dict[str, Call] = {
    "width": lambda L, f: f(L.ones(4, 8), L.ones(5, 7), L.ones(5, 6)),
    "dtypes": lambda L, f: f(L.ones(4, 8), L.ones(5, 8), L.ones(5, 6, dtype=L.float64)),
    "integers": lambda L, f: f(*[L.ones(4, 8).long()] * 3),
    "vectors": lambda L, f: f(L.ones(8), L.ones(8), L.ones(8)),
    "mask dtype": lambda L, f: f(L.ones(4, 8), L.ones(5, 8), L.ones(5, 6), L.ones(4, 5).long()),
    "mask of doubles": lambda L, f: f(L.ones(4, 8), L.ones(5, 8), L.ones(5, 6), L.ones(4, 5, dtype=L.float64)),
    "mask shape": lambda L, f: f(L.ones(4, 8), L.ones(5, 8), L.ones(5, 6), L.ones(3, 5)),
    "probability": lambda L, f: f(L.ones(4, 8), L.ones(5, 8), L.ones(5, 6), dropout_p=1.5),
    "heads": lambda L, f: f(L.ones(1, 5, 4, 8), L.ones(1, 3, 4, 8), L.ones(1, 3, 4, 8), enable_gqa=True),
    "no tensor": lambda L, f: f([[1.0]], L.ones(1, 1), L.ones(1, 1)),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_arguments_of_attention_are_refused(mistake: str) -> None:
    check_both_refuse(lambda library: WRONG[mistake](library, library.nn.functional.scaled_dot_product_attention))


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("width", ["[4, 8]", "[5, 7]", "same last dimension"]),
        ("mask dtype", ["retrograd.int64", "retrograd.float32", "with .bool()"]),
        ("mask of doubles", ["retrograd.float64", "retrograd.float32", "with .to(query.dtype)"]),
        ("mask shape", ["attn_mask [3, 5]", "[4, 5]", "query [4, 8]"]),
        ("heads", ["[1, 5, 4, 8]", "[1, 3, 4, 8]"]),
    ],
)
def test_attention_errors_name_shapes_and_dtypes(mistake: str, words: list[str]) -> None:
    check_message(lambda: WRONG[mistake](rg, attend), words)


# --- births -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "BLOCK", 16)
    monkeypatch.setattr(attention, "LARGE", 1)
    monkeypatch.setattr(blocks, "get_num_threads", lambda: 3)


def with_a_large_last_sample() -> rg.Tensor:
    x = rg.randn(8, 4, 4)
    x[-1] = 1e30
    return x.requires_grad_()


@pytest.mark.usefixtures("several_threads")
@pytest.mark.parametrize("attempt", range(5))
def test_birth_in_any_thread_of_attention_is_found(attempt: int) -> None:
    q, k, v = with_a_large_last_sample(), with_a_large_last_sample(), rg.randn(8, 4, 4)
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch():
        attend(q, k, v).sum().backward()
    assert caught.value.event.op == "scaled_dot_product_attention"


@pytest.mark.usefixtures("several_threads")
@pytest.mark.parametrize("attempt", range(5))
def test_birth_in_any_thread_of_attention_backward_is_found(attempt: int) -> None:
    q, k, v = rg.randn(8, 4, 4, requires_grad=True), rg.randn(8, 4, 4), with_a_large_last_sample()
    with pytest.raises(rg.anomaly.AnomalyError) as caught, rg.anomaly.watch():
        result = attend(q, k, v)
        result.register_hook(lambda g: g * 1e30)
        result.sum().backward()
    assert caught.value.event.op == "ScaledDotProductAttentionBackward0"


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"mask": True}, {"dropout_p": 0.5}, {"width": 3}])
@pytest.mark.parametrize("transposed", [False, True])
def test_attention_result_has_the_layout_of_the_query(transposed: bool, options: dict[str, Any]) -> None:
    """So merging transposed heads needs no copy."""
    layouts = []
    for lib in (rg, torch):
        shape = (2, 6, 4, 5) if transposed else (2, 4, 6, 5)
        q, k = lib.ones(shape), lib.ones(shape)
        v = lib.ones((*shape[:-1], options.get("width", 5)))
        q, k, v = (x.transpose(1, 2) if transposed else x for x in (q, k, v))
        more = {name: options[name] for name in ("is_causal", "dropout_p") if name in options}
        mask = lib.ones(6, 6, dtype=lib.bool) if "mask" in options else None
        layouts.append(lib.nn.functional.scaled_dot_product_attention(q, k, v, mask, **more).stride())
    assert layouts[0] == layouts[1]
