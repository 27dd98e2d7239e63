"""Choosing a kernel for attention is accepted and has no effect."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend as TorchBackend

import retrograd as rg
from retrograd.nn.attention import SDPBackend, sdpa_kernel


def test_sdp_backends_have_torchs_names() -> None:
    assert {kernel.name: kernel.value for kernel in SDPBackend} == {
        name: int(kernel) for name, kernel in TorchBackend.__members__.items()
    }


@pytest.mark.parametrize(
    "backends", [SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], (SDPBackend.EFFICIENT_ATTENTION,)]
)
def test_sdpa_kernel_has_no_effect(backends: Any) -> None:
    x = rg.randn(1, 2, 3, 4)

    @sdpa_kernel(backends, set_priority=True)
    def decorated() -> Any:
        return rg.nn.functional.scaled_dot_product_attention(x, x, x)

    with sdpa_kernel(backends):
        inside = rg.nn.functional.scaled_dot_product_attention(x, x, x)
    expected = torch.nn.functional.scaled_dot_product_attention(*[torch.tensor(x.numpy())] * 3)
    assert inside.numpy() == pytest.approx(expected.numpy(), abs=1e-6)
    assert decorated().tolist() == inside.tolist()


def test_sdpa_kernel_refuses_a_string() -> None:
    with (
        pytest.raises(TypeError, match="instance of SDPBackend or a list of SDPBackend instances, got str"),
        sdpa_kernel("math"),
    ):
        pass
