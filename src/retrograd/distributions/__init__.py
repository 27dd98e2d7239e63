"""Probability distributions as ``torch.distributions`` has them: samples, densities, entropies, divergences."""

from __future__ import annotations

from retrograd.distributions import constraints, kl, transforms
from retrograd.distributions.continuous import Cauchy, Exponential, Gumbel, HalfNormal, Laplace, Normal, Uniform
from retrograd.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from retrograd.distributions.distribution import Distribution
from retrograd.distributions.gamma import Beta, Chi2, Dirichlet, FisherSnedecor, Gamma, InverseGamma, StudentT
from retrograd.distributions.kl import kl_divergence, register_kl
from retrograd.distributions.mixture import MixtureSameFamily
from retrograd.distributions.multivariate import Independent, MultivariateNormal
from retrograd.distributions.transformed import LogNormal, TransformedDistribution
from retrograd.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    SigmoidTransform,
    TanhTransform,
    Transform,
)

__all__ = [
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "FisherSnedecor",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Laplace",
    "LogNormal",
    "MixtureSameFamily",
    "MultivariateNormal",
    "Normal",
    "OneHotCategorical",
    "Poisson",
    "SigmoidTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "constraints",
    "kl",
    "kl_divergence",
    "register_kl",
    "transforms",
]
