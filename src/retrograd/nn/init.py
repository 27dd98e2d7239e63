"""Values for parameters to begin with. Every function overwrites its tensor, unrecorded, and returns it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor, wrap
from retrograd.dtypes import float16
from retrograd.ops._checks import check_number
from retrograd.random import Generator, randperm
from retrograd.random.generator import generator_of
from retrograd.random.in_place import module_of

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

_GAINS: dict[str, float] = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d", "sigmoid"), 1),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 1),
    "tanh": 5 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return by how much a nonlinearity makes up for: the recommended factor of a standard deviation.

    Parameters
    ----------
    nonlinearity
        The name of its function in :mod:`retrograd.nn.functional`, or of a layer, which has 1.
    param
        The negative slope of ``"leaky_relu"``; 0.01 by default.

    Raises
    ------
    ValueError
        If the name is unknown.

    Examples
    --------
    >>> rg.nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        if param is None:
            return math.sqrt(2.0 / (1 + 0.01**2))
        if isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + param**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}; known are {', '.join([*_GAINS, 'leaky_relu'])}")
    return _GAINS[nonlinearity]


# --- plain ------------------------------------------------------------------------------------------------------------


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Overwrite a tensor with samples from the uniform distribution on [a, b).

    Examples
    --------
    >>> w = rg.nn.init.uniform_(rg.empty(3, 5), -1, 1)
    >>> bool((w.abs() <= 1).all())
    True
    """
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Overwrite a tensor with samples from the normal distribution."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Overwrite a tensor with samples from the normal distribution, restricted to [a, b].

    Parameters
    ----------
    tensor
        What is overwritten, and returned.
    mean, std
        Those of the distribution before it is restricted.
    a, b
        The bounds, in the units of the samples and not of ``std``.
    generator
        Where the numbers come from; by default the default generator.

    Raises
    ------
    RuntimeError
        If ``a`` is above ``b``.
    """
    mean, std = check_number("trunc_normal_", "mean", mean), check_number("trunc_normal_", "std", std)
    if a > b:
        raise RuntimeError(f"trunc_normal_ expects an interval [a, b], but got a={a:g} > b={b:g}")
    rng: Any = generator_of("trunc_normal_", generator).on(module_of(tensor._data))
    low, high = (a - mean) / std, (b - mean) / std
    samples = _truncated(rng, low, high, tensor.numel()).reshape(tensor.shape)
    return tensor.copy_(wrap((samples * std + mean).astype(tensor._data.dtype))).clamp_(min=a, max=b)


def _truncated(rng: Any, low: float, high: float, size: int) -> Any:
    """Standard normal samples from [low, high], by rejection."""
    peak = min(max(0.0, low), high)  # where the density is largest
    # what lies further from the peak has less than exp(-40) of its density
    reach = math.sqrt(peak * peak + 80)
    low, high = max(low, -reach), min(high, reach)
    # the normal distribution itself proposes where it often hits the interval, the uniform one elsewhere
    normal = low < 0.5 and high > -0.5 and high - low > 1
    found = [rng.random(0)]
    missing = size
    while missing > 0:
        count = 2 * missing + 16
        if normal:
            x = rng.standard_normal(count)
            x = x[(x >= low) & (x <= high)]
        else:
            x = rng.uniform(low, high, count)
            x = x[rng.random(count) < np.exp((peak * peak - x * x) / 2)]
        found.append(x)
        missing -= x.size
    return np.concatenate(found)[:size]


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Overwrite a tensor with one number."""
    return tensor.fill_(val)


@no_grad()
def ones_(tensor: Tensor) -> Tensor:
    """Overwrite a tensor with 1."""
    return tensor.fill_(1.0)


