"""Weight normalisation by a hook; :func:`retrograd.nn.utils.parametrizations.weight_norm` is the newer way."""

from __future__ import annotations

from typing import Any

from retrograd.core.sites import warn_user
from retrograd.core.tensor import Tensor
from retrograd.nn.modules.module import Module
from retrograd.nn.parameter import Parameter, is_lazy
from retrograd.nn.utils._weight_hooks import hook_for, parameter_of, take_hook
from retrograd.nn.utils.parametrizations import _WeightNorm

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook that computes a weight from its length and its direction before every call of a module."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return the weight."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return _WeightNorm(self.dim).forward(g, v)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Put length and direction in the place of a weight."""
        if hook_for(module, WeightNorm, name) is not None:
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        hook = WeightNorm(name, dim)
        weight = parameter_of(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying weight normalization"
            )
        length, direction = _WeightNorm(hook.dim).right_inverse(weight)
        del module._parameters[name]
        module.register_parameter(f"{name}_g", Parameter(length))
        module.register_parameter(f"{name}_v", Parameter(direction))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module).detach()
        delattr(module, self.name)
        for part in ("g", "v"):
            del module._parameters[f"{self.name}_{part}"]
        setattr(module, self.name, Parameter(weight))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the length of a weight, ``<name>_g``, apart from its direction, ``<name>_v`` (Salimans, Kingma, 2016).

    Deprecated: use :func:`retrograd.nn.utils.parametrizations.weight_norm`.

    Parameters
    ----------
    module
        Whose weight it is.
    name
        The name of the weight.
    dim
        There is one length for every index of this dimension; one altogether for None.

    Returns
    -------
    Module
        The module itself.
    """
    warn_user(
        "`retrograd.nn.utils.weight_norm` is deprecated in favor of "
        "`retrograd.nn.utils.parametrizations.weight_norm`, whose state dict has other names.",
        FutureWarning,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo :func:`weight_norm`: the weight keeps its value and is a parameter again.

    Parameters
    ----------
    module, name
        As they were given to :func:`weight_norm`. The module is returned.

    Raises
    ------
    ValueError
        If the weight is not normalised.
    """
    take_hook(module, WeightNorm, name, "weight_norm").remove(module)
    return module
