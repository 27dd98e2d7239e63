"""Modules that learn the sizes of their parameters from the first input."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.tensor import Tensor
from retrograd.creation import tensor
from retrograd.dtypes import int64
from retrograd.nn.modules.batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    _ChannelNorm,
)
from retrograd.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    _Conv,
    _ConvNd,
    _ConvTranspose,
)
from retrograd.nn.modules.linear import Linear
from retrograd.nn.modules.module import Module
from retrograd.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "LazyModuleMixin",
]


class LazyModuleMixin(Module):
    """Makes a module lazy: its first call initializes its parameters, by what it is called with.

    A subclass derives from this class and from the module it is to become, begins with
    :class:`~retrograd.nn.UninitializedParameter`, and defines :meth:`initialize_parameters`. Make the first call before
    parameters are counted, shared or averaged; an optimizer may be made earlier.

    Attributes
    ----------
    cls_to_become
        The class of the module after the first call; None if it remains what it is.
    """

    cls_to_become: type | None = None
    _is_inferred = False

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes and values, by the arguments of the first call. For subclasses."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether there are parameters or buffers without a shape."""
        return any(map(is_lazy, itertools.chain(self._parameters.values(), self._buffers.values())))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._is_inferred:
            with no_grad():
                self.initialize_parameters(*args, **kwargs)
            if self.has_uninitialized_params():
                raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
            if self.cls_to_become is None:
                self._is_inferred = True
            else:
                self.__class__ = self.cls_to_become
        return Module.__call__(self, *args, **kwargs)

    def _load_tensor(self, name: str, key: str, current: Any, value: Any, assign: bool) -> str | None:
        if is_lazy(current):
            if is_lazy(value):
                return None
            current.materialize(np.shape(value) if not isinstance(value, Tensor) else value.shape)
        return super()._load_tensor(name, key, current, value, assign)


