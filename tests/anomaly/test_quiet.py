"""Infinities that are meant, and births that nothing comes of: programs about which a watch has nothing to say."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

import retrograd as rg
from retrograd.demo import load_digits
from tests.test_examples import load

pytestmark = pytest.mark.filterwarnings("ignore:(std|var).* degrees of freedom:UserWarning")

F = rg.nn.functional
INF = float("inf")
PROGRAMS: list[Callable[[], None]] = []


def healthy(program: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS.append(program)
    return program


def leaf(*values: object) -> rg.Tensor:
    return rg.tensor(list(values), requires_grad=True)


def scores() -> rg.Tensor:
    return rg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], requires_grad=True)


CAUSAL = rg.ones(3, 3).triu(1) > 0

# --- masks ------------------------------------------------------------------------------------------------------------


@healthy
def masked_softmax() -> None:
    scores().masked_fill(CAUSAL, -INF).softmax(-1).square().sum().backward()


@healthy
def softmax_with_an_added_mask_of_minus_infinity() -> None:
    mask = rg.zeros(3, 3).masked_fill(CAUSAL, -INF)
    (scores() + mask).softmax(-1).square().sum().backward()


@healthy
def softmax_with_the_log_of_a_mask() -> None:
    mask = rg.log((~CAUSAL).float())
    (scores() + mask).softmax(-1).square().sum().backward()


@healthy
def causal_attention() -> None:
    q, k, v = scores(), scores(), scores()
    weights = (q @ k.T / 3**0.5).masked_fill(CAUSAL, -INF).softmax(-1)
    (weights @ v).sum().backward()


@healthy
def multihead_attention_with_a_causal_mask() -> None:
    attention = rg.nn.MultiheadAttention(4, 2, batch_first=True)
    x = rg.randn(2, 3, 4)
    attention(x, x, x, attn_mask=CAUSAL)[0].sum().backward()


@healthy
def fully_masked_row_that_is_repaired() -> None:
    x = scores()
    mask = rg.tensor([[False, True, True], [True, True, True], [False, False, True]])
    empty = mask.all(-1, keepdim=True)
    weights = x.masked_fill(mask & ~empty, -INF).softmax(-1).masked_fill(empty, 0.0)
    weights.sum().backward()


@healthy
def log_softmax_of_masked_logits_at_a_kept_label() -> None:
    logits = scores().masked_fill(CAUSAL, -INF)
    (-logits.log_softmax(-1)[rg.arange(3), rg.tensor([0, 1, 2])].sum()).backward()


# --- where ------------------------------------------------------------------------------------------------------------


@healthy
def log_of_zero_under_a_double_where() -> None:
    x = leaf(1.0, 0.0)
    safe = rg.where(x > 0, x, 1.0)
    rg.where(x > 0, rg.log(safe), 0.0).sum().backward()


@healthy
def division_by_zero_under_a_double_where() -> None:
    x = leaf(1.0, 0.0)
    rg.where(x == 0, 1.0, rg.sin(x) / rg.where(x == 0, 1.0, x)).sum().backward()


@healthy
def division_by_zero_in_an_unused_branch() -> None:
    x, y = leaf(1.0, 2.0), rg.tensor([1.0, 0.0])
    rg.where(y == 0, x, (x.detach() / y)).sum().backward()


@healthy
def pole_in_a_branch_without_gradient() -> None:
    x = leaf(1.0, 2.0)
    weights = rg.where(rg.tensor([True, False]), 1 / rg.tensor([2.0, 0.0]), 0.0)
    (x * weights).sum().backward()


@healthy
def overflow_brought_back_by_a_reciprocal() -> None:
    x = rg.tensor([1.0, 100.0])
    w = leaf(1.0, 1.0)
    (w / (1 + rg.exp(x))).sum().backward()


@healthy
def nan_to_num_of_a_constant() -> None:
    ratio = (rg.tensor([0.0, 1.0]) / rg.tensor([0.0, 2.0])).nan_to_num(0.0)
    (leaf(1.0, 2.0) * ratio).sum().backward()


@healthy
def clamp_of_infinity() -> None:
    x = rg.tensor([1.0, 0.0])
    (leaf(1.0, 2.0) * rg.log(x).clamp(min=-10.0)).sum().backward()


# --- functions that know their edges ----------------------------------------------------------------------------------


@healthy
def logsumexp_with_minus_infinity() -> None:
    x = leaf(1.0, 2.0, 3.0)
    x.masked_fill(rg.tensor([False, True, False]), -INF).logsumexp(-1).backward()


@healthy
def logaddexp_with_minus_infinity() -> None:
    rg.logaddexp(leaf(1.0), rg.tensor([-INF])).sum().backward()


@healthy
def entropy_by_xlogy() -> None:
    p = rg.tensor([0.5, 0.5, 0.0])
    (leaf(1.0, 2.0, 3.0) * -rg.special.xlogy(p, p)).sum().backward()


@healthy
def entr_at_zero() -> None:
    (leaf(1.0, 2.0) * rg.special.entr(rg.tensor([0.0, 0.5]))).sum().backward()


@healthy
def norm_at_zero() -> None:
    leaf(0.0, 0.0).norm().backward()


@healthy
def normalize_at_zero() -> None:
    x = leaf(0.0, 0.0)
    (x / x.norm().clamp(min=1e-12)).sum().backward()


@healthy
def absolute_value_and_sign_at_zero() -> None:
    x = leaf(0.0, -1.0)
    (x.abs() + rg.sign(x) * x).sum().backward()


@healthy
def power_of_zero() -> None:
    x, p = leaf(0.0, 2.0), leaf(2.0, 3.0)
    (x**p).sum().backward()


@healthy
def product_with_zeros() -> None:
    x = leaf(0.0, 2.0, 0.0)
    (x.prod() + x.cumprod(0).sum()).backward()


@healthy
def sigmoid_and_tanh_far_out() -> None:
    x = leaf(-1000.0, 1000.0)
    (x.sigmoid() + x.tanh() + F.softplus(x) + F.silu(x) + F.gelu(x) + F.elu(x)).sum().backward()


@healthy
def logsigmoid_far_out() -> None:
    F.logsigmoid(leaf(-1000.0, 1000.0)).sum().backward()


@healthy
def relu_of_minus_infinity() -> None:
    x = leaf(1.0, 2.0)
    (x * rg.relu(rg.tensor([1.0, -INF]))).sum().backward()


@healthy
def cosine_of_a_zero_vector() -> None:
    F.cosine_similarity(leaf(0.0, 0.0), rg.tensor([1.0, 2.0]), dim=0).backward()


@healthy
def atan2_at_the_origin() -> None:
    rg.atan2(leaf(1.0), rg.tensor([0.0])).sum().backward()


@healthy
def sinc_at_zero() -> None:
    rg.sinc(leaf(0.0, 1.0)).sum().backward()


# --- infinities as beginnings and ends -------------------------------------------------------------------------------


@healthy
def infinity_as_the_first_minimum() -> None:
    best = rg.tensor([INF])
    for value in (leaf(3.0), leaf(2.0)):
        best = rg.minimum(best, value)
    best.sum().backward()


@healthy
def padding_with_minus_infinity_for_a_maximum() -> None:
    x = leaf(1.0, 5.0, 2.0)
    padded = F.pad(x, (1, 1), value=-INF)
    rg.stack([padded[:-2], padded[1:-1], padded[2:]]).amax(0).sum().backward()


@healthy
def beam_search() -> None:
    logits = leaf([0.1, 0.7, 0.2], [0.3, 0.3, 0.4])
    beams = rg.tensor([0.0, -INF])
    with rg.no_grad():
        for step in range(3):
            candidates = beams.reshape(-1, 1) + logits.log_softmax(-1)[step % 2]
            beams = candidates.reshape(-1).topk(2).values
    assert bool(beams.isfinite().all())
    logits.log_softmax(-1)[0, 1].backward()


@healthy
def forward_algorithm_in_log_space() -> None:
    emissions = scores().log_softmax(-1)
    alpha = rg.tensor([0.0, -INF, -INF])
    for row in emissions:
        stay, move = alpha, rg.cat([rg.tensor([-INF]), alpha[:-1]])
        alpha = rg.logaddexp(stay, move) + row
    (-alpha[-1]).backward()


@healthy
def viterbi() -> None:
    emissions = scores().log_softmax(-1)
    best = rg.tensor([0.0, -INF, -INF])
    for row in emissions:
        best = rg.maximum(best, rg.cat([rg.tensor([-INF]), best[:-1]])) + row
    (-best[-1]).backward()


@healthy
def top_k_sampling() -> None:
    logits = scores()
    with rg.no_grad():
        kept = logits.masked_fill(logits < logits.topk(2, dim=-1).values[:, -1:], -INF)
        rg.multinomial(kept.softmax(-1), 1)
    logits.sum().backward()


# --- looked at, not learned from -------------------------------------------------------------------------------------


@healthy
def statistics_that_are_nan() -> None:
    x = leaf(1.0, 2.0)
    empty = x.detach()[x.detach() > 5]
    assert bool(empty.mean().isnan())
    x.sum().backward()


@healthy
def spread_of_one_element_unused() -> None:
    x = leaf(1.0, 2.0)
    spread = x[:1].var()
    assert bool(spread.isnan())
    x.sum().backward()


@healthy
def perplexity_that_overflows() -> None:
    x = leaf(300.0, 1.0)
    loss = x.square().mean()
    assert float(rg.exp(loss.detach())) == INF
    loss.backward()


@healthy
def accuracy_of_an_empty_class() -> None:
    x = leaf(1.0, 2.0)
    hits, count = rg.zeros(2), rg.tensor([0.0, 2.0])
    with rg.no_grad():
        assert bool((hits / count).isnan().any())
    x.sum().backward()


@healthy
def losses_that_do_not_count() -> None:
    x, weight = leaf(1.0, 0.0), rg.tensor([1.0, 0.0])
    per_sample = -rg.log(x.detach())
    assert bool(per_sample.isinf().any())
    (x * weight).sum().backward()


@healthy
def numpy_beside_it() -> None:
    x = leaf(1.0, 2.0)
    with np.errstate(all="ignore"):
        np.log(np.array([0.0, -1.0]))
    x.sum().backward()


@healthy
def higher_derivatives_of_smooth_functions() -> None:
    x = leaf(0.0, 1.0)
    (slope,) = rg.autograd.grad(x.sigmoid().sum(), x, create_graph=True)
    slope.square().sum().backward()


@healthy
def large_finite_numbers() -> None:
    x = leaf(1e30, 1e-30)
    (x * 1e8).sum().backward()


# --- layers and training ----------------------------------------------------------------------------------------------


@healthy
def transformer_with_padding() -> None:
    layer = rg.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    x, padding = rg.randn(2, 4, 8), rg.tensor([[False] * 4, [False, False, True, True]])
    layer(x, src_key_padding_mask=padding).square().mean().backward()


@healthy
def recurrent_layer() -> None:
    output, _ = rg.nn.LSTM(3, 4)(rg.randn(5, 2, 3))
    output.square().sum().backward()


@healthy
def normalisation_of_a_constant() -> None:
    x = rg.ones(4, 3, requires_grad=True)
    (rg.nn.LayerNorm(3)(x) + rg.nn.BatchNorm1d(3)(x)).square().sum().backward()


@healthy
def dropout() -> None:
    F.dropout(leaf(1.0, 2.0, 3.0, 4.0), 0.5).sum().backward()


@healthy
def half_precision() -> None:
    x = rg.tensor([100.0, 200.0], dtype=rg.float16, requires_grad=True)
    (x / 200).square().sum().backward()


@healthy
def a_scale_that_is_too_large() -> None:
    w = leaf(1.0, 2.0)
    optimizer, scaler = rg.optim.SGD([w], lr=0.1), rg.amp.GradScaler("cpu", init_scale=2.0**20)
    for _ in range(8):
        optimizer.zero_grad()
        scaler.scale(w.half().square().mean()).backward()
        scaler.unscale_(optimizer)
        rg.nn.utils.clip_grad_norm_([w], 1.0)
        scaler.step(optimizer)
        scaler.update()
    assert 1 < scaler.get_scale() < 2.0**20
    assert 0 < w[0].item() < 1


@healthy
def adam_with_gradients_of_zero() -> None:
    x = leaf(1.0, 2.0)
    optimizer = rg.optim.Adam([x], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (x * rg.tensor([1.0, 0.0])).sum().backward()
        optimizer.step()
    assert bool(x.isfinite().all())


@pytest.mark.parametrize("steps", [False, True], ids=["flags", "steps"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_without_harm_has_no_event(program: Callable[[], None], steps: bool) -> None:
    with rg.anomaly.watch() as watch:
        for _ in watch.steps([0]) if steps else [0]:
            program()
    assert watch.events == ()


def test_there_are_at_least_thirty_programs() -> None:
    assert len(PROGRAMS) >= 30


def train_on_digits(example: ModuleType, epochs: int) -> tuple[list[rg.Tensor], int]:
    """The weights after some epochs of the example, and how many steps led there."""
    rg.manual_seed(0)
    rng = np.random.default_rng(0)
    (images, labels), _ = example.split(*load_digits(), rng)
    parameters = example.init_parameters(32)
    velocities = [rg.zeros_like(p) for p in parameters]
    for _ in range(epochs):
        example.train_epoch(parameters, velocities, images, labels, 32, 0.1, rng)
    return parameters, epochs * -(-len(images) // 32)


def test_ten_thousand_steps_on_digits_are_unchanged_and_have_no_event() -> None:
    example = load("digits")
    expected, _ = train_on_digits(example, 223)
    with rg.anomaly.watch() as watch:
        actual, steps = train_on_digits(example, 223)
    assert steps >= 10_000
    assert watch.events == ()
    assert watch.step == steps
    for mine, theirs in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(mine.detach().numpy(), theirs.detach().numpy())


def test_checking_large_gradients_raises_no_flag() -> None:
    """The check squares the gradients, and the squares overflow."""
    weight = rg.ones(3, requires_grad=True)
    with np.errstate(all="raise"), rg.anomaly.watch() as w:
        for _ in range(8):
            weight.grad = None
            (weight * 1e25).sum().backward()
    assert not w.events
