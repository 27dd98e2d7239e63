"""Invertible functions of samples, number by number, and the logarithm of their derivative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from retrograd.distributions import constraints
from retrograd.distributions.constraints import Constraint
from retrograd.nn.functional import logsigmoid, softplus

__all__ = ["AffineTransform", "ComposeTransform", "ExpTransform", "SigmoidTransform", "TanhTransform", "Transform"]


class Transform:
    """The base class: an increasing or decreasing function, its inverse, and its derivative.

    Subclasses define ``_call``, ``_inverse`` and ``log_abs_det_jacobian``.
    """

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.real
    bijective = True
    sign: Any = 1

    def __init__(self, cache_size: int = 0) -> None:
        self._cache_size = cache_size
        self._last: tuple[Any, Any] = (None, None)  # so that the inverse of a result is exact

    def __call__(self, x: Any) -> Any:
        """Return the function of ``x``."""
        if self._cache_size and self._last[0] is x:
            return self._last[1]
        y = self._call(x)
        if self._cache_size:
            self._last = x, y
        return y

    def _invert(self, y: Any) -> Any:
        if self._cache_size and self._last[1] is y:
            return self._last[0]
        return self._inverse(y)

    @property
    def inv(self) -> Transform:
        """The inverse function."""
        return _Inverse(self)

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _call")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _inverse")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return the logarithm of the absolute value of dy/dx."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._transform = transform
        self.domain, self.codomain, self.sign = transform.codomain, transform.domain, transform.sign

    @property
    def inv(self) -> Transform:
        return self._transform

    def _call(self, x: Any) -> Any:
        return self._transform._invert(x)

    def _inverse(self, y: Any) -> Any:
        return self._transform(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._transform.log_abs_det_jacobian(y, x)

    def __repr__(self) -> str:
        return f"{self._transform!r}.inv"


class ExpTransform(Transform):
    """``y = exp(x)``."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class SigmoidTransform(Transform):
    """``y = 1 / (1 + exp(-x))``."""

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        return x.sigmoid()

    def _inverse(self, y: Any) -> Any:
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x) - softplus(x)


class TanhTransform(Transform):
    """``y = tanh(x)``."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # log(1 - tanh(x)^2), exact where tanh(x) rounds to 1
        return 2.0 * (math.log(2.0) - x + logsigmoid(2.0 * x))


class AffineTransform(Transform):
    """``y = loc + scale * x``."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        if event_dim:
            raise NotImplementedError("AffineTransform: event_dim must be 0; use Independent for events of vectors")
        self.loc = loc
        self.scale = scale

    @property
    def sign(self) -> Any:
        """Whether it increases (1) or decreases (-1)."""
        return math.copysign(1, self.scale) if isinstance(self.scale, int | float) else self.scale.sign()

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if isinstance(self.scale, int | float):
            return x.new_full(x.shape, math.log(abs(self.scale)))
        return self.scale.abs().log().expand(x.shape)


class ComposeTransform(Transform):
    """One transform after the other.

    Parameters
    ----------
    parts
        The transforms, the first one first.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        if self.parts:
            self.domain, self.codomain = self.parts[0].domain, self.parts[-1].codomain

    @property
    def sign(self) -> Any:
        """Whether it increases (1) or decreases (-1)."""
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def _call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._invert(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        total: Any = x.new_zeros(x.shape)
        for part in self.parts:
            image = part(x)
            total = total + part.log_abs_det_jacobian(x, image)
            x = image
        return total

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts!r})"
