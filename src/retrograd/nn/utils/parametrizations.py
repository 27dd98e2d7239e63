"""Parametrizations for use: weight normalisation, spectral normalisation, orthogonal weights."""

from __future__ import annotations

import functools
from typing import Any

from retrograd.autograd.grad_mode import no_grad
from retrograd.core.tensor import Tensor
from retrograd.legacy import norm_except_dim
from retrograd.nn.modules.conv import _ConvTranspose
from retrograd.nn.modules.module import Module
from retrograd.nn.utils import parametrize
from retrograd.nn.utils._orthogonal import orthogonal
from retrograd.ops.linalg_norms import vector_norm
from retrograd.ops.matmul import mv, vdot

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """A weight as a length and a direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """Return ``weight_v``, scaled to the lengths ``weight_g``."""
        return weight_v * (weight_g / norm_except_dim(weight_v, dim=self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return lengths and directions."""
        weight = weight.detach()
        return norm_except_dim(weight, dim=self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the length of a weight apart from its direction (Salimans, Kingma, 2016).

    Parameters
    ----------
    module
        Whose weight it is.
    name
        The name of the weight; ``parametrizations.<name>.original0`` is the length, ``original1`` the direction. State
        dicts that call them ``<name>_g`` and ``<name>_v`` can be loaded, too.
    dim
        There is one length for every index of this dimension; one altogether for None.

    Returns
    -------
    Module
        The module itself.

    Examples
    --------
    >>> layer = rg.nn.utils.parametrizations.weight_norm(rg.nn.Linear(20, 40))
    >>> layer.parametrizations.weight.original0.shape
    retrograd.Size([40, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(functools.partial(_rename_older, name))
    return module


def _rename_older(name: str, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
    """Let a state dict of :func:`retrograd.nn.utils.weight_norm`, the older form, be loaded."""
    older = [f"{prefix}{name}_{part}" for part in "gv"]
    if all(key in state_dict for key in older):
        for number, key in enumerate(older):
            state_dict[f"{prefix}parametrizations.{name}.original{number}"] = state_dict.pop(key)


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which power iteration follows."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if weight.ndim > 1:
            with no_grad():
                matrix = self._as_matrix(weight.detach())
                for name, length in (("_u", matrix.shape[0]), ("_v", matrix.shape[1])):
                    self.register_buffer(name, self._unit(matrix.new_empty(length).normal_()))
                self._iterate(matrix, 15)

    def _as_matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _unit(self, vector: Tensor) -> Tensor:
        return vector / vector_norm(vector).clamp(min=self.eps)

    @no_grad()
    def _iterate(self, matrix: Tensor, times: int) -> None:
        """Bring the vectors closer to those of the largest singular value."""
        for _ in range(times):
            self._u.copy_(self._unit(mv(matrix, self._v)))
            self._v.copy_(self._unit(mv(matrix.mT, self._u)))

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight, divided."""
        if weight.ndim == 1:
            return self._unit(weight)
        matrix = self._as_matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        # copies: the next iteration writes over the vectors, which backward needs
        return weight / vdot(self._u.clone(), mv(matrix, self._v.clone()))

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the value: to divide again changes nothing."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al., 2018).

    Parameters
    ----------
    module
        Whose weight it is.
    name
        The name of the weight.
    n_power_iterations
        How many steps of power iteration every use in training mode makes.
    eps
        The least norm to divide by.
    dim
        The dimension of the outputs; 1 for transposed convolutions, 0 for others, by default.

    Returns
    -------
    Module
        The module itself.

    Raises
    ------
    ValueError
        If there is no such weight.
    """
    weight = parametrize.tensor_of(module, name)
    if dim is None:
        dim = 1 if isinstance(module, _ConvTranspose) else 0
    return parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
