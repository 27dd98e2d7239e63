"""Transforms, constraints and the maps between them, compared with torch and with numerical derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from tests.parity import attempt, message, parity, run

NUMBERS = [[-1.5, 0.2, 3.0], [0.7, -0.1, 0.4]]
POSITIVE = [[0.5, 0.2, 3.0], [0.7, 1.1, 0.4]]
MATRICES = [[[0.3, -1.0], [2.0, -0.5]], [[1.0, 0.0], [0.0, 1.0]]]

Build = Callable[[Any], Any]


def number_maps(t: Any) -> Any:
    return [t.ExpTransform(), t.AffineTransform(0.5, -2.0)]


# name, how to make it, values of its domain
TRANSFORMS: list[tuple[str, Build, Any]] = [
    ("abs", lambda t: t.AbsTransform(), NUMBERS),
    ("affine of vectors", lambda t: t.AffineTransform(1.0, -2.0, event_dim=1), NUMBERS),
    ("cat", lambda t: t.CatTransform(number_maps(t), dim=-1, lengths=[2, 1]), NUMBERS),
    ("cat of rows", lambda t: t.CatTransform(number_maps(t)), NUMBERS),
    (
        "cat of vectors",
        lambda t: t.CatTransform([t.IndependentTransform(each, 1) for each in number_maps(t)], -1, [2, 1]),
        NUMBERS,
    ),
    ("compose", lambda t: t.ComposeTransform([t.SoftplusTransform(), t.PowerTransform(2.0)]), NUMBERS),
    ("compose to vectors", lambda t: t.ComposeTransform([t.TanhTransform(), t.StickBreakingTransform()]), NUMBERS),
    (
        "compose from vectors",
        lambda t: t.ComposeTransform([t.StickBreakingTransform(), t.ReshapeTransform((4,), (2, 2)), t.ExpTransform()]),
        NUMBERS,
    ),
    ("correlations", lambda t: t.CorrCholeskyTransform(), NUMBERS),
    ("exp", lambda t: t.ExpTransform(), NUMBERS),
    ("identity", lambda t: t.identity_transform, NUMBERS),
    ("independent", lambda t: t.IndependentTransform(t.ExpTransform(), 1), NUMBERS),
    ("inverse of independent", lambda t: t.IndependentTransform(t.ExpTransform(), 1).inv, POSITIVE),
    ("lower Cholesky", lambda t: t.LowerCholeskyTransform(), MATRICES),
    ("positive definite", lambda t: t.PositiveDefiniteTransform(), MATRICES),
    ("power", lambda t: t.PowerTransform(-0.5), POSITIVE),
    ("reshape", lambda t: t.ReshapeTransform((2, 2), (4,)), MATRICES),
    ("sigmoid", lambda t: t.SigmoidTransform(), [[-800.0, 0.2, 800.0]]),
    ("softmax", lambda t: t.SoftmaxTransform(), NUMBERS),
    ("softplus", lambda t: t.SoftplusTransform(), NUMBERS),
    ("stack", lambda t: t.StackTransform(number_maps(t), dim=0), NUMBERS),
    ("stack of columns", lambda t: t.StackTransform([*number_maps(t), t.TanhTransform()], dim=-1), NUMBERS),
    ("stick", lambda t: t.StickBreakingTransform(), NUMBERS),
]
IDS = [name for name, *_ in TRANSFORMS]


@pytest.mark.parametrize(("build", "values"), [case[1:] for case in TRANSFORMS], ids=IDS)
def test_distribution_transforms_match_torch(build: Build, values: Any) -> None:
    def compare(m: Any) -> Any:
        t = build(m.distributions.transforms)
        x = m.tensor(values, dtype=m.float64, requires_grad=True)
        y = t(x)
        slope = attempt(lambda: t.log_abs_det_jacobian(x, y))
        grads = [m.autograd.grad((y**2).sum(), x, retain_graph=True)[0]]
        if isinstance(slope, m.Tensor) and slope.requires_grad:
            grads.append(m.autograd.grad(slope.sum(), x)[0])
        return [
            (y, t.inv(y), slope, grads),
            (
                t.bijective,
                attempt(lambda: float(t.sign)),
                t.domain.event_dim,
                t.codomain.event_dim,
                attempt(lambda: t.event_dim),
            ),
            (t.inv.domain.event_dim, t.inv.codomain.event_dim, t.inv.bijective),
            (t.domain.check(x), t.codomain.check(y)),
            [
                tuple(shape)
                for shape in (t.forward_shape(x.shape), t.inverse_shape(y.shape), t.inv.forward_shape(y.shape))
            ],
        ]

    assert repr(run(compare, rg)) == repr(run(compare, torch))


@pytest.mark.parametrize(
    "name", ["compose", "correlations", "independent", "power", "sigmoid", "softplus", "stick", "cat"]
)
def test_log_abs_det_jacobian_equals_the_jacobian_determinant(name: str) -> None:
    build, values = next((build, values) for found, build, values in TRANSFORMS if found == name)
    t = build(rg.distributions.transforms)
    x = rg.tensor(values[0] if name != "sigmoid" else [-3.0, 0.2, 1.0], dtype=rg.float64)

    def free(x: Any) -> Any:
        """Return as many numbers as ``x`` has; they determine the others."""
        y = t(x)
        if name == "stick":
            return y[:-1]
        return rg.distributions.utils.tril_matrix_to_vec(y, -1) if name == "correlations" else y

    jacobian = rg.autograd.functional.jacobian(free, x)
    assert t.log_abs_det_jacobian(x, t(x)).sum().item() == pytest.approx(np.linalg.slogdet(jacobian.numpy())[1])


@parity
def test_cumulative_distribution_transform(m: Any) -> Any:
    d = m.distributions
    t = d.CumulativeDistributionTransform(d.Normal(m.zeros(3, dtype=m.float64), 2.0))
    x = m.tensor(NUMBERS, dtype=m.float64)
    y = t(x)
    copula = d.ComposeTransform([t, d.CumulativeDistributionTransform(d.Laplace(0.0, 1.0)).inv])
    return [y, t.inv(y), t.log_abs_det_jacobian(x, y), t.sign, t.codomain.check(y), t.domain.check(x), copula(x)]


@given(values=st.lists(st.floats(-8, 8), min_size=6, max_size=6))
@pytest.mark.parametrize("name", ["affine of vectors", "cat", "correlations", "softplus", "stack of columns", "stick"])
def test_inverse_transform_undoes_the_transform(name: str, values: list[float]) -> None:
    build = next(build for found, build, _ in TRANSFORMS if found == name)
    t = build(rg.distributions.transforms)
    x = rg.tensor(values, dtype=rg.float64).reshape(2, 3)
    y = t(x)
    assert bool(t.codomain.check(y).all())
    assert t.inv(y).numpy() == pytest.approx(x.numpy(), rel=1e-6, abs=1e-6)
    forth, back = t.log_abs_det_jacobian(x, y), t.inv.log_abs_det_jacobian(y, x)
    assert (forth + back).abs().max().item() == 0


def test_stick_breaking_inverse_is_accurate_for_a_small_remainder() -> None:
    t = rg.distributions.StickBreakingTransform()
    x = rg.tensor([20.0, 10.0, -5.0])
    assert t.inv(t(x)).numpy() == pytest.approx(x.numpy(), rel=1e-5)  # one less what came before is 0


def test_cached_transforms_have_exact_inverses() -> None:
    d = rg.distributions
    plain = d.TanhTransform()
    x = rg.tensor(30.0)
    assert plain.inv(plain(x)).item() != 30.0
    for t in (
        d.TanhTransform(cache_size=1),
        plain.with_cache(),
        d.ComposeTransform([plain]).with_cache(),
        d.IndependentTransform(plain, 0).with_cache(),
        d.TanhTransform().inv.with_cache().inv,
    ):
        assert t.inv(t(x)) is x
        assert t.with_cache(1) is t
        assert t.with_cache(0).inv(t(x)).item() != 30.0
    assert d.StackTransform([plain, plain]).with_cache().transforms[0]._cache_size == 1
    assert d.CatTransform([plain, plain]).with_cache().lengths == [1, 1]


def test_transforms_with_equal_parameters_are_equal() -> None:
    t = rg.distributions.transforms
    for make in (
        t.ExpTransform,
        lambda: t.AffineTransform(rg.tensor([1.0, 2.0]), 3.0),
        lambda: t.ComposeTransform([t.ExpTransform(), t.AffineTransform(0.0, 1.0)]),
        lambda: t.ReshapeTransform((2, 3), (6,)),
        lambda: t.IndependentTransform(t.ExpTransform(), 1),
        lambda: t.PowerTransform(2.0).inv,
    ):
        assert make() == make()
    assert t.ExpTransform() != t.SigmoidTransform()
    assert t.AffineTransform(0.0, 1.0) != t.AffineTransform(0.0, 2.0)
    assert t.AffineTransform(rg.zeros(2), 1.0) != t.AffineTransform(rg.zeros(3), 1.0)
    assert t.ExpTransform(cache_size=1) == t.ExpTransform()
    assert attempt(lambda: hash(t.ExpTransform())) == attempt(lambda: hash(torch.distributions.ExpTransform()))


def test_user_defined_transform() -> None:
    class Cube(rg.distributions.Transform):
        bijective = True
        sign = 1

        def _call(self, x: Any) -> Any:
            return x**3

        def _inverse(self, y: Any) -> Any:
            return y.sign() * y.abs() ** (1 / 3)

        def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
            return (3 * x**2).log()

    d = rg.distributions
    cubed = d.TransformedDistribution(d.Normal(rg.zeros(3, dtype=rg.float64), 1.0), Cube())
    y = rg.tensor([0.5, -2.0, 3.0], dtype=rg.float64, requires_grad=True)
    (density,) = rg.autograd.grad(cubed.cdf(y).sum(), y)
    assert density.numpy() == pytest.approx(cubed.log_prob(y.detach()).exp().numpy())


MISTAKES: list[Callable[[Any], Any]] = [
    lambda m: m.distributions.Transform(2),
    lambda m: m.distributions.Transform().sign,
    lambda m: m.distributions.SoftmaxTransform().log_abs_det_jacobian(m.ones(2), m.ones(2)),
    lambda m: m.distributions.AbsTransform().log_abs_det_jacobian(m.ones(2), m.ones(2)),
    lambda m: m.distributions.ReshapeTransform((2,), (3,)),
    lambda m: m.distributions.ReshapeTransform((2, 3), (6,)).event_dim,
    lambda m: m.distributions.ReshapeTransform((2, 3), (6,)).forward_shape((5,)),
    lambda m: m.distributions.ReshapeTransform((2, 3), (6,)).forward_shape((5, 4)),
    lambda m: m.distributions.CorrCholeskyTransform().forward_shape((4,)),
    lambda m: m.distributions.CorrCholeskyTransform().inverse_shape((5, 4, 3)),
    lambda m: m.distributions.StickBreakingTransform().forward_shape(()),
    lambda m: m.distributions.IndependentTransform(m.distributions.ExpTransform(), 2)(m.ones(3)),
    lambda m: m.distributions.TransformedDistribution(
        m.distributions.Normal(0.0, 1.0), m.distributions.StickBreakingTransform()
    ),
    lambda m: m.distributions.constraints.dependent.check(m.ones(2)),
    lambda m: m.distributions.constraints.dependent.event_dim,
    lambda m: m.distributions.constraints.dependent.is_discrete,
    lambda m: m.distributions.constraints.real_vector.check(m.tensor(1.0)),
    lambda m: m.distributions.biject_to(m.distributions.constraints.boolean),
    lambda m: m.distributions.biject_to(m.distributions.constraints.positive_definite),
    lambda m: m.distributions.transform_to(m.distributions.constraints.dependent),
    lambda m: m.distributions.transform_to(3),
    lambda m: m.distributions.transform_to.register(3, m.distributions.ExpTransform),
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_invalid_transforms_raise_as_in_torch(mistake: Callable[[Any], Any]) -> None:
    expected = attempt(lambda: mistake(torch))
    assert isinstance(expected, str)
    assert attempt(lambda: mistake(rg)) == expected
    assert message(lambda: mistake(rg)).startswith(message(lambda: mistake(torch)).split(":")[0].split(" but got")[0])


def test_cat_and_stack_with_mismatched_parts_raise() -> None:
    """torch has assertions instead of messages here."""
    t, c = rg.distributions.transforms, rg.distributions.constraints
    two = [t.ExpTransform(), t.ExpTransform()]
    for mistake, words in (
        (lambda: t.CatTransform([3]), "must be a list of transforms"),
        (lambda: t.CatTransform(two, lengths=[2]), r"lengths \(1\) must match transforms \(2\)"),
        (lambda: t.CatTransform(two, lengths=[2, 3])(rg.ones(4)), "size 4 of dim 0 must equal 5"),
        (lambda: t.StackTransform(two)(rg.ones(3)), "size 3 of dim 0 must equal 2, the total size of its 2 transforms"),
        (lambda: t.StackTransform(two, dim=4)(rg.ones(2)), "dim 4 out of range"),
        (lambda: c.cat([c.real, c.real], lengths=[2]), r"lengths \(1\) must match constraints \(2\)"),
        (lambda: c.cat([c.real, c.real]).check(rg.ones(3)), "3 elements along dim 0, but the lengths sum to 2"),
        (lambda: c.stack([c.real, c.real]).check(rg.ones(3)), "3 parts along dim 0, but there are 2 constraints"),
        (lambda: c.stack([3]), "must be a list of constraints"),
    ):
        with pytest.raises(ValueError, match=words):
            mistake()


# --- constraints ------------------------------------------------------------------------------------------------------

NAN = float("nan")
CONSTRAINTS: list[tuple[str, Build, Any]] = [
    ("cat", lambda c: c.cat([c.real, c.positive], 0, [1, 2]), [-1.0, 2.0, -3.0]),
    ("cat of vectors", lambda c: c.cat([c.simplex, c.real_vector], 0, [1, 2]), [[0.5, 0.5], [2.0, NAN], [1.0, 2.0]]),
    ("correlations", lambda c: c.corr_cholesky, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.7]]]),
    ("lower triangular", lambda c: c.lower_triangular, [[[1.0, 0.0], [0.6, -1.0]], [[1.0, 0.1], [0.6, 0.8]]]),
    ("mixture", lambda c: c.MixtureSameFamilyConstraint(c.positive), [1.0, -1.0]),
    ("mixture of vectors", lambda c: c.MixtureSameFamilyConstraint(c.simplex), [[0.5, 0.5], [0.7, 0.7]]),
    ("multinomial", lambda c: c.multinomial(3), [[1.0, 2.0], [2.0, 2.0], [-1.0, 3.0]]),
    ("semidefinite", lambda c: c.positive_semidefinite, [[[1.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]]),
    ("definite", lambda c: c.positive_definite, [[[2.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]),
    ("not symmetric", lambda c: c.positive_definite, [[[2.0, 1.0], [0.0, 1.0]]]),
    ("not square", lambda c: c.positive_definite, [[2.0, 1.0, 0.0], [0.0, 1.0, 0.0]]),
    ("square", lambda c: c.square, [[2.0, 1.0], [0.0, 1.0]]),
    ("oblong", lambda c: c.square, [[[2.0, 1.0]], [[0.0, 1.0]]]),
    ("stack", lambda c: c.stack([c.real, c.positive]), [-1.0, -2.0]),
    ("stack of columns", lambda c: c.stack([c.real, c.positive], -1), [[-1.0, -2.0], [1.0, 2.0]]),
    ("stack of vectors", lambda c: c.stack([c.simplex, c.real_vector]), [[0.5, 0.5], [2.0, 3.0]]),
    ("symmetric", lambda c: c.symmetric, [[[2.0, 1.0], [1.0, 0.0]], [[2.0, 1.0], [0.0, 1.0]]]),
]


@pytest.mark.parametrize(("name", "build", "values"), CONSTRAINTS, ids=[name for name, *_ in CONSTRAINTS])
def test_constraints_match_torch(name: str, build: Build, values: Any) -> None:
    def compare(m: Any) -> Any:
        constraint = build(m.distributions.constraints)
        return [constraint.check(m.tensor(values)), constraint.event_dim, constraint.is_discrete]

    assert run(compare, rg) == run(compare, torch)


@parity
def test_dependent_property(m: Any) -> Any:
    d, c = m.distributions, m.distributions.constraints

    class Ramp(d.Distribution):
        @c.dependent_property(is_discrete=False, event_dim=0)
        def support(self) -> Any:
            return c.interval(0.0, self.end)

        @c.dependent_property
        def other(self) -> Any:
            return c.real

    ramp = Ramp(validate_args=False)
    ramp.end = 2.0
    return [
        (c.is_dependent(Ramp.support), Ramp.support.event_dim, Ramp.support.is_discrete, str(Ramp.support)),
        (c.is_dependent(ramp.support), str(ramp.support), str(ramp.other)),
        (c.is_dependent(d.Uniform.support), c.is_dependent(d.Normal.support), d.Pareto.support.event_dim),
        (d.Multinomial.support.is_discrete, attempt(lambda: d.Independent.support.event_dim)),
        (c.dependent(event_dim=1).event_dim, str(c.dependent)),
    ]


FREE: list[tuple[str, Build, Any]] = [
    ("cat", lambda c: c.cat([c.real, c.positive], 0, [1, 2]), [-1.0, 2.0, -3.0]),
    ("correlations", lambda c: c.corr_cholesky, NUMBERS),
    ("greater", lambda c: c.greater_than(2.0), NUMBERS),
    ("half open", lambda c: c.half_open_interval(-1.0, 3.0), NUMBERS),
    ("independent", lambda c: c.independent(c.simplex, 1), NUMBERS),
    ("interval", lambda c: c.interval(-1.0, 3.0), NUMBERS),
    ("less", lambda c: c.less_than(2.0), NUMBERS),
    ("lower Cholesky", lambda c: c.lower_cholesky, MATRICES),
    ("nonnegative", lambda c: c.nonnegative, NUMBERS),
    ("positive", lambda c: c.positive, NUMBERS),
    ("positive definite", lambda c: c.positive_definite, MATRICES),
    ("positive semidefinite", lambda c: c.positive_semidefinite, MATRICES),
    ("real", lambda c: c.real, NUMBERS),
    ("real vector", lambda c: c.real_vector, NUMBERS),
    ("simplex", lambda c: c.simplex, NUMBERS),
    ("stack", lambda c: c.stack([c.real, c.unit_interval], 0), NUMBERS),
    ("unit interval", lambda c: c.unit_interval, NUMBERS),
]


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize(("name", "build", "values"), FREE, ids=[name for name, *_ in FREE])
def test_biject_to_and_transform_to_satisfy_the_constraint(name: str, build: Build, values: Any, registry: str) -> None:
    def compare(m: Any) -> Any:
        constraint = build(m.distributions.constraints)
        x = m.tensor(values, dtype=m.float64)

        def made() -> Any:
            t = getattr(m.distributions, registry)(constraint)
            y = t(x)
            return [y, constraint.check(y).all(), t.inv(y), t.bijective, attempt(lambda: t.log_abs_det_jacobian(x, y))]

        return attempt(made)

    found = run(compare, rg)
    assert found == run(compare, torch)
    assert registry == "biject_to" or found[1] == ("bool", True)


def test_bounds_of_constraints_may_be_tensors() -> None:
    low = rg.tensor([0.0, 5.0], requires_grad=True)
    bounded = rg.distributions.constraints.interval(low, low + 1)
    y = rg.distributions.biject_to(bounded)(rg.zeros(2))
    assert y.tolist() == [0.5, 5.5]
    y.sum().backward()
    assert low.grad.tolist() == [1.0, 1.0]


def test_user_defined_constraints_can_be_registered() -> None:
    class Even(rg.distributions.constraints.Constraint):
        pass

    registry = rg.distributions.constraint_registry.ConstraintRegistry()

    @registry.register(Even)
    def even(constraint: Any) -> Any:
        return rg.distributions.AffineTransform(0, 2)

    assert registry(Even())(rg.tensor(3.0)).item() == 6.0
    assert registry.register(Even(), lambda constraint: rg.distributions.ExpTransform()) is not even
    assert isinstance(registry(Even()), rg.distributions.ExpTransform)


# --- transformed distributions ----------------------------------------------------------------------------------------


@parity
def test_transformed_distributions_of_vectors(m: Any) -> Any:
    d = m.distributions
    loc = m.tensor([[0.3, -0.2], [0.1, 0.5], [0.0, 2.0]], dtype=m.float64, requires_grad=True)
    made = {
        "stick": d.TransformedDistribution(d.Normal(loc, 1.0), d.StickBreakingTransform()),
        "numbers": d.TransformedDistribution(d.Dirichlet(loc.exp()), d.AffineTransform(1.0, 2.0)),
        "reshaped": d.TransformedDistribution(d.Normal(loc, 1.0), d.ReshapeTransform((2,), (2, 1))),
        "wider": d.TransformedDistribution(
            d.Normal(loc[0], 1.0), d.AffineTransform(m.zeros(3, 1, dtype=m.float64), 2.0)
        ),
        "none": d.TransformedDistribution(d.Normal(loc, 1.0), []),
    }
    values = {
        "stick": m.tensor([0.2, 0.5, 0.3], dtype=m.float64),
        "numbers": m.tensor([1.5, 2.5], dtype=m.float64),
        "reshaped": m.tensor([[0.2], [0.5]], dtype=m.float64),
    }
    report = []
    for name, distribution in made.items():
        density = distribution.log_prob(values.get(name, m.zeros(2, dtype=m.float64)))
        wide = distribution.expand((4, *distribution.batch_shape))
        report.append(
            [
                (distribution.batch_shape, distribution.event_shape, wide.batch_shape, wide.event_shape),
                (distribution.rsample((5,)).shape, wide.sample((2,)).shape, distribution.has_rsample),
                (density, m.autograd.grad(density.sum(), loc)[0], wide.log_prob(wide.sample()).shape),
                (distribution.support.event_dim, distribution.support.check(distribution.sample()).all()),
            ]
        )
    return report


@parity
def test_transforms_and_distributions_that_are_modules(m: Any) -> Any:
    """A layer of a flow is often both: its constructor begins with that of the transform."""
    d = m.distributions

    class Shift(d.Transform, m.nn.Module):  # type: ignore[misc]
        bijective = True
        domain = codomain = d.constraints.real

        def __init__(self, by: float) -> None:
            super().__init__(cache_size=1)
            self.by = m.nn.Parameter(m.tensor(by))

        __hash__ = m.nn.Module.__hash__

        def _call(self, x: Any) -> Any:
            return x + self.by

        def _inverse(self, y: Any) -> Any:
            return y - self.by

        def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
            return m.zeros_like(x)

    class Scaled(d.Distribution, m.nn.Module):  # type: ignore[misc]
        arg_constraints: ClassVar = {}

        def __init__(self) -> None:
            super().__init__((2,), validate_args=False)
            self.scale = m.nn.Parameter(m.ones(2))

    shift, scaled = Shift(0.5), Scaled()
    flow = d.TransformedDistribution(d.Normal(m.zeros(2), 1.0), [shift, shift.inv, shift])
    flow.log_prob(m.ones(2)).sum().backward()
    names = [[name for name, _ in each.named_parameters()] for each in (shift, scaled)]
    return [*names, shift.by.grad, list(scaled.batch_shape), isinstance(shift, m.nn.Module)]
