"""Operations of the program's own, made by ``torch.library.custom_op``: what they are written in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch._library import custom_ops


def kernel_of(op: Any, args: Sequence[Any]) -> Callable[..., Any] | None:
    """The function in Python that an operation is for such arguments; None if it is none of the program's own.

    The dispatcher calls it where no mode hears of the operations in it.
    """
    if op.namespace in ("aten", "prims"):
        return None
    kernels = getattr(custom_ops.OPDEFS.get(op._name), "_backend_fns", {})
    device = next((each.device.type for each in args if isinstance(each, Tensor)), None)
    return kernels.get(device) or kernels.get(None)
