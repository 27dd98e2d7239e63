"""A model spread over several devices; here there is one at most, and it gets everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.nn.modules.module import Module

__all__ = ["DataParallel"]


class DataParallel(Module):
    """Call a module, as torch's ``DataParallel`` does without several GPUs.

    The module is at ``.module``, and its names in the state dict begin with ``module.``, so that scripts and state
    dicts made for it can be used as they are.

    Parameters
    ----------
    module
        The model.
    device_ids, output_device, dim
        Accepted for compatibility; nothing is split.

    Examples
    --------
    >>> model = rg.nn.DataParallel(rg.nn.Linear(3, 2))
    >>> model(rg.ones(4, 3)).shape
    retrograd.Size([4, 2])
    >>> list(model.state_dict())
    ['module.weight', 'module.bias']
    """

    module: Module

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return what the module returns."""
        return self.module(*inputs, **kwargs)
