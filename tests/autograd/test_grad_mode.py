"""Nested grad modes and inference mode, compared with torch."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as rg
from tests.parity import attempt, parity


def observed(lib: Any, x: Any) -> list[Any]:
    """Report how operations behave in the current mode."""
    y = x * 2
    part = x[1:]
    z = x.clone()
    z.mul_(3)
    return [y.requires_grad, y.is_inference(), z.requires_grad, part.is_inference(), lib.is_inference_mode_enabled()]


@parity
def test_nothing_is_recorded_in_inference_mode(lib: Any) -> Any:
    report = []
    x = lib.ones(3, requires_grad=True)
    with lib.inference_mode():
        with lib.enable_grad():
            report.append(observed(lib, x))
            x.mul_(2)  # elsewhere this write would be refused
            lib.exp(x, out=x)
        with lib.inference_mode(False):
            report.append(observed(lib, x))
            with lib.no_grad():
                report.append(observed(lib, x))
        lib.set_grad_enabled(True)
        report.append(observed(lib, x))
    return [*report, observed(lib, x), x._version, lib.is_grad_enabled()]


@parity
def test_gradients_of_gradients_are_not_recorded_in_inference_mode(lib: Any) -> Any:
    x = lib.ones(3, requires_grad=True)
    loss = (x * x).sum()
    with lib.inference_mode():
        (g,) = lib.autograd.grad(loss, x, create_graph=True)
    return [g, g.requires_grad, g.is_inference()]


def test_is_grad_enabled_is_false_in_inference_mode() -> None:
    """torch returns True, although nothing is recorded."""
    with rg.inference_mode(), rg.enable_grad():
        assert not rg.is_grad_enabled()
    assert rg.is_grad_enabled()


@pytest.mark.parametrize("mode", [None, 1, "train"])
def test_set_grad_enabled_takes_a_bool(mode: Any) -> None:
    @parity
    def program(lib: Any) -> Any:
        return [attempt(lambda: lib.set_grad_enabled(mode)), lib.is_grad_enabled()]

    program()


@parity
def test_inference_mode_as_a_decorator(lib: Any) -> Any:
    @lib.inference_mode
    def within(x: Any) -> Any:
        return x * 2

    @lib.inference_mode(False)
    def outside(x: Any) -> Any:
        return x * 2

    @lib.inference_mode()
    def one_by_one(x: Any) -> Any:
        yield x * 2

    x = lib.ones(2, requires_grad=True)
    report = [[f(x).is_inference(), f(x).requires_grad] for f in (within, outside, lambda x: next(one_by_one(x)))]
    with lib.inference_mode():
        report.append([outside(x).is_inference(), outside(x).requires_grad])
    return [*report, lib.is_inference_mode_enabled(), lib.is_grad_enabled()]
