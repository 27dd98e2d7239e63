"""A clamp is a remedy for rounding; what is further outside a domain has another cause, which it would hide."""

from __future__ import annotations

import pytest

from retrograd.anomaly.catalogue import diagnose
from tests.anomaly.programs import leaf
from tests.anomaly.tracing import run


@pytest.mark.parametrize(
    ("setup", "code"),
    [
        (leaf("[3.0, -2.0]"), "y = torch.log(x)"),
        (leaf("[3.0, -2.0]"), "y = torch.log1p(x)"),
        (leaf("[3.0, 0.3]"), "y = torch.sqrt(x**2 - 1)"),
        (leaf("[0.5, 1.5]"), "y = torch.acos(x)"),
        (leaf("[0.5, 1.2]"), "y = torch.logit(x)"),
    ],
)
def test_an_argument_far_outside_the_domain_is_not_clamped(setup: str, code: str) -> None:
    found = diagnose(run(code, setup))
    assert "more than rounding" in found.cause
    assert found.remedy is None


@pytest.mark.parametrize("code", ["y = torch.sqrt((x**2).mean() - 1e12)", "y = torch.log((x - 0.02) - 1e6)"])
def test_rounding_in_a_difference_of_large_numbers_is_clamped(code: str) -> None:
    """Rounding is as large as the numbers are."""
    found = diagnose(run(code, leaf("[999999.9, 999999.9]")))
    assert found.remedy is not None, found.cause
    assert "clamp" in found.remedy
