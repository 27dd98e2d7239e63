"""Modules as functions of their parameters, under an older name; see :mod:`retrograd.func`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.func import functional_call as call
from retrograd.nn.modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Do as :func:`retrograd.func.functional_call`, with a warning to use that."""
    warn_user(
        "retrograd.nn.utils.stateless.functional_call is deprecated; use retrograd.func.functional_call, which does "
        "the same",
        FutureWarning,
    )
    return call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
