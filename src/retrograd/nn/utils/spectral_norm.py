"""Spectral normalisation by a hook; :func:`retrograd.nn.utils.parametrizations.spectral_norm` is the newer way."""

from __future__ import annotations

from typing import Any

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.tensor import Tensor
from retrograd.nn import functional as F
from retrograd.nn.modules.conv import _ConvTranspose
from retrograd.nn.modules.module import Module
from retrograd.nn.parameter import Parameter, is_lazy
from retrograd.nn.utils._weight_hooks import hook_for, take_hook
from retrograd.ops.matmul import mv, vdot

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook that divides a weight by its largest singular value before every call of a module."""

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """Return the weight as a matrix with a row for each output."""
        return weight.movedim(self.dim, 0).reshape(weight.shape[self.dim], -1)  # a vector, too, is a matrix then

    def _unit(self, vector: Tensor) -> Tensor:
        return F.normalize(vector, dim=0, eps=self.eps)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the weight, after steps of power iteration if asked for."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(self._unit(mv(matrix.mT, u)))
                    u.copy_(self._unit(mv(matrix, v)))
                # the next iteration writes over the vectors, which backward needs
                u, v = u.clone(), v.clone()
        return weight / vdot(u, mv(matrix, v))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Put the weight as it is learned, and the vectors of power iteration, in the place of a weight."""
        if hook_for(module, SpectralNorm, name) is not None:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying spectral normalization"
            )
        matrix = hook.reshape_weight_to_matrix(weight.detach())
        vectors = [hook._unit(matrix.new_empty(length).normal_()) for length in matrix.shape]
        del module._parameters[name]
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.data)
        for part, vector in zip("uv", vectors, strict=True):
            module.register_buffer(f"{name}_{part}", vector)
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in (self.name, *(f"{self.name}_{part}" for part in ("u", "v", "orig"))):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al., 2018).

    :func:`retrograd.nn.utils.parametrizations.spectral_norm` is the newer way. What is learned is ``<name>_orig``, and
    the buffers ``<name>_u`` and ``<name>_v`` follow the singular vectors.

    Parameters
    ----------
    module
        Whose weight it is.
    name
        The name of the weight.
    n_power_iterations
        How many steps of power iteration every call in training mode makes.
    eps
        The least norm to divide by.
    dim
        The dimension of the outputs; 1 for transposed convolutions, 0 for others, by default.

    Returns
    -------
    Module
        The module itself.
    """
    if dim is None:
        dim = 1 if isinstance(module, _ConvTranspose) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo :func:`spectral_norm`: the weight keeps its value and is a parameter again.

    Parameters
    ----------
    module, name
        As they were given to :func:`spectral_norm`. The module is returned.

    Raises
    ------
    ValueError
        If the weight is not normalised.
    """
    take_hook(module, SpectralNorm, name, "spectral_norm").remove(module)
    return module
