"""Functions of ``torch.nn.functional`` that have no parameters of their own. Written by ``python -m tools.stubs``; do not edit."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from retrograd.core.annotations import TensorOrArray
from retrograd.core.tensor import Tensor
from retrograd.nn import grad as grad
from retrograd.nn._activations import celu as celu
from retrograd.nn._activations import elu as elu
from retrograd.nn._activations import gumbel_softmax as gumbel_softmax
from retrograd.nn._activations import hardsigmoid as hardsigmoid
from retrograd.nn._activations import hardswish as hardswish
from retrograd.nn._activations import hardtanh as hardtanh
from retrograd.nn._activations import leaky_relu as leaky_relu
from retrograd.nn._activations import log_softmax as log_softmax
from retrograd.nn._activations import mish as mish
from retrograd.nn._activations import relu as relu
from retrograd.nn._activations import relu6 as relu6
from retrograd.nn._activations import rrelu as rrelu
from retrograd.nn._activations import rrelu_ as rrelu_
from retrograd.nn._activations import selu as selu
from retrograd.nn._activations import silu as silu
from retrograd.nn._activations import softmax as softmax
from retrograd.nn._activations import softmin as softmin
from retrograd.nn._activations import threshold as threshold
from retrograd.nn._attention import scaled_dot_product_attention as scaled_dot_product_attention
from retrograd.nn._dropout import alpha_dropout as alpha_dropout
from retrograd.nn._dropout import dropout as dropout
from retrograd.nn._dropout import dropout1d as dropout1d
from retrograd.nn._dropout import dropout2d as dropout2d
from retrograd.nn._dropout import dropout3d as dropout3d
from retrograd.nn._dropout import feature_alpha_dropout as feature_alpha_dropout
from retrograd.nn._fractional_pool import fractional_max_pool2d as fractional_max_pool2d
from retrograd.nn._fractional_pool import fractional_max_pool3d as fractional_max_pool3d
from retrograd.nn._linear_losses import linear_cross_entropy as linear_cross_entropy
from retrograd.nn._multi_head import multi_head_attention_forward as multi_head_attention_forward
from retrograd.nn._upsample import upsample as upsample
from retrograd.nn._upsample import upsample_bilinear as upsample_bilinear
from retrograd.nn._upsample import upsample_nearest as upsample_nearest

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

def adaptive_avg_pool1d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor: ...
def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor: ...
def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: int | Sequence[int | None] | None, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: int | Sequence[int | None] | None, *, return_indices: bool
) -> Any: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: int | Sequence[int | None] | None, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: int | Sequence[int | None] | None, *, return_indices: bool
) -> Any: ...
@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: int | Sequence[int | None] | None, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: int | Sequence[int | None] | None, *, return_indices: bool
) -> Any: ...
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor: ...
def avg_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor: ...
def avg_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor: ...
def avg_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor: ...
def batch_norm(
    input: TensorOrArray,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: TensorOrArray | None = None,
    bias: TensorOrArray | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor: ...
def bilinear(
    input1: TensorOrArray, input2: TensorOrArray, weight: TensorOrArray, bias: TensorOrArray | None = None
) -> Tensor: ...
def binary_cross_entropy(
    input: TensorOrArray,
    target: TensorOrArray,
    weight: TensorOrArray | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor: ...
def binary_cross_entropy_with_logits(
    input: TensorOrArray,
    target: TensorOrArray,
    weight: TensorOrArray | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: TensorOrArray | None = None,
) -> Tensor: ...
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor: ...
def channel_shuffle(input: Tensor, groups: int) -> Tensor: ...
def conv1d(
    input: TensorOrArray,
    weight: TensorOrArray,
    bias: TensorOrArray | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor: ...
def conv2d(
    input: TensorOrArray,
    weight: TensorOrArray,
    bias: TensorOrArray | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor: ...
def conv3d(
    input: TensorOrArray,
    weight: TensorOrArray,
    bias: TensorOrArray | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor: ...
def conv_transpose1d(
    input: TensorOrArray,
    weight: TensorOrArray,
    bias: TensorOrArray | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor: ...
def conv_transpose2d(
    input: TensorOrArray,
    weight: TensorOrArray,
    bias: TensorOrArray | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor: ...
def conv_transpose3d(
    input: TensorOrArray,
    weight: TensorOrArray,
    bias: TensorOrArray | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor: ...
def cosine_embedding_loss(
    input1: TensorOrArray,
    input2: TensorOrArray,
    target: TensorOrArray,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor: ...
@overload
def cosine_similarity(x1: TensorOrArray, x2: TensorOrArray, dim: int = 1, eps: float = 1e-08) -> Tensor: ...
@overload
def cosine_similarity(x1: TensorOrArray, x2: TensorOrArray, *, axis: int, eps: float = 1e-08) -> Tensor: ...
def cross_entropy(
    input: TensorOrArray,
    target: TensorOrArray,
    weight: TensorOrArray | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor: ...
def ctc_loss(
    log_probs: TensorOrArray,
    targets: TensorOrArray,
    input_lengths: TensorOrArray,
    target_lengths: TensorOrArray,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor: ...
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor: ...
def embedding(
    input: TensorOrArray,
    weight: TensorOrArray,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor: ...
def embedding_bag(
    input: TensorOrArray,
    weight: TensorOrArray,
    offsets: TensorOrArray | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: TensorOrArray | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor: ...
def fold(
    input: Tensor,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor: ...
def gaussian_nll_loss(
    input: TensorOrArray,
    target: TensorOrArray,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-06,
    reduction: str = "mean",
) -> Tensor: ...
def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor: ...
@overload
def glu(input: Tensor, dim: int = -1) -> Tensor: ...
@overload
def glu(input: Tensor, *, axis: int) -> Tensor: ...
def grid_sample(
    input: TensorOrArray,
    grid: TensorOrArray,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor: ...
def group_norm(
    input: TensorOrArray,
    num_groups: int,
    weight: TensorOrArray | None = None,
    bias: TensorOrArray | None = None,
    eps: float = 1e-05,
) -> Tensor: ...
def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor: ...
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor: ...
def hinge_embedding_loss(
    input: TensorOrArray,
    target: TensorOrArray,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor: ...
def huber_loss(
    input: TensorOrArray,
    target: TensorOrArray,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: TensorOrArray | None = None,
) -> Tensor: ...
def instance_norm(
    input: TensorOrArray,
    running_mean: TensorOrArray | None = None,
    running_var: TensorOrArray | None = None,
    weight: TensorOrArray | None = None,
    bias: TensorOrArray | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor: ...
def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor: ...
def kl_div(
    input: TensorOrArray,
    target: TensorOrArray,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor: ...
def l1_loss(
    input: TensorOrArray,
    target: TensorOrArray,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: TensorOrArray | None = None,
) -> Tensor: ...
def layer_norm(
    input: TensorOrArray,
    normalized_shape: Sequence[int],
    weight: TensorOrArray | None = None,
    bias: TensorOrArray | None = None,
    eps: float = 1e-05,
) -> Tensor: ...
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor: ...
def linear(
    input: TensorOrArray, weight: TensorOrArray, bias: TensorOrArray | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def local_response_norm(
    input: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0
) -> Tensor: ...
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor: ...
def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor: ...
def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor: ...
def margin_ranking_loss(
    input1: TensorOrArray,
    input2: TensorOrArray,
    target: TensorOrArray,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None,
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    ceil_mode: bool,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    return_indices: bool,
) -> Any: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None,
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    ceil_mode: bool,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    return_indices: bool,
) -> Any: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None,
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    ceil_mode: bool,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    return_indices: bool,
) -> Any: ...
def max_unpool1d(
    input: TensorOrArray,
    indices: TensorOrArray,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor: ...
def max_unpool2d(
    input: TensorOrArray,
    indices: TensorOrArray,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor: ...
def max_unpool3d(
    input: TensorOrArray,
    indices: TensorOrArray,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor: ...
def mse_loss(
    input: TensorOrArray,
    target: TensorOrArray,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: TensorOrArray | None = None,
) -> Tensor: ...
def multi_margin_loss(
    input: TensorOrArray,
    target: TensorOrArray,
    p: float = 1,
    margin: float = 1.0,
    weight: TensorOrArray | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor: ...
def multilabel_margin_loss(
    input: TensorOrArray,
    target: TensorOrArray,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor: ...
def multilabel_soft_margin_loss(
    input: TensorOrArray,
    target: TensorOrArray,
    weight: TensorOrArray | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor: ...
def nll_loss(
    input: TensorOrArray,
    target: TensorOrArray,
    weight: TensorOrArray | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor: ...
@overload
def normalize(
    input: TensorOrArray,
    p: float = 2.0,
    dim: int | Sequence[int] | None = 1,
    eps: float = 1e-12,
    out: TensorOrArray | None = None,
) -> Tensor: ...
@overload
def normalize(
    input: TensorOrArray,
    p: float = 2.0,
    *,
    axis: int | Sequence[int] | None,
    eps: float = 1e-12,
    out: TensorOrArray | None = None,
) -> Tensor: ...
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor: ...
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor: ...
@overload
def pairwise_distance(
    x1: TensorOrArray, x2: TensorOrArray, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False
) -> Tensor: ...
@overload
def pairwise_distance(
    x1: TensorOrArray, x2: TensorOrArray, p: float = 2.0, eps: float = 1e-06, *, keepdims: bool
) -> Tensor: ...
def pdist(input: Tensor, p: float = 2.0) -> Tensor: ...
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor: ...
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor: ...
def poisson_nll_loss(
    input: TensorOrArray,
    target: TensorOrArray,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-08,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor: ...
def prelu(input: TensorOrArray, weight: TensorOrArray) -> Tensor: ...
def relu_(input: Tensor) -> Tensor: ...
def rms_norm(
    input: TensorOrArray, normalized_shape: Sequence[int], weight: TensorOrArray | None = None, eps: float | None = None
) -> Tensor: ...
def selu_(input: Tensor) -> Tensor: ...
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def smooth_l1_loss(
    input: TensorOrArray,
    target: TensorOrArray,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor: ...
def soft_margin_loss(
    input: TensorOrArray,
    target: TensorOrArray,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor: ...
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, out: Tensor | None = None) -> Tensor: ...
def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor: ...
def softsign(input: Tensor) -> Tensor: ...
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tanhshrink(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor: ...
def triplet_margin_loss(
    anchor: TensorOrArray,
    positive: TensorOrArray,
    negative: TensorOrArray,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-06,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor: ...
def triplet_margin_with_distance_loss(
    anchor: TensorOrArray,
    positive: TensorOrArray,
    negative: TensorOrArray,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor: ...
def unfold(
    input: Tensor,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor: ...
