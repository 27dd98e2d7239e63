"""Optimizers that need whole parameters, Adafactor and Muon, take the same steps as torch's."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.optim.problems import assert_same, start, train
from tests.parity import message

ADAFACTOR: list[dict[str, Any]] = [
    {},
    {"lr": 0.05, "beta2_decay": -0.5, "d": 1.5, "weight_decay": 0.1},
    {"lr": 0.5, "eps": (1e-3, 0.1), "maximize": True},
]
MUON: list[dict[str, Any]] = [
    {},
    {"lr": 0.05, "momentum": 0.5, "nesterov": False, "weight_decay": 0.0, "adjust_lr_fn": "original"},
    {"lr": 0.05, "ns_steps": 3, "ns_coefficients": (2.0, -1.5, 0.5), "eps": 1e-3, "adjust_lr_fn": "match_rms_adamw"},
]


@pytest.mark.parametrize("options", ADAFACTOR, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_adafactor_agrees_with_torch(options: dict[str, Any], dtype: str) -> None:
    ours, theirs = start(rg, dtype), start(torch, dtype)
    train(rg.optim.Adafactor(ours, **options), ours)
    train(torch.optim.Adafactor(theirs, **options), theirs)
    assert_same(ours, theirs, dtype)


def matrices(library: Any, dtype: str) -> list[Any]:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((3, 4), (5, 2), (3, 3))]
    return [library.tensor(array, dtype=getattr(library, dtype), requires_grad=True) for array in arrays]


@pytest.mark.parametrize("options", MUON, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_muon_agrees_with_torch(options: dict[str, Any], dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # torch iterates in bfloat16, which NumPy does not have
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    ours, theirs = matrices(rg, dtype), matrices(torch, dtype)
    # near the optimum singular values vanish, and the iterations amplify their rounding errors
    train(rg.optim.Muon(ours, **options), ours, steps=15)
    train(torch.optim.Muon(theirs, **options), theirs, steps=15)
    assert_same(ours, theirs, dtype)


def test_muon_is_close_to_torch_in_bfloat16() -> None:
    ours, theirs = matrices(rg, "float32"), matrices(torch, "float32")
    train(rg.optim.Muon(ours, lr=0.05), ours, steps=5)
    train(torch.optim.Muon(theirs, lr=0.05), theirs, steps=5)
    for mine, torchs in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), torchs.detach().numpy(), atol=0.02)


def test_muon_orthogonalizes() -> None:
    """One step from zero without decay is the update itself, whose singular values are near 1."""
    w = rg.zeros(4, 6, dtype=rg.float64, requires_grad=True)
    (w * rg.randn(4, 6, dtype=rg.float64)).sum().backward()
    rg.optim.Muon([w], lr=1.0, weight_decay=0.0, ns_steps=10).step()
    singular = rg.linalg.svdvals(w.detach()).numpy()
    assert ((singular > 0.5) & (singular < 1.5)).all()


@pytest.mark.parametrize("name", ["Adafactor", "Muon"])
def test_matrixwise_signatures_and_defaults_are_torchs(name: str) -> None:
    ours, theirs = getattr(rg.optim, name), getattr(torch.optim, name)
    mine, torchs = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
    assert {key: (p.kind, p.default) for key, p in mine.items()} == {
        key: (p.kind, p.default) for key, p in torchs.items()
    }
    assert list(mine) == list(torchs)
    optimizer, reference = ours(matrices(rg, "float64")), theirs(matrices(torch, "float64"))
    assert optimizer.defaults == reference.defaults
    assert repr(optimizer) == repr(reference)


@pytest.mark.parametrize("name", ["Adafactor", "Muon"])
def test_matrixwise_state_loads_from_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    ours, theirs = matrices(rg, "float64"), matrices(torch, "float64")
    reference = getattr(torch.optim, name)(theirs, lr=0.05)
    train(reference, theirs, steps=5)
    optimizer = getattr(rg.optim, name)(ours, lr=0.01)
    optimizer.load_state_dict(reference.state_dict())
    assert list(optimizer.state[ours[0]]) == list(reference.state[theirs[0]])
    for mine, torchs in zip(ours, theirs, strict=True):
        mine.data = rg.tensor(torchs.detach().numpy())
    train(optimizer, ours, steps=5, first=5)
    train(reference, theirs, steps=5, first=5)
    assert_same(ours, theirs)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Adafactor", {"lr": -1.0}),
        ("Adafactor", {"beta2_decay": 0.1}),
        ("Adafactor", {"eps": (-1.0, 1e-3)}),
        ("Adafactor", {"eps": (None, -1.0)}),
        ("Adafactor", {"d": 0.5}),
        ("Adafactor", {"weight_decay": -1.0}),
        ("Muon", {"lr": -1.0}),
        ("Muon", {"momentum": -1.0}),
        ("Muon", {"weight_decay": -1.0}),
        ("Muon", {"adjust_lr_fn": "mine"}),
    ],
)
def test_matrixwise_optimizers_refuse_wrong_options(name: str, options: dict[str, Any]) -> None:
    for library in (rg, torch):
        with pytest.raises(ValueError):
            getattr(library.optim, name)(matrices(library, "float64"), **options)


def test_muon_takes_only_matrices() -> None:
    for library in (rg, torch):
        with pytest.raises(ValueError, match="only supports 2D parameters"):
            library.optim.Muon([library.ones(3, requires_grad=True)])
    with pytest.raises(ValueError, match="less than 100"):
        rg.optim.Muon(matrices(rg, "float64"), ns_steps=100)


@pytest.mark.parametrize("name", ["Adafactor", "Muon"])
def test_matrixwise_optimizers_refuse_complex_parameters(name: str) -> None:
    w = rg.ones(2, 2, dtype=rg.complex128, requires_grad=True)
    optimizer = getattr(rg.optim, name)([w])
    w.grad = rg.ones(2, 2, dtype=rg.complex128)
    assert message(optimizer.step) == f"{name} does not support complex parameters"
