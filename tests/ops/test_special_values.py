"""Values and gradients at NaN, infinities, both zeros, huge and tiny numbers agree with torch.

A NaN that torch does not have, or a missing one, would be an inexplicable birth.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.core.registry import composites, operations

NAN, INF = np.nan, np.inf
VALUES = [
    *(NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 3.5, -3.5, 6.0, -6.0, 20.0, 21.0, -20.0),
    *(100.0, -100.0, 1e-30, -1e-30, 1e30, -1e30, 5e-324),
]
VECTORS = [
    *([INF, 1.0, 2.0], [-INF, 1.0, 2.0], [-INF, -INF], [INF, INF], [INF, -INF], [NAN, 1.0, 0.0], [1.0, NAN]),
    *([0.0, 0.0, 1.0], [0.0, 2.0, 3.0], [0.0, 0.0], [-0.0, 0.0], [1e30, 1.0, 1e30], [1e-30, 1e-30], [1e20, -1e20]),
    *([5.0], [0.0], [INF], [-INF], [NAN], [2.0, 2.0, 2.0], [100.0, -100.0, 0.0]),
]
SPACES = ("", "nn.functional", "special")
REDUCING = {
    "": (
        *("aminmax", "amax", "amin", "cummax", "cummin", "cumsum", "cumulative_trapezoid", "diff", "logsumexp"),
        *("log_softmax", "max", "mean", "median", "min", "nanmean", "nanmedian", "nanquantile", "nansum", "norm"),
        *("quantile", "roll", "softmax", "sort", "std", "std_mean", "sum"),
    ),
    "nn.functional": ("softmin", "normalize", "softmax", "log_softmax", "glu", "layer_norm"),
    "special": ("log_softmax", "softmax", "logsumexp"),
    "linalg": ("norm", "vector_norm"),
}
DRAWING = (
    *("bernoulli", "binomial", "dropout", "gumbel", "lowrank", "multinomial", "normal", "poisson", "rand", "rrelu"),
)

# Where the libraries differ, with the reason.
POLES = {NAN, INF, -INF, -1.0, -2.0, -6.0, -20.0, -100.0, -1e30, 1e30}
ELSEWHERE: dict[str, set[float]] = {
    "digamma": POLES,  # the derivative is infinite there; torch gives a large number
    "psi": POLES,
    "lgamma": {5e-324},  # SciPy gives infinity instead of 744.4
    "gammaln": {5e-324},
    # torch's results at NaN depend on whether its loop is vectorized
    **{name: {NAN} for name in ("celu", "elu", "selu", "hardswish", "hardshrink", "softshrink", "hardtanh", "relu6")},
    "i1": {NAN, INF, -INF, 1e30, -1e30, 100.0, -100.0, 5e-324},  # NaN in torch
    "i1e": {NAN},  # 0 in torch
    "log_ndtr": {-INF, -1e30},  # NaN and infinite in torch
    "logit": {-0.0},
    "prod": set(VALUES),  # torch's gradient is 0 if there are two zeros, whatever the other elements
    "mode": set(VALUES),  # any of equal elements may be chosen
    "trapezoid": set(VALUES),  # torch subtracts infinities
    "trapz": set(VALUES),
}

# The same for two operands: torch has NaN where a number is right, or the other way round.
PAIRS_ELSEWHERE = {
    *("fmod", "kl_div", "remainder"),  # of the smallest number
    *("gammainc", "gammaincc", "igamma", "igammac"),  # of NaN, which torch does not always propagate
    *("polar", "soft_margin_loss", "zeta"),  # of infinite operands
}


def space_of(lib: Any, space: str) -> Any:
    for part in filter(None, space.split(".")):
        lib = getattr(lib, part)
    return lib


def names(space: str) -> Iterator[str]:
    """Yield the operations of both libraries, except random ones and in-place forms."""
    prefix = "special." if space == "special" else ""
    for name in sorted({**operations, **composites}):
        name = name.removeprefix(prefix)
        known = all(hasattr(space_of(lib, space), name) for lib in (torch, rg))
        if known and not name.endswith("_") and not any(word in name for word in DRAWING):
            yield name


def value_and_gradient(lib: Any, call: Callable[[Any, Any], Any], space: str, name: str, values: Any) -> Any:
    """Return the (first) result and the gradient of its sum, or None if it has none."""
    x = lib.tensor(values, dtype=lib.float64, requires_grad=True)
    y = call(getattr(space_of(lib, space), name), x)
    y = y[0] if isinstance(y, (tuple, list)) else y
    if not isinstance(y, lib.Tensor) or not y.requires_grad or y.is_complex():
        return None
    (g,) = lib.autograd.grad(y, x, lib.ones_like(y), allow_unused=True, materialize_grads=True)
    return y.detach().numpy(), g.numpy()


def compare(call: Callable[[Any, Any], Any], space: str, name: str, values: list[float], apart: Any = ()) -> bool:
    """Check that value and gradient agree; return False if torch has no such function or gradient."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs = value_and_gradient(torch, call, space, name, values)
        except (TypeError, RuntimeError, ValueError, IndexError, NotImplementedError):  # it takes other arguments
            return False
        if theirs is None:
            return False
        ours = value_and_gradient(rg, call, space, name, values)
    assert ours is not None
    for a, b, what in zip(ours, theirs, ("value", "gradient"), strict=True):
        if a.shape == (len(values),):
            kept = [value not in apart and not (np.isnan(value) and NAN in apart) for value in values]
            a, b = a[kept], b[kept]
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10, err_msg=f"{what} at {values}")
    return True


