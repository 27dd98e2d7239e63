"""A remedy that removes a NaN must not destroy the training: a step with it does not raise the loss tenfold."""

from __future__ import annotations

import pytest

from tests.anomaly.both import executed, libraries, mended, run, runs

START = """
X = torch.tensor([[0.1, -0.4, 0.3], [0.5, 0.5, 0.5], [0.9, -0.2, 0.4], [-0.3, 0.2, 0.6]])
Y = torch.tensor([0.1, 0.9, 0.4, 0.2])
w = torch.tensor([0.3, 0.2, 0.4], requires_grad=True)
mu = X @ w
"""
LOSSES = {
    "Gaussian likelihood": "var = X.var(1)\nloss = (0.5 * torch.log(var) + 0.5 * (Y - mu) ** 2 / var).mean()",
    "Gaussian with a factor": "var = X.var(1)\nloss = (torch.log(var) / 2 + (Y - mu) ** 2 / (2 * var)).mean()",
    "Laplace likelihood": "b = X.var(1)\nloss = (torch.log(2 * b) + (Y - mu).abs() / b).mean()",
    "weighted error": "s = X.var(1)\nloss = ((Y - mu) ** 2 / s).mean()",
    "share of the variance": "t = 0 * Y + 0.5\nloss = ((t - mu) ** 2).sum() / ((t - t.mean()) ** 2).sum()",
}


def losses(code: str, library: str) -> list[float]:
    """The losses before and after a step of gradient descent, without the elements that were at fault."""
    scope = executed(library, code)
    before, w = scope["loss"].item(), scope["w"]
    stepped = f"torch.tensor({(w - 1e-3 * w.grad).tolist()}, requires_grad=True)"
    exec(code.replace("torch.tensor([0.3, 0.2, 0.4], requires_grad=True)", stepped), scope)
    return [before, scope["loss"].item()]


@runs
@libraries
@pytest.mark.parametrize("name", LOSSES)
def test_a_step_with_the_remedy_does_not_raise_the_loss_tenfold(name: str, library: str, steps: bool) -> None:
    text = f"{START}{LOSSES[name]}\nloss.backward()"
    event = run(library, text, steps).event
    assert event is not None
    assert event.remedy is not None
    before, after = losses(mended(text, event), library)
    assert abs(after) < 10 * max(abs(before), 1)
    assert abs(before) < 100, event.remedy
