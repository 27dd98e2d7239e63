"""The von Mises distribution, of angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.tensor import Tensor, wrap
from retrograd.distributions import constraints
from retrograd.distributions.distribution import Elementwise
from retrograd.random.generator import default_generator
from retrograd.random.in_place import module_of
from retrograd.special import i0e, i1e

__all__ = ["VonMises"]

_NARROW = 1e6  # from this concentration on, the normal distribution agrees to the precision of float64


class VonMises(Elementwise):
    """The distribution of angles with density proportional to ``exp(concentration * cos(x - loc))``.

    Samples are drawn by rejection (Best and Fisher, "Efficient simulation of the von Mises distribution", 1979) and lie
    between -pi and pi.

    Parameters
    ----------
    loc
        The mean angle, in radians.
    concentration
        How near to it angles are: about one over their variance, if it is large.

    Examples
    --------
    >>> wind = rg.distributions.VonMises(rg.tensor(1.0), rg.tensor(4.0))
    >>> wind.log_prob(rg.tensor([1.0, 1.0 + 2 * 3.14159265]))
    tensor([-0.2628, -0.2628])
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    loc: Any
    concentration: Any

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, concentration=concentration)

    @property
    def mean(self) -> Tensor:
        """The mean of the angle on the circle."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        """One less the mean of ``cos(x - loc)``."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    @no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        concentration = self.concentration.expand(self._extended_shape(sample_shape))
        angle: Any = wrap(_angles(concentration._data)) + self.loc
        return (angle + math.pi) % (2 * math.pi) - math.pi

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        k = self.concentration
        return k * ((value - self.loc).cos() - 1) - i0e(k).log() - math.log(2 * math.pi)


def _angles(concentration: Any) -> Any:
    """Angles around 0, of the concentrations in an array."""
    rng = default_generator.on(module_of(concentration))
    k = concentration.reshape(-1).astype(np.float64)
    result = rng.standard_normal(k.shape) / np.sqrt(np.maximum(k, _NARROW))
    (missing,) = np.nonzero(k < _NARROW)
    while missing.size:
        left = k[missing]
        # the wrapped Cauchy distribution that the angles are proposed from
        tau = 1 + np.sqrt(1 + 4 * left**2)
        rho = (tau - np.sqrt(2 * tau)) / (2 * left)
        r = np.where(left < 1e-5, 1 / left + left, (1 + rho**2) / (2 * rho))
        z = np.cos(math.pi * rng.random(left.shape))
        cosine = (1 + r * z) / (r + z)
        surplus = left * (r - cosine)
        u, sign = rng.random(left.shape), np.where(rng.random(left.shape) < 0.5, -1.0, 1.0)
        taken = np.log(surplus / np.maximum(u, 1e-300)) + 1 - surplus >= 0
        result[missing[taken]] = (sign * np.arccos(np.clip(cosine, -1, 1)))[taken]
        missing = missing[~taken]
    return result.reshape(concentration.shape).astype(concentration.dtype)
