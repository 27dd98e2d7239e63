"""Random tensors have the dtypes, shapes and errors of torch, and the right distributions."""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch
from scipy import stats

import retrograd as rg
from tests.distributions import counts_follow, follows
from tests.outcomes import cases, compare_but_values


@pytest.fixture(autouse=True)
def seeded():
    rg.manual_seed(1234)
    torch.manual_seed(1234)


# --- random tensors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rand", "randn"])
@cases(
    lambda f, lib: f(2, 3),
    lambda f, lib: f((2, 3)),
    lambda f, lib: f(size=[2, 3]),
    lambda f, lib: f(()),
    lambda f, lib: f(0, 3),
    lambda f, lib: f(2, dtype=lib.float16),
    lambda f, lib: f(2, dtype=lib.float64, requires_grad=True),
    lambda f, lib: f(2, dtype=lib.complex64),
    lambda f, lib: f(2, dtype=lib.complex128, device="cpu"),
    lambda f, lib: f(2, generator=lib.Generator()),
    lambda f, lib: f(2, generator=None, layout=lib.strided, pin_memory=False),
    lambda f, lib: f(2, out=lib.zeros(3)),
    lambda f, lib: f(2, out=lib.zeros(2, dtype=lib.float64)),
    lambda f, lib: f(),
    lambda f, lib: f(-1),
    lambda f, lib: f(2, generator=1),
    lambda f, lib: f(2, dtype=lib.int64),
    lambda f, lib: f(2, dtype=lib.bool),
    lambda f, lib: f(2, out=lib.zeros(2, dtype=lib.int64)),
    lambda f, lib: f(2, foo=1),
)
def test_rand_and_randn(name, call):
    compare_but_values(lambda lib: call(getattr(lib, name), lib))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rand_is_uniform(dtype):
    samples = rg.rand(100, 200, dtype=getattr(rg, dtype)).numpy()
    assert 0 <= samples.min() < samples.max() < 1
    # float16 has only 2048 numbers here, so smooth them
    smooth = np.random.default_rng(0).random(samples.shape) / 2048 if dtype == "float16" else 0
    assert follows(samples + smooth, stats.uniform)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_randn_is_normal(dtype):
    samples = rg.randn(100, 200, dtype=getattr(rg, dtype)).numpy().astype(float)
    assert abs(samples.mean()) < 0.03
    assert abs(samples.std() - 1) < 0.03
    assert follows(samples, stats.norm)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_samples(dtype):
    uniform = rg.rand(5000, dtype=getattr(rg, dtype)).numpy()
    normal = rg.randn(5000, dtype=getattr(rg, dtype)).numpy()
    for part in ("real", "imag"):
        assert follows(getattr(uniform, part), stats.uniform)
        assert follows(getattr(normal, part), stats.norm(0, np.sqrt(0.5)))
    assert abs(np.corrcoef(normal.real, normal.imag)[0, 1]) < 0.05


def test_float32_is_drawn_in_float32():
    assert rg.rand(5, generator=rg.Generator().manual_seed(3)).tolist() == (
        np.random.default_rng(np.random.PCG64(3)).random(5, dtype=np.float32).tolist()
    )


def test_float16_never_reaches_one():
    assert rg.rand(200_000, dtype=rg.float16).numpy().max() < 1


