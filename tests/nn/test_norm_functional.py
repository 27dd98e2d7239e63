"""Normalisation beyond the rows of the table: running statistics, accuracy, blocks, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.ops import _rows
from tests.parity import attempt, check_both_refuse, check_message, parity

F = rg.nn.functional


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@parity
def test_running_statistics_agree_with_torch(library: Any) -> Any:
    report = []
    for shape in ((5, 3), (4, 3, 2), (2, 3, 2, 2)):
        x = library.tensor(normal(*shape), dtype=library.float32)
        mean, var = library.zeros(3), library.ones(3)
        for momentum in (0.1, 1.0, 0.0):
            library.nn.functional.batch_norm(x, mean, var, training=True, momentum=momentum)
            report += [mean.clone(), var.clone()]
        if len(shape) > 2:
            library.nn.functional.instance_norm(x, mean, var, momentum=0.3)
            report += [mean, var]
    return report


@parity
def test_running_statistics_have_no_history(library: Any) -> Any:
    x = library.ones(2, 3, requires_grad=True) * 2
    mean, var = library.zeros(3), library.ones(3)
    library.nn.functional.batch_norm(x, mean, var, training=True)
    return mean.requires_grad, var.requires_grad


@parity
def test_running_statistics_that_require_grad_are_refused(library: Any) -> Any:
    """They would not be trained. Under no_grad they are accepted."""
    f, report = library.nn.functional, []
    for which in (0, 1):
        for by_batch in (False, True):
            running = [library.zeros(3), library.ones(3)]
            running[which].requires_grad_()

            def of_batch(running: Any = running, by_batch: bool = by_batch) -> Any:
                return f.batch_norm(library.ones(2, 3, requires_grad=True), *running, training=by_batch)

            def of_samples(running: Any = running, by_batch: bool = by_batch) -> Any:
                return f.instance_norm(library.ones(2, 3, 2), *running, use_input_stats=by_batch)

            for call in (of_batch, of_samples):
                report.append(attempt(call))
                with library.no_grad():
                    report.append(call())
            report += running
    return report


@parity
def test_tangents_of_running_statistics_are_refused(library: Any) -> Any:
    forward, report = library.autograd.forward_ad, []
    for duals in ((0,), (1,), (0, 1), (0, 2), (0, 1, 2)):
        operands = [library.tensor(normal(3, 2)), library.tensor(normal(2)), library.ones(2, dtype=library.float64)]
        for training in (False, True):
            with forward.dual_level():
                for dual in duals:
                    operands[dual] = forward.make_dual(operands[dual], library.ones_like(operands[dual]))

                def call(operands: Any = operands, training: bool = training) -> Any:
                    result = library.nn.functional.batch_norm(*operands, training=training)
                    return forward.unpack_dual(result).tangent

                report.append(attempt(call))
    return report


def test_running_statistics_are_updated_once_in_anomaly_mode() -> None:
    """Recomputation by a monitor must not update buffers again."""
    x = rg.randn(6, 3, requires_grad=True)
    alone, watched = rg.zeros(3), rg.zeros(3)
    F.batch_norm(x, alone, rg.ones(3), training=True).sum().backward()
    with rg.autograd.detect_anomaly():
        F.batch_norm(x, watched, rg.ones(3), training=True).sum().backward()
    assert (alone == watched).all()


NORMS: dict[str, Callable[..., Any]] = {
    "layer": lambda F, x, w, b: F.layer_norm(x, (x.shape[-1],)),
    "rms": lambda F, x, w, b: F.rms_norm(x, (x.shape[-1],)),
    "group": lambda F, x, w, b: F.group_norm(x, 2, w, b),
    "batch": lambda F, x, w, b: F.batch_norm(x, None, None, w, b, True),
    "instance": lambda F, x, w, b: F.instance_norm(x, weight=w, bias=b),
}


@pytest.mark.parametrize("name", NORMS)
def test_normalisation_in_blocks_agrees_with_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With blocks of a few rows and a shorter last block."""
    monkeypatch.setattr(_rows, "BLOCK", 50)
    results = []
    for library in (torch, rg):
        x, w, b = (library.tensor(normal(*shape), requires_grad=True) for shape in ((7, 4, 10), (4,), (4,)))
        y = NORMS[name](library.nn.functional, x, w, b)
        leaves = [x, w, b] if name in ("group", "batch", "instance") else [x]
        gradients = library.autograd.grad((y * library.tensor(normal(7, 4, 10, seed=1))).sum(), leaves)
        results.append([y.detach().numpy(), *(each.numpy() for each in gradients)])
    for theirs, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["layer", "group", "batch", "instance"])
