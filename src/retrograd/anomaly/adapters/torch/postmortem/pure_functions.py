"""Functions of torch that have no side effects and draw no random numbers, so that a call can be computed again."""

from __future__ import annotations

FUNCTIONS = frozenset(  # of torch, or methods of tensors
    (
        *("abs", "acos", "acosh", "add", "addmm", "all", "amax", "amin", "aminmax", "any", "argmax", "argmin"),
        *("argsort", "asin", "asinh", "atan", "atan2", "atanh", "baddbmm", "bincount", "bmm", "bool", "broadcast_to"),
        *("cdist", "ceil", "chunk", "clamp", "clamp_max", "clamp_min", "clip", "clone", "contiguous", "corrcoef"),
        *("cos", "cosh", "count_nonzero", "cov", "cpu", "cross", "cummax", "cumprod", "cumsum", "det", "detach"),
        *("diag", "diag_embed", "diagonal", "diff", "digamma", "div", "dot", "double", "einsum", "eq", "erf", "erfc"),
        *("erfinv", "exp", "exp2", "expand", "expand_as", "expm1", "flatten", "flip", "float", "floor"),
        *("floor_divide", "fmod", "frac", "full_like", "gather", "ge", "gt", "half", "hypot", "index_add"),
        *("index_select", "int", "inverse", "isclose", "isfinite", "isinf", "isnan", "le", "lgamma", "log", "log10"),
        *("log1p", "log2", "log_softmax", "logaddexp", "logcumsumexp", "logdet", "logical_and", "logical_not"),
        *("logical_or", "logit", "logsumexp", "long", "lt", "masked_fill", "masked_select", "matmul", "max", "maximum"),
        *("mean", "median", "min", "minimum", "mm", "movedim", "mul", "multiply", "mv", "nan_to_num", "nansum"),
        *("narrow", "ne", "neg", "new_full", "new_ones", "new_tensor", "new_zeros", "nonzero", "norm", "ones_like"),
        *("outer", "permute", "pow", "prod", "quantile", "reciprocal", "relu", "remainder", "repeat"),
        *("repeat_interleave", "reshape", "reshape_as", "roll", "round", "rsqrt", "scatter", "scatter_add"),
        *("scatter_reduce", "select", "sigmoid", "sign", "sin", "sinh", "softmax", "sort", "split", "sqrt", "square"),
        *("squeeze", "std", "std_mean", "sub", "subtract", "sum", "swapaxes", "t", "take_along_dim", "tan", "tanh"),
        *("tile", "to", "topk", "trace", "transpose", "tril", "triu", "trunc", "type_as", "unbind", "unflatten"),
        *("unfold", "unique", "unsqueeze", "var", "var_mean", "view", "view_as", "where", "xlogy", "zeros_like"),
    )
)
CONSTRUCTORS = frozenset(("arange", "eye", "full", "linspace", "logspace", "ones", "zeros"))  # of torch
LOSSES = frozenset(  # of torch.nn.functional, with parameters (input, target)
    (
        *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "gaussian_nll_loss"),
        *("hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "multi_margin_loss"),
        *("multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss"),
        "soft_margin_loss",
    )
)
LAYERS = LOSSES | frozenset(  # of torch.nn.functional
    (
        *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "avg_pool1d", "avg_pool2d", "celu", "conv1d", "conv2d"),
        *("conv3d", "cosine_embedding_loss", "cosine_similarity", "ctc_loss", "elu", "gelu", "glu", "group_norm"),
        "hardtanh",
        *("interpolate", "layer_norm", "leaky_relu", "linear", "log_softmax", "logsigmoid", "margin_ranking_loss"),
        *("max_pool1d", "max_pool2d", "mish", "normalize", "one_hot", "pad", "pairwise_distance", "relu", "relu6"),
        *("selu", "sigmoid", "silu", "softmax", "softmin", "softplus", "softsign", "tanh", "triplet_margin_loss"),
        "unfold",
    )
)
LINEAR_ALGEBRA = frozenset(  # of torch.linalg
    (
        *("cross", "det", "inv", "lstsq", "matrix_norm", "multi_dot", "norm", "pinv", "slogdet", "solve"),
        *("vecdot", "vector_norm"),
    )
)