@cases(
    lambda lib: lib.randint(5, (2,)),
    lambda lib: lib.randint(1, 5, (2,)),
    lambda lib: lib.randint(high=5, size=(2,)),
    lambda lib: lib.randint(low=2, high=5, size=[2, 3]),
    lambda lib: lib.randint(5, size=(2,)),
    lambda lib: lib.randint(2, 5, size=()),
    lambda lib: lib.randint(5, (2,), dtype=lib.float32, requires_grad=True),
    lambda lib: lib.randint(2, (2,), dtype=lib.bool),
    lambda lib: lib.randint(256, (2,), dtype=lib.uint8),
    lambda lib: lib.randint(-128, 128, (2,), dtype=lib.int8),
    lambda lib: lib.randint(-(2**63), 2**63 - 1, (2,)),
    lambda lib: lib.randint(0, 3000, (2,), dtype=lib.float16),
    lambda lib: lib.randint(0, 2**33, (2,), dtype=lib.float32),
    lambda lib: lib.randint(lib.tensor(5), (2,)),
    lambda lib: lib.randint(5, (2,), generator=lib.Generator()),
    lambda lib: lib.randint(5, (2,), out=lib.zeros(2)),
    lambda lib: lib.randint(5),
    lambda lib: lib.randint(5, 2),
    lambda lib: lib.randint(5.5, (2,)),
    lambda lib: lib.randint(5, 5, (2,)),
    lambda lib: lib.randint(5, 2, (2,)),
    lambda lib: lib.randint(0, (0,)),
    lambda lib: lib.randint(2**63, (2,)),
    lambda lib: lib.randint(5, (2,), dtype=lib.bool),
    lambda lib: lib.randint(300, (2,), dtype=lib.uint8),
    lambda lib: lib.randint(-1, 2, (2,), dtype=lib.uint8),
    lambda lib: lib.randint(0, 70000, (2,), dtype=lib.float16),
    lambda lib: lib.randint(5, (2,), requires_grad=True),
    lambda lib: lib.randint(5, (-2,)),
    lambda lib: lib.randint_like(lib.zeros(2, 3), 5),
    lambda lib: lib.randint_like(lib.zeros(2), 2, 5),
    lambda lib: lib.randint_like(lib.zeros(2), low=2, high=5),
    lambda lib: lib.randint_like(lib.zeros(2), high=5, dtype=lib.int64),
    lambda lib: lib.randint_like(lib.zeros(2), 5, 2),
    lambda lib: lib.randint_like([1], 5),
    lambda lib: lib.rand_like(lib.zeros(2, 3, dtype=lib.float64)),
    lambda lib: lib.rand_like(lib.zeros(2, requires_grad=True)),
    lambda lib: lib.rand_like(lib.zeros(2), dtype=lib.complex64, requires_grad=True),
    lambda lib: lib.rand_like(lib.zeros(2, dtype=lib.int64)),
    lambda lib: lib.rand_like([1]),
    lambda lib: lib.randn_like(lib.zeros(2, dtype=lib.complex64)),
    lambda lib: lib.randn_like(lib.zeros(2), generator=lib.Generator()),
    lambda lib: lib.randperm(5),
    lambda lib: lib.randperm(n=0),
    lambda lib: lib.randperm(5, dtype=lib.float32, requires_grad=True),
    lambda lib: lib.randperm(5, dtype=lib.int8),
    lambda lib: lib.randperm(127, dtype=lib.int8),
    lambda lib: lib.randperm(2049, dtype=lib.float16),
    lambda lib: lib.randperm(5, out=lib.zeros(0)),
    lambda lib: lib.randperm(5, generator=lib.Generator()),
    lambda lib: lib.randperm(-1),
    lambda lib: lib.randperm(5.0),
    lambda lib: lib.randperm(128, dtype=lib.int8),
    lambda lib: lib.randperm(130, dtype=lib.int8),
    lambda lib: lib.randperm(3000, dtype=lib.float16),
    lambda lib: lib.randperm(5, dtype=lib.bool),
    lambda lib: lib.randperm(5, dtype=lib.complex64),
    lambda lib: lib.randperm(5, requires_grad=True),
)
def test_randint_and_like_functions(call):
    compare_but_values(call)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_randint_is_uniform(dtype):
    samples = rg.randint(3, 13, (20000,), dtype=getattr(rg, dtype))
    assert counts_follow(samples.numpy() - 3, np.full(10, 0.1))


def test_like_keeps_the_order_in_memory():
    for name, arguments in (("rand_like", ()), ("randn_like", ()), ("randint_like", (9,))):
        for options in ({}, {"memory_format": "contiguous_format"}):
            strides = [
                getattr(lib, name)(
                    lib.zeros(2, 3).t(), *arguments, **{key: getattr(lib, value) for key, value in options.items()}
                ).stride()
                for lib in (rg, torch)
            ]
            assert strides[0] == strides[1]


def test_randint_beyond_the_precision_warns():
    with pytest.warns(UserWarning, match="float16") as caught:
        rg.randint(0, 3000, (2,), dtype=rg.float16)
    assert len(caught) == 1


