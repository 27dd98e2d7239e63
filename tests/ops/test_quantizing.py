"""Fake quantization beyond the rows of the table: refusals, and training through the rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import retrograd as rg
from tests.parity import check_both_refuse, check_message, parity

WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "integers": lambda m, x: m.fake_quantize_per_tensor_affine(x.long(), 0.1, 0, 0, 15),
    "complex numbers": lambda m, x: m.fake_quantize_per_tensor_affine(x * 1j, 0.1, 0, 0, 15),
    "two scales": lambda m, x: m.fake_quantize_per_tensor_affine(x, m.ones(2), m.zeros(2).int(), 0, 15),
    "an empty range": lambda m, x: m.fake_quantize_per_tensor_affine(x, 0.1, 0, 15, 0),
    "a zero point outside": lambda m, x: m.fake_quantize_per_tensor_affine(x, 0.1, 16, 0, 15),
    "a zero point below": lambda m, x: m.fake_quantize_per_tensor_affine(x, 0.1, -1, 0, 15),
    "half a zero point": lambda m, x: m.fake_quantize_per_tensor_affine(x, 0.1, 0.5, 0, 15),
    "a scale that requires grad": lambda m, x: m.fake_quantize_per_tensor_affine(
        x, m.ones(1, requires_grad=True), m.zeros(1).int(), 0, 15
    ),
    "a number for all channels": lambda m, x: m.fake_quantize_per_channel_affine(x, 0.1, m.zeros(3).int(), 1, 0, 15),
    "scales in double": lambda m, x: m.fake_quantize_per_channel_affine(
        x, m.ones(3).double(), m.zeros(3).int(), 1, 0, 15
    ),
    "long zero points": lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(3), m.zeros(3).long(), 1, 0, 15),
    "too few scales": lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(2), m.zeros(2).int(), 1, 0, 15),
    "too few zero points": lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(3), m.zeros(2).int(), 1, 0, 15),
    "a matrix of scales": lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(3, 1), m.zeros(3).int(), 1, 0, 15),
    "an axis too far": lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(3), m.zeros(3).int(), 2, 0, 15),
    "an axis from the end": lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(3), m.zeros(3).int(), -1, 0, 15),
    "one zero point outside": lambda m, x: m.fake_quantize_per_channel_affine(
        x, m.ones(3), m.tensor([0, 16, 0], dtype=m.int32), 1, 0, 15
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_fake_quantization_refuses_wrong_arguments(mistake: str) -> None:
    check_both_refuse(lambda m: WRONG[mistake](m, m.ones(2, 3)))


def test_errors_of_fake_quantization_say_what_was_wrong() -> None:
    x = rg.ones(2, 3)
    check_message(lambda: rg.fake_quantize_per_tensor_affine(x, 0.1, 20, 0, 15), ["zero_point", "0 to 15", "is 20"])
    check_message(
        lambda: rg.fake_quantize_per_channel_affine(x, rg.ones(3), rg.zeros(3), 5, 0, 15), ["axis", "0 and 1", "is 5"]
    )


@parity
def test_training_through_fake_quantization(m: Any) -> Any:
    """The layer trains with the rounded weights."""
    weight = m.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
    scale, zero_point = m.tensor([0.125, 0.25]), m.zeros(2, dtype=m.int32)
    x, y = m.tensor([[1.0, -2.0, 0.5], [0.25, 1.0, -1.0]]), m.tensor([[1.0, 0.0], [0.0, 1.0]])
    losses = []
    for _ in range(20):
        rounded = m.fake_quantize_per_channel_affine(weight, scale, zero_point, 0, -8, 7)
        hidden = m.fake_quantize_per_tensor_affine(x @ rounded.t(), 0.0625, 0, -128, 127)
        loss = ((hidden - y) ** 2).mean()
        losses.append(loss.detach())
        (g,) = m.autograd.grad(loss, weight)
        with m.no_grad():
            weight -= 0.125 * g
    return [losses, weight]


def test_vmap_of_gradients_of_fake_quantization() -> None:
    x = rg.linspace(-1, 3, 12).reshape(3, 4)

    def loss(x: rg.Tensor) -> rg.Tensor:
        return (rg.fake_quantize_per_tensor_affine(x, 0.25, 1, 0, 7) ** 2).sum()

    expected = rg.stack([rg.func.grad(loss)(row) for row in x])
    assert rg.vmap(rg.func.grad(loss))(x).tolist() == expected.tolist()
    assert rg.func.jvp(loss, (x[0],), (rg.ones(4),))[1].item() == pytest.approx(expected[0].sum().item())
