"""The program's own operations, made by ``torch.library.custom_op``: their Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch._library import custom_ops


def kernel_of(op: Any, args: Sequence[Any]) -> Callable[..., Any] | None:
    """The Python function that implements an operation for such arguments; None if it is not the program's own.

    The dispatcher calls it below all modes, so that these do not see the operations in it.
    """
    if op.namespace in ("aten", "prims"):
        return None
    kernels = getattr(custom_ops.OPDEFS.get(op._name), "_backend_fns", {})
    device = next((each.device.type for each in args if isinstance(each, Tensor)), None)
    return kernels.get(device) or kernels.get(None)
