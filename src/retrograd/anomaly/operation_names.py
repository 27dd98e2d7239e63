"""One name per operation, whichever library, node or operator name it was met under."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain

# The canonical names, with the other names by which the operation goes. Names that differ only in case, underscores, a
# leading namespace or a trailing overload need no entry.
_ALIASES: dict[str, tuple[str, ...]] = {
    "abs": ("absolute", "fabs"),
    "accumulate_grad": (),
    "acos": ("arccos",),
    "acosh": ("arccosh",),
    "adaptive_avg_pool2d": (),
    "add": ("iadd", "radd"),
    "all": (),
    "amax": (),
    "amin": (),
    "asin": ("arcsin",),
    "atan": ("arctan",),
    "atan2": ("arctan2",),
    "atanh": ("arctanh",),
    "backward_hook_function": (),  # what a full backward hook puts around a module
    "batch_norm": ("native_batch_norm", "cudnn_batch_norm", "batch_norm_stats"),
    "betaln": (),
    "binary_cross_entropy": ("bce_loss",),
    "binary_cross_entropy_with_logits": ("bce_with_logits_loss",),
    "cdist": ("cdist_forward", "distances_by_column", "euclidean_dist"),
    "convolution": ("conv1d", "conv2d", "conv3d"),
    "cholesky": ("cholesky_ex",),
    "clamp": ("clip",),
    "clip_grad_norm": (),
    "clone": ("copy", "lift_fresh"),
    "cosine_similarity": (),
    "cross_entropy": ("cross_entropy_loss",),
    "ctc_loss": ("cudnn_ctc_loss",),
    "det": (),
    "digamma": ("psi",),
    "detach": ("alias",),
    "div": ("truediv", "itruediv", "true_divide", "divide", "idiv"),
    "dot": ("vdot", "vecdot", "inner"),
    "eig": (),
    "eigh": ("eigvalsh", "symeig"),
    "einsum": ("contract",),
    "entr": (),
    "erf": (),
    "erfc": (),
    "erfinv": (),
    "exp": (),
    "exp2": (),
    "expand": ("expand_as", "broadcast_to"),
    "expm1": (),
    "floor_divide": ("floordiv", "ifloordiv", "div_floor"),
    "fmod": (),
    "gaussian_nll_loss": (),
    "gamma": (),
    "getitem": ("index", "index_select", "gather", "take", "take_along_dim", "masked_select", "embedding"),
    "group_norm": ("native_group_norm",),
    "hypot": (),
    "instance_norm": (),
    "inv": ("inverse", "inv_ex"),
    "kl_div": ("kl_div_loss",),
    "layer_norm": ("native_layer_norm",),
    "lgamma": ("gammaln",),
    "linear": ("addmm", "baddbmm"),
    "log": (),
    "log10": (),
    "log1p": (),
    "log2": (),
    "log_softmax": ("log_softmax_backward_data",),
    "logaddexp": (),
    "logdet": (),
    "logit": (),
    "logsigmoid": ("log_sigmoid", "log_sigmoid_forward", "log_expit"),
    "logsumexp": (),
    "lstsq": (),
    "masked_fill": (),
    "lu_factor": ("lu_factor_ex",),
    "matmul": ("mm", "bmm", "mv", "imatmul"),
    "max": (),
    "mean": (),
    "min": (),
    "mse_loss": (),
    "mul": ("imul", "rmul", "multiply"),
    "ndtr": (),
    "ndtri": (),
    "neg": ("negative",),
    "nll_loss": ("nll_loss_forward", "nll_loss2d", "nll_loss_nd"),
    "norm": ("vector_norm", "matrix_norm", "frobenius_norm"),
    "normalize": (),
    "pdist": ("pdist_forward",),
    "permute": ("transpose", "swapaxes", "moveaxis", "t"),
    "pow": ("ipow", "power", "float_power"),
    "prod": (),
    "rdiv": ("rtruediv",),
    "reciprocal": (),
    "remainder": ("mod", "imod"),
    "reshape": ("view", "view_as", "unsafe_view", "flatten", "ravel", "unflatten", "reshape_alias"),
    "rms_norm": (),
    "rpow": (),
    "rsqrt": (),
    "rsub": (),
    "scaled_dot_product_attention": (),
    "select": ("slice", "narrow", "unbind", "split", "chunk", "diagonal", "diagonal_copy"),
    "sigmoid": ("expit",),
    "sinh": (),
    "slogdet": (),
    "softmax": ("softmax_backward_data", "masked_softmax"),
    "softplus": (),
    "solve": (
        "solve_ex",
        "solve_vector",
        "solve_matrices",
        "substitute",
        "lu_solve",
        "cholesky_solve",
        "solve_triangular",
    ),
    "sqrt": (),
    "square": (),
    "squeeze": (),
    "std": ("std_mean",),
    "sub": ("isub", "subtract"),
    "sum": ("sum_to_size", "nansum", "reduce_add"),
    "svd": ("svdvals",),
    "tan": (),
    "tanh": (),
    "to": ("to_copy", "astype", "type_as", "float", "half", "double", "bfloat16"),
    "unsqueeze": ("expand_dims",),
    "var": ("var_mean",),
    "where": ("swhere",),
    "xlog1py": (),
    "xlogy": (),
}

KNOWN = frozenset(_ALIASES)

_CANONICAL = {name.replace("_", ""): name for name in _ALIASES}
_CANONICAL |= {alias.replace("_", ""): name for name, aliases in _ALIASES.items() for alias in aliases}

_NODE = re.compile(r"(?<=.)Backward\w*$")
_CUSTOM = re.compile(r"^GeneratedBackwardFor_(\w+?)(?:_default)?Backward$")  # the node of an operation of torch.library
_OVERLOAD = re.compile(
    r"\.(?:default|out|Tensor|Scalar|self|dim|int|correction|names|complex|unbiased|Dimname|List)\w*$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

TRANSPARENT = frozenset(
    (
        *("backward_hook_function", "clone", "contiguous", "detach", "expand", "getitem", "permute", "reshape"),
        *("select", "squeeze", "to", "unsqueeze"),
    )
)
"""Operations that pass on values unchanged."""


@lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """Return the canonical name of an operation, given as a function, operator, dispatcher entry or graph node.

    Reversed operators keep their own name (``"rsub"``), because their operands come in the other order.

    Examples
    --------
    >>> from retrograd.anomaly.operation_names import canonical
    >>> [canonical(name) for name in ("SqrtBackward0", "aten::_softmax", "aten.div.Tensor", "__truediv__")]
    ['sqrt', 'softmax', 'div', 'div']
    """
    short = stem(name)
    squashed = short.replace("_", "").lower()
    for prefix in ("", "linalg", "special", "scipy"):
        if squashed.startswith(prefix) and squashed[len(prefix) :] in _CANONICAL:
            return _CANONICAL[squashed[len(prefix) :]]
    if squashed.startswith("scaleddotproduct"):
        return "scaled_dot_product_attention"
    return _CAMEL.sub("_", short).lower()


def stem(name: str) -> str:
    """A name without its namespace, its overload, and what marks a node or an in-place form."""
    short = re.split(r"::|\.", _OVERLOAD.sub("", _CUSTOM.sub(r"\1", name)))[-1]
    return re.sub(r"_backward(_data)?$", "", _NODE.sub("", short).strip("_"))


def names_like(name: str, others: Iterable[str]) -> list[str]:
    """The names, of operations or among ``others``, that a misspelt name may stand for; the most similar first."""
    return get_close_matches(stem(name).lower(), {*_ALIASES, *chain(*_ALIASES.values()), *others}, cutoff=0.5)


_NORMALISATIONS = frozenset(("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"))


def is_normalisation(name: str) -> bool:
    """Whether an operation subtracts a mean and divides by a spread."""
    return canonical(name) in _NORMALISATIONS
