"""Printing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retrograd.core.tensor import Tensor


def show_tensor(tensor: Tensor) -> str:
    """The text of ``repr(tensor)``."""
    from retrograd import dtypes, printing

    node = tensor.grad_fn
    return printing.format_tensor(
        tensor.numpy(force=True),
        default_float=dtypes.default_float(),
        default_complex=dtypes.default_complex(),
        requires_grad=tensor.requires_grad,
        grad_fn_name=None if node is None else node.name(),
        device=None if not tensor.is_cuda else str(tensor.device),
    )
