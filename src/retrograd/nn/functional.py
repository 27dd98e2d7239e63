"""Functions of ``torch.nn.functional`` that have no parameters of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrograd.nn import grad as grad  # where torch has it, too
from retrograd.nn._activations import (
    celu,
    elu,
    gumbel_softmax,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    mish,
    relu,
    relu6,
    rrelu,
    rrelu_,
    selu,
    silu,
    softmax,
    softmin,
    threshold,
)
from retrograd.nn._attention import scaled_dot_product_attention
from retrograd.nn._dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from retrograd.nn._fractional_pool import fractional_max_pool2d, fractional_max_pool3d
from retrograd.nn._linear_losses import linear_cross_entropy
from retrograd.nn._multi_head import multi_head_attention_forward
from retrograd.nn._resampling import upsample, upsample_bilinear, upsample_nearest
from retrograd.ops.activations import (
    celu_,
    elu_,
    gelu,
    glu,
    hardshrink,
    hardtanh_,
    leaky_relu_,
    logsigmoid,
    prelu,
    relu_,
    selu_,
    sigmoid,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold_,
)
from retrograd.ops.adaptive_pool import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from retrograd.ops.batch_norm import batch_norm, instance_norm
from retrograd.ops.class_losses import cross_entropy, nll_loss
from retrograd.ops.conv import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from retrograd.ops.ctc import ctc_loss
from retrograd.ops.distances import pdist
from retrograd.ops.embedding import embedding, embedding_bag, one_hot
from retrograd.ops.grid_sampling import affine_grid, grid_sample
from retrograd.ops.interpolate import interpolate
from retrograd.ops.linalg_norms import cosine_similarity, pairwise_distance
from retrograd.ops.linear import bilinear, linear
from retrograd.ops.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from retrograd.ops.margin_losses import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from retrograd.ops.norm_layers import group_norm, layer_norm, local_response_norm, normalize, rms_norm
from retrograd.ops.pool import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from retrograd.ops.rearranging import pad
from retrograd.ops.trigonometric import tanh
from retrograd.ops.unfold import channel_shuffle, fold, pixel_shuffle, pixel_unshuffle, unfold

if TYPE_CHECKING:  # layers are there already for kernels that are not yet

    def __getattr__(name: str) -> Any: ...


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]
