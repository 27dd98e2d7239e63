"""Distributions of an exponential family, whose entropies and divergences follow from one function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.autograd import grad
from retrograd.autograd.grad_mode import enable_grad, is_grad_enabled
from retrograd.core.tensor import Tensor
from retrograd.distributions.distribution import Distribution
from retrograd.distributions.utils import summed

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """The base class of distributions with density ``exp(t(x) . theta - F(theta) + k(x))``.

    Subclasses define ``_natural_params``, the tuple of the natural parameters ``theta``; ``_log_normalizer``, the
    function F of these; and ``_mean_carrier_measure``, the mean of ``k(x)``, for the entropy. The entropy and the
    divergence from a distribution of the same class are then those of Nielsen and Nock ("Entropies and cross-entropies
    of exponential families", 2010), as the gradient of F is the mean of ``t(x)``.
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError(self._lacks("_natural_params"))

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError(self._lacks("_log_normalizer"))

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError(self._lacks("entropy"))

    def _means(self) -> tuple[Sequence[Any], Any, Sequence[Any]]:
        """The natural parameters, F, and the gradient of F: the means of ``t(x)``."""
        params = self._natural_params
        wanted = is_grad_enabled() and any(param.requires_grad for param in params)
        with enable_grad():
            leaves = [param if param.requires_grad else param.detach().requires_grad_() for param in params]
            normalizer = self._log_normalizer(*leaves)
            means = grad(normalizer.sum(), leaves, create_graph=wanted)
        return params, normalizer if wanted else normalizer.detach(), means

    def entropy(self) -> Tensor:
        carrier = self._mean_carrier_measure
        params, entropy, means = self._means()
        return entropy - self._product(params, means) - carrier

    def _divergence(self, other: Any) -> Any:
        """The divergence of another distribution of the same class from this one."""
        params, own, means = self._means()
        others = other._natural_params
        differences = [a - b for a, b in zip(others, params, strict=True)]
        return other._log_normalizer(*others) - own - self._product(differences, means)

    def _product(self, params: Sequence[Any], means: Sequence[Any]) -> Any:
        """The inner products, one for each distribution of the batch."""
        terms = [param * mean for param, mean in zip(params, means, strict=True)]
        ndims = len(self._batch_shape)
        total: Any = 0.0
        for term in terms:
            total = total + summed(term, max(term.ndim - ndims, 0))
        return total
