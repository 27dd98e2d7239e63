"""Methods that overwrite a tensor with samples, and gradients of random functions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

import retrograd as rg
from tests.distributions import counts_follow, follows
from tests.outcomes import NAMES, cases, compare_but_values


@pytest.fixture(autouse=True)
def seeded():
    rg.manual_seed(1234)
    torch.manual_seed(1234)


# --- samplers that overwrite a tensor -----------------------------------------------------------------------------

METHODS = {
    "uniform_": (),
    "normal_": (),
    "bernoulli_": (),
    "exponential_": (),
    "random_": (),
    "log_normal_": (),
    "cauchy_": (),
    "geometric_": (0.5,),
}


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("name", METHODS)
def test_samplers_by_dtype(name, dtype):
    compare_but_values(lambda lib: getattr(lib.zeros(2, 3, dtype=getattr(lib, dtype)), name)(*METHODS[name]))
    compare_but_values(lambda lib: getattr(lib.zeros(()), name)(*METHODS[name]))
    compare_but_values(lambda lib: getattr(lib.zeros(0, 3).t(), name)(*METHODS[name]))


@cases(
    lambda lib, z: z(2).uniform_(1, 2),
    lambda lib, z: z(2).uniform_(to=5),
    lambda lib, z: z(2).uniform_(**{"from": 1, "to": 2}),
    lambda lib, z: z(2).uniform_(1, 1),
    lambda lib, z: z(2).uniform_(0, 1, generator=lib.Generator()),
    lambda lib, z: z(2).uniform_(2, 1),
    lambda lib, z: z(2).uniform_(0, float("inf")),
    lambda lib, z: z(2).uniform_(0, float("nan")),
    lambda lib, z: z(2).uniform_(0, 1e39),
    lambda lib, z: z(2).uniform_(-3e38, 3e38),
    lambda lib, z: z(2).uniform_(0, 1, generator=3),
    lambda lib, z: z(2).normal_(1, 2),
    lambda lib, z: z(2).normal_(mean=1, std=2),
    lambda lib, z: z(2).normal_(lib.tensor(1.0)),
    lambda lib, z: z(2).normal_(1, -2),
    lambda lib, z: z(2).normal_(1, float("nan")),
    lambda lib, z: z(2).normal_("a"),
    lambda lib, z: z(2).normal_(1, 2, 3, 4),
    lambda lib, z: z(2).bernoulli_(p=1),
    lambda lib, z: z(2).bernoulli_(lib.tensor(1.0)),
    lambda lib, z: z(2, 2).bernoulli_(lib.tensor([0.0, 1.0])),
    lambda lib, z: z(2).bernoulli_(lib.tensor([0.0, 1.0], dtype=lib.float64)),
    lambda lib, z: z(2).bernoulli_(1.5),
    lambda lib, z: z(2).bernoulli_(-0.5),
    lambda lib, z: z(2).bernoulli_(lib.tensor([0.0, 1.5])),
    lambda lib, z: z(2).bernoulli_(lib.tensor([0, 1])),
    lambda lib, z: z(2).bernoulli_(z(2, 2)),
    lambda lib, z: z(2).exponential_(2.0),
    lambda lib, z: z(2).exponential_(lambd=2),
    lambda lib, z: z(2).exponential_(0.0),
    lambda lib, z: z(2).exponential_(-1.0),
    lambda lib, z: z(2).random_(5),
    lambda lib, z: z(2).random_(5, 7),
    lambda lib, z: z(2).random_(5, None),
    lambda lib, z: z(2).random_(to=5),
    lambda lib, z: z(2).random_(**{"from": 1, "to": 2}),
    lambda lib, z: z(2, dtype=lib.bool).random_(0, 2),
    lambda lib, z: z(2).random_(0),
    lambda lib, z: z(2).random_(-5),
    lambda lib, z: z(2).random_(7, 5),
    lambda lib, z: z(2).random_(5, 5),
    lambda lib, z: z(2, dtype=lib.uint8).random_(0, 300),
    lambda lib, z: z(2, dtype=lib.uint8).random_(-1, 300),
    lambda lib, z: z(2, dtype=lib.bool).random_(0, 3),
    lambda lib, z: z(2, dtype=lib.float16).random_(0, 70000),
    lambda lib, z: z(2).log_normal_(mean=1, std=2),
    lambda lib, z: z(2).log_normal_(1, 0),
    lambda lib, z: z(2).log_normal_(1, -2),
    lambda lib, z: z(2).cauchy_(median=1, sigma=2),
    lambda lib, z: z(2).cauchy_(1, 0),
    lambda lib, z: z(2).cauchy_(1, -1),
    lambda lib, z: z(2).geometric_(p=0.3),
    lambda lib, z: z(2).geometric_(),
    lambda lib, z: z(2).geometric_(0),
    lambda lib, z: z(2).geometric_(1),
    lambda lib, z: z(2).geometric_(1.5),
)
def test_samplers_check_their_arguments_like_torch(call):
    compare_but_values(lambda lib: call(lib, lib.zeros))


SAMPLED = [
    (lambda x: x.uniform_(-2, 3), stats.uniform(-2, 5)),
    (lambda x: x.normal_(5, 2), stats.norm(5, 2)),
    (lambda x: x.exponential_(4.0), stats.expon(scale=0.25)),
    (lambda x: x.log_normal_(0.5, 0.3), stats.lognorm(0.3, scale=np.exp(0.5))),
    (lambda x: x.cauchy_(1, 2), stats.cauchy(1, 2)),
]


@pytest.mark.parametrize(("sample", "distribution"), SAMPLED, ids=["uniform", "normal", "exponential", "log", "cauchy"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_samplers_follow_their_distribution(sample, distribution, dtype):
    for layout in (lambda x: x, lambda x: x.t(), lambda x: x[::2, 1::3]):
        x = layout(rg.zeros(120, 90, dtype=getattr(rg, dtype)))
        assert sample(x) is x
        assert follows(x.numpy(), distribution)


def test_samplers_write_only_their_own_elements():
    base = rg.zeros(10, 10)
    base[2:5, ::3].normal_()
    assert (base.numpy() != 0).sum() == 12
    backwards = rg.from_numpy(np.zeros((4, 5), np.float32)[::-1])
    assert (backwards.normal_().numpy() != 0).all()


def test_discrete_samplers_follow_their_distribution():
    assert counts_follow(rg.zeros(20000, dtype=rg.int64).random_(2, 12).numpy() - 2, np.full(10, 0.1))
    assert counts_follow(rg.zeros(20000).bernoulli_(0.2).numpy(), [0.8, 0.2])
    samples = rg.zeros(20000).geometric_(0.4).numpy()
    assert samples.min() == 1
    assert counts_follow(samples[samples < 12], stats.geom(0.4).pmf(np.arange(12)))


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [("bool", 1), ("uint8", 255), ("int8", 127), ("int64", 2**63 - 1), ("float16", 2**11), ("float32", 2**24)],
)
def test_random_without_bounds(dtype, largest):
    samples = rg.zeros(20000, dtype=getattr(rg, dtype)).random_().numpy().astype(object)
    assert samples.min() >= 0
    assert 0.99 * largest <= samples.max() <= largest
    signed = rg.zeros(20000, dtype=rg.int8).random_(-128, None).numpy()
    assert (signed.min(), signed.max()) == (-128, 127)


def test_exponential_samples_are_never_zero():
    assert rg.zeros(100_000, dtype=rg.float16).exponential_(1e4).numpy().min() > 0


# --- gradients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_no_gradient_passes_through_a_sampler(name):
    for create_graph in (False, True):
        grads = []
        for lib in (rg, torch):
            x = lib.tensor([1.0, 2.0], requires_grad=True)
            y = getattr(x * 3, name)(*METHODS[name])
            assert y.requires_grad
            (grad,) = lib.autograd.grad((y * x).sum(), x, create_graph=create_graph)
            grads.append((grad.detach() - y.detach()).tolist())
        assert grads[0] == grads[1] == [0, 0]


def test_grad_fn_names_of_samplers_match_torch():
    x = rg.tensor([0.1, 0.2], requires_grad=True)
    for result, name in (
        ((x * 1).normal_(), "NormalBackward0"),
        ((x * 1).uniform_(), "UniformBackward0"),
        ((x * 1).log_normal_(), "LogNormalBackward0"),
        (rg.bernoulli(x), "BernoulliBackward0"),
        (rg.poisson(x), "PoissonBackward0"),
    ):
        assert result.grad_fn.name() == name
        assert len(result.grad_fn.next_functions) == 1


@cases(
    lambda lib, x: lib.bernoulli(x),
    lambda lib, x: x.bernoulli(),
    lambda lib, x: lib.poisson(x),
    lambda lib, x: lib.normal(x, 1.0),
    lambda lib, x: lib.normal(0.0, x),
    lambda lib, x: lib.normal(x, x),
    lambda lib, x: lib.normal(x.unsqueeze(1), x),
    lambda lib, x: lib.zeros(2).bernoulli_(x),
    lambda lib, x: (x * 1).bernoulli_(x),
    lambda lib, x: (x * 1)[:1].normal_() * 0 + x.sum() * 0,
)
def test_parameters_of_random_functions_get_zero_gradients(call):
    for lib in (rg, torch):
        x = lib.tensor([0.2, 0.5], requires_grad=True)
        call(lib, x).sum().backward()
        assert x.grad.tolist() == [0, 0]


def test_sampling_into_a_part_of_a_computed_tensor():
    results = []
    for lib in (rg, torch):
        x = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * 2
        y[:2].uniform_(5, 6)
        y.sum().backward()
        results.append(x.grad.tolist())
    assert results[0] == results[1] == [0, 0, 2]


def test_samplers_follow_the_rules_for_in_place_writes():
    leaf = rg.zeros(2, requires_grad=True)
    for name, arguments in METHODS.items():
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            getattr(leaf, name)(*arguments)
        with pytest.raises(RuntimeError, match="more than one element"):
            getattr(rg.zeros(1).expand(3), name)(*arguments)
    with rg.no_grad():
        assert leaf.normal_() is leaf
    assert leaf.requires_grad
    assert leaf.is_leaf
    x = rg.zeros(2)
    x.normal_().uniform_()
    assert x._version == 2
    a = rg.ones(2, requires_grad=True) * 1
    b = a * a
    a.normal_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        b.sum().backward()


def test_failing_sampler_changes_nothing():
    x = rg.ones(2)
    for call in (lambda: x.normal_(0, -1), lambda: x.uniform_(2, 1), lambda: x.bernoulli_(rg.full((2,), 1.5))):
        with pytest.raises(RuntimeError):
            call()
    assert x.tolist() == [1, 1]
    assert x._version == 0