def test_randperm_is_a_permutation():
    for dtype in (rg.int64, rg.int16, rg.float32):
        assert sorted(rg.randperm(100, dtype=dtype).tolist()) == list(range(100))
    first = np.array([rg.randperm(5).tolist() for _ in range(5000)])
    for place in range(5):
        assert counts_follow(first[:, place], np.full(5, 0.2))


# --- random operations --------------------------------------------------------------------------------------------


def tensors(lib):
    x = lib.tensor([0.2, 0.5], requires_grad=True)
    return types.SimpleNamespace(x=x, zeros=lib.zeros, ones=lib.ones, g=lib.Generator(), tensor=lib.tensor)


@cases(
    lambda lib, t: lib.normal(t.zeros(2), t.ones(2)),
    lambda lib, t: lib.normal(t.zeros(2)),
    lambda lib, t: lib.normal(t.zeros(2), 1),
    lambda lib, t: lib.normal(t.zeros(2), 0.0),
    lambda lib, t: lib.normal(0, t.ones(2)),
    lambda lib, t: lib.normal(mean=t.zeros(2, 1), std=t.ones(3)),
    lambda lib, t: lib.normal(t.zeros(()), t.ones(())),
    lambda lib, t: lib.normal(t.zeros(0), t.ones(0)),
    lambda lib, t: lib.normal(t.zeros(2), t.ones(2, dtype=lib.float64)),
    lambda lib, t: lib.normal(t.zeros(2, dtype=lib.float64), t.ones(2)),
    lambda lib, t: lib.normal(t.zeros(2, dtype=lib.float16), 1.0),
    lambda lib, t: lib.normal(t.zeros(2, dtype=lib.complex64), t.ones(2)),
    lambda lib, t: lib.normal(t.x, 1.0),
    lambda lib, t: lib.normal(0.0, t.x),
    lambda lib, t: lib.normal(t.x, t.x),
    lambda lib, t: lib.normal(t.zeros(2), 1.0, generator=t.g),
    lambda lib, t: lib.normal(t.zeros(2), 1.0, out=t.zeros(2)),
    lambda lib, t: lib.normal(0.0, 1.0, (2,)),
    lambda lib, t: lib.normal(0, 1, size=(2, 3)),
    lambda lib, t: lib.normal(mean=0, std=1, size=(2,), generator=t.g),
    lambda lib, t: lib.normal(0.0, 1.0, (2,), dtype=lib.float64, requires_grad=True),
    lambda lib, t: lib.normal(0.0, 1.0, (2,), dtype=lib.complex64),
    lambda lib, t: lib.normal(0.0, 1.0, (2,), out=t.zeros(2)),
    lambda lib, t: lib.normal(0, 1),
    lambda lib, t: lib.normal(0.0, 1.0, 2),
    lambda lib, t: lib.normal(t.zeros(2), 1.0, (2,)),
    lambda lib, t: lib.normal(t.zeros(2), 1.0, dtype=lib.float64),
    lambda lib, t: lib.normal(t.zeros(2), t.ones(3)),
    lambda lib, t: lib.normal(t.zeros(2), -1),
    lambda lib, t: lib.normal(t.zeros(2), float("nan")),
    lambda lib, t: lib.normal(t.zeros(2), t.zeros(2) - 1),
    lambda lib, t: lib.normal(0, -1, (2,)),
    lambda lib, t: lib.normal(t.zeros(2, dtype=lib.int64), 1.0),
    lambda lib, t: lib.normal(0.0, t.ones(2, dtype=lib.int64)),
    lambda lib, t: lib.normal(t.zeros(2), t.ones(2, dtype=lib.complex64)),
    lambda lib, t: lib.normal(0.0, 1.0, (2,), dtype=lib.int64),
    lambda lib, t: lib.normal(t.zeros(2), "a"),
    lambda lib, t: lib.normal("a", t.ones(2)),
    lambda lib, t: lib.normal(np.float64(1), t.ones(2)),
    lambda lib, t: lib.normal(t.ones(2), np.float64(1)),
    lambda lib, t: lib.bernoulli(t.zeros(2)),
    lambda lib, t: lib.bernoulli(t.x),
    lambda lib, t: lib.bernoulli(t.zeros(2), 0.5),
    lambda lib, t: lib.bernoulli(t.zeros(2), p=0.5),
    lambda lib, t: lib.bernoulli(t.zeros(2, dtype=lib.int64), p=0.5),
    lambda lib, t: lib.bernoulli(t.zeros(2), generator=t.g),
    lambda lib, t: lib.bernoulli(t.zeros(2), out=t.zeros(2)),
    lambda lib, t: t.x.bernoulli(),
    lambda lib, t: t.x.detach().bernoulli(0.5),
    lambda lib, t: lib.bernoulli(t.ones(2) + 0.5),
    lambda lib, t: lib.bernoulli(t.ones(2) - 1.5),
    lambda lib, t: lib.bernoulli(t.ones(2) * float("nan")),
    lambda lib, t: lib.bernoulli(t.zeros(2, dtype=lib.int64)),
    lambda lib, t: lib.bernoulli(t.zeros(2, dtype=lib.complex64)),
    lambda lib, t: lib.bernoulli(t.zeros(2), p=1.5),
    lambda lib, t: lib.bernoulli(t.zeros(2), p=-0.5),
    lambda lib, t: lib.bernoulli(1.0),
    lambda lib, t: t.zeros(2).bernoulli(t.x),
    lambda lib, t: lib.poisson(t.zeros(2) + 4),
    lambda lib, t: lib.poisson(t.x),
    lambda lib, t: lib.poisson(t.zeros(2, dtype=lib.float16) + 4, t.g),
    lambda lib, t: lib.poisson(t.zeros(()), generator=t.g),
    lambda lib, t: lib.poisson(t.zeros(2) - 4),
    lambda lib, t: lib.poisson(t.zeros(2) * float("nan")),
    lambda lib, t: lib.poisson(t.zeros(2, dtype=lib.int64)),
    lambda lib, t: lib.poisson(t.zeros(2, dtype=lib.complex64)),
    lambda lib, t: lib.binomial(t.zeros(2) + 4, t.zeros(2) + 0.5),
    lambda lib, t: lib.binomial(t.zeros(2, 1) + 4, t.zeros(3) + 0.5),
    lambda lib, t: lib.binomial(t.zeros(2) + 4, 0.5),
    lambda lib, t: lib.binomial(t.zeros(2) + 4, t.zeros(2, dtype=lib.float64)),
    lambda lib, t: lib.binomial(t.zeros(2, dtype=lib.int64), t.zeros(2)),
)
def test_random_operations_match_torch(call):
    compare_but_values(lambda lib: call(lib, tensors(lib)))


