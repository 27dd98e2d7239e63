"""A variable may hold a module: what is called from it is a function of its arguments, not a method."""

from __future__ import annotations

import numpy as np
import pytest

from tests.anomaly.both import executed, libraries, mended, run

PROGRAM = """
def get_namespace(x):
    return torch
x = torch.tensor([0.0, 0.5], requires_grad=True)
xp = get_namespace(x)
y = {}
y.backward()
"""


@libraries
@pytest.mark.parametrize(
    "code", ["xp.special.entr(x).sum()", "xp.sum(xp.special.entr(x))", "xp.sum(x * xp.log(x)) + 0 * xp.zeros(())"]
)
def test_the_argument_of_a_function_of_the_module_is_clamped(code: str, library: str) -> None:
    text = PROGRAM.format(code)
    event = run(library, text, True).event
    assert event is not None
    assert event.remedy is not None
    assert "x, min=1e-12)" in event.remedy
    scope = executed(library, mended(text, event))
    np.testing.assert_allclose(abs(scope["y"].item()), -0.5 * np.log(0.5), rtol=1e-6)
    assert np.isfinite(scope["x"].grad.numpy()).all()
