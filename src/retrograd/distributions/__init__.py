"""Probability distributions as ``torch.distributions`` has them: samples, densities, entropies, divergences."""

from __future__ import annotations

from retrograd._module_aliases import add_paths
from retrograd.core.renamed_functions import own_methods
from retrograd.distributions import constraint_registry, constraints, kl, transforms, utils
from retrograd.distributions import kl_moments as kl_moments  # registers its divergences
from retrograd.distributions.constraint_registry import biject_to, transform_to
from retrograd.distributions.continuous import Cauchy, Exponential, Gumbel, Laplace, Normal, Uniform
from retrograd.distributions.continuous_bernoulli import ContinuousBernoulli
from retrograd.distributions.counts import Multinomial, NegativeBinomial
from retrograd.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from retrograd.distributions.distribution import Distribution
from retrograd.distributions.exp_family import ExponentialFamily
from retrograd.distributions.gamma import Beta, Chi2, Dirichlet, FisherSnedecor, Gamma, InverseGamma, StudentT
from retrograd.distributions.generalized_pareto import GeneralizedPareto
from retrograd.distributions.kl import kl_divergence, register_kl
from retrograd.distributions.low_rank import LowRankMultivariateNormal
from retrograd.distributions.matrices import LKJCholesky, Wishart
from retrograd.distributions.mixture import MixtureSameFamily
from retrograd.distributions.multivariate import Independent, MultivariateNormal
from retrograd.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from retrograd.distributions.transformed import TransformedDistribution
from retrograd.distributions.transformed_families import (
    HalfCauchy,
    HalfNormal,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    Weibull,
)
from retrograd.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from retrograd.distributions.von_mises import VonMises

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraint_registry",
    "constraints",
    "identity_transform",
    "kl",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
    "utils",
]

_FAMILIES = (
    "bernoulli beta binomial categorical cauchy chi2 dirichlet exponential fishersnedecor geometric gumbel half_cauchy "
    "half_normal independent inverse_gamma kumaraswamy laplace lkj_cholesky log_normal logistic_normal "
    "lowrank_multivariate_normal mixture_same_family multinomial multivariate_normal negative_binomial normal "
    "one_hot_categorical pareto poisson studentT transformed_distribution uniform weibull wishart"
)
add_paths(__name__, dict.fromkeys(_FAMILIES.split(), __name__))
add_paths(__name__, dict.fromkeys(("relaxed_bernoulli", "relaxed_categorical"), f"{__name__}.relaxed"))

own_methods(globals(), "__init__")
