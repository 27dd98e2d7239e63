"""Modules with rarely used options: results and gradients agree with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg

RNG = np.random.default_rng(0)
IMAGES, WEIGHT = RNG.normal(size=(2, 3, 5, 4)), RNG.normal(size=(5, 3))
INDICES = np.array([[1, 0], [4, 4]])


def filled(module: Any, lib: Any) -> Any:
    """Give a module parameters that are the same in both libraries."""
    rng = np.random.default_rng(1)
    for param in module.parameters():
        param.data = lib.tensor(rng.normal(size=tuple(param.shape)))
    return module


def transposed(size: list[int]) -> Callable[[Any, Any], Any]:
    return lambda lib, x: filled(lib.nn.ConvTranspose2d(3, 2, 3, (2, 3), 1, dtype=lib.float64), lib)(x, size)


def unpooled(dims: int) -> Callable[[Any, Any], Any]:
    def call(lib: Any, x: Any) -> Any:
        x = x.unsqueeze(0) if dims == 3 else x[0] if dims == 1 else x
        pooled, indices = getattr(lib.nn, f"MaxPool{dims}d")(2, stride=2, return_indices=True)(x)
        unpool = getattr(lib.nn, f"MaxUnpool{dims}d")(2, stride=2)
        return unpool(pooled, indices, output_size=list(x.shape[-dims:]))

    return call


def ctc(**options: Any) -> Callable[[Any, Any], Any]:
    def call(lib: Any, x: Any) -> Any:
        logits = x.permute(2, 0, 1, 3).reshape(5, 2, 12)  # 5 steps of 2 samples
        targets, lengths = lib.tensor([[1, 2, 1], [4, 4, 1]]), (lib.tensor([5, 2]), lib.tensor([3, 3]))
        return lib.nn.CTCLoss(**options)(logits.log_softmax(-1), targets, *lengths)

    return call


def looked_up(layer: str, **options: Any) -> Callable[[Any, Any], Any]:
    def call(lib: Any, x: Any) -> Any:
        made = getattr(lib.nn, layer).from_pretrained(lib.tensor(WEIGHT), **options)
        result = made(lib.tensor(INDICES)) * x[0, 0, 0, 0]
        if not made.weight.requires_grad:
            return result
        (slope,) = lib.autograd.grad((result * result).sum(), made.weight, retain_graph=True)
        return result, slope

    return call


def transferred(lib: Any, x: Any) -> Any:
    parametrize = lib.nn.utils.parametrize

    class Symmetric(lib.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, w: Any) -> Any:
            return w.triu() + w.triu(1).mT

        def right_inverse(self, w: Any) -> Any:
            return w.triu()

    first = filled(lib.nn.Linear(4, 4, dtype=lib.float64), lib)
    second = lib.nn.Linear(4, 4, bias=False, dtype=lib.float64)
    assert parametrize.transfer_parametrizations_and_params(first, second) is second  # there is nothing to transfer yet
    del second.weight
    parametrize.register_parametrization(first, "weight", Symmetric())
    parametrize.transfer_parametrizations_and_params(first, second)
    return second(x), second.parametrizations.weight.original


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "transposed convolution to a size": transposed([10, 11]),
    "transposed convolution to a whole shape": transposed([2, 2, 9, 12]),
    "max_unpool1d": unpooled(1),
    "max_unpool2d": unpooled(2),
    "max_unpool3d": unpooled(3),
    "ctc": ctc(blank=3, reduction="sum"),
    "ctc of an alignment that is impossible": ctc(reduction="none"),
    "ctc of an alignment that is left out": ctc(zero_infinity=True),
    "upsampling by factors": lambda lib, x: lib.nn.Upsample(scale_factor=(2, 1.5), mode="bilinear")(x),
    "nearest upsampling by factors": lambda lib, x: lib.nn.UpsamplingNearest2d(scale_factor=(2, 3))(x),
    "nearest upsampling to a size": lambda lib, x: lib.nn.UpsamplingNearest2d(size=(7, 3))(x),
    "embedding": looked_up("Embedding"),
    "embedding to be trained": looked_up("Embedding", freeze=False, padding_idx=4, scale_grad_by_freq=True),
    "embedding with a largest norm": looked_up("Embedding", freeze=False, max_norm=1.0),
    "bag": looked_up("EmbeddingBag"),
    "bag to be trained": looked_up("EmbeddingBag", mode="sum", freeze=False, padding_idx=4),
    "transferred parametrization": transferred,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rare_options_agree_with_torch(name: str) -> None:
    found = []
    for lib in (torch, rg):
        x = lib.tensor(IMAGES, requires_grad=True)
        result = PROGRAMS[name](lib, x)
        results = result if isinstance(result, tuple) else (result,)
        sum((each * each).nan_to_num(posinf=0.0).sum() for each in results).backward()
        found.append([*(each.detach().numpy() for each in results), x.grad.numpy()])
    for expected, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("size", [[8, 10], [11, 10], [2, 10, 11]])
def test_transposed_convolution_refuses_unreachable_output_sizes(size: list[int]) -> None:
    for lib in (torch, rg):
        with pytest.raises(
            ValueError, match=r"valid sizes range from \[9, 10\] to \[10, 12\]|must have 2 or 4 elements"
        ):
            transposed(size)(lib, lib.tensor(IMAGES))


def test_register_module() -> None:
    module, layer = rg.nn.Module(), rg.nn.ReLU()
    module.register_module("layer", layer)
    module.register_module("none", None)
    assert module.layer is layer
    assert module.none is None
    assert list(module.named_children()) == [("layer", layer)]
    with pytest.raises(KeyError, match=r'contain "\.", got: a\.b'):
        module.register_module("a.b", layer)


@pytest.mark.parametrize(
    ("old", "call"),
    [
        ("init.constant", lambda lib, x: lib.nn.init.constant(x, 3.0)),
        ("clip_grad_norm", lambda lib, x: lib.nn.utils.clip_grad_norm([x], 1.0)),
    ],
)
def test_deprecated_names_warn_and_work(old: str, call: Callable[[Any, Any], Any]) -> None:
    found = []
    for lib in (torch, rg):
        x = lib.nn.Parameter(lib.ones(3))
        x.grad = lib.tensor([3.0, 4.0, 0.0])
        with pytest.warns(FutureWarning, match=rf"{old}\S* is (now )?deprecated"):
            result = call(lib, x)
        found.append([each.detach().numpy() for each in (result, x, x.grad)])
    for expected, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected)