@cases(
    lambda lib, t: lib.multinomial(t.ones(3), 2),
    lambda lib, t: lib.multinomial(t.ones(2, 3), 2),
    lambda lib, t: lib.multinomial(t.ones(3), 4, True),
    lambda lib, t: lib.multinomial(t.ones(2, 3), num_samples=4, replacement=True, generator=t.g),
    lambda lib, t: lib.multinomial(t.ones(0, 3), 2),
    lambda lib, t: lib.multinomial(t.ones(0, 3), 2, True),
    lambda lib, t: lib.multinomial(t.x, 1),
    lambda lib, t: t.x.multinomial(1),
    lambda lib, t: lib.multinomial(t.ones(3, dtype=lib.float16), 3),
    lambda lib, t: lib.multinomial(t.tensor([1.0, 0, 0]), 2),
    lambda lib, t: lib.multinomial(t.ones(3), 2, out=t.zeros(2, dtype=lib.int64)),
    lambda lib, t: lib.multinomial(t.ones(3), 2, out=t.zeros(0, dtype=lib.int64)),
    lambda lib, t: lib.multinomial(t.ones(3), 4),
    lambda lib, t: lib.multinomial(t.ones(3), 0),
    lambda lib, t: lib.multinomial(t.ones(3), -1),
    lambda lib, t: lib.multinomial(t.zeros(3), 2),
    lambda lib, t: lib.multinomial(t.zeros(3), 1),
    lambda lib, t: lib.multinomial(t.zeros(3), 2, True),
    lambda lib, t: lib.multinomial(t.tensor([1.0, -1, 0]), 2),
    lambda lib, t: lib.multinomial(t.tensor([1.0, float("nan"), 0]), 2),
    lambda lib, t: lib.multinomial(t.tensor([1.0, float("inf"), 0]), 2),
    lambda lib, t: lib.multinomial(t.ones(3, dtype=lib.int64), 2),
    lambda lib, t: lib.multinomial(t.ones(2, 2, 3), 2),
    lambda lib, t: lib.multinomial(t.ones(()), 2),
    lambda lib, t: lib.multinomial(t.ones(0), 2),
    lambda lib, t: lib.multinomial(t.ones(3), 2.0),
    lambda lib, t: lib.multinomial(t.ones(3), 2, out=t.zeros(2)),
    lambda lib, t: lib.multinomial([1, 2], 1),
)
def test_multinomial_matches_torch(call):
    compare_but_values(lambda lib: call(lib, tensors(lib)))


