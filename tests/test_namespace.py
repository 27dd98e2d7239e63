"""The public names: all of them there, under torch's names, and nothing that should stay inside."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
import torch

import retrograd as rg
import retrograd.nn
import retrograd.special
from retrograd.core.registry import composites, operations

# What torch's namespaces do not have.
ADDITIONS = {"autograd.graph": {"Picture", "draw"}, "func": {"value_and_grad"}, "utils.data": {"WorkerInfo"}}

# torch has them at its top, too, undocumented and mostly with other arguments, such as the reduction as a number.
FUNCTIONAL_ONLY = {
    "batch_norm",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "ctc_loss",
    "embedding",
    "embedding_bag",
    "group_norm",
    "hinge_embedding_loss",
    "instance_norm",
    "kl_div",
    "layer_norm",
    "margin_ranking_loss",
    "poisson_nll_loss",
    "rms_norm",
    "triplet_margin_loss",
}


def test_everything_promised_is_there() -> None:
    assert [name for name in rg.__all__ if not hasattr(rg, name)] == []
    assert len(rg.__all__) == len(set(rg.__all__))


def test_at_least_220_public_functions() -> None:
    functions = {name for name in rg.__all__ if callable(getattr(rg, name)) and not isinstance(getattr(rg, name), type)}
    of_operations = functions & (set(operations) | set(composites))
    assert len(of_operations) >= 220


@pytest.mark.parametrize("name", sorted({**operations, **composites}))
def test_every_operation_can_be_reached(name: str) -> None:
    found: object = rg
    for part in name.split("."):
        found = getattr(found, part, None)
    assert found is not None or hasattr(rg.Tensor, name) or hasattr(rg.nn.functional, name)


@pytest.mark.parametrize("name", sorted(name for name in {**operations, **composites} if "." not in name))
def test_torchs_functions_are_functions_here(name: str) -> None:
    if hasattr(torch, name):
        assert hasattr(rg.nn.functional if name in FUNCTIONAL_ONLY else rg, name)
    if hasattr(torch.Tensor, name):
        assert hasattr(rg.Tensor, name)


@pytest.mark.parametrize(
    "module",
    [
        "linalg",
        "fft",
        "special",
        "nn.functional",
        "autograd.graph",
        "autograd.function",
        "autograd.functional",
        "func",
        "autograd.variable",
        "utils.checkpoint",
        "utils.data",
        "optim",
        "optim.lr_scheduler",
    ],
)
def test_namespaces(module: str) -> None:
    ours: ModuleType = importlib.import_module(f"retrograd.{module}")
    assert [name for name in ours.__all__ if not hasattr(ours, name)] == []
    theirs = importlib.import_module(f"torch.{module}")
    strangers = {name for name in ours.__all__ if not hasattr(theirs, name)}
    assert strangers == ADDITIONS.get(module, set())


def test_special_is_imported_when_first_used() -> None:
    assert rg.special is retrograd.special
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        rg.nonsense  # noqa: B018