@no_grad()
def zeros_(tensor: Tensor) -> Tensor:
    """Overwrite a tensor with 0."""
    return tensor.zero_()


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Overwrite a matrix with the identity.

    Raises
    ------
    ValueError
        If the tensor is not a matrix.
    """
    if tensor.ndim != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got shape {list(tensor.shape)}")
    tensor.zero_()
    tensor.diagonal().fill_(1.0)
    return tensor


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Overwrite the weight of a convolution so that it hands as many channels as possible through unchanged.

    Parameters
    ----------
    groups
        In how many groups of channels the convolution works.

    Raises
    ------
    ValueError
        If the tensor has not 3, 4 or 5 dimensions, or if its first is not a multiple of ``groups``.
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError(f"Only tensors with 3, 4, or 5 dimensions are supported, got shape {list(tensor.shape)}")
    if tensor.shape[0] % groups:
        raise ValueError(f"dim 0 must be divisible by groups, but {tensor.shape[0]} is not divisible by {groups}")
    out_channels = tensor.shape[0] // groups
    middle = tuple(length // 2 for length in tensor.shape[2:])
    tensor.zero_()
    for group in range(groups):
        for channel in range(min(out_channels, tensor.shape[1])):
            tensor[(group * out_channels + channel, channel, *middle)] = 1.0
    return tensor


# --- keeping the variance from layer to layer -------------------------------------------------------------------------


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output depends on, and how many outputs an input contributes to."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, "
            f"got shape {list(tensor.shape)}"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {list(modes)}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Overwrite a weight with uniform samples of variance ``2 * gain**2 / (fan_in + fan_out)`` (Glorot, Bengio, 2010).

    Raises
    ------
    ValueError
        If the tensor has fewer than 2 dimensions.
    """
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -math.sqrt(3.0) * std, math.sqrt(3.0) * std, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Overwrite a weight with normal samples of variance ``2 * gain**2 / (fan_in + fan_out)`` (Glorot, Bengio, 2010).

    Raises
    ------
    ValueError
        If the tensor has fewer than 2 dimensions.
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def _kaiming(fill: Callable[[float], Tensor], tensor: Tensor, a: float, mode: str, nonlinearity: str) -> Tensor:
    """Fill with a standard deviation of ``gain / sqrt(fan)``."""
    if 0 in tensor.shape:
        warn_user("Initializing zero-element tensors is a no-op")
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    return fill(calculate_gain(nonlinearity, a) / math.sqrt(fan))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Overwrite a weight with uniform samples of variance ``gain**2 / fan`` (He et al., 2015).

    Parameters
    ----------
    a
        The negative slope of the leaky ReLU that follows.
    mode
        ``"fan_in"`` keeps the variance of what goes forward, ``"fan_out"`` that of gradients.
    nonlinearity
        What follows; see :func:`calculate_gain`.

    Raises
    ------
    ValueError
        If the tensor has fewer than 2 dimensions, or if a name is unknown.
    """
    root = math.sqrt(3.0)
    return _kaiming(lambda std: uniform_(tensor, -root * std, root * std, generator), tensor, a, mode, nonlinearity)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Overwrite a weight with normal samples of variance ``gain**2 / fan``; see :func:`kaiming_uniform_`."""
    return _kaiming(lambda std: normal_(tensor, 0.0, std, generator), tensor, a, mode, nonlinearity)


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Overwrite a tensor with a random matrix of orthonormal rows or columns, times ``gain`` (Saxe et al., 2013).

    What comes after the first dimension counts as one.

    Raises
    ------
    ValueError
        If the tensor has fewer than 2 dimensions.
    NotImplementedError
        If it is of half precision.
    """
    if tensor.ndim < 2:
        raise ValueError(f"Only tensors with 2 or more dimensions are supported, got shape {list(tensor.shape)}")
    if tensor.numel() == 0:
        return tensor
    if tensor.dtype == float16:
        raise NotImplementedError("\"orthogonal_\" not implemented for 'float16'; fill a float32 tensor and convert it")
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    flat = tensor.new_empty(rows, columns).normal_(generator=generator)._data
    q, r = np.linalg.qr(flat.T if rows < columns else flat)
    q = q * np.sign(np.diagonal(r))  # uniformly distributed (Mezzadri, 2006)
    q = q.T if rows < columns else q
    return tensor.copy_(wrap(gain * q.reshape(tensor.shape)))


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Overwrite a matrix with normal samples, of which a fraction in every column is 0 (Martens, 2010).

    Parameters
    ----------
    sparsity
        The fraction of every column that is 0.
    std
        The standard deviation of the others.

    Raises
    ------
    ValueError
        If the tensor is not a matrix.
    """
    if tensor.ndim != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got shape {list(tensor.shape)}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0.0, std, generator=generator)
    for column in range(columns):
        tensor[randperm(rows, generator=generator)[:zeros], column] = 0
    return tensor


def _under_its_older_name(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    new = function.__name__
    old = new.removesuffix("_")

    def deprecated(*args: Any, **kwargs: Any) -> Tensor:
        warn_user(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning)
        return function(*args, **kwargs)

    functools.update_wrapper(deprecated, function)
    deprecated.__name__ = deprecated.__qualname__ = old
    deprecated.__doc__ = f"Do as :func:`{new}`, with a warning to use that."
    return deprecated


uniform = _under_its_older_name(uniform_)
normal = _under_its_older_name(normal_)
constant = _under_its_older_name(constant_)
eye = _under_its_older_name(eye_)
dirac = _under_its_older_name(dirac_)
xavier_uniform = _under_its_older_name(xavier_uniform_)
xavier_normal = _under_its_older_name(xavier_normal_)
kaiming_uniform = _under_its_older_name(kaiming_uniform_)
kaiming_normal = _under_its_older_name(kaiming_normal_)
orthogonal = _under_its_older_name(orthogonal_)
sparse = _under_its_older_name(sparse_)