ELEMENTWISE = sorted({(space, name) for space in SPACES for name in names(space)})


@pytest.mark.parametrize(("space", "name"), ELEMENTWISE)
def test_elementwise_operations_at_special_values(space: str, name: str) -> None:
    compare(lambda function, x: function(x), space, name, VALUES, ELSEWHERE.get(name, ()))


@pytest.mark.parametrize(("space", "name"), [each for each in ELEMENTWISE if each[1] not in PAIRS_ELSEWHERE])
def test_binary_operations_at_pairs_of_special_values(space: str, name: str) -> None:
    """For all pairs of values, with the gradient of either operand."""
    first, second = np.repeat(VALUES, len(VALUES)), np.tile(VALUES, len(VALUES))
    compare(lambda function, x: function(x, beside(x, second)), space, name, first.tolist())
    compare(lambda function, x: function(beside(x, first), x), space, name, second.tolist())


def beside(x: Any, values: Any) -> Any:
    """Return a tensor of the same library."""
    return x.new_tensor(values)


def test_special_values_are_compared_for_many_operations() -> None:
    assert sum(compare(lambda function, x: function(x), "", name, [0.5]) for name in names("")) > 90


WAYS: list[Callable[[Any, Any], Any]] = [
    lambda function, x: function(x),
    lambda function, x: function(x, 0),
    lambda function, x: function(x, dim=0),
    lambda function, x: function(x[None], dim=1),
    lambda function, x: function(x[None], 0.5, 1),
    lambda function, x: function(x, x.shape),
    lambda function, x: function(x.outer(x), dim=-1),
]


@pytest.mark.parametrize(("space", "name"), [(space, name) for space, names in REDUCING.items() for name in names])
def test_reductions_of_special_values(space: str, name: str) -> None:
    assert sum([compare(call, space, name, values) for values in VECTORS for call in WAYS])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_log1p_of_small_complex_numbers_keeps_their_digits(dtype: str) -> None:
    """Compared by part, because one part may be much smaller than the other."""
    z = np.array([1e-20, -1e-20j, 1e-30 + 1e-20j, 1e-18 - 0.1j, 0.1 + 1e-18j, -0.3 + 0.2j, 0.4 + 0.4j, -1 + 2j], dtype)
    ours, theirs = rg.log1p(rg.tensor(z)).numpy(), torch.log1p(torch.tensor(z)).numpy()
    for part in ("real", "imag"):
        rtol = 1e-5 if dtype == "complex64" else 1e-12
        np.testing.assert_allclose(getattr(ours, part), getattr(theirs, part), rtol=rtol, atol=1e-35)
    np.testing.assert_array_equal(np.signbit(np.log1p(rg.tensor([complex(1e-20, -0.0)])).numpy().imag), True)


@pytest.mark.parametrize("x", [-2.0, -0.5, 0.5])
@pytest.mark.parametrize("side", [0.0, -0.0])
def test_derivative_of_acosh_on_either_side_of_the_branch_cut(x: float, side: float) -> None:
    def value(real: float) -> Any:
        return rg.acosh(rg.tensor([complex(real, side)], dtype=rg.complex128))

    z = rg.tensor([complex(x, side)], dtype=rg.complex128, requires_grad=True)
    (g,) = rg.autograd.grad(rg.acosh(z), z, rg.ones_like(z))
    slope = (value(x + 1e-6) - value(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(g.conj().resolve_conj().numpy(), slope.numpy(), rtol=1e-8)


@pytest.mark.parametrize("z", [complex(INF, 0.0), complex(-INF, -0.0), complex(0.0, INF)])
def test_gradient_of_complex_acosh_at_infinity(z: complex) -> None:
    def gradient(lib: Any) -> Any:
        x = lib.tensor([z], dtype=lib.complex128, requires_grad=True)
        return lib.autograd.grad(lib.acosh(x), x, lib.ones_like(x))[0].numpy()

    np.testing.assert_array_equal(gradient(rg), gradient(torch))
