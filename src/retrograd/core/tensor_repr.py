"""Printing."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING

from retrograd.batching import BatchedArray
from retrograd.core.state import local

if TYPE_CHECKING:
    from retrograd.core.tensor import Tensor


def show_tensor(tensor: Tensor) -> str:
    """The text of ``repr(tensor)``."""
    from retrograd import dtypes, printing

    if type(tensor._data) is BatchedArray:
        batch = tensor._data
        every = printing.format_tensor(
            batch.array, default_float=dtypes.default_float(), default_complex=dtypes.default_complex()
        )
        samples = f"shape={list(batch.shape)}, batch={list(batch.hidden)}"
        return f"BatchedTensor({samples}, values=\n{indent(every, '    ')}\n)"
    tangent = None if local.tangents is None else local.tangents.tangent(tensor)
    heading = "Parameter containing:\n" if "_is_param" in tensor.__dict__ else ""
    return heading + printing.format_tensor(
        tensor.numpy(force=True),
        default_float=dtypes.default_float(),
        default_complex=dtypes.default_complex(),
        requires_grad=tensor.requires_grad,
        grad_fn_name=_history_of(tensor),
        tangent=None if tangent is None else show_tensor(tangent),
        device=None if not tensor.is_cuda else str(tensor.device),
        kind="tensor" if (kind := type(tensor).__name__) == "Tensor" else kind,
    )


def _history_of(tensor: Tensor) -> str | None:
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view whose base was illegally written to; the error is raised when it is used
        return "Invalid"
    return None if node is None else node.name()
