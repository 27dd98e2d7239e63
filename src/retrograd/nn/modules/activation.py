"""Activation functions as modules. What they compute is said in :mod:`retrograd.nn.functional`."""

from __future__ import annotations

from typing import Any

from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.creation import empty
from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.modules._errors import MISFITS, misshaped
from retrograd.nn.modules.attention import MultiheadAttention
from retrograd.nn.modules.module import Module
from retrograd.nn.parameter import Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _MayOverwrite(Module):
    """An activation that can write its result over its input.

    Parameters
    ----------
    inplace
        Whether it does.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return ``inplace=True`` where that is so."""
        return "inplace=True" if self.inplace else ""

    def _shown(self, parameters: str) -> str:
        return f"{parameters}, inplace=True" if self.inplace else parameters


class ReLU(_MayOverwrite):
    """Apply :func:`~retrograd.nn.functional.relu`: ``max(input, 0)``.

    Parameters
    ----------
    inplace
        Overwrite the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return ``max(input, 0)``."""
        return F.relu(input, self.inplace)


class SELU(_MayOverwrite):
    """Apply :func:`~retrograd.nn.functional.selu`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``selu(input)``."""
        return F.selu(input, self.inplace)


class SiLU(_MayOverwrite):
    """Apply :func:`~retrograd.nn.functional.silu`: ``input * sigmoid(input)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input * sigmoid(input)``."""
        return F.silu(input, self.inplace)


class Mish(_MayOverwrite):
    """Apply :func:`~retrograd.nn.functional.mish`: ``input * tanh(softplus(input))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input * tanh(softplus(input))``."""
        return F.mish(input, self.inplace)


class Hardswish(_MayOverwrite):
    """Apply :func:`~retrograd.nn.functional.hardswish`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``hardswish(input)``."""
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        """Return nothing, as torch does."""
        return ""


class Hardsigmoid(_MayOverwrite):
    """Apply :func:`~retrograd.nn.functional.hardsigmoid`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``hardsigmoid(input)``."""
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """Return nothing, as torch does."""
        return ""


class _ExponentialBelow(_MayOverwrite):
    """What ELU and CELU share."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def extra_repr(self) -> str:
        """Return the parameters."""
        return self._shown(f"alpha={self.alpha}")


class ELU(_ExponentialBelow):
    """Apply :func:`~retrograd.nn.functional.elu`.

    Parameters
    ----------
    alpha
        Minus the limit at minus infinity.
    inplace
        Overwrite the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return ``elu(input)``."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(_ExponentialBelow):
    """Apply :func:`~retrograd.nn.functional.celu`; the parameters are those of :class:`ELU`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``celu(input)``."""
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(_MayOverwrite):
    """Apply :func:`~retrograd.nn.functional.leaky_relu`.

    Parameters
    ----------
    negative_slope
        What negative inputs are multiplied by.
    inplace
        Overwrite the input.
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        """Return ``leaky_relu(input)``."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Return the parameters."""
        return self._shown(f"negative_slope={self.negative_slope}")


class RReLU(_MayOverwrite):
    """Apply :func:`~retrograd.nn.functional.rrelu`, random in training mode.

    Parameters
    ----------
    lower, upper
        The interval of the random slopes.
    inplace
        Overwrite the input.
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Tensor) -> Tensor:
        """Return ``rrelu(input)``."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the parameters."""
        return self._shown(f"lower={self.lower}, upper={self.upper}")


class Hardtanh(_MayOverwrite):
    """Apply :func:`~retrograd.nn.functional.hardtanh`: clamp to an interval.

    Parameters
    ----------
    min_val, max_val
        Its ends.
    inplace
        Overwrite the input.
    min_value, max_value
        Deprecated names of ``min_val`` and ``max_val``, which they replace.
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        if min_value is not None:
            warn_user("keyword argument `min_value` is deprecated and renamed to `min_val`", FutureWarning)
            min_val = min_value
        if max_value is not None:
            warn_user("keyword argument `max_value` is deprecated and renamed to `max_val`", FutureWarning)
            max_val = max_value
        if max_val <= min_val:
            raise AssertionError(f"max_val must be greater than min_val, but got {min_val} and {max_val}")
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` clamped to the interval."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Return the parameters."""
        return self._shown(f"min_val={self.min_val}, max_val={self.max_val}")


class ReLU6(Hardtanh):
    """Apply :func:`~retrograd.nn.functional.relu6`: clamp to [0, 6]."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Return ``inplace=True`` where that is so."""
        return "inplace=True" if self.inplace else ""


