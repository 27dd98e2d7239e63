"""A NaN that was taken out of the loss comes back in the gradient: zero times NaN is NaN, and raises no flag."""

from __future__ import annotations

import pytest

from tests.anomaly.both import line, only_event, run

PADDING = """
inner, head = nn.Linear(4, 4), nn.Linear(4, 3)
x = torch.randn(2, 3, 4)
padded = torch.tensor([[False] * 3, [True] * 3])
h = inner(x)
scores = (h @ h.mT).masked_fill(padded[:, None], -float("inf"))
weights = scores.softmax(-1)  # born here
out = head(x + weights @ h)
loss = F.cross_entropy(out[~padded], torch.zeros(3, dtype=torch.int64))
loss.backward()
"""


@pytest.mark.parametrize(("library", "steps"), [("retrograd", False), ("retrograd", True), ("torch", True)])
def test_masked_rows_that_the_loss_leaves_out_are_explained(library: str, steps: bool) -> None:
    event = only_event(run(library, PADDING, steps))
    assert (event.op, event.index, event.lineno) == ("softmax", (1, 0, 0), line(PADDING))
    assert "nothing is left to attend to" in (event.cause or "")
