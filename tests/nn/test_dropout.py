"""Dropout and other random layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity

F = rg.nn.functional


@pytest.fixture(autouse=True)
def seeded() -> None:
    rg.manual_seed(0)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [rg.float32, rg.float64, rg.float16])
def test_dropout_keeps_the_expectation(p: float, dtype: Any) -> None:
    y = F.dropout(rg.ones(40000, dtype=dtype), p)
    assert y.dtype == dtype
    values = y.numpy().astype(float)
    np.testing.assert_allclose(np.unique(values), [0, 1 / (1 - p)], rtol=1e-3)
    # five standard deviations of the fraction of zeros
    assert abs((values == 0).mean() - p) < 5 * np.sqrt(p * (1 - p) / values.size)


def test_dropout_gradient_passes_only_kept_elements() -> None:
    x = rg.ones(100, requires_grad=True)
    y = F.dropout(x, 0.3)
    y.sum().backward()
    assert (x.grad == y.detach()).all()


@parity
def test_dropout_with_probability_0_or_1_and_in_evaluation(m: Any) -> Any:
    f, x = m.nn.functional, m.ones(3)
    return [
        f.dropout(x, 0.0),
        f.dropout(x, 1.0),
        f.dropout(x, 0.5, training=False) is x,
        f.alpha_dropout(x, 1.0, training=True),
        f.alpha_dropout(x, 0.5) is x,
        f.dropout2d(m.ones(2, 3, 1, 1), 1.0).shape,
        m.nn.Dropout(0.5).eval()(x) is x,
        [attempt(lambda p=p: f.dropout(x, p)) for p in (-0.1, 1.1)],
        [attempt(lambda p=p: m.nn.Dropout(p)) for p in (-0.1, 1.1)],
        attempt(lambda: f.dropout1d(m.ones(3))),
    ]


@parity
def test_dropout_probability_may_be_a_tensor(m: Any) -> Any:
    shapes = {"Dropout": (200,), "Dropout1d": (2, 100, 2), "Dropout2d": (2, 100, 2, 2), "Dropout3d": (1, 100, 2, 2, 2)}
    shapes.update({"AlphaDropout": (200,), "FeatureAlphaDropout": (2, 100, 2)})
    values = [getattr(m.nn, name)(m.tensor(0.5))(m.ones(shape)) for name, shape in shapes.items()]
    alpha = m.nn.functional.alpha_dropout(m.ones(3), m.tensor(1.0), training=True)
    return [[value.unique() for value in values], alpha, attempt(lambda: m.nn.functional.dropout(alpha, m.tensor(2.0)))]


@parity
def test_dropout_in_place(m: Any) -> Any:
    x = m.ones(3)
    y = m.nn.functional.dropout(x, 1.0, inplace=True)
    return [y is x, x]


@parity
def test_alpha_dropout_layers_do_not_write_to_their_input(m: Any) -> Any:
    """The layer before may need its output for its gradient."""
    report = []
    for layer in (m.nn.AlphaDropout(0.5, inplace=True), m.nn.FeatureAlphaDropout(0.5, inplace=True)):
        x = m.ones(2, 3, 4, requires_grad=True)
        hidden = x.tanh()
        layer(hidden).sum().backward()
        report += [hidden, x.grad.isfinite().all().item(), layer.eval()(hidden) is hidden]
    return report


@pytest.mark.parametrize(
    ("function", "shape", "dims"),
    [
        (F.dropout1d, (20, 30, 5), 2),
        (F.dropout1d, (500, 5), 1),
        (F.dropout2d, (20, 30, 5, 2), 2),
        (F.dropout3d, (20, 30, 5, 2, 2), 2),
        (F.dropout3d, (500, 5, 2, 2), 1),
        (lambda x, p: F.feature_alpha_dropout(x, p, training=True), (20, 30, 5), 2),
    ],
)
def test_channels_are_dropped_as_a_whole(function: Any, shape: tuple[int, ...], dims: int) -> None:
    y = function(rg.ones(shape), 0.4).numpy()
    channels = y.reshape(*shape[:dims], -1)
    assert (channels == channels[..., :1]).all()
    dropped = (channels[..., 0] == channels.min()).mean()
    assert abs(dropped - 0.4) < 5 * np.sqrt(0.24 / channels[..., 0].size)


@pytest.mark.parametrize(
    ("function", "shape"), [(F.dropout2d, (2, 3, 4)), (F.dropout2d, (2, 3)), (F.dropout3d, (2, 3))]
)
def test_channel_dropout_warns_about_unusual_dimensions(function: Any, shape: tuple[int, ...]) -> None:
    with pytest.warns(UserWarning, match="Received a"):
        function(rg.ones(shape), 0.5)


@pytest.mark.parametrize("p", [0.2, 0.6])
def test_alpha_dropout_keeps_mean_and_variance(p: float) -> None:
    x = rg.randn(200000, dtype=rg.float64, requires_grad=True)
    y = F.alpha_dropout(x, p, training=True)
    assert abs(y.mean().item()) < 0.02
    assert abs(y.std().item() - 1) < 0.02
    y.sum().backward()
    assert len(x.grad.unique()) == 2


def test_seed_makes_dropout_masks_repeatable() -> None:
    x = rg.ones(100)
    rg.manual_seed(3)
    first = F.dropout(x)
    rg.manual_seed(3)
    assert (F.dropout(x) == first).all()


def test_rrelu_is_random_in_training_only() -> None:
    x = rg.tensor([-1.0] * 1000 + [2.0], requires_grad=True)
    layer = rg.nn.RReLU(0.1, 0.3)
    y = layer(x)
    slopes = -y.detach().numpy()[:-1]
    assert y[-1] == 2
    assert slopes.min() >= 0.1
    assert slopes.max() <= 0.3
    assert slopes.std() > 0.04
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy()[:-1], slopes, rtol=1e-6)
    np.testing.assert_allclose(layer.eval()(x).detach().numpy()[:-1], -0.2, rtol=1e-6)
    z = rg.tensor([-1.0, 2.0])
    assert F.rrelu_(z, 0.5, 0.5, training=True) is z
    assert z.tolist() == [-0.5, 2.0]
    with pytest.raises(RuntimeError, match="upper bound"):
        F.rrelu(x, 0.5, 0.1)


def test_gumbel_softmax_samples_by_probability() -> None:
    probabilities = np.array([0.2, 0.5, 0.3])
    logits = rg.tensor(np.tile(np.log(probabilities), (20000, 1)), requires_grad=True)
    hard = F.gumbel_softmax(logits, hard=True)
    assert (hard.sum(-1) - 1).abs().max() < 1e-12
    np.testing.assert_allclose(hard.detach().numpy().mean(0), probabilities, atol=0.02)
    soft = F.gumbel_softmax(logits, tau=0.5)
    assert (soft.sum(-1) - 1).abs().max() < 1e-12
    (hard * rg.arange(3)).sum().backward()
    assert (logits.grad != 0).any()


@pytest.mark.parametrize("name", ["dropout", "dropout1d", "alpha_dropout", "feature_alpha_dropout"])
@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_dropout_refuses_integers_and_booleans(name: str, dtype: str) -> None:
    for library in (torch, rg):
        x = library.ones(4, 3, dtype=getattr(library, dtype))
        with pytest.raises(RuntimeError, match=r"bool|int64|Bool|Long"):
            getattr(library.nn.functional, name)(x, 0.5, training=True)
