"""The adaptive softmax, compared with torch and with a full softmax."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.nn.twins import assert_alike, twins
from tests.parity import attempt


def build(nn: Any) -> Any:
    return nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True)


def x(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


@pytest.mark.parametrize("targets", [[0, 5, 11, 3, 7, 2], [0, 1, 2, 0, 1, 2], [11, 10, 9, 8, 7, 11]])
def test_adaptive_softmax_agrees_with_torch(targets: list[int]) -> None:
    assert_alike(build, x(6, 8), np.array(targets))


def test_adaptive_softmax_of_one_sample() -> None:
    assert_alike(build, x(8), np.array(6))


def test_log_prob_and_predict_agree_with_torch() -> None:
    theirs, ours = twins(build)
    for scale in (0.1, 1.0, 30.0):
        a, b = torch.tensor(x(20, 8) * scale), rg.tensor(x(20, 8) * scale)
        # the logarithm of nearly 1 is what is left of larger numbers, and is exact only in their last place
        mine, other = ours.log_prob(b).detach().numpy(), theirs.log_prob(a).detach().numpy()
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-14)
        assert ours.predict(b).tolist() == theirs.predict(a).tolist()


def test_log_prob_is_a_distribution_and_gives_the_loss() -> None:
    _, layer = twins(build)
    inputs, targets = rg.tensor(x(6, 8)), rg.tensor([0, 5, 11, 3, 7, 2])
    log_prob = layer.log_prob(inputs)
    np.testing.assert_allclose(log_prob.exp().sum(1).detach().numpy(), np.ones(6), rtol=1e-12)
    output, loss = layer(inputs, targets)
    np.testing.assert_allclose(
        output.detach().numpy(), log_prob.gather(1, targets.unsqueeze(1)).squeeze(1).detach().numpy()
    )
    assert rg.allclose(loss, -output.mean())


def test_adaptive_softmax_refuses_wrong_inputs() -> None:
    theirs, ours = twins(build)

    def calls(layer: Any, m: Any) -> list[Any]:
        def ones(*shape: int) -> Any:
            return m.ones(*shape, dtype=m.float64)

        return [
            attempt(lambda: layer(ones(2, 8), m.tensor([1]))),
            attempt(lambda: layer(ones(8), m.tensor([1]))),
            attempt(lambda: layer(ones(1, 8), m.tensor(1))),
            attempt(lambda: layer(ones(1, 8), m.tensor([[1]]))),
            attempt(lambda: layer(ones(2, 8), m.tensor([1, 12]))),
            attempt(lambda: layer(ones(2, 8), m.tensor([-1, 1]))),
            attempt(lambda: layer(ones(2, 7), m.tensor([1, 2]))),
        ]

    assert calls(ours, rg) == calls(theirs, torch)


def test_reset_parameters_of_the_adaptive_softmax_draws_anew() -> None:
    layer = build(rg.nn)
    before = [p.detach().clone() for p in layer.parameters()]
    layer.reset_parameters()
    assert not any((p == q).all() for p, q in zip(layer.parameters(), before, strict=True))
