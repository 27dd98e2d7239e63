"""Floor division and remainders of many floats agree with NumPy's loops to the last bit."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops import _division
from retrograd.ops._division import floor_quotient, fmod_of

LENGTH = 3 * _division._MANY
RANDOM = np.random.default_rng(0)


def normal(scale=1.0):
    return RANDOM.normal(size=LENGTH) * scale


def any_bits(dtype):
    return RANDOM.integers(0, 256, LENGTH * dtype.itemsize, np.uint8).view(dtype)


def sprinkled(values, *among):
    """Return the values with the others scattered among them several times."""
    values = np.array(values)
    for position, value in enumerate(among):
        values[position::97] = value
    return values


DIVISORS = RANDOM.choice([-0.4, 0.1, 0.3, 3.0, 7.0], LENGTH)
PAIRS = {
    "quotients of all sizes": (normal(100), normal()),
    "large quotients": (normal(1e12), normal()),
    "whole numbers": (np.round(normal(100)), RANDOM.choice([-3.0, 1.0, 2.0, 7.0], LENGTH)),
    "beyond what is exact": (np.round(normal(1e9)), RANDOM.choice([-3.0, 1.0, 2.0, 7.0], LENGTH)),
    "multiples, rounded": (DIVISORS * np.round(normal(50)), DIVISORS),
    "sums of tenths": (np.arange(LENGTH) / 10, np.array(0.1)),
    "a number": (normal(10), -2.5),
    "all exponents": (np.exp(normal(20)), np.exp(normal(20))),
    "not finite": (
        sprinkled(normal(100), np.inf, np.nan, -np.inf, 0, -0.0),
        sprinkled(normal(), 1, 1, np.nan, -np.inf),
    ),
    "by infinity": (sprinkled(normal(), 0, -0.0), np.array(-np.inf)),
    "by zero": (sprinkled(normal(), np.nan, 0, -0.0), np.array(0.0)),
    "broadcast": (normal(10).reshape(-1, 3), normal()[:3]),
    "broadcast to more": (normal(10).reshape(-1, 1), normal()[:3]),
}


def assert_identical(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found) & ~np.isnan(found), np.signbit(expected) & ~np.isnan(expected))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PAIRS)
def test_floor_division_of_all_kinds_of_numbers(name, dtype):
    x, y = (value if isinstance(value, float) else value.astype(dtype) for value in PAIRS[name])
    with np.errstate(all="ignore"):
        assert_identical(fmod_of(x, y), np.fmod(x, y))
        assert_identical(floor_quotient(x, y), np.floor_divide(x, y))


@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.dtype("float64")])
def test_floor_division_of_random_bit_patterns(dtype):
    x, y = any_bits(dtype), any_bits(dtype)
    with np.errstate(all="ignore"):
        assert_identical(fmod_of(x, y), np.fmod(x, y))
        assert_identical(floor_quotient(x, y), np.floor_divide(x, y))
        # and of nearby numbers, which meet every bound of the fast path
        near = np.nextafter(y, x) * RANDOM.integers(-5, 6, LENGTH).astype(dtype)
        assert_identical(fmod_of(near, y), np.fmod(near, y))
        assert_identical(floor_quotient(near, y), np.floor_divide(near, y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floor_division_raises_only_numpys_floating_point_flags(dtype):
    extremes = np.finfo(dtype)
    x = sprinkled(normal().astype(dtype), extremes.max, extremes.smallest_subnormal, -extremes.max, 0)
    with np.errstate(all="raise", under="ignore"):
        for y in (np.array(extremes.max, dtype), np.array(3, dtype), x[::-1] + (x[::-1] == 0)):
            assert_identical(fmod_of(x, y), np.fmod(x, y))
        fmod_of(normal().astype(dtype), np.array(np.inf, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_floor_division_and_remainders(dtype):
    x, y = (rg.from_numpy(value.astype(dtype)).requires_grad_() for value in PAIRS["quotients of all sizes"])
    plain = x.detach().numpy(), y.detach().numpy()
    assert_identical((x.detach() // y.detach()).numpy(), np.floor_divide(*plain))
    assert_identical(rg.div(x, y, rounding_mode="floor").detach().numpy(), np.floor_divide(*plain))
    assert_identical(rg.fmod(x, y).detach().numpy(), np.fmod(*plain))
    (x % y).sum().backward()
    assert_identical(y.grad.numpy(), -np.floor_divide(*plain))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floor_division_in_several_blocks(dtype):
    shape = (3, _division._BLOCK - 5)
    x, y = (RANDOM.normal(size=shape).astype(dtype) * scale for scale in (100, 1))
    for divisor in (y, y[0], y[0, 0], np.array(0.3, dtype)):
        assert_identical(fmod_of(x, divisor), np.fmod(x, divisor))
    assert_identical(fmod_of(x.T, y.T), np.fmod(x.T, y.T))


def test_divmod_of_python():
    """torch's tensors do not have it, NumPy's arrays do."""
    x, y = np.array([-3.5, 2.0, 7.1]), np.array([2.0, -0.7, 3.0])
    for left, right in ((rg.tensor(x), y), (x, rg.tensor(y)), (rg.tensor(x), 0.3), (5.0, rg.tensor(y))):
        expected = divmod(*(part.numpy() if isinstance(part, rg.Tensor) else part for part in (left, right)))
        for got, part in zip(divmod(left, right), expected, strict=True):
            assert_identical(got.numpy(), part)
    for operands in ((rg.tensor(x, requires_grad=True), 0.3), (5.0, rg.tensor(y, requires_grad=True))):
        (wanted,) = (part for part in operands if isinstance(part, rg.Tensor))
        (got,) = rg.autograd.grad(divmod(*operands)[1].sum(), wanted)
        (expected,) = rg.autograd.grad((operands[0] % operands[1]).sum(), wanted)
        assert_identical(got.numpy(), expected.numpy())