def test_normalisation_stays_accurate_with_a_large_mean(name: str) -> None:
    """The variance is computed from deviations from the mean, not as a difference of large squares."""
    x = (normal(8, 4, 32) * 64).round() / 64 + 4096  # exact in single precision
    results = []
    for dtype in (rg.float64, rg.float32):
        leaf = rg.tensor(x, dtype=dtype, requires_grad=True)
        y = NORMS[name](F, leaf, None, None)
        (y * rg.tensor(normal(8, 4, 32, seed=1), dtype=dtype)).sum().backward()
        results.append((y.detach().numpy(), leaf.grad.numpy()))
    for exact, single in zip(*results, strict=True):
        np.testing.assert_allclose(single, exact, atol=2e-3)


@parity
def test_layer_norm_of_constant_rows(library: Any) -> Any:
    x = library.full((2, 4), 3.0, requires_grad=True)
    y = library.nn.functional.layer_norm(x, (4,))
    y.sum().backward()
    return y, x.grad


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 4), (2, 3, 0)])
def test_batch_norm_of_an_empty_batch(shape: tuple[int, ...]) -> None:
    outcomes = []
    for library in (torch, rg):
        input = library.zeros(shape, requires_grad=True)
        layer = library.nn.BatchNorm1d(3)
        result = layer(input)
        result.sum().backward()
        outcomes.append(
            (
                tuple(result.shape),
                tuple(input.grad.shape),
                [x.tolist() for x in (layer.running_mean, layer.running_var, layer.weight.grad, layer.bias.grad)],
                int(layer.num_batches_tracked),
            )
        )
    assert outcomes[0] == outcomes[1]


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "batch running": lambda L, F: F.batch_norm(L.ones(4, 3), None, None),
    "batch channels": lambda L, F: F.batch_norm(L.ones(4, 3), L.zeros(2), L.ones(2)),
    "batch weight": lambda L, F: F.batch_norm(L.ones(4, 3), L.zeros(3), L.ones(3), L.ones(2)),
    "batch of one": lambda L, F: F.batch_norm(L.ones(1, 3), None, None, training=True),
    "batch vector": lambda L, F: F.batch_norm(L.ones(3), None, None, training=True),
    "batch integers": lambda L, F: F.batch_norm(L.ones(4, 3).long(), None, None, training=True),
    "batch momentum": lambda L, F: F.batch_norm(L.ones(4, 3), None, None, training=True, momentum=None),
    "batch dtype": lambda L, F: F.batch_norm(L.ones(4, 3), None, None, L.ones(3, dtype=L.float64), training=True),
    "batch eps in training": lambda L, F: F.batch_norm(L.ones(4, 3), None, None, training=True, eps=0.0),
    "batch eps": lambda L, F: F.batch_norm(L.ones(4, 3), L.zeros(3), L.ones(3), eps=-1.0),
    "instance of one": lambda L, F: F.instance_norm(L.ones(4, 3, 1)),
    "instance running": lambda L, F: F.instance_norm(L.ones(4, 3, 2), use_input_stats=False),
    "layer shape": lambda L, F: F.layer_norm(L.ones(4, 3), (4,)),
    "layer number": lambda L, F: F.layer_norm(L.ones(4, 3), 3),
    "layer empty": lambda L, F: F.layer_norm(L.ones(4, 3), ()),
    "layer weight": lambda L, F: F.layer_norm(L.ones(4, 3), (3,), L.ones(2)),
    "layer dtype": lambda L, F: F.layer_norm(L.ones(4, 3), (3,), L.ones(3, dtype=L.float64)),
    "layer integers": lambda L, F: F.layer_norm(L.ones(4, 3).long(), (3,)),
    "rms shape": lambda L, F: F.rms_norm(L.ones(4, 3), (4,)),
    "group channels": lambda L, F: F.group_norm(L.ones(4, 3), 2),
    "group weight": lambda L, F: F.group_norm(L.ones(4, 3), 3, L.ones(2)),
    "group vector": lambda L, F: F.group_norm(L.ones(3), 3),
    "group of one": lambda L, F: F.group_norm(L.ones(1, 3), 3),
    "response matrix": lambda L, F: F.local_response_norm(L.ones(4, 3), 2),
    "no tensor": lambda L, F: F.layer_norm([1.0], (1,)),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_arguments_of_normalisation_are_refused(mistake: str) -> None:
    check_both_refuse(lambda library: WRONG[mistake](library, library.nn.functional))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: F.layer_norm(rg.ones(2, 3), (4,)), ["normalized_shape=[4]", "[*, 4]", "[2, 3]"]),
        (lambda: F.layer_norm(rg.ones(2, 3), (3,), rg.ones(2)), ["weight of shape [2]", "[3]"]),
        (lambda: F.batch_norm(rg.ones(2, 3), rg.zeros(2), rg.ones(3)), ["running_mean", "3 elements", "not 2"]),
        (lambda: F.batch_norm(rg.ones(1, 3), None, None, training=True), ["more than 1 value", "[1, 3]"]),
        (lambda: F.group_norm(rg.ones(2, 3), 2), ["divisible", "[2, 3]", "num_groups=2"]),
    ],
)
def test_errors_of_normalisation_say_what_was_wrong(call: Callable[[], Any], words: list[str]) -> None:
    check_message(call, words)