def test_normal_with_tensor_parameters():
    mean, std = rg.tensor([[-100.0], [100.0]]), rg.tensor([0.5, 3.0])
    samples = rg.normal(mean.expand(2, 1).unsqueeze(0), std.expand(3000, 1, 2)).numpy()
    for row, center in enumerate((-100, 100)):
        for column, spread in enumerate((0.5, 3)):
            assert follows(samples[:, row, column].astype(float), stats.norm(center, spread))
    assert rg.normal(rg.tensor([1.0, 2.0]), 0.0).tolist() == [1, 2]


def test_bernoulli_follows_its_probabilities():
    p = rg.tensor([0.0, 0.1, 0.7, 1.0], dtype=rg.float64)
    means = rg.bernoulli(p.expand(20000, 4)).numpy().mean(0)
    np.testing.assert_allclose(means, p.numpy(), atol=0.015)
    assert means[0] == 0
    assert means[3] == 1
    assert abs(rg.bernoulli(rg.zeros(20000, dtype=rg.int8), 0.3).numpy().mean() - 0.3) < 0.015
    assert rg.bernoulli(rg.full((1_000_000,), 1e-9)).numpy().sum() == 0  # with 24 bits it would often be 1


def test_poisson_and_binomial_follow_their_distribution():
    for rate in (0.5, 4.0, 30.0):
        samples = rg.poisson(rg.full((20000,), rate, dtype=rg.float64)).numpy()
        expected = stats.poisson(rate).pmf(np.arange(60))
        kept = samples[samples < 60]
        likely = expected > 1e-3
        assert counts_follow(kept[likely[kept.astype(int)]], np.where(likely, expected, 0))
    samples = rg.binomial(rg.full((20000,), 6.0), rg.full((20000,), 0.3)).numpy()
    assert counts_follow(samples, stats.binom(6, 0.3).pmf(np.arange(7)))
    count, prob = rg.tensor([-4.0, 4, 4, 4.5, 4]), rg.tensor([0.5, 1.5, -1, 1, float("nan")])
    np.testing.assert_equal(rg.binomial(count, prob).numpy(), [0, 4, 0, 4.5, np.nan])


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_follows_its_weights(replacement):
    weights = rg.tensor([[1.0, 0.0, 3.0, 6.0], [0.0, 5.0, 5.0, 0.0]])
    one = rg.multinomial(weights[0].expand(20000, 4), 1, replacement).numpy()
    assert counts_follow(one, [0.1, 0, 0.3, 0.6])
    two = rg.multinomial(weights.repeat(10000, 1), 2, replacement).numpy().reshape(10000, 2, 2)
    assert set(two[:, 1].ravel()) == {1, 2}
    first, second = two[:, 0, 0], two[:, 0, 1]
    assert counts_follow(first, [0.1, 0, 0.3, 0.6])
    if replacement:
        assert counts_follow(second, [0.1, 0, 0.3, 0.6])
        assert (first == second).any()
        many = rg.multinomial(weights, 20000, replacement=True).numpy()
        assert counts_follow(many[0], [0.1, 0, 0.3, 0.6])
        assert counts_follow(many[1], [0, 0.5, 0.5, 0])
    else:
        assert not (first == second).any()
        # given the first, the second is drawn from the rest
        assert counts_follow(second[first == 3], [0.25, 0, 0.75, 0])


def test_multinomial_without_replacement_draws_every_category_once():
    assert sorted(rg.multinomial(rg.rand(50) + 0.1, 50).tolist()) == list(range(50))