class Threshold(_MayOverwrite):
    """Apply :func:`~retrograd.nn.functional.threshold`.

    Parameters
    ----------
    threshold
        What lies above it stays.
    value
        Everything else becomes this.
    inplace
        Overwrite the input.
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` where it is above the threshold, ``value`` elsewhere."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Return the parameters."""
        return self._shown(f"threshold={self.threshold}, value={self.value}")


class Sigmoid(Module):
    """Apply :func:`~retrograd.nn.functional.sigmoid`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``sigmoid(input)``."""
        return F.sigmoid(input)


class LogSigmoid(Module):
    """Apply :func:`~retrograd.nn.functional.logsigmoid`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``log(sigmoid(input))``."""
        return F.logsigmoid(input)


class Tanh(Module):
    """Apply :func:`~retrograd.nn.functional.tanh`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``tanh(input)``."""
        return F.tanh(input)


class Tanhshrink(Module):
    """Apply :func:`~retrograd.nn.functional.tanhshrink`: ``input - tanh(input)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input - tanh(input)``."""
        return F.tanhshrink(input)


class Softsign(Module):
    """Apply :func:`~retrograd.nn.functional.softsign`: ``input / (1 + abs(input))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input / (1 + abs(input))``."""
        return F.softsign(input)


class Softplus(Module):
    """Apply :func:`~retrograd.nn.functional.softplus`: a smooth ReLU.

    Parameters
    ----------
    beta
        How sharp the bend is.
    threshold
        Above it, ``beta * input`` counts as infinite and the result is the input.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Return ``log(1 + exp(beta * input)) / beta``."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the parameters."""
        return f"beta={self.beta}, threshold={self.threshold}"


class _Shrink(Module):
    """What Softshrink and Hardshrink share."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """Return the parameter."""
        return str(self.lambd)


class Softshrink(_Shrink):
    """Apply :func:`~retrograd.nn.functional.softshrink`.

    Parameters
    ----------
    lambd
        By how much inputs move towards 0.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return ``softshrink(input)``."""
        return F.softshrink(input, self.lambd)


class Hardshrink(_Shrink):
    """Apply :func:`~retrograd.nn.functional.hardshrink`: 0 where the input is between ``-lambd`` and ``lambd``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``hardshrink(input)``."""
        return F.hardshrink(input, self.lambd)


class GELU(Module):
    """Apply :func:`~retrograd.nn.functional.gelu`: the input times the normal distribution function.

    Parameters
    ----------
    approximate
        ``"none"`` or ``"tanh"``.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Return ``gelu(input)``."""
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """Return the parameter."""
        return f"approximate={self.approximate!r}"


class PReLU(Module):
    """Apply :func:`~retrograd.nn.functional.prelu`: a leaky ReLU whose slope is learned.

    Parameters
    ----------
    num_parameters
        1, or the number of channels, the second dimension of the input, each of which has its own slope then.
    init
        What the slopes begin with.

    Attributes
    ----------
    weight
        The slopes, of shape ``(num_parameters,)``.
    """

    weight: Parameter

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to what they began with."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` where it is positive, ``weight * input`` elsewhere."""
        try:
            return F.prelu(input, self.weight)
        except MISFITS as error:
            shape = "..." if self.num_parameters == 1 else f"N, {self.num_parameters}, ..."
            raise misshaped(self, error, input, shape) from None

    def extra_repr(self) -> str:
        """Return the parameter."""
        return f"num_parameters={self.num_parameters}"


class GLU(Module):
    """Apply :func:`~retrograd.nn.functional.glu`: one half of the input times the sigmoid of the other.

    Parameters
    ----------
    dim
        The dimension to halve.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return ``glu(input)``."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the parameter."""
        return f"dim={self.dim}"


class _AlongDim(Module):
    """What softmax and related functions share."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """Return the parameter."""
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """Apply :func:`~retrograd.nn.functional.softmax`.

    Parameters
    ----------
    dim
        Along which the results sum to 1.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return ``softmax(input)``."""
        return F.softmax(input, self.dim)


class Softmin(_AlongDim):
    """Apply :func:`~retrograd.nn.functional.softmin`: the softmax of ``-input``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``softmin(input)``."""
        return F.softmin(input, self.dim)


class LogSoftmax(_AlongDim):
    """Apply :func:`~retrograd.nn.functional.log_softmax`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``log_softmax(input)``."""
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """Apply softmax to the channels of ``(N, C, H, W)`` or ``(C, H, W)``, at every place."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the softmax over the channels."""
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)
