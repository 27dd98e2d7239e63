"""Mixed precision by its names in torch: scaling of losses, which works, and autocast, which leaves dtypes alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, overload

import numpy as np

from retrograd._module_aliases import add_paths
from retrograd.autograd.grad_mode import no_grad
from retrograd.core import state
from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.creation import tensor
from retrograd.device import cuda_is_available, device
from retrograd.dtypes import float32

__all__ = [
    "GradScaler",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "is_autocast_available",
    "is_autocast_enabled",
]

add_paths(__name__, dict.fromkeys(("autocast_mode", "grad_scaler"), __name__))

_LARGEST = float(np.finfo(np.float32).max)  # the scale stays a number of float32, as in torch


class autocast(contextlib.ContextDecorator):  # noqa: N801 (torch's name)
    """A region, or a function, where torch would choose a lower precision for every operation; here, dtypes stay.

    NumPy has no bfloat16, and computes slower in float16 than in float32. So there is nothing to gain, and results are
    those of full precision. A warning says so unless ``enabled`` is False, or unless the device is not there.

    Parameters
    ----------
    device_type
        ``"cpu"`` or ``"cuda"``.
    dtype, cache_enabled
        Accepted; nothing depends on them.
    enabled
        False for a region that is in full precision in torch, too.

    Examples
    --------
    >>> use_amp = rg.cuda.is_available()
    >>> with rg.autocast("cuda", enabled=use_amp):
    ...     (rg.ones(2, 2) @ rg.ones(2, 2)).dtype
    retrograd.float32
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"autocast: expected device_type of type str, got {type(device_type).__name__}")
        self.device = device(device_type).type
        if not enabled:
            return
        if self.device == "cuda" and not cuda_is_available():
            reason = "CUDA is not available"
        else:
            reason = "retrograd computes in the dtypes of its tensors; for half precision, convert them with .half()"
        warn_user(f"autocast is disabled: {reason}")

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *error: object) -> None:
        return None


