"""Batch normalisation in evaluation mode as part of the layer before it."""

from __future__ import annotations

import copy
from typing import TypeVar

from retrograd.core.tensor import Tensor
from retrograd.creation import ones_like, zeros_like
from retrograd.nn.modules.batchnorm import _BatchNorm
from retrograd.nn.modules.conv import _ConvNd
from retrograd.nn.modules.linear import Linear
from retrograd.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

_Conv = TypeVar("_Conv", bound=_ConvNd)
_Linear = TypeVar("_Linear", bound=Linear)


def _check_evaluated(layer: _ConvNd | Linear, bn: _BatchNorm) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval! Call eval() on both modules first")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None: it does not track statistics")


def fuse_conv_bn_eval(conv: _Conv, bn: _BatchNorm, transpose: bool = False) -> _Conv:
    """Return a copy of a convolution that does what it and the batch normalisation behind it do.

    Parameters
    ----------
    conv, bn
        Both in evaluation mode.
    transpose
        Whether it is a transposed convolution.

    Examples
    --------
    >>> conv, bn = rg.nn.Conv2d(2, 3, 3).eval(), rg.nn.BatchNorm2d(3).eval()
    >>> x = rg.randn(1, 2, 5, 5)
    >>> rg.allclose(rg.nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6)
    True
    """
    _check_evaluated(conv, bn)
    assert bn.running_mean is not None
    assert bn.running_var is not None
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return the weight and the bias of a convolution that normalises, too.

    Parameters
    ----------
    conv_w, conv_b
        Those of the convolution.
    bn_rm, bn_rv, bn_eps, bn_w, bn_b
        Running mean and variance, eps, weight and bias of the batch normalisation.
    transpose
        Whether it is a transposed convolution.
    """
    scale, shift = _affine(conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    sides = [1] * (conv_w.ndim - 2)
    shape = [1, -1, *sides] if transpose else [-1, 1, *sides]
    return _as_parameters(conv_w * scale.reshape(shape), shift, conv_w, conv_b)


def fuse_linear_bn_eval(linear: _Linear, bn: _BatchNorm) -> _Linear:
    """Return a copy of a linear layer that does what it and the batch normalisation behind it do.

    Parameters
    ----------
    linear, bn
        Both in evaluation mode, with as many features, or with one for the normalisation.
    """
    _check_evaluated(linear, bn)
    if bn.num_features not in (1, linear.out_features):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got linear.out_features="
            f"{linear.out_features} and bn.num_features={bn.num_features}"
        )
    assert bn.running_mean is not None
    assert bn.running_var is not None
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Return the weight and the bias of a linear layer that normalises, too.

    Parameters
    ----------
    linear_w, linear_b
        Weight and bias of the layer; the bias may be None.
    bn_rm, bn_rv, bn_eps, bn_w, bn_b
        As for :func:`fuse_conv_bn_weights`.
    """
    scale, shift = _affine(linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    return _as_parameters(linear_w * scale.unsqueeze(-1), shift, linear_w, linear_b)


def _affine(
    bias: Tensor | None, mean: Tensor, var: Tensor, eps: float, weight: Tensor | None, shift: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The factors of the normalisation, and the bias of the fused layer."""
    scale = (ones_like(mean) if weight is None else weight) * (var + eps).rsqrt()
    moved = ((zeros_like(mean) if bias is None else bias) - mean) * scale
    return scale, moved if shift is None else moved + shift


def _as_parameters(
    weight: Tensor, bias: Tensor, old_weight: Tensor, old_bias: Tensor | None
) -> tuple[Parameter, Parameter]:
    like = old_weight if old_bias is None else old_bias
    return (
        Parameter(weight.detach().to(old_weight.dtype), old_weight.requires_grad),
        Parameter(bias.detach().to(like.dtype), old_bias is not None and old_bias.requires_grad),
    )
