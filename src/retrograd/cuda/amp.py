"""Mixed precision on GPUs, by the older names for :mod:`retrograd.amp`."""

from __future__ import annotations

from typing import Any

from retrograd import amp as _amp
from retrograd._module_aliases import add_paths
from retrograd.amp import custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

add_paths(__name__, dict.fromkeys(("autocast_mode", "grad_scaler"), __name__))


class autocast(_amp.autocast):  # noqa: N801 (torch's name)
    """:class:`retrograd.amp.autocast` for ``"cuda"``."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_amp.GradScaler):
    """:class:`retrograd.amp.GradScaler` for ``"cuda"``."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
