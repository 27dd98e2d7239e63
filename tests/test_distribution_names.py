"""``rg.distributions`` has every name and every parameter of ``torch.distributions``."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest
import torch
from torch.distributions.kl import _KL_REGISTRY

import retrograd as rg

MODULES = ["", ".constraints", ".transforms", ".constraint_registry", ".kl"]
MORE = {
    ".kl": ["kl_divergence", "register_kl"],
    ".constraint_registry": ["biject_to", "transform_to", "ConstraintRegistry"],
}


def names(module: str) -> list[str]:
    found = importlib.import_module(f"torch.distributions{module}")
    return [*getattr(found, "__all__", []), *MORE.get(module, [])]


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_torch_distributions_exists(module: str) -> None:
    ours = importlib.import_module(f"retrograd.distributions{module}")
    assert names(module)
    assert not [name for name in names(module) if not hasattr(ours, name)]
    assert not [name for name in names(module) if name not in ours.__all__]


CLASSES = [name for name in torch.distributions.__all__ if isinstance(getattr(torch.distributions, name), type)]
FAMILIES = [name for name in CLASSES if hasattr(getattr(torch.distributions, name), "log_prob")]


@pytest.mark.parametrize("name", CLASSES)
def test_distributions_have_the_parameters_and_attributes_of_torch(name: str) -> None:
    theirs, ours = getattr(torch.distributions, name), getattr(rg.distributions, name)

    def parameters(kind: Any) -> list[tuple[str, Any]]:
        found = inspect.signature(kind).parameters.values()
        return [(p.name, p.default if isinstance(p.default, int | float | tuple) else None) for p in found]

    assert parameters(ours) == parameters(theirs)
    own = inspect.signature(theirs).parameters
    public = [attribute for attribute in dir(theirs) if not attribute.startswith("_") and attribute not in own]
    assert not [attribute for attribute in public if not hasattr(ours, attribute)]


@pytest.mark.parametrize("method", ["log_prob", "cdf", "icdf", "rsample", "sample", "enumerate_support", "expand"])
@pytest.mark.parametrize("name", FAMILIES)
def test_methods_of_distributions_have_the_parameters_of_torch(name: str, method: str) -> None:
    theirs, ours = (
        inspect.signature(getattr(getattr(lib, name), method)) for lib in (torch.distributions, rg.distributions)
    )
    assert list(ours.parameters) == list(theirs.parameters)


def test_every_kl_divergence_of_torch_is_registered() -> None:
    ours = rg.distributions

    def known(p: Any, q: Any) -> bool:
        lines = [(a, b) for a in p.__mro__ for b in q.__mro__]
        return any(pair in rg.distributions.kl._formulas for pair in lines)

    pairs = [(getattr(ours, p.__name__), getattr(ours, q.__name__)) for p, q in _KL_REGISTRY]
    assert len(pairs) > 80
    assert not [pair for pair in pairs if not known(*pair)]


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_every_constraint_of_torch_has_a_transform(registry: str) -> None:
    theirs, ours = getattr(torch.distributions, registry), getattr(rg.distributions, registry)
    missing = {kind.__name__ for kind in theirs._registry} - {kind.__name__ for kind in ours._registry}
    assert not missing