class _Lazy(LazyModuleMixin):
    """A layer whose first call determines one size, on which the shapes of its parameters depend."""

    _size: str  # the attribute that holds this size; 0 until it is known

    def _begin(self, parameters: dict[str, bool], buffers: dict[str, bool], device: Any, dtype: Any) -> None:
        """Create uninitialized parameters and buffers for the names marked as wanted."""
        for names, kind in ((parameters, UninitializedParameter), (buffers, UninitializedBuffer)):
            for name, wanted in names.items():
                if wanted:
                    setattr(self, name, kind(device=device, dtype=dtype))

    def _infer(self, input: Any) -> int:
        """The size, inferred from the first input."""
        raise NotImplementedError

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of parameters and buffers, now that the size is known."""
        raise NotImplementedError

    def _known(self) -> int:
        """The size, from parameters and buffers that have been loaded."""
        raise NotImplementedError

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        """Give parameters and buffers their shapes and values, by the first input."""
        if self.has_uninitialized_params():
            setattr(self, self._size, self._infer(input))
            for name, shape in self._shapes().items():
                if is_lazy(getattr(self, name)):
                    getattr(self, name).materialize(shape)
            self.reset_parameters()
        elif getattr(self, self._size) == 0:
            setattr(self, self._size, self._known())

    def reset_parameters(self) -> None:
        """Draw the parameters anew, if there are any yet."""
        if getattr(self, self._size) != 0 and not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]


class LazyLinear(_Lazy, Linear):
    """A :class:`Linear` whose ``in_features`` is the last dimension of its first input.

    Parameters
    ----------
    out_features
        The length of the last dimension of the output.
    bias
        Whether there is one.

    Examples
    --------
    >>> layer = rg.nn.LazyLinear(3)
    >>> layer
    LazyLinear(in_features=0, out_features=3, bias=True)
    >>> layer(rg.ones(2, 5)).shape
    retrograd.Size([2, 3])
    >>> layer
    Linear(in_features=5, out_features=3, bias=True)
    """

    cls_to_become = Linear
    _size = "in_features"

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self._begin({"weight": True, "bias": bias}, {}, device, dtype)

    def _infer(self, input: Tensor) -> int:
        return input.shape[-1]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}

    def _known(self) -> int:
        return self.weight.shape[1]


# --- convolutions -------------------------------------------------------------------------------------------------


class _LazyConvNd(_Lazy, _ConvNd):
    _size = "in_channels"

    def _start(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        if out_channels % self.groups:
            raise ValueError(
                f"out_channels must be divisible by groups, but {out_channels} is not divisible by {self.groups}"
            )
        self.out_channels = out_channels
        self._begin({"weight": True, "bias": bias}, {}, device, dtype)

    def _infer(self, input: Tensor) -> int:
        n = self.spatial
        if input.ndim not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but got input of "
                f"size: {list(input.shape)}"
            )
        channels = input.shape[-n - 1]
        if channels % self.groups:
            raise ValueError(
                f"in_channels must be divisible by groups, but {channels}, from the input of size "
                f"{list(input.shape)}, is not divisible by {self.groups}"
            )
        return channels

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        channels = (self.out_channels, self.in_channels)
        outer, inner = reversed(channels) if self.transposed else channels
        return {"weight": (outer, inner // self.groups, *self.kernel_size), "bias": (self.out_channels,)}

    def _known(self) -> int:
        outer, inner = self.weight.shape[:2]
        return outer if self.transposed else inner * self.groups


class _LazyConv(_LazyConvNd, _Conv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, bias=False, padding_mode=padding_mode)
        self._start(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A :class:`Conv1d` whose ``in_channels`` is that of its first input; see :class:`LazyConv2d`."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A :class:`Conv2d` whose ``in_channels`` is that of its first input; the other parameters are the same.

    Examples
    --------
    >>> layer = rg.nn.LazyConv2d(8, kernel_size=3)
    >>> layer(rg.ones(1, 3, 5, 5)).shape, layer.in_channels
    (retrograd.Size([1, 8, 3, 3]), 3)
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A :class:`Conv3d` whose ``in_channels`` is that of its first input; see :class:`LazyConv2d`."""

    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyConvNd, _ConvTranspose):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias=False,
            dilation=dilation,
            padding_mode=padding_mode,
        )
        self._start(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A :class:`ConvTranspose1d` whose ``in_channels`` is that of its first input; see :class:`LazyConv2d`."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A :class:`ConvTranspose2d` whose ``in_channels`` is that of its first input; see :class:`LazyConv2d`."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A :class:`ConvTranspose3d` whose ``in_channels`` is that of its first input; see :class:`LazyConv2d`."""

    cls_to_become = ConvTranspose3d


# --- normalisation ------------------------------------------------------------------------------------------------


class _LazyNorm(_Lazy, _ChannelNorm):
    _size = "num_features"

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        tracked = dict.fromkeys(("running_mean", "running_var"), track_running_stats)
        self._begin({"weight": affine, "bias": affine and bias}, tracked, device, dtype)
        if track_running_stats:
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def _infer(self, input: Tensor) -> int:
        self._check_input_dim(input)
        return input.shape[1]

    def _lasting(self) -> dict[str, Tensor]:
        names = ("weight", "bias", "running_mean", "running_var")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(self._lasting(), (self.num_features,))

    def _known(self) -> int:
        return next((value.shape[0] for value in self._lasting().values()), 0)


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A :class:`BatchNorm1d` whose ``num_features`` is that of its first input.

    Examples
    --------
    >>> layer = rg.nn.LazyBatchNorm1d()
    >>> layer(rg.randn(4, 3)).shape, layer.num_features
    (retrograd.Size([4, 3]), 3)
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A :class:`BatchNorm2d` whose ``num_features`` is that of its first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A :class:`BatchNorm3d` whose ``num_features`` is that of its first input."""

    cls_to_become = BatchNorm3d


class _LazyInstanceNorm(_LazyNorm):
    def _infer(self, input: Tensor) -> int:
        self._check_input_dim(input)
        return input.shape[int(input.ndim == self._dimensions[-1])]  # the batch may be missing


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """A :class:`InstanceNorm1d` whose ``num_features`` is that of its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """A :class:`InstanceNorm2d` whose ``num_features`` is that of its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """A :class:`InstanceNorm3d` whose ``num_features`` is that of its first input."""

    cls_to_become = InstanceNorm3d
