"""Batch and instance normalisation, with running statistics."""

from __future__ import annotations

from typing import Any

from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.creation import empty, ones, tensor, zeros
from retrograd.dtypes import int64
from retrograd.nn import functional as F
from retrograd.nn.modules._errors import MISFITS, in_words, misshaped
from retrograd.nn.modules.module import Module
from retrograd.nn.modules.normalization import reset_affine
from retrograd.nn.parameter import Parameter

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
]


class _ChannelNorm(Module):
    """Affine parameters and running statistics per channel; see :class:`BatchNorm1d`."""

    _version = 2
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    # the numbers of dimensions an input may have, and their names
    _dimensions: tuple[int, ...]
    _layouts: tuple[str, ...] = ("N, C, ...",)  # as patterns of :mod:`_errors`, C for the channels

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: Any,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        factory = {"device": device, "dtype": dtype}
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, Parameter(empty(num_features, **factory)) if wanted else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **factory) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **factory) if tracked else None)
        self.register_buffer("num_batches_tracked", tensor(0, dtype=int64, device=device) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget what was tracked."""
        if self.track_running_stats:
            assert self.running_mean is not None
            assert self.running_var is not None
            assert self.num_batches_tracked is not None
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set the weight to 1, the bias to 0, and forget what was tracked."""
        self.reset_running_stats()
        reset_affine(self.weight, self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self._dimensions:
            expected = " or ".join(f"{ndim}D" for ndim in self._dimensions)
            raise ValueError(
                f"{self!r} expects {in_words(*self._layouts)}: expected {expected} input "
                f"(got {input.ndim}D input of shape {list(input.shape)})"
            )

    def _misfit(self, error: Exception, input: Any) -> Exception:
        return misshaped(self, error, input, *self._input_shapes())

    def _input_shapes(self) -> list[str]:
        """The allowed input shapes, as patterns."""
        return [layout.replace("C", str(self.num_features)) for layout in self._layouts]

    def extra_repr(self) -> str:
        """Return the parameters."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: Any
    ) -> None:
        """Version 1 did not count batches: the count stays as it is, also for a plain dict, which has no version."""
        key = f"{prefix}num_batches_tracked"
        if local_metadata.get("version") in (None, 1) and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            state_dict[key] = tensor(0, dtype=int64) if count is None else count
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *reports)


class _BatchNorm(_ChannelNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def _stop_tracking(self) -> None:
        """Stop keeping running statistics; see :func:`retrograd.func.replace_all_batch_norm_modules_`."""
        self.track_running_stats = False
        self.running_mean = self.running_var = self.num_batches_tracked = None

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input; in training mode, update the running statistics."""
        self._check_input_dim(input)
        weight_of_batch = 0.0 if self.momentum is None else self.momentum
        tracks = self.training and self.track_running_stats
        if tracks and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                weight_of_batch = 1.0 / float(self.num_batches_tracked.item())
        # without running statistics, evaluation mode normalises by the batch, too
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        uses_running = not self.training or self.track_running_stats
        try:
            return F.batch_norm(
                input,
                self.running_mean if uses_running else None,
                self.running_var if uses_running else None,
                self.weight,
                self.bias,
                by_batch,
                weight_of_batch,
                self.eps,
            )
        except MISFITS as error:
            raise self._misfit(error, input) from None


class BatchNorm1d(_BatchNorm):
    """Normalise every channel of ``(N, C)`` or ``(N, C, L)`` over the batch (Ioffe, Szegedy, 2015).

    Parameters
    ----------
    num_features
        The number of channels.
    eps
        Added to the variance.
    momentum
        The weight of a new batch in the running statistics; None gives every batch the same weight.
    affine
        Whether there is a weight and a bias.
    track_running_stats
        Whether there are running statistics, which evaluation mode uses.
    bias
        Whether there is a bias.

    Attributes
    ----------
    weight, bias
        Of shape ``(num_features,)``, 1 and 0 to begin with, or None.
    running_mean, running_var, num_batches_tracked
        Buffers, or None.
    """

    _dimensions = (2, 3)
    _layouts = ("N, C", "N, C, L")


class BatchNorm2d(_BatchNorm):
    """Normalise every channel of ``(N, C, H, W)`` over the batch and its places; see :class:`BatchNorm1d`."""

    _dimensions = (4,)
    _layouts = ("N, C, H, W",)


class BatchNorm3d(_BatchNorm):
    """Normalise every channel of ``(N, C, D, H, W)`` over the batch and its places; see :class:`BatchNorm1d`."""

    _dimensions = (5,)
    _layouts = ("N, C, D, H, W",)


class _InstanceNorm(_ChannelNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        self._check_input_dim(input)
        batched = input.ndim == self._dimensions[-1]
        if input.shape[int(batched)] != self.num_features and not self.affine:
            warn_user(
                f"{self!r}: the input has {input.shape[int(batched)]} channels, not num_features, which is not used "
                "because affine=False"
            )
        elif input.shape[int(batched)] != self.num_features:
            raise ValueError(
                f"{self!r} expects an input of shape {in_words(*self._input_shapes())}, got {list(input.shape)}"
            )
        try:
            result = F.instance_norm(
                input if batched else input.unsqueeze(0),
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                self.training or not self.track_running_stats,
                0.0 if self.momentum is None else self.momentum,
                self.eps,
            )
        except MISFITS as error:
            raise self._misfit(error, input) from None
        return result if batched else result.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Normalise every channel of every sample (Ulyanov et al., 2016), for ``(N, C, L)`` or ``(C, L)``."""

    _dimensions = (2, 3)
    _layouts = ("C, L", "N, C, L")


class InstanceNorm2d(_InstanceNorm):
    """Normalise every channel of every sample, for ``(N, C, H, W)`` or ``(C, H, W)``."""

    _dimensions = (3, 4)
    _layouts = ("C, H, W", "N, C, H, W")


class InstanceNorm3d(_InstanceNorm):
    """Normalise every channel of every sample, for ``(N, C, D, H, W)`` or ``(C, D, H, W)``."""

    _dimensions = (4, 5)
    _layouts = ("C, D, H, W", "N, C, D, H, W")
