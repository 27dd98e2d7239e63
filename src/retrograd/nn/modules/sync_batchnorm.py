"""Batch normalisation over several processes; here there is one."""

from __future__ import annotations

from typing import Any

from retrograd.core.tensor import Tensor
from retrograd.nn.modules.batchnorm import _BatchNorm
from retrograd.nn.modules.module import Module

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """Normalise every channel of ``(N, C, ...)`` over the batch and its places.

    In torch the batch is that of all processes of a group. Here there is one process, so this is batch normalisation
    for any number of dimensions; models and state dicts that have it can be used as they are.

    Parameters
    ----------
    num_features, eps, momentum, affine, track_running_stats, bias
        As of :class:`BatchNorm1d`.
    process_group
        Kept, and not used.
    """

    _layouts = ("N, C, ...",)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"{self!r}: expected at least 2D input (got {input.ndim}D input)")
        if input.shape[1] == 0:
            raise ValueError(f"{self!r}: number of input channels should be non-zero, got {list(input.shape)}")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Put a :class:`SyncBatchNorm` in the place of every batch normalisation in a module.

        Parameters
        ----------
        module
            Changed in place, and returned; if it is a batch normalisation itself, what replaces it is returned.
        process_group
            For the new modules.

        Examples
        --------
        >>> net = rg.nn.Sequential(rg.nn.Linear(2, 3), rg.nn.BatchNorm1d(3))
        >>> type(rg.nn.SyncBatchNorm.convert_sync_batchnorm(net)[1]).__name__
        'SyncBatchNorm'
        """
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            # the same tensors, so that an optimizer keeps what it has
            converted._parameters.update(module._parameters)
            converted._buffers.update(module._buffers)
            converted.training = module.training
        for name, child in module.named_children():
            converted._modules[name] = cls.convert_sync_batchnorm(child, process_group)
        return converted
