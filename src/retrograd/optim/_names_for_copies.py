"""What optimizers that began as copies of torch's import from ``torch.optim.optimizer``.

Steps are neither compiled nor captured here, and each optimizer has one implementation, so most of it is simple.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from retrograd.autograd.grad_mode import set_grad_enabled
from retrograd.core.tensor import Tensor
from retrograd.dtypes import dtype as DType
from retrograd.dtypes import float32, float64, get_default_dtype
from retrograd.ops.complex import view_as_real

F = TypeVar("F", bound=Callable[..., Any])

# Paragraphs for docstrings.
_params_doc = "params (iterable): parameters, or pairs of names and parameters, or groups of parameters as dicts"
_foreach_doc = "foreach (bool, optional): accepted, without effect"
_fused_doc = "fused (bool, optional): accepted, without effect"
_capturable_doc = "capturable (bool, optional): accepted, without effect"
_differentiable_doc = "differentiable (bool, optional): whether the step itself is recorded (default: False)"
_maximize_doc = "maximize (bool, optional): whether to go along the gradient instead of against it (default: False)"


def _use_grad_for_differentiable(step: F) -> F:
    """A ``step`` that is recorded only if the optimizer has the option ``differentiable``."""

    @functools.wraps(step)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return call  # type: ignore[return-value]


def _get_value(x: Any) -> Any:
    """The number in a tensor."""
    return x.item() if isinstance(x, Tensor) else x


def _to_scalar(x: Any) -> Any:
    """An option without dimensions, if it is a tensor."""
    return x.squeeze() if isinstance(x, Tensor) and x.ndim else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[F], F]:
    return lambda function: function


def _default_to_fused_or_foreach(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Whether a step is one kernel, and whether it works on lists: the loop over parameters is as fast."""
    return False, False


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    raise RuntimeError("`fused=True` is not supported: there is one implementation of a step; leave fused= out")


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return []


def _get_scalar_dtype(is_fused: bool | None = None) -> DType:
    """The dtype of counted steps."""
    return float64 if get_default_dtype() == float64 and not is_fused else float32


def _view_as_real(params: list[Any], *state_and_grads: list[Any]) -> None:
    """Put real views in the place of complex parameters, and of what belongs to them."""
    for position, param in enumerate(params):
        if param.is_complex():
            for tensors in (params, *state_and_grads):
                tensors[position] = view_as_real(tensors[position])
