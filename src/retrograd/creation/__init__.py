"""Creating tensors: from just a shape, a number or a range, and from data."""

from retrograd.creation.conversion import as_tensor, asarray, from_dlpack, from_numpy, frombuffer, tensor
from retrograd.creation.filled import (
    empty,
    empty_like,
    empty_permuted,
    empty_strided,
    eye,
    full,
    full_like,
    ones,
    ones_like,
    scalar_tensor,
    zeros,
    zeros_like,
)
from retrograd.creation.options import (
    contiguous_format,
    get_default_device,
    layout,
    memory_format,
    preserve_format,
    set_default_device,
    strided,
)
from retrograd.creation.ranges import arange, linspace, logspace, tril_indices, triu_indices
from retrograd.creation.storage import UntypedStorage, is_storage

__all__ = [
    "UntypedStorage",
    "arange",
    "as_tensor",
    "asarray",
    "contiguous_format",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eye",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "get_default_device",
    "is_storage",
    "layout",
    "linspace",
    "logspace",
    "memory_format",
    "ones",
    "ones_like",
    "preserve_format",
    "scalar_tensor",
    "set_default_device",
    "strided",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]
