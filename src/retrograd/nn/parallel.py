"""Models spread over devices or processes, by their names in torch; there is one of each here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retrograd.nn.modules.data_parallel import DataParallel
from retrograd.nn.modules.module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Return ``module(*inputs, **module_kwargs)``; nothing is split.

    Examples
    --------
    >>> rg.nn.parallel.data_parallel(rg.nn.Linear(3, 2), rg.ones(4, 3)).shape
    retrograd.Size([4, 2])
    """
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """A model that several processes train together. There is one process, so making one is an error."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise ValueError(
            "Default process group has not been initialized: training runs in one process. Leave "
            "DistributedDataParallel out, or use nn.DataParallel, whose state dict has the same names"
        )