def is_autocast_available(device_type: str) -> bool:
    """Whether :class:`autocast` changes dtypes on a device: never."""
    device(device_type)
    return False


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether operations are cast now: never."""
    return False


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str = "cpu", cast_inputs: Any = None) -> Any:
    """Decorate ``forward`` of a Function for autocast; here, return it as it is."""
    return fwd if fwd is not None else lambda fwd: fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cpu") -> Any:
    """Decorate ``backward`` of a Function for autocast; here, return it as it is."""
    return bwd if bwd is not None else lambda bwd: bwd


class GradScaler:
    """Multiply a loss, so that small gradients survive in float16, and divide the gradients again before the update.

    The scale adapts: where gradients overflow, the update is left out and the scale gets smaller; after
    ``growth_interval`` updates without overflow it grows.

    Parameters
    ----------
    device
        Where the gradients are. With ``"cuda"``, the default, and no GPU, the scaler warns and disables itself.
    init_scale, growth_factor, backoff_factor, growth_interval
        The scale to begin with, and how it changes.
    enabled
        If False, :meth:`scale` and :meth:`unscale_` change nothing and :meth:`step` just steps.

    Examples
    --------
    >>> w = rg.tensor([1.0], requires_grad=True)
    >>> optimizer, scaler = rg.optim.SGD([w], lr=0.1), rg.amp.GradScaler("cpu")
    >>> scaler.scale((w * 3).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w.detach(), scaler.get_scale()
    (tensor([0.7000]), 65536.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and device == "cuda" and not cuda_is_available():
            warn_user("GradScaler is disabled: CUDA is not available")
            enabled = False
        if growth_factor <= 1.0:
            raise AssertionError(f"growth_factor must be > 1.0, but is {growth_factor}")
        if backoff_factor >= 1.0:
            raise AssertionError(f"backoff_factor must be < 1.0, but is {backoff_factor}")
        self._device = device
        self._enabled = enabled
        self._scale = float(init_scale)
        self._has_scaled = False
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._is_finite: dict[int, bool | None] = {}  # by id of the optimizers unscaled; None: no gradients
        self._stepped: set[int] = set()

    @overload
    def scale(self, outputs: Tensor) -> Tensor: ...
    @overload
    def scale(self, outputs: Iterable[Any]) -> Iterable[Any]: ...
    def scale(self, outputs: Any) -> Any:
        """Return a tensor, or each of an iterable of tensors, times the scale.

        A loss in float16 becomes one in float32, which has room for the product.
        """
        if not self._enabled:
            return outputs
        self._has_scaled = True
        if isinstance(outputs, Tensor):
            if state.monitor is not None and self._scale > 1:  # a scale of at most 1 causes no overflow
                state.monitor.scaling(outputs)
            return outputs * tensor(self._scale, dtype=float32, device=outputs.device)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(map(self.scale, outputs))
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        raise ValueError(f"scale: outputs must be a Tensor or an iterable of Tensors, not {type(outputs).__name__}")

    @no_grad()
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, for example to clip them before the step.

        Raises
        ------
        RuntimeError
            If that was done already since the last :meth:`update`.
        ValueError
            If a gradient is in float16; parameters should be in float32.
        AssertionError
            If no loss was ever scaled.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._stepped:
            raise RuntimeError("unscale_() is being called after step().")
        if id(optimizer) in self._is_finite:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        self._check_has_scaled("unscale_")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if any(grad.dtype.name == "float16" for grad in grads):
            raise ValueError("Attempting to unscale FP16 gradients; keep the parameters in float32.")
        self._is_finite[id(optimizer)] = all(bool(grad.isfinite().all()) for grad in grads) if grads else None
        inverse = float(np.float32(1 / self._scale))
        for grad in grads:
            grad.mul_(inverse)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients if that was not done, and call ``optimizer.step`` if all of them are finite.

        Returns
        -------
        object
            What ``optimizer.step`` returns; None if the update was left out.

        Raises
        ------
        RuntimeError
            If that was done already since the last :meth:`update`, or with a closure.
        AssertionError
            If no loss was ever scaled, or no parameter of the optimizer has a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_has_scaled("step")
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if id(optimizer) not in self._is_finite:
            self.unscale_(optimizer)
        if self._is_finite[id(optimizer)] is None:
            raise AssertionError(
                "No inf checks were recorded for this optimizer: none of its parameters has a gradient."
            )
        self._stepped.add(id(optimizer))
        return optimizer.step(*args, **kwargs) if self._is_finite[id(optimizer)] else None

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale, or set it. To be called once all optimizers have stepped."""
        if not self._enabled:
            return
        self._check_has_scaled("update")
        if new_scale is not None:
            self._scale = float(new_scale)
        elif all(found is None for found in self._is_finite.values()):
            raise AssertionError("No inf checks were recorded prior to update; call step() or unscale_() first.")
        elif False in self._is_finite.values():
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown = self._scale * self._growth_factor
                self._scale = grown if grown <= _LARGEST else self._scale
                self._growth_tracker = 0
        self._is_finite.clear()
        self._stepped.clear()
        if state.monitor is not None:
            state.monitor.scaling(None)

    def _check_has_scaled(self, method: str) -> None:
        """Raise if gradients would be divided by a scale that no loss was multiplied by."""
        if not self._has_scaled:
            raise AssertionError(f"GradScaler.{method}: no loss was scaled; call scaler.scale(loss).backward() first")

    def get_scale(self) -> float:
        """Return the scale; 1.0 if disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """Return by how much the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set by how much the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return by how much the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set by how much the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return after how many updates without overflow the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many updates without overflow the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether the scaler is enabled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the scale and how it changes; nothing if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned.

        Raises
        ------
        RuntimeError
            If that comes from a disabled scaler.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("load_state_dict: the state dict is empty; it comes from a disabled GradScaler")
        self._scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
