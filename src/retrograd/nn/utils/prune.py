"""Pruning: weights, or whole channels, that stay zero.

A pruned parameter ``weight`` becomes ``weight_orig``, which is learned, and ``weight_mask``, a buffer of zeros and
ones; a hook computes their product, the attribute ``weight``, before every call of the module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from retrograd.core.renamed_functions import own_methods
from retrograd.core.tensor import Tensor
from retrograd.creation import ones_like
from retrograd.nn.modules.module import Module
from retrograd.nn.utils._pruning import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
)
from retrograd.nn.utils._weight_hooks import hook_for, hooks_of
from retrograd.nn.utils.convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def identity(module: Module, name: str) -> Module:
    """Make a mask of ones for a parameter; nothing is pruned."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune elements of a parameter at random, of those not pruned yet.

    Parameters
    ----------
    amount
        How many; a float is a fraction.
    """
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prune the smallest elements of a parameter, of those not pruned yet.

    Parameters
    ----------
    module, name
        The module, and the name of its parameter.
    amount
        How many; a float is a fraction.
    importance_scores
        What is compared instead of the parameter.

    Returns
    -------
    Module
        The module itself.

    Examples
    --------
    >>> layer = rg.nn.Linear(2, 2)
    >>> layer.weight.data = rg.tensor([[1.0, -0.1], [0.2, 3.0]])
    >>> rg.nn.utils.prune.l1_unstructured(layer, "weight", amount=0.5).weight.detach()
    tensor([[1., -0.],
            [0., 3.]])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune channels of a parameter, along a dimension, at random, of those not pruned yet."""
    RandomStructured.apply(module, name, amount=amount, dim=dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: float | str, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the channels of a parameter, along a dimension, that have the smallest ``n``-norms."""
    LnStructured.apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter where a mask is zero."""
    CustomFromMask.apply(module, name, mask=mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one.

    Parameters
    ----------
    parameters
        Pairs of a module and the name of its parameter.
    pruning_method
        Such as :class:`L1Unstructured`.
    importance_scores
        What is compared instead of the parameters, by the same pairs.
    **kwargs
        What the method is made with, such as ``amount``.

    Examples
    --------
    >>> net = rg.nn.Sequential(rg.nn.Linear(4, 4), rg.nn.Linear(4, 1))
    >>> prune = rg.nn.utils.prune
    >>> pairs = [(net[0], "weight"), (net[1], "weight")]
    >>> prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.5)
    >>> sum(int((layer.weight == 0).sum()) for layer in net)
    10
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    given = {} if importance_scores is None else importance_scores
    if not isinstance(given, Mapping):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = list(parameters)
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of '
            f"type {method.PRUNING_TYPE}"
        )
    values = [getattr(module, name).detach() for module, name in pairs]
    scores = parameters_to_vector([given.get(pair, value) for pair, value in zip(pairs, values, strict=True)])
    before = parameters_to_vector(
        [getattr(module, f"{name}_mask", ones_like(value)) for (module, name), value in zip(pairs, values, strict=True)]
    )
    mask = PruningContainer(method).compute_mask(scores.detach(), before)
    start = 0
    for (module, name), value in zip(pairs, values, strict=True):
        custom_from_mask(module, name, mask[start : start + value.numel()].reshape(value.shape))
        start += value.numel()


def remove(module: Module, name: str) -> Module:
    """Make the pruned value of a parameter its value, for good, without a mask.

    Raises
    ------
    ValueError
        If it is not pruned.
    """
    found = hook_for(module, BasePruningMethod, name, "_tensor_name")
    if found is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    number, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[number]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of a module, or of one in it, is pruned."""
    return any(hooks_of(submodule, BasePruningMethod) for submodule in module.modules())


own_methods(globals(), "__init__")
